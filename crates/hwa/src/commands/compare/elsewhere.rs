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

    /// What a comparison takes of these tables, if it needs these runs: what is to be told, and
    /// what a reader of its own table has to know.
    pub(super) fn taken(&self, needed: &[(&Cell, u64)]) -> (Vec<String>, Vec<String>) {
        let (mut told, mut doubts) = (Vec::new(), Vec::new());
        for (index, (path, table)) in self.0.iter().enumerate() {
            let found = needed.iter().filter_map(|(cell, seed)| self.find(cell, *seed));
            let found: Vec<_> = found.filter(|(table, _)| *table == index).collect();
            let doubtful = found.iter().filter(|(_, run)| run.settings.is_none()).count() as u64;
            let name = path.file_name().unwrap_or_default().display();
            let path = path.display();
            match found.len() as u64 {
                0 => told.push(format!(
                    "--with {path}: none of its runs is needed here; it has those of {}",
                    labels_of(table)
                )),
                count => told.push(format!("--with {path}: {} taken", counted(count, "run"))),
            }
            if doubtful > 0 {
                let runs = counted(doubtful, "run");
                doubts.push(format!(
                    "{runs} without settings from {name}: of these only the number of models was \
                     compared."
                ));
            }
        }
        told.extend(doubts.iter().cloned());
        (told, doubts)
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
        let Some((table, run)) = self.find(cell, seed) else { return Ok(None) };
        check(&run, cell, &self.0[table].0).map_err(|failure| {
            Failure::usage(format!("--with: {}, seed {seed}: {failure}", cell.label()))
        })?;
        Ok(Some(run))
    }

    /// The first table that has a run of this name, and that run. What is the outer weights of
    /// another method is in that one's run too, where it has no row of its own.
    fn find(&self, cell: &Cell, seed: u64) -> Option<(usize, RunFigures)> {
        let outer = |trained: &str| {
            let (table, run) = self.find_row(cell, trained, seed)?;
            Some((table, run.without_windows()?))
        };
        let own = self.find_row(cell, &cell.method, seed);
        own.map(|(table, run)| (table, run.clone())).or_else(|| outer(cell.outer_of.as_deref()?))
    }

    /// The first table that has a run of this method, and that run.
    fn find_row(&self, cell: &Cell, method: &str, seed: u64) -> Option<(usize, &RunFigures)> {
        self.0.iter().enumerate().find_map(|(index, (_, table))| {
            let rows = table.rows.iter().filter(|row| is_of(row, cell, method));
            let mut runs = rows.filter_map(|row| group(row, cell)).flat_map(|group| &group.runs);
            Some((index, runs.find(|run| run.seed == seed)?))
        })
    }
}

/// What the rows of a table are called.
fn labels_of(table: &Comparison) -> String {
    let labels = table.rows.iter().map(|row| {
        let Row { dataset, network, method, .. } = row;
        format!("{method} on {dataset} with {network}")
    });
    labels.collect::<Vec<_>>().join("; ")
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

fn is_of(row: &Row, cell: &Cell, method: &str) -> bool {
    (&row.dataset, &row.network, row.method.as_str()) == (&cell.dataset, &cell.network, method)
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
    let mut shares = [run.top1, run.top5, run.validation_top1].into_iter();
    if let Some(found) = shares.find(|share| !(0.0..=100.0).contains(share)) {
        let path = path.display();
        return Err(Failure::usage(format!(
            "{path}: accuracies must be from 0 to 100 %, found {found}"
        )));
    }
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
