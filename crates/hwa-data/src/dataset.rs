//! What a data set is: examples by number.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

use crate::error::DataError;

/// Height, width and channels of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct ImageShape {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// 1 for grey, 3 for colour.
    pub channels: usize,
}

impl ImageShape {
    /// The number of values of one image.
    pub fn len(&self) -> usize {
        // Saturating: an absurd shape fails the comparison with real pixels.
        self.height.saturating_mul(self.width).saturating_mul(self.channels)
    }

    /// Whether an image has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for ImageShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.height, self.width, self.channels)
    }
}

/// One image, as bytes in `[H, W, C]` order, and its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example<'a> {
    /// `shape.len()` bytes.
    pub pixels: Cow<'a, [u8]>,
    /// The shape of the image.
    pub shape: ImageShape,
    /// The class, below the data set's number of classes.
    pub label: u32,
}

/// Labelled images by number.
pub trait Dataset: Send + Sync {
    /// How many examples there are.
    fn num_examples(&self) -> usize;

    /// How many classes there are.
    fn num_classes(&self) -> usize;

    /// The class of an example, without decoding its image.
    fn label(&self, index: usize) -> Result<u32, DataError>;

    /// One example.
    fn get(&self, index: usize) -> Result<Example<'_>, DataError>;
}
