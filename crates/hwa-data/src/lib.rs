//! Data sets, splits, augmentation and seeded loaders, free of any framework.
//!
//! A [`Dataset`] gives out examples as bytes; a loader turns them, augmented and
//! normalised, into [`Batch`]es of `f32` in `[N, H, W, C]` order.

mod batch;
mod dataset;
mod error;

pub use batch::Batch;
pub use dataset::{Dataset, Example, ImageShape};
pub use error::DataError;
