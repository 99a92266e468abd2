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
        self.read_padded(level, source, (self.stride, to));
    }

    /// As [`read`](Self::read), to pixels of `width` numbers, the padded channels. Of pixels that
    /// are stored without padding, what comes next in memory stands in it.
    pub(crate) fn read_padded(
        self,
        level: Level,
        source: Source<'_>,
        (width, to): (usize, &mut [f32]),
    ) {
        let count = to.len() / width.max(1);
        let to = SpanMut::new(to);
        with_reader!(source, width, reader => level.run(Read {
            reader, pixels: self, width, count, to,
        }));
    }
}

struct Read<'a, R> {
    reader: R,
    pixels: Pixels,
    width: usize,
    count: usize,
    to: SpanMut<'a>,
}

impl<R: Reader> Kernel for Read<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Pixels { first, step, stride } = self.pixels;
        for c in (0..self.width).step_by(S::LANES) {
            // SAFETY: the tensor holds the pixels, and after the last the rest of its padding or a
            // group to spare; there is room for `count` of them.
            unsafe {
                let channels = self.reader.channels::<S>(c);
                for i in 0..self.count {
                    let from = (first + i * step) * stride + c;
                    self.to.put(i * self.width + c, self.reader.vector::<S>(from, channels));
                }
            }
        }
    }
}
