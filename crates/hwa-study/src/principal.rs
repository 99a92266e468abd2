//! The plane in which a run has moved most.

use hwa_core::Weights;
use nalgebra::{DMatrix, SymmetricEigen};

use crate::direction::Direction;
use crate::error::StudyError;
use crate::frame::{ROUNDING, length_of};

/// The two principal directions of some weights.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The directions, each of length 1, at a right angle.
    pub axes: [Direction; 2],
    /// The share of all squared distances from the centre that each accounts for.
    pub explained: [f64; 2],
}

/// The two directions from `centre` that account for most of the way to the others (PCA, with
/// the last weights as the centre, as in Li et al. 2018).
///
/// There are far fewer weights than parameters, so the eigenvectors are those of the matrix of
/// inner products. Their signs are chosen so that the first of the weights has no negative
/// coordinates.
pub fn principal(centre: &Weights, weights: &[Weights]) -> Result<Principal, StudyError> {
    let ways: Vec<Direction> = weights
        .iter()
        .map(|weights| Direction::between(centre, weights))
        .collect::<Result<_, _>>()?;
    if ways.len() < 2 {
        // The eigenvectors of an empty matrix are not asked for: nalgebra panics.
        return Err(StudyError::OnALine);
    }
    let gram = DMatrix::from_fn(ways.len(), ways.len(), |i, j| match i <= j {
        true => ways[i].dot(&ways[j]),
        false => 0.0,
    });
    let gram = DMatrix::from_fn(ways.len(), ways.len(), |i, j| gram[(i.min(j), i.max(j))]);
    let total: f64 = gram.diagonal().sum();
    let eigen = SymmetricEigen::new(gram);
    let mut order: Vec<usize> = (0..ways.len()).collect();
    order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]));
    let rounding = ROUNDING * length_of(centre);
    let axis = |number: usize| -> Option<(Direction, f64)> {
        let column = *order.get(number)?;
        let value = eigen.eigenvalues[column];
        if value.is_nan() || value <= (1e-9 * total).max(rounding * rounding) {
            return None;
        }
        let shares = eigen.eigenvectors.column(column);
        let nothing = ways.first()?.clone().times(0.0);
        let sum = ways.iter().zip(shares.iter()).fold(nothing, |sum, (way, s)| sum.plus(*s, way));
        let sign = if ways.first()?.dot(&sum) < 0.0 { -1.0 } else { 1.0 };
        let length = sum.norm();
        Some((sum.times(sign / length), value / total))
    };
    let (first, second) = axis(0).zip(axis(1)).ok_or(StudyError::OnALine)?;
    Ok(Principal { axes: [first.0, second.0], explained: [first.1, second.1] })
}

#[cfg(test)]
mod tests {
    use hwa_core::Tensor;

    use super::*;

    fn at(values: [f32; 3]) -> Weights {
        let mut weights = Weights::new();
        weights.insert("w", Tensor::parameter(vec![3], values.to_vec()).unwrap()).unwrap();
        weights
    }

    #[test]
    fn the_way_of_a_run_is_found_by_its_lengths() {
        // 9 + 9 along the first axis, 1 + 1 along the second, nothing along the third.
        let weights =
            [[3.0, 0.0, 0.0], [-3.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]].map(at);
        let Principal { axes, explained } = principal(&at([0.0; 3]), &weights).unwrap();
        let is = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(is(explained[0], 0.9) && is(explained[1], 0.1), "{explained:?}");
        let along = |axis: &Direction| axis.get("w").unwrap().to_vec();
        assert!(is(along(&axes[0])[0], 1.0), "{:?}", along(&axes[0]));
        assert!(is(along(&axes[1])[1].abs(), 1.0));
        assert!(is(axes[0].dot(&axes[1]), 0.0) && is(axes[1].norm(), 1.0));
    }

    #[test]
    fn weights_on_a_line_have_no_plane() {
        let weights = [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]].map(at);
        for some in [&weights[..], &weights[..1], &[]] {
            let error = principal(&at([0.0; 3]), some).unwrap_err();
            assert!(matches!(error, StudyError::OnALine), "{error}");
        }
    }

    #[test]
    fn weights_that_are_not_finite_have_no_plane_and_that_is_why() {
        let bad = at([0.0, f32::NAN, 0.0]);
        let fine = [[3.0, 0.0, 0.0], [0.0, 1.0, 0.0]].map(at);
        let among = [&fine[..], std::slice::from_ref(&bad)].concat();
        for found in [principal(&at([0.0; 3]), &among), principal(&bad, &fine)] {
            let error = found.unwrap_err();
            assert!(matches!(&error, StudyError::Diverged { tensor } if tensor == "w"), "{error}");
        }
    }
}
