//! What a run, or many, look like: figures, pages and tables.
//!
//! Everything comes from `events.jsonl`: a [`Record`] is read from it, and has figures
//! ([`Record::figures`]), which are drawn as SVG and written as CSV. [`page`] makes one HTML file of
//! them, and a [`Sheet`] of any others, which may be maps of a plane ([`Map`]). A [`Comparison`] has the figures of runs that differ by their method and seed, and is
//! written as Markdown, CSV and JSON.

mod axis;
mod bars;
mod boxes;
mod chart;
mod comparison;
mod contour;
mod differences;
mod figures;
mod frame;
mod html;
mod legend;
mod lines;
mod map;
mod numbers;
mod page;
pub mod paper;
mod places;
mod record;
mod relief;
mod result;
mod scale;
mod sheet;
mod surface;
mod svg;
pub mod tensorboard;
mod together;

pub use axis::Axis;
pub use bars::Bars;
pub use boxes::Boxes;
pub use chart::{Chart, Figure};
pub use comparison::{
    Comparison, DivergedRun, Group, Published, Row, RunFigures, Spread, Table, WindowFigures,
};
pub use html::is_ours;
pub use lines::{ErrorBar, Lines, Mark, Series};
pub use map::{Aspect, Between, Map, Spot};
pub use page::{Page, PageOptions, page};
pub use record::{Process, Record};
pub use result::Level;
pub use sheet::{DataFile, Part, Sheet};
pub use svg::{SERIES, Tone, escaped, is_our_figure, style_sheet};
pub use together::compared;

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
