//! What averages are worth: measured by a network of the zoo, or told by anybody's command.

mod command;
mod network;
mod process;
mod script;
mod words;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use hwa_core::search::Worth;
use hwa_store::{Averaging, Window};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::arguments::Scoring;
use crate::failure::Failure;
use command::CommandScorer;
use network::NetworkScorer;
pub(crate) use process::end_command;

/// Statistics of batch norm that are the weights' own.
pub(crate) const RE_ESTIMATED: &str = "re-estimated";
/// The statistics of the members, averaged like weights.
pub(crate) const AVERAGED: &str = "averaged";

/// How closely an average is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Look {
    /// Good enough to tell which are worth a closer look.
    Screening,
    /// As it will be used.
    Full,
    /// As it will be used, on what nothing is chosen by.
    Test,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// The accuracy in percent, or the number that the command printed.
    #[serde(with = "hwa_core::float")]
    pub(crate) score: f64,
    /// The loss of a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loss: Option<f64>,
    /// The images of a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) images: Option<u64>,
}

/// Whether high or low numbers are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    High,
    Low,
}

impl Goal {
    pub(crate) fn worth(self, measured: &Measured) -> Worth {
        let score = match self {
            Self::High => measured.score,
            Self::Low => -measured.score,
        };
        let second = match (measured.loss, measured.images) {
            (Some(loss), _) => -loss,
            // A network whose loss is no number.
            (None, Some(_)) => f64::NAN,
            (None, None) => 0.0,
        };
        Worth { score, second }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::High => "maximize",
            Self::Low => "minimize",
        }
    }
}

/// Who tells what averages are worth.
pub(crate) trait Scorer {
    /// Whether high or low numbers are good.
    fn goal(&self) -> Goal;

    /// What the number is called.
    fn unit(&self) -> &'static str;

    /// Whether screening is another look than a full one.
    fn screens(&self) -> bool;

    /// What tests and chooses nothing, or why there is nothing.
    fn tests(&self) -> Result<String, String>;

    /// Whose batch-norm statistics averages are scored with.
    fn statistics(&self) -> &'static str;

    /// All that numbers depend on, beside the weights.
    fn identity(&self) -> Map<String, Value>;

    /// What tells versions of a scorer apart that has one identity: of a command, the files that
    /// it names, without those that it was seen to change itself.
    fn version(&self, _look: Look) -> Vec<String> {
        Vec::new()
    }

    /// Measures an average.
    fn measure(&mut self, window: &Window, look: Look) -> Result<Measured, Failure>;

    /// Writes an average as it was measured.
    fn save(&mut self, window: &Window, path: &std::path::Path) -> Result<(), Failure>;
}

/// What is scored, and within which bounds.
pub(crate) struct Subject<'a> {
    pub(crate) averaging: &'a Averaging<'a>,
    /// The run that the series is of, if it is one.
    pub(crate) run: Option<PathBuf>,
    /// Training images that statistics are screened with.
    pub(crate) screening_images: NonZeroUsize,
    /// What is run on test.
    pub(crate) test_eval: Option<&'a str>,
    /// Where averages are written for a command.
    pub(crate) candidate: PathBuf,
    /// Asked now and then; true ends the work.
    pub(crate) cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// The scorer that is asked for.
pub(crate) fn open<'a>(
    how: &'a Scoring,
    subject: Subject<'a>,
) -> Result<Box<dyn Scorer + 'a>, Failure> {
    if how.eval.is_some() {
        return Ok(Box::new(CommandScorer::new(how, subject)?));
    }
    if subject.test_eval.is_some() {
        return Err(Failure::usage("--test-eval is for --eval: networks have a test split"));
    }
    if subject.run.is_none() && how.model.is_none() {
        return Err(Failure::usage(
            "nothing tells what an average is worth: give --model and --data, or --eval with a \
             command; a run tells by itself",
        ));
    }
    Ok(Box::new(NetworkScorer::new(how, subject)?))
}
