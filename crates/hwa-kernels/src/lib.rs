//! CPU kernels for convolutional networks, forward and backward, in `f32` on
//! `[N, H, W, C]`.
//!
//! ```text
//! simd       vectors of every CPU, chosen at run time
//! memory     aligned buffers, pooled
//! read       what a kernel reads: a tensor, or one computed as it is read
//! finish     what happens to results while they are still in the cache
//! product    the one matrix product that all convolutions run on
//! winograd   3x3 with stride 1: F(4x4, 3x3)
//! direct     every other dense convolution
//! depthwise  every channel by itself
//! grouped    groups of channels, a dense convolution for each
//! pool       the largest or the mean of a window, or the mean of an image
//! rearrange  some pixels or some channels, or channels in another order
//! combine    sums of tensors, and gradients on their own
//! norm       batch norm as numbers per channel
//! loss       softmax and cross entropy
//! sgd        the step of the weights
//! conv       which way a convolution takes
//! graph      a whole network: planned, forward, backward
//! limits     what the CPU can do at most
//! ```
//!
//! The home of `unsafe`: vector instructions, and inner loops without bounds checks.
//! Every pointer that a kernel reads or writes through is a `Span` that knows its
//! length and checks each access in builds with debug assertions, which is how the
//! tests run. What the crate exports is safe: it checks lengths before it starts.

mod combine;
mod conv;
mod depthwise;
mod direct;
#[cfg(test)]
mod expected;
mod finish;
pub mod graph;
mod grouped;
mod images;
pub mod limits;
mod loss;
mod memory;
mod norm;
mod parallel;
mod pixels;
mod pool;
mod product;
mod read;
mod rearrange;
#[cfg(test)]
mod reference;
mod sgd;
mod shape;
pub mod simd;
mod span;
mod weights;
mod winograd;

pub use conv::{ConvError, Convolution, Form, Layout, Precision};
pub use finish::{Finish, Gate, Sums, Totals};
pub use loss::cross_entropy;
pub use memory::{Buffer, Held, Pool};
pub use norm::{Affine, Moments};
pub use read::{Activation, Source};
pub use sgd::Sgd;
pub use shape::Shape;
