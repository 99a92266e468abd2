//! What joins and leaves a block of layers: sums of tensors, and gradients on their own.
//!
//! Most of it happens elsewhere, as a kernel reads or finishes. Here is what is left: the
//! sum at the end of a block, which is stored because two layers read it, and
//! gradients that no kernel finished. Each is one pass through the memory.

use std::ops::Range;

use crate::finish::{Finish, Finisher, Totals};
use crate::parallel;
use crate::read::{Activation, Reader, Source, with_reader};
use crate::simd::{Kernel, Level, Simd, padded};
use crate::span::SpanMut;

/// Numbers that are worth a part of their own.
const PART: usize = 16 * 1024;

/// Numbers of each tensor that are read before the next channels are.
const BLOCK: usize = 4 * 1024;

/// `activation(a + b)`, or `activation(a)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Combine {
    pub level: Level,
    pub channels: usize,
    pub activation: Activation,
}

impl Combine {
    pub(crate) fn forward(&self, a: Source<'_>, b: Option<Source<'_>>, output: &mut [f32]) {
        let width = padded(self.channels);
        in_parts(output, width, |pixels, results| match b {
            Some(b) => with_reader!(a, width, a => with_reader!(b, width, b => {
                self.run(Two(a, b), pixels, results);
            })),
            None => with_reader!(a, width, a => self.run(a, pixels, results)),
        });
    }

    fn run<R: Reader>(&self, reader: R, pixels: Range<usize>, results: &mut [f32]) {
        let (width, bounds) = (padded(self.channels), self.activation.bounds());
        self.level.run(Copied { reader, pixels, width, bounds, results: SpanMut::new(results) });
    }
}

/// Finishes a tensor where it is; gives the sums that were gathered, part by part.
pub(crate) fn finish_only(
    level: Level,
    channels: usize,
    numbers: &mut [f32],
    finish: Finish<'_>,
) -> Vec<Totals> {
    in_parts(numbers, padded(channels), |pixels, results| {
        let mut finisher = Finisher::new(level, finish, channels);
        finisher.run(pixels.start, results);
        finisher.totals()
    })
}

/// Does `work` on ranges of pixels of `width` numbers.
fn in_parts<R: Send>(
    numbers: &mut [f32],
    width: usize,
    work: impl Fn(Range<usize>, &mut [f32]) -> R + Sync + Send,
) -> Vec<R> {
    let parts = parallel::ranges(numbers.len() / width.max(1), numbers.len() / PART);
    let pieces = parallel::split(numbers, parts.iter().map(|part| part.len() * width));
    let items = parts.into_iter().zip(pieces).collect();
    parallel::map(items, |(pixels, piece): (Range<usize>, &mut [f32])| work(pixels, piece))
}

/// The sum of two readers.
#[derive(Clone, Copy)]
struct Two<A, B>(A, B);

impl<A: Reader, B: Reader> Reader for Two<A, B> {
    type Channels<S: Simd> = (A::Channels<S>, B::Channels<S>);

    #[inline(always)]
    unsafe fn channels<S: Simd>(self, c: usize) -> Self::Channels<S> {
        // SAFETY: by contract.
        unsafe { (self.0.channels(c), self.1.channels(c)) }
    }

    #[inline(always)]
    unsafe fn vector<S: Simd>(self, i: usize, (a, b): Self::Channels<S>) -> S {
        // SAFETY: by contract.
        unsafe { self.0.vector::<S>(i, a).add(self.1.vector(i, b)) }
    }

    #[inline(always)]
    fn prefetch<S: Simd>(self, offset: usize, len: usize) {
        self.0.prefetch::<S>(offset, len);
        self.1.prefetch::<S>(offset, len);
    }
}

/// What a reader gives for some pixels, kept within bounds.
struct Copied<'a, R> {
    reader: R,
    pixels: Range<usize>,
    width: usize,
    bounds: [f32; 2],
    /// From the first pixel on.
    results: SpanMut<'a>,
}

impl<R: Reader> Kernel for Copied<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let [low, high] = self.bounds.map(S::splat);
        let block = (BLOCK / self.width).max(1);
        for start in self.pixels.clone().step_by(block) {
            let end = self.pixels.end.min(start + block);
            for c in (0..self.width).step_by(S::LANES) {
                // SAFETY: the tensors hold these pixels, of `width` numbers.
                unsafe {
                    let channels = self.reader.channels::<S>(c);
                    for pixel in start..end {
                        let value = self.reader.vector::<S>(pixel * self.width + c, channels);
                        let value = value.at_least(low).at_most(high);
                        self.results.put((pixel - self.pixels.start) * self.width + c, value);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expected::{Sources, assert_finishes, assert_threads_change_nothing};
    use crate::reference::{error, images};
    use crate::shape::Shape;
    use proptest::prelude::*;

    fn any_shape() -> impl Strategy<Value = Shape> {
        let sizes = (1..4usize, 1..12usize, 1..12usize, 1..131usize);
        sizes.prop_map(|(images, height, width, channels)| Shape {
            images,
            height,
            width,
            channels,
        })
    }

    /// Large enough for several parts.
    const MANY: Shape = Shape { images: 20, height: 9, width: 11, channels: 20 };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn sums_and_activations_are_those_of_what_is_read(
            shape in any_shape(),
            kinds in [0..3usize, 0..4usize],
            limit in 0..3usize,
        ) {
            let (a, b) = (Sources::new(shape, 1), Sources::new(shape, 2));
            let activation = [Activation::None, Activation::Relu, Activation::Relu6][limit];
            let second = (kinds[1] < 3).then_some(kinds[1]);
            let mut expected = a.values(kinds[0]);
            if let Some(kind) = second {
                expected.iter_mut().zip(b.values(kind)).for_each(|(sum, b)| *sum += b);
            }
            for value in &mut expected {
                *value = match activation {
                    Activation::None => *value,
                    Activation::Relu => value.max(0.0),
                    Activation::Relu6 => value.clamp(0.0, 6.0),
                };
            }
            for level in Level::available() {
                let mut found = vec![f32::NAN; shape.len()];
                let combine = Combine { level, channels: shape.channels, activation };
                combine.forward(a.kind(kinds[0]), second.map(|kind| b.kind(kind)), &mut found);
                prop_assert!(error(&found, &expected) < 1e-6, "{}", level);
            }
        }
    }

    #[test]
    fn a_gradient_is_finished_where_it_is() {
        let gradient = images(MANY, 1);
        for level in Level::available() {
            assert_finishes(MANY, |finish| {
                let mut numbers = gradient.clone();
                let totals = finish_only(level, MANY.channels, &mut numbers, finish);
                (numbers, totals)
            });
        }
    }

    #[test]
    fn a_nan_passes_through_every_activation() {
        let mut x = images(MANY, 1);
        x[3] = f32::NAN;
        for level in Level::available() {
            for activation in [Activation::None, Activation::Relu, Activation::Relu6] {
                let combine = Combine { level, channels: MANY.channels, activation };
                let mut found = vec![0.0; x.len()];
                combine.forward(Source::Stored(&x), Some(Source::Stored(&x)), &mut found);
                let nans: Vec<usize> = (0..x.len()).filter(|&i| found[i].is_nan()).collect();
                assert_eq!(nans, [3], "{level} {activation:?}");
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let (level, x) = (Level::best(), images(MANY, 1));
        let combine = Combine { level, channels: MANY.channels, activation: Activation::Relu };
        assert_threads_change_nothing(|| {
            let mut sum = vec![0.0; x.len()];
            combine.forward(Source::Stored(&x), Some(Source::Stored(&x)), &mut sum);
            let totals = finish_only(level, MANY.channels, &mut sum, Finish::MOMENTS);
            (sum, totals)
        });
    }
}
