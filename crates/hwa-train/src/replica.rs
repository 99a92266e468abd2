//! A replica: one model, its optimizer, and what the loop asks of them.
//!
//! The algorithm is written against this trait alone. A toy (a quadratic)
//! implements it in the tests, a Burn module in `hwa-nn`.

use hwa_core::{Weights, WeightsError};
use hwa_data::{Batch, DataError, Position};
use serde::{Deserialize, Serialize};

/// One model with its optimizer.
///
/// A replica is built inside the thread that uses it and never leaves it, so it
/// need not be `Send`.
pub trait Replica {
    /// The parameters, by name. Statistics and counters are not among them.
    fn weights(&self) -> Result<Weights, ReplicaError>;

    /// Takes over parameters. Statistics, counters and momentum stay.
    fn load(&mut self, weights: &Weights) -> Result<(), ReplicaError>;

    /// The mean loss of a batch at the present weights, and its gradient by the names of the
    /// parameters. A parameter that takes no part in the loss has none.
    ///
    /// What is drawn at random, such as dropout, is drawn at the position, so that neither
    /// threads nor an interruption can change it.
    fn gradient(
        &mut self,
        batch: &Batch,
        at: Position,
        statistics: RunningStatistics,
    ) -> Result<(StepStats, Weights), ReplicaError>;

    /// One optimizer step along a gradient. What it does not name stays.
    fn descend(&mut self, gradient: &Weights, rate: f64) -> Result<(), ReplicaError>;

    /// One optimizer step on a batch: [`Self::gradient`] and [`Self::descend`], and not a bit
    /// different from them. The loss is that before the step.
    fn step(&mut self, batch: &Batch, at: Step) -> Result<StepStats, ReplicaError> {
        let (stats, gradient) = self.gradient(batch, at.position, RunningStatistics::Move)?;
        self.descend(&gradient, at.rate)?;
        Ok(stats)
    }

    /// The names of the parameters in the order of the network, a batch norm behind its
    /// convolution: for methods that look at layers (filter grafting, RePr), which a model that
    /// does not tell cannot be trained by.
    fn parameters(&self) -> Result<Vec<String>, ReplicaError> {
        Err(ReplicaError::Framework {
            operation: "looking at layers",
            reason: "this model does not tell the order of its parameters".to_owned(),
        })
    }

    /// The optimizer's momentum, one tensor per parameter and under its name.
    fn momentum(&self) -> Result<Weights, ReplicaError>;

    /// Takes over momentum.
    fn load_momentum(&mut self, momentum: &Weights) -> Result<(), ReplicaError>;

    /// Re-estimates batch-norm statistics from training batches, pooled, and stops
    /// once their relative standard error is at most `tolerance` or the batches are
    /// used up. A model without such statistics takes no batch.
    fn recalibrate(
        &mut self,
        batches: &mut dyn Iterator<Item = Result<Batch, DataError>>,
        tolerance: f64,
    ) -> Result<Recalibration, ReplicaError>;

    /// Counts hits and sums losses over a batch, in evaluation mode.
    fn evaluate(&mut self, batch: &Batch) -> Result<Tally, ReplicaError>;

    /// Everything that the next step depends on.
    fn state(&self) -> Result<State, ReplicaError>;

    /// Takes over everything that the next step depends on.
    fn restore(&mut self, state: &State) -> Result<(), ReplicaError>;
}

/// What becomes of running batch-norm statistics, and of the counters beside them, when a
/// gradient is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunningStatistics {
    /// They move towards those of the batch, as in every training step.
    Move,
    /// They stay.
    Keep,
}

/// One step: how far it goes, and where in the run it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The learning rate.
    pub rate: f64,
    /// Seed, model and number of the step: the address of its random numbers
    /// (`hwa_core::seed`). Models that begin with the same weights still have positions of
    /// their own.
    pub position: Position,
}

/// Everything that a replica's next step depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Parameters, statistics and counters: a complete model.
    pub weights: Weights,
    /// The optimizer's momentum, one tensor per parameter and under its name.
    pub momentum: Weights,
}

/// What a step tells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepStats {
    /// Mean loss over the batch.
    pub loss: f64,
}

/// What re-estimation took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Recalibration {
    /// Training images used.
    pub images: u64,
    /// The relative standard error reached, over the worst layer; `None` if it is
    /// not known (fewer than two batches) or nothing had to be estimated.
    pub relative_error: Option<f64>,
}

/// Hits and losses, to be added up over batches.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Images seen.
    pub images: u64,
    /// Images whose class came first.
    pub top1: u64,
    /// Images whose class came among the first five.
    pub top5: u64,
    /// The sum of the images' losses.
    pub loss: f64,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.images += other.images;
        self.top1 += other.top1;
        self.top5 += other.top5;
        self.loss += other.loss;
    }
}

/// Why a replica could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// Weights do not fit the model.
    #[error("the weights do not fit the model: {0}")]
    Weights(#[from] WeightsError),
    /// A batch could not be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A batch does not fit the model.
    #[error("the batch does not fit the model: {what} is {found}, expected {expected}")]
    Batch {
        /// What does not fit, such as "channels".
        what: &'static str,
        /// What the model expects.
        expected: String,
        /// What the batch has.
        found: String,
    },
    /// The framework below the model failed.
    #[error("{operation} failed: {reason}")]
    Framework {
        /// What was being done.
        operation: &'static str,
        /// The framework's reason.
        reason: String,
    },
}
