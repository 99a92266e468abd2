//! Passes over whole tensors: sums with their activation, and finishing by itself.

use std::ops::Range;

use crate::finish::{Finish, Finisher, Totals};
use crate::parallel;
use crate::read::{Activation, Reader, Source, with_reader};
use crate::shape::Shape;
use crate::simd::{Kernel, Level, Simd};
use crate::span::SpanMut;

/// Pixels of a part, at least.
const PIXELS: usize = 1024;

/// A pass over a tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Combine {
    pub level: Level,
    pub shape: Shape,
}

impl Combine {
    /// `output = activation(a + b)`.
    pub(crate) fn forward(
        &self,
        a: Source<'_>,
        b: Option<Source<'_>>,
        activation: Activation,
        output: &mut [f32],
    ) {
        let width = self.shape.stride();
        a.check(self.shape.len(), width);
        b.iter().for_each(|b| b.check(self.shape.len(), width));
        assert_eq!(output.len(), self.shape.len());
        self.parts(output, |pixels, output| {
            let (first, count) = (pixels.start * width, pixels.end - pixels.start);
            let output = SpanMut::new(output);
            let bounds = activation.bounds();
            with_reader!(a, width, a => match b {
                Some(b) => with_reader!(b, width, b => self.level.run(Sum {
                    a, b, output, first, count, width, bounds,
                })),
                None => self.level.run(Copy { a, output, first, count, width, bounds }),
            });
        });
    }

    /// Finishes numbers that no kernel has finished.
    pub(crate) fn finish(&self, numbers: &mut [f32], finish: Finish<'_>) -> Vec<Totals> {
        finish.check(self.shape);
        assert_eq!(numbers.len(), self.shape.len());
        self.parts(numbers, |pixels, numbers| {
            let mut finisher = Finisher::new(self.level, finish, self.shape.channels);
            finisher.run(pixels.start, numbers);
            finisher.totals()
        })
    }

    /// Runs `work` on the pixels of each part.
    fn parts<R: Send>(
        &self,
        numbers: &mut [f32],
        work: impl Fn(Range<usize>, &mut [f32]) -> R + Sync + Send,
    ) -> Vec<R> {
        let pixels = self.shape.pixels();
        let parts = parallel::ranges(pixels, pixels / PIXELS);
        let lens = parts.iter().map(|part| (part.end - part.start) * self.shape.stride());
        let pieces = parallel::split(numbers, lens);
        let items = parts.into_iter().zip(pieces).collect();
        parallel::map(items, |(pixels, piece): (Range<usize>, &mut [f32])| work(pixels, piece))
    }
}

struct Sum<'a, A, B> {
    a: A,
    b: B,
    output: SpanMut<'a>,
    /// The number in the tensors at which the output begins.
    first: usize,
    /// Pixels.
    count: usize,
    width: usize,
    bounds: [f32; 2],
}

impl<A: Reader, B: Reader> Kernel for Sum<'_, A, B> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let [low, high] = self.bounds.map(S::splat);
        blocks(
            self.count,
            self.width,
            |pixels, c| {
                // SAFETY: the tensors hold `first` and `count * width` numbers after it, the output
                // `count * width`.
                unsafe {
                    let (a, b) = (self.a.channels::<S>(c), self.b.channels::<S>(c));
                    for pixel in pixels {
                        let i = pixel * self.width + c;
                        let x: S = self.a.vector(self.first + i, a);
                        let x = x.add(self.b.vector(self.first + i, b));
                        self.output.put(i, x.at_least(low).at_most(high));
                    }
                }
            },
            S::LANES,
        );
    }
}

struct Copy<'a, A> {
    a: A,
    output: SpanMut<'a>,
    first: usize,
    count: usize,
    width: usize,
    bounds: [f32; 2],
}

impl<A: Reader> Kernel for Copy<'_, A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let [low, high] = self.bounds.map(S::splat);
        blocks(
            self.count,
            self.width,
            |pixels, c| {
                // SAFETY: as for `Sum`.
                unsafe {
                    let a = self.a.channels::<S>(c);
                    for pixel in pixels {
                        let i = pixel * self.width + c;
                        let x: S = self.a.vector(self.first + i, a);
                        self.output.put(i, x.at_least(low).at_most(high));
                    }
                }
            },
            S::LANES,
        );
    }
}

/// Calls `work` for each vector of channels of a few pixels: a cache's worth at a time.
#[inline(always)]
fn blocks(count: usize, width: usize, work: impl Fn(Range<usize>, usize), lanes: usize) {
    let few = (2048 / width).max(1);
    for start in (0..count).step_by(few) {
        for c in (0..width).step_by(lanes) {
            work(start..count.min(start + few), c);
        }
    }
}
