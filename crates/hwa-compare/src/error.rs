//! What can be wrong with a comparison.

use hwa_store::StoreError;
use hwa_train::ExperimentError;

/// Why a comparison, or something that belongs to it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// What is written is wrong; the message names the file, and the line where that is known.
    #[error("{0}")]
    Mistake(String),
    /// An experiment of it is wrong, or another than that of a run.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A file cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}
