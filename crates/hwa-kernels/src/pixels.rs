//! Pixels of a source, put side by side where plain loops can work on them.

use crate::read::{Reader, Source, with_reader};
use crate::simd::{Kernel, Level, Simd};
use crate::span::SpanMut;

/// Pixels `step` apart from the `first` on, each of `stride` numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pixels {
    pub first: usize,
    pub step: usize,
    pub stride: usize,
}

impl Pixels {
    /// Reads as many pixels as `to` has room for.
    pub(crate) fn read(self, level: Level, source: Source<'_>, to: &mut [f32]) {
        let count = to.len() / self.stride.max(1);
        let to = SpanMut::new(to);
        with_reader!(source, self.stride, reader => level.run(Read {
            reader, pixels: self, count, to,
        }));
    }
}

struct Read<'a, R> {
    reader: R,
    pixels: Pixels,
    count: usize,
    to: SpanMut<'a>,
}

impl<R: Reader> Kernel for Read<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Pixels { first, step, stride } = self.pixels;
        for c in (0..stride).step_by(S::LANES) {
            // SAFETY: the tensor holds the pixels, and there is room for `count` of them.
            unsafe {
                let channels = self.reader.channels::<S>(c);
                for i in 0..self.count {
                    let from = (first + i * step) * stride + c;
                    self.to.put(i * stride + c, self.reader.vector::<S>(from, channels));
                }
            }
        }
    }
}
