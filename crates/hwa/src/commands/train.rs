//! `hwa train`: an experiment from beginning to end.

mod advice;
mod asked;
#[cfg(feature = "mpi")]
mod ranked;
#[cfg(not(feature = "mpi"))]
#[path = "train/unranked.rs"]
mod ranked;
mod signals;

use std::fmt::Display;
use std::io;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use hwa_core::Weights;
use hwa_data::Source;
use hwa_nn::{Head, ModelSpec, NnError, Origin, SgdConfig};
use hwa_report::{PageOptions, Process};
use hwa_store::{RunDir, read_to_string, write_atomically};
use hwa_train::{
    BuildTechnique, DiskUse, Event, Experiment, Identity, Interrupt, Observer, Outcome, Ranks,
    Replica, ReplicaError, Run, SealedTest, Settings, Started, TrainError, beside,
};
use serde_json::Value;

pub(crate) use asked::{Sources, toml_string};
pub(crate) use signals::interrupt_on_ctrl_c;

use advice::explained;
use asked::{Asked, experiment, vacant};
use signals::Signals;

use crate::about::About;
use crate::arguments::Train;
use crate::console::Console;
use crate::environment::{self, Environment, RankPlace, Resumed};
use crate::failure::Failure;
use crate::left_out::LeftOut;
use crate::notices;
use crate::opened;
use crate::output::{give, tell};
use crate::pages::{self, Refresher};
use crate::sparkline;
use crate::summary::{describe, json_summary};
use crate::tensorboard::TensorBoard;
use crate::terminal::Voice;

/// Runs the command.
pub(crate) fn run(arguments: &Train) -> Result<(), Failure> {
    match hwa_mpi::launched() {
        // Whoever holds the leash has started one process, and means one.
        Some(launch) if !arguments.leash => ranked::train(arguments, launch),
        _ => Planned::new(arguments)?.run(arguments, None),
    }
}

impl Planned {
    /// Trains and shows the result; with other ranks, if there are some.
    pub(crate) fn run(
        &self,
        arguments: &Train,
        mut ranks: Option<&mut Ranks<'_>>,
    ) -> Result<(), Failure> {
        // The disk may take long, and the other ranks wait.
        let Opened { dir, recorded, finished } = beside(&mut ranks, || self.open(arguments))??;
        if finished {
            tell(format_args!("{} is finished: there is nothing to resume", dir.path().display()));
        }
        let outcome = self.train(arguments, (&dir, recorded), ranks.as_deref_mut());
        let mut left_out = LeftOut::of(&self.source);
        if let Some(ranks) = &ranks {
            left_out.add(ranks.left_out());
        }
        // After a failure here the others are ended, and what becomes of them is no other failure.
        let mut ranks = ranks.filter(|_| outcome.is_ok());
        let conclude = || self.conclude(arguments, &dir, (&outcome, left_out), finished);
        beside(&mut ranks, conclude)?;
        let outcome = outcome?;
        if let Some(ranks) = ranks {
            // Last: from here on nobody misses this rank.
            ranks.end(&outcome)?;
        }
        match outcome {
            Outcome::Interrupted { .. } => Err(Failure::Interrupted { run: dir.path().to_owned() }),
            Outcome::Finished(_) => Ok(()),
        }
    }

    /// Lists what was left out, and shows the result, if there is one.
    fn conclude(
        &self,
        arguments: &Train,
        dir: &RunDir,
        (outcome, mut left_out): (&Result<Outcome, Failure>, LeftOut),
        finished: bool,
    ) {
        // A list that cannot be kept is no reason to withhold the result.
        if let Err(error) = left_out.merge_into(&dir.left_out()) {
            tell(format_args!("the images that were left out could not be listed: {error}"));
        }
        left_out.tell();
        let summary = match outcome {
            Ok(Outcome::Finished(summary)) => summary,
            Ok(Outcome::Interrupted { .. }) => return leave(dir, Process::Interrupted),
            // What was asked for cannot be: the run is as it was.
            Err(Failure::Usage(_)) => return,
            Err(failure) => return leave(dir, Process::Failed(self.reason(failure))),
        };
        if !finished || !dir.page().exists() {
            draw_or_say_why_not(dir);
        }
        // Curves that cannot be read are no reason to withhold the result.
        let curves = pages::record(dir.path(), "").map(|record| sparkline::curves(&record));
        let also = (self.offers(), curves.as_deref().unwrap_or_default());
        let text = describe(dir.path(), summary, &self.settings.plan.windows, also);
        let json = json_summary(dir.path(), &self.experiment, summary, left_out.len());
        show(arguments, &text, json);
    }
}

/// A run directory, and what is in it already.
struct Opened {
    dir: RunDir,
    recorded: Option<Started>,
    finished: bool,
}

/// An experiment that was validated against its data and its network.
pub(crate) struct Planned {
    experiment: Experiment,
    /// The name of a new run's folder.
    folder: String,
    settings: Settings,
    technique: Box<BuildTechnique<'static>>,
    source: Source,
    spec: ModelSpec,
    /// What the models begin with, if it is not drawn.
    initial: Option<Weights>,
    /// The numbers of the models that train: those that are lost or left out are not among them.
    models: Vec<usize>,
    /// Where the ranks are, and what they have; nothing, if this is the only process.
    ranks: Vec<RankPlace>,
    /// What interrupts, if it is heeded already.
    signals: Option<Signals>,
}

/// How much an experiment is.
pub(crate) struct Work {
    /// Images that each model sees.
    pub(crate) images: u64,
    /// About how many bytes on disk.
    pub(crate) disk: u64,
}

impl Planned {
    fn new(arguments: &Train) -> Result<Self, Failure> {
        let trained = arguments.resume.as_ref().is_some_and(|run| hwa_train::has_state(run));
        let mut plan = Self::with(experiment(arguments)?, trained, &mut Sources::default())?;
        if let Some(run) = &arguments.resume {
            plan.leave_out(run, &arguments.without_replica);
        }
        Ok(plan)
    }

    /// Counts on the models that a run has left, without those that are to be left out now. If
    /// there is none, whoever goes on with the run says so.
    fn leave_out(&mut self, run: &Path, without: &[usize]) {
        let left = hwa_train::models_left(run).into_iter().flatten();
        let left: Vec<usize> = left.filter(|model| !without.contains(model)).collect();
        if !left.is_empty() {
            self.models = left;
        }
    }

    /// Validates an experiment that no file is about, and tells how much work it is.
    pub(crate) fn check(experiment: &Experiment, sources: &mut Sources) -> Result<Work, Failure> {
        let asked = Asked {
            experiment: experiment.clone(),
            folder: String::new(),
            text: String::new(),
            path: PathBuf::new(),
            sets: Vec::new(),
        };
        let planned = Self::with(asked, false, sources)?;
        let parameters = planned.spec.cost(opened::task(&planned.source))?.parameters;
        let (all, batch) = (planned.source.splits.train.len(), planned.settings.batch);
        let epochs = planned.settings.plan.max_steps.get() as f64
            / hwa_data::steps_per_epoch(all, batch).max(1) as f64;
        Ok(Work {
            images: (epochs * all as f64).round() as u64,
            disk: DiskUse::estimated(&planned.settings, parameters).total(),
        })
    }

    fn with(asked: Asked, trained: bool, sources: &mut Sources) -> Result<Self, Failure> {
        let spec = asked.network()?;
        let source = asked.open(sources)?;
        // A network that cannot be built for such images is better found now than by its thread.
        spec.cost(opened::task(&source))?;
        let initial = match trained {
            true => None,
            false => asked.initial_weights(spec, opened::task(&source))?,
        };
        let images = source.splits.train.len();
        let settings = asked.experiment.settings(images).map_err(|e| asked.located(e))?;
        let technique = asked.experiment.technique(images).map_err(|e| asked.located(e))?;
        let Asked { mut experiment, folder, .. } = asked;
        experiment.data.validation = Some(source.splits.validation.len());
        experiment.data.digest.clone_from(&source.digest);
        let experiment = experiment.resolved();
        let models = (0..settings.plan.num_models.get()).collect();
        Ok(Self {
            experiment,
            folder,
            settings,
            technique,
            source,
            spec,
            initial,
            models,
            ranks: Vec::new(),
            signals: None,
        })
    }

    /// The run directory to go on in, or a new one.
    fn open(&self, arguments: &Train) -> Result<Opened, Failure> {
        let dir = match &arguments.resume {
            Some(path) => RunDir::open(path)?,
            None => self.create(arguments.out.as_deref())?,
        };
        let (recorded, finished) = (recorded(&dir), dir.summary().is_file());
        Ok(Opened { dir, recorded, finished })
    }

    /// A new run directory with the resolved experiment in it.
    fn create(&self, out: Option<&Path>) -> Result<RunDir, Failure> {
        let path = out.map_or_else(|| vacant(&self.folder), Path::to_owned);
        let dir = RunDir::create(&path)?;
        let environment = self.environment();
        let environment = serde_json::to_string_pretty(&environment)?;
        write_atomically(&dir.environment(), |file| writeln!(file, "{environment}"))?;
        let text = self.experiment.to_commented_toml()?;
        // Last: a directory with an experiment is a run.
        write_atomically(&dir.experiment(), |file| file.write_all(text.as_bytes()))?;
        Ok(dir)
    }

    /// What tells the run apart from others where it is shown.
    fn title(&self, name: impl Display) -> String {
        let Experiment { method, seed, .. } = &self.experiment;
        format!("{name}: method {}, seed {seed}", method.name())
    }

    /// That not all models of the run are trained, if that is so.
    fn told_of_models(&self) -> Option<String> {
        let all = self.settings.plan.num_models.get();
        let lost = (0..all).filter(|model| !self.models.contains(model));
        let lost: Vec<String> = lost.map(|model| model.to_string()).collect();
        (!lost.is_empty()).then(|| {
            let left = self.models.len();
            format!("{left} of {all} models go on; left out: model {}", lost.join(", "))
        })
    }

    /// Why it failed, for its page. Where ranks end each other, the first reason may be another's.
    fn reason(&self, failure: &Failure) -> String {
        let asked = self.signals.as_ref().is_some_and(|signals| signals.interrupt.is_requested());
        match asked && self.ranks.len() > 1 {
            true => format!(
                "rank 0 was asked to end, maybe because another rank had failed, which then said \
                 why; after that: {failure}"
            ),
            false => failure.to_string(),
        }
    }

    /// What one model is judged by.
    fn offers(&self) -> &'static str {
        (self.technique)(0).offers()
    }

    fn threads(&self) -> usize {
        let models = self.models.len();
        self.threads_for(self.ranks.first().map_or(models, |place| place.sharing))
    }

    /// Threads for each of so many models that share the cores of this process.
    fn threads_for(&self, sharing: usize) -> usize {
        let shared = environment::cores() / sharing.max(1);
        self.experiment.threads.map_or(shared.max(1), |threads| threads.get())
    }

    fn environment(&self) -> Environment {
        Environment::new(self.threads(), self.ranks.clone())
    }

    /// What decides the bits: that of all ranks.
    fn arithmetic(&self) -> String {
        let mut all = vec![environment::arithmetic()];
        for place in &self.ranks {
            if !all.contains(&place.arithmetic) {
                all.push(place.arithmetic.clone());
            }
        }
        all.join("; ")
    }

    fn train(
        &self,
        arguments: &Train,
        (dir, recorded): (&RunDir, Option<Started>),
        mut ranks: Option<&mut Ranks<'_>>,
    ) -> Result<Outcome, Failure> {
        let voice = Voice::new(arguments.plain);
        notices::show(voice.clone());
        let console = Console::new(voice.clone(), &self.settings, self.offers(), recorded);
        tell(self.title(dir.path().display()));
        let keys = self.experiment.method_keys();
        if !keys.is_empty() {
            tell(keys.join(", "));
        }
        tell(classes(&self.source.class_names));
        if let Some(told) = self.told_of_models() {
            tell(told);
        }
        let interrupt = match &self.signals {
            Some(signals) => signals.saying(voice),
            None => interrupt_on_ctrl_c(voice)?,
        };
        if arguments.leash {
            interrupt_when_input_ends(interrupt.clone())?;
        }
        quiet_panics_of_models();
        let splits = &self.source.splits;
        let console = Refresher::new(console, dir.path());
        let observer: Box<Mutex<dyn Observer>> = match self.experiment.log.tensorboard {
            true => Box::new(Mutex::new(TensorBoard::new(console, dir.path()))),
            false => Box::new(Mutex::new(console)),
        };
        let run = Run {
            settings: &self.settings,
            train: splits.train.clone(),
            validation: splits.validation.clone(),
            test: SealedTest::new(splits.test.clone()),
            transform: self.source.transform.clone(),
            build: &|init| self.build(init),
            technique: &*self.technique,
            about: About::of(self.spec, &self.source).to_metadata()?,
            dir,
            identity: Identity {
                experiment: self.experiment.identity()?,
                arithmetic: self.arithmetic(),
                allow_other_arithmetic: arguments.allow_other_arithmetic,
            },
            threads_per_model: self.threads(),
            observer: &*observer,
            interrupt,
        };
        let size = ranks.as_ref().map_or(1, |ranks| ranks.size());
        let prepare = || {
            if !arguments.without_replica.is_empty() {
                run.leave_out(&arguments.without_replica, size)?;
            }
            if arguments.resume.is_some() && !dir.summary().is_file() {
                self.record_environment(&run, arguments.without_replica.clone())?;
            }
            Ok(())
        };
        let prepared = beside(&mut ranks, prepare).map_err(TrainError::from).flatten();
        if prepared.is_ok() {
            pages::goes_on(dir.path());
        }
        let outcome = prepared.and_then(|()| match &mut ranks {
            None => run.train(),
            Some(ranks) => run.train_with(ranks),
        });
        let outcome = outcome.map_err(|error| explained(error, &run))?;
        // It may be in the middle of the page.
        beside(&mut ranks, || drop(observer))?;
        Ok(outcome)
    }

    /// A model with initial weights: drawn, or those of a file.
    fn build(&self, init: u32) -> Result<Box<dyn Replica>, ReplicaError> {
        let (seed, optimizer) = (self.experiment.seed, &self.experiment.optimizer);
        let (momentum, weight_decay) = (optimizer.momentum, optimizer.weight_decay);
        let config = SgdConfig { momentum, weight_decay };
        let (task, origin) = (opened::task(&self.source), Origin { seed, replica: init });
        let failed = |error: NnError| ReplicaError::Framework {
            operation: "building the network",
            reason: error.to_string(),
        };
        let replica = match &self.initial {
            None => self.spec.build(task, origin, config),
            Some(initial) if self.experiment.model.new_head => {
                let adapted = self.spec.adapt(initial.clone(), task, origin, Head::Fresh);
                adapted.and_then(|adapted| self.spec.build_from(task, &adapted.weights, config))
            }
            Some(initial) => self.spec.build_from(task, initial, config),
        };
        let precision = opened::precision(self.experiment.model.convolution);
        Ok(Box::new(replica.map_err(failed)?.with_precision(precision)))
    }

    /// A record that cannot be kept is no reason not to train.
    fn record_environment(
        &self,
        run: &Run<'_>,
        without_replicas: Vec<usize>,
    ) -> Result<(), TrainError> {
        let models = self.settings.plan.num_models.get();
        let steps = run.saved_state()?.map_or_else(|| vec![0; models], |state| state.steps);
        let environment = self.environment();
        let resumed = Resumed { after_steps: steps, without_replicas, environment };
        if let Err(failure) = resumed.record(&run.dir.environment()) {
            tell(format_args!("the environment could not be recorded: {failure}"));
        }
        Ok(())
    }
}

/// The classes in a line of 80 columns, as far as they fit.
fn classes(names: &[String]) -> String {
    let mut line = format!("{} classes: ", names.len());
    for (number, name) in names.iter().enumerate() {
        let comma = if number > 0 { ", " } else { "" };
        let last = number + 1 == names.len();
        let room = if last { 80 } else { 75 };
        if line.chars().count() + comma.len() + name.chars().count() > room {
            return line + comma + "...";
        }
        line += comma;
        line += name;
    }
    line
}

/// What a run said of itself when it began. It is shown again, and only shown: what
/// cannot be read is no reason not to go on.
fn recorded(dir: &RunDir) -> Option<Started> {
    let events = read_to_string(&dir.events()).ok()?;
    match serde_json::from_str(events.lines().next()?).ok()? {
        Event::Started(started) => Some(started),
        _ => None,
    }
}

/// Whoever started this holds the other end of standard input: when it is let go, on purpose
/// or by a crash, a state to resume from is saved.
fn interrupt_when_input_ends(interrupt: Interrupt) -> Result<(), Failure> {
    let wait = move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        interrupt.request();
    };
    let thread = thread::Builder::new().name("the leash".to_owned());
    thread.spawn(wait).map(drop).map_err(|error| Failure::Run(error.into()))
}

/// A panic in a model becomes an error that names the model: one message is enough.
fn quiet_panics_of_models() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let thread = thread::current();
        let name = thread.name().unwrap_or_default();
        if !name.starts_with("model ") && !name.starts_with("the ") {
            usual(info);
        }
    }));
}

/// The page of a run that is left does not say that it is under way. It is made again later, so
/// one that cannot be written is no further failure.
fn leave(dir: &RunDir, process: Process) {
    drop(pages::write_left(dir.path(), process));
}

/// A page that cannot be written is no reason to withhold the result.
fn draw_or_say_why_not(dir: &RunDir) {
    let runs = [dir.path().to_owned()];
    let options = PageOptions { files: true, ..PageOptions::default() };
    let drawn = pages::of_runs(&runs, options).and_then(|page| pages::write(&page, &dir.report()));
    if let Err(failure) = drawn {
        tell(format_args!("the report could not be written: {failure}"));
    }
}

fn show(arguments: &Train, text: &str, summary: Value) {
    if arguments.json {
        tell(text.trim_end());
        give(summary);
    } else {
        give(text.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_fit_into_a_line() {
        let names = |count: usize| (0..count).map(|i| format!("class {i}")).collect::<Vec<_>>();
        assert_eq!(classes(&names(2)), "2 classes: class 0, class 1");
        let many = classes(&names(1000));
        assert!(many.starts_with("1000 classes: class 0, ") && many.ends_with(", ..."), "{many}");
        assert!(many.len() <= 80 && classes(&["x".repeat(90), "y".into()]) == "2 classes: ...");
    }
}
