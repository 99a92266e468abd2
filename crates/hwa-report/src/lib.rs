//! Figures of a run, from its events.
//!
//! Everything is drawn from `events.jsonl`: [`Curves`] are read from it, and
//! [`Curves::to_svg`] draws them.

mod curves;
mod figure;

pub use curves::{Curve, Curves, Level};

/// Why a figure could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A line of the events could not be understood.
    #[error("line {line} of the events: {source}")]
    Event {
        /// The line, from 1.
        line: usize,
        /// Where and why.
        source: serde_json::Error,
    },
    /// The drawing itself failed.
    #[error("cannot draw: {reason}")]
    Drawing {
        /// Why.
        reason: String,
    },
}
