//! Handwritten digits, 8x8, small enough to be part of the library.
//!
//! One line per image: 64 values from 0 to 16 in row order, then the digit. The file
//! is published whole, so its test part is cut here, always with seed 0.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use flate2::read::GzDecoder;

use super::{CatalogueEntry, Parts, Published, Request, numbered};
use crate::dataset::ImageShape;
use crate::error::DataError;
use crate::memory::InMemory;
use crate::split::Part;
use crate::subset::Subset;
use crate::transform::{Augment, Channel, Crop, Normalise, Transform};

static DIGITS: &[u8] = include_bytes!("../../data/digits/digits.csv.gz");
const FILE: &str = "digits.csv.gz";
const SHAPE: ImageShape = ImageShape { height: 8, width: 8, channels: 1 };
const CLASSES: usize = 10;
const EXAMPLES: usize = 1797;
const TEST: usize = 360; // a fifth, rounded up
const BRIGHTEST: u32 = 16;

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: "digits",
    summary: "handwritten digits, grey",
    num_classes: Some(CLASSES),
    shape: SHAPE,
    train_examples: Some(EXAMPLES - TEST),
    validation_examples: Some(TEST),
    test_examples: Some(TEST),
    licence: "CC BY 4.0",
    citation: "E. Alpaydin and C. Kaynak, \"Optical Recognition of Handwritten Digits\", \
               UCI Machine Learning Repository, 1998, doi:10.24432/C50P49",
    folder: None,
    archive: None,
    locate: |_| Ok(()),
    // Mean and standard deviation of the pixels of the default training split.
    transform: || {
        let normalise = Normalise::new(vec![Channel { mean: 0.3060, std: 0.3764 }])?;
        let augment = Augment { crop: Crop::Random { pad: 1 }, flip: false, cutout: 0 };
        Ok(Transform { augment, ..Transform::plain(normalise) })
    },
    read,
};

/// Reads the embedded file, whatever folder is named.
fn read(_: &Request<'_>) -> Result<Published, DataError> {
    let all = Subset::all(Arc::new(parse(BufReader::new(GzDecoder::new(DIGITS)))?));
    let (test, train) = all.hold_out(TEST, 0, Part::Test)?;
    let parts = Parts { train, validation: None, test };
    let classes = numbered(CLASSES);
    Ok(Published { parts, classes, files: Vec::new(), studio: None, strays: 0, digest: None })
}

fn parse(lines: impl BufRead) -> Result<InMemory, DataError> {
    let mut pixels = Vec::with_capacity(EXAMPLES * SHAPE.len());
    let mut labels = Vec::with_capacity(EXAMPLES);
    for (line, text) in (1..).zip(lines.lines()) {
        let text = text.map_err(|source| DataError::Io { path: FILE.into(), source })?;
        let values: Vec<&str> = text.split(',').collect();
        let Some((label, image)) = values.split_last().filter(|(_, v)| v.len() == SHAPE.len())
        else {
            let (expected, found) = (SHAPE.len() + 1, values.len());
            return Err(DataError::WrongColumns { file: FILE, line, expected, found });
        };
        for value in image {
            // 16 becomes 255, and the rest in proportion, rounded: 8 becomes 128.
            let value = number(value, BRIGHTEST, line)?;
            pixels.push(((value * 255 + BRIGHTEST / 2) / BRIGHTEST) as u8);
        }
        labels.push(number(label, CLASSES as u32 - 1, line)?);
    }
    InMemory::new(SHAPE, CLASSES, pixels, labels)
}

fn number(text: &str, largest: u32, line: usize) -> Result<u32, DataError> {
    match text.trim().parse() {
        Ok(number) if number <= largest => Ok(number),
        _ => Err(DataError::BadValue { file: FILE, line, found: text.to_owned(), largest }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OpenOptions;
    use crate::sources::open;

    fn line(pixel: &str, label: &str) -> String {
        format!("{},{label}\n", vec![pixel; 64].join(","))
    }

    #[test]
    fn sixteen_becomes_the_brightest_byte() {
        let text = line("0", "3") + &line("8", "9") + &line("16", "0") + &line("1", "1");
        let data = Subset::all(Arc::new(parse(text.as_bytes()).unwrap()));
        let first = |i: usize| (data.get(i).unwrap().pixels[0], data.label(i).unwrap());
        // 255 / 16 is 15.94, half of 255 is 127.5.
        assert_eq!([first(0), first(1), first(2), first(3)], [(0, 3), (128, 9), (255, 0), (16, 1)]);
    }

    #[test]
    fn lines_that_are_not_images_are_named() {
        let error = |text: &str| parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(
            error(&(line("1", "1") + &line("17", "1"))),
            "`digits.csv.gz`, line 2: `17` is not a number from 0 to 16"
        );
        assert_eq!(
            error(&line("1", "10")),
            "`digits.csv.gz`, line 1: `10` is not a number from 0 to 9"
        );
        assert_eq!(error("1,2,3\n"), "`digits.csv.gz`, line 1: 3 values, expected 65");
        assert_eq!(error("\n"), "`digits.csv.gz`, line 1: 1 values, expected 65");
    }

    #[test]
    fn the_training_pixels_have_the_mean_and_deviation_that_they_are_normalised_by() {
        let digits = open("digits", None, &OpenOptions::default()).unwrap();
        let train = digits.splits.train;
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for i in 0..train.len() {
            for &byte in train.get(i).unwrap().pixels.iter() {
                let value = f64::from(byte) / 255.0;
                count += 1.0;
                sum += value;
                squares += value * value;
            }
        }
        let mean = sum / count;
        let std = (squares / count - mean * mean).sqrt();
        let channel = digits.transform.normalise.channels()[0];
        assert!((f64::from(channel.mean) - mean).abs() < 5e-5, "{mean}");
        assert!((f64::from(channel.std) - std).abs() < 5e-5, "{std}");
    }
}
