//! How far weights are apart, and in which directions they lie.

use hwa_core::Weights;
use serde::{Deserialize, Serialize};

use crate::direction::Direction;
use crate::error::StudyError;

/// Distances between weights, and the angles between them as they are seen from a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Angles {
    /// How far each is from the point.
    pub lengths: Vec<f64>,
    /// The distance of each to each.
    pub distances: Vec<Vec<f64>>,
    /// The cosine of the angle, at the point, of each to each; `None` if one of them is there.
    pub cosines: Vec<Vec<Option<f64>>>,
}

impl Angles {
    /// Looks at weights from a point, such as where the models of a cycle began.
    pub fn seen_from(point: &Weights, weights: &[&Weights]) -> Result<Self, StudyError> {
        let ways: Vec<Direction> = weights
            .iter()
            .map(|weights| Direction::between(point, weights))
            .collect::<Result<_, _>>()?;
        let lengths: Vec<f64> = ways.iter().map(Direction::norm).collect();
        let mut distances = vec![vec![0.0; ways.len()]; ways.len()];
        let mut cosines = vec![vec![None; ways.len()]; ways.len()];
        for i in 0..ways.len() {
            // Rounding must not bend a way away from itself.
            cosines[i][i] = (lengths[i] > 0.0).then_some(1.0);
            for j in i + 1..ways.len() {
                distances[i][j] = Direction::between(weights[i], weights[j])?.norm();
                cosines[i][j] = ways[i].cosine(&ways[j]);
                (distances[j][i], cosines[j][i]) = (distances[i][j], cosines[i][j]);
            }
        }
        Ok(Self { lengths, distances, cosines })
    }
}

#[cfg(test)]
mod tests {
    use hwa_core::Tensor;

    use super::*;

    fn at(x: f32, y: f32) -> Weights {
        let mut weights = Weights::new();
        weights.insert("w", Tensor::parameter(vec![2], vec![x, y]).unwrap()).unwrap();
        weights
    }

    #[test]
    fn two_models_and_their_average_are_a_triangle() {
        // From (1, 1): one goes right by 3, one up by 4, the average is (2.5, 3).
        let (start, right, up, average) = (at(1.0, 1.0), at(4.0, 1.0), at(1.0, 5.0), at(2.5, 3.0));
        let angles = Angles::seen_from(&start, &[&right, &up, &average]).unwrap();
        assert_eq!(angles.lengths, [3.0, 4.0, 2.5]);
        assert_eq!(angles.distances[0], [0.0, 5.0, 2.5]);
        assert_eq!(angles.distances[1], [5.0, 0.0, 2.5]);
        assert_eq!(angles.cosines[0], [Some(1.0), Some(0.0), Some(0.6)]);
        assert_eq!(angles.cosines[2], [Some(0.6), Some(0.8), Some(1.0)]);
    }

    #[test]
    fn what_has_not_moved_has_no_angle() {
        let (start, moved) = (at(1.0, 1.0), at(2.0, 1.0));
        let angles = Angles::seen_from(&start, &[&start, &moved]).unwrap();
        assert_eq!(angles.cosines, [[None, None], [None, Some(1.0)]]);
        let none = Angles::seen_from(&start, &[]).unwrap();
        assert!(none.lengths.is_empty() && none.distances.is_empty());
    }

    #[test]
    fn weights_that_are_not_finite_are_refused() {
        let bad = at(0.0, f32::INFINITY);
        for (point, other) in [(&at(0.0, 0.0), &bad), (&bad, &at(0.0, 0.0))] {
            let error = Angles::seen_from(point, &[other]).unwrap_err();
            assert!(error.to_string().starts_with("`w` holds a NaN or an infinity"), "{error}");
        }
    }

    #[test]
    fn other_networks_are_refused() {
        let mut other = at(0.0, 0.0);
        other.insert("v", Tensor::parameter(vec![1], vec![0.0]).unwrap()).unwrap();
        let error = Angles::seen_from(&at(0.0, 0.0), &[&other]).unwrap_err();
        assert!(error.to_string().contains("`v` is not expected"), "{error}");
    }
}
