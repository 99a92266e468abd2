//! `hwa train`: an experiment from beginning to end.

use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use hwa_core::Choice;
use hwa_data::{DataError, OpenOptions, Source};
use hwa_nn::{ModelSpec, Origin, SgdConfig};
use hwa_report::Curves;
use hwa_store::{RunDir, read_to_string, write_atomically};
use hwa_train::{
    Experiment, Identity, Interrupt, Levels, Outcome, ReplicaError, Run, SealedTest, Settings,
    Summary,
};
use serde_json::{Value, json};

use crate::arguments::Train;
use crate::console::{Console, percent};
use crate::environment::{self, Environment, Resumed};
use crate::failure::Failure;
use crate::opened;
use crate::output::{give, tell};
use crate::table::aligned;

/// What `hwa train` trains without an argument.
const DEFAULT_EXPERIMENT: &str = include_str!("../../experiments/digits-hwa.toml");

/// Runs the command.
pub(crate) fn run(arguments: &Train) -> Result<(), Failure> {
    let plan = Planned::new(arguments)?;
    let dir = match &arguments.resume {
        Some(path) => RunDir::open(path)?,
        None => plan.create(arguments.out.as_deref())?,
    };
    let finished = dir.summary().is_file();
    if finished {
        tell(format_args!("{} is finished: there is nothing to resume", dir.path().display()));
    }
    match plan.train(arguments, &dir)? {
        Outcome::Interrupted { .. } => Err(Failure::Interrupted { run: dir.path().to_owned() }),
        Outcome::Finished(summary) => {
            if !finished || !dir.curves().exists() {
                draw_or_say_why_not(&plan.experiment.name, &dir);
            }
            show(arguments, dir.path(), &summary)
        }
    }
}

/// An experiment that was validated against its data and its network.
struct Planned {
    experiment: Experiment,
    settings: Settings,
    source: Source,
    spec: ModelSpec,
}

impl Planned {
    fn new(arguments: &Train) -> Result<Self, Failure> {
        let Asked { mut experiment, text, path } = experiment(arguments)?;
        let spec: ModelSpec = experiment.model.name.parse()?;
        let options = OpenOptions {
            validation: experiment.data.validation,
            train_examples: experiment.data.train_examples,
            ..OpenOptions::default()
        };
        let dir = experiment.data.dir.as_deref();
        let source = hwa_data::open(&experiment.data.dataset, dir, &options);
        let source = source.map_err(|error| match error {
            DataError::ClassTooSmall { .. } | DataError::TooFewExamples { .. } => {
                let keys = "`data.validation` or `data.train_examples` asks for too many images";
                Failure::usage(format!("{keys}: {error}"))
            }
            other => other.into(),
        })?;
        if source.splits.train.is_empty() {
            return Err(Failure::usage("`data.train_examples` must leave images to train on"));
        }
        if source.splits.validation.is_empty() {
            return Err(Failure::usage(
                "`data.validation` must leave images that can choose, found 0",
            ));
        }
        // A network that cannot be built for such images is better found now than by its thread.
        spec.cost(opened::task(&source))?;
        let settings = experiment.settings(source.splits.train.len());
        let settings = settings.map_err(|error| error.located(&text, &path))?;
        experiment.data.validation = Some(source.splits.validation.len());
        Ok(Self { experiment: experiment.resolved(), settings, source, spec })
    }

    /// A new run directory with the resolved experiment in it.
    fn create(&self, out: Option<&Path>) -> Result<RunDir, Failure> {
        let path = out.map_or_else(|| vacant(&self.experiment.name), Path::to_owned);
        let dir = RunDir::create(&path)?;
        let environment = Environment::new(self.threads());
        let environment = serde_json::to_string_pretty(&environment)?;
        write_atomically(&dir.environment(), |file| writeln!(file, "{environment}"))?;
        let text = self.experiment.to_toml()?;
        // Last: a directory with an experiment is a run.
        write_atomically(&dir.experiment(), |file| file.write_all(text.as_bytes()))?;
        Ok(dir)
    }

    fn threads(&self) -> usize {
        let shared = environment::cores() / self.settings.plan.num_models.get();
        self.experiment.threads.map_or(shared.max(1), |threads| threads.get())
    }

    fn train(&self, arguments: &Train, dir: &RunDir) -> Result<Outcome, Failure> {
        let plan = &self.settings.plan;
        let (models, steps) = (plan.num_models.get(), plan.max_steps.get());
        let console = Console::new(models, steps, plan.num_cycles(), arguments.plain);
        tell(format_args!("{}: {}", self.experiment.name, dir.path().display()));
        let interrupt = interrupt_on_ctrl_c()?;
        quiet_panics_of_models();
        let splits = &self.source.splits;
        let run = Run {
            settings: &self.settings,
            train: splits.train.clone(),
            validation: splits.validation.clone(),
            test: SealedTest::new(splits.test.clone()),
            transform: self.source.transform.clone(),
            build: &|init| {
                let (seed, optimizer) = (self.experiment.seed, &self.experiment.optimizer);
                let (momentum, weight_decay) = (optimizer.momentum, optimizer.weight_decay);
                let config = SgdConfig { momentum, weight_decay };
                let origin = Origin { seed, replica: init };
                let built = self.spec.build(opened::task(&self.source), origin, config);
                built.map_err(|error| ReplicaError::Framework {
                    operation: "building the network",
                    reason: error.to_string(),
                })
            },
            dir,
            identity: Identity {
                experiment: identity(&self.experiment)?,
                arithmetic: environment::arithmetic(),
                allow_other_arithmetic: arguments.allow_other_arithmetic,
            },
            threads_per_model: self.threads(),
            observer: &Mutex::new(console),
            interrupt,
        };
        if arguments.resume.is_some() && !dir.summary().is_file() {
            self.record_environment(&run)?;
        }
        run.train().map_err(|error| match error.is_about_writing() {
            true => Failure::Stopped { advice: how_to_go_on(&run), error: error.into() },
            false => error.into(),
        })
    }

    /// A record that cannot be kept is no reason not to train.
    fn record_environment(&self, run: &Run<'_>) -> Result<(), Failure> {
        let models = self.settings.plan.num_models.get();
        let steps = run.saved_state()?.map_or_else(|| vec![0; models], |state| state.steps);
        let resumed = Resumed { after_steps: steps, environment: Environment::new(self.threads()) };
        if let Err(failure) = resumed.record(&run.dir.environment()) {
            tell(format_args!("the environment could not be recorded: {failure}"));
        }
        Ok(())
    }
}

/// What is left of a run that could not write, and how to go on from it.
fn how_to_go_on(run: &Run<'_>) -> String {
    let path = run.dir.path().display();
    // The error that led here is the one to be told.
    let left = match run.saved_state().ok().flatten() {
        Some(state) => {
            let steps: Vec<String> = state.steps.iter().map(u64::to_string).collect();
            let (steps, manifest) = (steps.join(", "), state.manifest.display());
            format!("the last good state is that after step {steps}: {manifest}")
        }
        None => "no state was saved yet: it will begin again".to_owned(),
    };
    format!("{left}\nwhen there is room, go on with: hwa train --resume {path}")
}

/// An experiment, and the text it came from, for messages.
struct Asked {
    experiment: Experiment,
    text: String,
    path: PathBuf,
}

/// The experiment that is asked for: a file, the default, or that of a run.
fn experiment(arguments: &Train) -> Result<Asked, Failure> {
    let mut sets = arguments.sets.clone();
    if let Some(dir) = &arguments.data_dir {
        sets.push(format!("data.dir={}", toml_string(dir)));
    }
    let (text, path) = match (&arguments.experiment, &arguments.resume) {
        (Some(file), _) => {
            (read_to_string(file).map_err(|e| Failure::Usage(e.into()))?, file.clone())
        }
        (None, Some(run)) => stored(run)?,
        (None, None) => (DEFAULT_EXPERIMENT.to_owned(), PathBuf::from("the default experiment")),
    };
    let mut experiment = Experiment::parse(&text, &path, &sets)?;
    if let Some(run) = &arguments.resume {
        let (text, path) = stored(run)?;
        let stored = Experiment::parse(&text, &path, &[])?;
        if experiment.data.validation.is_none() {
            experiment.data.validation = stored.data.validation;
        }
        experiment = experiment.resolved();
        ensure_same(run, &stored, &experiment)?;
        // The data may have moved since.
        experiment.data.dir = experiment.data.dir.or(stored.data.dir);
    }
    // A run can be resumed from another folder.
    if let Some(dir) = &mut experiment.data.dir
        && let Ok(absolute) = std::path::absolute(&*dir)
    {
        *dir = absolute;
    }
    Ok(Asked { experiment, text, path })
}

/// The experiment that a run directory keeps.
fn stored(run: &Path) -> Result<(String, PathBuf), Failure> {
    let path = run.join("experiment.toml");
    if !path.is_file() {
        let (path, missing) = (run.to_owned(), "experiment.toml");
        return Err(hwa_store::StoreError::NotARun { path, missing }.into());
    }
    Ok((read_to_string(&path)?, path))
}

fn toml_string(path: &Path) -> String {
    Value::from(path.display().to_string()).to_string()
}

/// What must not change when a run is resumed: everything but where the data is.
fn identity(experiment: &Experiment) -> Result<String, Failure> {
    let mut same = experiment.clone();
    same.data.dir = None;
    same.threads = None;
    Ok(same.to_toml()?)
}

fn ensure_same(run: &Path, stored: &Experiment, asked: &Experiment) -> Result<(), Failure> {
    let (stored, asked) = (identity(stored)?, identity(asked)?);
    match Experiment::first_difference(&stored, &asked) {
        None => Ok(()),
        Some((key, was, is)) => {
            let run = run.display();
            Err(Failure::usage(format!(
                "{run} is another experiment: `{key}` is {was} there, asked for is {is}"
            )))
        }
    }
}

/// `runs/<name>`, or the first `runs/<name>-<n>` that is free.
fn vacant(name: &str) -> PathBuf {
    let base = Path::new("runs");
    let first = base.join(name);
    let mut numbered = (2..).map(|n| base.join(format!("{name}-{n}")));
    if first.exists() { numbered.find(|path| !path.exists()).unwrap_or(first) } else { first }
}

/// The first Ctrl-C asks for a state to resume from, the second leaves at once.
fn interrupt_on_ctrl_c() -> Result<Interrupt, Failure> {
    let interrupt = Interrupt::new();
    let request = interrupt.clone();
    let handler = move || {
        if request.is_requested() {
            std::process::exit(130);
        }
        request.request();
        tell("interrupted: finishing the step and saving (again to leave at once)");
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::Run(error.into()))?;
    Ok(interrupt)
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

/// A figure that cannot be drawn is no reason to withhold the result.
fn draw_or_say_why_not(name: &str, dir: &RunDir) {
    if let Err(failure) = draw(name, dir) {
        tell(format_args!("the curves could not be drawn: {failure}"));
    }
}

/// Draws the accuracy by cycle.
fn draw(name: &str, dir: &RunDir) -> Result<(), Failure> {
    let events = read_to_string(&dir.events())?;
    let svg = Curves::from_events(&events)
        .and_then(|curves| curves.to_svg(name))
        .map_err(|error| Failure::Run(error.into()))?;
    Ok(write_atomically(&dir.curves(), |file| file.write_all(svg.as_bytes()))?)
}

fn show(arguments: &Train, run: &Path, summary: &Summary) -> Result<(), Failure> {
    let text = describe(run, summary);
    if arguments.json {
        tell(text.trim_end());
        give(json_summary(run, summary));
    } else {
        give(text.trim_end());
    }
    Ok(())
}

fn describe(run: &Path, summary: &Summary) -> String {
    let models = summary.test.inner.len();
    let of = if models > 1 { format!("inner (mean of {models})") } else { "inner".to_owned() };
    let last = summary.last_cycle;
    let both = |name: String, cell: &dyn Fn(&Levels) -> String| {
        vec![name, cell(&summary.validation), cell(&summary.test)]
    };
    let mean = |l: &Levels| l.inner_top1().map_or("–".to_owned(), |top1| format!("{top1:.2} %"));
    let mut rows = vec![
        vec![String::new(), "validation".to_owned(), "test".to_owned()],
        both(format!("{of}, cycle {last}"), &mean),
        both(format!("outer, cycle {last}"), &|l| percent(l.outer.as_ref())),
        both(chosen_name(summary), &|l| percent(l.hwa.as_ref())),
    ];
    if summary.validation.hwa.is_none() {
        let cycle = summary.chosen.map_or(0, |c| c.cycle);
        rows.push(both(format!("chosen, cycle {cycle}"), &|l| percent(l.chosen.as_ref())));
    }
    if let Some(best) = &summary.best_on_test {
        let name = format!("best on test, cycle {} (not a choice)", best.cycle);
        rows.push(vec![name, "–".to_owned(), percent(Some(&best.evaluation))]);
    }
    let time = &summary.time;
    let work = time.seconds * models.max(1) as f64;
    let share = 100.0 * time.judge / work.max(1e-9);
    let chosen = summary.chosen.map_or("nothing was chosen".to_owned(), |choice: Choice| {
        format!("validation chose cycle {} of {last}", choice.cycle)
    });
    format!(
        "\n{}\n{chosen}; {:.1} s of training, {:.1} s of judging beside it ({share:.0} % of the work)\n\
         run: {}   weights: {}   curves: {}\n",
        aligned(&rows),
        time.seconds,
        time.judge,
        run.display(),
        run.join("best.safetensors").display(),
        run.join("report/curves.svg").display(),
    )
}

fn chosen_name(summary: &Summary) -> String {
    match (summary.chosen, summary.chosen_length) {
        (Some(choice), Some(length)) if choice.window.is_some() => {
            format!("HWA, cycle {} (window {length})", choice.cycle)
        }
        (Some(choice), None) if choice.window.is_some() => {
            format!("average of all samples, cycle {}", choice.cycle)
        }
        _ => "HWA".to_owned(),
    }
}

fn json_summary(run: &Path, summary: &Summary) -> Value {
    let levels = |levels: &Levels| {
        json!({
            "inner": levels.inner_top1(),
            "outer": levels.outer.map(|e| e.top1),
            "hwa": levels.hwa.map(|e| e.top1),
            "chosen": levels.chosen.map(|e| e.top1),
        })
    };
    json!({
        "run": run.display().to_string(),
        "seconds": summary.time.seconds,
        "chosen_cycle": summary.chosen.map(|c| c.cycle),
        "validation": levels(&summary.validation),
        "test": levels(&summary.test),
        "best_on_test": summary.best_on_test.as_ref().map(|b| b.evaluation.top1),
    })
}
