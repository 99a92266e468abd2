//! Which runs a comparison has, where they are, and what is known of them.

mod jobs;
mod tables;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hwa_compare::{Cell, Spec, Tables, Taken, divergence, figures, slug};
use hwa_report::RunFigures;
use hwa_store::RunDir;
use hwa_train::Experiment;

use crate::arguments::Compare;
use crate::commands::figures::Trained;
use crate::commands::train::{Sources, toml_string};
use crate::console::counted;
use crate::failure::Failure;
use crate::output::tell;

/// Keys that entries of a comparison have, or the comparison itself.
const NOT_TO_BE_SET: [&str; 6] = ["name", "seed", "budget", "method", "model.name", "data.dataset"];

/// What is to be compared, and where. Tables are always of everything that the file names; what
/// is trained now and shown in the end may be a part of it.
pub(in crate::commands) struct Plan {
    spec: Spec,
    cells: Vec<Cell>,
    /// What is set for all of them.
    sets: Vec<String>,
    /// Whether each cell is among those that were asked for.
    chosen: Vec<bool>,
    /// Whether each cell could be scaled: what could not has no runs.
    known: Vec<bool>,
    /// The seeds that were asked for.
    seeds: Vec<u64>,
    notes: Vec<String>,
    /// Where runs and tables are.
    out: PathBuf,
    /// What the tables' files are called.
    stem: String,
    /// What other machines have finished.
    elsewhere: Tables,
    /// What the tables have had: a figure is not lost with the folder of its run.
    before: Tables,
    /// Whether only runs of the first seed have the curve on test that the experiment asks for.
    curve_of_first_seed: bool,
}

impl Plan {
    pub(in crate::commands) fn new(
        arguments: &Compare,
        text: &str,
        path: &Path,
    ) -> Result<Self, Failure> {
        let spec = Spec::parse(text, path)?;
        let seeds = match arguments.seeds.as_slice() {
            [] => spec.seeds.clone(),
            asked => asked.to_vec(),
        };
        let mut numbered = seeds.iter().enumerate();
        if let Some((_, again)) = numbered.find(|(i, seed)| seeds[..*i].contains(seed)) {
            return Err(Failure::usage(format!(
                "--seeds must name each once, found {again} again"
            )));
        }
        if let Some(other) = seeds.iter().find(|seed| !spec.seeds.contains(seed)) {
            let known: Vec<String> = spec.seeds.iter().map(u64::to_string).collect();
            let known = known.join(", ");
            return Err(Failure::usage(format!("--seeds must be some of {known}, found {other}")));
        }
        let sets = sets(arguments)?;
        let cells = spec.cells(&sets)?;
        let chosen = chosen(&cells, &arguments.only)?;
        let stem = match arguments.scale {
            Some(scale) => format!("{}-scale{scale}", slug(&spec.name)),
            None => slug(&spec.name),
        };
        let out = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(&stem));
        let mut notes = [spec.notes.clone(), spec.described(&arguments.sets)].concat();
        let used = spec.used(&arguments.sets, &sets, &cells)?;
        if !used.is_empty() {
            notes.push(format!("Set for all: {}.", used.join(", ")));
        }
        spec.without_use(&cells).iter().for_each(tell);
        let outer = |cell: &Cell| {
            let (method, of) = (&cell.method, cell.outer_of.as_ref()?);
            Some(format!("{method}: the outer weights alone of the runs of {of}, time included."))
        };
        let outer: BTreeSet<String> = cells.iter().filter_map(outer).collect();
        notes.extend(outer);
        let known = vec![true; cells.len()];
        let elsewhere = Tables::read(&arguments.with).map_err(|error| {
            Failure::usage(format!("--with takes a table (.json) of `hwa compare`: {error}"))
        })?;
        let is_here = |cell: &Cell, seed: u64| {
            out.join(&cell.folder).join(format!("seed{seed}")).join("summary.json").is_file()
        };
        let own = cells.iter().filter(|cell| cell.outer_of.is_none());
        let needed = own.flat_map(|cell| spec.seeds.iter().map(move |seed| (cell, *seed)));
        let needed: Vec<(&Cell, u64)> = needed.filter(|(cell, s)| !is_here(cell, *s)).collect();
        let taken = elsewhere.taken(&needed);
        taken.iter().map(as_told).for_each(tell);
        let doubts: Vec<String> = taken.iter().filter_map(doubt).collect();
        doubts.iter().for_each(tell);
        notes.extend(doubts);
        let before = Tables::own(&out.join(format!("{stem}.json")));
        let mut plan = Self {
            spec,
            cells,
            sets,
            chosen,
            known,
            seeds,
            notes,
            out,
            stem,
            elsewhere,
            before,
            curve_of_first_seed: false,
        };
        // All of it is as it is.
        if let Some(factor) = arguments.scale.filter(|factor| *factor != 1.0) {
            plan.scale(factor)?;
        }
        Ok(plan)
    }

    pub(super) fn title(&self) -> &str {
        self.spec.title.as_deref().unwrap_or(&self.spec.name)
    }

    pub(super) fn out(&self) -> &Path {
        &self.out
    }

    /// Whether its runs can leave out weights of cycles: rows of outer weights need all.
    pub(super) fn can_leave_out_cycles(&self) -> bool {
        self.cells.iter().all(|cell| cell.outer_of.is_none())
    }

    /// An error, if a file is where the runs are to be.
    pub(super) fn ensure_room(&self) -> Result<(), Failure> {
        let path = self.out.ancestors().find(|path| path.exists());
        match path.filter(|path| !path.is_dir()) {
            None => Ok(()),
            Some(path) => Err(Failure::usage(format!(
                "--out {}: {} must be a folder, found a file",
                self.out.display(),
                path.display()
            ))),
        }
    }

    /// Runs that were asked for, done or not.
    pub(in crate::commands) fn num_runs(&self) -> usize {
        let chosen = self.cells.iter().zip(&self.chosen).filter(|(_, chosen)| **chosen);
        let folders: BTreeSet<&String> = chosen.map(|(cell, _)| &cell.folder).collect();
        folders.len() * self.seeds.len()
    }

    /// Makes the experiments smaller, and notes what became of them.
    fn scale(&mut self, factor: f64) -> Result<(), Failure> {
        if !(factor > 0.0 && factor <= 1.0) {
            let reason = format!("--scale must be above 0 and at most 1, found {factor}");
            return Err(Failure::usage(reason));
        }
        let mut sources = Sources::default();
        let mut notes: Vec<(String, String, Vec<String>)> = Vec::new();
        let flags = self.chosen.iter().zip(&mut self.known);
        for (cell, (chosen, known)) in self.cells.iter_mut().zip(flags) {
            let scaled = sources.open(&cell.experiment.data).map_err(Failure::from);
            let scaled = scaled.and_then(|source| {
                let images = source.splits.train.len();
                Ok(hwa_train::scaled(&cell.experiment, factor, images)?)
            });
            let scaled = match scaled {
                Ok(scaled) => scaled,
                Err(failure) if *chosen => {
                    let failure = failure.of_cell(cell, &self.spec, &self.sets);
                    return Err(failure.of(&format!("with --scale {factor}")));
                }
                // Nobody asked for it now.
                Err(_) => {
                    *known = false;
                    continue;
                }
            };
            if !chosen {
                cell.experiment = scaled.experiment;
                continue;
            }
            let label = cell.label();
            let same = |note: &&mut (String, String, Vec<String>)| {
                note.0 == cell.dataset && note.1 == scaled.note
            };
            match notes.iter_mut().find(same) {
                Some((_, _, labels)) if labels.contains(&label) => {}
                Some((_, _, labels)) => labels.push(label),
                None => notes.push((cell.dataset.clone(), scaled.note, vec![label])),
            }
            cell.experiment = scaled.experiment;
        }
        for (dataset, note, labels) in notes {
            let labels = labels.join(", ");
            self.notes.push(format!("Scaled by {factor}: {dataset}, {labels}: {note}."));
        }
        Ok(())
    }

    /// Changes every experiment, which is told how many training images it has.
    pub(in crate::commands) fn adjust(
        &mut self,
        change: impl Fn(&mut Experiment, usize) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut sources = Sources::default();
        for cell in &mut self.cells {
            let images = sources.open(&cell.experiment.data)?.splits.train.len();
            change(&mut cell.experiment, images)?;
        }
        Ok(())
    }

    /// Of further seeds only the result is needed: a curve on test takes its time.
    pub(in crate::commands) fn draw_curves_of_the_first_seed(&mut self) {
        self.curve_of_first_seed = true;
    }

    /// Whether a run has no curve on test, whatever its experiment says.
    fn has_no_curve(&self, seed: u64) -> bool {
        self.curve_of_first_seed && self.spec.seeds.first() != Some(&seed)
    }

    /// The runs that are finished, of those that were asked for.
    pub(in crate::commands) fn trained(&self) -> Vec<Trained> {
        let mut trained = Vec::new();
        for (cell, _) in self.cells.iter().zip(&self.chosen).filter(|(_, chosen)| **chosen) {
            for seed in &self.seeds {
                let dir = self.dir(cell, *seed);
                if dir.join("summary.json").is_file() {
                    let (network, method) = (cell.network.clone(), cell.method.clone());
                    trained.push(Trained { network, method, seed: *seed, dir });
                }
            }
        }
        trained
    }

    /// What a reader has to know.
    pub(in crate::commands) fn notes(&self) -> &[String] {
        &self.notes
    }

    fn dir(&self, cell: &Cell, seed: u64) -> PathBuf {
        self.out.join(&cell.folder).join(format!("seed{seed}"))
    }

    /// Makes sure that the runs that there are are of these experiments, and whole.
    pub(in crate::commands) fn check_runs(&self) -> Result<(), Failure> {
        let (mut first, mut more) = (None, 0);
        for (cell, _) in self.cells.iter().zip(&self.known).filter(|(_, known)| **known) {
            for seed in &self.spec.seeds {
                match self.checked_run(cell, *seed) {
                    Err(failure) if first.is_none() => first = Some(failure),
                    Err(_) if cell.outer_of.is_none() => more += 1,
                    _ => {}
                }
                self.run_elsewhere(cell, *seed)?;
            }
        }
        match first {
            None => Ok(()),
            Some(failure) if more == 0 => Err(failure),
            Some(failure) => {
                let more = counted(more, "more run");
                Err(Failure::usage(format!("{failure} ({more} cannot be taken either)")))
            }
        }
    }

    /// The figures of a run that is finished, here or elsewhere, or was before its folder went.
    fn figures(&self, cell: &Cell, seed: u64) -> Result<Option<RunFigures>, Failure> {
        let is_finished = self.dir(cell, seed).join("summary.json").is_file();
        let run = if is_finished { self.checked_run(cell, seed)? } else { None };
        match run {
            Some(run) => {
                Ok(if cell.outer_of.is_some() { run.without_windows() } else { Some(run) })
            }
            None => {
                let elsewhere = self.run_elsewhere(cell, seed)?;
                Ok(elsewhere.or_else(|| self.before.same_run(cell, seed)))
            }
        }
    }

    fn is_done(&self, cell: &Cell, seed: u64) -> Result<bool, Failure> {
        let dir = self.dir(cell, seed);
        let here = dir.join("summary.json").is_file() || divergence(&dir, seed).is_some();
        Ok(here || self.run_elsewhere(cell, seed)?.is_some())
    }

    /// The figures of a run that another machine has finished.
    fn run_elsewhere(&self, cell: &Cell, seed: u64) -> Result<Option<RunFigures>, Failure> {
        let run = self.elsewhere.run(cell, seed);
        run.map_err(|error| Failure::usage(format!("--with: {error}")))
    }

    /// Makes sure that a run that is there is one of this cell; its figures, if it is finished.
    fn checked_run(&self, cell: &Cell, seed: u64) -> Result<Option<RunFigures>, Failure> {
        let dir = self.dir(cell, seed);
        if !dir.join("experiment.toml").is_file() && !dir.join("summary.json").is_file() {
            return Ok(None);
        }
        let label = cell.label();
        let damaged = |failure: Failure| {
            let place = dir.display();
            Failure::usage(format!(
                "{label}, seed {seed}: {failure}; remove {place} to train it again"
            ))
        };
        let stored = RunDir::stored_experiment(&dir).map_err(Failure::from);
        let (text, path) = stored.map_err(damaged)?;
        let mut cell = cell.clone();
        cell.experiment.evaluate.test_curve &= !self.has_no_curve(seed);
        let checked = Experiment::parse(&text, &path, &[]).map_err(Failure::from);
        let checked = checked.and_then(|stored| Ok(cell.ensure_trained_by(&stored, &dir, seed)?));
        checked.map_err(|failure| {
            Failure::usage(format!(
                "{label}, seed {seed}: {failure}; remove that run, give the entry another label, \
                 or choose another --out"
            ))
        })?;
        figures(&dir, seed).map_err(Failure::from).map_err(damaged)
    }
}

/// What is set for all experiments.
fn sets(arguments: &Compare) -> Result<Vec<String>, Failure> {
    let mut sets = arguments.sets.clone();
    for set in &sets {
        let key = set.split_once('=').map_or(set.as_str(), |(key, _)| key).trim();
        if NOT_TO_BE_SET.contains(&key) {
            return Err(Failure::usage(format!(
                "--set {set}: `{key}` is what is compared: it stands in the file"
            )));
        }
    }
    if let Some(dir) = &arguments.data_dir {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        sets.push(format!("data.dir={}", toml_string(&dir)));
    }
    Ok(sets)
}

/// What is taken of a table.
fn as_told(taken: &Taken) -> String {
    let path = taken.path.display();
    match taken.runs {
        0 => format!(
            "--with {path}: none of its runs is needed here; it has those of {}",
            taken.rows.join("; ")
        ),
        runs => format!("--with {path}: {} taken", counted(runs, "run")),
    }
}

/// What a reader has to know of what is taken of a table.
fn doubt(taken: &Taken) -> Option<String> {
    let name = taken.path.file_name().unwrap_or_default().display();
    let runs = counted(taken.doubtful, "run");
    (taken.doubtful > 0).then(|| {
        format!(
            "{runs} without settings from {name}: of these only the number of models was compared."
        )
    })
}

/// Which cells have one of the labels, for each kind of label that is named.
fn chosen(cells: &[Cell], labels: &[String]) -> Result<Vec<bool>, Failure> {
    let kinds: [fn(&Cell) -> &str; 3] =
        [|cell| &cell.dataset, |cell| &cell.network, |cell| &cell.method];
    let mut known: Vec<&str> = Vec::new();
    for name in cells.iter().flat_map(|cell| kinds.map(|kind| kind(cell))) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    let is = |name: &str, label: &str| name.to_lowercase() == label.to_lowercase();
    if let Some(label) = labels.iter().find(|label| !known.iter().any(|name| is(name, label))) {
        let known: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
        let known = known.join(", ");
        return Err(Failure::usage(format!("--only must be one of {known}, found {label:?}")));
    }
    let is_chosen = |cell: &Cell| {
        kinds.iter().all(|kind| {
            let of_kind = |label: &&String| cells.iter().any(|cell| is(kind(cell), label));
            let mut named = labels.iter().filter(of_kind).peekable();
            named.peek().is_none() || named.any(|label| is(kind(cell), label))
        })
    };
    Ok(cells.iter().map(is_chosen).collect())
}
