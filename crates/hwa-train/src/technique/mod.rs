//! What methods do where they differ: in a step, and at the end of a cycle.
//!
//! The loop is one for all methods. It asks a [`Technique`] how a step is made, which weights
//! stand for the model at the end of a cycle, and what the model goes on with. Whatever a
//! technique remembers from step to step is part of the saved state.

mod averaging;
mod ema;
mod filters;
mod grafting;
mod lookahead;
mod repr;

pub use averaging::Averaging;
pub use ema::Ema;
pub use grafting::Grafting;
pub use lookahead::Lookahead;
pub use repr::{RePr, Stage};

use hwa_core::{OuterWeights, Weights, WeightsError};
use hwa_data::Batch;

use crate::collective::{Collective, CollectiveError};
use crate::descent::Descent;
use crate::replica::{Replica, ReplicaError, Step, StepStats};

/// A method, as one of its models carries it out.
///
/// Every method here has one to itself: none is known to the loop.
pub trait Technique {
    /// Before the first step. A run that goes on has [`Self::restore`] instead.
    fn begin(&mut self, model: &dyn Replica) -> Result<(), ReplicaError> {
        let _ = model;
        Ok(())
    }

    /// The rate of this model, of that which the schedule has for a step.
    fn rate(&self, scheduled: f64) -> f64 {
        scheduled
    }

    /// One step.
    fn step(
        &mut self,
        model: &mut dyn Replica,
        batch: &Batch,
        at: Step,
        descent: Descent,
    ) -> Result<StepStats, ReplicaError> {
        descent.step(model, batch, at)
    }

    /// The weights that are averaged over the models, stored and judged at the end of a cycle.
    fn offered(&self, model: &dyn Replica) -> Result<Weights, ReplicaError> {
        model.weights()
    }

    /// What one model's offered weights are called where they are shown.
    fn offers(&self) -> &'static str {
        "model"
    }

    /// What the model goes on with after a cycle, given the average. All models are there and
    /// call the same operations of `others` in the same order.
    fn go_on(
        &mut self,
        model: &mut dyn Replica,
        outer: &OuterWeights,
        others: &mut dyn Collective,
    ) -> Result<(), TechniqueError>;

    /// What it remembers, under names of its own.
    fn state(&self) -> Result<Weights, WeightsError> {
        Ok(Weights::new())
    }

    /// Takes over what it remembered.
    fn restore(&mut self, state: Weights) -> Result<(), WeightsError> {
        match state.iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(WeightsError::Unexpected { name: name.to_owned() }),
        }
    }
}

/// Builds the technique of the model with this number, in its thread.
pub type BuildTechnique<'a> = dyn Fn(usize) -> Box<dyn Technique> + Send + Sync + 'a;

/// Why a model could not go on.
#[derive(Debug, thiserror::Error)]
pub enum TechniqueError {
    /// The model failed.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// A common operation did not happen.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
}

impl From<WeightsError> for TechniqueError {
    fn from(error: WeightsError) -> Self {
        Self::Replica(error.into())
    }
}
