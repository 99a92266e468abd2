//! JPEG: the markers of a file, and its decoding by `zune-jpeg`.
//!
//! The markers are walked first. A file without the marker of its end is refused, as Pillow
//! and torchvision refuse it: whatever a decoder makes up for the missing part is not data.
//! The size is checked before a byte is allocated for it.

use image::metadata::Orientation;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::decode::upright;
use super::{MAX_SIDE, Picture, PictureError, Size};

const FORMAT: &str = "JPEG";

/// A block of 8 x 8 pixels takes at least one bit.
const MAX_PIXELS_A_BYTE: usize = 8 * 64;

/// The picture in a file that begins like a JPEG.
pub(super) fn decode(bytes: &[u8]) -> Result<Picture, PictureError> {
    let frame = Frame::find(bytes)?;
    frame.check(bytes.len())?;
    let options = DecoderOptions::new_fast()
        .set_max_height(MAX_SIDE)
        .set_max_width(MAX_SIDE)
        .set_strict_mode(false)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(broken)?;
    // Bytes to spare between headers are harmless. Bits that mean nothing are not: they would
    // become grey areas.
    decoder.set_options(options.set_strict_mode(true));
    if decoder.dimensions() != Some((frame.0.width, frame.0.height)) {
        return Err(broken("two frames of different sizes"));
    }
    let mut pixels = vec![0; frame.0.bytes()];
    decoder.decode_into(&mut pixels).map_err(broken)?;
    let orientation = decoder.exif().and_then(|exif| Orientation::from_exif_chunk(exif));
    upright(pixels, frame.0, orientation.unwrap_or(Orientation::NoTransforms))
}

/// The size in a file's frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame(Size);

impl Frame {
    /// Walks the markers from the begin to the end of the picture.
    fn find(bytes: &[u8]) -> Result<Self, PictureError> {
        let truncated = PictureError::Truncated { format: FORMAT, bytes: bytes.len() };
        let mut frame = None;
        // Behind the marker of the begin, whose bytes were recognised.
        let mut rest = &bytes[2..];
        while let Some((marker, behind)) = next_marker(rest) {
            rest = behind;
            match marker {
                0xd9 => return frame.ok_or_else(|| broken("there is no frame")),
                // Alone, without a segment.
                0x01 | 0xd0..=0xd8 => continue,
                _ => {}
            }
            let Some(length) = rest.first_chunk().map(|length| u16::from_be_bytes(*length)) else {
                return Err(truncated);
            };
            let length = usize::from(length).max(2);
            let Some(segment) = rest.get(2..length) else { return Err(truncated) };
            if is_frame(marker) && frame.is_none() {
                frame = Some(Self::parse(segment)?);
            }
            rest = &rest[length..];
        }
        Err(truncated)
    }

    fn parse(segment: &[u8]) -> Result<Self, PictureError> {
        let &[_precision, a, b, c, d, ..] = segment else {
            return Err(broken("the frame header is too short"));
        };
        let [height, width] = [[a, b], [c, d]].map(|side| usize::from(u16::from_be_bytes(side)));
        Ok(Self(Size { height, width }))
    }

    fn check(self, bytes: usize) -> Result<(), PictureError> {
        let Self(Size { height, width }) = self;
        self.0.check()?;
        if height * width > bytes.saturating_mul(MAX_PIXELS_A_BYTE) {
            return Err(PictureError::Implausible { format: FORMAT, bytes, height, width });
        }
        Ok(())
    }
}

/// The next marker and what stands behind it. Compressed data are passed over like any other
/// bytes between segments: in them, 0xff is followed by a zero or by a restart marker.
fn next_marker(mut bytes: &[u8]) -> Option<(u8, &[u8])> {
    loop {
        bytes = &bytes[memchr::memchr(0xff, bytes)?..];
        let marker = bytes.iter().position(|&byte| byte != 0xff)?;
        let (code, behind) = (bytes[marker], &bytes[marker + 1..]);
        if code != 0 {
            return Some((code, behind));
        }
        bytes = behind;
    }
}

/// Whether a marker is that of a frame header: SOF0 to SOF15, without DHT, JPG and DAC.
fn is_frame(marker: u8) -> bool {
    matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc)
}

fn broken(reason: impl ToString) -> PictureError {
    PictureError::Broken { format: FORMAT, reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of these segments, with their lengths.
    fn file(segments: &[(u8, &[u8])], end: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xff, 0xd8];
        for (marker, segment) in segments {
            bytes.extend([0xff, *marker]);
            bytes.extend((segment.len() as u16 + 2).to_be_bytes());
            bytes.extend(*segment);
        }
        bytes.extend(end);
        bytes
    }

    const FRAME: &[u8] = &[8, 0, 3, 0, 5, 1, 1, 0x11, 0];
    const END: &[u8] = &[0xff, 0xd9];

    #[test]
    fn the_walk_finds_the_size_and_the_end() {
        let frame = Frame(Size { height: 3, width: 5 });
        assert_eq!(Frame::find(&file(&[(0xc0, FRAME)], END)), Ok(frame));
        // The thumbnail in an application's segment has markers of its own.
        let thumbnail = file(&[(0xc0, &[8, 0, 9, 0, 9])], END);
        assert_eq!(Frame::find(&file(&[(0xe1, &thumbnail), (0xc2, FRAME)], END)), Ok(frame));
        // Zeros behind 0xff, restarts and fill bytes are part of the compressed data.
        let data = [0x12, 0xff, 0, 0xff, 0xd3, 0x34, 0xff, 0xff, 0xd9];
        assert_eq!(Frame::find(&file(&[(0xc0, FRAME), (0xda, &[])], &data)), Ok(frame));
    }

    #[test]
    fn files_without_an_end_or_a_frame_are_refused() {
        let whole = file(&[(0xe1, END), (0xc0, FRAME)], END);
        for length in 2..whole.len() {
            let truncated = PictureError::Truncated { format: "JPEG", bytes: length };
            assert_eq!(Frame::find(&whole[..length]), Err(truncated));
        }
        assert_eq!(Frame::find(&file(&[(0xe1, FRAME)], END)), Err(broken("there is no frame")));
        let short = Frame::find(&file(&[(0xc0, &[8, 0, 3, 0])], END));
        assert_eq!(short, Err(broken("the frame header is too short")));
    }

    #[test]
    fn sizes_are_checked_against_the_bytes_that_are_there() {
        let check = |height, width, bytes| Frame(Size { height, width }).check(bytes);
        // A kilobyte has 8,192 bits, each good for a block of 64 pixels at most.
        assert_eq!(check(512, 1024, 1024), Ok(()));
        let refused = check(513, 1024, 1024).unwrap_err();
        let told = "JPEG: 1024 bytes cannot hold the 1024 x 513 pixels they announce";
        assert_eq!(refused.to_string(), told);
        let bomb = check(65_535, 65_535, 1024).unwrap_err();
        assert!(matches!(bomb, PictureError::TooLarge { .. }), "{bomb}");
        assert!(matches!(check(0, 4, 1024), Err(PictureError::NoPixels { .. })));
    }
}
