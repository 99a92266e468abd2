//! The keys of an experiment, as its types know them.
//!
//! Nobody lists them by hand: asked for a field that does not exist, serde names
//! those that do.

use hwa_core::spelling::distance;

use crate::experiment::Experiment;
use crate::parse::{ExperimentError, flat};

/// A key that no table has.
const NO_KEY: &str = "-";

impl Experiment {
    /// Every key with its table, such as `hwa.num_models`, in the order of the types.
    ///
    /// ```
    /// use hwa_train::Experiment;
    ///
    /// assert!(Experiment::keys().contains(&"stop.patience".to_owned()));
    /// ```
    pub fn keys() -> Vec<String> {
        let mut keys = Vec::new();
        for name in fields_of(None) {
            let inner = fields_of(Some(&name));
            if inner.is_empty() {
                keys.push(name);
            } else {
                keys.extend(inner.iter().map(|field| format!("{name}.{field}")));
            }
        }
        keys
    }

    /// The experiment as TOML for a reader: every default written out, and what is
    /// not set as a comment at the end of its table.
    pub fn to_commented_toml(&self) -> Result<String, ExperimentError> {
        let text = self.to_toml()?;
        let set = flat(&text);
        let unset: Vec<String> =
            Self::keys().into_iter().filter(|key| !set.contains_key(key)).collect();
        let comments = |table: &str| -> String {
            let inside = |key: &&String| key.rsplit_once('.').map_or("", |(t, _)| t) == table;
            unset.iter().filter(inside).map(|key| format!("# {}: not set\n", last(key))).collect()
        };
        let (mut commented, mut table) = (String::new(), "");
        for line in text.lines() {
            if let Some(next) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                commented.truncate(commented.trim_end().len());
                commented.push_str(&format!("\n{}\n", comments(table)));
                table = next;
            }
            commented.push_str(&format!("{line}\n"));
        }
        commented.push_str(&comments(table));
        Ok(commented)
    }
}

/// The fields of a table; none if it is a plain key.
fn fields_of(table: Option<&str>) -> Vec<String> {
    let header = table.map_or(String::new(), |name| format!("[{name}]\n"));
    match toml::from_str::<Experiment>(&format!("{header}{NO_KEY} = 0\n")) {
        Ok(_) => Vec::new(),
        Err(error) => unknown_field(error.message()).unwrap_or_default(),
    }
}

/// The fields that there are, from serde's message about one that there is not.
pub(crate) fn unknown_field(message: &str) -> Option<Vec<String>> {
    let (_, known) = message.strip_prefix("unknown field `")?.split_once('`')?;
    Some(known.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

/// What to say about a key that does not exist.
pub(crate) fn no_such_key(key: &str) -> String {
    if let Some(near) = nearest(key) {
        return format!("there is no key `{key}`; did you mean `{near}`?");
    }
    let table = key.rsplit_once('.').map(|(table, _)| table);
    let known = fields_of(table).join(", ");
    match table {
        _ if known.is_empty() => format!("there is no key `{key}`"),
        Some(table) => format!("there is no key `{key}`; `{table}` has {known}"),
        None => format!("there is no key `{key}`; there are {known}"),
    }
}

/// The same, where these are all that there are.
pub(crate) fn no_such_key_of(key: &str, known: &[String]) -> String {
    let close = last(key).chars().count().div_ceil(3);
    let near = known.iter().map(|known| (distance(last(key), known), known));
    match near.filter(|(far, _)| *far <= close).min_by_key(|(far, _)| *far) {
        Some((_, near)) => format!("there is no key `{key}`; did you mean `{near}`?"),
        None => format!("there is no key `{key}`; there are {}", known.join(", ")),
    }
}

/// The key that was probably meant, in this table or in another.
fn nearest(key: &str) -> Option<String> {
    let asked = last(key);
    let close = asked.chars().count().div_ceil(3);
    let far = |known: &String| {
        let name = last(known);
        // "window" is likely to be "window_length", "length" too.
        let part = name.split('_').any(|word| word == asked);
        let elsewhere = if part { 1 } else { distance(asked, name) + 1 };
        distance(key, known).min(elsewhere)
    };
    // A key without a table may be a table.
    let tables = if key.contains('.') { Vec::new() } else { fields_of(None) };
    let keys = Experiment::keys().into_iter().chain(tables).map(|known| (far(&known), known));
    keys.filter(|(far, _)| *far <= close).min_by_key(|(far, _)| *far).map(|(_, known)| known)
}

fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use super::*;

    #[test]
    fn the_keys_are_those_of_the_types() {
        let keys = Experiment::keys();
        for key in ["name", "threads", "data.dir", "model.name", "stop.patience", "swa.floor"] {
            assert!(keys.iter().any(|k| k == key), "{key}: {keys:?}");
        }
        assert!(!keys.iter().any(|key| key == "hwa"), "a table is no key");
    }

    #[test]
    fn near_keys_are_suggested() {
        for (asked, meant) in [
            ("hwa.num_modles", "hwa.num_models"),
            ("lokahead", "lookahead"),
            ("hwa.window", "hwa.window_length"),
            ("window_length", "hwa.window_length"),
            ("sede", "seed"),
            ("optimizer.batch_size", ""),
            ("lr", ""),
        ] {
            assert_eq!(nearest(asked).unwrap_or_default(), meant, "{asked}");
        }
        let message = no_such_key("stop.xyzzy");
        assert_eq!(message, "there is no key `stop.xyzzy`; `stop` has patience");
    }

    #[test]
    fn a_distance_counts_changes() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn what_is_not_set_is_a_comment_in_its_table() {
        let experiment = Experiment::default().resolved();
        let text = experiment.to_commented_toml().unwrap();
        assert!(text.contains("\n[stop]\n# patience: not set\n"), "{text}");
        assert!(text.contains("\n# threads: not set\n\n[data]\n"), "{text}");
        let plain = experiment.to_toml().unwrap();
        assert_eq!(text.parse::<toml::Table>().unwrap(), plain.parse::<toml::Table>().unwrap());
        let comments = text.lines().filter(|line| line.starts_with("# ")).count();
        assert_eq!(comments + flat(&plain).len(), Experiment::keys().len());
    }

    /// `docs/experiment.md` has a row for every key, no others, and the true defaults.
    #[test]
    fn the_page_of_keys_is_complete() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiment.md");
        let page = std::fs::read_to_string(page).unwrap();
        let rows: BTreeMap<&str, &str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
            .map(|(key, cells)| (key, cells.split('|').nth(2).unwrap_or_default().trim()))
            .collect();
        let keys = Experiment::keys();
        let keys: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
        assert_eq!(rows.keys().copied().collect::<BTreeSet<&str>>(), keys);
        let defaults = flat(&Experiment::default().to_toml().unwrap());
        assert!(!defaults.is_empty());
        for (key, default) in &defaults {
            assert_eq!(rows[key.as_str()], format!("`{default}`"), "the default of {key}");
        }
    }
}
