//! The loss of a classifier.
//!
//! On the kernels the value and the gradient come from one pass, and the way back only hands
//! the gradient on. Everywhere else Burn's own operations compute both.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Dispatch, Flex, TensorMetadata};
use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use super::dispatch::Operations;
use crate::pass::Pass;

/// The cross entropy of the softmax of `[N, classes]` scores, averaged over the batch. As in
/// PyTorch, a score of minus infinity is a class that cannot be; a row with a NaN, with plus
/// infinity or without any class that can be has NaN for its loss and gradients.
///
/// # Panics
///
/// If there is not one label for every row, or a label is not below the number of classes.
pub fn cross_entropy(scores: Tensor<2>, labels: &[u32], pass: &Pass) -> Tensor<1> {
    let on_kernels = !pass.is_on_standard_operations()
        && scores.device() == Device::flex()
        && scores.dtype() == DType::F32;
    match on_kernels {
        true => {
            Tensor::from_dispatch(Dispatch::cross_entropy(scores.into_dispatch(), labels.to_vec()))
        }
        false => on_standard_operations(scores, labels),
    }
}

fn on_standard_operations(scores: Tensor<2>, labels: &[u32]) -> Tensor<1> {
    let places: Vec<i64> = labels.iter().map(|&label| i64::from(label)).collect();
    let places = TensorData::new(places, [labels.len(), 1]);
    let places = Tensor::<2, Int>::from_data(places, &scores.device());
    log_softmax(scores, 1).gather(1, places).mean().neg()
}

/// The loss, and its gradient by the scores.
pub(super) fn on_flex(
    scores: FloatTensor<Flex>,
    labels: &[u32],
) -> (FloatTensor<Flex>, FloatTensor<Flex>) {
    let scores = scores.to_contiguous();
    let (shape, numbers) = (scores.shape(), scores.as_slice::<f32>().unwrap_or_default());
    let mut gradient = vec![0.0; numbers.len()];
    let loss = hwa_kernels::cross_entropy(numbers, labels, shape[1], &mut gradient);
    let tensor = |data| Flex::float_from_data(data, &Default::default());
    (tensor(TensorData::new(vec![loss as f32], [1])), tensor(TensorData::new(gradient, shape)))
}
