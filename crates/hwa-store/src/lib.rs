//! Checkpoints on disk: tensor files, atomic writes, run directories.
//!
//! Whatever is written here appears whole or not at all: files are written
//! beside their place, flushed to the disk and renamed. Whatever is read here is
//! checked before it is believed.

mod atomic;
mod checkpoints;
mod error;
mod run_dir;
mod tensor_file;

pub use atomic::{read_to_string, write_atomically};
pub use checkpoints::{CheckpointStore, InnerPosition};
pub use error::StoreError;
pub use run_dir::RunDir;
pub use tensor_file::{Metadata, read_tensors, write_tensors};
