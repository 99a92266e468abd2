//! The text of a comparison, for messages that say where a mistake stands.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use hwa_train::{ExperimentError, line_of};

use crate::entry::PLACES;
use crate::error::CompareError;

/// A comparison's text, and where it is from.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    pub(crate) fn new(path: &Path, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// A mistake somewhere in it.
    pub(crate) fn mistake(&self, reason: impl Display) -> CompareError {
        CompareError::Mistake(format!("{}: {reason}", self.path.display()))
    }

    /// A mistake at a key, or at an entry of a list (`methods.2`).
    pub(crate) fn mistake_at(&self, key: &str, reason: impl Display) -> CompareError {
        match line_of(&self.text, key) {
            Some(line) => self.mistake(format_args!("line {line}: {reason}")),
            None => self.mistake(reason),
        }
    }

    /// Whether a key is given.
    pub(crate) fn has(&self, key: &str) -> bool {
        line_of(&self.text, key).is_some()
    }

    /// What to say before an `error` of what `places` make together, named `what`: the `--set` that
    /// gives the value, or else the line of the first of the places in which it is given; nothing,
    /// where the error tells it.
    pub(crate) fn context(
        &self,
        error: Option<&ExperimentError>,
        what: &str,
        places: &[String],
        sets: &[String],
    ) -> Option<String> {
        let path = self.path.display();
        let key = match error {
            Some(ExperimentError::Value { key, .. }) => *key,
            Some(_) => return None,
            None => return Some(format!("{path}: {what}")),
        };
        let gives = |set: &&String| set.split_once('=').is_some_and(|(k, _)| k.trim() == key);
        if let Some(set) = sets.iter().rev().find(gives) {
            return Some(format!("--set {set}: {what}"));
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
        let line = line.map_or_else(String::new, |line| format!("line {line}: "));
        Some(format!("{path}: {line}{what}"))
    }
}
