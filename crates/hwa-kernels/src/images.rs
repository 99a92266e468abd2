//! Results image by image, finished while they are in the cache.
//!
//! Kernels that need no blocks of their own work on whole images: a part of the images
//! for each piece of work, and in it a few images at a time, which are finished before
//! the next are begun.

use std::ops::Range;

use crate::finish::{Finish, Finisher, Totals};
use crate::parallel;
use crate::shape::Shape;
use crate::simd::Level;

/// Numbers that are worth a part of their own.
const PART: usize = 16 * 1024;

/// Pixels that are worth finishing: sums go on in `f64` after each time.
const PIXELS: usize = 128;

/// Ranges of images, by the size of all of them.
pub(crate) fn parts(shape: Shape) -> Vec<Range<usize>> {
    parallel::ranges(shape.images, shape.len() / PART)
}

/// Divides a tensor into the pieces that belong to ranges of images.
pub(crate) fn split<'a>(
    shape: Shape,
    parts: &[Range<usize>],
    numbers: &'a mut [f32],
) -> Vec<&'a mut [f32]> {
    parallel::split(numbers, parts.iter().map(|part| part.len() * shape.image()))
}

/// Runs `work` on the images of a part, of which `piece` holds the results, a few at a time,
/// and finishes what it wrote.
pub(crate) fn finish_groups(
    (level, finish): (Level, Finish<'_>),
    shape: Shape,
    (images, piece): (Range<usize>, &mut [f32]),
    mut work: impl FnMut(Range<usize>, &mut [f32]),
) -> Totals {
    let mut finisher = Finisher::new(level, finish, shape.channels);
    let pixels = shape.height * shape.width;
    let group = PIXELS.div_ceil(pixels.max(1));
    for start in images.clone().step_by(group) {
        let end = images.end.min(start + group);
        let results = (start - images.start) * shape.image()..(end - images.start) * shape.image();
        let results = &mut piece[results];
        work(start..end, results);
        finisher.run(start * pixels, results);
    }
    finisher.totals()
}

/// Runs `work` on all images and finishes what it wrote; gives the sums, part by part.
pub(crate) fn compute(
    (level, finish): (Level, Finish<'_>),
    shape: Shape,
    results: &mut [f32],
    work: impl Fn(Range<usize>, &mut [f32]) + Sync + Send,
) -> Vec<Totals> {
    let parts = parts(shape);
    let pieces = split(shape, &parts, results);
    let items = parts.into_iter().zip(pieces).collect();
    parallel::map(items, |part| finish_groups((level, finish), shape, part, &work))
}

impl Shape {
    /// The numbers stored for an image.
    pub(crate) fn image(&self) -> usize {
        self.height * self.width * self.stride()
    }
}
