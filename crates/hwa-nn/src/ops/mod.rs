//! The operations that layers and models are made of.
//!
//! A network is recorded as [`Features`](crate::Features). On Burn's CPU backend, Flex, it
//! runs as one operation on the kernels of `hwa-kernels` (`network`), through an extension
//! of that backend (`dispatch`). On every other backend, and where the kernels do not cover
//! it, it runs on Burn's own operations (`standard`). What comes after the network works on
//! tensors, and is here; the loss (`loss`) has both ways, too.

pub(crate) mod dispatch;
mod loss;
pub(crate) mod network;
pub(crate) mod standard;

use burn::tensor::Tensor;

pub use hwa_kernels::Activation;
pub use loss::cross_entropy;

/// How a convolution moves over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// Pixels from one output to the next, in both directions.
    pub stride: usize,
    /// Zeros on each side, in both directions.
    pub padding: usize,
    /// Groups of channels that are convolved separately.
    pub groups: usize,
}

/// `x * weight^T + bias` for `[N, I]` and weights `[O, I]`, as PyTorch stores them.
pub fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    // Weights first: so their gradient comes out as they are laid out, and a hundred million
    // of them need not be transposed.
    let y = weight.matmul(x.transpose()).transpose();
    match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
}
