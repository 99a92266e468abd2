//! What is left to be trained.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;

use hwa_compare::Cell;
use hwa_store::{StoreError, write_atomically};
use hwa_train::Experiment;

use super::Plan;
use crate::commands::compare::queue::Job;
use crate::commands::train::{Planned, Sources, Work};
use crate::failure::Failure;

impl Plan {
    /// What is not done yet. Every experiment of it is validated against its data and its network
    /// before the first one is trained, and written unless nothing will be.
    pub(in crate::commands) fn jobs(&self, dry: bool) -> Result<Vec<Job>, Failure> {
        let mut jobs = Vec::new();
        let mut sources = Sources::default();
        let chosen = self.cells.iter().zip(&self.chosen).filter(|(_, chosen)| **chosen);
        let mut chosen: Vec<&Cell> = chosen.map(|(cell, _)| cell).collect();
        // What is outer weights of another is trained with it, under its name.
        chosen.sort_by_key(|cell| cell.outer_of.is_some());
        for cell in chosen {
            let experiment = self.out.join(&cell.folder).join("experiment.toml");
            let mut seeds = Vec::new();
            for seed in &self.seeds {
                if !self.is_done(cell, *seed)? {
                    seeds.push(*seed);
                }
            }
            if seeds.is_empty() {
                continue;
            }
            let checked = Planned::check(&cell.experiment, &mut sources);
            let Work { images, disk } =
                checked.map_err(|failure| failure.of_cell(cell, &self.spec, &self.sets))?;
            jobs.extend(seeds.into_iter().map(|seed| Job {
                label: format!("{}, seed {seed}", self.label(cell)),
                experiment: experiment.clone(),
                seed,
                dir: self.dir(cell, seed),
                models: cell.experiment.num_models().get(),
                images: images.saturating_mul(cell.experiment.gradients_per_step()),
                network: cell.network.clone(),
                model: cell.experiment.model.name.clone(),
                disk,
                no_curve: self.has_no_curve(seed),
                threads: cell.experiment.threads.map(|threads| threads.get()),
                decoders: cell.experiment.data.decoders.map(|decoders| decoders.get()),
            }));
        }
        let mut dirs = BTreeSet::new();
        jobs.retain(|job: &Job| dirs.insert(job.dir.clone()));
        // After all of them are known to be possible.
        for (cell, _) in self.cells.iter().zip(&self.chosen).filter(|(_, chosen)| **chosen) {
            let path = self.out.join(&cell.folder).join("experiment.toml");
            if !dry && jobs.iter().any(|job: &Job| job.experiment == path) {
                write_experiment(&path, &cell.experiment)?;
            }
        }
        // A column of a table is better than a row; and what needs more cores comes first,
        // because what needs fewer can be put beside it.
        let place = |seed| self.seeds.iter().position(|known| *known == seed);
        jobs.sort_by_key(|job: &Job| (place(job.seed), Reverse(job.models)));
        Ok(jobs)
    }

    /// A cell by what tells it apart from the others.
    fn label(&self, cell: &Cell) -> String {
        let mut label = cell.label();
        if self.cells.iter().any(|other| other.network != cell.network) {
            label = format!("{label}, {}", cell.network);
        }
        if self.cells.iter().any(|other| other.dataset != cell.dataset) {
            label = format!("{label}, {}", cell.dataset);
        }
        label
    }

    /// How many of these the table has figures of, as it was written before.
    pub(in crate::commands::compare) fn known_before(&self, jobs: &[Job]) -> usize {
        let is_known = |job: &&Job| {
            let of_job = |cell: &&Cell| self.dir(cell, job.seed) == job.dir;
            self.cells
                .iter()
                .find(of_job)
                .is_some_and(|c| self.before.same_run(c, job.seed).is_some())
        };
        jobs.iter().filter(is_known).count()
    }
}

fn write_experiment(path: &Path, experiment: &Experiment) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    }
    let text = experiment.to_commented_toml()?;
    Ok(write_atomically(path, |file| file.write_all(text.as_bytes()))?)
}
