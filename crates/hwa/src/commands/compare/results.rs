//! The figures of runs that are finished.

use std::path::Path;

use hwa_report::{RunFigures, WindowFigures};
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
    let summary: Summary = serde_json::from_str(&read_to_string(&path)?).map_err(json)?;
    let Some((chosen, validation)) = summary.test.chosen.zip(summary.validation.chosen) else {
        let reason = format!("{}: nothing was chosen", path.display());
        return Err(Failure::Run(anyhow::Error::msg(reason)));
    };
    let (models, steps) = extent(&run.join("events.jsonl"))?;
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
        models,
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
        let machine = text("cpu").zip(cores).map(|(cpu, cores)| format!("{cpu}, {cores} cores"));
        for (list, value) in
            [(&mut machines, machine), (&mut commits, text("commit").map(str::to_owned))]
        {
            list.extend(value.filter(|value| !list.contains(value)));
        }
    }
    (machines, commits)
}

/// Models, and the steps that each did.
fn extent(events: &Path) -> Result<(usize, u64), Failure> {
    let (mut models, mut steps) = (0, 0);
    for line in read_to_string(events)?.lines() {
        match serde_json::from_str(line) {
            Ok(Event::Started(started)) => models = started.num_models,
            Ok(Event::CycleEnded(ended)) => steps = ended.step,
            _ => {}
        }
    }
    Ok((models, steps))
}
