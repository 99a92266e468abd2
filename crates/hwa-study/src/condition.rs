//! The convergence condition of SGD, measured at given weights.
//!
//! One step of SGD is expected to lower the empirical risk R if
//!
//! ```text
//! (L/2) E|g - ∇R|²  <=  (1/η - L/2) |∇R|²
//! ```
//!
//! where g is the gradient of a mini-batch, ∇R that of all training images, η the learning rate
//! and L the Lipschitz constant of ∇R along the step. Weight decay is no part of R.
//!
//! Gradients are those of training: batch norm by the statistics of each batch, which also makes
//! the risk that of training mode. Sums run in `f64`, batch after batch: threads change nothing.
//!
//! # What a sample of the images does to the figures
//!
//! Let N be the training images, B the size of a batch and M the images that are looked at, drawn
//! without replacement and cut into n batches of m images each. With S² for the variance of a
//! single image's gradient, a batch is off by S² (1/m - 1/N) in the mean, the mean g' of all M by
//! S² (1/M - 1/N), and so
//!
//! ```text
//! E sum of m |g_batch - g'|²  =  (n - 1) S²
//! E |g'|²                     =  |∇R|² + S² (1/M - 1/N)
//! E|g - ∇R|²                  =  S² (1/B - 1/N)
//! ```
//!
//! The first line gives S² without bias, the second is what the squared norm is corrected by, the
//! third is the noise. If all images are looked at, M = N: nothing is corrected, and the noise is
//! the plain mean over the batches. Where batch norm ties the images of a batch together, this
//! holds as well as batches can be exchanged. The corrected norm can fall below zero: then there
//! are too few images to tell it from none.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use hwa_core::Weights;
use hwa_data::{Batch, Position};
use hwa_train::{Replica, RunningStatistics};
use serde::{Deserialize, Serialize};

use crate::direction::Direction;
use crate::error::StudyError;
use crate::frame::Frame;

/// The shortest step that L is measured along, as a share of the length of the weights. Late in
/// a schedule steps are so short that single precision would measure its own rounding.
const SHORTEST: f64 = 1e-4;

/// What gradients are measured with.
#[derive(Debug, Clone, Copy)]
pub struct Probe<'a> {
    /// Training images in random order, cut into batches of the training size; the last may be
    /// smaller.
    pub batches: &'a [Batch],
    /// The training images that there are, of which the batches may be a sample.
    pub population: usize,
    /// The learning rate.
    pub rate: f64,
    /// Steps along which L is measured, each with the gradient of another batch and at the price
    /// of another pass over all of them. Its mean counts.
    pub steps: NonZeroUsize,
    /// What is left out by dropout is drawn from this, the same at all weights.
    pub seed: u64,
}

/// What was measured at some weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gradients {
    /// R: the mean loss.
    pub risk: f64,
    /// |∇R|², corrected for the noise of a sample; below zero if that is all there is.
    pub squared_norm: f64,
    /// E|g - ∇R|² of a full mini-batch.
    pub noise: f64,
    /// L: |∇R(W + ΔW) - ∇R(W)| / |ΔW| for a step ΔW along -g, a mean over steps; 0 if no
    /// gradient moves anything.
    pub lipschitz: f64,
    /// The images looked at.
    pub images: usize,
    /// The images of a full mini-batch.
    pub batch: usize,
    /// The steps that L is the mean of.
    pub steps: usize,
}

/// Both sides of the condition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// (L/2) E|g - ∇R|²
    pub left: f64,
    /// (1/η - L/2) |∇R|²
    pub right: f64,
}

impl Gradients {
    /// Both sides at a learning rate.
    ///
    /// Times η², their difference is what the bound on R changes by in a step: on a parabola,
    /// where the bound is exact, what R itself is expected to change by.
    pub fn condition(&self, rate: f64) -> Condition {
        Condition {
            left: self.lipschitz / 2.0 * self.noise,
            right: (1.0 / rate - self.lipschitz / 2.0) * self.squared_norm,
        }
    }
}

impl Condition {
    /// Whether a step is expected to lower the risk.
    pub fn holds(&self) -> bool {
        self.left <= self.right
    }
}

impl Probe<'_> {
    /// The gradients that [`Self::measure`] computes, at most.
    pub fn gradients(&self) -> usize {
        self.batches.len() + self.usable_steps() * (1 + self.batches.len())
    }

    /// Measures at some parameters. `watch` is asked before every gradient, and can end the work:
    /// then there is no result.
    pub fn measure(
        &self,
        replica: &mut dyn Replica,
        weights: &Weights,
        watch: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Gradients>, StudyError> {
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return Err(StudyError::Rate { found: self.rate });
        }
        if self.batches.len() < 2 || self.batches.iter().any(Batch::is_empty) {
            return Err(StudyError::TooFewBatches { found: self.batches.len() });
        }
        let Some(full) = self.full(replica, weights, watch)? else { return Ok(None) };
        let mut slopes = Vec::new();
        for batch in 0..self.usable_steps() {
            match self.slope(replica, weights, &full.gradient, batch, watch)? {
                Some(slope) => slopes.extend(slope),
                None => return Ok(None),
            }
        }
        let (images, population) = (full.images as f64, self.population as f64);
        let square = full.gradient.dot(&full.gradient);
        let beside = (full.squares - images * square).max(0.0);
        let of_one_image = beside / (self.batches.len() - 1) as f64;
        let left_out = |count: f64| (1.0 / count - 1.0 / population).max(0.0);
        let measured = Gradients {
            risk: full.risk,
            squared_norm: square - of_one_image * left_out(images),
            noise: of_one_image * left_out(self.batch() as f64),
            lipschitz: slopes.iter().sum::<f64>() / slopes.len().max(1) as f64,
            images: full.images,
            batch: self.batch(),
            steps: slopes.len(),
        };
        let figures = [measured.risk, measured.squared_norm, measured.noise, measured.lipschitz];
        match figures.iter().all(|figure| figure.is_finite()) {
            true => Ok(Some(measured)),
            false => Err(StudyError::NotFinite),
        }
    }

    /// The size of a full batch.
    fn batch(&self) -> usize {
        self.batches.iter().map(Batch::len).max().unwrap_or(0)
    }

    /// Steps are those of full batches.
    fn usable_steps(&self) -> usize {
        let full = self.batches.iter().take_while(|batch| batch.len() == self.batch()).count();
        self.steps.get().min(full)
    }

    /// One pass over all batches.
    fn full(
        &self,
        replica: &mut dyn Replica,
        weights: &Weights,
        watch: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Full>, StudyError> {
        replica.load(weights)?;
        let mut sum = Direction::zero(weights);
        let (mut risk, mut squares, mut images) = (0.0, 0.0, 0);
        for (number, batch) in self.batches.iter().enumerate() {
            if watch().is_break() {
                return Ok(None);
            }
            let (loss, gradient) = self.gradient(replica, number)?;
            let share = batch.len() as f64;
            risk += share * loss;
            squares += share * gradient.dot(&gradient);
            sum = sum.plus(share, &gradient);
            images += batch.len();
        }
        let whole = images as f64;
        let (risk, gradient) = (risk / whole, sum.times(1.0 / whole));
        Ok(Some(Full { risk, gradient, squares, images }))
    }

    /// The loss and the gradient of a batch at the weights that are loaded.
    fn gradient(
        &self,
        replica: &mut dyn Replica,
        number: usize,
    ) -> Result<(f64, Direction), StudyError> {
        let at = Position { seed: self.seed, replica: 0, step: number as u64 };
        let (stats, gradient) =
            replica.gradient(&self.batches[number], at, RunningStatistics::Keep)?;
        Ok((stats.loss, Direction::along(&gradient)))
    }

    /// How fast the full gradient changes along the step of a batch: nothing if the work was
    /// ended, and no number if the step moves nothing.
    fn slope(
        &self,
        replica: &mut dyn Replica,
        weights: &Weights,
        before: &Direction,
        batch: usize,
        watch: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Option<f64>>, StudyError> {
        // Computed again, so that no more than one is in memory.
        if watch().is_break() {
            return Ok(None);
        }
        replica.load(weights)?;
        let (_, gradient) = self.gradient(replica, batch)?;
        let steep = gradient.norm();
        let line = Frame::along(weights, vec![gradient]);
        let length = self.rate.max(SHORTEST * line.scale() / steep);
        if steep == 0.0 || !length.is_finite() {
            return Ok(Some(None));
        }
        let moved = line.at(&[-length])?;
        // What the weights were rounded to is where the gradient is taken.
        let way = Direction::between(weights, &moved)?.norm();
        let Some(after) = self.full(replica, &moved, watch)? else { return Ok(None) };
        let turned = after.gradient.plus(-1.0, before).norm();
        Ok(Some((way > 0.0).then_some(turned / way)))
    }
}

/// What a pass over all batches gives.
struct Full {
    risk: f64,
    gradient: Direction,
    /// The squared norms of the batches' gradients, each times its images.
    squares: f64,
    images: usize,
}
