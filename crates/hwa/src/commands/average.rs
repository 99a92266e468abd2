//! `hwa average`: one set of weights from a series of checkpoints, whoever trained them.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hwa_core::WindowSpec;
use hwa_store::{Averaging, BadMember, Limits, NonFinite, Scheme, Series, Watch, Window};
use serde_json::{Value, json};

use super::soup::{self, Brew};
use crate::arguments::Average;
use crate::counting::{Counting, interrupt};
use crate::environment;
use crate::failure::Failure;
use crate::output::{give, tell};

/// How often a line tells the progress where there is no terminal.
const A_LINE_EVERY: Duration = Duration::from_secs(15);
/// Endings that promise something else than what is written.
const OTHER_ENDINGS: [&str; 4] = ["pt", "pth", "bin", "ckpt"];

/// Runs the command.
pub(crate) fn run(arguments: &Average) -> Result<(), Failure> {
    ensure_writable(arguments)?;
    soup::ensure_asked_for(arguments)?;
    let began = Instant::now();
    let mut series = Series::open(&arguments.series, arguments.order.into())?;
    let (stop, progress) = (interrupt()?, Progress::new());
    let cancelled = || stop.load(Ordering::Relaxed);
    let limits = limits(arguments.max_memory, arguments.threads);
    let left_out = match arguments.skip_bad {
        true => left_out(&mut series, limits, &progress, &cancelled)?,
        false => Vec::new(),
    };
    let report = |done| progress.show("averaging", done);
    let averaging = Averaging {
        series: &series,
        scheme: scheme(arguments),
        value_type: arguments.dtype.map(Into::into),
        non_finite: match arguments.allow_non_finite {
            true => NonFinite::Allow,
            false => NonFinite::Refuse,
        },
        limits,
        watch: Watch { progress: &report, cancelled: &cancelled },
    };
    let brew = match arguments.soup {
        true => Some(soup::choose(arguments, &averaging, &cancelled)?),
        false => None,
    };
    let windows = match &brew {
        Some(brew) => vec![brew.window.clone()],
        None => windows(arguments, &series)?,
    };
    progress.expect(averaging.num_bytes(&windows));
    let is_new = !arguments.out.exists();
    let outputs = outputs(arguments, windows)?;
    let written = averaging.write_all(&outputs);
    progress.end();
    if written.is_err() && is_new && arguments.all_windows {
        // A folder for nothing.
        let _ = fs::remove_dir(&arguments.out);
    }
    written?;
    let seconds = began.elapsed().as_secs_f64();
    let done = Done { arguments, series: &series, outputs: &outputs, brew, left_out, seconds };
    if arguments.json {
        give(done.json())
    } else {
        done.tell()
    }
    Ok(())
}

/// What a pass may use.
pub(crate) fn limits(max_memory: usize, threads: Option<NonZeroUsize>) -> Limits {
    let cores = NonZeroUsize::new(environment::cores()).unwrap_or(NonZeroUsize::MIN);
    Limits { max_memory, threads: threads.unwrap_or(cores) }
}

/// Says so before anything is read, rather than after.
fn ensure_writable(arguments: &Average) -> Result<(), Failure> {
    let Average { out, force, all_windows, .. } = arguments;
    let shown = out.display();
    if *all_windows {
        let used = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
        return match (out.is_file(), used && !force) {
            (true, _) => {
                Err(Failure::usage(format!("{shown} is a file, and --all-windows needs a folder")))
            }
            (_, true) => Err(Failure::usage(format!("{shown} is not empty; --force overwrites"))),
            _ => Ok(()),
        };
    }
    if out.is_dir() {
        return Err(Failure::usage(format!("{shown} is a folder; --out names a file")));
    }
    if out.exists() && !force {
        return Err(Failure::usage(format!("{shown} exists; --force overwrites it")));
    }
    let ending = out.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    if ending.is_some_and(|ending| OTHER_ENDINGS.contains(&ending.as_str())) {
        let better = out.with_extension("safetensors");
        let better = better.display();
        return Err(Failure::usage(format!(
            "{shown}: what is written is a safetensors file; name it {better}"
        )));
    }
    ensure_apart(arguments)
}

/// An average among the checkpoints would be one of them the next time.
fn ensure_apart(arguments: &Average) -> Result<(), Failure> {
    let [folder] = arguments.series.as_slice() else {
        return Ok(());
    };
    let parent = arguments.out.parent().filter(|parent| !parent.as_os_str().is_empty());
    let place = |path: &Path| fs::canonicalize(path).ok();
    let same = folder.is_dir() && place(parent.unwrap_or(Path::new("."))) == place(folder);
    match same && !folder.join("experiment.toml").is_file() {
        true => Err(Failure::usage(format!(
            "{} lies in the folder of the checkpoints, and would be one of them the next time",
            arguments.out.display()
        ))),
        false => Ok(()),
    }
}

fn scheme(arguments: &Average) -> Scheme {
    match arguments.ema {
        Some(decay) => Scheme::Moving { decay },
        None if arguments.weights.is_empty() => Scheme::Mean,
        None => Scheme::Weighted(arguments.weights.clone()),
    }
}

fn windows(arguments: &Average, series: &Series) -> Result<Vec<Window>, Failure> {
    let stride = arguments.stride.unwrap_or(NonZeroUsize::MIN);
    let spec = WindowSpec { length: arguments.window, stride, first_cycle: 1 };
    let is_asked =
        arguments.window.is_some() || arguments.stride.is_some() || arguments.at.is_some();
    Ok(match (arguments.all_windows, is_asked) {
        (true, _) => series.windows(spec),
        (false, true) => vec![series.window(spec, arguments.at)?],
        (false, false) => vec![series.everything()],
    })
}

/// The file of each window; their folder is made.
fn outputs(arguments: &Average, windows: Vec<Window>) -> Result<Vec<(Window, PathBuf)>, Failure> {
    let out = &arguments.out;
    if !arguments.all_windows {
        return Ok(windows.into_iter().map(|window| (window, out.clone())).collect());
    }
    if windows.is_empty() {
        return Err(Failure::usage("no window has a member: --stride is longer than the series"));
    }
    fs::create_dir_all(out).map_err(hwa_store::StoreError::io("create", out))?;
    let file = |window: &Window| out.join(format!("window-{:06}.safetensors", window.at()));
    Ok(windows.into_iter().map(|window| (window.clone(), file(&window))).collect())
}

/// A checkpoint that was left out, and its first tensor that is to blame.
pub(super) type LeftOut = (String, String);

/// Takes bad members out of a series.
pub(super) fn left_out(
    series: &mut Series,
    limits: Limits,
    progress: &Progress,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<LeftOut>, Failure> {
    progress.expect(series.num_file_bytes());
    let report = |done| progress.show("looking for NaN", done);
    let bad = series.bad_members(limits, Watch { progress: &report, cancelled })?;
    let name = |bad: &BadMember| {
        let path = series.paths().nth(bad.member).map(|path| path.display().to_string());
        (path.unwrap_or_default(), bad.tensor.clone())
    };
    let names: Vec<LeftOut> = bad.iter().map(name).collect();
    for (file, tensor) in &names {
        tell(format_args!("left out: {file}, `{tensor}` holds NaN or infinite values"));
    }
    series.leave_out(&bad)?;
    Ok(names)
}

/// What was done.
struct Done<'a> {
    arguments: &'a Average,
    series: &'a Series,
    outputs: &'a [(Window, PathBuf)],
    /// The soup, if it is one.
    brew: Option<Brew>,
    left_out: Vec<LeftOut>,
    seconds: f64,
}

impl Done<'_> {
    fn members(&self, window: &Window) -> Vec<String> {
        let paths: Vec<&Path> = self.series.paths().collect();
        window.members().iter().map(|member| paths[*member].display().to_string()).collect()
    }

    fn json(&self) -> Value {
        let window = |(window, out): &(Window, PathBuf)| json!({ "at": window.at(), "members": self.members(window), "out": out });
        let windows: Vec<Value> = self.outputs.iter().map(window).collect();
        let left_out = self.left_out.iter();
        let left_out: Vec<Value> =
            left_out.map(|(file, tensor)| json!({ "file": file, "tensor": tensor })).collect();
        let mut done = json!({
            "out": self.arguments.out,
            "checkpoints": self.series.len(),
            "statistics": if self.series.has_statistics() { "averaged" } else { "none" },
            "left_out": left_out,
            "seconds": self.seconds,
        });
        match (self.outputs, self.arguments.all_windows) {
            ([(window, _)], false) => {
                done["members"] = self.members(window).into();
                done["at"] = window.at().into();
            }
            _ => done["windows"] = windows.into(),
        }
        if let Some(brew) = &self.brew {
            done["soup"] = brew.json();
        }
        done
    }

    fn tell(&self) {
        let how = match scheme(self.arguments) {
            Scheme::Mean if self.arguments.soup => "greedy soup",
            Scheme::Mean => "mean",
            Scheme::Weighted(_) => "weighted mean",
            Scheme::Moving { .. } => "moving average",
        };
        let out = self.arguments.out.display();
        let seconds = self.seconds;
        match self.outputs {
            [(window, _)] if !self.arguments.all_windows => {
                let members = self.members(window);
                let between = match members.as_slice() {
                    [first, .., last] => format!(", {first} to {last}"),
                    [only] => format!(", {only}"),
                    [] => String::new(),
                };
                let count = members.len();
                let plural = if count == 1 { "" } else { "s" };
                give(format_args!(
                    "{out}: {how} of {count} checkpoint{plural}{between} ({seconds:.2} s)"
                ));
            }
            outputs => {
                let (count, all) = (outputs.len(), self.series.len());
                give(format_args!(
                    "{out}: {count} windows over {all} checkpoints ({seconds:.2} s)"
                ));
            }
        }
        if let Some(brew) = &self.brew {
            brew.tell();
        }
        if self.series.has_statistics() {
            tell(
                "batch-norm statistics are averages too, which fit no weights: re-estimate them by \
                 `hwa recalibrate`, or by `update_bn` in PyTorch",
            );
        }
    }
}

/// A bar on a terminal, lines elsewhere.
pub(super) struct Progress {
    bar: Counting,
    total: Mutex<u64>,
    told: Mutex<Instant>,
    is_ended: AtomicBool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            bar: Counting::bytes(),
            total: Mutex::new(0),
            told: Mutex::new(Instant::now()),
            is_ended: AtomicBool::new(false),
        }
    }

    fn expect(&self, bytes: u64) {
        if let Ok(mut total) = self.total.lock() {
            *total = bytes;
        }
    }

    /// Called by many threads: whoever finds another one at it goes on working.
    fn show(&self, what: &str, done: u64) {
        let (Ok(total), Ok(mut told)) = (self.total.try_lock(), self.told.try_lock()) else {
            return;
        };
        if self.is_ended.load(Ordering::Relaxed) {
            return;
        }
        if self.bar.is_shown() {
            self.bar.name(what);
            self.bar.show(done, Some(*total));
        } else if told.elapsed() >= A_LINE_EVERY {
            *told = Instant::now();
            let (done, total) = (done as f64 / 1e9, *total as f64 / 1e9);
            tell(format_args!("{what}: {done:.1} of {total:.1} GB"));
        }
    }

    fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.bar.end();
    }
}
