//! How long things are, in steps of one model.

use std::num::NonZeroU64;

use hwa_data::steps_per_epoch;

use super::{DEFAULT_EPOCHS, value};
use crate::experiment::{Budget, Experiment};
use crate::parse::ExperimentError;
use crate::span::Span;

/// Rates and shares are exact up to here: counted in `f64`.
const MOST_STEPS: u64 = 1 << 53;

/// An epoch and the budget.
pub(super) struct Lengths {
    pub(super) per_epoch: u64,
    pub(super) budget: NonZeroU64,
}

impl Lengths {
    pub(super) fn steps(&self, span: Span) -> u64 {
        span.steps(self.per_epoch, self.budget.get())
    }

    pub(super) fn at_least_one(
        &self,
        key: &'static str,
        span: Span,
    ) -> Result<NonZeroU64, ExperimentError> {
        NonZeroU64::new(self.steps(span))
            .ok_or_else(|| value(key, format!("must be at least one step, found {span}")))
    }
}

impl Experiment {
    /// For a training set of so many images.
    pub(super) fn lengths(&self, train_examples: usize) -> Result<Lengths, ExperimentError> {
        let per_epoch = steps_per_epoch(train_examples, self.optimizer.batch);
        let table = &self.schedule;
        if table.epochs.is_some() && table.steps.is_some() {
            return Err(value("schedule.steps", "and `schedule.epochs` exclude each other"));
        }
        let (steps, key) = match (table.epochs, table.steps) {
            (_, Some(steps)) => (steps.get(), "schedule.steps"),
            (epochs, None) => {
                let epochs = epochs.map_or(DEFAULT_EPOCHS, NonZeroU64::get);
                (epochs.saturating_mul(per_epoch), "schedule.epochs")
            }
        };
        if steps > MOST_STEPS {
            let reason = format!("must be at most {MOST_STEPS} steps, found {steps} or more");
            return Err(value(key, reason));
        }
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
        Ok(Lengths { per_epoch: per_epoch.max(1), budget })
    }
}
