//! What the training loop needs to know, validated and resolved.
//!
//! An experiment file becomes [`Settings`] once; past that point nothing is
//! checked again, and impossible values have no type.

use std::num::{NonZeroU64, NonZeroUsize};

use hwa_core::Plan;
use serde::{Deserialize, Serialize};

use crate::descent::Descent;

/// One run of any method. What methods do differently in a step and at the end of a cycle is
/// the matter of their [`Technique`](crate::Technique).
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where all random numbers come from.
    pub seed: u64,
    /// Models, steps, synchronizations, rates and windows.
    pub plan: Plan,
    /// Images per step of one model.
    pub batch: NonZeroUsize,
    /// Whether the models start alike.
    pub init: Init,
    /// How steps descend.
    pub descent: Descent,
    /// What the result is chosen from.
    pub candidates: Candidates,
    /// Cycles without a better score after which the run stops.
    pub patience: Option<usize>,
    /// How the judge works.
    pub evaluate: Evaluate,
    /// What is kept on disk.
    pub checkpoints: Checkpoints,
    /// What becomes of the run when a model fails.
    pub on_lost_replica: OnLostReplica,
}

/// What becomes of a run in one process when one of its models fails. A run in several processes
/// always ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLostReplica {
    /// It ends, and can be gone on with.
    #[default]
    Stop,
    /// The others go on without it, unless it is the first, which leads.
    Continue,
}

/// What the judge looks at and chooses from at the end of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Candidates {
    /// The outer weights or, where there are windows, their means.
    #[default]
    Averages,
    /// Each of the models, with its own statistics.
    Models,
}

/// Whether the models start alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// All from the same initial weights.
    #[default]
    Shared,
    /// Each from its own.
    Independent,
}

/// What becomes of the optimizers' momentum when weights are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MomentumAtSync {
    /// Each model keeps its own: what a plain copy of the weights does.
    #[default]
    Keep,
    /// Averaged like the weights.
    Average,
    /// Set to zero.
    Reset,
}

/// How the judge works.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluate {
    /// Which cycles it looks at; it always looks at the last.
    pub every: Every,
    /// The relative standard error at which re-estimation of statistics stops.
    pub tolerance: f64,
    /// Whether statistics come from augmented images, as in training.
    pub augment: bool,
    /// Whether inner weights are judged too.
    pub inner: bool,
    /// Training images that the result is evaluated on too, if it is.
    pub train_images: Option<NonZeroUsize>,
    /// Whether the final pass evaluates every stored cycle on test.
    pub test_curve: bool,
}

/// Which cycles the judge looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// As often as [`JUDGE_SHARE`] of the training work allows. Work is counted
    /// in images, not in seconds, so that timing decides nothing.
    Auto,
    /// Multiples of this.
    Cycles(NonZeroUsize),
}

/// What judging may cost at most, as a share of the training work.
pub const JUDGE_SHARE: f64 = 0.15;

/// What is kept on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoints {
    /// Outer weights are kept for multiples of this, and for the last cycle.
    pub outer_every: NonZeroUsize,
    /// Cycles whose inner weights are saved, at their end.
    pub inner_cycles: Vec<usize>,
    /// In those cycles, also at every multiple of so many steps.
    pub inner_every: Option<NonZeroU64>,
    /// A resumable state is saved at multiples of so many steps, and at the end.
    pub state_every: NonZeroU64,
}

impl Settings {
    /// Whether the judge needs the complete models of every cycle.
    pub(crate) fn judges_models(&self) -> bool {
        self.evaluate.inner || self.candidates == Candidates::Models
    }
}

impl Checkpoints {
    /// Whether a cycle's outer weights stay when no window needs them any more.
    pub(crate) fn keeps(&self, cycle: usize, plan: &Plan) -> bool {
        cycle.is_multiple_of(self.outer_every.get()) || cycle == plan.num_cycles()
    }

    /// Whether inner weights are saved after `step` steps, in `cycle`.
    pub(crate) fn wants_inner(&self, cycle: &hwa_core::Cycle, step: u64) -> bool {
        let due = self.inner_every.is_some_and(|n| step.is_multiple_of(n.get()));
        self.inner_cycles.contains(&cycle.number) && (due || step == cycle.end)
    }
}
