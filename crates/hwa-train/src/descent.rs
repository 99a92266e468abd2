//! How one step of a model descends: plainly, or sharpness-aware.

use hwa_core::Weights;
use hwa_data::Batch;

use crate::replica::{Replica, ReplicaError, RunningStatistics, Step, StepStats};

/// Keeps a gradient of zero from being divided by.
const SMALLEST_NORM: f64 = 1e-12;

/// How a step descends. Every method can use either, but RePr, which is plain.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Descent {
    /// Along the gradient of the batch where the weights are.
    #[default]
    Plain,
    /// SAM: along the gradient at the worst point nearby, which is looked for along the
    /// gradient where the weights are. Takes twice as long.
    ///
    /// P. Foret and others, "Sharpness-Aware Minimization for Efficiently Improving
    /// Generalization", ICLR 2021.
    SharpnessAware {
        /// How far away that point is.
        rho: f64,
    },
}

impl Descent {
    /// One step on a batch. The loss is that where the weights are.
    pub fn step(
        self,
        model: &mut dyn Replica,
        batch: &Batch,
        at: Step,
    ) -> Result<StepStats, ReplicaError> {
        let rho = match self {
            Self::Plain => return model.step(batch, at),
            Self::SharpnessAware { rho } => rho,
        };
        let weights = model.weights()?;
        let (stats, uphill) = model.gradient(batch, at.position, RunningStatistics::Move)?;
        let scale = rho / (norm(&uphill) + SMALLEST_NORM);
        model.load(&moved(&weights, &uphill, scale)?)?;
        // The statistics are those of the weights, not of a point that is left at once.
        let gradient = model.gradient(batch, at.position, RunningStatistics::Keep);
        model.load(&weights)?;
        let (_, gradient) = gradient?;
        model.descend(&gradient, at.rate)?;
        Ok(stats)
    }
}

/// Weights moved along a direction; what it does not name stays.
fn moved(weights: &Weights, direction: &Weights, scale: f64) -> Result<Weights, ReplicaError> {
    let mut moved = Weights::new();
    for (name, tensor) in weights.iter() {
        let tensor = match direction.get(name) {
            Some(direction) => tensor.combined(direction, |w, d| w + scale * d)?,
            None => tensor.clone(),
        };
        moved.insert(name, tensor)?;
    }
    Ok(moved)
}

/// The Euclidean norm over all tensors.
fn norm(gradient: &Weights) -> f64 {
    let square = |values: Vec<f64>| values.into_iter().map(|x| x * x).sum::<f64>();
    gradient.iter().map(|(_, tensor)| square(tensor.values().to_f64())).sum::<f64>().sqrt()
}
