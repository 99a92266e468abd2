//! The text of a comparison, for messages that say where a mistake stands.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use hwa_train::{ExperimentError, line_of};

use super::entry::PLACES;
use crate::failure::Failure;

/// A comparison's text, and where it is from.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    pub(super) fn new(path: &Path, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// A mistake somewhere in it.
    pub(super) fn mistake(&self, reason: impl Display) -> Failure {
        Failure::usage(format!("{}: {reason}", self.path.display()))
    }

    /// A mistake at a key, or at an entry of a list (`methods.2`).
    pub(super) fn mistake_at(&self, key: &str, reason: impl Display) -> Failure {
        match line_of(&self.text, key) {
            Some(line) => self.mistake(format_args!("line {line}: {reason}")),
            None => self.mistake(reason),
        }
    }

    /// Whether a key is given.
    pub(super) fn has(&self, key: &str) -> bool {
        line_of(&self.text, key).is_some()
    }

    /// A failure of what `places` make together, named `what`: with the `--set` that gives the
    /// value, or else with the line of the first of the places in which it is given.
    pub(super) fn located(
        &self,
        failure: Failure,
        what: &str,
        places: &[String],
        sets: &[String],
    ) -> Failure {
        let Failure::Usage(error) = &failure else { return failure.of(what) };
        let key = match error.downcast_ref() {
            Some(ExperimentError::Value { key, .. }) => *key,
            // It names the `--set`, or the line.
            Some(_) => return failure,
            None => return failure.of(what).of(&self.path.display().to_string()),
        };
        let gives = |set: &&String| set.split_once('=').is_some_and(|(k, _)| k.trim() == key);
        if let Some(set) = sets.iter().rev().find(gives) {
            return failure.of(what).of(&format!("--set {set}"));
        }
        let line = places.iter().find_map(|place| {
            let given = line_of(&self.text, &format!("{place}.{key}"));
            // An entry that is a name alone is the value of its list's key.
            let is_name = |(of, list): &(&[&str], &str)| {
                of.join(".") == key && place.starts_with(&format!("{list}."))
            };
            let name = PLACES.iter().any(is_name).then_some(place);
            given.or_else(|| line_of(&self.text, name?))
        });
        let failure = failure.of(what);
        let failure = match line {
            Some(line) => failure.of(&format!("line {line}")),
            None => failure,
        };
        failure.of(&self.path.display().to_string())
    }
}
