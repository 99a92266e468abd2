//! Pictures beside Pillow's, and files that mean no good.
//!
//! `golden/make_pictures.py` made the files and what Pillow makes of them.

// Clippy's exception for tests does not reach the functions beside them.
#![allow(clippy::unwrap_used)]

use std::num::NonZeroUsize;
use std::path::PathBuf;

use hwa_picture::{Picture, PictureError, Rectangle};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    pictures: Vec<Decoded>,
    resized: Vec<Resized>,
}

/// What a file shows.
#[derive(Deserialize)]
struct Decoded {
    file: String,
    #[serde(flatten)]
    picture: Expected,
}

/// What becomes of noise.
#[derive(Deserialize)]
struct Resized {
    stream: u64,
    source: [usize; 2],
    /// Top, left, height and width.
    rectangle: [usize; 4],
    shorter: Option<NonZeroUsize>,
    #[serde(flatten)]
    picture: Expected,
}

#[derive(Deserialize)]
struct Expected {
    height: usize,
    width: usize,
    /// Two digits a byte.
    pixels: String,
}

impl Expected {
    /// How far a picture of the same size is off: at most, and in the mean.
    fn difference(&self, found: &Picture) -> (u8, f64) {
        assert_eq!((found.height(), found.width()), (self.height, self.width));
        let digits = self.pixels.as_bytes().as_chunks::<2>().0.iter();
        let expected =
            digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap());
        let differences: Vec<u8> = expected
            .zip(found.pixels())
            .map(|(expected, found)| expected.abs_diff(*found))
            .collect();
        assert_eq!(differences.len(), found.pixels().len());
        let sum: f64 = differences.iter().map(|&difference| f64::from(difference)).sum();
        (differences.iter().copied().max().unwrap(), sum / differences.len() as f64)
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn golden() -> Golden {
    let text = std::fs::read_to_string(folder().join("pictures.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(folder().join("pictures").join(name)).unwrap()
}

#[test]
fn pictures_are_pillows() {
    let pictures = golden().pictures;
    assert_eq!(pictures.len(), std::fs::read_dir(folder().join("pictures")).unwrap().count());
    for Decoded { file: name, picture } in pictures {
        let found = Picture::decode(&file(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (most, mean) = picture.difference(&found);
        assert!(most == 0, "{name}: at most {most}, mean {mean}");
        let announced = Picture::announced_pixels(&file(&name)).unwrap();
        assert_eq!(announced, found.height() * found.width(), "{name}");
    }
}

#[test]
fn resized_pictures_are_within_one_level_of_pillows() {
    for Resized { stream, source, rectangle, shorter, picture } in golden().resized {
        let noise = noise(stream, source);
        let [top, left, height, width] = rectangle;
        let found = match shorter {
            Some(side) => noise.resize_shorter(side),
            None => {
                let part = Rectangle { top, left, height, width };
                noise.resized_crop(part, picture.height, picture.width)
            }
        };
        let (most, mean) = picture.difference(&found.unwrap());
        assert!(most <= 1 && mean < 0.05, "{source:?}, {rectangle:?}: at most {most}, mean {mean}");
    }
}

#[test]
fn a_picture_of_the_right_size_stays_as_it_is() {
    let picture = noise(1, [5, 9]);
    let side = NonZeroUsize::new(5).unwrap();
    assert_eq!(picture.clone().resize_shorter(side).unwrap(), picture);
    let whole = Rectangle { top: 0, left: 0, height: 5, width: 9 };
    assert_eq!(picture.resized_crop(whole, 5, 9).unwrap(), picture);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let line = noise(1, [1, 65_535]);
    let side = NonZeroUsize::new(256).unwrap();
    // 256 x 16,776,960 pixels.
    let error = line.clone().resize_shorter(side).unwrap_err();
    assert_eq!(error, PictureError::TooLarge { height: 256, width: 16_776_960 });
    let column = noise(1, [65_535, 1]);
    let whole = Rectangle { top: 0, left: 0, height: 65_535, width: 1 };
    // Between the passes: 2,000 columns of 65,535 rows.
    let error = column.resized_crop(whole, 1, 2000).unwrap_err();
    assert_eq!(error, PictureError::TooLarge { height: 65_535, width: 2000 });
    let part = |left, width| Rectangle { top: 0, left, height: 1, width };
    for part in [part(65_535, 1), part(0, 65_536), part(1, usize::MAX), part(0, 0)] {
        let error = line.resized_crop(part, 1, 1).unwrap_err();
        assert!(matches!(error, PictureError::Outside { .. }), "{error}");
    }
    let error = line.resized_crop(part(0, 9), 0, 4).unwrap_err();
    assert_eq!(error, PictureError::NoPixels { height: 0, width: 4 });
}

/// The definition of a pass, in one direction of one channel: weights fall off linearly over
/// as many pixels as a new one covers, and are whole multiples of the largest power of two
/// with which the heaviest fits into 15 bits.
fn resized_line(line: &[u8], length: usize) -> Vec<u8> {
    let scale = line.len() as f64 / length as f64;
    let reach = scale.max(1.0);
    let mut windows = Vec::new();
    for position in 0..length {
        let centre = (position as f64 + 0.5) * scale;
        let first = (centre - reach).floor().max(0.0) as usize;
        let last = ((centre + reach).ceil() as usize).min(line.len());
        let weight = |at| (1.0 - ((at as f64 - (centre - 0.5)) * (1.0 / reach)).abs()).max(0.0);
        let weights: Vec<f64> = (first..last).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        windows.push((first, weights.iter().map(|weight| weight / sum).collect::<Vec<f64>>()));
    }
    let heaviest = windows.iter().flat_map(|(_, weights)| weights).fold(0.0, |a: f64, b| a.max(*b));
    let bits = (0..22).find(|bits| (heaviest * f64::from(2 << bits)).round() >= 32_768.0);
    let bits = bits.unwrap_or(21);
    let resized = windows.iter().map(|(first, weights)| {
        let products = weights.iter().zip(&line[*first..]).map(|(weight, value)| {
            (weight * f64::from(1 << bits)).round() as i32 * i32::from(*value)
        });
        ((products.sum::<i32>() + (1 << (bits - 1))) >> bits).clamp(0, 255) as u8
    });
    resized.collect()
}

/// Rows, then columns.
fn resized_by_definition(picture: &Picture, height: usize, width: usize) -> Vec<u8> {
    let mut out = vec![0; height * width * 3];
    for channel in 0..3 {
        let rows: Vec<Vec<u8>> = (0..picture.height())
            .map(|y| {
                let row = &picture.pixels()[y * picture.width() * 3..][..picture.width() * 3];
                let row: Vec<u8> = row.iter().skip(channel).step_by(3).copied().collect();
                if width == row.len() { row } else { resized_line(&row, width) }
            })
            .collect();
        for x in 0..width {
            let column: Vec<u8> = rows.iter().map(|row| row[x]).collect();
            let column =
                if height == column.len() { column } else { resized_line(&column, height) };
            for (y, value) in column.into_iter().enumerate() {
                out[(y * width + x) * 3 + channel] = value;
            }
        }
    }
    out
}

proptest! {
    /// Whatever instructions the CPU has.
    #[test]
    fn resizing_gives_the_bytes_of_its_definition(
        stream: u32, height in 1..70usize, width in 1..150usize,
        new_height in 1..70usize, new_width in 1..150usize,
    ) {
        let picture = noise(stream.into(), [height, width]);
        let whole = Rectangle { top: 0, left: 0, height, width };
        let found = picture.resized_crop(whole, new_height, new_width).unwrap();
        prop_assert!(found.pixels() == resized_by_definition(&picture, new_height, new_width));
    }

    #[test]
    fn what_lies_outside_of_a_crop_has_no_influence(
        stream: u32, top in 0..9usize, left in 0..9usize,
        height in 1..12usize, width in 1..12usize, side in 1..30usize,
    ) {
        let picture = noise(stream.into(), [20, 20]);
        let rectangle = Rectangle { top, left, height, width };
        let part = picture.resized_crop(rectangle, height, width).unwrap();
        let whole = Rectangle { top: 0, left: 0, height, width };
        prop_assert_eq!(
            picture.resized_crop(rectangle, side, side).unwrap(),
            part.resized_crop(whole, side, side).unwrap()
        );
    }

    #[test]
    fn the_shorter_side_is_the_one_asked_for(
        height in 1..40usize, width in 1..40usize, side in 1..50usize,
    ) {
        let side = NonZeroUsize::new(side).unwrap();
        let found = noise(0, [height, width]).resize_shorter(side).unwrap();
        let (shorter, longer) = (height.min(width), height.max(width));
        let longer = (side.get() as f64 * longer as f64 / shorter as f64) as usize;
        let expected = if height < width { (side.get(), longer) } else { (longer, side.get()) };
        prop_assert_eq!((found.height(), found.width()), expected);
    }
}

#[test]
fn a_file_that_is_cut_is_refused_or_whole() {
    for Decoded { file: name, .. } in golden().pictures {
        let bytes = file(&name);
        let whole = Picture::decode(&bytes).unwrap();
        for length in 0..bytes.len() {
            // What is missing may have been of no matter, such as bytes behind the end.
            if let Ok(found) = Picture::decode(&bytes[..length]) {
                assert!(found == whole, "{name}: {length} of {} bytes", bytes.len());
            }
        }
        let half = Picture::decode(&bytes[..bytes.len() / 2]);
        assert!(half.is_err() || name == "animated.gif", "{name}: {half:?}");
    }
}

#[test]
fn sizes_that_a_file_only_claims_take_no_memory() {
    // Where each format has its size, and how: 65,535 x 65,535 pixels are twelve gigabytes.
    let at = |bytes: &[u8], pattern: &[u8]| {
        bytes.windows(pattern.len()).position(|window| window == pattern).unwrap()
    };
    let mut jpeg = file("444.jpg");
    let size = at(&jpeg, &[0xff, 0xc0]) + 5;
    jpeg[size..size + 4].fill(0xff);
    let mut png = file("rgb.png");
    png[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let mut gif = file("palette.gif");
    gif[6..10].fill(0xff);
    let mut bmp = file("rgb.bmp");
    bmp[18..26].copy_from_slice(&[0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0]);
    let mut webp = file("lossy.webp");
    let size = at(&webp, &[0x9d, 0x01, 0x2a]) + 3;
    webp[size..size + 4].copy_from_slice(&[0xff, 0x3f, 0xff, 0x3f]);
    for (bytes, told) in [
        (jpeg, "the picture is too large: 65535 x 65535"),
        // The checksum of its header is wrong now.
        (png, "PNG: "),
        (gif, "the picture is too large: 65535 x 65535"),
        (bmp, "the picture is too large: 65535 x 65535"),
        (webp, "the picture is too large: 16383 x 16383"),
    ] {
        let error = Picture::decode(&bytes).unwrap_err().to_string();
        assert!(error.starts_with(told), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// An error or a picture of a size that a picture can have, and never a panic.
    #[test]
    fn damaged_files_do_no_harm(
        file_number: prop::sample::Index,
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let names: Vec<String> = golden().pictures.into_iter().map(|each| each.file).collect();
        let mut bytes = file(&names[file_number.index(names.len())]);
        for (place, value) in damages {
            *place.get_mut(&mut bytes) = value;
        }
        if let Ok(found) = Picture::decode(&bytes) {
            prop_assert_eq!(found.pixels().len(), found.height() * found.width() * 3);
        }
    }

    #[test]
    fn noise_behind_the_begin_of_a_format_does_no_harm(
        begin in prop::sample::select(vec![
            &b"\xff\xd8\xff\xe0"[..], b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"II*\0", b"MM\0*",
            b"RIFF\x40\0\0\0WEBPVP8 ",
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let _ = Picture::decode(&[begin, &rest].concat());
    }
}

/// Bytes: the highest of SplitMix64 of (stream, index), as in `make_pictures.py`.
fn noise(stream: u64, [height, width]: [usize; 2]) -> Picture {
    let byte = |index: usize| {
        let mut z = (index as u64).wrapping_add(stream << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 56) as u8
    };
    Picture::new((0..height * width * 3).map(byte).collect(), height, width).unwrap()
}
