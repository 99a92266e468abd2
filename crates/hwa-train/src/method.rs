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

mod checks;
mod lengths;
mod rates;
#[cfg(test)]
mod tests;
mod used;
mod windows;

use std::num::{NonZeroU64, NonZeroUsize};

use hwa_core::Plan;

use self::lengths::Lengths;
use crate::descent::Descent;
use crate::experiment::{EveryText, Experiment, Method, ScheduleKind};
use crate::parse::ExperimentError;
use crate::settings::{Candidates, Checkpoints, Evaluate, Every, Init, MomentumAtSync, Settings};
use crate::technique::{
    Averaging, BuildTechnique, Ema, Grafting, Lookahead, RePr, Stage, Technique,
};

/// Epochs of a budget that is not given.
const DEFAULT_EPOCHS: u64 = 200;
/// How far SAM looks unless it is told: usual on CIFAR-10.
const DEFAULT_RHO: f64 = 0.05;
/// More stages of RePr than this are a mistake.
const MOST_STAGES: u64 = 100_000;

impl Experiment {
    /// Everything that the loop needs, for a training set of so many images.
    pub fn settings(&self, train_examples: usize) -> Result<Settings, ExperimentError> {
        self.check_numbers()?;
        let lengths = self.lengths(train_examples)?;
        let sync_period = lengths.at_least_one("hwa.sync_period", self.hwa.sync_period)?;
        let mut plan = Plan {
            num_models: self.num_models(),
            max_steps: lengths.budget,
            sync_period,
            schedule: self.rates(&lengths, sync_period)?,
            windows: Vec::new(),
        };
        plan.windows = self.windows(&plan, &lengths)?;
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
            checkpoints: self.checkpoints(&lengths)?,
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
            Method::Repr => self.stages(&self.lengths(train_examples)?)?,
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
    fn stages(&self, lengths: &Lengths) -> Result<Vec<Stage>, ExperimentError> {
        let full = lengths.at_least_one("repr.full", self.repr.full)?.get();
        let pruned = lengths.at_least_one("repr.pruned", self.repr.pruned)?.get();
        let (each, budget) = (full.saturating_add(pruned), lengths.budget.get());
        if each.saturating_mul(self.repr.times) > budget {
            let times = self.repr.times;
            let reason = format!(
                "times `repr.full` and `repr.pruned` must fit into the budget of {budget} steps, \
                 found {times} times {full} and {pruned}"
            );
            return Err(value("repr.times", reason));
        }
        if self.repr.times > MOST_STAGES {
            let reason = format!("must be at most {MOST_STAGES}, found {}", self.repr.times);
            return Err(value("repr.times", reason));
        }
        let stage = |i| Stage { drop: i * each + full, revive: (i + 1) * each };
        Ok((0..self.repr.times).map(stage).collect())
    }

    fn descent(&self) -> Descent {
        let by_default = (self.method == Method::Sam).then_some(DEFAULT_RHO);
        match self.optimizer.rho.or(by_default) {
            // There is no point nearby to look at.
            Some(0.0) | None => Descent::Plain,
            Some(rho) => Descent::SharpnessAware { rho },
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
        if self.kind() == ScheduleKind::TwoStage {
            resolved.swa.rate = Some(self.swa_rate());
        }
        let schedule = &mut resolved.schedule;
        if schedule.steps.is_none() && schedule.epochs.is_none() {
            schedule.epochs = NonZeroU64::new(DEFAULT_EPOCHS);
        }
        resolved
    }

    fn kind(&self) -> ScheduleKind {
        self.schedule.kind.unwrap_or(self.method.usual_kind())
    }

    fn init(&self) -> Init {
        self.hwa.init.unwrap_or(self.method.usual_init())
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

    fn checkpoints(&self, lengths: &Lengths) -> Result<Checkpoints, ExperimentError> {
        let table = &self.checkpoints;
        if table.inner_every.is_some() && table.inner_cycles.is_empty() {
            return Err(value("checkpoints.inner_every", "needs `checkpoints.inner_cycles`"));
        }
        let every = |span| lengths.at_least_one("checkpoints.inner_every", span);
        Ok(Checkpoints {
            outer_every: table.outer_every,
            inner_cycles: table.inner_cycles.clone(),
            inner_every: table.inner_every.map(every).transpose()?,
            state_every: lengths.at_least_one("checkpoints.state_every", table.state_every)?,
        })
    }
}

fn value(key: &'static str, reason: impl Into<String>) -> ExperimentError {
    ExperimentError::Value { key, reason: reason.into() }
}
