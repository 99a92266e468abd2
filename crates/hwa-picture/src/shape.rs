//! How large an image is.

use std::fmt;

use serde::Serialize;

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
