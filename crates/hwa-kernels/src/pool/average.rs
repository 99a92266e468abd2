//! The mean of each window. The padding counts, as zeros.

use std::ops::Range;

use super::Windows;
use crate::finish::{Finish, Totals};
use crate::images;
use crate::read::{Reader, Source, with_reader};
use crate::shape::Shape;
use crate::simd::{Kernel, Level, Simd};
use crate::span::SpanMut;

/// Average pooling.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AveragePool {
    pub level: Level,
    pub windows: Windows,
}

impl AveragePool {
    /// Writes the mean of each window.
    pub(crate) fn forward(&self, source: Source<'_>, output: &mut [f32]) {
        let (windows, to) = (self.windows, self.windows.output());
        images::compute((self.level, Finish::NOTHING), to, output, |images, results| {
            let results = SpanMut::new(results);
            with_reader!(source, to.stride(), reader => self.level.run(Means {
                reader, windows, to, images, results,
            }));
        });
    }

    /// The gradient of the input from that of the output; gives the sums that were gathered, part
    /// by part.
    pub(crate) fn backward(
        &self,
        gradient: Source<'_>,
        input: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let (windows, from) = (self.windows, self.windows.output());
        images::compute((self.level, finish), windows.input, input, |images, results| {
            let results = SpanMut::new(results);
            with_reader!(gradient, from.stride(), reader => self.level.run(Shares {
                reader, windows, from, images, results,
            }));
        })
    }
}

/// The means of the windows of some images.
struct Means<'a, R> {
    reader: R,
    windows: Windows,
    to: Shape,
    images: Range<usize>,
    /// From the first image on.
    results: SpanMut<'a>,
}

impl<R: Reader> Kernel for Means<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { windows, to, .. } = self;
        let input = windows.input;
        for (n, image) in self.images.enumerate() {
            for (y, x) in (0..to.height).flat_map(|y| (0..to.width).map(move |x| (y, x))) {
                let row = image * input.height + windows.first(y);
                let sum = Sum {
                    reader: self.reader,
                    corner: row * input.width + windows.first(x),
                    size: [windows.inside(0, y).len(), windows.inside(1, x).len()],
                    width: input.width,
                    stride: input.stride(),
                };
                let result = (n * to.height + y) * to.width + x;
                // SAFETY: what is inside of a window lies in the image, and there is room for
                // all results.
                unsafe { sum.write::<S>(&windows, self.results.from(result * to.stride())) }
            }
        }
    }
}

/// The gradients of the pixels of some images: each its share of every window over it.
struct Shares<'a, R> {
    reader: R,
    windows: Windows,
    from: Shape,
    images: Range<usize>,
    /// From the first image on.
    results: SpanMut<'a>,
}

impl<R: Reader> Kernel for Shares<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { windows, from, .. } = self;
        let to = windows.input;
        for (n, image) in self.images.enumerate() {
            for (y, x) in (0..to.height).flat_map(|y| (0..to.width).map(move |x| (y, x))) {
                let rows = windows.over(0, y, from.height);
                let columns = windows.over(1, x, from.width);
                let sum = Sum {
                    reader: self.reader,
                    corner: (image * from.height + rows.start) * from.width + columns.start,
                    size: [rows.len(), columns.len()],
                    width: from.width,
                    stride: from.stride(),
                };
                let result = (n * to.height + y) * to.width + x;
                // SAFETY: the windows over a pixel exist, and there is room for all results.
                unsafe { sum.write::<S>(&windows, self.results.from(result * to.stride())) }
            }
        }
    }
}

/// The pixels of a rectangle, to be summed.
struct Sum<R> {
    reader: R,
    /// The number of the first pixel.
    corner: usize,
    /// Rows and columns.
    size: [usize; 2],
    /// The pixels of a row of the image.
    width: usize,
    stride: usize,
}

impl<R: Reader> Sum<R> {
    /// Writes the sum, divided by the size of a window.
    ///
    /// # Safety
    ///
    /// The rectangle lies within the tensor, and there is room for a pixel.
    #[inline(always)]
    unsafe fn write<S: Simd>(&self, windows: &Windows, to: SpanMut<'_>) {
        let share = S::splat(1.0 / (windows.kernel[0] * windows.kernel[1]) as f32);
        for c in (0..self.stride).step_by(S::LANES) {
            // SAFETY: by contract.
            unsafe {
                let channels = self.reader.channels::<S>(c);
                let mut sum = S::zero();
                for row in 0..self.size[0] {
                    for column in 0..self.size[1] {
                        let pixel = self.corner + row * self.width + column;
                        sum = sum.add(self.reader.vector(pixel * self.stride + c, channels));
                    }
                }
                to.put(c, sum.mul(share));
            }
        }
    }
}
