//! The figures of runs that are finished.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hwa_report::{DivergedRun, RunFigures, WindowFigures};
use hwa_store::{RunDir, StoreError, read_to_string};
use hwa_train::{Event, Experiment, Judged, OnlineSummary, Summary, WindowSummary};
use serde_json::Value;

use crate::error::CompareError;

/// Reads a run's figures; nothing, if it is not finished. A run that is damaged has none.
pub fn figures(run: &Path, seed: u64) -> Result<Option<RunFigures>, CompareError> {
    let path = run.join("summary.json");
    if !path.is_file() {
        return Ok(None);
    }
    let json = |source| StoreError::Json { path: path.clone(), source };
    let summary: Summary = serde_json::from_str(&read_to_string(&path)?).map_err(json)?;
    let Some((chosen, validation)) = summary.test.chosen.zip(summary.validation.chosen) else {
        let reason = format!("{}: nothing was chosen", path.display());
        return Err(CompareError::Mistake(reason));
    };
    let Extent { models, lost, steps, looks } = extent(&run.join("events.jsonl"))?;
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
        candidates: Some(looks.candidates),
        models,
        lost,
        steps,
        seconds: summary.time.seconds,
        cpu: known(usage.cpu),
        peak_memory_mb: known(usage.peak_memory_mb),
        machines,
        commits,
        windows: summary.windows.iter().map(|summary| window(summary, &looks)).collect(),
        online: summary.online.as_ref().map(|summary| online(summary, &looks)),
        settings: Some(settings(run)?),
    }))
}

fn window(window: &WindowSummary, looks: &Looks) -> WindowFigures {
    WindowFigures {
        length: window.length,
        chosen_cycle: window.cycle,
        candidates: Some(looks.windows.get(&window.window).copied().unwrap_or_default()),
        top1: window.test.top1,
        top5: window.test.top5,
        validation_top1: window.validation.top1,
    }
}

fn online(online: &OnlineSummary, looks: &Looks) -> WindowFigures {
    WindowFigures {
        length: None,
        chosen_cycle: online.cycle,
        candidates: Some(looks.outer),
        top1: online.test.top1,
        top5: online.test.top5,
        validation_top1: online.validation.top1,
    }
}

/// What the run trained, but for where its data was and how much of the machine it used.
fn settings(run: &Path) -> Result<String, CompareError> {
    let (text, path) = RunDir::stored_experiment(run)?;
    Ok(Experiment::parse(&text, &path, &[])?.identity()?)
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
    /// What validation looked at.
    looks: Looks,
}

/// What validation looked at.
#[derive(Default)]
struct Looks {
    /// Weights that it chose from.
    candidates: usize,
    /// Averages of the models.
    outer: usize,
    /// Means of each of the plan's windows.
    windows: BTreeMap<usize, usize>,
}

impl Looks {
    fn add(&mut self, judged: &Judged, has_windows: bool) {
        self.outer += usize::from(judged.outer.is_some());
        for window in &judged.hwa {
            *self.windows.entry(window.window).or_default() += 1;
        }
        self.candidates += match judged.outer {
            // Windows that hold the same cycles have the same mean: they all end with this one.
            _ if has_windows => {
                judged.hwa.iter().map(|window| window.members).collect::<BTreeSet<_>>().len()
            }
            Some(_) => 1,
            None => judged.inner.len(),
        };
    }
}

fn extent(events: &Path) -> Result<Extent, CompareError> {
    let mut extent = Extent::default();
    let mut has_windows = false;
    let mut is_whole = false;
    for line in read_to_string(events)?.lines() {
        match serde_json::from_str(line) {
            Ok(Event::Started(started)) => {
                extent.models = started.num_models;
                has_windows = !started.windows.is_empty();
            }
            Ok(Event::CycleEnded(ended)) => extent.steps = ended.step,
            Ok(Event::Judged(judged)) => extent.looks.add(&judged, has_windows),
            Ok(Event::ReplicaLost { .. }) => extent.lost += 1,
            Ok(Event::Finished(_)) => is_whole = extent.models > 0,
            _ => {}
        }
    }
    match is_whole {
        true => Ok(extent),
        false => Err(CompareError::Mistake(format!("{}: it is not whole", events.display()))),
    }
}

/// How a run ended that is not finished, if it has diverged.
pub fn divergence(run: &Path, seed: u64) -> Option<DivergedRun> {
    let events = read_to_string(&run.join("events.jsonl")).ok()?;
    match serde_json::from_str(events.lines().next_back()?).ok()? {
        Event::Diverged { step, reason } => Some(DivergedRun { seed, step, reason }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hwa_train::{Evaluation, WindowEvaluation};

    use super::*;

    /// A look at so many models, perhaps at their average, and at windows of so many members.
    fn look(models: usize, outer: bool, windows: &[usize]) -> Judged {
        let window = |(window, members): (usize, &usize)| WindowEvaluation {
            window,
            members: *members,
            ..WindowEvaluation::default()
        };
        Judged {
            inner: vec![Evaluation::default(); models],
            outer: outer.then(Evaluation::default),
            hwa: windows.iter().enumerate().map(window).collect(),
            ..Judged::default()
        }
    }

    #[test]
    fn candidates_are_what_the_method_chooses_from() {
        let looks = |all: &[Judged], has_windows| {
            let mut looks = Looks::default();
            all.iter().for_each(|judged| looks.add(judged, has_windows));
            (looks.candidates, looks.outer)
        };
        // Averages, also where the models were measured beside them.
        assert_eq!(looks(&[look(0, true, &[]), look(2, true, &[])], false), (2, 2));
        // Models alone, as in grafting.
        assert_eq!(looks(&[look(2, false, &[]), look(2, false, &[])], false), (4, 0));
        // Nothing before stage II has begun.
        assert_eq!(looks(&[look(0, true, &[]), look(0, true, &[1])], true), (1, 2));
        // Cycles 4, 8 and 12 with windows of 5, 10 and 20: 1, 2 and 3 different means.
        let windows = [&[4, 4, 4], &[5, 8, 8], &[5, 10, 12]].map(|w| look(0, true, w));
        assert_eq!(looks(&windows, true), (6, 3));
    }
}
