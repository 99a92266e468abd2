//! Showing a run: what it will do, its progress, and a line for each cycle.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use hwa_train::{
    Candidates, CycleEnded, Evaluation, Event, Every, JUDGE_SHARE, Judged, Observer, Settings,
    Started, Stepped,
};
use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::Voice;

/// How often a bar's text changes.
const REFRESH: Duration = Duration::from_millis(100);

/// How often a run without bars says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// Shows a run's events.
pub(crate) struct Console {
    voice: Voice,
    models: Vec<ModelBar>,
    pulse: Pulse,
    num_models: usize,
    num_windows: usize,
    num_cycles: usize,
    every: Every,
    /// Whether the result is one of the models, not an average of them.
    of_models: bool,
    /// What one model is judged by.
    offers: &'static str,
    /// What the run said of itself when it began, if it is resumed.
    recorded: Option<Started>,
    /// Cycles that have ended but whose line is not printed yet.
    waiting: BTreeMap<usize, CycleEnded>,
    /// The progress of the curve on test, once it is measured.
    curve: Option<Pulse>,
}

/// One model's bar, and its speed since the last look.
struct ModelBar {
    bar: ProgressBar,
    images: usize,
    since: Instant,
    speed: f64,
}

impl Console {
    /// A console for a run, and for what it recorded when it began.
    pub(crate) fn new(
        voice: Voice,
        settings: &Settings,
        offers: &'static str,
        recorded: Option<Started>,
    ) -> Self {
        let plan = &settings.plan;
        let num_models = plan.num_models.get();
        Self {
            voice,
            models: Vec::new(),
            pulse: Pulse::new(vec![0; num_models], plan.max_steps.get()),
            num_models,
            num_windows: plan.windows.len(),
            num_cycles: plan.num_cycles(),
            every: settings.evaluate.every,
            of_models: settings.candidates == Candidates::Models,
            offers,
            recorded,
            waiting: BTreeMap::new(),
            curve: None,
        }
    }

    fn say(&self, line: &str) {
        self.voice.say(line);
    }

    fn begin(&mut self, done: &[u64]) {
        self.pulse = Pulse::new(done.to_vec(), self.pulse.max_steps);
        for (model, steps) in done.iter().enumerate() {
            self.add_bar(format!("model {model}"), *steps, self.pulse.max_steps);
        }
    }

    fn add_bar(&mut self, name: String, done: u64, of: u64) {
        let Some(bars) = self.voice.bars() else { return };
        let template = "{prefix} {wide_bar} {pos}/{len} {msg} {elapsed}, {eta} left";
        let style = ProgressStyle::with_template(template);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(of).with_style(style);
        let bar = bars.add(bar.with_position(done).with_prefix(name));
        // The steps of earlier sessions took no time of this one.
        bar.reset_eta();
        self.models.push(ModelBar { bar, images: 0, since: Instant::now(), speed: 0.0 });
    }

    fn introduce(&self, started: &Started) {
        for line in header(started, self.of_models) {
            self.say(&line);
        }
        for line in self.legend() {
            self.say(&line);
        }
    }

    fn legend(&self) -> [String; 2] {
        let judged = match self.every {
            Every::Auto => {
                format!("judged as often as {:.0} % of the work allows", 100.0 * JUDGE_SHARE)
            }
            Every::Cycles(NonZeroUsize::MIN) => "judged every cycle".to_owned(),
            Every::Cycles(n) => format!("judged every {} cycle", ordinal(n.get())),
        };
        let level = match (self.num_windows, self.num_models) {
            _ if self.of_models => "model's ",
            (0, 1) => "",
            (0, _) => "outer ",
            (_, 1) => "average ",
            _ => "HWA ",
        };
        [
            format!("%: accuracy on validation, {judged}"),
            format!("best: highest {level}accuracy, then lowest loss"),
        ]
    }

    /// What offline averages are called. With one model nothing is hierarchical.
    fn averaged(&self) -> &'static str {
        if self.num_models > 1 { "HWA" } else { "average" }
    }

    fn resumed(&mut self, steps: &[u64]) {
        if let Some(started) = self.recorded.take() {
            self.introduce(&started);
        }
        self.say(&format!("resumed: {}", by_model(steps)));
        self.begin(steps);
    }

    fn stepped(&mut self, step: &Stepped) {
        if self.pulse.beat(step) && self.voice.bars().is_none() {
            self.say(&self.pulse.line());
            self.pulse.rest();
        }
        let Some(model) = self.models.get_mut(step.replica) else { return };
        model.images += step.images;
        let passed = model.since.elapsed();
        model.bar.set_position(step.step);
        if passed >= REFRESH {
            model.speed = model.images as f64 / passed.as_secs_f64();
            model.images = 0;
            model.since = Instant::now();
            model.bar.set_message(bar_message(step, model.speed, self.voice.width()));
        }
    }

    /// A cycle was measured on test, after the choice.
    fn measured(&mut self, done: u64, total: u64) {
        if self.curve.is_none() {
            self.add_bar("on test".to_owned(), 0, total);
        }
        let curve = self.curve.get_or_insert_with(|| Pulse::new(vec![done], total));
        curve.steps = vec![done];
        if curve.last.elapsed() >= HEARTBEAT && self.voice.bars().is_none() {
            let left = curve.left(curve.began.elapsed());
            curve.rest();
            self.say(&format!("after {done} of {total} cycles on test, {left}"));
        }
        if let Some(ModelBar { bar, .. }) = self.models.last() {
            bar.set_position(done);
        }
    }

    fn cycle_ended(&mut self, ended: &CycleEnded) {
        // Models of other ranks are only heard of here.
        for steps in &mut self.pulse.steps {
            *steps = ended.step.max(*steps);
        }
        for model in &self.models {
            model.bar.set_position(ended.step.max(model.bar.position()));
        }
        self.waiting.insert(ended.cycle, ended.clone());
        // The judge is at most one cycle behind: what is older was not judged.
        self.say_cycles_before(ended.cycle.saturating_sub(1));
    }

    fn say_cycles_before(&mut self, cycle: usize) {
        let later = self.waiting.split_off(&cycle);
        for ended in std::mem::replace(&mut self.waiting, later).values() {
            self.say(&self.cycle_line(ended.cycle, Some(ended)));
        }
    }

    fn cycle_line(&self, cycle: usize, ended: Option<&CycleEnded>) -> String {
        let width = self.num_cycles.to_string().len();
        let mut line = format!("cycle {cycle:>width$}/{}", self.num_cycles);
        if let Some(ended) = ended {
            let sum = ended.models.iter().map(|m| m.loss).sum::<f64>();
            let loss = sum / ended.models.len() as f64;
            let _ = write!(line, "  rate {:.4}  loss {loss:.4}", ended.rate);
        }
        line
    }

    fn judged(&mut self, judged: &Judged) {
        self.say_cycles_before(judged.cycle);
        let ended = self.waiting.remove(&judged.cycle);
        let mut line = self.cycle_line(judged.cycle, ended.as_ref());
        let several = self.num_models > 1;
        if !judged.inner.is_empty() {
            let mean = judged.inner.iter().map(|e| e.top1).sum::<f64>() / judged.inner.len() as f64;
            let label = if several { "inner" } else { "with running statistics" };
            let _ = write!(line, "  {label} {mean:.2} %");
            if self.of_models {
                let best = judged.inner.iter().map(|e| e.top1).fold(0.0, f64::max);
                let _ = write!(line, "  best of them {best:.2} %");
            }
        }
        if let Some(outer) = judged.outer {
            let label = if several { "outer" } else { self.offers };
            let _ = write!(line, "  {label} {:.2} %", outer.top1);
        }
        let averaged = self.averaged();
        for window in &judged.hwa {
            let label = match window.length {
                Some(length) if judged.hwa.len() > 1 => format!("{averaged}[{length}]"),
                _ => averaged.to_owned(),
            };
            let _ = write!(line, "  {label} {:.2} %", window.evaluation.top1);
        }
        if judged.chosen.is_some_and(|c| c.cycle == judged.cycle) {
            line.push_str("  best so far");
        }
        self.say(&line);
        if judged.cycle == self.num_cycles {
            self.announce_final_pass();
        }
    }

    fn announce_final_pass(&mut self) {
        self.close();
        self.say("training is over; the final pass measures on validation and test");
    }

    fn close(&mut self) {
        self.say_cycles_before(usize::MAX);
        for model in self.models.drain(..) {
            model.bar.finish_and_clear();
        }
    }
}

impl Observer for Console {
    fn observe(&mut self, event: &Event) {
        match event {
            Event::Started(started) => {
                self.introduce(started);
                self.begin(&vec![0; self.num_models]);
            }
            Event::Resumed { steps } => self.resumed(steps),
            Event::Stepped(step) => self.stepped(step),
            Event::CycleEnded(ended) => self.cycle_ended(ended),
            Event::Judged(judged) => self.judged(judged),
            Event::ReplicaLost { replica, reason, .. } => {
                self.say(&format!("going on without model {replica}: {reason}"));
            }
            Event::StoppedEarly { cycle } => {
                self.say_cycles_before(usize::MAX);
                self.say(&format!("stopped after cycle {cycle}: no better score any more"));
                self.announce_final_pass();
            }
            Event::Measured { done, total } => self.measured(*done as u64, *total as u64),
            Event::Interrupted { .. } | Event::Finished(_) => self.close(),
            // The error itself is told.
            Event::Diverged { .. } | Event::Unknown => {}
        }
    }
}

/// Bars that are left when training fails would be drawn over the message.
impl Drop for Console {
    fn drop(&mut self) {
        self.close();
    }
}

/// What a run will do, in lines that fit a terminal of 80 columns.
fn header(started: &Started, of_models: bool) -> Vec<String> {
    let windows: Vec<String> = started
        .windows
        .iter()
        .map(|w| match w.length {
            Some(length) if length.get() >= started.num_cycles => {
                format!("{length} (all there are)")
            }
            Some(length) => length.to_string(),
            None => format!("all from cycle {}", w.first_cycle),
        })
        .collect();
    let windows = if windows.is_empty() { "none".to_owned() } else { windows.join(", ") };
    let [train, validation, test] = started.images;
    let models = counted(started.num_models as u64, "model");
    let verb = match started.num_models {
        _ if of_models => "grafted",
        1 => "sampled",
        _ => "averaged",
    };
    let often = match started.num_cycles {
        1 => "once, at the end".to_owned(),
        cycles => {
            let period = counted(started.sync_period, "step");
            format!("every {period}: {}", counted(cycles as u64, "cycle"))
        }
    };
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let disk = &started.disk;
    vec![
        format!(
            "{models} of {} parameters, {} each ({} an epoch)",
            started.parameters,
            counted(started.max_steps, "step"),
            started.steps_per_epoch,
        ),
        format!("{verb} {often}; window length (cycles): {windows}"),
        format!("images: {train} train, {validation} validation, {test} test"),
        format!(
            "disk: about {} MB (outer weights {}, inner {}, states {}, best {})",
            megabytes(disk.total()),
            megabytes(disk.outer),
            megabytes(disk.inner),
            megabytes(disk.states),
            megabytes(disk.best),
        ),
    ]
}

/// What a bar says beside its steps; on a narrow terminal less of it.
fn bar_message(step: &Stepped, speed: f64, width: usize) -> String {
    let speed = format!("{speed:.0} img/s");
    let (loss, rate) = (format!("loss {:.4} ", step.loss), format!("rate {:.4} ", step.rate));
    match width {
        0..50 => String::new(),
        50..62 => speed,
        62..74 => loss + &speed,
        _ => loss + &rate + &speed,
    }
}

/// The progress of a run without bars.
struct Pulse {
    began: Instant,
    last: Instant,
    /// Steps of each model when this session began, and now.
    before: Vec<u64>,
    steps: Vec<u64>,
    max_steps: u64,
    /// Images of all models since the last beat.
    images: usize,
}

impl Pulse {
    fn new(done: Vec<u64>, max_steps: u64) -> Self {
        let now = Instant::now();
        Self { began: now, last: now, before: done.clone(), steps: done, max_steps, images: 0 }
    }

    /// Counts a step, and says whether it is time for a line.
    fn beat(&mut self, step: &Stepped) -> bool {
        if let Some(steps) = self.steps.get_mut(step.replica) {
            *steps = step.step;
        }
        self.images += step.images;
        self.last.elapsed() >= HEARTBEAT
    }

    fn rest(&mut self) {
        self.last = Instant::now();
        self.images = 0;
    }

    fn line(&self) -> String {
        let speed = self.images as f64 / self.last.elapsed().as_secs_f64().max(1e-9);
        format!(
            "{} of {}, {speed:.0} img/s, {}",
            by_model(&self.steps),
            self.max_steps,
            self.left(self.began.elapsed())
        )
    }

    /// As long as the slowest model will take at its pace so far.
    fn left(&self, elapsed: Duration) -> String {
        let models = self.steps.iter().zip(&self.before);
        let left = models.map(|(now, before)| {
            let pace = elapsed.as_secs_f64() / now.saturating_sub(*before).max(1) as f64;
            pace * self.max_steps.saturating_sub(*now) as f64
        });
        let seconds = left.fold(0.0, f64::max).round() as u64;
        let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
        match (hours, minutes) {
            (0, 0) => format!("{seconds} s left"),
            (0, _) => format!("{minutes} min {} s left", seconds % 60),
            _ => format!("{hours} h {minutes} min left"),
        }
    }
}

/// The steps of each model; once, if they are the same.
pub(crate) fn by_model(steps: &[u64]) -> String {
    match steps {
        [first, rest @ ..] if rest.iter().all(|step| step == first) => {
            format!("after step {first}")
        }
        _ => {
            let models = steps.iter().enumerate();
            let models = models.map(|(model, step)| format!("model {model} after step {step}"));
            models.collect::<Vec<_>>().join(", ")
        }
    }
}

/// A number with what it counts.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (1, tens) if tens != 11 => "st",
        (2, tens) if tens != 12 => "nd",
        (3, tens) if tens != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// An accuracy as a table's cell.
pub(crate) fn percent(evaluation: Option<&Evaluation>) -> String {
    evaluation.map_or("–".to_owned(), |e| format!("{:.2} %", e.top1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hwa_core::WindowSpec;

    #[test]
    fn the_header_fits_80_columns_even_for_the_papers_setting() {
        let mut started = Started {
            num_models: 2,
            max_steps: 78_200,
            sync_period: 391,
            steps_per_epoch: 391,
            num_cycles: 200,
            parameters: 11_220_132,
            images: [45_000, 5_000, 10_000],
            windows: [1, 5, 10, 20].map(|n| WindowSpec::sliding(n.try_into().unwrap())).to_vec(),
            ..Started::default()
        };
        (started.disk.outer, started.disk.states) = (8_976_105_600, 269_283_168);
        for line in header(&started, false) {
            assert!(line.chars().count() < 80, "{line}");
        }
    }

    #[test]
    fn one_of_a_thing_is_not_several() {
        let started = Started { num_models: 1, num_cycles: 1, ..Started::default() };
        let text = header(&started, false).join("\n");
        assert!(text.starts_with("1 model of ") && text.contains("once, at the end;"), "{text}");
        assert_eq!([1, 2, 3, 4, 11, 21].map(ordinal), ["1st", "2nd", "3rd", "4th", "11th", "21st"]);
    }

    #[test]
    fn steps_are_named_by_model_where_they_differ() {
        assert_eq!(by_model(&[156, 161]), "model 0 after step 156, model 1 after step 161");
        assert_eq!(by_model(&[6, 6]), "after step 6");
    }

    #[test]
    fn the_slowest_model_tells_the_time_left() {
        let mut pulse = Pulse::new(vec![100, 100], 1000);
        pulse.beat(&Stepped { replica: 0, step: 300, ..Stepped::default() });
        pulse.beat(&Stepped { replica: 1, step: 200, ..Stepped::default() });
        // Model 1 did 100 steps in 10 s and has 800 to do: 80 s.
        assert_eq!(pulse.left(Duration::from_secs(10)), "1 min 20 s left");
        assert_eq!(pulse.left(Duration::from_secs(1000)), "2 h 13 min left");
    }

    #[test]
    fn a_bar_leaves_room_for_itself_on_a_narrow_terminal() {
        let step = Stepped { loss: 12.3456, rate: 0.1, ..Stepped::default() };
        // Steps, prefix and times take about 40 columns at most.
        for (width, room) in [(40, 0), (52, 12), (65, 25), (75, 37)] {
            let message = bar_message(&step, 12_345.6, width);
            assert!(message.len() <= room, "{width}: {message}");
        }
    }
}
