//! Runs that were finished elsewhere, as the tables have them that were written there.

use std::path::{Path, PathBuf};

use hwa_report::{Comparison, Group, Row, RunFigures};
use hwa_store::{StoreError, read_to_string};
use hwa_train::{Budget, Experiment};

use super::cell::Cell;
use crate::console::counted;
use crate::failure::Failure;

/// The tables of other machines, each with its place.
#[derive(Debug, Default)]
pub(super) struct Elsewhere(Vec<(PathBuf, Comparison)>);

impl Elsewhere {
    pub(super) fn read(paths: &[PathBuf]) -> Result<Self, Failure> {
        let read = |path: &PathBuf| {
            let json = |source| StoreError::Json { path: path.clone(), source };
            let table: Comparison = serde_json::from_str(&read_to_string(path)?).map_err(json)?;
            Ok((path.clone(), table))
        };
        let tables: Result<Vec<(PathBuf, Comparison)>, StoreError> =
            paths.iter().map(read).collect();
        let tables = tables.map_err(|error| {
            Failure::usage(format!("--with takes a table (.json) of `hwa compare`: {error}"))
        })?;
        // Any table of JSON can be read as one that has nothing.
        if let Some((path, _)) = tables.iter().find(|(_, table)| table.rows.is_empty()) {
            let path = path.display();
            return Err(Failure::usage(format!(
                "--with takes a table (.json) of `hwa compare`: {path} has no rows"
            )));
        }
        Ok(Self(tables))
    }

    /// What cannot be compared with what is asked for, a line for each table.
    pub(super) fn doubts(&self) -> Vec<String> {
        let doubt = |(path, table): &(PathBuf, Comparison)| {
            // Where a step takes one gradient, both tables have the same runs.
            let groups = table.rows.iter().flat_map(|row| match row.gradients_per_step {
                1 => [row.per_model.as_ref().or(row.total.as_ref()), None],
                _ => [row.per_model.as_ref(), row.total.as_ref()],
            });
            let runs = groups.flatten().flat_map(|group| &group.runs);
            let count = runs.filter(|run| run.settings.is_none()).count();
            (count > 0).then(|| {
                format!(
                    "{} without settings from {}: of these only the number of models was \
                     compared.",
                    counted(count as u64, "run"),
                    path.file_name().unwrap_or_default().display(),
                )
            })
        };
        self.0.iter().filter_map(doubt).collect()
    }

    /// The table of a comparison itself, as it was written before; what cannot be read is none.
    pub(super) fn own(path: &Path) -> Self {
        Self::read(&[path.to_owned()]).unwrap_or_default()
    }

    /// What of the table in a file would be lost, if another was written over it.
    pub(super) fn lost(path: &Path, written: &Comparison) -> Vec<String> {
        match Self::read(&[path.to_owned()]) {
            _ if !path.exists() => Vec::new(),
            Err(_) => vec!["a table that cannot be read".to_owned()],
            Ok(Self(tables)) => {
                let kept = all_runs(written);
                let mut lost: Vec<String> = Vec::new();
                for key in tables.iter().flat_map(|(_, table)| all_runs(table)) {
                    let (dataset, network, method, _, seed) = key;
                    let label = format!("{method} on {dataset} with {network}, seed {seed}");
                    if !kept.contains(&key) && !lost.contains(&label) {
                        lost.push(label);
                    }
                }
                lost
            }
        }
    }

    /// The figures of a run, if a table has it and its settings are known to be the same.
    pub(super) fn same_run(&self, cell: &Cell, seed: u64) -> Option<RunFigures> {
        let run = self.run(cell, seed).ok().flatten();
        run.filter(|run| run.settings.is_some())
    }

    /// The figures of a run, if a table has it; an error, if that is a run of something else.
    pub(super) fn run(&self, cell: &Cell, seed: u64) -> Result<Option<RunFigures>, Failure> {
        for (path, table) in &self.0 {
            let rows = table.rows.iter().filter(|row| is_of(row, cell));
            let mut runs = rows.filter_map(|row| group(row, cell)).flat_map(|group| &group.runs);
            if let Some(run) = runs.find(|run| run.seed == seed) {
                check(run, cell, path).map_err(|failure| {
                    Failure::usage(format!("--with: {}, seed {seed}: {failure}", cell.label()))
                })?;
                return Ok(Some(run.clone()));
            }
        }
        Ok(None)
    }
}

/// Every run of a table: data set, network, method, budget and seed.
fn all_runs(table: &Comparison) -> Vec<(&str, &str, &str, usize, u64)> {
    let mut all = Vec::new();
    for row in &table.rows {
        let Row { dataset, network, method, .. } = row;
        for (budget, group) in [&row.per_model, &row.total].into_iter().enumerate() {
            let runs = group.iter().flat_map(|group| &group.runs);
            all.extend(runs.map(|run| {
                (dataset.as_str(), network.as_str(), method.as_str(), budget, run.seed)
            }));
        }
    }
    all
}

fn is_of(row: &Row, cell: &Cell) -> bool {
    (&row.dataset, &row.network, &row.method) == (&cell.dataset, &cell.network, &cell.method)
}

/// The runs of a row under the budget of a cell. Where a step takes one gradient, the table of
/// either budget has them.
fn group<'a>(row: &'a Row, cell: &Cell) -> Option<&'a Group> {
    match cell.experiment.budget {
        Budget::Total => row.total.as_ref(),
        Budget::PerModel => {
            let single = row.gradients_per_step == 1;
            row.per_model.as_ref().or(row.total.as_ref().filter(|_| single))
        }
    }
}

fn check(run: &RunFigures, cell: &Cell, path: &Path) -> Result<(), Failure> {
    match &run.settings {
        Some(settings) => {
            let stored = Experiment::parse(settings, path, &[])?;
            cell.ensure_trained_by(&stored, path, run.seed)
        }
        // Tables did not always have settings.
        None => {
            let (found, expected) = (run.models, cell.experiment.num_models().get());
            match found == expected {
                true => Ok(()),
                false => Err(Failure::usage(format!(
                    "{} has {found} models, expected {expected}",
                    path.display()
                ))),
            }
        }
    }
}
