//! What can end a run.

use std::io;
use std::path::PathBuf;

use hwa_core::WeightsError;
use hwa_data::DataError;
use hwa_store::StoreError;

use crate::collective::CollectiveError;
use crate::replica::ReplicaError;

/// Why a run ended before its time. The model that failed is named.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A model failed.
    #[error("model {replica} failed after step {step}: {source}")]
    Replica {
        /// The model.
        replica: usize,
        /// Its steps so far.
        step: u64,
        /// Why.
        source: ReplicaError,
    },
    /// A loss is no longer finite.
    #[error(
        "model {replica} diverged: the loss of step {step} is {loss} (rate {rate}); \
         try a lower rate or a warm-up. The last good state is kept"
    )]
    Diverged {
        /// The model.
        replica: usize,
        /// The step, from 1.
        step: u64,
        /// The loss.
        loss: f64,
        /// The step's rate.
        rate: f64,
    },
    /// Weights are no longer finite.
    #[error(
        "model {replica} diverged: `{tensor}` is not finite after step {step}; \
         try a lower rate or a warm-up. The last good state is kept"
    )]
    NotFinite {
        /// The model.
        replica: usize,
        /// Its steps so far.
        step: u64,
        /// The first such tensor.
        tensor: String,
    },
    /// Models that should start alike do not.
    #[error(
        "model {replica} starts from another `{tensor}` than the others: with `init = \"shared\"` \
         every model has to be built alike; is it drawn from a generator that threads share?"
    )]
    DifferentBeginnings {
        /// The model.
        replica: usize,
        /// The first tensor that differs.
        tensor: String,
    },
    /// A thread panicked.
    #[error("{who} panicked: {message}")]
    Panicked {
        /// "model 1", "the judge", ...
        who: String,
        /// The panic's message.
        message: String,
    },
    /// The judge failed.
    #[error("cycle {cycle} could not be judged: {source}")]
    Judge {
        /// The cycle.
        cycle: usize,
        /// Why.
        source: ReplicaError,
    },
    /// The final pass failed.
    #[error("the final pass failed: {0}")]
    Final(#[source] ReplicaError),
    /// A model that the judge or the final pass works on could not be built.
    #[error("{who} could not be built: {source}")]
    Build {
        /// "model 1", "the judge's model", ...
        who: String,
        /// Why.
        source: ReplicaError,
    },
    /// A model's loader ran dry, which an endless one cannot.
    #[error("the loader of model {replica} ended after step {step}")]
    LoaderEnded {
        /// The model.
        replica: usize,
        /// Its steps so far.
        step: u64,
    },
    /// A common operation did not happen.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// Weights do not match.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// Data could not be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Something could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The event log could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Events {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A thread or its pool could not be started.
    #[error("cannot start the threads of {who}: {reason}")]
    Threads {
        /// Whose.
        who: String,
        /// Why.
        reason: String,
    },
    /// A saved state comes from another version.
    #[error("{}: the state has version {found}, expected {expected}", path.display())]
    StateVersion {
        /// The manifest.
        path: PathBuf,
        /// The version that this program writes and reads.
        expected: u32,
        /// The file's.
        found: u32,
    },
    /// A saved state belongs to another experiment.
    #[error("{}: the state belongs to another experiment", path.display())]
    OtherExperiment {
        /// The manifest.
        path: PathBuf,
    },
    /// A saved state was computed on another instruction path, so that going on
    /// would not give the bits of the uninterrupted run.
    #[error(
        "{}: the state was computed with {found}, this run would use {expected}; \
         bits would differ", path.display()
    )]
    OtherArithmetic {
        /// The manifest.
        path: PathBuf,
        /// What this run uses.
        expected: String,
        /// What the state was computed with.
        found: String,
    },
    /// A saved state is inconsistent.
    #[error("{}: {reason}", path.display())]
    BadState {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
}

impl TrainError {
    /// Whether something could not be written: with room on the disk, the run could
    /// go on from its last state.
    pub fn is_about_writing(&self) -> bool {
        match self {
            Self::Events { .. } => true,
            Self::Store(StoreError::Io { action, .. }) => matches!(*action, "write" | "flush"),
            _ => false,
        }
    }

    /// Whether this is only the echo of another model's failure.
    pub(crate) fn is_echo(&self) -> bool {
        matches!(self, Self::Collective(CollectiveError::Aborted))
    }
}
