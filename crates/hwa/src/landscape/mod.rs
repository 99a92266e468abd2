//! The loss around weights: what is looked at, measured and drawn.

mod drawing;
mod measuring;
mod notebook;
mod view;

pub(crate) use drawing::{sheet, table};
pub(crate) use measuring::{Landscape, Measuring, measure, measure_each};
pub(crate) use view::{Extent, View};
