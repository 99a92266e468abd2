//! One definition of a method: numbers for the same loop, and a technique.
//!
//! | method | K | window | rate | technique |
//! |---|---|---|---|---|
//! | `sgd` | 1 | none | any | averaging |
//! | `online` | K | none | any | averaging |
//! | `swa` | 1 | everything since stage II | two stages | averaging |
//! | `lawa` | 1 | I | any | averaging |
//! | `hwa` | K | I | any | averaging |
//! | `sam` | 1 | none | any | averaging, with sharpness-aware steps |
//! | `fg` | K | none | any | grafting |
//! | `repr` | 1 | none | any | RePr |
//! | `lookahead` | 1 | none | any | Lookahead |
//! | `ema` | 1 | none | any | EMA |
//! | `sgdr` | 1 | none | restarts | averaging |
//!
//! What a method has no use for (`num_models` for `sgd`, say) is ignored, so that
//! one experiment can be run under every method.

mod used;

use std::num::{NonZeroU64, NonZeroUsize};

use hwa_core::{Decay, Granularity, Plan, Schedule, ScheduleError, WindowLength, WindowSpec};
use hwa_data::steps_per_epoch;

use crate::descent::Descent;
use crate::experiment::{Budget, EveryText, Experiment, Method, Per, ScheduleKind, WindowText};
use crate::parse::ExperimentError;
use crate::settings::{Candidates, Checkpoints, Evaluate, Every, Init, MomentumAtSync, Settings};
use crate::span::Span;
use crate::technique::{
    Averaging, BuildTechnique, Ema, Grafting, Lookahead, RePr, Stage, Technique,
};

/// Epochs of a budget that is not given.
const DEFAULT_EPOCHS: u64 = 200;
/// What SAM's own paper looks at, unless it is given.
const DEFAULT_RHO: f64 = 0.05;
/// Cosines of SGDR in a budget, unless the first one's length is given.
const COSINES: u32 = 4;
/// More steps of the rate than this are a mistake.
const MOST_MILESTONES: u64 = 100_000;

impl Experiment {
    /// Everything that the loop needs, for a training set of so many images.
    pub fn settings(&self, train_examples: usize) -> Result<Settings, ExperimentError> {
        self.check_numbers()?;
        let scale = self.scale(train_examples)?;
        let sync_period = scale.at_least_one("hwa.sync_period", self.hwa.sync_period)?;
        let mut plan = Plan {
            num_models: self.num_models(),
            max_steps: scale.budget,
            sync_period,
            schedule: self.rates(&scale, sync_period)?,
            windows: Vec::new(),
        };
        plan.windows = self.windows(&plan, &scale)?;
        let settings = Settings {
            seed: self.seed,
            plan,
            batch: self.optimizer.batch,
            init: self.init(),
            descent: self.descent(),
            candidates: match self.method {
                Method::Fg => Candidates::Models,
                _ => Candidates::Averages,
            },
            patience: self.stop.patience.map(NonZeroUsize::get),
            evaluate: Evaluate {
                every: match self.evaluate.every {
                    EveryText::Auto(_) => Every::Auto,
                    EveryText::Cycles(n) => Every::Cycles(n),
                },
                tolerance: self.evaluate.tolerance,
                augment: self.evaluate.augment,
                inner: self.evaluate.inner,
                train_images: self.evaluate.train_images,
                test_curve: self.evaluate.test_curve,
            },
            checkpoints: self.checkpoints(&scale)?,
            on_lost_replica: self.hwa.on_lost_replica.unwrap_or_default(),
        };
        self.check_against(&settings)?;
        Ok(settings)
    }

    /// What the method does in steps and at the end of cycles, for a training set of so many
    /// images.
    pub fn technique(
        &self,
        train_examples: usize,
    ) -> Result<Box<BuildTechnique<'static>>, ExperimentError> {
        let stages = match self.method {
            Method::Repr => self.stages(&self.scale(train_examples)?)?,
            _ => Vec::new(),
        };
        let (this, models) = (self.clone(), self.num_models().get());
        Ok(Box::new(move |number| -> Box<dyn Technique> {
            match this.method {
                Method::Ema => Box::new(Ema::new(this.ema.decay)),
                Method::Lookahead => {
                    Box::new(Lookahead::new(this.lookahead.period, this.lookahead.alpha))
                }
                Method::Fg => Box::new(Grafting::new(this.fg.a, this.fg.c, number, models)),
                Method::Repr => Box::new(RePr::new(this.repr.share, stages.clone())),
                Method::Sgd
                | Method::Online
                | Method::Swa
                | Method::Lawa
                | Method::Hwa
                | Method::Sam
                | Method::Sgdr => Box::new(Averaging { momentum: this.momentum_at_sync() }),
            }
        }))
    }

    /// What becomes of momentum. One model alone is not averaged, so nothing becomes of its own.
    fn momentum_at_sync(&self) -> MomentumAtSync {
        match self.num_models().get() {
            1 => MomentumAtSync::Keep,
            _ => self.hwa.momentum_at_sync,
        }
    }

    /// When filters are dropped and come back.
    fn stages(&self, scale: &Scale) -> Result<Vec<Stage>, ExperimentError> {
        let full = scale.at_least_one("repr.full", self.repr.full)?.get();
        let pruned = scale.at_least_one("repr.pruned", self.repr.pruned)?.get();
        let (each, budget) = (full.saturating_add(pruned), scale.budget.get());
        if each.saturating_mul(self.repr.times) > budget {
            let times = self.repr.times;
            let reason = format!(
                "times `repr.full` and `repr.pruned` must fit into the budget of {budget} steps, \
                 found {times} times {full} and {pruned}"
            );
            return Err(value("repr.times", reason));
        }
        let stage = |i| Stage { drop: i * each + full, revive: (i + 1) * each };
        Ok((0..self.repr.times).map(stage).collect())
    }

    fn descent(&self) -> Descent {
        let by_default = (self.method == Method::Sam).then_some(DEFAULT_RHO);
        match self.optimizer.rho.or(by_default) {
            Some(rho) => Descent::SharpnessAware { rho },
            None => Descent::Plain,
        }
    }

    /// The experiment with every default that depends on others written out, so
    /// that a later version's defaults cannot change it.
    pub fn resolved(&self) -> Self {
        let mut resolved = self.clone();
        let schedule = &mut resolved.schedule;
        schedule.kind = Some(self.kind());
        resolved.hwa.init = Some(self.init());
        if let Descent::SharpnessAware { rho } = self.descent() {
            resolved.optimizer.rho = Some(rho);
        }
        let schedule = &mut resolved.schedule;
        if schedule.steps.is_none() && schedule.epochs.is_none() {
            schedule.epochs = NonZeroU64::new(DEFAULT_EPOCHS);
        }
        resolved
    }

    fn kind(&self) -> ScheduleKind {
        let by_default = match self.method {
            Method::Swa => ScheduleKind::TwoStage,
            Method::Sgdr => ScheduleKind::Restarts,
            _ => ScheduleKind::Cosine,
        };
        self.schedule.kind.unwrap_or(by_default)
    }

    /// Networks that graft have learned different things; averages are of models that have not.
    fn init(&self) -> Init {
        let by_default = match self.method {
            Method::Fg => Init::Independent,
            _ => Init::Shared,
        };
        self.hwa.init.unwrap_or(by_default)
    }

    /// The models that the method trains.
    pub fn num_models(&self) -> NonZeroUsize {
        if self.method.has_several_models() { self.hwa.num_models } else { NonZeroUsize::MIN }
    }

    /// Gradients that are computed while each model does a step: one for each model, two with
    /// sharpness-aware steps.
    pub fn gradients_per_step(&self) -> u64 {
        let each = match self.descent() {
            Descent::Plain => 1,
            Descent::SharpnessAware { .. } => 2,
        };
        self.num_models().get() as u64 * each
    }

    fn scale(&self, train_examples: usize) -> Result<Scale, ExperimentError> {
        let per_epoch = steps_per_epoch(train_examples, self.optimizer.batch);
        let table = &self.schedule;
        if table.epochs.is_some() && table.steps.is_some() {
            return Err(value("schedule.steps", "and `schedule.epochs` exclude each other"));
        }
        let steps = match (table.epochs, table.steps) {
            (_, Some(steps)) => steps.get(),
            (epochs, None) => {
                let epochs = epochs.map_or(DEFAULT_EPOCHS, NonZeroU64::get);
                epochs.saturating_mul(per_epoch)
            }
        };
        let each = match self.budget {
            Budget::PerModel => steps,
            Budget::Total => steps / self.gradients_per_step(),
        };
        let budget = NonZeroU64::new(each).ok_or_else(|| {
            let models = self.num_models();
            let reason = match self.gradients_per_step() / models.get() as u64 {
                1 => format!("must give each of {models} models a step, found {steps}"),
                each => format!(
                    "must give each of {models} models a step of {each} gradients, found {steps}"
                ),
            };
            value("schedule.steps", reason)
        })?;
        Ok(Scale { per_epoch: per_epoch.max(1), budget })
    }

    fn rates(&self, scale: &Scale, sync_period: NonZeroU64) -> Result<Schedule, ExperimentError> {
        self.check_kind()?;
        let table = &self.schedule;
        let period = |span: Option<Span>| span.map_or(sync_period.get(), |s| scale.steps(s));
        let decay = match self.kind() {
            ScheduleKind::Constant => Decay::Constant,
            ScheduleKind::Cosine => Decay::Cosine { floor: table.floor },
            ScheduleKind::Linear => Decay::Linear { floor: table.floor },
            ScheduleKind::Step => {
                Decay::Step { factor: table.factor, milestones: self.milestones(scale)? }
            }
            ScheduleKind::Cyclical => {
                Decay::Cyclical { floor: table.floor, period: period(table.period) }
            }
            ScheduleKind::Restarts => {
                let factor = table.lengthening.get();
                let first = table.period.map(|span| scale.steps(span));
                let by_default = first_cosine(scale.budget.get(), factor);
                // A cosine ends with a cycle, whose weights are judged.
                let by_default = by_default.next_multiple_of(sync_period.get());
                let period = first.unwrap_or(by_default);
                if period >= scale.budget.get() {
                    let budget = scale.budget;
                    let reason = format!(
                        "must be below the budget of {budget} steps, found {period}; by default it \
                         is a whole number of cycles (`hwa.sync_period`)"
                    );
                    return Err(value("schedule.period", reason));
                }
                let end = first.is_none().then(|| scale.budget.get());
                Decay::Restarts { floor: table.floor, period, factor, end }
            }
            ScheduleKind::TwoStage => Decay::TwoStage {
                // At a cycle's beginning: a saw-tooth then ends where its sample is taken.
                start: scale.steps(self.swa.start).next_multiple_of(sync_period.get()),
                rate: self.swa.rate,
                cycle: self.swa.floor.map(|floor| (floor, period(self.swa.period))),
            },
        };
        let granularity = match table.per {
            Per::Step => Granularity::Step,
            Per::Epoch => Granularity::Epoch { steps: scale.per_epoch },
        };
        let wrong = |e: ScheduleError| value(key_of(&e), format!("makes no schedule: {e}"));
        let schedule = Schedule::new(self.optimizer.rate, decay, scale.budget.get());
        let schedule = schedule.and_then(|s| s.with_granularity(granularity)).map_err(wrong)?;
        let warmup = table.warmup.map_or(0, |span| scale.steps(span));
        if warmup >= scale.budget.get() {
            let budget = scale.budget;
            let reason =
                format!("must be shorter than the budget of {budget} steps, found {warmup}");
            return Err(value("schedule.warmup", reason));
        }
        Ok(schedule.with_warmup(warmup))
    }

    /// SWA samples at a rate that keeps moving; one that decays to nothing would
    /// average copies of the same weights. SGDR is its schedule.
    fn check_kind(&self) -> Result<(), ExperimentError> {
        use ScheduleKind::{Constant, Cyclical, Restarts, TwoStage};
        let kind = self.kind();
        let expected = match self.method {
            Method::Swa if !matches!(kind, Constant | Cyclical | TwoStage) => {
                "two-stage (the default), constant or cyclical"
            }
            Method::Sgdr if kind != Restarts => "restarts (the default)",
            _ => return Ok(()),
        };
        let found = match kind {
            ScheduleKind::Cosine => "cosine",
            ScheduleKind::Linear => "linear",
            ScheduleKind::Step => "step",
            Constant => "constant",
            Cyclical => "cyclical",
            Restarts => "restarts",
            TwoStage => "two-stage",
        };
        let method = self.method.name();
        let reason = format!("is {found}, with `method = {method:?}` expected {expected}");
        Err(value("schedule.kind", reason))
    }

    fn milestones(&self, scale: &Scale) -> Result<Vec<u64>, ExperimentError> {
        if let Some(spans) = &self.schedule.milestones {
            return Ok(spans.iter().map(|span| scale.steps(*span)).collect());
        }
        // No default: what suits 200 epochs would leave a short run's rate constant.
        let every = self.schedule.every.ok_or_else(|| {
            let reason = "is step, which needs `schedule.every` or `schedule.milestones`";
            value("schedule.kind", reason)
        })?;
        let every = scale.at_least_one("schedule.every", every)?.get();
        let count = (scale.budget.get() - 1) / every;
        if count > MOST_MILESTONES {
            let reason = format!("must not fall more than {MOST_MILESTONES} times, found {count}");
            return Err(value("schedule.every", reason));
        }
        Ok((1..=count).map(|i| i * every).collect())
    }

    fn windows(&self, plan: &Plan, scale: &Scale) -> Result<Vec<WindowSpec>, ExperimentError> {
        if self.method == Method::Swa {
            // The first sample is the end of the first cycle that lies in stage II.
            let start = scale.steps(self.swa.start);
            let first_cycle = start.div_ceil(plan.sync_period.get()) as usize + 1;
            if first_cycle > plan.num_cycles() {
                let (budget, cycle) = (plan.max_steps, plan.sync_period);
                let reason = format!(
                    "must leave a cycle for stage II: it begins at step {start} of {budget}, and a \
                     cycle of {cycle} steps that begins then or later has no place; train longer, \
                     or set an earlier `swa.start` or a shorter `hwa.sync_period`"
                );
                return Err(value("swa.start", reason));
            }
            return Ok(vec![WindowSpec::everything_from(first_cycle)]);
        }
        if !self.method.has_window() {
            return Ok(Vec::new());
        }
        let lengths = self.hwa.window_length.as_slice();
        if lengths.is_empty() {
            return Err(value("hwa.window_length", "must name at least one length"));
        }
        let stride = self.hwa.window_stride;
        let cycles = plan.num_cycles();
        if stride.get() > cycles {
            let reason = format!("must be at most the number of cycles ({cycles}), found {stride}");
            return Err(value("hwa.window_stride", reason));
        }
        let spec = |text| {
            let length = window_length(text)?.resolve(cycles);
            if length < stride {
                // Such a window would be empty most of the time.
                let reason =
                    format!("must be at most the window length ({length}), found {stride}");
                return Err(value("hwa.window_stride", reason));
            }
            Ok(WindowSpec { stride, ..WindowSpec::sliding(length) })
        };
        let mut windows: Vec<WindowSpec> = Vec::new();
        for window in lengths.iter().map(spec) {
            let window: WindowSpec = window?;
            // 20 cycles and 10 % of 200 are the same window.
            if !windows.contains(&window) {
                windows.push(window);
            }
        }
        Ok(windows)
    }

    fn checkpoints(&self, scale: &Scale) -> Result<Checkpoints, ExperimentError> {
        let table = &self.checkpoints;
        if table.inner_every.is_some() && table.inner_cycles.is_empty() {
            return Err(value("checkpoints.inner_every", "needs `checkpoints.inner_cycles`"));
        }
        let every = |span| scale.at_least_one("checkpoints.inner_every", span);
        Ok(Checkpoints {
            outer_every: table.outer_every,
            inner_cycles: table.inner_cycles.clone(),
            inner_every: table.inner_every.map(every).transpose()?,
            state_every: scale.at_least_one("checkpoints.state_every", table.state_every)?,
        })
    }

    fn check_numbers(&self) -> Result<(), ExperimentError> {
        // It names a folder under runs/, and nothing outside of it.
        if self.name.trim().is_empty() || self.name.contains(['/', '\\']) || self.name == ".." {
            let reason = format!("must be the name of a folder, found {:?}", self.name);
            return Err(value("name", reason));
        }
        let within = |key, found: f64, low: f64, high: f64| {
            if found >= low && found <= high {
                return Ok(());
            }
            Err(value(key, format!("must be from {low} to {high}, found {found}")))
        };
        let momentum = self.optimizer.momentum;
        if !(0.0..1.0).contains(&momentum) {
            let reason = format!("must be at least 0 and below 1, found {momentum}");
            return Err(value("optimizer.momentum", reason));
        }
        within("optimizer.weight_decay", self.optimizer.weight_decay, 0.0, f64::MAX)?;
        if let Some(rho) = self.optimizer.rho {
            within("optimizer.rho", rho, 0.0, f64::MAX)?;
        }
        let (alpha, decay) = (self.lookahead.alpha, self.ema.decay);
        if !(alpha > 0.0 && alpha <= 1.0) {
            let reason = format!("must be above 0 and at most 1, found {alpha}");
            return Err(value("lookahead.alpha", reason));
        }
        if !(0.0..1.0).contains(&decay) {
            let reason = format!("must be at least 0 and below 1, found {decay}");
            return Err(value("ema.decay", reason));
        }
        within("fg.a", self.fg.a, 0.0, 1.0)?;
        within("fg.c", self.fg.c, 0.0, f64::MAX)?;
        within("repr.share", self.repr.share, 0.0, 0.5)?;
        self.check_method()?;
        within("evaluate.tolerance", self.evaluate.tolerance, 0.0, 1.0)
    }

    /// What single methods cannot do.
    fn check_method(&self) -> Result<(), ExperimentError> {
        match self.method {
            Method::Fg if self.hwa.num_models.get() < 2 => {
                Err(value("hwa.num_models", "must be at least 2 with `method = \"fg\"`, found 1"))
            }
            Method::Repr if self.repr.times == 0 => {
                Err(value("repr.times", "must be at least 1, found 0"))
            }
            // The point nearby would have all filters.
            Method::Repr if self.optimizer.rho.is_some() => {
                Err(value("optimizer.rho", "cannot be set with `method = \"repr\"`"))
            }
            _ => Ok(()),
        }
    }

    fn check_against(&self, settings: &Settings) -> Result<(), ExperimentError> {
        let cycles = settings.plan.num_cycles();
        if let Some(wrong) = self.checkpoints.inner_cycles.iter().find(|c| **c < 1 || **c > cycles)
        {
            let reason = format!("must lie between 1 and {cycles}, found {wrong}");
            return Err(value("checkpoints.inner_cycles", reason));
        }
        if self.evaluate.train_images.is_some() && settings.candidates == Candidates::Models {
            let reason = "needs a method whose result is an average, found `fg`";
            return Err(value("evaluate.train_images", reason));
        }
        if self.evaluate.test_curve && settings.candidates == Candidates::Models {
            let reason = "needs a method whose result is an average, found `fg`";
            return Err(value("evaluate.test_curve", reason));
        }
        if self.evaluate.test_curve && self.checkpoints.outer_every.get() > 1 {
            return Err(value("evaluate.test_curve", "needs `checkpoints.outer_every = 1`"));
        }
        Ok(())
    }
}

/// The length of the first of four cosines, each so many times as long as the one before, that
/// fill a budget.
fn first_cosine(budget: u64, factor: u64) -> u64 {
    let parts = (0..COSINES).fold(0u64, |sum, i| sum.saturating_add(factor.saturating_pow(i)));
    budget.div_ceil(parts.max(1)).max(1)
}

/// How long an epoch and the budget are, in steps of one model.
struct Scale {
    per_epoch: u64,
    budget: NonZeroU64,
}

impl Scale {
    fn steps(&self, span: Span) -> u64 {
        span.steps(self.per_epoch, self.budget.get())
    }

    fn at_least_one(&self, key: &'static str, span: Span) -> Result<NonZeroU64, ExperimentError> {
        NonZeroU64::new(self.steps(span))
            .ok_or_else(|| value(key, format!("must be at least one step, found {span}")))
    }
}

fn window_length(text: &WindowText) -> Result<WindowLength, ExperimentError> {
    let share = match text {
        WindowText::Cycles(cycles) => return Ok(WindowLength::Cycles(*cycles)),
        WindowText::Share(share) => share,
    };
    let number = share.trim().strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
    match number {
        Some(percent) if percent > 0.0 && percent <= 100.0 => {
            Ok(WindowLength::Share(percent / 100.0))
        }
        _ => {
            let reason = format!("must be cycles (20) or a share (\"10%\"), found {share:?}");
            Err(value("hwa.window_length", reason))
        }
    }
}

/// The experiment's key for what a schedule finds wrong.
fn key_of(error: &ScheduleError) -> &'static str {
    let key = match error {
        ScheduleError::NotPositive { key, .. }
        | ScheduleError::Negative { key, .. }
        | ScheduleError::Zero { key } => *key,
        ScheduleError::MilestonesUnsorted => "milestones",
    };
    match key {
        "rate" => "optimizer.rate",
        "floor" => "schedule.floor",
        "factor" => "schedule.factor",
        "period" => "schedule.period",
        "lengthening" => "schedule.lengthening",
        "milestones" => "schedule.milestones",
        own => own, // it has its table: `swa.rate`, ...
    }
}

fn value(key: &'static str, reason: impl Into<String>) -> ExperimentError {
    ExperimentError::Value { key, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// 640 images in batches of 128: five steps an epoch, 100 epochs.
    fn settings(sets: &[&str]) -> Result<Settings, ExperimentError> {
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        let text = "[schedule]\nepochs = 100\n";
        Experiment::parse(text, Path::new("e.toml"), &sets)?.settings(640)
    }

    fn error(sets: &[&str]) -> String {
        settings(sets).unwrap_err().to_string()
    }

    fn windows(settings: &Settings) -> Vec<(Option<usize>, usize)> {
        let row = |w: &WindowSpec| (w.length.map(NonZeroUsize::get), w.first_cycle);
        settings.plan.windows.iter().map(row).collect()
    }

    #[test]
    fn five_methods_are_numbers_for_one_loop() {
        for (method, models, expected) in [
            ("sgd", 1, vec![]),
            ("online", 2, vec![]),
            ("lawa", 1, vec![(Some(20), 1)]),
            ("hwa", 2, vec![(Some(20), 1)]),
            // stage II from step 400 of 500: the first sample is the end of cycle 81
            ("swa", 1, vec![(None, 81)]),
        ] {
            let settings = settings(&[&format!("method={method}")]).unwrap();
            assert_eq!(settings.plan.num_models.get(), models, "{method}");
            assert_eq!(windows(&settings), expected, "{method}");
            assert_eq!(settings.plan.max_steps.get(), 500);
            assert_eq!(settings.plan.sync_period.get(), 5);
        }
    }

    #[test]
    fn parallel_mini_batches_and_one_shot_averaging_are_periods() {
        let every_step = settings(&["method=online", "hwa.sync_period=1"]).unwrap();
        assert_eq!(every_step.plan.num_cycles(), 500);
        let once = settings(&["method=online", "hwa.sync_period=100%"]).unwrap();
        assert_eq!(once.plan.num_cycles(), 1);
    }

    #[test]
    fn a_total_budget_is_shared_out() {
        let total = settings(&["budget=total", "hwa.num_models=4"]).unwrap();
        assert_eq!(total.plan.max_steps.get(), 125);
        // The rate falls over the shorter budget: at its middle it is halved.
        let middle = total.plan.schedule.rate(62) + total.plan.schedule.rate(63);
        assert!((middle - 0.1).abs() < 1e-12);
        let sam = settings(&["budget=total", "method=sam"]).unwrap();
        assert_eq!(sam.plan.max_steps.get(), 250, "a step takes two gradients");
        let reason = error(&["budget=total", "hwa.num_models=501"]);
        assert!(reason.contains("must give each of 501 models a step, found 500"), "{reason}");
    }

    #[test]
    fn windows_come_as_cycles_shares_and_lists() {
        let several = settings(&["hwa.window_length=[5, \"10%\", 20]"]).unwrap();
        assert_eq!(windows(&several), [(Some(5), 1), (Some(10), 1), (Some(20), 1)]);
        let twice = settings(&["hwa.window_length=[10, \"10%\"]"]).unwrap();
        assert_eq!(windows(&twice), [(Some(10), 1)]);
    }

    #[test]
    fn the_baseline_falls_every_sixty_epochs() {
        let sets = ["method=sgd", "schedule.kind=step", "schedule.every=60 epochs"];
        let baseline = settings(&sets).unwrap();
        let rate = |step| (baseline.plan.schedule.rate(step) * 1e9).round() / 1e9;
        assert_eq!((rate(299), rate(300), rate(499)), (0.1, 0.01, 0.01));
    }

    #[test]
    fn a_rate_that_falls_in_steps_says_when() {
        let message = error(&["schedule.kind=step"]);
        assert!(message.contains("`schedule.every` or `schedule.milestones`"), "{message}");
        settings(&["schedule.kind=step", "schedule.milestones=[\"50%\"]"]).unwrap();
    }

    #[test]
    fn swa_has_a_rate_that_does_not_decay() {
        for kind in ["cosine", "linear", "step"] {
            let message = error(&["method=swa", &format!("schedule.kind={kind}")]);
            let expected = format!("`schedule.kind` is {kind}, with `method = \"swa\"` expected");
            assert!(message.starts_with(&expected), "{message}");
        }
        for kind in ["two-stage", "constant", "cyclical"] {
            settings(&["method=swa", &format!("schedule.kind={kind}")]).unwrap();
        }
        let by_default = settings(&["method=swa"]).unwrap();
        assert_eq!(by_default, settings(&["method=swa", "schedule.kind=two-stage"]).unwrap());
    }

    #[test]
    fn a_kind_that_is_left_out_changes_no_other_method() {
        for method in ["sgd", "online", "lawa", "hwa"] {
            let method = format!("method={method}");
            let written = settings(&[&method, "schedule.kind=cosine"]).unwrap();
            assert_eq!(settings(&[&method]).unwrap(), written);
        }
    }

    #[test]
    fn impossible_values_name_their_key() {
        for (set, expected) in [
            ("name=../x", "`name` must be the name of a folder, found \"../x\""),
            ("schedule.warmup=500", "must be shorter than the budget of 500 steps, found 500"),
            (
                "optimizer.rate=0.0",
                "`optimizer.rate` makes no schedule: `rate` must be above 0, found 0",
            ),
            ("optimizer.momentum=1", "must be at least 0 and below 1, found 1"),
            ("schedule.floor=-1", "`schedule.floor` makes no schedule: `floor` must be at least"),
            ("hwa.sync_period=0", "`hwa.sync_period` must be at least one step, found 0 steps"),
            ("hwa.window_length=\"200%\"", "found \"200%\""),
            ("hwa.window_length=[]", "`hwa.window_length` must name at least one length"),
            ("hwa.window_stride=101", "must be at most the number of cycles (100), found 101"),
            ("hwa.window_stride=21", "must be at most the window length (20), found 21"),
            ("checkpoints.inner_cycles=[101]", "must lie between 1 and 100, found 101"),
            ("checkpoints.inner_every=3", "needs `checkpoints.inner_cycles`"),
            ("evaluate.tolerance=-1", "`evaluate.tolerance` must be from 0 to 1, found -1"),
        ] {
            let message = error(&[set]);
            assert!(message.contains(expected), "{set}: {message}");
        }
        let both = error(&["schedule.steps=9", "schedule.epochs=3"]);
        assert!(both.contains("`schedule.steps` and `schedule.epochs` exclude each other"));
        let late = error(&["method=swa", "swa.start=100%"]);
        assert!(late.contains("must leave a cycle for stage II"), "{late}");
        let curve = error(&["evaluate.test_curve=true", "checkpoints.outer_every=2"]);
        assert!(curve.contains("needs `checkpoints.outer_every = 1`"), "{curve}");
    }

    #[test]
    fn methods_have_the_defaults_of_their_papers() {
        // 500 steps of five an epoch
        let of = |method: &str| settings(&[&format!("method={method}")]).unwrap();
        assert_eq!(of("sam").descent, Descent::SharpnessAware { rho: 0.05 });
        assert_eq!(of("sgd").descent, Descent::Plain);
        let inside = settings(&["optimizer.rho=0.1"]).unwrap();
        assert_eq!(inside.descent, Descent::SharpnessAware { rho: 0.1 });
        assert_eq!((of("fg").candidates, of("fg").init), (Candidates::Models, Init::Independent));
        assert_eq!((of("hwa").candidates, of("hwa").init), (Candidates::Averages, Init::Shared));
        // Fifteen parts of 500 are 34 steps: seven epochs, in which a cosine ends with a cycle.
        let sgdr = of("sgdr").plan.schedule;
        let rate = |step| (sgdr.rate(step) * 1e3).round();
        assert_eq!((rate(0), rate(34), rate(35), rate(104), rate(105)), (100., 0., 100., 0., 100.));
        // The fourth has 255 of its 280 steps, and ends with them.
        assert_eq!((rate(245), rate(499)), (100., 0.));
        let sets = ["method=repr".to_owned()];
        let text = "[schedule]\nepochs = 200\n";
        let repr = Experiment::parse(text, Path::new("e.toml"), &sets).unwrap();
        let stages = repr.stages(&repr.scale(640).unwrap()).unwrap();
        let steps: Vec<(u64, u64)> = stages.iter().map(|s| (s.drop, s.revive)).collect();
        assert_eq!(steps, [(100, 150), (250, 300), (400, 450)], "20 and 10 of 200 epochs");
    }

    #[test]
    fn the_momentum_of_one_model_is_kept() {
        let of = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            let text = "[hwa]\nmomentum_at_sync = \"reset\"\n";
            Experiment::parse(text, Path::new("e.toml"), &sets).unwrap().momentum_at_sync()
        };
        assert_eq!(of(&["method=hwa"]), MomentumAtSync::Reset);
        assert_eq!(of(&["method=hwa", "hwa.num_models=1"]), MomentumAtSync::Keep);
        for method in ["sgd", "swa", "lawa", "sam", "sgdr"] {
            assert_eq!(of(&[&format!("method={method}")]), MomentumAtSync::Keep, "{method}");
        }
    }

    #[test]
    fn what_a_method_cannot_do_is_an_error() {
        for (sets, expected) in [
            (["method=fg", "hwa.num_models=1"], "`hwa.num_models` must be at least 2"),
            (["method=repr", "repr.times=0"], "`repr.times` must be at least 1"),
            (["method=repr", "optimizer.rho=0.05"], "`optimizer.rho` cannot be set"),
            (["method=repr", "repr.share=0.6"], "`repr.share` must be from 0 to 0.5"),
            (["method=ema", "ema.decay=1"], "`ema.decay` must be at least 0 and below 1"),
            (["method=lookahead", "lookahead.alpha=0"], "`lookahead.alpha` must be above 0"),
            (["method=sgdr", "schedule.kind=cosine"], "expected restarts"),
            (["method=sgdr", "schedule.period=100%"], "`schedule.period` must be below"),
            (["method=sgdr", "hwa.sync_period=100%"], "`schedule.period` must be below"),
        ] {
            let message = error(&sets);
            assert!(message.contains(expected), "{sets:?}: {message}");
        }
        let sets: Vec<String> = vec!["method=repr".into(), "repr.times=7".into()];
        let repr = Experiment::parse("", Path::new("e.toml"), &sets).unwrap();
        let Err(error) = repr.technique(640) else { panic!("it does not fit") };
        assert!(error.to_string().contains("must fit into the budget"), "{error}");
    }
}
