//! What a model has to be: a Burn module with one forward pass.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::pass::Pass;

/// A model that classifies images. Any Burn module becomes one by its forward pass.
pub trait Network: Module {
    /// Scores `[N, classes]` of images `[N, H, W, C]`.
    ///
    /// Batch-norm layers take `pass` and leave in it what they saw.
    fn forward(&self, images: Tensor<4>, pass: &mut Pass) -> Tensor<2>;
}
