//! The rate of every step.

use std::num::NonZeroU64;

use hwa_core::{Decay, Granularity, Schedule, ScheduleError};

use super::lengths::Lengths;
use super::value;
use crate::experiment::{Experiment, Method, Per, ScheduleKind};
use crate::parse::ExperimentError;
use crate::span::Span;

/// Cosines of SGDR in a budget, unless the first one's length is given.
const COSINES: u32 = 4;
/// More steps of the rate than this are a mistake.
const MOST_MILESTONES: u64 = 100_000;

impl Experiment {
    /// The rates of a budget, with cycles of so many steps.
    pub(super) fn rates(
        &self,
        lengths: &Lengths,
        sync_period: NonZeroU64,
    ) -> Result<Schedule, ExperimentError> {
        self.check_kind()?;
        let table = &self.schedule;
        let period = |span: Option<Span>| span.map_or(sync_period.get(), |s| lengths.steps(s));
        let decay = match self.kind() {
            ScheduleKind::Constant => Decay::Constant,
            ScheduleKind::Cosine => Decay::Cosine { floor: table.floor },
            ScheduleKind::Linear => Decay::Linear { floor: table.floor },
            ScheduleKind::Step => {
                Decay::Step { factor: table.factor, milestones: self.milestones(lengths)? }
            }
            ScheduleKind::Cyclical => {
                Decay::Cyclical { floor: table.floor, period: period(table.period) }
            }
            ScheduleKind::Restarts => self.restarts(lengths, sync_period)?,
            ScheduleKind::TwoStage => Decay::TwoStage {
                // At a cycle's beginning: a saw-tooth then ends where its sample is taken.
                start: lengths.steps(self.swa.start).next_multiple_of(sync_period.get()),
                rate: self.swa_rate(),
                cycle: self.swa.floor.map(|floor| (floor, period(self.swa.period))),
            },
        };
        let granularity = match table.per {
            Per::Step => Granularity::Step,
            Per::Epoch => Granularity::Epoch { steps: lengths.per_epoch },
        };
        let wrong = |e: ScheduleError| value(key_of(&e), format!("makes no schedule: {e}"));
        let schedule = Schedule::new(self.optimizer.rate, decay, lengths.budget.get());
        let schedule = schedule.and_then(|s| s.with_granularity(granularity)).map_err(wrong)?;
        let warmup = table.warmup.map_or(0, |span| lengths.steps(span));
        if warmup >= lengths.budget.get() {
            let budget = lengths.budget;
            let reason =
                format!("must be shorter than the budget of {budget} steps, found {warmup}");
            return Err(value("schedule.warmup", reason));
        }
        Ok(schedule.with_warmup(warmup))
    }

    /// SWA's own experiments have half of the initial rate where that is 0.1.
    pub(super) fn swa_rate(&self) -> f64 {
        self.swa.rate.unwrap_or(self.optimizer.rate / 2.0)
    }

    /// Cosines that begin again; by default so many as fill the budget.
    fn restarts(
        &self,
        lengths: &Lengths,
        sync_period: NonZeroU64,
    ) -> Result<Decay, ExperimentError> {
        let (floor, factor) = (self.schedule.floor, self.schedule.lengthening.get());
        let budget = lengths.budget.get();
        let given = self.schedule.period.map(|span| lengths.steps(span));
        // A cosine ends with a cycle, whose weights are judged.
        let by_default = first_cosine(budget, factor).next_multiple_of(sync_period.get());
        let period = given.unwrap_or(by_default);
        if period >= budget {
            if given.is_some() {
                let reason = format!("must be below the budget of {budget} steps, found {period}");
                return Err(value("schedule.period", reason));
            }
            let cycles = budget.div_ceil(sync_period.get());
            let reason = format!(
                "must leave room for a restart: cosines are whole cycles of {sync_period} steps, \
                 and the budget of {budget} steps has {cycles}; train longer, or set a shorter \
                 `hwa.sync_period`"
            );
            return Err(value("hwa.sync_period", reason));
        }
        let end = given.is_none().then_some(budget);
        Ok(Decay::Restarts { floor, period, factor, end })
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

    fn milestones(&self, lengths: &Lengths) -> Result<Vec<u64>, ExperimentError> {
        if let Some(spans) = &self.schedule.milestones {
            return Ok(spans.iter().map(|span| lengths.steps(*span)).collect());
        }
        // No default: what suits 200 epochs would leave a short run's rate constant.
        let every = self.schedule.every.ok_or_else(|| {
            let reason = "is step, which needs `schedule.every` or `schedule.milestones`";
            value("schedule.kind", reason)
        })?;
        let every = lengths.at_least_one("schedule.every", every)?.get();
        let count = (lengths.budget.get() - 1) / every;
        if count > MOST_MILESTONES {
            let reason = format!("must not fall more than {MOST_MILESTONES} times, found {count}");
            return Err(value("schedule.every", reason));
        }
        Ok((1..=count).map(|i| i * every).collect())
    }
}

/// The length of the first of four cosines, each so many times as long as the one before, that
/// fill a budget.
fn first_cosine(budget: u64, factor: u64) -> u64 {
    let parts = (0..COSINES).fold(0u64, |sum, i| sum.saturating_add(factor.saturating_pow(i)));
    budget.div_ceil(parts.max(1)).max(1)
}

/// The experiment's key for what a schedule finds wrong.
fn key_of(error: &ScheduleError) -> &'static str {
    let key = match error {
        ScheduleError::NotPositive { key, .. }
        | ScheduleError::Negative { key, .. }
        | ScheduleError::FloorAbove { key, .. }
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
