//! The search for the best window over a series of weights, and for the best selection of them.
//!
//! A [`Search`] proposes windows and is told what each is worth; how that is found out, by a
//! validation split or by anything else, it does not know. So it is tested on made-up surfaces.
//!
//! ```
//! use std::convert::Infallible;
//! use hwa_core::search::{Search, Space, Worth};
//!
//! // Forty checkpoints. A window is worth most if it holds those from 21 to 30.
//! let numbers: Vec<usize> = (1..=40).collect();
//! let search = Search::new(Space::new(&numbers)?, 200);
//! let found = search.run(|window| {
//!     let distance = window.at.abs_diff(30) + window.length.get().abs_diff(10);
//!     Ok::<_, Infallible>(Some(Worth::from(-(distance as f64))))
//! });
//! let Ok(found) = found;
//! let best = found.ranking.best().map(|best| best.candidate.to_string());
//! assert_eq!(best.as_deref(), Some("e = 30, I = 10, s = 1"));
//! # Ok::<_, hwa_core::search::SearchError>(())
//! ```

mod soup;
mod space;
mod spread;
mod walk;
mod worth;

pub use soup::{Soup, Tried, greedy_soup};
pub use space::{Candidate, Space};
pub use walk::{Ended, Found, Search};
pub use worth::{Ranking, Scored, Worth};

/// Why there is nothing to search in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// There are no weights.
    #[error("there is nothing to search in")]
    Empty,
    /// Windows need an order.
    #[error("{second} follows {first}, expected numbers from 1 on that ascend")]
    NotAscending {
        /// A number.
        first: usize,
        /// The one behind it.
        second: usize,
    },
}
