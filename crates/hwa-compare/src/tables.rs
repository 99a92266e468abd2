//! What tables of earlier comparisons tell, here or on another machine.

use std::path::{Path, PathBuf};

use hwa_report::{Comparison, Group, Row, RunFigures};
use hwa_store::{StoreError, read_to_string};
use hwa_train::{Budget, Experiment};

use crate::cell::Cell;
use crate::error::CompareError;

/// Tables, as they were written in JSON, each with its place.
#[derive(Debug, Default)]
pub struct Tables(Vec<(PathBuf, Comparison)>);

/// What a comparison takes of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The table's file.
    pub path: PathBuf,
    /// Runs that are taken.
    pub runs: u64,
    /// Those of them without settings: of these only the number of models was compared.
    pub doubtful: u64,
    /// What the rows of the table are called.
    pub rows: Vec<String>,
}

impl Tables {
    /// Reads them.
    pub fn read(paths: &[PathBuf]) -> Result<Self, CompareError> {
        let read = |path: &PathBuf| {
            let json = |source| StoreError::Json { path: path.clone(), source };
            let table: Comparison = serde_json::from_str(&read_to_string(path)?).map_err(json)?;
            // Any table of JSON can be read as one that has nothing.
            match table.rows.is_empty() {
                false => Ok((path.clone(), table)),
                true => Err(CompareError::Mistake(format!("{} has no rows", path.display()))),
            }
        };
        Ok(Self(paths.iter().map(read).collect::<Result<_, _>>()?))
    }

    /// What a comparison takes of each of these tables, if it needs these runs.
    pub fn taken(&self, needed: &[(&Cell, u64)]) -> Vec<Taken> {
        let of_table = |(index, (path, table)): (usize, &(PathBuf, Comparison))| {
            let found = needed.iter().filter_map(|(cell, seed)| self.find(cell, *seed));
            let found: Vec<_> = found.filter(|(table, _)| *table == index).collect();
            let doubtful = found.iter().filter(|(_, run)| run.settings.is_none()).count() as u64;
            let rows = table.rows.iter().map(|Row { dataset, network, method, .. }| {
                format!("{method} on {dataset} with {network}")
            });
            Taken { path: path.clone(), runs: found.len() as u64, doubtful, rows: rows.collect() }
        };
        self.0.iter().enumerate().map(of_table).collect()
    }

    /// The table of a comparison itself, as it was written before; what cannot be read is none.
    pub fn own(path: &Path) -> Self {
        Self::read(&[path.to_owned()]).unwrap_or_default()
    }

    /// What of the table in a file would be lost, if another was written over it.
    pub fn lost(path: &Path, written: &Comparison) -> Vec<String> {
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
    pub fn same_run(&self, cell: &Cell, seed: u64) -> Option<RunFigures> {
        let run = self.run(cell, seed).ok().flatten();
        run.filter(|run| run.settings.is_some())
    }

    /// The figures of a run, if a table has it; an error, if that is a run of something else.
    pub fn run(&self, cell: &Cell, seed: u64) -> Result<Option<RunFigures>, CompareError> {
        let Some((table, run)) = self.find(cell, seed) else { return Ok(None) };
        check(&run, cell, &self.0[table].0).map_err(|error| {
            CompareError::Mistake(format!("{}, seed {seed}: {error}", cell.label()))
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

fn check(run: &RunFigures, cell: &Cell, path: &Path) -> Result<(), CompareError> {
    let mut shares = [run.top1, run.top5, run.validation_top1].into_iter();
    if let Some(found) = shares.find(|share| !(0.0..=100.0).contains(share)) {
        let path = path.display();
        return Err(CompareError::Mistake(format!(
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
                false => Err(CompareError::Mistake(format!(
                    "{} has {found} models, expected {expected}",
                    path.display()
                ))),
            }
        }
    }
}
