//! `hwa compare`: methods beside each other.

mod presets;
mod queue;
mod results;
mod scale;
mod spec;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hwa_report::{Comparison, Group, Row};
use hwa_store::{StoreError, read_to_string, write_atomically};
use hwa_train::{Budget, Data, Experiment};

use self::queue::{Job, Queue};
use self::spec::{Cell, Spec};
use super::train::{Planned, as_in, interrupt_on_ctrl_c, toml_string};
use crate::arguments::{Compare, Train};
use crate::environment;
use crate::failure::Failure;
use crate::output::{give, tell};
use crate::table::aligned;
use crate::terminal::Voice;

/// Runs the command.
pub(crate) fn run(arguments: &Compare) -> Result<(), Failure> {
    if arguments.list {
        for preset in &presets::PRESETS {
            give(format_args!("{}  {}", preset.name, preset.about));
        }
        return Ok(());
    }
    let (text, path) = asked(arguments)?;
    if arguments.print {
        give(text.trim_end());
        return Ok(());
    }
    let plan = Plan::new(arguments, &text, &path)?;
    plan.check_runs()?;
    if arguments.tables {
        let comparison = plan.write_tables()?;
        return plan.show(arguments, &comparison);
    }
    let jobs = plan.jobs()?;
    plan.write_tables()?;
    let voice = Voice::new(arguments.plain);
    let interrupt = interrupt_on_ctrl_c(voice.clone())?;
    let program = std::env::current_exe().map_err(|error| Failure::Run(error.into()))?;
    let cores = arguments.cores.map_or_else(environment::cores, |cores| cores.get());
    let runs = plan.cells.len() * plan.spec.seeds.len();
    tell(format_args!(
        "{}: {} of {runs} runs to train on {cores} cores, in {}",
        plan.title(),
        jobs.len(),
        plan.out.display()
    ));
    let queue = Queue { cores, voice: &voice, interrupt: &interrupt, program: &program };
    let ended = queue.train(jobs, &mut || plan.write_tables().map(drop))?;
    let comparison = plan.write_tables()?;
    plan.show(arguments, &comparison)?;
    if ended.interrupted {
        let advice = "the same command goes on".to_owned();
        return Err(Failure::Cancelled { advice });
    }
    match ended.failed.as_slice() {
        [] => Ok(()),
        failed => {
            let advice = "the same command tries them again".to_owned();
            let error = anyhow::anyhow!("{} failed: {}", failed.len(), failed.join("; "));
            Err(Failure::Stopped { error, advice })
        }
    }
}

/// The text of the comparison, and where it is from.
fn asked(arguments: &Compare) -> Result<(String, PathBuf), Failure> {
    let name = arguments.comparison.as_deref().unwrap_or_default();
    let path = PathBuf::from(name);
    if !path.is_file()
        && let Some(preset) = presets::named(name)
    {
        return Ok((preset.text.to_owned(), path));
    }
    let text = read_to_string(&path).map_err(|error| {
        let known: Vec<&str> = presets::PRESETS.iter().map(|preset| preset.name).collect();
        let known = known.join(", ");
        Failure::Usage(anyhow::anyhow!("{error}; a table of the paper is one of {known}"))
    })?;
    Ok((text, path))
}

/// What is to be compared, and where.
struct Plan {
    spec: Spec,
    cells: Vec<Cell>,
    /// What became of the experiments of each data set, if they were scaled.
    notes: Vec<String>,
    scale: Option<f64>,
    /// Where runs and tables are.
    out: PathBuf,
    /// What the tables' files are called.
    stem: String,
}

impl Plan {
    fn new(arguments: &Compare, text: &str, path: &Path) -> Result<Self, Failure> {
        let mut spec = Spec::parse(text, path)?;
        if !arguments.seeds.is_empty() {
            spec.seeds.clone_from(&arguments.seeds);
        }
        spec.seeds.dedup();
        let mut sets = arguments.sets.clone();
        if let Some(dir) = &arguments.data_dir {
            let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
            sets.push(format!("data.dir={}", toml_string(&dir)));
        }
        let mut cells = spec.cells(path, &sets)?;
        only(&mut cells, &arguments.only)?;
        let stem = match arguments.scale {
            Some(scale) => format!("{}-scale{scale}", spec::slug(&spec.name)),
            None => spec::slug(&spec.name),
        };
        let out = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(&stem));
        let scale = arguments.scale;
        let mut plan = Self { spec, cells, notes: Vec::new(), scale, out, stem };
        plan.scale()?;
        Ok(plan)
    }

    fn title(&self) -> &str {
        self.spec.title.as_deref().unwrap_or(&self.spec.name)
    }

    /// Makes the experiments smaller, if that is asked for.
    fn scale(&mut self) -> Result<(), Failure> {
        let Some(factor) = self.scale else { return Ok(()) };
        if !(factor > 0.0 && factor <= 1.0) {
            let reason = format!("--scale must be above 0 and at most 1, found {factor}");
            return Err(Failure::usage(reason));
        }
        let mut images: Vec<(Data, usize)> = Vec::new();
        for cell in &mut self.cells {
            let data = &cell.experiment.data;
            let known = images.iter().find(|(known, _)| known == data).map(|(_, count)| *count);
            let count = match known {
                Some(count) => count,
                None => {
                    let source =
                        hwa_data::open(&data.dataset, data.dir.as_deref(), &data.options());
                    let count = source?.splits.train.len();
                    images.push((data.clone(), count));
                    count
                }
            };
            let scaled = scale::scaled(&cell.experiment, factor, count)?;
            let note = format!("Scaled by {factor}, {}: {}.", cell.dataset, scaled.note);
            if cell.experiment.budget == Budget::PerModel && !self.notes.contains(&note) {
                self.notes.push(note);
            }
            cell.experiment = scaled.experiment;
        }
        Ok(())
    }

    fn dir(&self, cell: &Cell, seed: u64) -> PathBuf {
        self.out.join(&cell.folder).join(format!("seed{seed}"))
    }

    /// Makes sure that the runs that there are are of these experiments.
    fn check_runs(&self) -> Result<(), Failure> {
        for cell in &self.cells {
            for seed in &self.spec.seeds {
                let dir = self.dir(cell, *seed);
                if dir.join("experiment.toml").is_file() {
                    let asked = Experiment { seed: *seed, ..cell.experiment.clone() };
                    as_in(&dir, asked).map_err(|failure| {
                        let advice = "remove it, or choose another folder with --out".to_owned();
                        let error = anyhow::Error::msg(failure.to_string());
                        Failure::Usage(error.context(advice))
                    })?;
                }
            }
        }
        Ok(())
    }

    /// What is not done yet. Every experiment of it is written, and validated against its data
    /// and its network before the first one is trained.
    fn jobs(&self) -> Result<Vec<Job>, Failure> {
        let mut jobs = Vec::new();
        // All with the first seed come first: a table with a column is better than one row.
        for (number, seed) in self.spec.seeds.iter().enumerate() {
            for cell in &self.cells {
                let dir = self.dir(cell, *seed);
                if dir.join("summary.json").is_file() {
                    continue;
                }
                let experiment = self.out.join(&cell.folder).join("experiment.toml");
                if number == 0 || !jobs.iter().any(|job: &Job| job.experiment == experiment) {
                    write_experiment(&experiment, &cell.experiment)?;
                    let asked = Train { experiment: Some(experiment.clone()), ..Train::default() };
                    Planned::new(&asked)?;
                }
                jobs.push(Job {
                    label: self.label(cell),
                    experiment,
                    seed: *seed,
                    dir,
                    models: cell.experiment.num_models().get(),
                    threads: cell.experiment.threads.map(|threads| threads.get()),
                });
            }
        }
        Ok(jobs)
    }

    /// A cell by what tells it apart from the others.
    fn label(&self, cell: &Cell) -> String {
        let mut label = cell.method.clone();
        if self.cells.iter().any(|other| other.network != cell.network) {
            label = format!("{label}, {}", cell.network);
        }
        if self.cells.iter().any(|other| other.dataset != cell.dataset) {
            label = format!("{label}, {}", cell.dataset);
        }
        match cell.experiment.budget {
            Budget::PerModel => label,
            Budget::Total => format!("{label}, equal gradients"),
        }
    }

    fn table(&self, kind: &str) -> PathBuf {
        self.out.join(format!("{}.{kind}", self.stem))
    }

    /// The tables of what is done, in all their forms.
    fn write_tables(&self) -> Result<Comparison, Failure> {
        let comparison = self.comparison()?;
        let json = serde_json::to_string_pretty(&comparison)?;
        std::fs::create_dir_all(&self.out).map_err(StoreError::io("create", &self.out))?;
        for (kind, text) in
            [("md", comparison.to_markdown()), ("csv", comparison.to_csv()), ("json", json + "\n")]
        {
            write_atomically(&self.table(kind), |file| file.write_all(text.as_bytes()))?;
        }
        Ok(comparison)
    }

    fn comparison(&self) -> Result<Comparison, Failure> {
        let mut comparison = Comparison {
            title: self.title().to_owned(),
            notes: self.notes.clone(),
            ..Comparison::default()
        };
        let mut rows: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
        for cell in &self.cells {
            let mut runs = Vec::new();
            for seed in &self.spec.seeds {
                let Some(run) = results::read(&self.dir(cell, *seed), *seed)? else { continue };
                runs.push(run.figures);
                add(&mut comparison.machines, run.machine);
                add(&mut comparison.commits, run.commits);
            }
            let group = Group::new(self.spec.seeds.len(), runs);
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

    fn show(&self, arguments: &Compare, comparison: &Comparison) -> Result<(), Failure> {
        let mut text = String::new();
        for table in comparison.tables() {
            text += &format!("\n{}\n{}", table.heading, aligned(&table.rows));
        }
        text += &format!("\n{}", comparison.legend().join("\n"));
        text += &format!("\ntables: {}, .csv and .json", self.table("md").display());
        if arguments.json {
            tell(text);
            give(serde_json::to_string(comparison)?);
        } else {
            give(text);
        }
        Ok(())
    }
}

/// Keeps cells with one of the labels, for each kind of label that is named.
fn only(cells: &mut Vec<Cell>, labels: &[String]) -> Result<(), Failure> {
    let kinds: [fn(&Cell) -> &str; 3] =
        [|cell| &cell.dataset, |cell| &cell.network, |cell| &cell.method];
    for label in labels {
        if !cells.iter().any(|cell| kinds.iter().any(|kind| kind(cell) == label)) {
            let mut known: Vec<&str> = Vec::new();
            for name in cells.iter().flat_map(|cell| kinds.iter().map(move |kind| kind(cell))) {
                if !known.contains(&name) {
                    known.push(name);
                }
            }
            let known = known.join(", ");
            return Err(Failure::usage(format!("--only must be one of {known}, found {label:?}")));
        }
    }
    for kind in kinds {
        let named: Vec<&String> =
            labels.iter().filter(|label| cells.iter().any(|cell| kind(cell) == *label)).collect();
        if !named.is_empty() {
            cells.retain(|cell| named.iter().any(|label| *label == kind(cell)));
        }
    }
    Ok(())
}

fn write_experiment(path: &Path, experiment: &Experiment) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    }
    let text = experiment.to_commented_toml()?;
    Ok(write_atomically(path, |file| file.write_all(text.as_bytes()))?)
}

/// Adds what is not there yet.
fn add(list: &mut Vec<String>, values: impl IntoIterator<Item = String>) {
    for value in values {
        if !list.contains(&value) {
            list.push(value);
        }
    }
}
