//! How the gradient of all images changes along steps: how far it turns, and how much of that is
//! along the step itself.

use crate::direction::Direction;

/// What is measured along one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slope {
    /// |change| / |step|: what the change of the gradient is at most.
    pub(crate) lipschitz: f64,
    /// step · change / |step|²: linear in the change, so that noise in it makes no bias.
    pub(crate) curvature: f64,
}

impl Slope {
    /// Nothing if the step has no length.
    pub(crate) fn along(step: &Direction, change: &Direction) -> Option<Self> {
        let square = step.dot(step);
        (square > 0.0).then(|| Self {
            lipschitz: change.norm() / square.sqrt(),
            curvature: step.dot(change) / square,
        })
    }
}

/// The mean of some numbers, 0 of none, and its standard error, which fewer than two do not tell.
pub(crate) fn mean(numbers: &[f64]) -> (f64, Option<f64>) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count.max(1.0);
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    (mean, (numbers.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use hwa_core::{Tensor, Weights};

    use super::*;

    #[test]
    fn the_change_has_a_length_and_a_part_along_the_step() {
        let way = |values: [f32; 2]| {
            let mut weights = Weights::new();
            weights.insert("w", Tensor::parameter(vec![2], values.to_vec()).unwrap()).unwrap();
            Direction::along(&weights)
        };
        // |(6, 8)| / 2 = 5, and (2, 0) · (6, 8) / 4 = 3.
        let slope = Slope::along(&way([2.0, 0.0]), &way([6.0, 8.0]));
        assert_eq!(slope, Some(Slope { lipschitz: 5.0, curvature: 3.0 }));
        assert_eq!(Slope::along(&way([0.0, 0.0]), &way([6.0, 8.0])), None);
    }

    #[test]
    fn the_standard_error_of_a_mean_takes_two_numbers() {
        // 1, 2, 6: squares 4 + 1 + 9 = 14 around 3, so 14 / 2 / 3 is its variance.
        assert_eq!(mean(&[1.0, 2.0, 6.0]), (3.0, Some((7.0f64 / 3.0).sqrt())));
        assert_eq!((mean(&[4.0]), mean(&[])), ((4.0, None), (0.0, None)));
    }
}
