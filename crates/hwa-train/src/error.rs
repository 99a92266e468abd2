//! What can end a run.

use std::io;
use std::path::{Path, PathBuf};

use hwa_core::WeightsError;
use hwa_data::DataError;
use hwa_store::StoreError;

use crate::collective::CollectiveError;
use crate::ranks::RanksError;
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
        "model {replica} diverged: the loss of step {step} is {loss} (rate {}); \
         try a lower `optimizer.rate`, or `schedule.warmup`", rounded(*rate)
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
         try a lower `optimizer.rate`, or `schedule.warmup`"
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
    /// Other processes of the run could not be reached, or do something else.
    #[error(transparent)]
    Ranks(#[from] RanksError),
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
    /// The event log is not the one that the saved state goes on from.
    #[error(
        "{} has {found} bytes, the saved state expects at least {expected}: \
         it was cut or replaced; restore it", path.display()
    )]
    EventsShort {
        /// The file.
        path: PathBuf,
        /// The length that the state names.
        expected: u64,
        /// Its length.
        found: u64,
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
    #[error("{}: the state belongs to another experiment{difference}", path.display())]
    OtherExperiment {
        /// The manifest.
        path: PathBuf,
        /// The first key that differs, as the end of the sentence; or nothing.
        difference: String,
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
    /// There are more processes than models.
    #[error(
        "{ranks} ranks are too many for {models} models: every rank needs one of those that are \
         trained"
    )]
    TooManyRanks {
        /// The processes.
        ranks: usize,
        /// The models that are not lost.
        models: usize,
    },
    /// There is no state that a model could be left out of.
    #[error("there is no state yet that a model could be left out of")]
    NoState,
    /// A model that is to be left out is not there.
    #[error("there is no model {model}; there are {}", listed(there))]
    NoSuchModel {
        /// The model.
        model: usize,
        /// Those that are there.
        there: Vec<usize>,
    },
    /// All models are to be left out.
    #[error("no model would be left")]
    NoModelLeft,
    /// A saved state is inconsistent.
    #[error("{}: {reason}", path.display())]
    BadState {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
}

/// Numbers in a row.
fn listed(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
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

    /// Whether a file of the saved state in this folder, or the log that belongs to
    /// it, is damaged: the run could go on from the state before.
    pub fn is_about_state_in(&self, folder: &Path) -> bool {
        match self {
            Self::EventsShort { .. } => true,
            Self::BadState { path, .. } => path.starts_with(folder),
            Self::Store(error) => error.path().starts_with(folder),
            _ => false,
        }
    }

    /// Whether it is a model that failed, and nothing that the others need; and after which step.
    pub(crate) fn lost_model(&self) -> Option<Option<u64>> {
        match self {
            Self::Replica { step, .. }
            | Self::Diverged { step, .. }
            | Self::NotFinite { step, .. }
            | Self::LoaderEnded { step, .. } => Some(Some(*step)),
            Self::Panicked { .. } | Self::Data(_) => Some(None),
            _ => None,
        }
    }

    /// Whether this is only the echo of another model's failure.
    pub(crate) fn is_echo(&self) -> bool {
        matches!(self, Self::Collective(CollectiveError::Aborted))
    }
}

/// Three digits of a rate are enough to recognise it.
fn rounded(rate: f64) -> String {
    let short = format!("{rate:.2e}");
    match short.parse::<f64>() {
        Ok(value) if (1e-4..1e6).contains(&value) => value.to_string(),
        _ => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_told_in_three_digits() {
        for (rate, told) in [(999.383_104, "999"), (0.099_26, "0.0993"), (1e30, "1.00e30")] {
            assert_eq!(rounded(rate), told);
        }
    }
}
