//! The loss of a classifier: softmax and cross entropy, and the gradient of the scores.
//!
//! ```text
//! loss     = mean over images of  log(sum of exp(score)) - score of the label
//! gradient = (softmax - one at the label) / images
//! ```
//!
//! Scores are taken relative to the largest, so that no exponential overflows. Between reading
//! scores and writing gradients all is `f64`: there are few of them.

use std::ops::Range;

use crate::parallel;

/// Scores that are worth a part of their own.
const PART: usize = 4 * 1024;

/// The mean loss of `[images, classes]` scores, each label below `classes`, and the gradient
/// of it. A score that is NaN makes the loss and the gradients of its image NaN.
///
/// # Panics
///
/// If a slice does not have the length that the others ask for, or a label is too large.
pub fn cross_entropy(scores: &[f32], labels: &[u32], classes: usize, gradients: &mut [f32]) -> f64 {
    let images = labels.len();
    assert_eq!((scores.len(), gradients.len()), (images * classes, images * classes));
    let parts = parallel::ranges(images, scores.len() / PART);
    let pieces = parallel::split(gradients, parts.iter().map(|part| part.len() * classes));
    let items = parts.into_iter().zip(pieces).collect();
    let losses = parallel::map(items, |(part, gradients): (Range<usize>, &mut [f32])| {
        let scores = scores[part.start * classes..part.end * classes].chunks(classes.max(1));
        let rows = scores.zip(gradients.chunks_mut(classes.max(1)));
        let one = |((scores, gradients), &label)| image(scores, label, images, gradients);
        rows.zip(&labels[part]).map(one).sum::<f64>()
    });
    losses.iter().sum::<f64>() / images as f64
}

/// The loss of one of `images`.
fn image(scores: &[f32], label: u32, images: usize, gradients: &mut [f32]) -> f64 {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let above = |score: f32| f64::from(score) - f64::from(largest);
    let sum: f64 = scores.iter().map(|&score| above(score).exp()).sum();
    let label = label as usize;
    for (class, (&score, gradient)) in scores.iter().zip(gradients).enumerate() {
        let expected = if class == label { 1.0 } else { 0.0 };
        *gradient = ((above(score).exp() / sum - expected) / images as f64) as f32;
    }
    sum.ln() - above(scores[label])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expected::assert_threads_change_nothing;
    use crate::reference::noise;
    use proptest::prelude::*;

    fn labels(images: usize, classes: usize) -> Vec<u32> {
        (0..images).map(|i| (i * 7 % classes) as u32).collect()
    }

    fn loss(scores: &[f32], labels: &[u32], classes: usize) -> f64 {
        cross_entropy(scores, labels, classes, &mut vec![0.0; scores.len()])
    }

    #[test]
    fn equal_scores_give_the_logarithm_of_the_number_of_classes() {
        // Two images, four classes: softmax 1/4, and a half of it per image.
        let mut gradients = [f32::NAN; 8];
        let loss = cross_entropy(&[3.0; 8], &[0, 2], 4, &mut gradients);
        assert!((loss - 4f64.ln()).abs() < 1e-15);
        let expected = [-3.0, 1.0, 1.0, 1.0, 1.0, 1.0, -3.0, 1.0].map(|x| x / 8.0);
        assert_eq!(gradients, expected);
    }

    #[test]
    fn large_scores_neither_overflow_nor_vanish() {
        let mut gradients = [f32::NAN; 3];
        let loss = cross_entropy(&[1e4, -1e4, 0.0], &[1], 3, &mut gradients);
        assert_eq!((loss, gradients), (2e4, [1.0, -1.0, 0.0]));
        let loss = cross_entropy(&[1e4, -1e4, 0.0], &[0], 3, &mut gradients);
        assert_eq!((loss, gradients), (0.0, [0.0, 0.0, 0.0]));
    }

    #[test]
    fn a_nan_passes_through() {
        for place in 0..3 {
            let mut scores = [0.5, 1.0, -2.0, 0.0, 0.0, 0.0];
            scores[place] = f32::NAN;
            let mut gradients = [0.0; 6];
            assert!(cross_entropy(&scores, &[1, 1], 3, &mut gradients).is_nan());
            assert!(gradients[..3].iter().all(|g| g.is_nan()));
            assert!(gradients[3..].iter().all(|g| g.is_finite()));
        }
        assert!(loss(&[f32::NAN; 2], &[0], 2).is_nan());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn gradients_are_the_slopes_of_the_loss(images in 1..5usize, classes in 1..12usize) {
            let (scores, labels) = (noise(images * classes, 1), labels(images, classes));
            let mut gradients = vec![f32::NAN; scores.len()];
            cross_entropy(&scores, &labels, classes, &mut gradients);
            for i in 0..scores.len() {
                let at = |step: f32| {
                    let mut moved = scores.clone();
                    moved[i] += step;
                    (f64::from(moved[i]), loss(&moved, &labels, classes))
                };
                let ((low, below), (high, above)) = (at(-1e-3), at(1e-3));
                let slope = (above - below) / (high - low);
                prop_assert!((slope - f64::from(gradients[i])).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let (scores, labels) = (noise(300 * 101, 1), labels(300, 101));
        assert_threads_change_nothing(|| {
            let mut gradients = vec![0.0; scores.len()];
            (cross_entropy(&scores, &labels, 101, &mut gradients).to_bits(), gradients)
        });
    }
}
