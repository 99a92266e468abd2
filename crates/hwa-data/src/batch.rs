//! A batch: normalised images and their labels.

use crate::dataset::ImageShape;

/// Images as `f32` in `[N, H, W, C]` order, contiguous, with their labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// `labels.len() * shape.len()` values.
    pub images: Vec<f32>,
    /// The class of each image.
    pub labels: Vec<u32>,
    /// The shape of one image.
    pub shape: ImageShape,
}

impl Batch {
    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}
