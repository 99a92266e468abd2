//! The figures of runs that are finished.

use std::path::Path;

use hwa_report::{DivergedRun, RunFigures, WindowFigures};
use hwa_store::{StoreError, read_to_string};
use hwa_train::{Event, Experiment, OnlineSummary, Summary, WindowSummary};
use serde_json::Value;

use crate::commands::train::identity;
use crate::failure::Failure;
use crate::opened::stored_experiment;

/// Reads a run's figures; nothing, if it is not finished.
pub(super) fn read(run: &Path, seed: u64) -> Result<Option<RunFigures>, Failure> {
    let path = run.join("summary.json");
    if !path.is_file() {
        return Ok(None);
    }
    let json = |source| StoreError::Json { path: path.clone(), source };
    let summary = serde_json::from_str(&read_to_string(&path)?).map_err(json);
    let summary: Summary =
        summary.map_err(|error| Failure::usage(format!("{error}; remove that run to train it")))?;
    let Some((chosen, validation)) = summary.test.chosen.zip(summary.validation.chosen) else {
        let reason = format!("{}: nothing was chosen", path.display());
        return Err(Failure::Run(anyhow::Error::msg(reason)));
    };
    let Extent { models, lost, steps, candidates, .. } = extent(&run.join("events.jsonl"))?;
    let (machines, commits) = origin(&run.join("environment.json"));
    let usage = summary.time.usage;
    let known = |value: f64| (value > 0.0).then_some(value);
    Ok(Some(RunFigures {
        seed,
        top1: chosen.top1,
        top5: chosen.top5,
        validation_top1: validation.top1,
        inner_top1: summary.test.inner_top1(),
        chosen_cycle: summary.chosen.map_or(0, |choice| choice.cycle),
        last_cycle: summary.last_cycle,
        candidates: Some(candidates),
        models,
        lost,
        steps,
        seconds: summary.time.seconds,
        cpu: known(usage.cpu),
        peak_memory_mb: known(usage.peak_memory_mb),
        machines,
        commits,
        windows: summary.windows.iter().map(window).collect(),
        online: summary.online.as_ref().map(online),
        settings: Some(settings(run)?),
    }))
}

fn window(window: &WindowSummary) -> WindowFigures {
    WindowFigures {
        length: window.length,
        chosen_cycle: window.cycle,
        top1: window.test.top1,
        top5: window.test.top5,
        validation_top1: window.validation.top1,
    }
}

fn online(online: &OnlineSummary) -> WindowFigures {
    WindowFigures {
        length: None,
        chosen_cycle: online.cycle,
        top1: online.test.top1,
        top5: online.test.top5,
        validation_top1: online.validation.top1,
    }
}

/// What the run trained, but for where its data was and how much of the machine it used.
fn settings(run: &Path) -> Result<String, Failure> {
    let (text, path) = stored_experiment(run)?;
    identity(&Experiment::parse(&text, &path, &[])?)
}

/// The machines and commits of a run's sessions, each once. They are only shown: what cannot be
/// read is no reason not to make a table.
fn origin(path: &Path) -> (Vec<String>, Vec<String>) {
    let environment = read_to_string(path).unwrap_or_default();
    let environment: Value = serde_json::from_str(&environment).unwrap_or_default();
    let resumed = environment.get("resumed").and_then(Value::as_array).into_iter().flatten();
    let (mut machines, mut commits) = (Vec::new(), Vec::new());
    for session in std::iter::once(&environment).chain(resumed) {
        let text = |key: &str| session.get(key).and_then(Value::as_str);
        let cores = session.get("cores").and_then(Value::as_u64);
        let machine = text("cpu").zip(cores).map(|(cpu, cores)| {
            // "hwa-kernels avx512, ..."
            let kernels = text("arithmetic").and_then(|text| text.split([' ', ',']).nth(1));
            let kernels = kernels.map_or_else(String::new, |kernels| format!(", {kernels}"));
            format!("{cpu}, {cores} cores{kernels}")
        });
        for (list, value) in
            [(&mut machines, machine), (&mut commits, text("commit").map(str::to_owned))]
        {
            list.extend(value.filter(|value| !list.contains(value)));
        }
    }
    (machines, commits)
}

/// How much was trained.
#[derive(Default)]
struct Extent {
    /// Models at the beginning.
    models: usize,
    /// Those that were lost.
    lost: usize,
    /// Steps of each of the others.
    steps: u64,
    /// Whether it averages over cycles.
    has_windows: bool,
    /// Weights that validation chose from.
    candidates: usize,
}

fn extent(events: &Path) -> Result<Extent, Failure> {
    let mut extent = Extent::default();
    for line in read_to_string(events)?.lines() {
        match serde_json::from_str(line) {
            Ok(Event::Started(started)) => {
                extent.models = started.num_models;
                extent.has_windows = !started.windows.is_empty();
            }
            Ok(Event::CycleEnded(ended)) => extent.steps = ended.step,
            Ok(Event::Judged(judged)) => {
                extent.candidates += match judged.outer {
                    _ if extent.has_windows => judged.hwa.len(),
                    Some(_) => 1,
                    None => judged.inner.len(),
                }
            }
            Ok(Event::ReplicaLost { .. }) => extent.lost += 1,
            _ => {}
        }
    }
    Ok(extent)
}

/// How a run ended that is not finished, if it has diverged.
pub(super) fn divergence(run: &Path, seed: u64) -> Option<DivergedRun> {
    let events = read_to_string(&run.join("events.jsonl")).ok()?;
    match serde_json::from_str(events.lines().next_back()?).ok()? {
        Event::Diverged { step, reason } => Some(DivergedRun { seed, step, reason }),
        _ => None,
    }
}
