//! How the command fails: with one message, and a code that a script can read.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::output::tell;
use hwa_compare::{Cell, CompareError, Spec};
use hwa_data::DataError;
use hwa_nn::NnError;
use hwa_store::{CheckpointError, SeriesError, StoreError};
use hwa_study::StudyError;
use hwa_train::{ExperimentError, RanksError, Reason, ReplicaError, TrainError};

/// Why the command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad usage or configuration: exit code 2.
    Usage(anyhow::Error),
    /// It failed on the way: exit code 1.
    Run(anyhow::Error),
    /// It failed on the way, and can go on when the cause is gone: exit code 1.
    Stopped {
        /// Why.
        error: anyhow::Error,
        /// What is left, and how to go on from it.
        advice: String,
    },
    /// It was interrupted, and can be asked for again: exit code 130.
    Cancelled {
        /// How to go on.
        advice: String,
    },
    /// Training was interrupted and can be resumed: exit code 130.
    Interrupted {
        /// The run directory.
        run: PathBuf,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(error) | Self::Run(error) => f.write_str(&chain(error)),
            Self::Stopped { error, advice } => write!(f, "{}; {advice}", chain(error)),
            Self::Cancelled { .. } | Self::Interrupted { .. } => f.write_str("interrupted"),
        }
    }
}

impl Failure {
    /// A message about how the command was used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(anyhow::Error::msg(message.into()))
    }

    /// With what it happened to: a rank, an entry, a place in a file.
    pub(crate) fn of(self, what: &str) -> Self {
        match self {
            Self::Usage(error) => Self::Usage(error.context(what.to_owned())),
            Self::Run(error) => Self::Run(error.context(what.to_owned())),
            Self::Stopped { error, advice } => {
                Self::Stopped { error: error.context(what.to_owned()), advice }
            }
            other => other,
        }
    }

    /// With what a cell of a comparison is, and where that stands.
    pub(crate) fn of_cell(self, cell: &Cell, spec: &Spec, sets: &[String]) -> Self {
        let Self::Usage(error) = &self else { return self.of(&cell.title()) };
        match spec.context(cell, error.downcast_ref(), sets) {
            Some(context) => self.of(&context),
            None => self,
        }
    }

    /// Prints the message and gives the exit code.
    pub(crate) fn report(self) -> ExitCode {
        ExitCode::from(self.report_code())
    }

    /// Prints the message and gives the exit code as a number.
    pub(crate) fn report_code(self) -> u8 {
        match self {
            Self::Usage(error) => {
                tell(format_args!("error: {}", chain(&error)));
                2
            }
            Self::Run(error) => {
                tell(format_args!("error: {}", chain(&error)));
                1
            }
            Self::Stopped { error, advice } => {
                tell(format_args!("error: {}\n{advice}", chain(&error)));
                1
            }
            Self::Cancelled { advice } => {
                tell(format_args!("interrupted; {advice}"));
                130
            }
            Self::Interrupted { run } => {
                tell(format_args!("interrupted; go on with: hwa train --resume {}", run.display()));
                130
            }
        }
    }
}

/// The message with its causes, each said once.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        Self::Usage(error.into())
    }
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        match error {
            CompareError::Mistake(message) => Self::usage(message),
            CompareError::Experiment(error) => error.into(),
            CompareError::Store(error) => error.into(),
        }
    }
}

impl From<NnError> for Failure {
    fn from(error: NnError) -> Self {
        Self::Usage(error.into())
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        match error {
            DataError::UnknownName { .. } | DataError::BadOption { .. } => {
                Self::Usage(error.into())
            }
            DataError::MissingFile { dataset, .. }
                if hwa_fetch::recipes().iter().any(|recipe| recipe.name == dataset) =>
            {
                let error = anyhow::anyhow!("{error}; or: hwa data fetch {dataset}");
                Self::Run(error)
            }
            DataError::Interrupted => Self::Cancelled { advice: "nothing was changed".to_owned() },
            _ => Self::Run(error.into()),
        }
    }
}

impl From<ReplicaError> for Failure {
    fn from(error: ReplicaError) -> Self {
        Self::Run(error.into())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Occupied { .. }
            | StoreError::HoldsARun { .. }
            | StoreError::Remains { .. }
            | StoreError::InUse { .. }
            | StoreError::NotARun { .. } => Self::Usage(error.into()),
            _ => Self::Run(error.into()),
        }
    }
}

impl From<SeriesError> for Failure {
    fn from(error: SeriesError) -> Self {
        match error {
            SeriesError::Store(StoreError::Checkpoint {
                source: CheckpointError::NoStateDict { .. },
                ..
            }) => Self::Run(anyhow::anyhow!("{error}; --key names another entry")),
            SeriesError::Store(error) => error.into(),
            SeriesError::Interrupted => {
                Self::Cancelled { advice: "nothing was written".to_owned() }
            }
            SeriesError::NonFinite { .. } => Self::Run(anyhow::anyhow!(
                "{error}; --skip-bad leaves such checkpoints out, `hwa average --allow-non-finite` \
                 averages them"
            )),
            SeriesError::TooLarge { .. } => Self::Run(anyhow::anyhow!(
                "{error}; another --dtype can, and --allow-non-finite writes infinity"
            )),
            SeriesError::TooLittleMemory { .. } => Self::usage(format!("--max-memory: {error}")),
            SeriesError::NoStep { .. } | SeriesError::MixedSteps { .. } => {
                Self::usage(format!("{error}; try --order name"))
            }
            SeriesError::Differ { .. } | SeriesError::Index { .. } => Self::Run(error.into()),
            SeriesError::Empty { .. }
            | SeriesError::Ambiguous { .. }
            | SeriesError::Nothing
            | SeriesError::Single { .. }
            | SeriesError::TooFewLeft { .. }
            | SeriesError::EmptyWindow { .. }
            | SeriesError::NoPlace { .. }
            | SeriesError::WeightCount { .. }
            | SeriesError::BadWeights { .. }
            | SeriesError::BadDecay { .. } => Self::Usage(error.into()),
        }
    }
}

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Self {
        Self::Run(error.into())
    }
}

impl From<RanksError> for Failure {
    fn from(error: RanksError) -> Self {
        match error {
            RanksError::Interrupted => Reason::Interrupted.into(),
            _ => Self::Run(error.into()),
        }
    }
}

impl From<Reason<'_>> for Failure {
    fn from(reason: Reason<'_>) -> Self {
        match reason {
            Reason::Failed(error) => Self::Run(anyhow::Error::msg(error.to_owned())),
            Reason::Interrupted => Self::Cancelled { advice: "nothing was begun".to_owned() },
        }
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::StateVersion { .. }
            | TrainError::OtherExperiment { .. }
            | TrainError::OtherArithmetic { .. }
            | TrainError::TooManyRanks { .. }
            | TrainError::NoState
            | TrainError::NoSuchModel { .. }
            | TrainError::NoModelLeft => Self::Usage(error.into()),
            _ => Self::Run(error.into()),
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Run(error.into())
    }
}
