//! Why something could not be studied.

use hwa_core::WeightsError;
use hwa_train::ReplicaError;

/// Why something could not be studied.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// Weights do not belong together.
    #[error("the weights do not belong together: {0}")]
    Weights(#[from] WeightsError),
    /// Weights that should lie apart are the same.
    #[error("the weights are equal, expected some distance between them")]
    Equal,
    /// Weights span no plane.
    #[error("the weights lie on a line, expected three at least that span a plane")]
    OnALine,
    /// One batch does not tell how batches differ.
    #[error(
        "{found} batches of images tell no noise of gradients, expected at least 2, none empty"
    )]
    TooFewBatches {
        /// How many there are.
        found: usize,
    },
    /// Steps of no length lead nowhere.
    #[error("the learning rate is {found}, expected a number above 0")]
    Rate {
        /// The rate.
        found: f64,
    },
    /// Weights that have diverged lie nowhere.
    #[error("`{tensor}` holds a NaN or an infinity, expected finite weights")]
    Diverged {
        /// The first of their tensors that does.
        tensor: String,
    },
    /// Nor have all that are finite a gradient.
    #[error("the loss or its gradient is not finite at these weights")]
    NotFinite,
    /// A model could not be built, loaded or run.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// Threads could not be started.
    #[error("cannot start threads: {reason}")]
    Threads {
        /// The system's reason.
        reason: String,
    },
}
