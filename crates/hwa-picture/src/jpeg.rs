//! JPEG: from markers to pixels, with the bits of libjpeg, which Pillow and torchvision use.
//!
//! Baseline and progressive files with Huffman codes and eight bits are read, in grey, YCbCr,
//! RGB, CMYK and YCCK. A file without the marker of its end is refused, as the others refuse
//! it: whatever a decoder makes up for the missing part is not data.

mod bits;
mod coefficients;
mod colour;
mod frame;
mod scan;
mod tables;
mod transform;
mod vectors;

use image::metadata::Orientation;

use self::coefficients::{Coefficients, read_bits};
use self::colour::Meaning;
use self::frame::{Frame, Plane};
use self::scan::{Scan, Source, read_pixels, read_some, steps};
use self::tables::Tables;
use self::vectors::{Vectors, Work, fast};
use super::decode::upright;
use super::{Picture, PictureError, Size};

const FORMAT: &str = "JPEG";

/// A block of 8 x 8 pixels takes at least one bit.
const MAX_PIXELS_A_BYTE: usize = 8 * 64;

/// A progressive file has about ten. More would only cost time.
const MAX_SCANS: usize = 200;

/// The picture in a file that begins like a JPEG.
pub(super) fn decode(bytes: &[u8]) -> Result<Picture, PictureError> {
    let Decoded { pixels, size, orientation } = fast(Decoding { bytes })?;
    upright(pixels, size, orientation)
}

/// The size that a file announces; nothing of it is decoded.
pub(super) fn announced(bytes: &[u8]) -> Result<Size, PictureError> {
    let length = bytes.len();
    // Behind the marker of the begin, whose bytes were recognised.
    let mut rest = &bytes[2..];
    loop {
        let (marker, behind) = next_marker(rest).ok_or_else(|| truncated(length))?;
        rest = behind;
        match marker {
            0x01 | 0xd0..=0xd8 => continue,
            0xd9 | 0xda => return Err(broken("there is no frame")),
            _ => {}
        }
        let (segment, behind) = segment(rest).ok_or_else(|| truncated(length))?;
        rest = behind;
        if matches!(marker, 0xc0..=0xc2) {
            return Ok(Frame::read(segment, marker == 0xc2).map_err(broken)?.size);
        }
    }
}

/// Pixels as they lie in a file.
struct Decoded {
    pixels: Vec<u8>,
    size: Size,
    orientation: Orientation,
}

struct Decoding<'a> {
    bytes: &'a [u8],
}

impl Work for Decoding<'_> {
    type Output = Result<Decoded, PictureError>;

    #[inline(always)]
    fn run<V: Vectors>(self, v: V) -> Self::Output {
        let length = self.bytes.len();
        let mut file = File { length, ..File::default() };
        // Behind the marker of the begin, whose bytes were recognised.
        let mut rest = &self.bytes[2..];
        loop {
            let (marker, behind) = next_marker(rest).ok_or_else(|| truncated(length))?;
            rest = behind;
            match marker {
                0xd9 => break,
                // Alone, without a segment.
                0x01 | 0xd0..=0xd8 => continue,
                _ => {}
            }
            let (segment, behind) = segment(rest).ok_or_else(|| truncated(length))?;
            rest = behind;
            if marker == 0xda {
                let mut source = Source::new(rest, file.interval);
                let read = file.read_scan(v, segment, &mut source);
                rest = source.rest();
                if read.is_err() && rest.is_empty() {
                    return Err(truncated(length));
                }
                read?;
            } else {
                file.define(marker, segment)?;
            }
        }
        file.develop(v)
    }
}

/// What is known of a file so far.
#[derive(Default)]
struct File<'a> {
    length: usize,
    tables: Tables,
    frame: Option<Frame>,
    /// Units between two restarts; 0 for none.
    interval: usize,
    is_jfif: bool,
    adobe: Option<u8>,
    exif: Option<&'a [u8]>,
    content: Content,
    scans: usize,
    /// Which components have their means.
    begun: [bool; 4],
}

/// What scans are read into.
#[derive(Default)]
enum Content {
    #[default]
    Nothing,
    /// By the only scan of a baseline file.
    Planes(Vec<Plane>),
    /// By several.
    Coefficients(Vec<Coefficients>),
}

impl<'a> File<'a> {
    /// Takes in a segment that is not a scan.
    fn define(&mut self, marker: u8, segment: &'a [u8]) -> Result<(), PictureError> {
        match marker {
            0xc4 => self.tables.define_codes(segment).map_err(broken)?,
            0xdb => self.tables.define_quantisation(segment).map_err(broken)?,
            0xdd => {
                let interval =
                    segment.first_chunk().ok_or_else(|| broken("no restart interval"))?;
                self.interval = usize::from(u16::from_be_bytes(*interval));
            }
            0xe0 => self.is_jfif |= segment.starts_with(b"JFIF\0"),
            0xe1 => self.exif = self.exif.or_else(|| segment.strip_prefix(b"Exif\0\0")),
            0xee if segment.starts_with(b"Adobe") => self.adobe = segment.get(11).copied(),
            0xc0..=0xc2 => self.begin(Frame::read(segment, marker == 0xc2).map_err(broken)?)?,
            0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Err(broken("lossless, hierarchical and arithmetic coding are not read"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks a frame before memory is taken for it.
    fn begin(&mut self, frame: Frame) -> Result<(), PictureError> {
        if self.frame.is_some() {
            return Err(broken("there are two frames"));
        }
        let Size { height, width } = frame.size;
        frame.size.check()?;
        let bytes = self.length;
        if height * width > bytes.saturating_mul(MAX_PIXELS_A_BYTE) {
            return Err(PictureError::Implausible { format: FORMAT, bytes, height, width });
        }
        self.frame = Some(frame);
        Ok(())
    }

    #[inline(always)]
    fn read_scan<V: Vectors>(
        &mut self,
        v: V,
        segment: &[u8],
        source: &mut Source<'_>,
    ) -> Result<(), PictureError> {
        let frame = self.frame.as_ref().ok_or_else(|| broken("a scan comes before the frame"))?;
        let scan = Scan::read(segment, frame).map_err(broken)?;
        self.scans += 1;
        if self.scans > MAX_SCANS {
            return Err(broken("there are too many scans"));
        }
        if scan.first == 0 && !scan.refines {
            for part in &scan.parts {
                self.begun[part.component] = true;
            }
        }
        if let Content::Nothing = self.content {
            let all = scan.parts.len() == frame.components.len();
            self.content = match all && !frame.is_progressive {
                true => Content::Planes(frame.planes()),
                false => Content::Coefficients(Coefficients::of(frame)),
            };
        }
        let read = (frame, &scan, &self.tables);
        let result = match &mut self.content {
            // A second one has nothing to add.
            Content::Planes(_) if self.scans > 1 => Ok(()),
            Content::Planes(planes) => read_pixels(v, read, source, planes),
            Content::Coefficients(into) if frame.is_progressive => read_bits(read, source, into),
            Content::Coefficients(into) => read_some(read, source, into),
            Content::Nothing => Ok(()),
        };
        result.map_err(broken)
    }

    #[inline(always)]
    fn develop<V: Vectors>(self, v: V) -> Result<Decoded, PictureError> {
        let frame = self.frame.ok_or_else(|| broken("there is no frame"))?;
        if !self.begun[..frame.components.len()].iter().all(|begun| *begun) {
            return Err(broken("a component is missing"));
        }
        let planes = match self.content {
            Content::Nothing => return Err(broken("there is no scan")),
            Content::Planes(planes) => planes,
            Content::Coefficients(coefficients) => {
                let mut planes = frame.planes();
                for (number, coefficients) in coefficients.into_iter().enumerate() {
                    let table = frame.components[number].quantisation;
                    let steps = steps(&self.tables, table).map_err(broken)?;
                    coefficients.develop(v, steps, &mut planes[number]);
                }
                planes
            }
        };
        let mut pixels = vec![0; frame.size.bytes()];
        let meaning = Meaning::of(&frame.components, self.is_jfif, self.adobe);
        let width = frame.size.width;
        colour::develop(meaning, &frame.components, &planes, width, &mut pixels);
        let orientation = self.exif.and_then(Orientation::from_exif_chunk);
        let orientation = orientation.unwrap_or(Orientation::NoTransforms);
        Ok(Decoded { pixels, size: frame.size, orientation })
    }
}

/// The next marker and what stands behind it. Between segments other bytes may stand.
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

/// The segment behind a marker, and what stands behind it.
fn segment(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::from(u16::from_be_bytes(*bytes.first_chunk()?)).max(2);
    Some((bytes.get(2..length)?, &bytes[length..]))
}

fn truncated(bytes: usize) -> PictureError {
    PictureError::Truncated { format: FORMAT, bytes }
}

fn broken(reason: &str) -> PictureError {
    PictureError::Broken { format: FORMAT, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::vectors::Portable;
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

    fn told(segments: &[(u8, &[u8])], end: &[u8]) -> String {
        decode(&file(segments, end)).unwrap_err().to_string()
    }

    /// Grey, of 3 x 5 pixels.
    const FRAME: (u8, &[u8]) = (0xc0, &[8, 0, 3, 0, 5, 1, 1, 0x11, 0]);
    const SCAN: (u8, &[u8]) = (0xda, &[1, 1, 0x00, 0, 63, 0]);
    const END: &[u8] = &[0xff, 0xd9];

    /// Tables of the code 0 alone: no difference of the mean, and the end of a block.
    fn codes() -> [Vec<u8>; 2] {
        [0x00, 0x10].map(|head| [&[head, 1][..], &[0; 15], &[0]].concat())
    }

    /// A file whose only block is 00 and whose quantisation is all ones.
    fn smallest(data: &[u8]) -> Vec<u8> {
        let [dc, ac] = codes();
        let quantisation = (0xdb, &[&[0][..], &[1; 64]].concat()[..]);
        file(&[quantisation, FRAME, (0xc4, &dc), (0xc4, &ac), SCAN], &[data, END].concat())
    }

    #[test]
    fn the_smallest_file_is_grey() {
        let picture = decode(&smallest(&[0x3f])).unwrap();
        assert_eq!(picture, Picture::new(vec![128; 45], 3, 5).unwrap());
        assert_eq!(announced(&smallest(&[])), Ok(Size { height: 3, width: 5 }));
        // Bytes before the end that no block needs do not matter.
        assert_eq!(decode(&smallest(&[0x3f, 1, 2, 3])).unwrap(), picture);
    }

    #[test]
    fn data_that_are_missing_are_not_made_up() {
        let missing = decode(&smallest(&[])).unwrap_err().to_string();
        assert_eq!(missing, "JPEG: the compressed data end before the picture does");
        let wrong = decode(&smallest(&[0xff, 0])).unwrap_err().to_string();
        assert_eq!(wrong, "JPEG: the compressed data have a code that is in no table");
    }

    #[test]
    fn files_without_their_end_are_truncated_wherever_they_end() {
        let whole = smallest(&[0x3f]);
        for length in 3..whole.len() {
            let truncated = PictureError::Truncated { format: "JPEG", bytes: length };
            assert_eq!(decode(&whole[..length]), Err(truncated));
        }
    }

    #[test]
    fn a_thumbnail_in_a_segment_is_passed_over() {
        let thumbnail = smallest(&[0x3f]);
        let mut bytes = smallest(&[0x3f]);
        let segment = file(&[(0xe1, &thumbnail)], &[]);
        bytes.splice(2..2, segment[2..].iter().copied());
        assert_eq!(decode(&bytes), decode(&thumbnail));
    }

    #[test]
    fn segments_out_of_order_are_told() {
        assert_eq!(told(&[], END), "JPEG: there is no frame");
        assert_eq!(announced(&file(&[], END)), Err(broken("there is no frame")));
        assert_eq!(announced(&file(&[SCAN], END)), Err(broken("there is no frame")));
        assert_eq!(announced(&file(&[], &[])), Err(truncated(2)));
        assert_eq!(told(&[SCAN], END), "JPEG: a scan comes before the frame");
        assert_eq!(told(&[FRAME], END), "JPEG: a component is missing");
        assert_eq!(told(&[FRAME, FRAME], END), "JPEG: there are two frames");
        assert_eq!(told(&[FRAME, SCAN], END), "JPEG: a scan needs a table that is not there");
        let arithmetic = told(&[(0xc9, FRAME.1)], END);
        assert!(arithmetic.ends_with("arithmetic coding are not read"), "{arithmetic}");
    }

    #[test]
    fn sizes_are_checked_against_the_bytes_that_are_there() {
        let sized = |height: u16, width: u16, spare: usize| {
            let [h0, h1] = height.to_be_bytes();
            let [w0, w1] = width.to_be_bytes();
            let frame = [8, h0, h1, w0, w1, 1, 1, 0x11, 0];
            let bytes = file(&[(0xc0, &frame), (0xfe, &vec![0; spare])], END);
            (bytes.len(), decode(&bytes).unwrap_err())
        };
        // A kilobyte has 8,192 bits, each good for a block of 64 pixels at most.
        let (length, error) = sized(512, 1024, 1024 - 21);
        assert_eq!((length, error), (1024, broken("a component is missing")));
        let (_, error) = sized(513, 1024, 1024 - 21);
        let told = "JPEG: 1024 bytes cannot hold the 1024 x 513 pixels they announce";
        assert_eq!(error.to_string(), told);
        let (_, error) = sized(65_535, 65_535, 0);
        assert!(matches!(error, PictureError::TooLarge { .. }), "{error}");
        let (_, error) = sized(0, 4, 0);
        assert_eq!(error, PictureError::NoPixels { height: 0, width: 4 });
    }

    #[test]
    fn every_cpu_decodes_alike() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/pictures");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            if bytes.starts_with(&[0xff, 0xd8]) {
                let native = fast(Decoding { bytes: &bytes }).unwrap();
                let portable = Decoding { bytes: &bytes }.run(Portable).unwrap();
                assert!(native.pixels == portable.pixels);
                files += 1;
            }
        }
        assert!(files > 30, "{files}");
    }
}
