//! The tables of what is done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hwa_compare::{Cell, Tables, divergence};
use hwa_report::{Comparison, Group, Row};
use hwa_store::{StoreError, write_atomically};
use hwa_train::Budget;

use super::Plan;
use crate::failure::Failure;
use crate::output::tell;

impl Plan {
    /// The file of a table of this kind.
    pub(in crate::commands::compare) fn table(&self, kind: &str) -> PathBuf {
        self.out.join(format!("{}.{kind}", self.stem))
    }

    /// The tables of what is done, in all their forms.
    pub(in crate::commands::compare) fn write_tables(&self) -> Result<(), Failure> {
        self.write(&self.comparison()?)
    }

    /// Writes tables in all their forms.
    pub(in crate::commands::compare) fn write(
        &self,
        comparison: &Comparison,
    ) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(comparison)?;
        std::fs::create_dir_all(&self.out).map_err(StoreError::io("create", &self.out))?;
        self.keep_what_would_be_lost(comparison)?;
        for (kind, text) in
            [("md", comparison.to_markdown()), ("csv", comparison.to_csv()), ("json", json + "\n")]
        {
            write_atomically(&self.table(kind), |file| file.write_all(text.as_bytes()))?;
        }
        Ok(())
    }

    /// A table that has more than the one that will be written in its place is kept beside it.
    fn keep_what_would_be_lost(&self, comparison: &Comparison) -> Result<(), Failure> {
        let table = self.table("json");
        let lost = Tables::lost(&table, comparison);
        let Some(first) = lost.first() else { return Ok(()) };
        let more = match lost.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let place = |number: &usize| self.out.join(format!("{}-before{number}.json", self.stem));
        let free = (1..usize::MAX).map(|number| place(&number)).find(|path| !path.exists());
        let Some(free) = free else { return Ok(()) };
        let text = std::fs::read(&table).map_err(StoreError::io("read", &table))?;
        write_atomically(&free, |file| file.write_all(&text))?;
        tell(format_args!(
            "the table has figures that this comparison has not: {first}{more}; they are kept in {}",
            free.display()
        ));
        Ok(())
    }

    /// What is known of all runs.
    pub(in crate::commands::compare) fn comparison(&self) -> Result<Comparison, Failure> {
        let mut comparison = Comparison {
            title: self.title().to_owned(),
            notes: self.notes.clone(),
            reference: self.spec.reference.clone(),
            ..Comparison::default()
        };
        let mut rows: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
        for (cell, known) in self.cells.iter().zip(&self.known) {
            let (mut runs, mut diverged) = (Vec::new(), Vec::new());
            for seed in self.spec.seeds.iter().filter(|_| *known) {
                match self.figures(cell, *seed)? {
                    Some(run) => runs.push(run),
                    None => diverged.extend(divergence(&self.dir(cell, *seed), *seed)),
                }
            }
            if let Some(note) =
                cell.whole_runs(&runs).filter(|note| !comparison.notes.contains(note))
            {
                comparison.notes.push(note);
            }
            let group = Group::new(self.spec.seeds.len(), runs).with_diverged(diverged);
            let key = (cell.dataset.as_str(), cell.network.as_str(), cell.method.as_str());
            let index = *rows.entry(key).or_insert_with(|| {
                comparison.rows.push(Row {
                    dataset: cell.dataset.clone(),
                    network: cell.network.clone(),
                    method: cell.method.clone(),
                    gradients_per_step: cell.experiment.gradients_per_step(),
                    per_model: None,
                    total: None,
                    paper: self.spec.published(cell),
                });
                comparison.rows.len() - 1
            });
            let row = &mut comparison.rows[index];
            let asked = |budget| self.spec.budgets.contains(&budget);
            let single = row.gradients_per_step == 1;
            if cell.experiment.budget == Budget::Total || (single && asked(Budget::Total)) {
                row.total = Some(group.clone());
            }
            if cell.experiment.budget == Budget::PerModel && asked(Budget::PerModel) {
                row.per_model = Some(group);
            }
        }
        Ok(comparison)
    }

    /// The part that was asked for.
    pub(in crate::commands::compare) fn shown(&self, comparison: &Comparison) -> Comparison {
        let is_chosen = |row: &&Row| {
            let of_row = |cell: &Cell| {
                (&cell.dataset, &cell.network, &cell.method)
                    == (&row.dataset, &row.network, &row.method)
            };
            self.cells.iter().zip(&self.chosen).any(|(cell, chosen)| *chosen && of_row(cell))
        };
        let of_seeds = |group: Group| {
            let runs = group.runs.into_iter().filter(|run| self.seeds.contains(&run.seed));
            let diverged = group.diverged.into_iter().filter(|run| self.seeds.contains(&run.seed));
            Group::new(self.seeds.len(), runs.collect()).with_diverged(diverged.collect())
        };
        let rows = comparison.rows.iter().filter(is_chosen).cloned().map(|row| Row {
            per_model: row.per_model.map(of_seeds),
            total: row.total.map(of_seeds),
            ..row
        });
        let rows: Vec<Row> = rows.collect();
        let labels = |row: &Row| [&row.dataset, &row.network, &row.method].map(String::clone);
        let shown: BTreeSet<String> = rows.iter().flat_map(labels).collect();
        let all: BTreeSet<String> = comparison.rows.iter().flat_map(labels).collect();
        let hidden: Vec<String> =
            all.difference(&shown).map(|label| format!("{label}: ")).collect();
        let mut notes = comparison.notes.clone();
        notes.retain(|note| !hidden.iter().any(|label| note.starts_with(label)));
        // Without its row nothing is compared with it.
        let has = |label: &String| rows.iter().any(|row| row.method == *label);
        let reference = comparison.reference.clone().filter(has);
        Comparison { title: comparison.title.clone(), rows, notes, reference }
    }
}
