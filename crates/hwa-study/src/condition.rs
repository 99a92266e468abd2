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
//! third is the noise. If all images are looked at, M = N: nothing is corrected, and the noise of
//! batches of equal size is the plain mean over them; a smaller last one shares in S² by its
//! images. Where batch norm ties the images of a batch together, this
//! holds as well as batches can be exchanged. The corrected norm can fall below zero: then there
//! are too few images to tell it from none. Where there is no end of images, 1/N is 0.
//!
//! How far the norm and the noise may be off is told by the jackknife: each batch is left out in
//! turn, and the spread of what is found then, times (n - 1), is their variance; of a sample
//! without replacement the share 1 - M/N of that.
//!
//! A step along -g_b bends the loss of its own batch b more than that of other images. Of all
//! images b is the share m/N, of a sample it is more; so in L it weighs m/N, and the other
//! batches of the sample stand for all other images. The change of the gradient then has no bias.
//! Its norm has: where the changes of images partly cancel, they do so less in a sample, and L is
//! too large, the more the fewer images are looked at. What the gradient changes by along the
//! step, ΔW·(∇R(W + ΔW) - ∇R(W)) / |ΔW|², is linear in the change and has no
//! such bias. It is measured beside L, which the condition has.
//!
//! Both are means over steps, and their standard errors are those of the spread over steps. That
//! of L is part of the error of the condition. It does not know of the bias: all steps share the
//! sample.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use hwa_core::Weights;
use hwa_data::{Batch, Position};
use hwa_train::{Replica, RunningStatistics};
use serde::{Deserialize, Serialize};

use crate::direction::{Direction, finite};
use crate::error::StudyError;
use crate::frame::Frame;
use crate::slope::{Slope, mean};
use crate::sums::{Matrix, Sums, jackknife};

/// The shortest step that L is measured along, as a share of the length of the weights. Late in
/// a schedule steps are so short that single precision would measure its own rounding.
const SHORTEST: f64 = 1e-4;

/// What gradients are measured with.
#[derive(Debug, Clone, Copy)]
pub struct Probe<'a> {
    /// Training images in random order, cut into batches of the training size; some may be
    /// smaller, as the last one.
    pub batches: &'a [Batch],
    /// The training images that there are, of which the batches may be a sample; `None` if there
    /// is no end of them, as with augmentation.
    pub population: Option<usize>,
    /// The learning rate.
    pub rate: f64,
    /// Steps along which L is measured, each with the gradient of another batch and at the price
    /// of another pass over all of them. Its mean counts; one step tells no error of it.
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
    /// The covariance of the two before, by the jackknife: what a sample leaves open. 0 if all
    /// images were looked at, and nothing if there are too few batches to tell.
    pub covariance: Option<[[f64; 2]; 2]>,
    /// L: |∇R(W + ΔW) - ∇R(W)| / |ΔW| for a step ΔW along -g, a mean over steps; 0 if no
    /// gradient moves anything.
    pub lipschitz: f64,
    /// The standard error of L over steps; nothing if there are fewer than two.
    pub lipschitz_error: Option<f64>,
    /// What the gradient changes by along the step, ΔW·(∇R(W + ΔW) - ∇R(W)) / |ΔW|², a mean over
    /// steps. Its size is at most L; below zero, the loss bends downwards.
    pub curvature: f64,
    /// Its standard error over steps; nothing if there are fewer than two.
    pub curvature_error: Option<f64>,
    /// The images looked at.
    pub images: usize,
    /// The images of a full mini-batch.
    pub batch: usize,
    /// The steps that L and the curvature are means of.
    pub steps: usize,
}

/// Both sides of the condition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// (L/2) E|g - ∇R|²
    pub left: f64,
    /// (1/η - L/2) |∇R|²
    pub right: f64,
    /// The standard error of their difference, from what a sample of images and what a few steps
    /// leave open; nothing if there are too few batches or steps to tell.
    pub error: Option<f64>,
}

impl Gradients {
    /// Both sides at a learning rate.
    ///
    /// Times η², their difference is what the bound on R changes by in a step. On a parabola
    /// whose steps are eigenvectors of its curvature, as with a single weight, it is what R
    /// itself is expected to change by; of other steps R falls by no less. With the curvature in
    /// place of L it is the change of R on any parabola, if it is the same along all steps.
    pub fn condition(&self, rate: f64) -> Condition {
        let bend = self.lipschitz / 2.0;
        let gain = 1.0 / rate - bend;
        // The difference, gain · norm - bend · noise, falls with L by half of norm and noise.
        let by_lipschitz = (self.noise + self.squared_norm) / 2.0;
        let variance = |([[norm, both], [_, noise]], lipschitz): (Matrix, f64)| {
            let of_sample = gain * gain * norm - 2.0 * gain * bend * both + bend * bend * noise;
            of_sample.max(0.0) + (by_lipschitz * lipschitz).powi(2)
        };
        let open = self.covariance.zip(self.lipschitz_error);
        Condition {
            left: bend * self.noise,
            right: gain * self.squared_norm,
            error: open.map(|open| variance(open).sqrt()),
        }
    }

    /// The standard error of |∇R|².
    pub fn squared_norm_error(&self) -> Option<f64> {
        self.covariance.map(|matrix| matrix[0][0].sqrt())
    }

    /// The standard error of the noise.
    pub fn noise_error(&self) -> Option<f64> {
        self.covariance.map(|matrix| matrix[1][1].sqrt())
    }
}

impl Condition {
    /// Whether a step is expected to lower the risk. Nothing if that is unclear: if the sides are
    /// less than two standard errors apart.
    pub fn holds(&self) -> Option<bool> {
        let apart = self.right - self.left;
        let clear = self.error.is_some_and(|error| apart.abs() >= 2.0 * error);
        clear.then_some(apart >= 0.0)
    }
}

impl Probe<'_> {
    /// The gradients that [`Self::measure`] computes, at most.
    pub fn gradients(&self) -> usize {
        let passes = if self.leaves_open() { 2 } else { 1 };
        passes * self.batches.len() + self.usable_steps().count() * (1 + self.batches.len())
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
        finite(weights)?;
        let mut look = Look { probe: self, replica, watch };
        let Some(pass) = look.pass(weights, None)? else { return Ok(None) };
        let Some(covariance) = look.covariance(weights, &pass)? else { return Ok(None) };
        let (mut turns, mut bends) = (Vec::new(), Vec::new());
        for batch in self.usable_steps() {
            let Some(slope) = look.slope(weights, &pass.gradient, batch)? else { return Ok(None) };
            turns.extend(slope.map(|slope| slope.lipschitz));
            bends.extend(slope.map(|slope| slope.curvature));
        }
        let ((lipschitz, lipschitz_error), (curvature, curvature_error)) =
            (mean(&turns), mean(&bends));
        let [squared_norm, noise] = self.figures(&pass.sums());
        let measured = Gradients {
            risk: pass.risk,
            squared_norm,
            noise,
            covariance,
            lipschitz,
            lipschitz_error,
            curvature,
            curvature_error,
            images: self.images(),
            batch: self.batch(),
            steps: turns.len(),
        };
        let figures = [measured.risk, squared_norm, noise, lipschitz, curvature];
        let spread = covariance.into_iter().flatten().flatten();
        match figures.into_iter().chain(spread).all(f64::is_finite) {
            true => Ok(Some(measured)),
            false => Err(StudyError::NotFinite),
        }
    }

    /// M, the images looked at.
    fn images(&self) -> usize {
        self.batches.iter().map(Batch::len).sum()
    }

    /// N.
    fn population(&self) -> f64 {
        self.population.map_or(f64::INFINITY, |all| all.max(self.images()) as f64)
    }

    /// B, the size of a full batch.
    fn batch(&self) -> usize {
        self.batches.iter().map(Batch::len).max().unwrap_or(0)
    }

    /// The batches whose steps are made: full ones. Any may be smaller, where images cannot be
    /// read.
    fn usable_steps(&self) -> impl Iterator<Item = usize> {
        let full = self.batches.iter().enumerate().filter(|(_, b)| b.len() == self.batch());
        full.map(|(number, _)| number).take(self.steps.get())
    }

    /// 1 - M/N: what a sample leaves open.
    fn unseen(&self) -> f64 {
        1.0 - self.images() as f64 / self.population()
    }

    /// Whether the jackknife can tell something: one of two batches alone has no variance.
    fn leaves_open(&self) -> bool {
        self.unseen() > 0.0 && self.batches.len() > 2
    }

    /// |∇R|² and the noise, without bias.
    fn figures(&self, sums: &Sums) -> [f64; 2] {
        let square = sums.square / (sums.images * sums.images);
        let beside = (sums.squares - sums.images * square).max(0.0);
        let of_one_image = beside / (sums.batches - 1) as f64;
        let off = |images: f64| of_one_image * (1.0 / images - 1.0 / self.population()).max(0.0);
        [square - off(sums.images), off(self.batch() as f64)]
    }
}

/// A probe at work.
struct Look<'a> {
    probe: &'a Probe<'a>,
    replica: &'a mut dyn Replica,
    watch: &'a mut dyn FnMut() -> ControlFlow<()>,
}

impl Look<'_> {
    /// The loss and the gradient of a batch at the weights that are loaded; nothing if the work
    /// was ended.
    fn gradient(&mut self, number: usize) -> Result<Option<(f64, Direction)>, StudyError> {
        if (self.watch)().is_break() {
            return Ok(None);
        }
        let at = Position { seed: self.probe.seed, replica: 0, step: number as u64 };
        let batch = &self.probe.batches[number];
        let (stats, gradient) = self.replica.gradient(batch, at, RunningStatistics::Keep)?;
        Ok(Some((stats.loss, Direction::along(&gradient))))
    }

    /// One pass over all batches, that may keep the gradient of one.
    fn pass(&mut self, weights: &Weights, keep: Option<usize>) -> Result<Option<Pass>, StudyError> {
        self.replica.load(weights)?;
        let zero = || Direction::zero(weights);
        let mut pass = Pass { risk: 0.0, gradient: zero(), parts: Vec::new(), kept: zero() };
        for (number, batch) in self.probe.batches.iter().enumerate() {
            let Some((loss, gradient)) = self.gradient(number)? else { return Ok(None) };
            let share = batch.len() as f64;
            pass.risk += share * loss;
            pass.parts.push((share, gradient.dot(&gradient)));
            pass.gradient = pass.gradient.plus(share, &gradient);
            if keep == Some(number) {
                pass.kept = gradient;
            }
        }
        let whole = self.probe.images() as f64;
        pass.risk /= whole;
        pass.gradient = pass.gradient.times(1.0 / whole);
        Ok(Some(pass))
    }

    /// The covariance of |∇R|² and the noise; nothing if the work was ended.
    fn covariance(
        &mut self,
        weights: &Weights,
        pass: &Pass,
    ) -> Result<Option<Option<Matrix>>, StudyError> {
        if !self.probe.leaves_open() {
            return Ok(Some((self.probe.unseen() == 0.0).then_some([[0.0; 2]; 2])));
        }
        self.replica.load(weights)?;
        let whole = pass.sums();
        let mut without = Vec::new();
        for (number, (share, square)) in pass.parts.iter().enumerate() {
            // Computed again, so that no more than one is in memory.
            let Some((_, gradient)) = self.gradient(number)? else { return Ok(None) };
            let along = whole.images * pass.gradient.dot(&gradient);
            without.push(self.probe.figures(&whole.without(*share, *square, along)));
        }
        let matrix = jackknife(&without);
        Ok(Some(Some(matrix.map(|row| row.map(|value| value * self.probe.unseen())))))
    }

    /// How fast the gradient of all images changes along the step of a batch: nothing if the work
    /// was ended, and no number if the step moves nothing.
    fn slope(
        &mut self,
        weights: &Weights,
        before: &Direction,
        batch: usize,
    ) -> Result<Option<Option<Slope>>, StudyError> {
        self.replica.load(weights)?;
        // Computed again, so that no more than one is in memory.
        let Some((_, gradient)) = self.gradient(batch)? else { return Ok(None) };
        let steep = gradient.norm();
        if !steep.is_finite() {
            return Err(StudyError::NotFinite);
        }
        let line = Frame::along(weights, vec![gradient]);
        let length = self.probe.rate.max(SHORTEST * line.scale() / steep);
        if steep == 0.0 || !length.is_finite() {
            return Ok(Some(None));
        }
        let moved = line.at(&[-length])?;
        // What the weights were rounded to is where the gradient is taken.
        let way = match Direction::between(weights, &moved) {
            // Not the weights: the step from them goes too far.
            Err(StudyError::Diverged { .. }) => return Err(StudyError::NotFinite),
            way => way?,
        };
        let Some(after) = self.pass(&moved, Some(batch))? else { return Ok(None) };
        let turned = after.gradient.plus(-1.0, before);
        let own = line.axes().iter().fold(after.kept, |own, axis| own.plus(-1.0, axis));
        Ok(Some(Slope::along(&way, &self.of_all(batch, turned, &own))))
    }

    /// What the gradient of all images changes by, from what that of the sample does and that of
    /// one of its batches: the batch weighs m/N, the others weigh the rest.
    fn of_all(&self, batch: usize, sample: Direction, own: &Direction) -> Direction {
        let (m, images) = (self.probe.batches[batch].len() as f64, self.probe.images() as f64);
        let share = m / self.probe.population();
        // The others are (M sample - m own) / (M - m).
        let others = (1.0 - share) / (images - m);
        sample.times(others * images).plus(share - others * m, own)
    }
}

/// What a pass over all batches gives.
struct Pass {
    risk: f64,
    /// That of all batches together.
    gradient: Direction,
    /// The images of each batch, and the squared norm of its gradient.
    parts: Vec<(f64, f64)>,
    /// The gradient of the batch that was to be kept.
    kept: Direction,
}

impl Pass {
    fn sums(&self) -> Sums {
        let images: f64 = self.parts.iter().map(|(share, _)| share).sum();
        Sums {
            batches: self.parts.len(),
            images,
            square: images * images * self.gradient.dot(&self.gradient),
            squares: self.parts.iter().map(|(share, square)| share * square).sum(),
        }
    }
}
