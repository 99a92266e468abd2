//! A comparison as a file: methods, networks, data sets and seeds.

use std::collections::BTreeMap;
use std::path::Path;

use hwa_report::Published;
use hwa_train::Budget;
use serde::Deserialize;
use toml::{Table, Value};

use crate::cell::Cell;
use crate::entry::{Entry, LONGEST, PLACES, mistake_in, slug};
use crate::error::CompareError;
use crate::file_kind::FileKind;
use crate::keys::{keys_of, text_at, value_at};
use crate::source::Source;

/// What is compared, as it is written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What the folder of its runs is called.
    pub name: String,
    /// What it is about.
    #[serde(default)]
    pub title: Option<String>,
    /// What a reader of the table has to know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// A run of everything for each.
    #[serde(default = "first_seed")]
    pub seeds: Vec<u64>,
    /// What is equal between methods: the steps of each model, the gradients of all, or one
    /// after the other.
    #[serde(default = "both_budgets")]
    pub budgets: Vec<Budget>,
    /// The label of the method that the others are compared with.
    #[serde(default)]
    pub reference: Option<String>,
    /// The rows.
    pub(crate) methods: Vec<Entry>,
    /// The networks.
    pub(crate) networks: Vec<Entry>,
    /// The data sets.
    pub(crate) datasets: Vec<Entry>,
    /// What all experiments have in common.
    #[serde(default)]
    pub(crate) experiment: Table,
    /// Published figures by data set, network and method.
    #[serde(default)]
    pub(crate) paper: BTreeMap<String, BTreeMap<String, BTreeMap<String, Figure>>>,
    /// Its text, for messages.
    #[serde(skip)]
    pub(crate) source: Source,
}

/// Top-1 alone, or both.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a percentage, or { top1, top5 }")]
pub(crate) enum Figure {
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
    pub fn parse(text: &str, path: &Path) -> Result<Self, CompareError> {
        let source = Source::new(path, text);
        if FileKind::of(text) == Some(FileKind::Experiment) {
            let path = path.display();
            return Err(CompareError::Mistake(format!(
                "{path} is an experiment, no comparison: hwa train {path}"
            )));
        }
        let read = toml::from_str(text);
        let read = read.map_err(|error| source.mistake(hwa_train::mistake_in(text, &error)));
        let spec = Self { source, ..read? };
        spec.check()?;
        Ok(spec)
    }

    /// Each key by itself.
    fn check(&self) -> Result<(), CompareError> {
        let spec = self;
        let wrong = |key: &str, reason: String| spec.source.mistake_at(key, reason);
        for (key, length) in [
            ("methods", spec.methods.len()),
            ("networks", spec.networks.len()),
            ("datasets", spec.datasets.len()),
            ("seeds", spec.seeds.len()),
            ("budgets", spec.budgets.len()),
        ] {
            if length == 0 {
                return Err(wrong(key, format!("`{key}` must name at least one, found none")));
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
                let reason = format!("`{key}` must name each once, found {again} again");
                return Err(wrong(key, reason));
            }
        }
        let found = &spec.name;
        let is_line = !found.contains(char::is_control);
        let is_inside = !slug(found).is_empty() && !found.contains(['/', '\\']);
        if !is_inside || !is_line || found.len() > LONGEST {
            let reason = format!("`name` must be the name of a folder, found {found:?}");
            return Err(wrong("name", reason));
        }
        // They are items of a list.
        for (key, text) in spec
            .title
            .iter()
            .map(|title| ("title", title))
            .chain(spec.notes.iter().map(|n| ("notes", n)))
        {
            if text.contains(char::is_control) {
                return Err(wrong(key, format!("`{key}` must be a line, found {text:?}")));
            }
        }
        // Whole numbers of TOML have a sign.
        if let Some(seed) = spec.seeds.iter().find(|seed| i64::try_from(**seed).is_err()) {
            let reason = format!("`seeds` must be at most {}, found {seed}", i64::MAX);
            return Err(wrong("seeds", reason));
        }
        if let Some((key, place)) =
            PLACES.iter().find(|(key, _)| value_at(&spec.experiment, key).is_some())
        {
            let key = key.join(".");
            let reason = format!("`{key}` stands in `{place}`, found in `experiment`");
            return Err(wrong(&format!("experiment.{key}"), reason));
        }
        if let Some((key, reason)) = mistake_in(&spec.experiment) {
            let reason = format!("in [experiment]: {reason}");
            return Err(wrong(&format!("experiment.{key}"), reason));
        }
        self.check_figures()
    }

    /// Published figures are percentages.
    fn check_figures(&self) -> Result<(), CompareError> {
        for (dataset, by_network) in &self.paper {
            for (network, by_method) in by_network {
                for (method, figure) in by_method {
                    let Published { top1, top5 } = Published::from(*figure);
                    let mut found = [top1, top5].into_iter().flatten();
                    if let Some(found) = found.find(|value| !(0.0..=100.0).contains(value)) {
                        let key = format!("paper.{dataset}.{network}.{method}");
                        let reason = format!("`{key}` must be from 0 to 100, found {found}");
                        return Err(self.source.mistake_at(&key, reason));
                    }
                }
            }
        }
        Ok(())
    }

    /// What stands in the file of the experiments, for a reader of the table: what all have in
    /// common, and what is special about each entry, under its label. Keys that are set have no
    /// value here.
    pub fn described(&self, sets: &[String]) -> Vec<String> {
        let set = |key: &str| {
            let budget = ["schedule.epochs", "schedule.steps"];
            sets.iter().filter_map(|set| set.split_once('=')).any(|(name, _)| {
                let name = name.trim();
                let below = key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
                name == key || below || (budget.contains(&name) && budget.contains(&key))
            })
        };
        let keys_of = |table: &Table| -> Vec<String> {
            let own = keys_of(table).into_iter().filter(|(key, _)| !set(key));
            own.map(|(key, value)| format!("{key} = {value}")).collect()
        };
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
            let own = keys_of(keys);
            if let Some(label) = label.filter(|_| !keys.contains_key("outer_of") && !own.is_empty())
            {
                lines.push(format!("{label}: {}.", own.join(", ")));
            }
        }
        lines
    }

    /// What the paper has for a row.
    pub fn published(&self, cell: &Cell) -> Published {
        let networks = self.paper.get(&cell.dataset);
        let methods = networks.and_then(|networks| networks.get(&cell.network));
        let figure = methods.and_then(|methods| methods.get(&cell.method));
        figure.copied().map_or_else(Published::default, Published::from)
    }
}

/// A value that is there twice.
pub(crate) fn repeated<T: PartialEq>(values: &[T]) -> Option<&T> {
    let mut numbered = values.iter().enumerate();
    numbered.find(|(i, value)| values[..*i].contains(value)).map(|(_, value)| value)
}

#[cfg(test)]
pub(crate) mod example;

#[cfg(test)]
mod tests {
    use super::example::TEXT;
    use super::*;

    #[test]
    fn a_reader_is_told_what_stands_in_the_file() {
        let spec = Spec::parse(TEXT, Path::new("c.toml")).unwrap();
        let expected = [
            "All: hwa.window_length = 2, schedule.epochs = 4.",
            "resnet20: model.name = resnet20, optimizer.rate = 0.05.",
            "HWA: hwa.num_models = 3, method = hwa.",
        ];
        assert_eq!(spec.described(&[]), expected);
        let sets = ["schedule.steps=5", "optimizer.rate = 1", "hwa={}"].map(str::to_owned);
        assert_eq!(
            spec.described(&sets),
            ["resnet20: model.name = resnet20.", "HWA: method = hwa."]
        );
    }
}
