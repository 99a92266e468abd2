//! The mean of every channel of an image: what the classifier reads.

use std::ops::Range;

use crate::finish::{Finish, Totals};
use crate::images;
use crate::parallel;
use crate::read::{Reader, Source, with_reader};
use crate::shape::Shape;
use crate::simd::{GROUP, Kernel, Level, Simd};

/// `[N, H, W, C] -> [N, C]`, the latter without padding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalAverage {
    pub level: Level,
    /// The images that come in, going forward.
    pub input: Shape,
}

impl GlobalAverage {
    /// Writes the means, a row of `C` for each image.
    pub(crate) fn forward(&self, source: Source<'_>, output: &mut [f32]) {
        let shape = self.input;
        let parts = images::parts(shape);
        let pieces = parallel::split(output, parts.iter().map(|p| p.len() * shape.channels));
        let items = parts.into_iter().zip(pieces).collect();
        parallel::map(items, |(images, means): (Range<usize>, &mut [f32])| {
            with_reader!(source, shape.stride(), reader => self.level.run(Means {
                reader, shape, images, means,
            }));
        });
    }

    /// The gradient of the input from rows of `C` numbers; gives the sums that were gathered,
    /// part by part.
    pub(crate) fn backward(
        &self,
        gradient: &[f32],
        input: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let (shape, channels) = (self.input, self.input.channels);
        let share = 1.0 / (shape.height * shape.width) as f32;
        images::compute((self.level, finish), shape, input, |images, results| {
            let rows = gradient[images.start * channels..].chunks(channels.max(1));
            for (image, row) in results.chunks_mut(shape.image().max(1)).zip(rows) {
                let Some((first, others)) = image.split_at_mut_checked(shape.stride()) else {
                    continue;
                };
                first.iter_mut().zip(row).for_each(|(to, gradient)| *to = gradient * share);
                first[channels..].fill(0.0);
                others.chunks_mut(first.len()).for_each(|pixel| pixel.copy_from_slice(first));
            }
        })
    }
}

/// The means of some images.
struct Means<'a, R> {
    reader: R,
    shape: Shape,
    images: Range<usize>,
    /// Rows of as many numbers as there are channels.
    means: &'a mut [f32],
}

impl<R: Reader> Kernel for Means<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { reader, shape, .. } = self;
        let share = S::splat(1.0 / (shape.height * shape.width) as f32);
        for (image, means) in self.images.zip(self.means.chunks_mut(shape.channels.max(1))) {
            for c in (0..shape.stride()).step_by(S::LANES) {
                let mut total = S::zero();
                let mut numbers = [0.0; GROUP];
                // SAFETY: the pixels lie in the image; a group has room for a vector.
                unsafe {
                    let channels = reader.channels::<S>(c);
                    // Row by row: sums of sums round less.
                    for row in 0..shape.height {
                        let first = (image * shape.height + row) * shape.width;
                        let mut sum = S::zero();
                        for pixel in first..first + shape.width {
                            sum = sum.add(reader.vector(pixel * shape.stride() + c, channels));
                        }
                        total = total.add(sum);
                    }
                    total.mul(share).store(numbers.as_mut_ptr());
                }
                let lanes = numbers.into_iter().take(S::LANES);
                means.iter_mut().skip(c).zip(lanes).for_each(|(mean, number)| *mean = number);
            }
        }
    }
}
