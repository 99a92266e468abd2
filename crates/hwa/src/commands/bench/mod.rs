//! `hwa bench`: how fast it is here.

mod average;
mod landscape;
mod loader;
mod made_up;
mod recalibrate;
mod step;
#[cfg(feature = "mpi")]
mod sync;

use std::num::NonZeroUsize;

use hwa_data::ImageShape;
use hwa_nn::{ModelSpec, Task};

pub(crate) use average::run as average;
pub(crate) use landscape::run as landscape;
pub(crate) use loader::run as loader;
pub(crate) use recalibrate::run as recalibrate;
pub(crate) use step::run as step;
#[cfg(feature = "mpi")]
pub(crate) use sync::run as sync;

/// The largest height and width of images unless asked for: at 224 a step of some networks
/// takes a minute.
const LARGEST: usize = 64;

/// Colour images of this size, or of the size that the network was made for but at most
/// [`LARGEST`], in so many classes.
fn task(spec: ModelSpec, size: Option<NonZeroUsize>, classes: NonZeroUsize) -> Task {
    let usual = spec.usual_task().images.height.min(LARGEST);
    let side = size.map_or(usual, NonZeroUsize::get);
    let images = ImageShape { height: side, width: side, channels: 3 };
    Task { images, classes: classes.get() }
}

/// The middle one of some times, or no time at all for none.
fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(f64::INFINITY)
}

/// Megabytes in words.
fn megabytes(number: Option<f64>) -> String {
    number.map_or("unknown".to_owned(), |mb| format!("{mb:.0} MB"))
}
