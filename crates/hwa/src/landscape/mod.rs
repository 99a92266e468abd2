//! The loss around weights: what is looked at, measured and drawn.

mod drawing;
mod measuring;
mod view;

pub(crate) use drawing::{sheet, table};
pub(crate) use measuring::{Landscape, Measuring, measure};
pub(crate) use view::{Extent, View};
