//! Checkpoints on disk: tensor files, PyTorch's files, averages of a series of either, atomic
//! writes, run directories.
//!
//! Whatever is written here appears whole or not at all: files are written
//! beside their place, flushed to the disk and renamed. Whatever is read here is
//! checked before it is believed.

mod atomic;
mod checkpoint_error;
mod checkpoint_file;
mod checkpoints;
mod content;
mod error;
mod prefixes;
mod pytorch;
mod run_dir;
mod series;
mod tensor_file;

pub use atomic::{read_to_string, write_atomically};
pub use checkpoint_error::CheckpointError;
pub use checkpoint_file::{Checkpoint, Format, read_checkpoint};
pub use checkpoints::{CheckpointStore, InnerPosition};
pub use error::StoreError;
pub use run_dir::RunDir;
pub use series::{
    Averaging, BadMember, Difference, Limits, NonFinite, Order, Scheme, Series, SeriesError, Watch,
    Window,
};
pub use tensor_file::{Metadata, read_tensors, write_tensors};
