//! A comparison as a file: methods, networks, data sets and seeds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hwa_report::Published;
use hwa_train::{Budget, Experiment, ExperimentError, Method};
use serde::Deserialize;
use toml::{Table, Value};

use crate::commands::train::as_stored;
use crate::failure::Failure;

/// What is compared, and the lists that it stands in.
const PLACES: [(&[&str], &str); 3] = [
    (&["method"], "methods"),
    (&["model", "name"], "networks"),
    (&["data", "dataset"], "datasets"),
];

/// How long names and labels may be.
const LONGEST: usize = 80;

/// What is compared, as it is written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    /// What the folder of its runs is called.
    pub(super) name: String,
    /// What it is about.
    #[serde(default)]
    pub(super) title: Option<String>,
    /// What a reader of the table has to know.
    #[serde(default)]
    pub(super) notes: Vec<String>,
    /// A run of everything for each.
    #[serde(default = "first_seed")]
    pub(super) seeds: Vec<u64>,
    /// What is equal between methods: the steps of each model, the gradients of all, or one
    /// after the other.
    #[serde(default = "both_budgets")]
    pub(super) budgets: Vec<Budget>,
    /// The label of the method that the others are compared with.
    #[serde(default)]
    pub(super) reference: Option<String>,
    /// The rows.
    pub(super) methods: Vec<Entry>,
    /// The networks.
    pub(super) networks: Vec<Entry>,
    /// The data sets.
    pub(super) datasets: Vec<Entry>,
    /// What all experiments have in common.
    #[serde(default)]
    pub(super) experiment: Table,
    /// Published figures by data set, network and method.
    #[serde(default)]
    pub(super) paper: BTreeMap<String, BTreeMap<String, BTreeMap<String, Figure>>>,
}

/// A method, a network or a data set: its name, or keys of an experiment with a `label`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a name or a table of keys of an experiment")]
pub(super) enum Entry {
    /// The value of `method`, `model.name` or `data.dataset`.
    Name(String),
    /// Keys of an experiment.
    Keys(Table),
}

/// Top-1 alone, or both.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a percentage, or { top1, top5 }")]
pub(super) enum Figure {
    /// In percent.
    Top1(f64),
    /// In percent, both.
    Both {
        /// Top-1 accuracy.
        top1: f64,
        /// Top-5 accuracy.
        top5: f64,
    },
}

/// A method on a data set with a network under a budget: runs that differ by their seed alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    /// The data set's label.
    pub(super) dataset: String,
    /// The network's label.
    pub(super) network: String,
    /// The method's label.
    pub(super) method: String,
    /// Where its runs are, below the comparison's folder.
    pub(super) folder: String,
    /// What they train, but for the seed.
    pub(super) experiment: Experiment,
    /// The method that trains them, if this is of their outer weights alone.
    pub(super) outer_of: Option<String>,
}

/// A method as it is compared.
struct Compared {
    /// Its label, and what is trained.
    entry: (String, Table),
    /// The method that trains it, if it is the outer weights of another.
    outer_of: Option<String>,
}

impl Cell {
    /// The method, and the budget if it is not the usual one.
    pub(super) fn label(&self) -> String {
        match self.experiment.budget {
            Budget::PerModel => self.method.clone(),
            Budget::Total => format!("{}, equal gradients", self.method),
        }
    }

    /// An error, unless a run in `place` that has `stored` this experiment is one of this cell.
    pub(super) fn ensure_trained_by(
        &self,
        stored: &Experiment,
        place: &Path,
        seed: u64,
    ) -> Result<(), Failure> {
        let asked = Experiment { seed, ..self.experiment.clone() };
        let model = asked.model.clone();
        let stored = as_stored(stored, place, asked)?;
        // A resumed run takes these from itself.
        let same = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
        };
        let equal = same(&stored.model.weights) == same(&model.weights);
        match equal && stored.model.new_head == model.new_head {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "{} is another experiment: it begins with other weights",
                place.display()
            ))),
        }
    }
}

fn first_seed() -> Vec<u64> {
    vec![1]
}

fn both_budgets() -> Vec<Budget> {
    vec![Budget::PerModel, Budget::Total]
}

impl From<Figure> for Published {
    fn from(figure: Figure) -> Self {
        match figure {
            Figure::Top1(top1) => Self { top1: Some(top1), top5: None },
            Figure::Both { top1, top5 } => Self { top1: Some(top1), top5: Some(top5) },
        }
    }
}

impl Spec {
    /// Reads a comparison's text; `path` is for messages.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        let wrong = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
        let spec: Self =
            toml::from_str(text).map_err(|error| wrong(hwa_train::mistake_in(text, &error)))?;
        for (key, length) in [
            ("methods", spec.methods.len()),
            ("networks", spec.networks.len()),
            ("datasets", spec.datasets.len()),
            ("seeds", spec.seeds.len()),
            ("budgets", spec.budgets.len()),
        ] {
            if length == 0 {
                return Err(wrong(format!("`{key}` must name at least one, found none")));
            }
        }
        for (key, again) in [
            ("seeds", repeated(&spec.seeds).map(u64::to_string)),
            (
                "budgets",
                repeated(&spec.budgets).map(|budget| match budget {
                    Budget::PerModel => "per-model".to_owned(),
                    Budget::Total => "total".to_owned(),
                }),
            ),
        ] {
            if let Some(again) = again {
                return Err(wrong(format!("`{key}` must name each once, found {again} again")));
            }
        }
        let found = &spec.name;
        if slug(found).is_empty() || found.contains(['/', '\\']) || found.len() > LONGEST {
            return Err(wrong(format!("`name` must be the name of a folder, found {found:?}")));
        }
        // Whole numbers of TOML have a sign.
        if let Some(seed) = spec.seeds.iter().find(|seed| i64::try_from(**seed).is_err()) {
            let reason = format!("`seeds` must be at most {}, found {seed}", i64::MAX);
            return Err(wrong(reason));
        }
        if let Some((key, place)) =
            PLACES.iter().find(|(key, _)| value_at(&spec.experiment, key).is_some())
        {
            let key = key.join(".");
            return Err(wrong(format!("`{key}` stands in `{place}`, found in `experiment`")));
        }
        let published = spec.paper.values().flat_map(|n| n.values()).flat_map(|m| m.values());
        let published = published.map(|figure| Published::from(*figure));
        let mut percentages = published.flat_map(|figure| [figure.top1, figure.top5]).flatten();
        if let Some(found) = percentages.find(|value| !(0.0..=100.0).contains(value)) {
            return Err(wrong(format!("figures of `paper` must be from 0 to 100, found {found}")));
        }
        Ok(spec)
    }

    /// What stands in the file of the experiments, for a reader of the table: what all have in
    /// common, and what is special about each entry, under its label.
    pub(super) fn described(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let common = keys_of(&self.experiment);
        if !common.is_empty() {
            lines.push(format!("All: {}.", common.join(", ")));
        }
        for entry in [&self.datasets, &self.networks, &self.methods].into_iter().flatten() {
            let Entry::Keys(keys) = entry else { continue };
            let mut label = keys.get("label").and_then(Value::as_str).map(str::to_owned);
            for (key, _) in &PLACES {
                label = label.or_else(|| text_at(keys, key));
            }
            if let Some(label) = label.filter(|_| !keys.contains_key("outer_of")) {
                lines.push(format!("{label}: {}.", keys_of(keys).join(", ")));
            }
        }
        lines
    }

    /// What the paper has for a row.
    pub(super) fn published(&self, cell: &Cell) -> Published {
        let networks = self.paper.get(&cell.dataset);
        let methods = networks.and_then(|networks| networks.get(&cell.network));
        let figure = methods.and_then(|methods| methods.get(&cell.method));
        figure.copied().map_or_else(Published::default, Published::from)
    }

    /// Every experiment, by data set, network, method and budget. `path` is for messages.
    pub(super) fn cells(&self, path: &Path, sets: &[String]) -> Result<Vec<Cell>, Failure> {
        let mut cells: Vec<Cell> = Vec::new();
        let datasets = self.labelled(&self.datasets, &["data", "dataset"], path)?;
        let networks = self.labelled(&self.networks, &["model", "name"], path)?;
        let compared = self.compared(path)?;
        for dataset in &datasets {
            for network in &networks {
                for method in &compared {
                    for budget in &self.budgets {
                        let (label, keys) = &method.entry;
                        let trained = method.outer_of.as_ref().unwrap_or(label).clone();
                        let parts = [dataset, network, &(trained, keys.clone())];
                        let Some(mut cell) = self.cell(parts, *budget, path, sets)? else {
                            continue;
                        };
                        if method.outer_of.is_some() {
                            ensure_averaged(&cell, path)?;
                            cell.method.clone_from(label);
                            cell.outer_of.clone_from(&method.outer_of);
                        }
                        let same = |other: &Cell| {
                            (&other.folder, &other.outer_of) == (&cell.folder, &cell.outer_of)
                        };
                        if cells.iter().any(same) {
                            let (path, folder) = (path.display(), &cell.folder);
                            return Err(Failure::usage(format!(
                                "{path}: two entries have the same folder, {folder}; give them \
                                 other labels"
                            )));
                        }
                        cells.push(cell);
                    }
                }
            }
        }
        let methods: Vec<(String, Table)> = compared.into_iter().map(|m| m.entry).collect();
        if let Some(found) = &self.reference
            && !methods.iter().any(|(label, _)| label == found)
        {
            let known: Vec<&str> = methods.iter().map(|(label, _)| label.as_str()).collect();
            let (path, known) = (path.display(), known.join(", "));
            return Err(Failure::usage(format!(
                "{path}: `reference` must be one of {known}, found {found:?}"
            )));
        }
        self.check_paper([&datasets, &networks, &methods], path)?;
        Ok(cells)
    }

    /// The methods; `{ label = "Online", outer_of = "HWA" }` has the keys of the other.
    fn compared(&self, path: &Path) -> Result<Vec<Compared>, Failure> {
        let wrong = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
        let is_outer = |entry: &&Entry| match entry {
            Entry::Keys(keys) => keys.contains_key("outer_of"),
            Entry::Name(_) => false,
        };
        let own: Vec<Entry> = self.methods.iter().filter(|e| !is_outer(e)).cloned().collect();
        let mut own = self.labelled(&own, &["method"], path)?.into_iter();
        let trained = own.as_slice().to_vec();
        let mut compared = Vec::new();
        for entry in &self.methods {
            let keys = match entry {
                Entry::Keys(keys) if is_outer(&entry) => keys,
                _ => {
                    compared.extend(own.next().map(|entry| Compared { entry, outer_of: None }));
                    continue;
                }
            };
            let of = keys.get("outer_of").and_then(Value::as_str).unwrap_or_default();
            let Some((_, trained)) = trained.iter().find(|(label, _)| label == of) else {
                let known: Vec<&str> = trained.iter().map(|(label, _)| label.as_str()).collect();
                let known = known.join(", ");
                return Err(wrong(format!("`outer_of` must be one of {known}, found {of:?}")));
            };
            if let Some(other) =
                keys.keys().find(|key| !["label", "outer_of"].contains(&key.as_str()))
            {
                return Err(wrong(format!(
                    "an entry with `outer_of` has a `label` and nothing else, found `{other}`"
                )));
            }
            // With the keys of what trains it, it is labelled like any other.
            let mut whole = trained.clone();
            match keys.get("label") {
                Some(label) => drop(whole.insert("label".to_owned(), label.clone())),
                None => {
                    return Err(wrong(format!("the entry `outer_of = {of:?}` needs a `label`")));
                }
            }
            for entry in self.labelled(&[Entry::Keys(whole)], &["method"], path)? {
                compared.push(Compared { entry, outer_of: Some(of.to_owned()) });
            }
        }
        Ok(compared)
    }

    /// One experiment; nothing, if another budget has the same.
    fn cell(
        &self,
        [dataset, network, method]: [&(String, Table); 3],
        budget: Budget,
        path: &Path,
        sets: &[String],
    ) -> Result<Option<Cell>, Failure> {
        let mut keys = self.experiment.clone();
        for (_, part) in [dataset, network, method] {
            merge(&mut keys, part);
        }
        let labels = [&dataset.0, &network.0, &method.0].map(String::as_str);
        for key in ["name", "seed", "budget"] {
            if keys.contains_key(key) {
                let path = path.display();
                return Err(Failure::usage(format!(
                    "{path}: `{key}` is no key of an experiment here: the file itself has \
                     `name`, `seeds` and `budgets`"
                )));
            }
        }
        let text = toml::to_string(&keys).map_err(|e| Failure::usage(e.to_string()))?;
        let mut experiment = Experiment::parse(&text, path, sets).map_err(|error| match error {
            // Its lines are those of a text that nobody has written.
            ExperimentError::File { message, .. } => {
                let reason = message.split_once(": ").map_or(message.as_str(), |(_, rest)| rest);
                let [dataset, network, method] = labels;
                let path = path.display();
                let more = match reason.starts_with("there is no key") {
                    true => " (an entry has also `label` and `outer_of`)",
                    false => "",
                };
                Failure::usage(format!(
                    "{path}: {method} on {dataset} with {network}: {reason}{more}"
                ))
            }
            other => other.into(),
        })?;
        let single = experiment.gradients_per_step() == 1;
        if single && self.budgets.first() != Some(&budget) {
            return Ok(None);
        }
        // With one gradient in a step both budgets are the same.
        experiment.budget = if single { Budget::PerModel } else { budget };
        let suffix = if experiment.budget == Budget::Total { "-total" } else { "" };
        let [d, n, m] = labels.map(slug);
        experiment.name = format!("{d}-{n}-{m}{suffix}");
        let [dataset, network, method] = labels.map(str::to_owned);
        let folder = format!("{d}/{n}/{m}{suffix}");
        Ok(Some(Cell { dataset, network, method, folder, experiment, outer_of: None }))
    }

    /// A figure under a label that nothing has would be missed by nobody.
    fn check_paper(&self, labels: [&[(String, Table)]; 3], path: &Path) -> Result<(), Failure> {
        let [datasets, networks, methods] = labels;
        let check = |key: String, label: &String, known: &[(String, Table)]| {
            if known.iter().any(|(known, _)| known == label) {
                return Ok(());
            }
            let known: Vec<&str> = known.iter().map(|(label, _)| label.as_str()).collect();
            let (path, known) = (path.display(), known.join(", "));
            Err(Failure::usage(format!("{path}: `{key}` must be one of {known}, found {label:?}")))
        };
        for (dataset, by_network) in &self.paper {
            check("paper".to_owned(), dataset, datasets)?;
            for (network, by_method) in by_network {
                check(format!("paper.{dataset}"), network, networks)?;
                for method in by_method.keys() {
                    check(format!("paper.{dataset}.{network}"), method, methods)?;
                }
            }
        }
        Ok(())
    }

    /// Each entry with its label and its keys; the label of a name is that name.
    fn labelled(
        &self,
        entries: &[Entry],
        key: &[&str],
        path: &Path,
    ) -> Result<Vec<(String, Table)>, Failure> {
        let labelled = |entry: &Entry| {
            let mut keys = match entry {
                Entry::Keys(keys) => keys.clone(),
                Entry::Name(name) => nested(key, name),
            };
            let written = match keys.remove("label") {
                Some(Value::String(label)) => Some(label),
                Some(other) => {
                    let path = path.display();
                    let reason = format!("`label` must be a text, found {other}");
                    return Err(Failure::usage(format!("{path}: {reason}")));
                }
                None => text_at(&keys, key),
            };
            let label = written.ok_or_else(|| {
                let (path, key) = (path.display(), key.join("."));
                Failure::usage(format!("{path}: an entry without `{key}` needs a `label`"))
            })?;
            // It names a folder, and stands in tables.
            let is_line = !label.contains(char::is_control) && label.len() <= LONGEST;
            if slug(&label).is_empty() || !is_line {
                let path = path.display();
                let reason = format!(
                    "must be a line of at most {LONGEST} letters, one of them from a to z or a digit"
                );
                return Err(Failure::usage(format!("{path}: `label` {reason}, found {label:?}")));
            }
            if text_at(&keys, key).is_none() {
                let (path, key) = (path.display(), key.join("."));
                let reason = format!("the entry {label:?} needs `{key}`");
                return Err(Failure::usage(format!("{path}: {reason}")));
            }
            let others = PLACES.iter().filter(|(other, _)| *other != key);
            if let Some((other, place)) =
                others.into_iter().find(|(k, _)| value_at(&keys, k).is_some())
            {
                let (path, other) = (path.display(), other.join("."));
                return Err(Failure::usage(format!(
                    "{path}: `{other}` stands in `{place}`, found in the entry {label:?}"
                )));
            }
            Ok((label, keys))
        };
        entries.iter().map(labelled).collect()
    }
}

/// Outer weights are told apart from the result where several models have windows.
fn ensure_averaged(cell: &Cell, path: &Path) -> Result<(), Failure> {
    let experiment = &cell.experiment;
    let kept = experiment.checkpoints.outer_every.get() == 1;
    match experiment.method == Method::Hwa && experiment.num_models().get() > 1 && kept {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{}: `outer_of` must name a method `hwa` with several models, all of whose outer \
             weights are kept, found {:?}",
            path.display(),
            cell.method
        ))),
    }
}

/// A value that is there twice.
pub(super) fn repeated<T: PartialEq>(values: &[T]) -> Option<&T> {
    let mut numbered = values.iter().enumerate();
    numbered.find(|(i, value)| values[..*i].contains(value)).map(|(_, value)| value)
}

/// A table with a value some tables down.
fn nested(key: &[&str], value: &str) -> Table {
    let inner = match key {
        [_, rest @ ..] if !rest.is_empty() => Value::Table(nested(rest, value)),
        _ => Value::String(value.to_owned()),
    };
    key.first().map(|first| ((*first).to_owned(), inner)).into_iter().collect()
}

fn text_at(keys: &Table, key: &[&str]) -> Option<String> {
    value_at(keys, key)?.as_str().map(str::to_owned)
}

fn value_at<'a>(keys: &'a Table, key: &[&str]) -> Option<&'a Value> {
    let (first, rest) = key.split_first()?;
    let value = keys.get(*first)?;
    match rest {
        [] => Some(value),
        rest => value_at(value.as_table()?, rest),
    }
}

/// Keys with their values, but for what depends on the machine.
fn keys_of(table: &Table) -> Vec<String> {
    fn add(prefix: &str, table: &Table, keys: &mut Vec<String>) {
        for (key, value) in table {
            let key = format!("{prefix}{key}");
            match value {
                _ if ["label", "threads", "data.dir", "data.decoders"].contains(&key.as_str()) => {}
                Value::Table(inner) => add(&format!("{key}."), inner, keys),
                Value::String(text) => keys.push(format!("{key} = {text}")),
                other => keys.push(format!("{key} = {other}")),
            }
        }
    }
    let mut keys = Vec::new();
    add("", table, &mut keys);
    keys
}

/// Puts keys over others, table by table.
fn merge(into: &mut Table, keys: &Table) {
    for (key, value) in keys {
        match (into.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            _ => drop(into.insert(key.clone(), value.clone())),
        }
    }
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

    const TEXT: &str = r#"
name = "mine"
seeds = [1, 2]
methods = ["sgd", { label = "HWA", method = "hwa", hwa = { num_models = 3 } }]
networks = ["resnet8", { model = { name = "resnet20" }, optimizer = { rate = 0.05 } }]
datasets = ["digits"]
[experiment]
schedule = { epochs = 4 }
hwa = { window_length = 2 }
[paper.digits.resnet20]
HWA = 70.79
"#;

    fn cells(text: &str) -> Result<Vec<Cell>, Failure> {
        let path = Path::new("c.toml");
        Spec::parse(text, path)?.cells(path, &[])
    }

    fn error(text: &str) -> String {
        cells(text).unwrap_err().to_string()
    }

    #[test]
    fn cells_are_all_combinations_and_one_gradient_has_one_budget() {
        let cells = cells(TEXT).unwrap();
        let folders: Vec<&str> = cells.iter().map(|cell| cell.folder.as_str()).collect();
        let expected = [
            "digits/resnet8/sgd",
            "digits/resnet8/hwa",
            "digits/resnet8/hwa-total",
            "digits/resnet20/sgd",
            "digits/resnet20/hwa",
            "digits/resnet20/hwa-total",
        ];
        assert_eq!(folders, expected);
        let last = &cells[5].experiment;
        assert_eq!((last.hwa.num_models.get(), last.optimizer.rate), (3, 0.05));
        assert_eq!(last.hwa.window_length.as_slice().len(), 1, "tables are merged");
        assert_eq!((last.budget, last.name.as_str()), (Budget::Total, "digits-resnet20-hwa-total"));
        let spec = Spec::parse(TEXT, Path::new("c.toml")).unwrap();
        assert_eq!(spec.published(&cells[4]).top1, Some(70.79));
        assert_eq!(spec.published(&cells[1]).top1, None);
    }

    #[test]
    fn outer_weights_of_a_method_are_a_row_and_no_training_of_their_own() {
        let with = |entry: &str| TEXT.replace("[\"sgd\",", &format!("[\"sgd\", {entry},"));
        let cells = cells(&with("{ label = \"Online\", outer_of = \"HWA\" }")).unwrap();
        let of = |method: &str| -> Vec<&Cell> {
            cells.iter().filter(|cell| cell.method == method).collect()
        };
        let (online, hwa) = (of("Online"), of("HWA"));
        assert_eq!((online.len(), hwa.len()), (4, 4));
        for (online, hwa) in online.iter().zip(hwa) {
            assert_eq!((&online.folder, &online.experiment), (&hwa.folder, &hwa.experiment));
            assert_eq!((online.outer_of.as_deref(), &hwa.outer_of), (Some("HWA"), &None));
        }
        for (entry, expected) in [
            (
                "{ label = \"a\", outer_of = \"b\" }",
                "`outer_of` must be one of sgd, HWA, found \"b\"",
            ),
            ("{ label = \"a\", outer_of = 3 }", "`outer_of` must be one of sgd, HWA, found \"\""),
            ("{ outer_of = \"HWA\" }", "the entry `outer_of = \"HWA\"` needs a `label`"),
            (
                "{ label = \"a\", outer_of = \"sgd\" }",
                "must name a method `hwa` with several models",
            ),
            (
                "{ label = \"a\", outer_of = \"HWA\", seed = 3 }",
                "has a `label` and nothing else, found `seed`",
            ),
        ] {
            assert!(error(&with(entry)).contains(expected), "{}", error(&with(entry)));
        }
    }

    #[test]
    fn mistakes_name_what_they_are_in() {
        let twice = TEXT.replace("[\"sgd\",", "[\"sgd\", \"SGD\",");
        assert!(
            error(&twice).starts_with("c.toml: SGD on digits with resnet8: "),
            "{}",
            error(&twice)
        );
        let unknown = TEXT.replace("num_models = 3", "num_modls = 3");
        assert!(error(&unknown).contains("HWA on digits with resnet8: "), "{}", error(&unknown));
        assert!(error(&unknown).contains("num_modls"), "{}", error(&unknown));
        let same = TEXT.replace("\"sgd\",", "\"sgd\", \"sgd\",");
        assert!(error(&same).contains("two entries have the same folder, digits/resnet8/sgd"));
        let none = TEXT.replace("seeds = [1, 2]", "seeds = []");
        assert!(error(&none).contains("`seeds` must name at least one"), "{}", error(&none));
        let seed = TEXT.replace("method = \"hwa\"", "method = \"hwa\", seed = 3");
        assert!(error(&seed).contains("`seed` is no key"), "{}", error(&seed));
        let label = TEXT.replace("label = \"HWA\", method = \"hwa\",", "");
        assert!(error(&label).contains("without `method` needs a `label`"), "{}", error(&label));
        let method = TEXT.replace("method = \"hwa\", ", "");
        assert!(error(&method).contains("the entry \"HWA\" needs `method`"), "{}", error(&method));
        let seed = TEXT.replace("seeds = [1, 2]", "seeds = [18446744073709551615]");
        assert!(error(&seed).contains("seeds"), "{}", error(&seed));
        let outside = TEXT.replace("\"mine\"", "\"../mine\"");
        assert!(error(&outside).contains("`name` must be the name of a folder"));
        let typo = TEXT.replace("[\"sgd\",", "[\"sgdd\",");
        assert!(
            error(&typo).starts_with("c.toml: sgdd on digits with resnet8: "),
            "{}",
            error(&typo)
        );
        let twice = TEXT.replace("seeds = [1, 2]", "seeds = [1, 2, 1]");
        assert!(error(&twice).contains("`seeds` must name each once, found 1 again"));
        let empty =
            TEXT.replace("[\"digits\"]", "[\"\"]").replace("[paper.digits.", "[paper.\"\".");
        assert!(error(&empty).contains("`label` must be a line"), "{}", error(&empty));
        let control = TEXT.replace("label = \"HWA\"", "label = \"H\\nWA\"");
        assert!(error(&control).contains("`label` must be a line"), "{}", error(&control));
        let paper = TEXT.replace("HWA = 70.79", "HAW = 70.79");
        let expected = "`paper.digits.resnet20` must be one of sgd, HWA, found \"HAW\"";
        assert!(error(&paper).contains(expected), "{}", error(&paper));
        assert!(error("name = 3").starts_with("c.toml: "), "{}", error("name = 3"));
        let without = TEXT.replace("datasets = [\"digits\"]", "");
        assert!(error(&without).contains("line 1: `datasets` is missing"), "{}", error(&without));
        let near = TEXT.replace("datasets", "dataset");
        let expected = "there is no key `dataset`; did you mean `datasets`?";
        assert!(error(&near).contains(expected), "{}", error(&near));
        let far = format!("optimizer.rate = 1\n{TEXT}");
        let expected = "there is no key `optimizer`; there are name, title,";
        assert!(error(&far).contains(expected), "{}", error(&far));
        let lable = TEXT.replace("label =", "lable =");
        assert!(error(&lable).contains("an entry has also `label`"), "{}", error(&lable));
        let other =
            TEXT.replace("method = \"hwa\",", "method = \"hwa\", model.name = \"resnet20\",");
        let expected = "`model.name` stands in `networks`, found in the entry \"HWA\"";
        assert!(error(&other).contains(expected), "{}", error(&other));
        let common = TEXT.replace("[experiment]", "[experiment]\nmethod = \"sgd\"");
        let expected = "`method` stands in `methods`, found in `experiment`";
        assert!(error(&common).contains(expected), "{}", error(&common));
        let paper = TEXT.replace("70.79", "nan");
        assert!(error(&paper).contains("from 0 to 100, found NaN"), "{}", error(&paper));
    }

    #[test]
    fn a_reader_is_told_what_stands_in_the_file() {
        let spec = Spec::parse(TEXT, Path::new("c.toml")).unwrap();
        let expected = [
            "All: hwa.window_length = 2, schedule.epochs = 4.",
            "resnet20: model.name = resnet20, optimizer.rate = 0.05.",
            "HWA: hwa.num_models = 3, method = hwa.",
        ];
        assert_eq!(spec.described(), expected);
    }

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
