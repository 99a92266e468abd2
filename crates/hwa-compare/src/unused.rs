//! What stands in a comparison, or is set for it, and decides nothing.

use std::collections::BTreeSet;

use hwa_report::RunFigures;
use hwa_train::{Budget, Experiment, ExperimentError, WindowText};

use crate::cell::Cell;
use crate::error::CompareError;
use crate::spec::Spec;

impl Spec {
    /// Which of the values that were `asked` for, the first of the `sets` that make these cells,
    /// decide what any run is.
    pub fn used(
        &self,
        asked: &[String],
        sets: &[String],
        cells: &[Cell],
    ) -> Result<Vec<String>, CompareError> {
        let with_all = identities(cells)?;
        let mut used = Vec::new();
        for (index, set) in asked.iter().enumerate() {
            let mut others = sets.to_vec();
            others.remove(index);
            // What cannot be without it depends on it.
            let without = self.cells(&others).and_then(|cells| Ok(identities(&cells)?));
            if !without.is_ok_and(|without| without == with_all) {
                used.push(set.clone());
            }
        }
        Ok(used)
    }

    /// Keys of entries that their methods have no use for: a line for each.
    pub fn without_use(&self, cells: &[Cell]) -> BTreeSet<String> {
        let mut told = BTreeSet::new();
        for cell in cells {
            let entry = cell.places.first().map_or("", String::as_str);
            for key in cell.experiment.keys_without_use() {
                if self.source.has(&format!("{entry}.{key}")) {
                    let (label, method) = (&cell.method, cell.experiment.method.name());
                    told.insert(format!("{label}: method {method} has no use for `{key}`"));
                }
            }
        }
        told
    }
}

impl Cell {
    /// That a window of these runs never slides, because they are as short, if it is so.
    pub fn whole_runs(&self, runs: &[RunFigures]) -> Option<String> {
        let Experiment { method, hwa, budget, .. } = &self.experiment;
        let cycles = runs.iter().map(|run| run.last_cycle).max()?;
        let length = |text: &WindowText| match text {
            WindowText::Cycles(length) => Some(length.get()),
            WindowText::Share(_) => None,
        };
        let lengths = hwa.window_length.as_slice().iter().filter_map(length);
        let whole: Vec<String> =
            lengths.filter(|length| *length >= cycles).map(|length| length.to_string()).collect();
        (method.has_window() && self.outer_of.is_none() && !whole.is_empty()).then(|| {
            let (label, whole) = (&self.method, whole.join(" and "));
            let budget = match budget {
                Budget::PerModel => "",
                Budget::Total => "at equal gradients ",
            };
            format!("{label}: {budget}a window of {whole} never slides: there are {cycles} cycles.")
        })
    }
}

/// What decides what runs of these cells are.
fn identities(cells: &[Cell]) -> Result<Vec<String>, ExperimentError> {
    let usual = Experiment::default();
    cells.iter().map(|cell| cell.experiment.with_unused_of(&usual).identity()).collect()
}
