//! From TOML text and `--set` overrides to an [`Experiment`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use crate::experiment::Experiment;
use crate::mistake::{Mistake, line_at};

/// Why an experiment could not be understood or cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The file is not such TOML; the message shows the line.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What and where.
        message: String,
    },
    /// An override cannot be applied.
    #[error("--set {set}: {message}")]
    Override {
        /// The override as given.
        set: String,
        /// What is wrong with it.
        message: String,
    },
    /// A value is impossible.
    #[error("`{key}` {reason}")]
    Value {
        /// The key, with its table.
        key: &'static str,
        /// What it must be, and what it is.
        reason: String,
    },
    /// A run trains another experiment.
    #[error("{} is another experiment: `{key}` is {stored} there, asked for is {asked}", run.display())]
    Other {
        /// The run.
        run: PathBuf,
        /// The first key that differs.
        key: String,
        /// Its value there.
        stored: String,
        /// Its value here.
        asked: String,
    },
}

impl ExperimentError {
    /// The same error with the override that gave the value, or else with the file
    /// and the line in which the key stands, if it stands there at all.
    pub fn located(self, text: &str, path: &Path, sets: &[String]) -> Self {
        let Self::Value { key, reason } = self else { return self };
        let gives = |set: &&String| set.split_once('=').is_some_and(|(k, _)| k.trim() == key);
        // The last one counts.
        if let Some(set) = sets.iter().rev().find(gives) {
            let message = format!("`{key}` {reason}");
            return Self::Override { set: set.clone(), message };
        }
        let Some(line) = line_of(text, key) else { return Self::Value { key, reason } };
        let message = format!("line {line}: `{key}` {reason}");
        Self::File { path: path.to_owned(), message }
    }
}

/// The line, from 1, on which a key such as `hwa.sync_period` is given; in lists, the number of
/// an entry from 0 stands for a key: `methods.2.hwa.sync_period`.
///
/// ```
/// let text = "seed = 1\nmethods = [\n  \"sgd\",\n  { hwa.num_models = 2 },\n]\n";
/// assert_eq!(hwa_train::line_of(text, "methods.1.hwa.num_models"), Some(4));
/// assert_eq!(hwa_train::line_of(text, "methods.0"), Some(3));
/// assert_eq!(hwa_train::line_of(text, "methods.2"), None);
/// ```
pub fn line_of(text: &str, key: &str) -> Option<usize> {
    let document = toml_edit::Document::parse(text).ok()?;
    let mut parts = key.split('.');
    let mut found = Found::Item(document.as_table().get(parts.next()?)?);
    for part in parts {
        found = found.below(part)?;
    }
    Some(line_at(text, found.span()?.start))
}

/// What stands at a key: entries of lists are values, all else are items.
enum Found<'a> {
    Item(&'a Item),
    Value(&'a Value),
    Table(&'a Table),
}

impl<'a> Found<'a> {
    fn below(&self, part: &str) -> Option<Found<'a>> {
        let index = || part.parse::<usize>().ok();
        match *self {
            Self::Item(Item::Value(Value::Array(list))) => list.get(index()?).map(Found::Value),
            Self::Item(Item::ArrayOfTables(list)) => list.get(index()?).map(Found::Table),
            Self::Item(item) => item.get(part).map(Found::Item),
            Self::Value(value) => value.as_inline_table()?.get(part).map(Found::Value),
            Self::Table(table) => table.get(part).map(Found::Item),
        }
    }

    fn span(&self) -> Option<Range<usize>> {
        match self {
            Self::Item(item) => item.span(),
            Self::Value(value) => value.span(),
            Self::Table(table) => table.span(),
        }
    }
}

impl Experiment {
    /// The first key whose value differs between two experiments as TOML, with
    /// both values; a key that is not there is `unset`.
    pub fn first_difference(a: &str, b: &str) -> Option<(String, String, String)> {
        let (a, b) = (flat(a), flat(b));
        let unset = || "unset".to_owned();
        let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        let differs = keys.into_iter().find(|key| a.get(*key) != b.get(*key))?;
        let value = |side: &BTreeMap<String, String>| side.get(differs).cloned();
        Some((differs.clone(), value(&a).unwrap_or_else(unset), value(&b).unwrap_or_else(unset)))
    }

    /// Reads an experiment's text; `path` is for messages.
    ///
    /// ```
    /// use hwa_train::Experiment;
    ///
    /// let text = "name = \"mine\"\n[hwa]\nnum_models = 4\n";
    /// let sets = ["hwa.window_length=[5, 10]".to_owned(), "method=lawa".to_owned()];
    /// let experiment = Experiment::parse(text, "mine.toml".as_ref(), &sets)?;
    /// assert_eq!(experiment.hwa.num_models.get(), 4);
    /// assert_eq!(experiment.hwa.window_length.as_slice().len(), 2);
    /// # Ok::<_, hwa_train::ExperimentError>(())
    /// ```
    pub fn parse(text: &str, path: &Path, sets: &[String]) -> Result<Self, ExperimentError> {
        let file = |message: String| ExperimentError::File { path: path.to_owned(), message };
        let mut document: DocumentMut = text
            .parse()
            .map_err(|e: toml_edit::TomlError| file(e.to_string().trim_end().to_owned()))?;
        // The file alone first, so that its errors show its own lines.
        let mut experiment: Self = toml::from_str(text).map_err(|e| {
            let mistake = Mistake::new(text, &e);
            file(format!("line {}: {}", mistake.line, mistake.told_beside("")))
        })?;
        replace_budget(&mut document, sets);
        for set in sets {
            let wrong = |message: String| ExperimentError::Override { set: set.clone(), message };
            let key = apply(&mut document, set).map_err(wrong)?;
            let text = document.to_string();
            experiment = toml::from_str(&text)
                .map_err(|e| wrong(Mistake::new(&text, &e).told_beside(key)))?;
        }
        Ok(experiment)
    }

    /// What is wrong with keys and values of an experiment's text, each by itself: the key, and
    /// what it must be.
    pub fn mistake(text: &str) -> Option<(String, String)> {
        let error = toml::from_str::<Self>(text).err()?;
        let mistake = Mistake::new(text, &error);
        let told = mistake.told_beside("");
        Some((mistake.key, told))
    }

    /// The experiment as TOML, every default written out.
    pub fn to_toml(&self) -> Result<String, ExperimentError> {
        toml::to_string_pretty(self).map_err(|e| ExperimentError::File {
            path: PathBuf::from("experiment.toml"),
            message: e.to_string(),
        })
    }
}

/// Every key of an experiment as TOML, with its table and its value.
pub(crate) fn flat(text: &str) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    flatten("", text.parse().unwrap_or_default(), &mut flat);
    flat
}

fn flatten(prefix: &str, table: toml::Table, flat: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let key = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, flat),
            other => drop(flat.insert(key, other.to_string())),
        }
    }
}

/// A budget in steps takes the place of the file's in epochs, and the other way round.
fn replace_budget(document: &mut DocumentMut, sets: &[String]) {
    let is_set = |key: &str| {
        sets.iter().any(|set| set.split_once('=').is_some_and(|(name, _)| name.trim() == key))
    };
    let steps = is_set("schedule.steps");
    if steps == is_set("schedule.epochs") {
        return;
    }
    if let Some(table) = document.get_mut("schedule").and_then(Item::as_table_like_mut) {
        table.remove(if steps { "epochs" } else { "steps" });
    }
}

/// Applies `key=value` and gives the key; the value is TOML, or else a bare word.
fn apply<'a>(document: &mut DocumentMut, set: &'a str) -> Result<&'a str, String> {
    let (key, text) = set.split_once('=').ok_or("expected key=value")?;
    let (key, text) = (key.trim(), text.trim());
    let value: Value = match text.parse() {
        Ok(value) => value,
        Err(_) if text.chars().all(|c| !c.is_control()) => Value::from(text),
        Err(error) => return Err(error.to_string()),
    };
    let mut parts: Vec<&str> = key.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    if last.is_empty() || parts.iter().any(|part| part.is_empty()) {
        return Err(format!("{key:?} is not a key"));
    }
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for part in parts {
        let item = table.entry(part).or_insert_with(|| Item::Table(Table::new()));
        table = item.as_table_like_mut().ok_or_else(|| format!("`{part}` is not a table"))?;
    }
    table.insert(last, Item::Value(value));
    Ok(key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::experiment::{Method, ScheduleTable};

    fn parse(text: &str, sets: &[&str]) -> Result<Experiment, ExperimentError> {
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        Experiment::parse(text, Path::new("e.toml"), &sets)
    }

    fn error(text: &str, sets: &[&str]) -> String {
        parse(text, sets).unwrap_err().to_string()
    }

    #[test]
    fn a_budget_that_is_set_replaces_the_one_in_the_file() {
        let budget = |text: &str, sets: &[&str]| {
            let ScheduleTable { epochs, steps, .. } = parse(text, sets).unwrap().schedule;
            (epochs.map(u64::from), steps.map(u64::from))
        };
        let epochs = "[schedule]\nepochs = 3\n";
        assert_eq!(budget(epochs, &["schedule.steps=9"]), (None, Some(9)));
        assert_eq!(budget(epochs, &["schedule.epochs=4"]), (Some(4), None));
        assert_eq!(budget("schedule = { steps = 5 }", &["schedule.epochs=4"]), (Some(4), None));
        // Both of them are a mistake, as in a file.
        let both = budget(epochs, &["schedule.steps=9", "schedule.epochs=4"]);
        assert_eq!(both, (Some(4), Some(9)));
    }

    #[test]
    fn an_empty_file_is_the_default_experiment() {
        assert_eq!(parse("", &[]).unwrap(), Experiment::default());
    }

    #[test]
    fn the_resolved_experiment_reads_back_as_itself() {
        let experiment = parse("[hwa]\nsync_period = \"0.25 epochs\"\n", &["stop.patience=3"]);
        let experiment = experiment.unwrap();
        let text = experiment.to_toml().unwrap();
        assert_eq!(parse(&text, &[]).unwrap(), experiment);
    }

    #[test]
    fn errors_of_the_file_show_the_line_and_the_key() {
        let unknown = error("seed = 2\n[hwa]\nnum_modles = 2\n", &[]);
        assert!(unknown.starts_with("e.toml: line 3: there is no key `hwa.num_mod"), "{unknown}");
        let wrong_type = error("[optimizer]\nrate = \"fast\"\n", &[]);
        let expected = "e.toml: line 2: `optimizer.rate`: expected a number, found \"fast\"";
        assert_eq!(wrong_type, expected);
        let impossible = error("[hwa]\nnum_models = 0\n", &[]);
        assert!(impossible.contains("line 2"), "{impossible}");
        assert!(error("seed = \n", &[]).contains("line 1"));
    }

    #[test]
    fn overrides_take_toml_values_and_bare_words() {
        let experiment = parse("", &["method=swa", "hwa.window_length=\"10%\"", "seed=7"]).unwrap();
        assert_eq!((experiment.method, experiment.seed), (Method::Swa, 7));
        let experiment = parse("", &["hwa.sync_period=epoch", "data.dir=/a b/c"]).unwrap();
        assert_eq!(experiment.data.dir, Some(PathBuf::from("/a b/c")));
    }

    #[test]
    fn an_override_that_fails_is_named() {
        let zero = "--set hwa.num_models=0: expected a whole number of at least 1, found 0";
        assert_eq!(error("", &["hwa.num_models=0"]), zero);
        let unknown = error("", &["hwa.models=2"]);
        let expected = "there is no key `hwa.models`; did you mean `hwa.num_models`?";
        assert_eq!(unknown, format!("--set hwa.models=2: {expected}"));
        assert_eq!(error("", &["seed"]), "--set seed: expected key=value");
        assert!(error("", &["seed.x=1"]).contains("--set seed.x=1"));
        assert!(error("", &[".=1"]).contains("is not a key"));
    }

    #[test]
    fn an_impossible_value_is_located_in_its_file() {
        let text = "seed = 1\n\n[hwa]\nnum_models = 2\nsync_period = 0\n";
        let error = parse(text, &[]).unwrap().settings(640).unwrap_err();
        let message = error.located(text, Path::new("e.toml"), &[]).to_string();
        assert!(message.starts_with("e.toml: line 5: `hwa.sync_period` must be"), "{message}");
    }

    #[test]
    fn an_impossible_value_is_located_in_its_override() {
        for set in ["evaluate.tolerance=-1", "name=a/b", "hwa.window_stride=300"] {
            let error = parse("name = \"x\"\n", &[set]).unwrap().settings(640).unwrap_err();
            let sets = [set.to_owned()];
            let message = error.located("name = \"x\"\n", Path::new("e.toml"), &sets).to_string();
            assert!(message.starts_with(&format!("--set {set}: `")), "{message}");
        }
    }

    #[test]
    fn the_first_difference_is_named_with_both_values() {
        let difference = |a: &str, b: &str| Experiment::first_difference(a, b);
        let (a, b) = ("[hwa]\nk = 2\n", "[hwa]\nk = 3\n");
        let named = |x: &str, y: &str, z: &str| Some((x.into(), y.into(), z.into()));
        assert_eq!(difference(a, b), named("hwa.k", "2", "3"));
        assert_eq!(difference(a, ""), named("hwa.k", "2", "unset"));
        assert_eq!(difference(a, a), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}", set in "\\PC{0,40}") {
            let _ = parse(&text, &[]);
            let _ = parse("", &[&set]);
        }
    }
}
