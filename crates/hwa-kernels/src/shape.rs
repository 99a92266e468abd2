//! The size of a batch of images.

use crate::simd::padded;

/// `[images, height, width, channels]`, stored in that order with the channels padded to
/// whole groups.
///
/// What is stored in the padding is zero, and every kernel keeps it so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The number of images.
    pub images: usize,
    /// Rows of an image.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Numbers of a pixel.
    pub channels: usize,
}

impl Shape {
    /// The pixels of all images.
    pub fn pixels(&self) -> usize {
        self.images * self.height * self.width
    }

    /// A pixel for each window of `kernel` rows and columns that moves over the images by
    /// `stride`, with `padding` on each side; none where the window does not fit.
    pub(crate) fn windows(&self, kernel: [usize; 2], stride: usize, padding: usize) -> Self {
        let along = |size: usize, kernel: usize| {
            (size + 2 * padding).checked_sub(kernel).map_or(0, |free| free / stride + 1)
        };
        let (height, width) = (along(self.height, kernel[0]), along(self.width, kernel[1]));
        Self { height, width, ..*self }
    }

    /// The numbers stored for a pixel.
    pub fn stride(&self) -> usize {
        padded(self.channels)
    }

    /// The numbers stored for all images.
    pub fn len(&self) -> usize {
        self.pixels() * self.stride()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
