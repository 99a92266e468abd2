//! Entries of a comparison: methods, networks and data sets under their labels.

use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

use super::keys::{nested, text_at, value_at};
use crate::failure::Failure;

/// What is compared, and the lists that it stands in.
pub(super) const PLACES: [(&[&str], &str); 3] = [
    (&["method"], "methods"),
    (&["model", "name"], "networks"),
    (&["data", "dataset"], "datasets"),
];

/// How long names and labels may be.
pub(super) const LONGEST: usize = 80;

/// A method, a network or a data set: its name, or keys of an experiment with a `label`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a name or a table of keys of an experiment")]
pub(super) enum Entry {
    /// The value of `method`, `model.name` or `data.dataset`.
    Name(String),
    /// Keys of an experiment.
    Keys(Table),
}

/// An entry with its label; the label of a name is that name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Labelled {
    pub(super) label: String,
    /// Keys of an experiment.
    pub(super) keys: Table,
}

/// A method as it is compared.
pub(super) struct Compared {
    /// Its label, and what is trained.
    pub(super) entry: Labelled,
    /// The method that trains it, if it is the outer weights of another.
    pub(super) outer_of: Option<String>,
}

impl Entry {
    /// Whether it is the outer weights of another method.
    fn is_outer(&self) -> bool {
        match self {
            Self::Keys(keys) => keys.contains_key("outer_of"),
            Self::Name(_) => false,
        }
    }

    /// With its label. `key` is what it has to say: `method`, `model.name` or `data.dataset`.
    fn labelled(&self, key: &[&str], path: &Path) -> Result<Labelled, Failure> {
        let wrong = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
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
        Ok(Labelled { label, keys })
    }
}

/// Each entry with its label.
pub(super) fn labelled(
    entries: &[Entry],
    key: &[&str],
    path: &Path,
) -> Result<Vec<Labelled>, Failure> {
    entries.iter().map(|entry| entry.labelled(key, path)).collect()
}

/// The methods; `{ label = "Online", outer_of = "HWA" }` has the keys of the other.
pub(super) fn compared(methods: &[Entry], path: &Path) -> Result<Vec<Compared>, Failure> {
    let own: Vec<Entry> = methods.iter().filter(|entry| !entry.is_outer()).cloned().collect();
    let trained = labelled(&own, &["method"], path)?;
    let mut own = trained.iter();
    let mut compared = Vec::new();
    for entry in methods {
        match entry {
            Entry::Keys(keys) if entry.is_outer() => {
                compared.push(outer_weights(keys, &trained, path)?);
            }
            _ => {
                let own = own.next().cloned();
                compared.extend(own.map(|entry| Compared { entry, outer_of: None }));
            }
        }
    }
    Ok(compared)
}

/// The outer weights of a method that is trained.
fn outer_weights(keys: &Table, trained: &[Labelled], path: &Path) -> Result<Compared, Failure> {
    let wrong = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
    let of = keys.get("outer_of").and_then(Value::as_str).unwrap_or_default();
    let Some(source) = trained.iter().find(|entry| entry.label == of) else {
        let known = labels(trained);
        return Err(wrong(format!("`outer_of` must be one of {known}, found {of:?}")));
    };
    if let Some(other) = keys.keys().find(|key| !["label", "outer_of"].contains(&key.as_str())) {
        return Err(wrong(format!(
            "an entry with `outer_of` has a `label` and nothing else, found `{other}`"
        )));
    }
    let Some(label) = keys.get("label") else {
        return Err(wrong(format!("the entry `outer_of = {of:?}` needs a `label`")));
    };
    // With the keys of what trains it, it is labelled like any other.
    let mut whole = source.keys.clone();
    whole.insert("label".to_owned(), label.clone());
    let entry = Entry::Keys(whole).labelled(&["method"], path)?;
    Ok(Compared { entry, outer_of: Some(of.to_owned()) })
}

/// The labels of entries, for a message.
pub(super) fn labels<'a>(entries: impl IntoIterator<Item = &'a Labelled>) -> String {
    let labels: Vec<&str> = entries.into_iter().map(|entry| entry.label.as_str()).collect();
    labels.join(", ")
}

/// A label as the name of a folder.
pub(super) fn slug(label: &str) -> String {
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
