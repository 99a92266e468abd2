//! Restarting from the average: online averaging, and all that has one model.

use std::sync::Arc;

use hwa_core::{OuterWeights, Weights, WeightsError};

use super::{Technique, TechniqueError};
use crate::collective::Collective;
use crate::replica::Replica;
use crate::settings::MomentumAtSync;

/// Every model goes on from the average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Averaging {
    /// What becomes of momentum.
    pub momentum: MomentumAtSync,
}

impl Technique for Averaging {
    fn go_on(
        &mut self,
        model: &mut dyn Replica,
        outer: &OuterWeights,
        others: &mut dyn Collective,
    ) -> Result<(), TechniqueError> {
        model.load(outer)?;
        let momentum = match self.momentum {
            MomentumAtSync::Keep => return Ok(()),
            MomentumAtSync::Average => others.average(model.momentum()?)?,
            MomentumAtSync::Reset => Arc::new(zeros_like(&model.momentum()?)?),
        };
        Ok(model.load_momentum(&momentum)?)
    }
}

fn zeros_like(weights: &Weights) -> Result<Weights, WeightsError> {
    let mut zeros = Weights::new();
    for (name, tensor) in weights.iter() {
        zeros.insert(name, tensor.zeros_like())?;
    }
    Ok(zeros)
}
