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
//! So does the mean of plain numbers, oldest first, with the bits of all other means here:
//!
//! ```
//! let (older, newer) = ([1.0f32, 4.0], [2.0, 8.0]);
//! assert_eq!(hwa::average(&[&older, &newer])?, [1.5, 6.0]);
//! # Ok::<_, hwa::WeightsError>(())
//! ```
//!
//! And the mean of some checkpoints, and which of their windows is the best, for whoever
//! can tell what weights are worth:
//!
//! ```
//! use hwa::search::{Search, Space, Worth};
//! use hwa::{Statistics, Tensor, Weights, WeightsError, mean};
//!
//! // Twelve checkpoints of one number, 1 to 12; the nearer an average is to 9, the better.
//! let mut checkpoints = Vec::new();
//! for x in 1..=12 {
//!     let mut weights = Weights::new();
//!     weights.insert("w", Tensor::parameter(vec![1], vec![x as f32])?)?;
//!     checkpoints.push(weights);
//! }
//! let numbers: Vec<usize> = (1..=12).collect();
//! let search = Search::new(Space::new(&numbers)?, 60);
//! let found = search.run(|window| {
//!     let members = search.space().members(window);
//!     let members: Vec<&Weights> = members.iter().map(|place| &checkpoints[*place]).collect();
//!     let average = mean(&members, Statistics::Omit)?;
//!     let w = average.require("w")?.values().to_f64()[0];
//!     Ok::<_, WeightsError>(Some(Worth::from(-(w - 9.0).abs())))
//! })?;
//! let best = found.ranking.best().map(|best| best.candidate.to_string());
//! assert_eq!(best.as_deref(), Some("e = 12, I = 7, s = 1")); // 6 to 12
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Checkpoints in files are averaged as they are read, and need not fit into memory:
//!
//! ```no_run
//! use std::num::NonZeroUsize;
//! use std::path::Path;
//! use hwa::store::Order;
//! use hwa::{Averaging, Series, WindowSpec};
//!
//! let series = Series::open(&["checkpoints".into()], Order::Name)?;
//! let last = WindowSpec::sliding(NonZeroUsize::MIN.saturating_add(19));
//! let window = series.window(last, None)?;
//! Averaging::new(&series).write(&window, Path::new("last-20.safetensors"))?;
//! # Ok::<_, hwa::store::SeriesError>(())
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`core`] | named weights, mean, slide window, schedules, plan |
//! | [`search`] | the best window of a series, greedy soups |
//! | [`store`] | tensor files, averages of a series of them, run directories |
//! | [`data`] | data sets, splits, loaders |
//! | [`nn`] | networks and replicas over Burn |
//! | [`report`] | figures of a run |
//! | [`study`] | lines and planes on the loss surface, the convergence condition |
//! | [`train`] | the algorithm, its judge, its state, its events |

pub use hwa_compare as compare;
pub use hwa_core as core;
pub use hwa_data as data;
pub use hwa_nn as nn;
pub use hwa_report as report;
pub use hwa_store as store;
pub use hwa_study as study;
pub use hwa_train as train;

pub use hwa_core::search;
pub use hwa_core::{
    HwaWeights, InnerWeights, OuterWeights, Role, SlideWindow, Statistics, Tensor, Values, Weights,
    WeightsError, WindowSpec, average, mean,
};
pub use hwa_store::{Averaging, Series};
pub use hwa_train::{Experiment, Outcome, Replica, Run};

/// The examples of the pages, so that they are compiled too.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/average.md")]
    struct Average;
    #[doc = include_str!("../../../docs/search.md")]
    struct Search;
}
