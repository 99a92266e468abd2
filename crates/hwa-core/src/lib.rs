//! The arithmetic of hierarchical weight averaging, free of frameworks and files.
//!
//! | paper | here |
//! |---|---|
//! | inner, outer and HWA weights | [`InnerWeights`], [`OuterWeights`], [`HwaWeights`] |
//! | mean over models, mean over a window | [`mean()`] |
//! | slide window of length I and stride s | [`SlideWindow`] |
//! | K, H, T, cycles | [`Plan`], [`Cycle`] |
//! | learning-rate decay | [`Schedule`] |
//! | early stopping on the averaged curve | [`Selection`] |
//! | the best e, I and s over a whole series | [`search`] |
//! | re-estimated batch-norm statistics | [`Moments`] |
//!
//! Nothing here knows a network, a data set or a disk, so all of it can be
//! tested by hand-computed traces.

mod bytes;
pub mod float;
mod levels;
mod mean;
mod moments;
mod plan;
mod prefix;
mod running_sum;
mod schedule;
pub mod search;
pub mod seed;
mod select;
pub mod spelling;
mod weights;
mod window;

pub use levels::{HwaWeights, InnerWeights, OuterWeights};
pub use mean::{Element, Statistics, average, mean, mean_of_values};
pub use moments::{Moments, MomentsError};
pub use plan::{Cycle, Plan, WindowLength};
pub use prefix::PrefixSums;
pub use schedule::{Decay, Granularity, Schedule, ScheduleError};
pub use select::{Choice, Score, Selection};
pub use weights::{Role, Tensor, ValueType, Values, Weights, WeightsError};
pub use window::{SlideWindow, WindowSpec};
