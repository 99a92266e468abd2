//! Pooling: the largest or the mean of a window, or the mean of an image.
//!
//! ```text
//! max       remembers which pixel of each window was the largest
//! average   divides by the size of the window, padding included
//! global    the mean of every channel of an image
//! ```
//!
//! All as PyTorch has them, with `ceil_mode` off.

mod average;
mod global;
mod max;

use std::ops::Range;

use crate::shape::Shape;

pub(crate) use average::AveragePool;
pub(crate) use global::GlobalAverage;
pub(crate) use max::MaxPool;

/// Windows that move over an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    /// Rows and columns of a window.
    pub kernel: [usize; 2],
    pub stride: usize,
    pub padding: usize,
    /// The images that come in, going forward.
    pub input: Shape,
}

impl Windows {
    /// The images that come out: a pixel for each window.
    pub(crate) fn output(&self) -> Shape {
        self.input.windows(self.kernel, self.stride, self.padding)
    }

    /// The rows (axis 0) or columns (axis 1) of window `i` that lie in the image, counted
    /// from the first of the window.
    #[inline(always)]
    fn inside(&self, axis: usize, i: usize) -> Range<usize> {
        let size = [self.input.height, self.input.width][axis];
        let before = self.padding.saturating_sub(i * self.stride);
        let end = (size + self.padding).saturating_sub(i * self.stride).min(self.kernel[axis]);
        before.min(end)..end
    }

    /// The row or column of the image that is the first of [`inside`](Self::inside).
    #[inline(always)]
    fn first(&self, i: usize) -> usize {
        (i * self.stride).saturating_sub(self.padding)
    }

    /// Of `count` windows along an axis, those that pixel `i` lies in.
    #[inline(always)]
    fn over(&self, axis: usize, i: usize, count: usize) -> Range<usize> {
        let end = ((i + self.padding) / self.stride + 1).min(count);
        let start = (i + self.padding + 1).saturating_sub(self.kernel[axis]).div_ceil(self.stride);
        start.min(end)..end
    }
}

#[cfg(test)]
mod tests;
