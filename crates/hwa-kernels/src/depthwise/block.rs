//! The loops of a depthwise convolution, over some groups of channels of one image.
//!
//! What is read is put into blocks, one for each group, with the zeros around it that the
//! kernel will see, so that the loops have no borders to look after.

use std::ops::Range;

use crate::read::Reader;
use crate::simd::{GROUP, Kernel, Simd};
use crate::span::{Span, SpanMut};

/// Where pixels lie in a block: pixel `(y, x)` at row `lead[0] + y * step`, column
/// `lead[1] + x * step`. All else is zero.
///
/// Pixels that fall outside of the block are left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub lead: [isize; 2],
    pub step: usize,
    /// Rows and columns.
    pub size: [usize; 2],
}

impl Frame {
    pub(super) fn len(&self) -> usize {
        self.size[0] * self.size[1] * GROUP
    }

    /// Of `count` rows (axis 0) or columns (axis 1) of pixels, those inside of the block.
    pub(super) fn inside(&self, axis: usize, count: usize) -> Range<usize> {
        // The pixels before the first at `place` or after it.
        let before = |place: isize| (place.max(0) as usize).div_ceil(self.step);
        let end = before(self.size[axis] as isize - self.lead[axis]).min(count);
        before(-self.lead[axis]).min(end)..end
    }

    /// The number in the block at which a pixel inside of it starts.
    #[inline(always)]
    pub(super) fn at(&self, y: usize, x: usize) -> usize {
        let row = self.lead[0] + (y * self.step) as isize;
        let column = self.lead[1] + (x * self.step) as isize;
        (row as usize * self.size[1] + column as usize) * GROUP
    }
}

/// Puts the pixels of an image into blocks that are zero elsewhere.
///
/// Row by row through all groups, as convolving does: a row of the image is in the cache
/// while its lines are used, however many channels it has.
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
    /// One after the other.
    pub blocks: SpanMut<'a>,
}

impl<R: Reader> Kernel for Fill<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let columns = self.frame.inside(1, self.image[1]);
        let Range { start, end } = self.channels;
        for y in self.frame.inside(0, self.image[0]) {
            for c in (start..end).step_by(S::LANES) {
                let (group, lane) = ((c - start) / GROUP, c % GROUP);
                let block = self.blocks.from(group * self.frame.len() + lane);
                // SAFETY: pixels and channels lie within the image, and those `inside` within
                // the block.
                unsafe {
                    let channels = self.reader.channels::<S>(c);
                    for x in columns.clone() {
                        let pixel = self.first + y * self.image[1] + x;
                        let vector: S = self.reader.vector(pixel * self.stride + c, channels);
                        block.put(self.frame.at(y, x), vector);
                    }
                }
            }
        }
    }
}

/// Convolves blocks. `K` is the size of a square kernel, or zero for any other.
pub(super) struct Convolve<'a, const K: usize> {
    /// One for each group.
    pub blocks: Span<'a>,
    /// Rows and columns of a block.
    pub block: [usize; 2],
    pub kernel: [usize; 2],
    /// From one result to the next in the block.
    pub step: usize,
    /// `[tap][stride]`, from the first channel on.
    pub weights: Span<'a>,
    /// Results, `stride` numbers apart, from the first channel on.
    pub results: SpanMut<'a>,
    pub stride: usize,
    /// How many channels, in whole groups.
    pub channels: usize,
    /// Rows and columns of the results.
    pub size: [usize; 2],
}

impl<const K: usize> Kernel for Convolve<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for y in 0..self.size[0] {
            for c in (0..self.channels).step_by(S::LANES) {
                // SAFETY: the blocks have the pixels of `size` results, `step` apart, under the
                // kernel; there is room for the results.
                unsafe {
                    let x = self.tiles::<S, 8>([y, 0], c);
                    let x = self.tiles::<S, 4>([y, x], c);
                    self.tiles::<S, 1>([y, x], c);
                }
            }
        }
    }
}

impl<const K: usize> Convolve<'_, K> {
    /// As many tiles of `T` results along a row as there are; the column after them.
    #[inline(always)]
    unsafe fn tiles<S: Simd, const T: usize>(&self, [y, mut x]: [usize; 2], c: usize) -> usize {
        let [rows, columns] = if K > 0 { [K, K] } else { self.kernel };
        let [height, width] = self.block;
        let block = self.blocks.from(c / GROUP * height * width * GROUP + c % GROUP);
        while x + T <= self.size[1] {
            let mut sums = [S::zero(); T];
            let corner = (y * width + x) * self.step * GROUP;
            // SAFETY: as for the caller.
            unsafe {
                for ky in 0..rows {
                    for kx in 0..columns {
                        let from = block.from(corner + (ky * width + kx) * GROUP);
                        let weight: S = self.weights.vector((ky * columns + kx) * self.stride + c);
                        for (t, sum) in sums.iter_mut().enumerate() {
                            let pixel: S = from.vector(t * self.step * GROUP);
                            *sum = pixel.mul_add(weight, *sum);
                        }
                    }
                }
                for (t, sum) in sums.into_iter().enumerate() {
                    let pixel = y * self.size[1] + x + t;
                    self.results.put(pixel * self.stride + c, sum);
                }
            }
            x += T;
        }
        x
    }
}

/// Adds the share of a group of an image to the gradient of the weights. `K` as in [`Convolve`].
pub(super) struct Correlate<'a, const K: usize> {
    pub pixels: Span<'a>,
    /// The columns of the block of pixels.
    pub columns: usize,
    pub gradients: Span<'a>,
    pub frame: Frame,
    /// The rows and columns of gradients that are inside of their frame.
    pub inside: [Range<usize>; 2],
    pub kernel: [usize; 2],
    /// The stride of the convolution.
    pub step: usize,
    /// `[tap][GROUP]`: the sums of this image.
    pub image: SpanMut<'a>,
    /// `[tap][stride]`, from the first channel of the group on.
    pub sums: SpanMut<'a>,
    pub stride: usize,
}

impl<const K: usize> Kernel for Correlate<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let [rows, columns] = if K > 0 { [K, K] } else { self.kernel };
        // SAFETY: the blocks hold the gradients inside and the pixels that the kernel saw there;
        // `image` and `sums` have a place for each tap.
        unsafe {
            for i in (0..rows * columns * GROUP).step_by(S::LANES) {
                self.image.put(i, S::zero());
            }
            for y in self.inside[0].clone() {
                for lane in (0..GROUP).step_by(S::LANES) {
                    for ky in 0..rows {
                        if K > 0 {
                            self.row::<S, K>(y, [ky, 0], lane);
                        } else {
                            for kx in 0..columns {
                                self.row::<S, 1>(y, [ky, kx], lane);
                            }
                        }
                    }
                }
            }
            for tap in 0..rows * columns {
                for lane in (0..GROUP).step_by(S::LANES) {
                    let i = tap * self.stride + lane;
                    let sum: S = self.sums.read().vector(i);
                    self.sums.put(i, sum.add(self.image.read().vector(tap * GROUP + lane)));
                }
            }
        }
    }
}

impl<const K: usize> Correlate<'_, K> {
    /// The sums of a row of gradients, for `T` taps side by side.
    #[inline(always)]
    unsafe fn row<S: Simd, const T: usize>(&self, y: usize, [ky, kx]: [usize; 2], lane: usize) {
        let taps = if K > 0 { K } else { self.kernel[1] };
        let corner = ((y * self.step + ky) * self.columns + kx) * GROUP + lane;
        // Two of each: an addition takes longer than the next is away.
        let mut sums = [[S::zero(); T]; 2];
        // SAFETY: as for the caller.
        unsafe {
            let mut one = |x: usize, k: usize| {
                let gradient: S = self.gradients.vector(self.frame.at(y, x) + lane);
                let from = self.pixels.from(corner + x * self.step * GROUP);
                for (t, sum) in sums[k].iter_mut().enumerate() {
                    *sum = from.vector::<S>(t * GROUP).mul_add(gradient, *sum);
                }
            };
            let Range { start, end } = self.inside[1];
            let mut x = start;
            while x + 2 <= end {
                one(x, 0);
                one(x + 1, 1);
                x += 2;
            }
            if x < end {
                one(x, 0);
            }
            let [even, odd] = sums;
            for (t, (even, odd)) in even.into_iter().zip(odd).enumerate() {
                let i = (ky * taps + kx + t) * GROUP + lane;
                let sum: S = self.image.read().vector(i);
                self.image.put(i, sum.add(even.add(odd)));
            }
        }
    }
}
