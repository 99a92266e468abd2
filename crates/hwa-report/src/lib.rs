//! Figures of a run, from its events, and tables of many runs.
//!
//! Everything is drawn from `events.jsonl`: [`Curves`] are read from it, and
//! [`Curves::to_svg`] draws them. A [`Comparison`] has the figures of runs that differ by their
//! method and seed, and is written as Markdown, CSV and JSON.

mod axis;
mod chart;
mod comparison;
mod curves;
mod figure;
mod figures;
mod page;
mod record;
mod svg;

pub use axis::Axis;
pub use chart::{Bars, Boxes, Chart, Figure, Lines, Mark, Series};
pub use comparison::{Comparison, Group, Published, Row, RunFigures, Spread, Table};
pub use curves::{Curve, Curves, Level};
pub use figures::compared;
pub use page::{Page, PageOptions, page};
pub use record::Record;
pub use svg::{SERIES, Tone, escaped, style_sheet};

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
