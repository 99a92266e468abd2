//! Showing a run: bars on a terminal, plain lines elsewhere. Always on standard
//! error, so that standard output is free for results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use crate::output::tell;
use hwa_train::{CycleEnded, Evaluation, Event, Judged, Observer, Started, Stepped};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// How often a bar's text changes.
const REFRESH: Duration = Duration::from_millis(100);

/// Shows a run's events.
pub(crate) struct Console {
    bars: Option<MultiProgress>,
    models: Vec<ModelBar>,
    num_models: usize,
    max_steps: u64,
    num_cycles: usize,
    /// Cycles that have ended but whose line is not printed yet.
    waiting: BTreeMap<usize, CycleEnded>,
}

/// One model's bar, and its speed since the last look.
struct ModelBar {
    bar: ProgressBar,
    images: usize,
    since: Instant,
    speed: f64,
}

impl Console {
    /// A console for K models of T steps; `plain` forbids bars.
    pub(crate) fn new(num_models: usize, max_steps: u64, num_cycles: usize, plain: bool) -> Self {
        let bars = (!plain && io::stderr().is_terminal()).then(MultiProgress::new);
        Self {
            bars,
            models: Vec::new(),
            num_models,
            max_steps,
            num_cycles,
            waiting: BTreeMap::new(),
        }
    }

    fn say(&self, line: &str) {
        match &self.bars {
            // A terminal that went away is no reason to stop training.
            Some(bars) => drop(bars.println(line)),
            None => tell(line),
        }
    }

    fn start_bars(&mut self, done: &[u64]) {
        let Some(bars) = &self.bars else { return };
        let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        for model in 0..self.num_models {
            let bar = bars.add(ProgressBar::new(self.max_steps).with_style(style.clone()));
            bar.set_prefix(format!("model {model}"));
            bar.set_position(done.get(model).copied().unwrap_or(0));
            self.models.push(ModelBar { bar, images: 0, since: Instant::now(), speed: 0.0 });
        }
    }

    fn started(&mut self, started: &Started) {
        let [train, validation, test] = started.images;
        let windows: Vec<String> = started
            .windows
            .iter()
            .map(|w| match w.length {
                Some(length) => length.to_string(),
                None => format!("all from cycle {}", w.first_cycle),
            })
            .collect();
        let windows = if windows.is_empty() { "none".to_owned() } else { windows.join(", ") };
        self.say(&format!(
            "{} model{} of {} parameters, {} steps each ({} an epoch), averaged every {}: {} cycles",
            started.num_models,
            if started.num_models == 1 { "" } else { "s" },
            started.parameters,
            started.max_steps,
            started.steps_per_epoch,
            started.sync_period,
            started.num_cycles,
        ));
        self.say(&format!("window length (cycles): {windows}"));
        self.say(&format!("images: {train} train, {validation} validation, {test} test"));
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let disk = &started.disk;
        self.say(&format!(
            "disk: about {} (outer weights {}, inner weights {}, states {}, best weights {})",
            megabytes(disk.total()),
            megabytes(disk.outer),
            megabytes(disk.inner),
            megabytes(disk.states),
            megabytes(disk.best),
        ));
        self.start_bars(&[]);
    }

    fn stepped(&mut self, step: &Stepped) {
        let Some(model) = self.models.get_mut(step.replica) else { return };
        model.images += step.images;
        let passed = model.since.elapsed();
        model.bar.set_position(step.step);
        if passed >= REFRESH {
            model.speed = model.images as f64 / passed.as_secs_f64();
            model.images = 0;
            model.since = Instant::now();
        }
        let (loss, rate, speed) = (step.loss, step.rate, model.speed);
        model.bar.set_message(format!("loss {loss:.4}  rate {rate:.4}  {speed:.0} images/s"));
    }

    fn cycle_ended(&mut self, ended: &CycleEnded) {
        self.waiting.insert(ended.cycle, ended.clone());
        // The judge is at most one cycle behind: what is older was not judged.
        self.say_cycles_before(ended.cycle.saturating_sub(1));
    }

    fn say_cycles_before(&mut self, cycle: usize) {
        let later = self.waiting.split_off(&cycle);
        for ended in std::mem::replace(&mut self.waiting, later).values() {
            self.say(&self.cycle_line(ended));
        }
    }

    fn cycle_line(&self, ended: &CycleEnded) -> String {
        let losses = ended.models.iter().map(|m| m.loss).sum::<f64>() / ended.models.len() as f64;
        let width = self.num_cycles.to_string().len();
        format!(
            "cycle {:>width$}/{}  rate {:.4}  loss {losses:.4}",
            ended.cycle, self.num_cycles, ended.rate
        )
    }

    fn judged(&mut self, judged: &Judged) {
        self.say_cycles_before(judged.cycle);
        let mut line = match self.waiting.remove(&judged.cycle) {
            Some(ended) => self.cycle_line(&ended),
            None => format!("cycle {}/{}", judged.cycle, self.num_cycles),
        };
        if !judged.inner.is_empty() {
            let mean = judged.inner.iter().map(|e| e.top1).sum::<f64>() / judged.inner.len() as f64;
            let _ = write!(line, "  inner {mean:.2} %");
        }
        let _ = write!(line, "  outer {:.2} %", judged.outer.top1);
        for window in &judged.hwa {
            let label = match window.length {
                Some(length) if judged.hwa.len() > 1 => format!("  HWA[{length}]"),
                _ => "  HWA".to_owned(),
            };
            let _ = write!(line, "{label} {:.2} %", window.evaluation.top1);
        }
        if judged.chosen.is_some_and(|c| c.cycle == judged.cycle) {
            line.push_str("  best so far");
        }
        self.say(&line);
    }

    fn close(&mut self) {
        self.say_cycles_before(usize::MAX);
        for model in &self.models {
            model.bar.finish_and_clear();
        }
        self.models.clear();
    }
}

impl Observer for Console {
    fn observe(&mut self, event: &Event) {
        match event {
            Event::Started(started) => self.started(started),
            Event::Resumed { steps } => {
                let steps_text: Vec<String> = steps.iter().map(u64::to_string).collect();
                self.say(&format!("resumed after step {}", steps_text.join(", ")));
                self.start_bars(steps);
            }
            Event::Stepped(step) => self.stepped(step),
            Event::CycleEnded(ended) => self.cycle_ended(ended),
            Event::Judged(judged) => self.judged(judged),
            Event::StoppedEarly { cycle } => {
                self.say(&format!("stopped after cycle {cycle}: no better score any more"));
            }
            Event::Interrupted { .. } | Event::Finished(_) => self.close(),
            Event::Unknown => {}
        }
    }
}

/// An accuracy as a table's cell.
pub(crate) fn percent(evaluation: Option<&Evaluation>) -> String {
    evaluation.map_or("–".to_owned(), |e| format!("{:.2} %", e.top1))
}
