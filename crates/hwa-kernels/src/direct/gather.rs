//! What a convolution multiplies, gathered: for each result a row with the channels of
//! all its taps.
//!
//! The row of a result lies in the cache when the product reads it, so the copy is
//! cheap: one load and store per vector that is then multiplied by all columns.

use std::ops::Range;

use crate::read::Reader;
use crate::shape::Shape;
use crate::simd::{Kernel, Simd};
use crate::span::SpanMut;

/// Results that are gathered together: what is the same for all pixels is loaded once.
const RUN: usize = 4;

/// Results in rows and columns, and where each finds what it is made of.
///
/// Tap `t` of the result at row `y`, column `x` reads the pixel at row `y * step +
/// taps[t].y`, column `x * step + taps[t].x`; outside of the image that is zero.
#[derive(Debug, Clone)]
pub(super) struct Lattice {
    pub height: usize,
    pub width: usize,
    pub step: usize,
    pub taps: Vec<Tap>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tap {
    pub y: isize,
    pub x: isize,
    /// Its place in the kernel.
    pub place: usize,
}

impl Lattice {
    pub(super) fn len(&self) -> usize {
        self.height * self.width
    }
}

/// Gathers the taps of some results.
pub(super) struct Gather<'a, R> {
    pub reader: R,
    /// What is read.
    pub from: Shape,
    /// Numbers from one pixel to the next.
    pub stride: usize,
    pub lattice: &'a Lattice,
    /// Some of the lattice's taps.
    pub taps: Range<usize>,
    /// Counted through all images.
    pub results: Range<usize>,
    /// Rows of `row_step` numbers, with a group to spare after the last tap.
    pub rows: SpanMut<'a>,
    pub row_step: usize,
}

impl<R: Reader> Kernel for Gather<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let mut at = self.results.start;
        while at < self.results.end {
            let (image, within) = (at / self.lattice.len(), at % self.lattice.len());
            let (y, x) = (within / self.lattice.width, within % self.lattice.width);
            let count = (self.results.end - at).min(self.lattice.width - x);
            // In this order: a tap's last vector may reach into the next tap, which then
            // puts its own there.
            for number in self.taps.clone() {
                self.tap::<S>(number, [image, y, x], at - self.results.start, count);
            }
            at += count;
        }
    }
}

impl<R: Reader> Gather<'_, R> {
    /// One tap of `count` results along a row, the first at `[image, y, x]`, to rows from `row` on.
    #[inline(always)]
    fn tap<S: Simd>(&self, number: usize, [image, y, x]: [usize; 3], row: usize, count: usize) {
        let tap = self.lattice.taps[number];
        let (step, width) = (self.lattice.step as isize, self.from.width as isize);
        let to =
            self.rows.from(row * self.row_step + (number - self.taps.start) * self.from.channels);
        let source = y as isize * step + tap.y;
        let first = x as isize * step + tap.x;
        // Results `lower..upper` read inside of the image.
        let inside = (0..self.from.height as isize).contains(&source);
        let ceiling = |pixels: isize| (pixels.max(0) + step - 1) / step;
        let upper = if inside { ceiling(width - first).min(count as isize) } else { 0 };
        let lower = ceiling(-first).min(upper);
        let (lower, upper) = (lower as usize, upper as usize);
        let pixels = (image * self.from.height) as isize + source;
        // SAFETY: pixels that are read lie inside of the image, and a vector from its
        // last channel on within the tensor or the group to spare after it; rows have room
        // for the taps and a group.
        unsafe {
            for i in (0..lower).chain(upper..count) {
                for c in (0..self.from.channels).step_by(S::LANES) {
                    to.put(i * self.row_step + c, S::zero());
                }
            }
            let pixel = |i: usize| (pixels * width + first + i as isize * step) as usize;
            let mut i = lower;
            while i + RUN <= upper {
                self.pixels::<S, RUN>(pixel(i), to.from(i * self.row_step));
                i += RUN;
            }
            for i in i..upper {
                self.pixels::<S, 1>(pixel(i), to.from(i * self.row_step));
            }
        }
    }

    /// The channels of `N` results along a row, the first of which reads `pixel`.
    #[inline(always)]
    unsafe fn pixels<S: Simd, const N: usize>(&self, pixel: usize, to: SpanMut<'_>) {
        for c in (0..self.from.channels).step_by(S::LANES) {
            // SAFETY: as for the caller.
            unsafe {
                let channels = self.reader.channels::<S>(c);
                for i in 0..N {
                    let from = (pixel + i * self.lattice.step) * self.stride + c;
                    to.put(i * self.row_step + c, self.reader.vector::<S>(from, channels));
                }
            }
        }
    }
}
