//! From a file's bytes to a picture: which decoder, what becomes of other kinds of pixels.

use std::io::{Cursor, ErrorKind};

use image::metadata::Orientation;
use image::{
    ColorType, DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, RgbImage,
};

use super::format::{Format, recognise};
use super::{CHANNELS, MAX_PIXELS, Picture, PictureError, Size, jpeg};

/// The picture in a file, upright.
pub(super) fn decode(bytes: &[u8]) -> Result<Picture, PictureError> {
    match recognise(bytes)? {
        Format::Jpeg => jpeg::decode(bytes),
        Format::Other(format, name) => Reading { format, name, bytes }.decode(),
    }
}

/// The size that a file announces; nothing of it is decoded.
pub(super) fn announced(bytes: &[u8]) -> Result<Size, PictureError> {
    match recognise(bytes)? {
        Format::Jpeg => jpeg::announced(bytes),
        Format::Other(format, name) => Ok(size_of(&Reading { format, name, bytes }.decoder()?)),
    }
}

/// Turns pixels the way up that the file asks for.
pub(super) fn upright(
    pixels: Vec<u8>,
    Size { height, width }: Size,
    orientation: Orientation,
) -> Result<Picture, PictureError> {
    if orientation == Orientation::NoTransforms {
        return Picture::new(pixels, height, width);
    }
    let found = pixels.len();
    let differ = PictureError::PixelsDiffer { height, width, found };
    // Sides of a checked size fit.
    let image = RgbImage::from_raw(width as u32, height as u32, pixels).ok_or(differ)?;
    let mut image = DynamicImage::ImageRgb8(image);
    image.apply_orientation(orientation);
    let (height, width) = (image.height() as usize, image.width() as usize);
    Picture::new(image.into_bytes(), height, width)
}

/// A file that the crate `image` reads.
struct Reading<'a> {
    format: ImageFormat,
    name: &'static str,
    bytes: &'a [u8],
}

impl Reading<'_> {
    fn decode(&self) -> Result<Picture, PictureError> {
        if self.format == ImageFormat::WebP && self.bytes.len() < length_of_riff(self.bytes) {
            // Its pixels may be there, but what stands behind them is missing.
            return Err(self.truncated());
        }
        let mut decoder = self.decoder()?;
        let size = size_of(&decoder);
        size.check()?;
        let colour = decoder.color_type();
        // Optional, and often wrong: a picture is not refused for what is written beside it.
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let channels = usize::from(colour.channel_count());
        let deep = usize::from(colour.bytes_per_pixel()) / channels;
        let mut samples = vec![0; size.height * size.width * channels * deep];
        decoder.read_image(&mut samples).map_err(|error| self.explain(error))?;
        upright(self.to_rgb(samples, colour)?, size, orientation)
    }

    /// What has read the head of the file.
    fn decoder(&self) -> Result<impl ImageDecoder + '_, PictureError> {
        let mut reader = ImageReader::with_format(Cursor::new(self.bytes), self.format);
        let mut limits = Limits::default();
        // Sixteen bits of four channels are the most that a pixel takes, and once more on the
        // way.
        limits.max_alloc = Some(16 * MAX_PIXELS as u64);
        reader.limits(limits);
        reader.into_decoder().map_err(|error| self.explain(error))
    }

    /// Three bytes a pixel: transparency is dropped, and of sixteen bits the upper eight stay,
    /// both as in Pillow.
    fn to_rgb(&self, samples: Vec<u8>, colour: ColorType) -> Result<Vec<u8>, PictureError> {
        let upper = || {
            let pairs = samples.as_chunks().0.iter();
            pairs.map(|pair| (u16::from_ne_bytes(*pair) >> 8) as u8).collect::<Vec<u8>>()
        };
        match colour {
            ColorType::Rgb8 => Ok(samples),
            ColorType::Rgb16 => Ok(upper()),
            ColorType::L8 => Ok(spread::<1>(&samples)),
            ColorType::L16 => Ok(spread::<1>(&upper())),
            ColorType::La8 => Ok(spread::<2>(&samples)),
            ColorType::La16 => Ok(spread::<2>(&upper())),
            ColorType::Rgba8 => Ok(spread::<4>(&samples)),
            ColorType::Rgba16 => Ok(spread::<4>(&upper())),
            other => {
                let reason = format!("pixels of {other:?} are not read");
                Err(PictureError::Broken { format: self.name, reason })
            }
        }
    }

    fn explain(&self, error: ImageError) -> PictureError {
        let early = |error: &std::io::Error| error.kind() == ErrorKind::UnexpectedEof;
        match error {
            ImageError::IoError(error) if early(&error) => self.truncated(),
            other => PictureError::Broken { format: self.name, reason: other.to_string() },
        }
    }

    fn truncated(&self) -> PictureError {
        PictureError::Truncated { format: self.name, bytes: self.bytes.len() }
    }
}

fn size_of(decoder: &impl ImageDecoder) -> Size {
    let (width, height) = decoder.dimensions();
    Size { height: height as usize, width: width as usize }
}

/// How many bytes a RIFF file says that it has.
fn length_of_riff(bytes: &[u8]) -> usize {
    let length = bytes.get(4..8).and_then(|bytes| bytes.first_chunk());
    length.map_or(0, |length| u32::from_le_bytes(*length) as usize).saturating_add(8)
}

/// The colours of pixels of `N` channels: grey with or without transparency, or colour with it.
fn spread<const N: usize>(samples: &[u8]) -> Vec<u8> {
    let pixels = samples.as_chunks::<N>().0;
    let mut rgb = Vec::with_capacity(pixels.len() * CHANNELS);
    for pixel in pixels {
        rgb.extend_from_slice(&match pixel[..] {
            [r, g, b, ..] => [r, g, b],
            [grey, ..] => [grey; CHANNELS],
            [] => [0; CHANNELS],
        });
    }
    rgb
}
