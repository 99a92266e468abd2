//! The largest of each window, and the gradient for the pixel it came from.

use std::ops::Range;

use super::Windows;
use crate::finish::{Finish, Totals};
use crate::images;
use crate::memory::with_scratch;
use crate::parallel;
use crate::pixels::Pixels;
use crate::read::{Reader, Source, with_reader};
use crate::shape::Shape;
use crate::simd::{GROUP, Kernel, Level, Simd};
use crate::span::SpanMut;

/// Max pooling, with windows of up to 256 pixels.
///
/// As in PyTorch, the first of equal pixels counts, a NaN is larger than all else, and the padding
/// is at most half of a window, so that no window is without a pixel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaxPool {
    pub level: Level,
    pub windows: Windows,
}

impl MaxPool {
    /// Writes the largest of each window, and the place in its window, row by row.
    pub(crate) fn forward(&self, source: Source<'_>, output: &mut [f32], places: &mut [u8]) {
        let (level, windows, to) = (self.level, self.windows, self.windows.output());
        debug_assert!(windows.kernel.iter().all(|&size| 2 * windows.padding <= size));
        debug_assert!(windows.kernel[0] * windows.kernel[1] <= 256);
        let parts = images::parts(to);
        let pieces = images::split(to, &parts, output);
        let mut rest = places;
        let mut items = Vec::new();
        for (images, results) in parts.into_iter().zip(pieces) {
            let (places, after) = std::mem::take(&mut rest).split_at_mut(results.len());
            rest = after;
            items.push((images, results, places));
        }
        parallel::map(items, |(images, results, places): (Range<usize>, &mut [f32], &mut [u8])| {
            let results = SpanMut::new(results);
            with_reader!(source, to.stride(), reader => level.run(Largest {
                reader, windows, to, images, results, places,
            }));
        });
    }

    /// The gradient of the input from that of the output; gives the sums that were gathered, part
    /// by part.
    pub(crate) fn backward(
        &self,
        gradient: Source<'_>,
        places: &[u8],
        input: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let from = self.windows.output();
        let (shape, row) = (self.windows.input, from.width * from.stride());
        images::compute((self.level, finish), shape, input, |images, results| {
            results.fill(0.0);
            with_scratch([row], |[gradients]| {
                for (image, result) in images.zip(results.chunks_mut(shape.image().max(1))) {
                    for y in 0..from.height {
                        let first = (image * from.height + y) * from.width;
                        let pixels = Pixels { first, step: 1, stride: from.stride() };
                        pixels.read(self.level, gradient, gradients);
                        self.scatter(gradients, &places[first * from.stride()..][..row], y, result);
                    }
                }
            });
        })
    }

    /// Adds the gradients of row `y` of windows to the pixels of an image.
    fn scatter(&self, gradients: &[f32], places: &[u8], y: usize, image: &mut [f32]) {
        let Windows { kernel, stride, padding, input } = self.windows;
        let width = input.stride();
        // From the first pixel of a window, which may lie in the padding, to each of its pixels.
        let steps: Vec<isize> = (0..kernel[0] * kernel[1])
            .map(|place| ((place / kernel[1] * input.width + place % kernel[1]) * width) as isize)
            .collect();
        let row = (y * stride) as isize - padding as isize;
        let windows = gradients.chunks(width).zip(places.chunks(width));
        for (x, (gradients, places)) in windows.enumerate() {
            let column = (x * stride) as isize - padding as isize;
            let corner = (row * input.width as isize + column) * width as isize;
            for (c, (gradient, &place)) in (corner..).zip(gradients.iter().zip(places)) {
                image[(c + steps[usize::from(place)]) as usize] += gradient;
            }
        }
    }
}

/// The largest of each window of some images.
struct Largest<'a, R> {
    reader: R,
    windows: Windows,
    to: Shape,
    images: Range<usize>,
    /// From the first image on.
    results: SpanMut<'a>,
    places: &'a mut [u8],
}

impl<R: Reader> Kernel for Largest<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self) {
        for image in self.images.clone() {
            for y in 0..self.to.height {
                for x in 0..self.to.width {
                    for c in (0..self.to.stride()).step_by(S::LANES) {
                        // SAFETY: the pixels of windows that are inside lie in the image, and
                        // there is room for all results.
                        unsafe { self.window::<S>(image, [y, x], c) }
                    }
                }
            }
        }
    }
}

impl<R: Reader> Largest<'_, R> {
    #[inline(always)]
    unsafe fn window<S: Simd>(&mut self, image: usize, [y, x]: [usize; 2], c: usize) {
        let Windows { kernel, input, .. } = self.windows;
        let (rows, columns) = (self.windows.inside(0, y), self.windows.inside(1, x));
        let corner =
            (image * input.height + self.windows.first(y)) * input.width + self.windows.first(x);
        let mut largest = S::splat(f32::NEG_INFINITY);
        let mut place = S::splat((rows.start * kernel[1] + columns.start) as f32);
        // SAFETY: as for the caller.
        unsafe {
            let channels = self.reader.channels::<S>(c);
            for (j, ky) in rows.enumerate() {
                for (i, kx) in columns.clone().enumerate() {
                    let pixel = corner + j * input.width + i;
                    let value: S = self.reader.vector(pixel * input.stride() + c, channels);
                    let here = S::splat((ky * kernel[1] + kx) as f32);
                    place = here.if_larger(place, value, largest);
                    largest = value.if_larger(largest, value, largest);
                }
            }
            let first = self.images.start * self.to.height;
            let result = (image * self.to.height + y - first) * self.to.width + x;
            let at = result * self.to.stride() + c;
            self.results.put(at, largest);
            let mut numbers = [0.0; GROUP];
            place.store(numbers.as_mut_ptr());
            let places = &mut self.places[at..at + S::LANES];
            places.iter_mut().zip(numbers).for_each(|(to, number)| *to = number as u8);
        }
    }
}
