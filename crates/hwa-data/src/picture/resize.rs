//! Resizing as torchvision does it on images of Pillow: bilinear, and where it shrinks, over
//! all pixels that a new one covers.
//!
//! Rows are resized before columns and rounded to bytes in between, as in Pillow; the library
//! alone would do it the other way around, and a pixel in ten would be off by one. Weights are
//! whole numbers, so that every CPU gives the same bytes.

use std::fmt;
use std::num::NonZeroUsize;

use fast_image_resize::images::{CroppedImage, Image, ImageRef};
use fast_image_resize::{FilterType, IntoImageView, PixelType, ResizeAlg, ResizeOptions, Resizer};

use super::{Picture, PictureError, Size};

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
        let (height, width) = (self.height, self.width);
        let (shorter, longer) = (height.min(width), height.max(width));
        if shorter == side.get() {
            return Ok(self);
        }
        let longer = side.get().saturating_mul(longer) / shorter;
        let (new_height, new_width) =
            if height < width { (side.get(), longer) } else { (longer, side.get()) };
        let whole = Rectangle { top: 0, left: 0, height, width };
        self.resized_crop(whole, new_height, new_width)
    }

    /// The part in a rectangle, resized to `height` and `width`. What lies outside of it has
    /// no influence. A part that has the size is copied as it is.
    pub fn resized_crop(
        &self,
        rectangle: Rectangle,
        height: usize,
        width: usize,
    ) -> Result<Self, PictureError> {
        self.check(rectangle)?;
        Size { height, width }.check()?;
        // Between the two passes.
        Size { height: rectangle.height, width }.check()?;
        let source =
            ImageRef::new(self.width as u32, self.height as u32, &self.pixels, PixelType::U8x3);
        let source = source.map_err(failed)?;
        let [left, top, columns, rows] =
            [rectangle.left, rectangle.top, rectangle.width, rectangle.height]
                .map(|side| side as u32);
        let part = CroppedImage::new(&source, left, top, columns, rows).map_err(failed)?;
        let mut resizer = Resizer::new();
        let mut image = if columns == width as u32 {
            pass(&mut resizer, &part, height, width)?
        } else {
            pass(&mut resizer, &part, rectangle.height, width)?
        };
        if image.height() != height as u32 {
            image = pass(&mut resizer, &image, height, width)?;
        }
        Picture::new(image.into_vec(), height, width)
    }

    fn check(&self, rectangle: Rectangle) -> Result<(), PictureError> {
        let Rectangle { top, left, height, width } = rectangle;
        let fits = |begin: usize, length: usize, side: usize| {
            length > 0 && begin.checked_add(length).is_some_and(|end| end <= side)
        };
        if fits(top, height, self.height) && fits(left, width, self.width) {
            return Ok(());
        }
        Err(PictureError::Outside { rectangle, height: self.height, width: self.width })
    }
}

/// Resizes in one direction, or copies.
fn pass(
    resizer: &mut Resizer,
    source: &impl IntoImageView,
    height: usize,
    width: usize,
) -> Result<Image<'static>, PictureError> {
    // Sides of checked sizes fit.
    let mut target = Image::new(width as u32, height as u32, PixelType::U8x3);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    resizer.resize(source, &mut target, &options).map_err(failed)?;
    Ok(target)
}

fn failed(reason: impl ToString) -> PictureError {
    PictureError::Resize { reason: reason.to_string() }
}
