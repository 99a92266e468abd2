//! `hwa compare`: methods beside each other.

mod plan;
mod queue;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use hwa_compare::{PRESETS, preset};
use hwa_report::Comparison;
use hwa_store::read_to_string;
use hwa_train::Interrupt;

pub(in crate::commands) use self::plan::Plan;
pub(in crate::commands) use self::queue::Job;
use self::queue::{Ended, Queue};
use super::train::interrupt_on_ctrl_c;
use crate::arguments::Compare;
use crate::console::counted;
use crate::environment;
use crate::failure::Failure;
use crate::output::{give, tell};
use crate::table::{aligned, fitting, wrapped};
use crate::terminal::{Voice, width_of_results};

/// Runs the command.
pub(crate) fn run(arguments: &Compare) -> Result<(), Failure> {
    if arguments.list {
        for preset in &PRESETS {
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
    if arguments.dry_run {
        return say_what_there_is_to_do(&plan);
    }
    let ended = match arguments.tables {
        true => Ended::default(),
        false => {
            let voice = Voice::new(arguments.plain);
            let interrupt = interrupt_on_ctrl_c(voice.clone())?;
            train_missing(&plan, arguments.cores, &voice, &interrupt)?
        }
    };
    // What cannot be written is shown all the same.
    let comparison = plan.comparison()?;
    show(arguments, &plan, &comparison)?;
    plan.write(&comparison)?;
    let tables = format!("tables: {}, .csv and .json", plan.table("md").display());
    if arguments.json {
        tell(tables)
    } else {
        give(tables)
    }
    ended.all_done()
}

impl Ended {
    /// An error, unless everything was trained.
    pub(in crate::commands) fn all_done(&self) -> Result<(), Failure> {
        if self.interrupted {
            let advice = "the same command goes on".to_owned();
            return Err(Failure::Cancelled { advice });
        }
        match self.failed.as_slice() {
            [] => Ok(()),
            failed => {
                let advice =
                    "the same command tries them again; a run that cannot go on is trained anew \
                     once its folder is removed"
                        .to_owned();
                let error = anyhow::anyhow!("{} failed: {}", failed.len(), failed.join("; "));
                Err(Failure::Stopped { error, advice })
            }
        }
    }
}

/// The text of the comparison, and where it is from.
fn asked(arguments: &Compare) -> Result<(String, PathBuf), Failure> {
    let name = arguments.comparison.as_deref().unwrap_or_default();
    let path = PathBuf::from(name);
    if !path.is_file()
        && let Some(preset) = preset(name)
    {
        return Ok((preset.text.to_owned(), path));
    }
    let text = read_to_string(&path).map_err(|error| {
        if path.exists() {
            return Failure::Usage(anyhow::anyhow!("{error}"));
        }
        if name.contains(['/', '\\', '.']) {
            return Failure::Usage(anyhow::anyhow!("{error}"));
        }
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        let known = known.join(", ");
        Failure::usage(format!("there is no file {name:?}; a table of the paper is one of {known}"))
    })?;
    Ok((text, path))
}

/// What would be trained, and how much work it is.
fn say_what_there_is_to_do(plan: &Plan) -> Result<(), Failure> {
    plan.ensure_room()?;
    let jobs = plan.jobs(true)?;
    let title = plan.title();
    let all = plan.num_runs();
    if jobs.is_empty() {
        give(format_args!("{title}: 0 of {all} runs to train"));
        return Ok(());
    }
    let mut work: Vec<(&Job, usize, u64, u64)> = Vec::new();
    for job in &jobs {
        let same = |other: &Job| (&other.network, &other.model) == (&job.network, &job.model);
        match work.iter_mut().find(|(other, ..)| same(other)) {
            Some((_, runs, images, disk)) => {
                *runs += 1;
                *images = images.saturating_add(job.images);
                *disk = disk.saturating_add(job.disk);
            }
            None => work.push((job, 1, job.images, job.disk)),
        }
    }
    let head = ["network", "model", "runs", "images to train on", "disk"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (job, runs, images, disk) in work {
        rows.push(vec![
            job.network.clone(),
            job.model.clone(),
            runs.to_string(),
            format!("{:.3} million", images as f64 / 1e6),
            bytes(disk),
        ]);
    }
    give(format_args!(
        "{title}: {} of {all} runs to train{}\n\n{}\n\
         hwa bench step --model MODEL tells images a second. Most of the disk is the weights of \
         every cycle{}{}",
        jobs.len(),
        begun(&jobs),
        aligned(&rows),
        match plan.can_leave_out_cycles() {
            true => ":\n--set checkpoints.outer_every=N keeps every n-th.",
            false => ",\nwhich rows of outer weights (`outer_of`) need.",
        },
        known_before(plan, &jobs).map_or_else(String::new, |told| format!("\n{told}"))
    ));
    Ok(())
}

/// That some of these only have to be finished, if it is so.
fn begun(jobs: &[Job]) -> String {
    match jobs.iter().filter(|job| job.has_begun()).count() {
        0 => String::new(),
        count => format!(", {count} of them begun already"),
    }
}

/// That figures of some of these are there already, if it is so.
fn known_before(plan: &Plan, jobs: &[Job]) -> Option<String> {
    let count = plan.known_before(jobs);
    let table = plan.table("json");
    (count > 0).then(|| {
        format!(
            "{count} of these have figures in {0}, without a run: with `--with {0}` they are not \
             trained again",
            table.display()
        )
    })
}

fn bytes(count: u64) -> String {
    match count {
        0..1_000_000_000 => format!("{:.0} MB", count as f64 / 1e6),
        _ => format!("{:.0} GB", count as f64 / 1e9),
    }
}

/// Trains what is not done yet.
pub(in crate::commands) fn train_missing(
    plan: &Plan,
    cores: Option<NonZeroUsize>,
    voice: &Voice,
    interrupt: &Interrupt,
) -> Result<Ended, Failure> {
    let cores = cores.map_or_else(environment::cores, NonZeroUsize::get);
    plan.ensure_room()?;
    let jobs = plan.jobs(false)?;
    if let Some(told) = known_before(plan, &jobs) {
        tell(told);
    }
    let disk = jobs.iter().map(|job| job.disk).fold(0, u64::saturating_add);
    let program = std::env::current_exe().map_err(|error| Failure::Run(error.into()))?;
    tell(format_args!(
        "{}: {} of {} runs to train on {}, in {}: about {} on disk",
        plan.title(),
        jobs.len(),
        plan.num_runs(),
        counted(cores as u64, "core"),
        plan.out().display(),
        bytes(disk)
    ));
    let before = plan.num_runs() - jobs.len();
    let queue = Queue { cores, voice, interrupt, program: &program, before };
    let finished = || {
        // A table that cannot be written now can be written at the end.
        if let Err(failure) = plan.write_tables() {
            voice.say(&format!("the tables could not be written: {failure}"));
        }
    };
    Ok(queue.train(jobs, &finished))
}

fn show(arguments: &Compare, plan: &Plan, comparison: &Comparison) -> Result<(), Failure> {
    let shown = plan.shown(comparison);
    let width = width_of_results().filter(|_| !arguments.json).unwrap_or(usize::MAX);
    let mut text = String::new();
    for table in shown.tables() {
        let (rows, left_out) = fitting(&table.rows, width);
        text += &format!("\n{}\n{}", wrapped(&table.heading, width), aligned(&rows));
        if !left_out.is_empty() {
            let told = format!("too wide for here, but in the files: {}", left_out.join(", "));
            text += &format!("{}\n", wrapped(&told, width));
        }
    }
    for line in shown.legend() {
        text += &format!("\n{}", wrapped(&line, width));
    }
    if arguments.json {
        tell(text);
        give(serde_json::to_string(&shown)?);
    } else {
        give(text);
    }
    Ok(())
}
