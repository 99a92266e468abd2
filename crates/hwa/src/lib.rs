//! Hierarchical weight averaging for deep neural networks.
//!
//! This crate is the facade: the command `hwa`, and the libraries below it under
//! one roof. Averaging on tensors of one's own needs nothing else:
//!
//! ```
//! use std::num::NonZeroUsize;
//! use hwa::{OuterWeights, SlideWindow, Tensor, Weights, WeightsError, WindowSpec};
//!
//! // A window over the last 20 checkpoints, whoever trained them.
//! let length = NonZeroUsize::MIN.saturating_add(19);
//! let mut window = SlideWindow::new(WindowSpec::sliding(length));
//! for cycle in 1..=3 {
//!     let mut weights = Weights::new();
//!     weights.insert("layer.weight", Tensor::parameter(vec![2], vec![cycle as f32, 0.5])?)?;
//!     window.push(cycle, OuterWeights::from_checkpoint(weights));
//! }
//! let average = window.mean()?.ok_or(WeightsError::Empty)?;
//! assert_eq!(average.require("layer.weight")?.as_f32(), Some(&[2.0, 0.5][..]));
//! # Ok::<_, WeightsError>(())
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`core`] | named weights, mean, slide window, schedules, plan |
//! | [`store`] | tensor files, averages of a series of them, run directories |
//! | [`data`] | data sets, splits, loaders |
//! | [`nn`] | networks and replicas over Burn |
//! | [`report`] | figures of a run |
//! | [`study`] | lines and planes on the loss surface, the convergence condition |
//! | [`train`] | the algorithm, its judge, its state, its events |

pub use hwa_core as core;
pub use hwa_data as data;
pub use hwa_nn as nn;
pub use hwa_report as report;
pub use hwa_store as store;
pub use hwa_study as study;
pub use hwa_train as train;

pub use hwa_core::{
    HwaWeights, InnerWeights, OuterWeights, Role, SlideWindow, Statistics, Tensor, Values, Weights,
    WeightsError, WindowSpec, mean,
};
pub use hwa_store::{Averaging, Series};
pub use hwa_train::{Experiment, Outcome, Replica, Run};
