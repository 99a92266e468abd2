//! What can go wrong on disk.

use std::io;
use std::path::{Path, PathBuf};

use hwa_core::WeightsError;
use safetensors::SafeTensorError;

use crate::checkpoint_error::CheckpointError;

/// Why something could not be read or written. Every variant names the file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system said no.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done: "write", "read", ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is no safetensors file.
    #[error("{} is {}: {source}", path.display(), unreadable(source))]
    NotSafetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: SafeTensorError,
    },
    /// A tensor has a type that weights do not have.
    #[error("{}: `{name}` has type {found}, expected {}", path.display(), kinds(*in_series))]
    UnsupportedType {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type.
        found: String,
        /// Whether it is averaged in a series, where any integers may be.
        in_series: bool,
    },
    /// The tensors do not make weights.
    #[error("{}: {source}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        source: WeightsError,
    },
    /// A checkpoint that others wrote cannot be read.
    #[error("{}: {source}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What it is, or what is wrong with it.
        source: CheckpointError,
    },
    /// A JSON file or header could not be understood.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A run is to be started where something already is.
    #[error("{} is not empty: choose another folder", path.display())]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
    /// A run is to be started where one already is.
    #[error("{} holds a run: choose another folder, or go on with it by --resume", path.display())]
    HoldsARun {
        /// The folder.
        path: PathBuf,
    },
    /// A run is to be started where parts of another one are.
    #[error(
        "{} holds parts of a run in {folder}/ but no {missing}: choose another folder, or \
         remove {folder}/ if nothing in it is needed", path.display()
    )]
    Remains {
        /// The folder.
        path: PathBuf,
        /// The folder in it that is not empty.
        folder: &'static str,
        /// The file without which the run cannot be resumed.
        missing: &'static str,
    },
    /// Another process works in the run directory.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A folder that should be a run directory is none.
    #[error("{} is not a run directory: it has no {missing}", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
        /// The file that every run directory has.
        missing: &'static str,
    },
}

impl StoreError {
    /// The file or folder that it is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::NotSafetensors { path, .. }
            | Self::UnsupportedType { path, .. }
            | Self::Weights { path, .. }
            | Self::Checkpoint { path, .. }
            | Self::Json { path, .. }
            | Self::Occupied { path }
            | Self::HoldsARun { path }
            | Self::Remains { path, .. }
            | Self::InUse { path }
            | Self::NotARun { path, .. } => path,
        }
    }

    /// Wraps a system error with what was being done and where.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

/// What a file that cannot be read as safetensors is.
fn unreadable(error: &SafeTensorError) -> &'static str {
    match error {
        SafeTensorError::MetadataIncompleteBuffer => {
            "a safetensors file that is cut off or damaged"
        }
        _ => "not a safetensors file",
    }
}

fn kinds(in_series: bool) -> &'static str {
    match in_series {
        true => "F64, F32, F16, BF16, integers or BOOL",
        false => "one of F64, F32, F16, BF16, I64",
    }
}
