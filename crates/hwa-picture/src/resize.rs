//! Resizing as torchvision does it on images of Pillow: bilinear, and where it shrinks, over
//! all pixels that a new one covers.
//!
//! Rows are resized before columns and rounded to bytes in between, as in Pillow; the library
//! alone would do it the other way around, and a pixel in ten would be off by one. Weights are
//! whole numbers, so that every CPU gives the same bytes.

#[cfg(target_arch = "x86_64")]
mod rows;

use std::fmt;
use std::num::NonZeroUsize;

use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};

use super::{CHANNELS, ImageShape, Picture, PictureError, Size};

/// A part of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rectangle {
    /// The first row.
    pub top: usize,
    /// The first column.
    pub left: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl fmt::Display for Rectangle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { top, left, height, width } = self;
        write!(f, "{width} x {height} at column {left}, row {top}")
    }
}

impl Picture {
    /// The whole picture, its shorter side `side` long: torchvision's `Resize(side)`. The
    /// longer side is rounded down. A picture that has the size stays as it is.
    pub fn resize_shorter(self, side: NonZeroUsize) -> Result<Self, PictureError> {
        let (height, width) = shorter_to(side.get(), self.shape());
        if (height, width) == (self.height, self.width) {
            return Ok(self);
        }
        self.resized_crop(Rectangle::whole(self.shape()), height, width)
    }

    /// The part in a rectangle, resized to `height` and `width`. What lies outside of it has
    /// no influence. A part that has the size is copied as it is.
    pub fn resized_crop(
        &self,
        rectangle: Rectangle,
        height: usize,
        width: usize,
    ) -> Result<Self, PictureError> {
        let to = ImageShape { height, width, channels: CHANNELS };
        Picture::new(resized(&self.pixels, self.shape(), rectangle, to)?, height, width)
    }
}

/// The height and width of an image whose shorter side becomes `side` long; the longer one is
/// rounded down.
pub fn shorter_to(side: usize, image: ImageShape) -> (usize, usize) {
    let ImageShape { height, width, .. } = image;
    let (shorter, longer) = (height.min(width).max(1), height.max(width));
    if shorter == side {
        return (height, width);
    }
    let longer = side.saturating_mul(longer) / shorter;
    if height < width { (side, longer) } else { (longer, side) }
}

/// The part of an image in a rectangle, brought to another height and width; the channels are
/// as many, one or three.
pub fn resized(
    pixels: &[u8],
    image: ImageShape,
    part: Rectangle,
    to: ImageShape,
) -> Result<Vec<u8>, PictureError> {
    part.check(image)?;
    Size { height: to.height, width: to.width }.check()?;
    // Between the two passes.
    Size { height: part.height, width: to.width }.check()?;
    // A pixel has a type here: for those that are not known before it runs, the library would
    // have to be compiled for all kinds of pixels that there are.
    match image.channels {
        1 => two_passes::<U8>(pixels, image, part, to),
        CHANNELS => two_passes::<U8x3>(pixels, image, part, to),
        channels => Err(PictureError::Channels { channels }),
    }
}

fn two_passes<P: PixelTrait>(
    pixels: &[u8],
    image: ImageShape,
    part: Rectangle,
    to: ImageShape,
) -> Result<Vec<u8>, PictureError> {
    if part.width == to.width {
        return pass::<P>((pixels, image), part, to);
    }
    let narrow = ImageShape { height: part.height, ..to };
    let rows = match fast_rows(pixels, image, part, to.width) {
        Some(rows) => rows,
        None => pass::<P>((pixels, image), part, narrow)?,
    };
    match narrow == to {
        true => Ok(rows),
        false => pass::<P>((&rows, narrow), Rectangle::whole(narrow), to),
    }
}

/// Rows of another width, if this CPU has instructions for it.
fn fast_rows(pixels: &[u8], image: ImageShape, part: Rectangle, width: usize) -> Option<Vec<u8>> {
    #[cfg(target_arch = "x86_64")]
    if image.channels == CHANNELS && pixels.len() == image.len() {
        return rows::resized(pixels, image, part, width);
    }
    None
}

/// Resizes in one direction, or copies.
fn pass<P: PixelTrait>(
    (pixels, image): (&[u8], ImageShape),
    part: Rectangle,
    to: ImageShape,
) -> Result<Vec<u8>, PictureError> {
    // Sides of checked sizes fit.
    let source = TypedImageRef::<P>::from_buffer(image.width as u32, image.height as u32, pixels);
    let [left, top, columns, rows] =
        [part.left, part.top, part.width, part.height].map(|side| side as u32);
    let source = TypedCroppedImage::new(source.map_err(failed)?, left, top, columns, rows);
    let mut out = vec![0; to.len()];
    let mut target = TypedImage::<P>::from_buffer(to.width as u32, to.height as u32, &mut out)
        .map_err(failed)?;
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    let source = source.map_err(failed)?;
    Resizer::new().resize_typed(&source, &mut target, &options).map_err(failed)?;
    Ok(out)
}

impl Rectangle {
    /// All of an image.
    pub fn whole(ImageShape { height, width, .. }: ImageShape) -> Self {
        Self { top: 0, left: 0, height, width }
    }

    fn check(self, ImageShape { height, width, .. }: ImageShape) -> Result<(), PictureError> {
        let fits = |begin: usize, length: usize, side: usize| {
            length > 0 && begin.checked_add(length).is_some_and(|end| end <= side)
        };
        if fits(self.top, self.height, height) && fits(self.left, self.width, width) {
            return Ok(());
        }
        Err(PictureError::Outside { rectangle: self, height, width })
    }
}

fn failed(reason: impl ToString) -> PictureError {
    PictureError::Resize { reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Also rows at the very end of the memory, and those of a part.
        #[test]
        fn every_cpu_resizes_rows_alike(
            height in 1..4usize, width in 1..90usize, to in 1..90usize,
            left in 0..20usize, top in 0..3usize, seed: u32,
        ) {
            let image = ImageShape { height: top + height, width: left + width, channels: CHANNELS };
            let noise = |at: usize| (at as u32 ^ seed).wrapping_mul(0x9e37_79b1) >> 24;
            let pixels: Vec<u8> = (0..image.len()).map(|at| noise(at) as u8).collect();
            let part = Rectangle { top, left, height, width };
            let narrow = ImageShape { height, width: to, channels: CHANNELS };
            let usual = pass::<U8x3>((&pixels, image), part, narrow).unwrap();
            if let Some(fast) = fast_rows(&pixels, image, part, to) {
                prop_assert_eq!(fast, usual);
            }
        }
    }
}
