//! `hwa average`: one set of weights from a series of checkpoints, whoever trained them.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use hwa_core::WindowSpec;
use hwa_store::{Averaging, NonFinite, Scheme, Series, SeriesError, StoreError, Watch, Window};
use serde_json::{Value, json};

use super::soup::{self, Brew};
use crate::arguments::Average;
use crate::counting::interrupt;
use crate::failure::Failure;
use crate::output::{give, tell};
use crate::series::{
    self, LeftOut, Progress, ensure_apart, ensure_no_member, left_out, limits, run_of,
    tell_of_neighbours,
};

/// Endings that promise something else than what is written.
const OTHER_ENDINGS: [&str; 4] = ["pt", "pth", "bin", "ckpt"];

/// Runs the command.
pub(crate) fn run(arguments: &Average) -> Result<(), Failure> {
    ensure_writable(arguments)?;
    soup::ensure_asked_for(arguments)?;
    let began = Instant::now();
    let mut series = series::open(&arguments.series, arguments.order(), arguments.key.as_deref())?;
    ensure_no_member(&series, std::slice::from_ref(&arguments.out))?;
    ensure_weights(arguments, &series)?;
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
        scheme: scheme(arguments, &left_out),
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
    tell_of_slow_decay(&averaging.scheme, &windows);
    progress.expect(averaging.num_bytes(&windows));
    let is_new = !arguments.out.exists();
    let outputs = outputs(arguments, &series, windows)?;
    let written = match brew.as_ref().is_some_and(|brew| brew.is_written) {
        true => Ok(()),
        false => averaging.write_all(&outputs),
    };
    progress.end();
    if written.is_err() && is_new && arguments.all_windows {
        // A folder for nothing.
        let _ = fs::remove_dir(&arguments.out);
    }
    written?;
    match arguments.all_windows {
        true => remove_others(&arguments.out, &outputs)?,
        false => tell_of_neighbours(&series, &arguments.out),
    }
    let seconds = began.elapsed().as_secs_f64();
    let done = Done { arguments, series: &series, outputs: &outputs, brew, left_out, seconds };
    if arguments.json {
        give(done.json())
    } else {
        done.tell()
    }
    Ok(())
}

/// Says so before anything is read, rather than after.
fn ensure_writable(arguments: &Average) -> Result<(), Failure> {
    let Average { out, force, all_windows, .. } = arguments;
    let shown = out.display();
    if *all_windows {
        let used = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
        match (out.is_file(), used && !force) {
            (true, _) => {
                return Err(Failure::usage(format!(
                    "{shown} is a file, and --all-windows needs a folder"
                )));
            }
            (_, true) => {
                return Err(Failure::usage(format!("{shown} is not empty; --force overwrites")));
            }
            _ => {}
        }
        return ensure_apart(&arguments.series, &out.join(window_name(0)));
    }
    if out.is_dir() {
        return Err(Failure::usage(format!("{shown} is a folder; --out names a file")));
    }
    if out.exists() && !out.is_file() {
        return Err(Failure::usage(format!("{shown} is no regular file; --out names one")));
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
    ensure_apart(&arguments.series, out)?;
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    match parent.filter(|parent| !parent.is_dir()) {
        Some(parent) => {
            let parent = parent.display();
            Err(Failure::usage(format!("{shown}: there is no folder {parent}; make it first")))
        }
        None => Ok(()),
    }
}

/// The file of the window at a number.
fn window_name(at: usize) -> String {
    format!("window-{at:06}.safetensors")
}

/// Weights are those of all checkpoints, before some are left out, or those of a window.
fn ensure_weights(arguments: &Average, series: &Series) -> Result<(), Failure> {
    let (expected, found) = (series.len(), arguments.weights.len());
    match found == 0 || found == expected || is_window(arguments) {
        true => Ok(()),
        false => Err(SeriesError::WeightCount { expected, found }.into()),
    }
}

fn is_window(arguments: &Average) -> bool {
    arguments.window.is_some() || arguments.stride.is_some() || arguments.at.is_some()
}

fn scheme(arguments: &Average, left_out: &[LeftOut]) -> Scheme {
    // A checkpoint that is left out takes its weight with it.
    let is_there = |(place, _): &(usize, &f64)| {
        is_window(arguments) || left_out.iter().all(|out| out.place != *place)
    };
    let weights = arguments.weights.iter().enumerate().filter(is_there);
    match arguments.ema {
        Some(decay) => Scheme::Moving { decay },
        None if arguments.weights.is_empty() => Scheme::Mean,
        None => Scheme::Weighted(weights.map(|(_, weight)| *weight).collect()),
    }
}

/// A moving average of few checkpoints is hardly more than the oldest one.
fn tell_of_slow_decay(scheme: &Scheme, windows: &[Window]) {
    let longest = windows.iter().map(|window| window.members().len()).max().unwrap_or(0);
    let Scheme::Moving { decay } = *scheme else { return };
    let share = decay.powf(longest.saturating_sub(1) as f64);
    if longest > 1 && share > 0.5 {
        tell(format_args!(
            "with a decay of {decay}, {:.0} % of the average of {longest} checkpoints is the \
             oldest one",
            100.0 * share
        ));
    }
}

fn windows(arguments: &Average, series: &Series) -> Result<Vec<Window>, Failure> {
    let stride = arguments.stride.unwrap_or(NonZeroUsize::MIN);
    let spec = WindowSpec { length: arguments.window, stride, first_cycle: 1 };
    Ok(match (arguments.all_windows, is_window(arguments)) {
        (true, _) => series.windows(spec),
        (false, true) => vec![series.window(spec, arguments.at)?],
        (false, false) => vec![series.everything()],
    })
}

/// The file of each window; their folder is made.
fn outputs(
    arguments: &Average,
    series: &Series,
    windows: Vec<Window>,
) -> Result<Vec<(Window, PathBuf)>, Failure> {
    let out = &arguments.out;
    if !arguments.all_windows {
        return Ok(windows.into_iter().map(|window| (window, out.clone())).collect());
    }
    if windows.is_empty() {
        return Err(Failure::usage("no window has a member: --stride is longer than the series"));
    }
    let file = |window: &Window| out.join(window_name(window.at()));
    ensure_no_member(series, &windows.iter().map(file).collect::<Vec<_>>())?;
    fs::create_dir_all(out).map_err(StoreError::io("create", out))?;
    Ok(windows.into_iter().map(|window| (window.clone(), file(&window))).collect())
}

/// Removes the windows of an earlier series: with those of this one they would be taken for one.
fn remove_others(folder: &Path, outputs: &[(Window, PathBuf)]) -> Result<(), Failure> {
    for entry in fs::read_dir(folder).map_err(StoreError::io("read", folder))? {
        let path = entry.map_err(StoreError::io("read", folder))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let number = name.as_deref().and_then(|name| {
            name.strip_prefix("window-")?.strip_suffix(".safetensors")?.parse().ok()
        });
        let is_window = number.is_some_and(|at| name == Some(window_name(at)));
        if is_window && outputs.iter().all(|(_, out)| *out != path) {
            fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
        }
    }
    Ok(())
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

    /// Whose batch-norm statistics are in the file.
    fn statistics(&self) -> &'static str {
        match &self.brew {
            Some(brew) if brew.is_written => brew.statistics,
            _ => {
                let most = self.outputs.iter().max_by_key(|(window, _)| window.members().len());
                let averaging = Averaging::new(self.series);
                most.map_or("none", |(window, _)| averaging.statistics(window))
            }
        }
    }

    fn json(&self) -> Value {
        let window = |(window, out): &(Window, PathBuf)| json!({ "at": window.at(), "members": self.members(window), "out": out.to_string_lossy() });
        let windows: Vec<Value> = self.outputs.iter().map(window).collect();
        let left_out = self.left_out.iter();
        let left_out: Vec<Value> =
            left_out.map(|out| json!({ "file": out.file, "tensor": out.tensor })).collect();
        let mut done = json!({
            "out": self.arguments.out.to_string_lossy(),
            "checkpoints": self.series.len(),
            "statistics": self.statistics(),
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
        let how = match scheme(self.arguments, &[]) {
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
        if self.statistics() == "averaged" {
            tell(
                "batch-norm statistics are averages too, which fit no weights: re-estimate them by \
                 `hwa recalibrate`, or by `update_bn` in PyTorch",
            );
        }
        if self.statistics() == "none" && run_of(&self.arguments.series).is_some() {
            tell(
                "outer weights have no batch-norm statistics: `hwa recalibrate` makes a complete \
                 model of their average",
            );
        }
    }
}
