//! Data sets, splits, augmentation and seeded loaders, free of any framework.
//!
//! A [`Dataset`] gives out examples as bytes; a loader turns them, augmented and
//! normalised, into [`Batch`]es of `f32` in `[N, H, W, C]` order.
//!
//! ```
//! use std::num::NonZeroUsize;
//! use hwa_data::{Ahead, OpenOptions, Position, TrainingBatches, open};
//!
//! let digits = open("digits", None, &OpenOptions::default())?;
//! let batch = NonZeroUsize::new(64).unwrap();
//! let from = Position { seed: 1, replica: 0, step: 0 };
//! let train = digits.splits.train.clone();
//! let batches =
//!     TrainingBatches::new(train, digits.transform, batch, from)?;
//! for batch in Ahead::spawn(batches, 2)?.take(3) {
//!     assert_eq!(batch?.len(), 64);
//! }
//! # Ok::<(), hwa_data::DataError>(())
//! ```

mod ahead;
mod batch;
mod check;
mod collect;
mod comparison;
mod dataset;
mod developer;
mod error;
mod files;
#[cfg(test)]
mod fixtures;
mod list;
mod loader;
mod matlab;
mod memory;
mod options;
mod place;
mod scan;
mod sources;
mod split;
mod subset;
mod transform;
mod view;

pub use ahead::Ahead;
pub use batch::Batch;
pub use check::{BadFile, CheckReport, SplitReport, check};
pub use dataset::{Dataset, Example, ImageShape, OnBadImage};
pub use error::DataError;
pub use loader::{
    EvaluationBatches, Position, RecalibrationBatches, TrainingBatches, steps_per_epoch,
};
pub use memory::InMemory;
pub use options::{CropKind, FileOptions, OpenOptions, ViewOptions};
pub use place::cache_folder;
pub use sources::{CatalogueEntry, Source, catalogue, open};
pub use split::Part;
pub use subset::{Splits, Subset};
pub use transform::{Augment, Channel, Crop, Normalise, Transform};
