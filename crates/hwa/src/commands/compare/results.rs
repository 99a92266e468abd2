//! The figures of runs that are finished.

use std::path::Path;

use hwa_report::RunFigures;
use hwa_store::{StoreError, read_to_string};
use hwa_train::{Event, Summary};
use serde_json::Value;

use crate::failure::Failure;

/// A run that is finished, and what it ran on.
pub(crate) struct Finished {
    /// Its figures.
    pub(crate) figures: RunFigures,
    /// The machine.
    pub(crate) machine: Option<String>,
    /// The commits of the programs that trained it.
    pub(crate) commits: Vec<String>,
}

/// Reads a run's figures; nothing, if it is not finished.
pub(crate) fn read(run: &Path, seed: u64) -> Result<Option<Finished>, Failure> {
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
    let figures = RunFigures {
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
        cpu: summary.time.usage.cpu,
        peak_memory_mb: summary.time.usage.peak_memory_mb,
    };
    let environment = read_to_string(&run.join("environment.json")).unwrap_or_default();
    let environment: Value = serde_json::from_str(&environment).unwrap_or_default();
    let text = |from: &Value, key: &str| from.get(key)?.as_str().map(str::to_owned);
    let cores = environment.get("cores").and_then(Value::as_u64);
    let machine = text(&environment, "cpu").zip(cores);
    let resumed = environment.get("resumed").and_then(Value::as_array).into_iter().flatten();
    let sessions = std::iter::once(&environment).chain(resumed);
    Ok(Some(Finished {
        figures,
        machine: machine.map(|(cpu, cores)| format!("{cpu}, {cores} cores")),
        commits: sessions.filter_map(|session| text(session, "commit")).collect(),
    }))
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
