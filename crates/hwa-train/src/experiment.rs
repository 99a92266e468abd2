//! Experiments as files: parsed, overridden, resolved, validated.
//!
//! An [`Experiment`] is what a user writes as TOML. Every key has a default,
//! unknown keys and impossible values are errors that name the key, and the
//! resolved experiment, defaults and all, is what a run directory keeps.

mod method;

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use hwa_data::{CropKind, FileOptions, OnBadImage, OpenOptions, ViewOptions};
use serde::{Deserialize, Serialize};

pub use self::method::Method;

use crate::settings::{Init, MomentumAtSync, OnLostReplica};
use crate::span::Span;

/// One experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Experiment {
    /// What the run directory is called.
    pub name: String,
    /// Where all random numbers of training come from.
    pub seed: u64,
    /// Which method trains.
    pub method: Method,
    /// Whether the budget is that of each model or of all together.
    pub budget: Budget,
    /// Threads for the arithmetic of one model; by default the cores are shared out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<NonZeroUsize>,
    /// The images.
    pub data: Data,
    /// The network.
    pub model: Model,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// The budget and the learning rate over it.
    pub schedule: ScheduleTable,
    /// Online and offline averaging.
    pub hwa: Hwa,
    /// The second stage of SWA.
    pub swa: Swa,
    /// Lookahead.
    pub lookahead: LookaheadTable,
    /// The exponential moving average.
    pub ema: EmaTable,
    /// Filter grafting.
    pub fg: Fg,
    /// RePr.
    pub repr: Repr,
    /// Early stopping.
    pub stop: Stop,
    /// The judge.
    pub evaluate: EvaluateTable,
    /// What is kept on disk.
    pub checkpoints: CheckpointsTable,
    /// What is written for other programs.
    pub log: LogTable,
}

/// What the budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budget {
    /// The steps of each model: K models do K times the work, as in the paper.
    #[default]
    PerModel,
    /// The gradients of all models together: each does 1/K of the steps, and half of that
    /// with sharpness-aware steps, which take two.
    Total,
}

/// `[data]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// The data set's name.
    pub dataset: String,
    /// The folder it is in; by default the cache folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Images held out of the training set; by default the data set's own number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<usize>,
    /// A class-balanced subset of what remains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_examples: Option<usize>,
    /// The image files that there were when a run began; other ones are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The height and width of images; by default the data set's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<NonZeroUsize>,
    /// What the shorter side of an image is brought to before it is cropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize: Option<NonZeroUsize>,
    /// Which part of a training image is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<CropKind>,
    /// Black pixels around an image before a random part is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pad: Option<usize>,
    /// Whether training images are mirrored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flip: Option<bool>,
    /// The side of the square that is cut out of training images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutout: Option<usize>,
    /// What to do with an image file that cannot be read.
    pub on_bad_image: OnBadImage,
    /// Memory for decoded image files, in MiB.
    pub cache_mib: usize,
    /// Threads that decode image files; by default one per core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoders: Option<NonZeroUsize>,
}

impl Data {
    /// What the data set is opened with: in one place, so that a run and a later look at it
    /// have the same images.
    pub fn options(&self) -> OpenOptions {
        let Self { size, resize, crop, pad, flip, cutout, .. } = *self;
        let Self { on_bad_image, cache_mib, decoders, .. } = *self;
        OpenOptions {
            validation: self.validation,
            train_examples: self.train_examples,
            digest: self.digest.clone(),
            view: ViewOptions { size, resize, crop, pad, flip, cutout },
            files: FileOptions { on_bad_image, cache_mib, decoders },
            ..OpenOptions::default()
        }
    }
}

/// `[model]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// The network's name.
    pub name: String,
    /// How convolutions are computed.
    pub convolution: Convolution,
    /// A file with weights to begin with, in place of drawn ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<PathBuf>,
    /// Draw the last layer anew, whatever the file has there.
    pub new_head: bool,
}

/// How convolutions of 3 x 3 with stride one are computed, which are most of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Convolution {
    /// By Winograd's transforms, which save products and round more.
    #[default]
    Winograd,
    /// Every product by itself, as all others are.
    Direct,
}

/// `[optimizer]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Optimizer {
    /// The initial learning rate.
    pub rate: f64,
    /// The momentum of SGD.
    pub momentum: f64,
    /// Coupled weight decay.
    pub weight_decay: f64,
    /// Images per step of one model.
    pub batch: NonZeroUsize,
    /// With a value, every step is sharpness-aware (SAM), and looks so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rho: Option<f64>,
}

/// `[schedule]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleTable {
    /// How the rate falls; by default a cosine, for SWA its two stages, for SGDR restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ScheduleKind>,
    /// The budget in epochs, by default 200 ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<NonZeroU64>,
    /// ... or in steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<NonZeroU64>,
    /// The rate that cosine, linear, cyclical and restarts fall to.
    pub floor: f64,
    /// A ramp at the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Span>,
    /// Whether the rate changes with every step or every epoch.
    pub per: Per,
    /// What `step` multiplies the rate with.
    pub factor: f64,
    /// How often `step` does so ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// ... or when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milestones: Option<Vec<Span>>,
    /// The length of a saw-tooth of `cyclical`, by default the synchronization period; or of the
    /// first cosine of `restarts`, by default so that the fourth ends with the budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<Span>,
    /// How much longer each cosine of `restarts` is than the one before.
    pub lengthening: NonZeroU64,
}

/// How the rate falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleKind {
    /// Half a cosine over the whole budget.
    Cosine,
    /// A line over the whole budget.
    Linear,
    /// Times `factor` every so often: the paper's baseline.
    Step,
    /// It does not.
    Constant,
    /// A saw-tooth.
    Cyclical,
    /// Half a cosine again and again, longer each time.
    Restarts,
    /// The two stages of `[swa]`.
    TwoStage,
}

/// How often the rate changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// With every step.
    #[default]
    Step,
    /// With every epoch.
    Epoch,
}

/// `[hwa]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hwa {
    /// The paper's K.
    pub num_models: NonZeroUsize,
    /// The paper's H.
    pub sync_period: Span,
    /// The paper's I: one, or several to try.
    pub window_length: WindowLengths,
    /// Only cycles whose number is a multiple of this enter the window.
    pub window_stride: NonZeroUsize,
    /// Whether the models start alike; by default they do, except for filter grafting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<Init>,
    /// What becomes of momentum when weights are averaged.
    pub momentum_at_sync: MomentumAtSync,
    /// Whether the others go on when a model fails; by default they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_lost_replica: Option<OnLostReplica>,
}

/// One window length or several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected cycles (20), a share (\"10%\") or a list of them")]
pub enum WindowLengths {
    /// One.
    One(WindowText),
    /// Several, each with its own curve.
    Several(Vec<WindowText>),
}

impl WindowLengths {
    /// The lengths as a list.
    pub fn as_slice(&self) -> &[WindowText] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }
}

/// A window length as written: cycles, or a share of the budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected cycles (20) or a share (\"10%\")")]
pub enum WindowText {
    /// So many cycles.
    Cycles(NonZeroUsize),
    /// A share of the budget, such as `"10%"`.
    Share(String),
}

/// `[swa]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Swa {
    /// Where stage II begins.
    pub start: Span,
    /// Its (highest) rate, by default half of the initial one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// With a lower rate here, stage II is a saw-tooth down to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// The saw-tooth's length; by default the synchronization period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<Span>,
}

/// `[lookahead]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LookaheadTable {
    /// Steps between two moves of the slow weights.
    pub period: NonZeroU64,
    /// Which share of the way they go.
    pub alpha: f64,
}

/// `[ema]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmaTable {
    /// How much of the average is kept in every step.
    pub decay: f64,
}

/// `[fg]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fg {
    /// How far shares can be from one half: by half of this.
    pub a: f64,
    /// How fast they follow the difference of entropies.
    pub c: f64,
}

/// `[repr]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repr {
    /// The share of filters that is dropped.
    pub share: f64,
    /// How long the whole network trains before that.
    pub full: Span,
    /// How long the rest trains without them.
    pub pruned: Span,
    /// How often.
    pub times: u64,
}

/// `[stop]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stop {
    /// Cycles without a better score; without it the whole budget is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<NonZeroUsize>,
}

/// `[evaluate]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluateTable {
    /// Judge every n-th cycle, or `"auto"`: at most 15 % of the training work.
    pub every: EveryText,
    /// Statistics are re-estimated until their relative standard error is this.
    pub tolerance: f64,
    /// Re-estimate them from augmented images, as in training.
    pub augment: bool,
    /// Judge inner weights too.
    pub inner: bool,
    /// Also evaluate the result on so many training images, without augmentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_images: Option<NonZeroUsize>,
    /// Evaluate every cycle on test, after the choice.
    pub test_curve: bool,
}

/// `every` as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of cycles or \"auto\"")]
pub enum EveryText {
    /// Every so many cycles.
    Cycles(NonZeroUsize),
    /// `"auto"`.
    Auto(Auto),
}

impl Default for EveryText {
    fn default() -> Self {
        Self::Auto(Auto::Auto)
    }
}

/// The word `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auto {
    /// `"auto"`
    Auto,
}

/// `[checkpoints]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointsTable {
    /// Keep outer weights of every n-th cycle (and of the last).
    pub outer_every: NonZeroUsize,
    /// Save inner weights at the end of these cycles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inner_cycles: Vec<usize>,
    /// In those cycles, also every so often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner_every: Option<Span>,
    /// How often a resumable state is saved.
    pub state_every: Span,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogTable {
    /// Write event files for TensorBoard.
    pub tensorboard: bool,
}

// The defaults: a key that is not written has its value from here.

impl Default for Experiment {
    fn default() -> Self {
        Self {
            name: "hwa".to_owned(),
            seed: 1,
            method: Method::default(),
            budget: Budget::default(),
            threads: None,
            data: Data::default(),
            model: Model::default(),
            optimizer: Optimizer::default(),
            schedule: ScheduleTable::default(),
            hwa: Hwa::default(),
            swa: Swa::default(),
            lookahead: LookaheadTable::default(),
            ema: EmaTable::default(),
            fg: Fg::default(),
            repr: Repr::default(),
            stop: Stop::default(),
            evaluate: EvaluateTable::default(),
            checkpoints: CheckpointsTable::default(),
            log: LogTable::default(),
        }
    }
}

impl Default for Data {
    fn default() -> Self {
        let FileOptions { on_bad_image, cache_mib, decoders } = FileOptions::default();
        let ViewOptions { size, resize, crop, pad, flip, cutout } = ViewOptions::default();
        Self {
            dataset: "digits".to_owned(),
            dir: None,
            validation: None,
            train_examples: None,
            digest: None,
            size,
            resize,
            crop,
            pad,
            flip,
            cutout,
            on_bad_image,
            cache_mib,
            decoders,
        }
    }
}

impl Default for Model {
    fn default() -> Self {
        let convolution = Convolution::default();
        Self { name: "resnet8".to_owned(), convolution, weights: None, new_head: false }
    }
}

impl Default for Optimizer {
    fn default() -> Self {
        Self { rate: 0.1, momentum: 0.9, weight_decay: 5e-4, batch: nonzero(128), rho: None }
    }
}

impl Default for ScheduleTable {
    fn default() -> Self {
        Self {
            kind: None,
            epochs: None,
            steps: None,
            floor: 0.0,
            warmup: None,
            per: Per::default(),
            factor: 0.1,
            every: None,
            milestones: None,
            period: None,
            lengthening: NonZeroU64::MIN.saturating_add(1),
        }
    }
}

impl Default for Hwa {
    fn default() -> Self {
        Self {
            num_models: nonzero(2),
            sync_period: Span::Epochs(1.0),
            window_length: WindowLengths::One(WindowText::Cycles(nonzero(20))),
            window_stride: NonZeroUsize::MIN,
            init: None,
            momentum_at_sync: MomentumAtSync::default(),
            on_lost_replica: None,
        }
    }
}

impl Default for Swa {
    fn default() -> Self {
        Self { start: Span::Share(0.8), rate: None, floor: None, period: None }
    }
}

impl Default for LookaheadTable {
    fn default() -> Self {
        Self { period: NonZeroU64::MIN.saturating_add(4), alpha: 0.8 }
    }
}

impl Default for EmaTable {
    fn default() -> Self {
        Self { decay: 0.999 }
    }
}

impl Default for Fg {
    fn default() -> Self {
        Self { a: 0.4, c: 500.0 }
    }
}

impl Default for Repr {
    fn default() -> Self {
        // 20 and 10 of 200 epochs.
        Self { share: 0.3, full: Span::Share(0.1), pruned: Span::Share(0.05), times: 3 }
    }
}

impl Default for EvaluateTable {
    fn default() -> Self {
        Self {
            every: EveryText::default(),
            tolerance: 0.01,
            augment: true,
            inner: false,
            train_images: None,
            test_curve: false,
        }
    }
}

impl Default for CheckpointsTable {
    fn default() -> Self {
        Self {
            outer_every: NonZeroUsize::MIN,
            inner_cycles: Vec::new(),
            inner_every: None,
            state_every: Span::Epochs(1.0),
        }
    }
}

fn nonzero(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN)
}
