//! Pictures as they come from disk: decoded by their content, turned upright, resized.
//!
//! A [`Picture`] is what `Image.open(file).convert("RGB")` and `exif_transpose` of Pillow
//! give: three channels of bytes, without transparency, the way up that its maker meant.
//! What is read how, and what is refused, is decision 0021.

mod decode;
mod error;
mod format;
mod jpeg;
mod resize;
mod shape;

pub use error::PictureError;
pub use resize::{Rectangle, resized, shorter_to};
pub use shape::ImageShape;

/// More pixels than this are refused before memory is taken for them. Decoding takes up to
/// sixteen bytes a pixel.
pub const MAX_PIXELS: usize = 100_000_000;

/// The longest side of a picture.
const MAX_SIDE: usize = 65_535;

/// Red, green and blue.
const CHANNELS: usize = 3;

/// A picture in colour: rows from the top, in each a byte of red, green and blue a pixel.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    pixels: Vec<u8>,
    height: usize,
    width: usize,
}

impl Picture {
    /// A picture of these bytes.
    pub fn new(pixels: Vec<u8>, height: usize, width: usize) -> Result<Self, PictureError> {
        let size = Size { height, width };
        size.check()?;
        if pixels.len() != size.bytes() {
            return Err(PictureError::PixelsDiffer { height, width, found: pixels.len() });
        }
        Ok(Self { pixels, height, width })
    }

    /// The picture in a file's bytes: JPEG, PNG, GIF (its first frame), BMP, WebP or TIFF.
    pub fn decode(bytes: &[u8]) -> Result<Self, PictureError> {
        decode::decode(bytes)
    }

    /// How many pixels a file announces, by its head alone. That says
    /// nothing about whether it can be decoded.
    pub fn announced_pixels(bytes: &[u8]) -> Result<usize, PictureError> {
        let Size { height, width } = decode::announced(bytes)?;
        Ok(height.saturating_mul(width))
    }

    /// Three bytes a pixel.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The bytes alone.
    pub fn into_pixels(self) -> Vec<u8> {
        self.pixels
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Height, width and three channels.
    pub fn shape(&self) -> ImageShape {
        ImageShape { height: self.height, width: self.width, channels: CHANNELS }
    }
}

impl std::fmt::Debug for Picture {
    /// Without the pixels.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Picture({})", self.shape())
    }
}

/// A size that a file claims or a caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    height: usize,
    width: usize,
}

impl Size {
    /// Whether a picture can have this size.
    fn check(self) -> Result<(), PictureError> {
        let Self { height, width } = self;
        if height == 0 || width == 0 {
            return Err(PictureError::NoPixels { height, width });
        }
        if height.max(width) > MAX_SIDE || height.saturating_mul(width) > MAX_PIXELS {
            return Err(PictureError::TooLarge { height, width });
        }
        Ok(())
    }

    /// Of a size that was checked.
    fn bytes(self) -> usize {
        self.height * self.width * CHANNELS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_fill_their_size() {
        assert_eq!(Picture::new(vec![0; 18], 2, 3).unwrap().shape().to_string(), "2x3x3");
        let short = Picture::new(vec![0; 17], 2, 3).unwrap_err();
        assert_eq!(short, PictureError::PixelsDiffer { height: 2, width: 3, found: 17 });
    }

    #[test]
    fn sizes_without_pixels_or_with_too_many_are_refused() {
        let check = |height, width| Size { height, width }.check();
        assert_eq!(check(0, 5), Err(PictureError::NoPixels { height: 0, width: 5 }));
        assert_eq!(check(10_000, 10_000), Ok(()));
        let (height, width) = (10_000, 10_001);
        assert_eq!(check(height, width), Err(PictureError::TooLarge { height, width }));
        assert_eq!(check(1, 65_535), Ok(()));
        let (height, width) = (1, 65_536);
        assert_eq!(check(height, width), Err(PictureError::TooLarge { height, width }));
        assert!(check(usize::MAX, usize::MAX).is_err());
    }
}
