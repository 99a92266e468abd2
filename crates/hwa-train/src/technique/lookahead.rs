//! Lookahead: k steps forward, one step back.

use std::num::NonZeroU64;

use hwa_core::{OuterWeights, Weights, WeightsError};
use hwa_data::Batch;

use super::{Technique, TechniqueError};
use crate::collective::Collective;
use crate::descent::Descent;
use crate::replica::{Replica, ReplicaError, Step, StepStats};

/// Every `period` steps slow weights follow the fast ones by a share `alpha` of the way, and the
/// fast ones begin there again. Momentum stays.
///
/// M. Zhang and others, "Lookahead Optimizer: k steps forward, 1 step back", NeurIPS 2019.
#[derive(Debug, Clone)]
pub struct Lookahead {
    period: NonZeroU64,
    alpha: f64,
    slow: Weights,
}

impl Lookahead {
    /// So many steps forward, and which share of the way is kept.
    pub fn new(period: NonZeroU64, alpha: f64) -> Self {
        Self { period, alpha, slow: Weights::new() }
    }
}

impl Technique for Lookahead {
    fn begin(&mut self, model: &dyn Replica) -> Result<(), ReplicaError> {
        self.slow = model.weights()?;
        Ok(())
    }

    fn step(
        &mut self,
        model: &mut dyn Replica,
        batch: &Batch,
        at: Step,
        descent: Descent,
    ) -> Result<StepStats, ReplicaError> {
        let stats = descent.step(model, batch, at)?;
        if (at.position.step + 1).is_multiple_of(self.period.get()) {
            let (fast, alpha) = (model.weights()?, self.alpha);
            self.slow = self.slow.combined(&fast, |slow, fast| slow + alpha * (fast - slow))?;
            model.load(&self.slow)?;
        }
        Ok(stats)
    }

    /// The slow weights are the result.
    fn offered(&self, _model: &dyn Replica) -> Result<Weights, ReplicaError> {
        Ok(self.slow.clone())
    }

    fn offers(&self) -> &'static str {
        "slow weights"
    }

    fn go_on(
        &mut self,
        _model: &mut dyn Replica,
        _outer: &OuterWeights,
        _others: &mut dyn Collective,
    ) -> Result<(), TechniqueError> {
        Ok(())
    }

    fn state(&self) -> Result<Weights, WeightsError> {
        Ok(self.slow.clone())
    }

    fn restore(&mut self, state: Weights) -> Result<(), WeightsError> {
        self.slow = state;
        Ok(())
    }
}
