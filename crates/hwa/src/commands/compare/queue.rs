//! Trainings side by side, each in a process of its own.
//!
//! A process of its own tells how much memory a run needs, and takes nothing with it when it
//! dies. It is held by its standard input: when that ends, it saves a state and stops. So does
//! it when this process is killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hwa_store::StoreError;
use hwa_train::Interrupt;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::failure::Failure;
use crate::terminal::Voice;

/// How often processes are looked after.
const PULSE: Duration = Duration::from_millis(100);

/// A run that is to be trained.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    /// What it is called where it is shown.
    pub(crate) label: String,
    /// Its experiment's file.
    pub(crate) experiment: PathBuf,
    /// Its seed.
    pub(crate) seed: u64,
    /// Its run directory.
    pub(crate) dir: PathBuf,
    /// Its models: it takes a core for each.
    pub(crate) models: usize,
    /// Threads for the arithmetic of each model, if the experiment says so.
    pub(crate) threads: Option<usize>,
}

/// What became of the jobs.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Those that failed.
    pub(crate) failed: Vec<String>,
    /// Whether it was interrupted.
    pub(crate) interrupted: bool,
}

/// Trains jobs on some cores.
pub(crate) struct Queue<'a> {
    /// The cores.
    pub(crate) cores: usize,
    /// Where it is shown.
    pub(crate) voice: &'a Voice,
    /// Who may interrupt.
    pub(crate) interrupt: &'a Interrupt,
    /// The program that trains.
    pub(crate) program: &'a Path,
}

/// A job that is under way.
struct Running {
    job: Job,
    cores: usize,
    process: Child,
    /// Held while the process may go on.
    leash: Option<ChildStdin>,
    reader: Option<JoinHandle<()>>,
    log: PathBuf,
    bar: Option<ProgressBar>,
    began: Instant,
}

impl Queue<'_> {
    /// Trains all of them, as many at a time as the cores allow; after each that is finished,
    /// `finished` is called.
    pub(crate) fn train(
        &self,
        jobs: Vec<Job>,
        finished: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<Ended, Failure> {
        let (total, mut done) = (jobs.len(), 0);
        let mut waiting = jobs;
        let mut running: Vec<Running> = Vec::new();
        let mut ended = Ended::default();
        while !running.is_empty() || (!waiting.is_empty() && !self.interrupt.is_requested()) {
            let mut index = 0;
            while index < running.len() {
                let status = running[index].process.try_wait();
                match status.map_err(|error| Failure::Run(error.into()))? {
                    None => index += 1,
                    Some(status) => {
                        let job = running.remove(index);
                        done += 1;
                        let code = status.code();
                        self.see_off(job, code, format!("{done} of {total}"), &mut ended);
                        if code == Some(0) {
                            finished()?;
                        }
                    }
                }
            }
            if self.interrupt.is_requested() {
                ended.interrupted = true;
                // What has no leash saves and stops.
                running.iter_mut().for_each(|job| job.leash = None);
            } else {
                self.start_what_fits(&mut waiting, &mut running)?;
            }
            thread::sleep(PULSE);
        }
        ended.interrupted |= self.interrupt.is_requested() && !waiting.is_empty();
        Ok(ended)
    }

    fn start_what_fits(
        &self,
        waiting: &mut Vec<Job>,
        running: &mut Vec<Running>,
    ) -> Result<(), Failure> {
        loop {
            let used: usize = running.iter().map(|job| job.cores).sum();
            let free = self.cores.saturating_sub(used);
            let Some(index) = waiting.iter().position(|job| self.cores_of(job) <= free) else {
                return Ok(());
            };
            let job = waiting.remove(index);
            let alone = running.is_empty() && waiting.is_empty();
            running.push(self.start(job, alone)?);
        }
    }

    /// A job never takes more cores than there are.
    fn cores_of(&self, job: &Job) -> usize {
        (job.models * job.threads.unwrap_or(1)).clamp(1, self.cores)
    }

    fn start(&self, job: Job, alone: bool) -> Result<Running, Failure> {
        // The last one has all cores. Bits do not depend on it.
        let all = if alone { self.cores / job.models } else { 1 };
        let threads = job.threads.unwrap_or(all.max(1));
        let log = job.dir.with_extension("log");
        let opened = File::options().create(true).append(true).open(&log);
        let file = opened.map_err(StoreError::io("open", &log))?;
        let output = file.try_clone().map_err(StoreError::io("open", &log))?;
        let mut command = Command::new(self.program);
        command.arg("train").arg(&job.experiment).args(["--plain", "--leash"]);
        command.arg("--set").arg(format!("seed={}", job.seed));
        command.arg("--set").arg(format!("threads={threads}"));
        let resumed = job.dir.join("experiment.toml").is_file();
        command.arg(if resumed { "--resume" } else { "--out" }).arg(&job.dir);
        command.stdin(Stdio::piped()).stdout(output).stderr(Stdio::piped());
        let failed = |error| {
            let reason = anyhow::anyhow!("cannot start {}: {error}", self.program.display());
            Failure::Run(reason)
        };
        let mut process = command.spawn().map_err(failed)?;
        let label = format!("{}, seed {}", job.label, job.seed);
        let bar = self.voice.bars().map(|bars| spinner(bars, &label));
        if bar.is_none() {
            let verb = if resumed { "resumed" } else { "began" };
            self.voice.say(&format!("{verb}: {label}"));
        }
        let leash = process.stdin.take();
        let reader = process.stderr.take().and_then(|stderr| copy(stderr, file, bar.clone()));
        let cores = self.cores_of(&job);
        Ok(Running { job, cores, process, leash, reader, log, bar, began: Instant::now() })
    }

    fn see_off(&self, mut job: Running, code: Option<i32>, count: String, ended: &mut Ended) {
        if let Some(reader) = job.reader.take() {
            let _ = reader.join();
        }
        if let Some(bar) = job.bar.take() {
            bar.finish_and_clear();
        }
        let label = format!("{}, seed {}", job.job.label, job.job.seed);
        let minutes = job.began.elapsed().as_secs_f64() / 60.0;
        match code {
            Some(0) => self.voice.say(&format!("{count}: {label}, {minutes:.1} min")),
            Some(130) => self.voice.say(&format!("saved: {label}")),
            _ => {
                let reason = last_error(&job.log);
                let log = job.log.display();
                self.voice.say(&format!("{count}: {label} failed: {reason} (all of it: {log})"));
                ended.failed.push(label);
            }
        }
    }
}

/// Copies what a process tells to its log, and shows the last line of it.
fn copy(stderr: ChildStderr, mut log: File, bar: Option<ProgressBar>) -> Option<JoinHandle<()>> {
    let copy = move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            // A log that cannot be written is no reason to stop training.
            let _ = writeln!(log, "{line}");
            if let Some(bar) = &bar {
                bar.set_message(line);
            }
        }
    };
    thread::Builder::new().name("the log".to_owned()).spawn(copy).ok()
}

fn spinner(bars: &MultiProgress, label: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {prefix} ({elapsed}): {wide_msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = bars.add(ProgressBar::new_spinner().with_style(style).with_prefix(label.to_owned()));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// What a log says of why it ends.
fn last_error(log: &Path) -> String {
    let text = hwa_store::read_to_string(log).unwrap_or_default();
    let error = text.lines().rev().find_map(|line| line.strip_prefix("error: "));
    let last = || text.lines().rev().find(|line| !line.trim().is_empty());
    error.or_else(last).unwrap_or("it said nothing").to_owned()
}
