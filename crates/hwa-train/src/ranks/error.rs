//! What can go wrong between ranks.

use hwa_core::WeightsError;

/// Why ranks could not do something together.
#[derive(Debug, thiserror::Error)]
pub enum RanksError {
    /// Another rank ended in the middle of it; what it said itself tells more.
    #[error("rank {rank} has left")]
    Gone {
        /// The rank.
        rank: usize,
    },
    /// Nothing was heard of a rank for too long.
    #[error("{who} has not been heard of for {seconds} seconds")]
    Silent {
        /// The rank and its host.
        who: String,
        /// For how long.
        seconds: u64,
    },
    /// Two ranks do not do the same thing.
    #[error("{who} is out of step: {expected} was expected, {found} came")]
    OutOfStep {
        /// The rank and its host.
        who: String,
        /// What the others do.
        expected: String,
        /// What it does.
        found: String,
    },
    /// The models of a rank are not those of the others.
    #[error("the models of {who} have other tensors than those of rank 0")]
    OtherTensors {
        /// The rank and its host.
        who: String,
    },
    /// A message is not what it should be.
    #[error("a message of rank {rank} cannot be read: {reason}")]
    Garbled {
        /// Who sent it.
        rank: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The models of one rank do not match.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}
