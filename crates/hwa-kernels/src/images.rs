//! Results image by image, finished while they are in the cache.
//!
//! Kernels that need no blocks of their own work on whole images: a part of the images
//! for each piece of work, and in it a few images at a time, which are finished before
//! the next are begun.

use std::ops::Range;

use crate::finish::{Finish, Finisher, Place, Totals};
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

/// Images in bands of rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bands {
    pub shape: Shape,
    /// Rows of a band, at least one.
    pub rows: usize,
}

impl Bands {
    /// The rows of the bands of an image.
    pub(crate) fn of_image(self) -> impl Iterator<Item = Range<usize>> {
        let (height, rows) = (self.shape.height, self.rows);
        (0..height).step_by(rows).map(move |start| start..height.min(start + rows))
    }

    /// Runs `work` on each band of the images of a part, of which `piece` holds the results,
    /// and finishes what it makes.
    pub(crate) fn finish(
        self,
        (level, finish): (Level, Finish<'_>),
        (images, piece): (Range<usize>, &mut [f32]),
        mut work: impl FnMut(usize, Range<usize>, &mut Place<'_, '_>),
    ) -> Totals {
        let Shape { height, width, .. } = self.shape;
        let mut finisher = Finisher::new(level, finish, self.shape.channels).of(self.shape.len());
        let mut rest = piece;
        for image in images {
            for band in self.of_image() {
                let first = (image * height + band.start) * width;
                let len = band.len() * width * self.shape.stride();
                let (results, after) = std::mem::take(&mut rest).split_at_mut(len);
                finisher.make_by(first, results, |place| work(image, band, place));
                rest = after;
            }
        }
        finisher.totals()
    }

    /// Runs `work` on all bands and finishes what it wrote; gives the sums, part by part.
    pub(crate) fn compute(
        self,
        finish: (Level, Finish<'_>),
        results: &mut [f32],
        work: impl Fn(usize, Range<usize>, &mut Place<'_, '_>) + Sync + Send,
    ) -> Vec<Totals> {
        let parts = parts(self.shape);
        let pieces = split(self.shape, &parts, results);
        let items = parts.into_iter().zip(pieces).collect();
        parallel::map(items, |part| self.finish(finish, part, &work))
    }
}

/// A few images at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Few {
    pub shape: Shape,
    /// How many, at least one.
    pub images: usize,
}

impl Few {
    /// The images of a part.
    pub(crate) fn of(self, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let end = part.end;
        part.step_by(self.images).map(move |start| start..end.min(start + self.images))
    }

    /// Runs `work` on the images of a part, of which `piece` holds the results, a few at a time,
    /// and finishes what it wrote.
    pub(crate) fn finish(
        self,
        (level, finish): (Level, Finish<'_>),
        (part, piece): (Range<usize>, &mut [f32]),
        mut work: impl FnMut(Range<usize>, &mut [f32]),
    ) -> Totals {
        let shape = self.shape;
        let mut finisher = Finisher::new(level, finish, shape.channels).of(shape.len());
        let (pixels, first) = (shape.height * shape.width, part.start);
        for images in self.of(part) {
            let results =
                (images.start - first) * shape.image()..(images.end - first) * shape.image();
            let pixel = images.start * pixels;
            finisher.make(pixel, &mut piece[results], |results| work(images, results));
        }
        finisher.totals()
    }
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
    let few = Few { shape, images: PIXELS.div_ceil((shape.height * shape.width).max(1)) };
    parallel::map(items, |part| few.finish((level, finish), part, &work))
}

impl Shape {
    /// The numbers stored for an image.
    pub(crate) fn image(&self) -> usize {
        self.height * self.width * self.stride()
    }
}
