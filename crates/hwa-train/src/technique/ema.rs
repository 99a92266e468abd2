//! The exponential moving average of the weights, updated with every step.

use hwa_core::{OuterWeights, Tensor, ValueType, Values, Weights, WeightsError};
use hwa_data::Batch;

use super::{Technique, TechniqueError};
use crate::collective::Collective;
use crate::descent::Descent;
use crate::replica::{Replica, ReplicaError, Step, StepStats};

/// The mean of the weights after every step, each weighing `decay` times as much as the one after
/// it:
///
/// ```text
/// average = average + (1 - decay) / (1 - decay^t) * (weights - average)
/// ```
///
/// after step `t`. The denominator tends to one; without it the initial weights would be half of
/// the average after 700 steps with a decay of 0.999. Kept in double precision: thousands of small
/// additions would drift in single precision.
#[derive(Debug, Clone)]
pub struct Ema {
    decay: f64,
    average: Weights,
}

impl Ema {
    /// With so much of the average kept in each step, 0.999 as a rule.
    pub fn new(decay: f64) -> Self {
        Self { decay, average: Weights::new() }
    }
}

impl Technique for Ema {
    fn begin(&mut self, model: &dyn Replica) -> Result<(), ReplicaError> {
        self.average = in_type(&model.weights()?, ValueType::F64)?;
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
        let share = (1.0 - self.decay) / (1.0 - self.decay.powf((at.position.step + 1) as f64));
        let weights = model.weights()?;
        self.average = self.average.combined(&weights, |kept, new| kept + share * (new - kept))?;
        Ok(stats)
    }

    fn offered(&self, model: &dyn Replica) -> Result<Weights, ReplicaError> {
        let mut offered = Weights::new();
        for (name, tensor) in model.weights()?.iter() {
            let wide = self.average.require(name)?.values().to_f64();
            let values = Values::rounded(tensor.values().value_type(), wide);
            offered.insert(name, Tensor::new(tensor.role(), tensor.shape().to_vec(), values)?)?;
        }
        Ok(offered)
    }

    fn offers(&self) -> &'static str {
        "moving average"
    }

    /// The average only watches.
    fn go_on(
        &mut self,
        _model: &mut dyn Replica,
        _outer: &OuterWeights,
        _others: &mut dyn Collective,
    ) -> Result<(), TechniqueError> {
        Ok(())
    }

    fn state(&self) -> Result<Weights, WeightsError> {
        Ok(self.average.clone())
    }

    fn restore(&mut self, state: Weights) -> Result<(), WeightsError> {
        self.average = state;
        Ok(())
    }
}

fn in_type(weights: &Weights, value_type: ValueType) -> Result<Weights, WeightsError> {
    let mut converted = Weights::new();
    for (name, tensor) in weights.iter() {
        let values = Values::rounded(value_type, tensor.values().to_f64());
        converted.insert(name, Tensor::new(tensor.role(), tensor.shape().to_vec(), values)?)?;
    }
    Ok(converted)
}
