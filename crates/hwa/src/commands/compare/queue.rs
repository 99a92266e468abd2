//! Trainings side by side, each in a process of its own.
//!
//! A process of its own tells how much memory a run needs, and takes nothing with it when it
//! dies. It is held by its standard input: when that ends, it saves a state and stops. So does
//! it when this process is killed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hwa_compare::divergence;
use hwa_store::RunDir;
use hwa_train::Interrupt;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::terminal::Voice;

/// How often processes are looked after.
const PULSE: Duration = Duration::from_millis(100);
/// The exit code of a run that was interrupted.
const INTERRUPTED: i32 = 130;
/// What a process that fails begins with, when it says why.
const ERROR: &str = "error: ";

/// A run that is to be trained.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands) struct Job {
    /// What it is called where it is shown.
    pub(super) label: String,
    /// Its experiment's file.
    pub(super) experiment: PathBuf,
    /// Its seed.
    pub(super) seed: u64,
    /// Its run directory.
    pub(super) dir: PathBuf,
    /// Its models.
    pub(super) models: usize,
    /// Threads for the arithmetic of each, if the experiment says so.
    pub(super) threads: Option<usize>,
    /// Threads that decode image files, if the experiment says so.
    pub(super) decoders: Option<usize>,
    /// Images of all its gradients together.
    pub(super) images: u64,
    /// The network's label.
    pub(super) network: String,
    /// The network's name.
    pub(super) model: String,
    /// About how many bytes it takes on disk.
    pub(super) disk: u64,
    /// Whether it has no curve on test, whatever its experiment says.
    pub(super) no_curve: bool,
}

impl Job {
    /// Its run directory.
    pub(in crate::commands) fn into_dir(self) -> PathBuf {
        self.dir
    }

    /// Whether there is a state that it goes on from.
    pub(super) fn has_begun(&self) -> bool {
        hwa_train::has_state(&self.dir)
    }
}

impl Job {
    fn cores(&self, threads: usize) -> usize {
        self.models.saturating_mul(self.threads.unwrap_or(threads)).max(1)
    }
}

/// What became of the jobs.
#[derive(Debug, Default)]
pub(in crate::commands) struct Ended {
    /// Those that failed.
    pub(super) failed: Vec<String>,
    /// Whether an interrupt came before all were done.
    pub(super) interrupted: bool,
}

/// Trains jobs on some cores.
pub(super) struct Queue<'a> {
    /// The cores.
    pub(super) cores: usize,
    /// Where it is shown.
    pub(super) voice: &'a Voice,
    /// Who may interrupt.
    pub(super) interrupt: &'a Interrupt,
    /// The program that trains.
    pub(super) program: &'a Path,
    /// Runs that were done before.
    pub(super) before: usize,
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
    /// Where its part of the log begins.
    logged: u64,
    bar: Option<ProgressBar>,
    began: Instant,
}

impl Queue<'_> {
    /// Trains all of them, as many at a time as the cores allow; after each that is finished,
    /// `finished` is called. Nothing is running any more when it returns.
    pub(super) fn train(&self, jobs: Vec<Job>, finished: &dyn Fn()) -> Ended {
        let (total, mut done) = (self.before + jobs.len(), self.before);
        let mut pace = Pace::new(&jobs);
        // With cores to spare all have more threads. Bits do not depend on it.
        let needed = jobs.iter().map(|job| job.cores(1)).fold(0, usize::saturating_add);
        let threads = (self.cores / needed.max(1)).max(1);
        let mut waiting = jobs;
        let mut running: Vec<Running> = Vec::new();
        let mut ended = Ended::default();
        let mut told_of_others = false;
        loop {
            for mut job in exited(&mut running) {
                done += 1;
                let left = pace.left_after(&job.job);
                if self.see_off(&mut job, &format!("{done} of {total}"), &left, &mut ended) {
                    finished();
                }
            }
            if self.interrupt.is_requested() {
                ended.interrupted |= !waiting.is_empty();
                waiting.clear();
                // What has no leash saves and stops.
                running.iter_mut().for_each(|job| job.leash = None);
            }
            // Another process may have finished it.
            waiting.retain(|job| !job.dir.join("summary.json").is_file());
            self.start_what_fits(threads, &mut waiting, &mut running, &mut ended);
            if running.is_empty() && waiting.is_empty() {
                return ended;
            }
            if let ([], [job, ..], false) = (running.as_slice(), waiting.as_slice(), told_of_others)
            {
                let dir = job.dir.display();
                self.voice.say(&format!("waiting for the process that has {dir} open"));
                told_of_others = true;
            }
            thread::sleep(PULSE);
        }
    }

    /// Only among the runs of one seed may a small one pass a larger one that waits for cores:
    /// otherwise the larger ones would come last.
    fn start_what_fits(
        &self,
        threads: usize,
        waiting: &mut Vec<Job>,
        running: &mut Vec<Running>,
        ended: &mut Ended,
    ) {
        loop {
            let used: usize = running.iter().map(|job| job.cores).sum();
            let free = self.cores.saturating_sub(used);
            let is_free = |job: &&Job| !RunDir::is_in_use(&job.dir);
            let Some(seed) = waiting.iter().find(is_free).map(|job| job.seed) else { return };
            let fits = |job: &Job| {
                job.seed == seed
                    && job.cores(threads).min(self.cores) <= free
                    && !RunDir::is_in_use(&job.dir)
            };
            let Some(index) = waiting.iter().position(fits) else { return };
            let job = waiting.remove(index);
            let label = job.label.clone();
            match self.start(job, threads) {
                Ok(started) => running.push(started),
                Err(error) => {
                    self.voice.say(&format!("{label} could not be started: {error}"));
                    ended.failed.push(label);
                }
            }
        }
    }

    fn start(&self, job: Job, threads: usize) -> io::Result<Running> {
        let log = job.dir.with_extension("log");
        let file = File::options().create(true).append(true).open(&log)?;
        let logged = file.metadata()?.len();
        // It never takes more than there are.
        let cores = job.cores(threads).min(self.cores);
        let mut command = Command::new(self.program);
        command.arg("train").arg(&job.experiment).args(["--plain", "--leash"]);
        command.arg("--set").arg(format!("seed={}", job.seed));
        command.arg("--set").arg(format!("threads={}", job.threads.unwrap_or(threads)));
        if job.no_curve {
            command.args(["--set", "evaluate.test_curve=false"]);
        }
        if job.decoders.is_none() {
            command.arg("--set").arg(format!("data.decoders={cores}"));
        }
        let resumed = job.dir.join("experiment.toml").is_file();
        command.arg(if resumed { "--resume" } else { "--out" }).arg(&job.dir);
        command.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(Stdio::piped());
        apart(&mut command);
        let mut process = command.spawn()?;
        let bar = self.voice.bars().map(|bars| spinner(bars, &job.label));
        if bar.is_none() {
            let verb = if resumed { "resumed" } else { "began" };
            self.voice.say(&format!("{verb}: {}", job.label));
        }
        let leash = process.stdin.take();
        let reader = process.stderr.take().and_then(|stderr| copy(stderr, file, bar.clone()));
        let began = Instant::now();
        Ok(Running { job, cores, process, leash, reader, log, logged, bar, began })
    }

    /// Says how a job ended, and whether it is finished.
    fn see_off(&self, job: &mut Running, count: &str, left: &str, ended: &mut Ended) -> bool {
        if let Some(reader) = job.reader.take() {
            let _ = reader.join();
        }
        if let Some(bar) = job.bar.take() {
            bar.finish_and_clear();
        }
        let label = &job.job.label;
        let took = duration(job.began.elapsed());
        let status = job.process.wait();
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        match code {
            Some(0) => self.voice.say(&format!("{count}: {label} in {took}{left}")),
            Some(INTERRUPTED) if job.leash.is_none() => {
                self.voice.say(&format!("saved: {label}"));
                ended.interrupted = true;
            }
            // It would again, so it is no failure to be tried once more, but an outcome.
            Some(1) if let Some(run) = divergence(&job.job.dir, job.job.seed) => {
                self.voice.say(&format!("{count}: {label} diverged: {}", run.reason));
                return true;
            }
            _ => {
                let status = status.map_or_else(|error| error.to_string(), |s| s.to_string());
                let reason = last_error(&job.log, job.logged).unwrap_or(status);
                let log = job.log.display();
                self.voice.say(&format!("{count}: {label} failed: {reason} (all of it: {log})"));
                ended.failed.push(label.clone());
            }
        }
        code == Some(0)
    }
}

/// How fast the work goes, by the images of runs that ended.
struct Pace {
    began: Instant,
    done: u64,
    all: u64,
}

impl Pace {
    fn new(jobs: &[Job]) -> Self {
        let all = jobs.iter().map(|job| job.images).fold(0, u64::saturating_add);
        Self { began: Instant::now(), done: 0, all }
    }

    /// What is left after another run, as a guess: networks differ.
    fn left_after(&mut self, job: &Job) -> String {
        self.done = self.done.saturating_add(job.images);
        let left = self.all.saturating_sub(self.done);
        if left == 0 {
            return String::new();
        }
        let per_image = self.began.elapsed().as_secs_f64() / self.done.max(1) as f64;
        let left = Duration::try_from_secs_f64(per_image * left as f64).unwrap_or(Duration::MAX);
        format!("; about {} left", duration(left))
    }
}

/// `12 s`, `5 min`, `3 h 20 min`.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Takes out those whose process is gone.
fn exited(running: &mut Vec<Running>) -> Vec<Running> {
    let is_gone = |job: &mut Running| !matches!(job.process.try_wait(), Ok(None));
    running.extract_if(.., is_gone).collect()
}

/// A Ctrl-C at the terminal is for the parent alone: the leash tells its children.
#[cfg(unix)]
fn apart(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn apart(_command: &mut Command) {}

/// Copies what a process tells to its log, and shows the last line of it.
fn copy(stderr: ChildStderr, mut log: File, bar: Option<ProgressBar>) -> Option<JoinHandle<()>> {
    let copy = move || {
        let (mut stderr, mut line) = (BufReader::new(stderr), Vec::new());
        while matches!(stderr.read_until(b'\n', &mut line), Ok(count) if count > 0) {
            // A log that cannot be written is no reason to stop training.
            let _ = log.write_all(&line);
            let told = String::from_utf8_lossy(line.trim_ascii_end());
            let is_progress = ["cycle ", "after ", "training is over"];
            if let Some(bar) = &bar
                && is_progress.iter().any(|begin| told.starts_with(begin))
            {
                bar.set_message(told.into_owned());
            }
            line.clear();
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

/// What a log says, from here on, of why it ends, and what can be done about it.
fn last_error(log: &Path, from: u64) -> Option<String> {
    let mut file = File::open(log).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    reason(&String::from_utf8_lossy(&bytes))
}

/// The last line that begins as an error does, and what stands below it.
fn reason(told: &str) -> Option<String> {
    let lines: Vec<&str> = told.lines().filter(|line| !line.is_empty()).collect();
    let begin = lines.iter().rposition(|line| line.starts_with(ERROR))?;
    let all = lines[begin..].join("; ");
    all.strip_prefix(ERROR).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_last_line_that_begins_as_an_error() {
        let told = "cycle 1\nerror: the disk\n\nerror: data/error: x.png: cut\n\nresume it\n";
        assert_eq!(reason(told).unwrap(), "data/error: x.png: cut; resume it");
        assert_eq!(reason("cycle 1\nthe last error: none\n"), None);
    }
}
