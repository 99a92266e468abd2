//! The loops of a depthwise convolution, over a band of rows of one image.
//!
//! What is read is put into blocks, one for each group of channels, with the zeros around it
//! that the kernel will see, so that the loops have no borders to look after.

use std::ops::Range;

use crate::finish::{Ending, Gathered, Makes};
use crate::read::Reader;
use crate::simd::{GROUP, Kernel, Simd};
use crate::span::{Ahead, Span, SpanMut};

/// An image as the kernel sees it: pixel `(y, x)` at row `lead[0] + y`, column `lead[1] + x`,
/// and zeros around. Pixels that fall outside are left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub lead: [usize; 2],
    /// Rows and columns.
    pub size: [usize; 2],
}

impl Frame {
    /// Of `count` rows (axis 0) or columns (axis 1) of pixels, those that are not left out.
    pub(super) fn inside(&self, axis: usize, count: usize) -> usize {
        self.size[axis].saturating_sub(self.lead[axis]).min(count)
    }

    /// The numbers of a row of one group.
    pub(super) fn row(&self) -> usize {
        self.size[1] * GROUP
    }
}

/// Pixels that are read together: what is the same for all is loaded once.
const RUN: usize = 4;

/// Puts a band of an image into blocks.
///
/// A few pixels at a time through all channels, as they are stored.
pub(super) struct Fill<'a, R> {
    pub reader: R,
    /// The number of the image's first pixel, and the numbers of a pixel.
    pub first: usize,
    pub stride: usize,
    /// Rows and columns of the image.
    pub image: [usize; 2],
    /// The channels, in whole groups.
    pub channels: Range<usize>,
    pub frame: Frame,
    /// The rows of the frame.
    pub rows: Range<usize>,
    /// One after the other, `block` numbers apart.
    pub blocks: SpanMut<'a>,
    pub block: usize,
}

impl<R: Reader> Kernel for Fill<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for row in self.rows.clone() {
            let place = (row - self.rows.start) * self.frame.row();
            match row.checked_sub(self.frame.lead[0]) {
                Some(y) if y < self.image[0] => self.pixels::<S>(y, place),
                _ => self.zeros::<S>(place, 0..self.frame.size[1]),
            }
        }
    }
}

impl<R: Reader> Fill<'_, R> {
    /// A row of pixels, and the zeros at both ends of it.
    #[inline(always)]
    fn pixels<S: Simd>(&self, y: usize, place: usize) {
        let lead = self.frame.lead[1].min(self.frame.size[1]);
        let inside = self.frame.inside(1, self.image[1]);
        self.zeros::<S>(place, 0..lead);
        let first = self.first + y * self.image[1];
        let mut x = 0;
        // SAFETY: pixels and channels lie within the image, and those `inside` within the block.
        unsafe {
            while x + RUN <= inside {
                self.run_of::<S, RUN>(first + x, place + (lead + x) * GROUP);
                x += RUN;
            }
            for x in x..inside {
                self.run_of::<S, 1>(first + x, place + (lead + x) * GROUP);
            }
        }
        self.zeros::<S>(place, lead + inside..self.frame.size[1]);
    }

    /// `N` pixels along a row, from `pixel` on.
    #[inline(always)]
    unsafe fn run_of<S: Simd, const N: usize>(&self, pixel: usize, place: usize) {
        let Range { start, end } = self.channels;
        for c in (start..end).step_by(S::LANES) {
            let place = (c - start) / GROUP * self.block + place + c % GROUP;
            // SAFETY: as for the caller.
            unsafe {
                let channels = self.reader.channels::<S>(c);
                for i in 0..N {
                    let vector: S = self.reader.vector((pixel + i) * self.stride + c, channels);
                    self.blocks.put(place + i * GROUP, vector);
                }
            }
        }
    }

    /// Zeros in some columns of a row.
    #[inline(always)]
    fn zeros<S: Simd>(&self, place: usize, columns: Range<usize>) {
        for group in 0..self.channels.len() / GROUP {
            for i in (columns.start * GROUP..columns.end * GROUP).step_by(S::LANES) {
                // SAFETY: the block has the row.
                unsafe { self.blocks.put(group * self.block + place + i, S::zero()) }
            }
        }
    }
}

/// Results that are summed in `f32`, to whole rows.
const SUMMED: usize = 64;

/// What a result is a sum of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tap {
    /// The number in a block, if the result's own is zero.
    pub from: usize,
    /// The weight, by its place in the kernel.
    pub place: usize,
}

/// Convolves blocks. `STEP` is the step, or zero for any.
pub(super) struct Convolve<'a, const STEP: usize> {
    /// One for each group, `block` numbers apart.
    pub blocks: Span<'a>,
    pub block: usize,
    pub taps: &'a [Tap],
    /// Numbers in a block from one row of results to the next.
    pub row: usize,
    /// Pixels in a block from one result of a row to the next.
    pub step: usize,
    /// `[place][stride]`, from the first channel on.
    pub weights: Span<'a>,
    pub stride: usize,
    /// The number of the first result.
    pub first: usize,
    /// The first channel.
    pub channel: usize,
    /// Numbers from one row of results to the next, and from one of a row to the next.
    pub result_steps: [usize; 2],
    /// How many channels, in whole groups.
    pub channels: usize,
    /// Rows and columns of the results.
    pub size: [usize; 2],
    /// What comes after; asked for tile by tile.
    pub ahead: &'a Ahead<'a>,
}

impl<'a> Convolve<'a, 0> {
    /// The same, if the step is this.
    pub(super) fn with_step<const STEP: usize>(self) -> Convolve<'a, STEP> {
        let Self { blocks, block, taps, row, step, weights, .. } = self;
        let Self { stride, first, channel, result_steps, channels, size, ahead, .. } = self;
        Convolve {
            blocks,
            block,
            taps,
            row,
            step,
            weights,
            stride,
            first,
            channel,
            result_steps,
            channels,
            size,
            ahead,
        }
    }
}

impl<const STEP: usize> Makes for Convolve<'_, STEP> {
    #[inline(always)]
    fn make<S: Simd>(&self, ending: &mut impl Ending) {
        for c in (0..self.channels).step_by(S::LANES) {
            let mut sums = Gathered::<S>::zero();
            // SAFETY: the blocks have what the taps of `size` results read; there is room
            // for the results.
            unsafe {
                let channels = ending.channels::<S>(self.channel + c);
                for y in 0..self.size[0] {
                    let x = self.tiles::<S, 8, _>([y, 0], c, (ending, channels, &mut sums));
                    let x = self.tiles::<S, 4, _>([y, x], c, (ending, channels, &mut sums));
                    self.tiles::<S, 1, _>([y, x], c, (ending, channels, &mut sums));
                    if (y + 1) % SUMMED.div_ceil(self.size[1]) == 0 {
                        ending.gather(self.channel + c, sums);
                        sums = Gathered::zero();
                    }
                }
                ending.gather(self.channel + c, sums);
            }
        }
    }
}

impl<const STEP: usize> Convolve<'_, STEP> {
    /// As many tiles of `T` results along a row as there are; the column after them.
    #[inline(always)]
    unsafe fn tiles<S: Simd, const T: usize, E: Ending>(
        &self,
        [y, mut x]: [usize; 2],
        c: usize,
        (ending, channels, gathered): (&mut E, E::Channels<S>, &mut Gathered<S>),
    ) -> usize {
        let step = if STEP > 0 { STEP } else { self.step } * GROUP;
        let row = self.blocks.from(c / GROUP * self.block + y * self.row + c % GROUP);
        while x + T <= self.size[1] {
            let mut sums = [S::zero(); T];
            let corner = row.from(x * step);
            if T > 1 {
                self.ahead.step().prefetch_all::<S>();
            }
            // SAFETY: as for the caller.
            unsafe {
                for tap in self.taps {
                    let from = corner.from(tap.from);
                    let weight: S = self.weights.vector(tap.place * self.stride + c);
                    for (t, sum) in sums.iter_mut().enumerate() {
                        *sum = from.vector::<S>(t * step).mul_add(weight, *sum);
                    }
                }
                let [rows, columns] = self.result_steps;
                let first = self.first + y * rows + x * columns + self.channel + c;
                for (t, sum) in sums.into_iter().enumerate() {
                    ending.put(first + t * columns, sum, &channels, gathered);
                }
            }
            x += T;
        }
        x
    }
}

/// Adds the share of a group to the gradient of the weights. `K` is the size of a square
/// kernel, or zero for any other.
pub(super) struct Correlate<'a, const K: usize> {
    /// From the first pixel on that the first gradient's kernel saw.
    pub pixels: Span<'a>,
    /// The numbers of a row of pixels.
    pub pixel_row: usize,
    /// From the first gradient on.
    pub gradients: Span<'a>,
    /// The numbers of a row of gradients.
    pub gradient_row: usize,
    /// Rows and columns of gradients.
    pub size: [usize; 2],
    pub kernel: [usize; 2],
    /// The stride of the convolution.
    pub step: usize,
    /// `[tap][stride]`, from the first channel of the group on.
    pub sums: SpanMut<'a>,
    pub stride: usize,
    /// What comes after; asked for row by row.
    pub ahead: &'a Ahead<'a>,
}

impl<const K: usize> Kernel for Correlate<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for lane in (0..GROUP).step_by(S::LANES) {
            // SAFETY: the blocks hold the gradients and the pixels that the kernel saw there;
            // `sums` has a place for each tap.
            unsafe {
                if K == 3 {
                    // All at once: nine sums, and what they are of, fit the registers.
                    self.taps::<S, 3, 3>([0, 0], lane);
                } else if K > 0 {
                    (0..K).for_each(|ky| self.taps::<S, 1, K>([ky, 0], lane));
                } else {
                    let [rows, columns] = self.kernel;
                    for place in 0..rows * columns {
                        self.taps::<S, 1, 1>([place / columns, place % columns], lane);
                    }
                }
            }
        }
    }
}

impl<const K: usize> Correlate<'_, K> {
    /// The sums of `R` rows of `T` taps side by side.
    #[inline(always)]
    unsafe fn taps<S: Simd, const R: usize, const T: usize>(
        &self,
        [ky, kx]: [usize; 2],
        lane: usize,
    ) {
        let columns = if K > 0 { K } else { self.kernel[1] };
        let step = self.step * GROUP;
        let mut totals = [[S::zero(); T]; R];
        // SAFETY: as for the caller.
        unsafe {
            for y in 0..self.size[0] {
                self.ahead.step().prefetch_all::<S>();
                let from = (y * self.step + ky) * self.pixel_row + kx * GROUP + lane;
                let pixels = self.pixels.from(from);
                let gradients = self.gradients.from(y * self.gradient_row + lane);
                let mut sums = [[S::zero(); T]; R];
                for x in 0..self.size[1] {
                    let gradient: S = gradients.vector(x * GROUP);
                    let pixels = pixels.from(x * step);
                    for (r, sums) in sums.iter_mut().enumerate() {
                        for (t, sum) in sums.iter_mut().enumerate() {
                            let pixel: S = pixels.vector(r * self.pixel_row + t * GROUP);
                            *sum = pixel.mul_add(gradient, *sum);
                        }
                    }
                }
                for (total, sum) in totals.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
                    *total = total.add(*sum);
                }
            }
            for (r, totals) in totals.into_iter().enumerate() {
                for (t, total) in totals.into_iter().enumerate() {
                    let i = ((ky + r) * columns + kx + t) * self.stride + lane;
                    let sum: S = self.sums.read().vector(i);
                    self.sums.put(i, sum.add(total));
                }
            }
        }
    }
}
