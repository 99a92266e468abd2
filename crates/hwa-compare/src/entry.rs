//! Entries of a comparison: methods, networks and data sets under their labels.

use hwa_train::Experiment;
use serde::Deserialize;
use toml::{Table, Value};

use crate::error::CompareError;
use crate::keys::{nested, text_at, value_at};
use crate::source::Source;

/// What is compared, and the lists that it stands in.
pub(crate) const PLACES: [(&[&str], &str); 3] = [METHODS, NETWORKS, DATASETS];
/// Methods.
pub(crate) const METHODS: (&[&str], &str) = (&["method"], "methods");
/// Networks.
pub(crate) const NETWORKS: (&[&str], &str) = (&["model", "name"], "networks");
/// Data sets.
pub(crate) const DATASETS: (&[&str], &str) = (&["data", "dataset"], "datasets");

/// What entries have beside keys of an experiment.
const OTHER_KEYS: &str = " (an entry has also `label` and `outer_of`)";

/// How long names and labels may be.
pub(crate) const LONGEST: usize = 80;

/// A method, a network or a data set: its name, or keys of an experiment with a `label`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a name or a table of keys of an experiment")]
pub(crate) enum Entry {
    /// The value of `method`, `model.name` or `data.dataset`.
    Name(String),
    /// Keys of an experiment.
    Keys(Table),
}

/// An entry with its label; the label of a name is that name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Labelled {
    pub(crate) label: String,
    /// Where it stands: `methods.2`.
    pub(crate) place: String,
    /// Keys of an experiment.
    pub(crate) keys: Table,
}

/// A method as it is compared.
pub(crate) struct Compared {
    /// Its label, and what is trained.
    pub(crate) entry: Labelled,
    /// The method that trains it, if it is the outer weights of another.
    pub(crate) outer_of: Option<String>,
}

impl Entry {
    /// Whether it is the outer weights of another method.
    fn is_outer(&self) -> bool {
        match self {
            Self::Keys(keys) => keys.contains_key("outer_of"),
            Self::Name(_) => false,
        }
    }

    /// With its label; it is the entry with this number in a list of [`PLACES`], whose key it has.
    fn labelled(
        &self,
        (key, list): (&[&str], &str),
        index: usize,
        source: &Source,
    ) -> Result<Labelled, CompareError> {
        let place = format!("{list}.{index}");
        let wrong = |reason: String| source.mistake_at(&place, reason);
        let mut keys = match self {
            Self::Keys(keys) => keys.clone(),
            Self::Name(name) => nested(key, name),
        };
        let written = match keys.remove("label") {
            Some(Value::String(label)) => Some(label),
            Some(other) => return Err(wrong(format!("`label` must be a text, found {other}"))),
            None => text_at(&keys, key),
        };
        let name = key.join(".");
        let label =
            written.ok_or_else(|| wrong(format!("an entry without `{name}` needs a `label`")))?;
        // It names a folder, and stands in tables.
        let is_line = !label.contains(char::is_control) && label.len() <= LONGEST;
        if slug(&label).is_empty() || !is_line {
            return Err(wrong(format!(
                "`label` must be a line of at most {LONGEST} letters, one of them from a to z or \
                 a digit, found {label:?}"
            )));
        }
        if let Some((key, reason)) = mistake_in(&keys) {
            // Of a name that is unknown, the key is nowhere written.
            let at = match self {
                Self::Name(_) => place,
                Self::Keys(_) => format!("{place}.{key}"),
            };
            let what = format!("in {list}, entry {label:?}");
            let more = if reason.starts_with("there is no key") { OTHER_KEYS } else { "" };
            return Err(source.mistake_at(&at, format_args!("{what}: {reason}{more}")));
        }
        if text_at(&keys, key).is_none() {
            return Err(wrong(format!("the entry {label:?} needs `{name}`")));
        }
        let mut others = PLACES.iter().filter(|(other, _)| *other != key);
        if let Some((other, place)) = others.find(|(other, _)| value_at(&keys, other).is_some()) {
            let other = other.join(".");
            return Err(wrong(format!(
                "`{other}` stands in `{place}`, found in the entry {label:?}"
            )));
        }
        Ok(Labelled { label, place, keys })
    }
}

/// What is wrong with keys of an experiment, each by itself: the key, and what it must be.
pub(crate) fn mistake_in(keys: &Table) -> Option<(String, String)> {
    toml::to_string(keys).ok().and_then(|text| Experiment::mistake(&text))
}

/// Each entry of a list with its label.
pub(crate) fn labelled(
    entries: &[Entry],
    list: (&[&str], &str),
    source: &Source,
) -> Result<Vec<Labelled>, CompareError> {
    let numbered = entries.iter().enumerate();
    let labelled = numbered.map(|(index, entry)| entry.labelled(list, index, source));
    ensure_labels_differ(labelled.collect::<Result<_, _>>()?, list.1, source)
}

/// Labels are names of folders too.
fn ensure_labels_differ(
    entries: Vec<Labelled>,
    list: &str,
    source: &Source,
) -> Result<Vec<Labelled>, CompareError> {
    for (index, entry) in entries.iter().enumerate() {
        let folder = slug(&entry.label);
        if let Some(other) = entries[..index].iter().find(|other| slug(&other.label) == folder) {
            let (this, other) = (&entry.label, &other.label);
            return Err(source.mistake_at(
                &entry.place,
                format_args!(
                    "in {list}, {other:?} and {this:?} have the same folder, {folder}; give one \
                     of them another `label`"
                ),
            ));
        }
    }
    Ok(entries)
}

/// The methods; `{ label = "Online", outer_of = "HWA" }` has the keys of the other.
pub(crate) fn compared(methods: &[Entry], source: &Source) -> Result<Vec<Compared>, CompareError> {
    let numbered = || methods.iter().enumerate();
    let own = numbered().filter(|(_, entry)| !entry.is_outer());
    let own = own.map(|(index, entry)| entry.labelled(METHODS, index, source));
    let trained: Vec<Labelled> = own.collect::<Result<_, _>>()?;
    let compare = |(index, entry): (usize, &Entry)| match entry {
        Entry::Keys(keys) if entry.is_outer() => outer_weights(keys, index, &trained, source),
        _ => Ok(Compared { entry: entry.labelled(METHODS, index, source)?, outer_of: None }),
    };
    let compared: Vec<Compared> = numbered().map(compare).collect::<Result<_, _>>()?;
    ensure_labels_differ(compared.iter().map(|c| c.entry.clone()).collect(), METHODS.1, source)?;
    for Compared { entry, .. } in &compared {
        let is_row_of =
            |other: &&Labelled| entry.label.starts_with(&format!("{}, I = ", other.label));
        if let Some(other) = trained.iter().find(is_row_of) {
            let (this, other) = (&entry.label, &other.label);
            let reason = format!("{this:?} is what a row of a window of {other:?} is called");
            return Err(source.mistake_at(&entry.place, reason));
        }
    }
    Ok(compared)
}

/// The outer weights of a method that is trained.
fn outer_weights(
    keys: &Table,
    index: usize,
    trained: &[Labelled],
    source: &Source,
) -> Result<Compared, CompareError> {
    let wrong = |reason: String| source.mistake_at(&format!("{}.{index}", METHODS.1), reason);
    let found = keys.get("outer_of");
    let named = |entry: &&Labelled| found.and_then(Value::as_str) == Some(&entry.label);
    let Some(trains) = trained.iter().find(named) else {
        let (known, found) = (labels(trained), found.map_or_else(String::new, Value::to_string));
        return Err(wrong(format!("`outer_of` must be one of {known}, found {found}")));
    };
    let of = &trains.label;
    if let Some(other) = keys.keys().find(|key| !["label", "outer_of"].contains(&key.as_str())) {
        return Err(wrong(format!(
            "an entry with `outer_of` has a `label` and nothing else, found `{other}`"
        )));
    }
    let Some(label) = keys.get("label") else {
        return Err(wrong(format!("the entry `outer_of = {of:?}` needs a `label`")));
    };
    // With the keys of what trains it, it is labelled like any other.
    let mut whole = trains.keys.clone();
    whole.insert("label".to_owned(), label.clone());
    let entry = Entry::Keys(whole).labelled(METHODS, index, source)?;
    Ok(Compared { entry, outer_of: Some(of.clone()) })
}

/// The labels of entries, for a message.
pub(crate) fn labels<'a>(entries: impl IntoIterator<Item = &'a Labelled>) -> String {
    let labels: Vec<&str> = entries.into_iter().map(|entry| entry.label.as_str()).collect();
    labels.join(", ")
}

/// A label as the name of a folder.
pub fn slug(label: &str) -> String {
    let mut slug = String::new();
    for letter in label.to_lowercase().chars() {
        match letter {
            'a'..='z' | '0'..='9' | '.' | '_' => slug.push(letter),
            _ if slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    slug.trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_become_folders_and_nothing_else() {
        for (label, folder) in [
            ("CIFAR-100", "cifar-100"),
            ("H = 1/4 epoch", "h-1-4-epoch"),
            ("../..", ""),
            ("a/../b", "a-..-b"),
            ("K=2", "k-2"),
        ] {
            assert_eq!(slug(label), folder);
        }
    }
}
