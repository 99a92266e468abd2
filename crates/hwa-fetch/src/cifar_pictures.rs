//! CIFAR-10's binary files, rebuilt from pictures.
//!
//! A picture holds a batch: one image in each row, one pixel in each column, row by row of
//! the image. Labels stand in JSON files beside the pictures. A record of a binary file is
//! the label, then all red, all green and all blue values. Pictures lose nothing, so the
//! files are those of the authors byte by byte, which their checksums show.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use md5::{Digest, Md5};
use png::{BitDepth, ColorType, Decoder, Limits, Transformations};

use crate::checksum::hexadecimal;
use crate::error::FetchError;
use crate::progress::{Phase, Watch};

/// Pixels of an image.
const PIXELS: usize = 32 * 32;
const CLASSES: u8 = 10;
/// More than any of these files has; the reader of the pictures keeps rows, not pictures.
const MOST_MEMORY: usize = 64 << 20;
const MOST_LABELS: u64 = 1 << 20;

/// The pictures that share a file of labels, in its order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Series {
    pub(crate) labels: &'static str,
    pub(crate) batches: &'static [Batch],
    /// Images of each picture.
    pub(crate) records: usize,
}

/// A picture, and the file that is made from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) picture: &'static str,
    pub(crate) file: &'static str,
    /// The checksum of the authors' file.
    pub(crate) md5: &'static str,
}

/// All of CIFAR-10.
pub(crate) const CIFAR10: &[Series] = &[
    Series {
        labels: "train_lables.json",
        batches: &[
            Batch {
                picture: "data_batch_1.png",
                file: "data_batch_1.bin",
                md5: "5dd7e06a14cb22eb9f671a540d1b7c25",
            },
            Batch {
                picture: "data_batch_2.png",
                file: "data_batch_2.bin",
                md5: "5ea93a67294ea407fff1d09f752e9692",
            },
            Batch {
                picture: "data_batch_3.png",
                file: "data_batch_3.bin",
                md5: "942cd6a4bcdd0dd3c604fbe906cb4421",
            },
            Batch {
                picture: "data_batch_4.png",
                file: "data_batch_4.bin",
                md5: "ae636b3ba5c66a11e91e8cb52e771fcb",
            },
            Batch {
                picture: "data_batch_5.png",
                file: "data_batch_5.bin",
                md5: "53f37980c15c3d472c316c40844f3f0d",
            },
        ],
        records: 10_000,
    },
    Series {
        labels: "test_lables.json",
        batches: &[Batch {
            picture: "test_batch.png",
            file: "test_batch.bin",
            md5: "803d5f7f4d78ea53de84dbe85f74fb6d",
        }],
        records: 10_000,
    },
];

impl Series {
    /// Makes the files of the series in the folder `to` from the pictures in `from`, and
    /// checks them.
    pub(crate) fn rebuild(
        &self,
        from: &Path,
        to: &Path,
        watch: &Watch<'_>,
    ) -> Result<(), FetchError> {
        let labels = self.read_labels(&from.join(self.labels))?;
        for (batch, labels) in self.batches.iter().zip(labels.chunks(self.records)) {
            batch.rebuild(&from.join(batch.picture), &to.join(batch.file), labels, watch)?;
        }
        Ok(())
    }

    fn read_labels(&self, path: &Path) -> Result<Vec<u8>, FetchError> {
        let read = || FetchError::io("read", path);
        let file = File::open(path).map_err(read())?;
        let mut text = Vec::new();
        file.take(MOST_LABELS).read_to_end(&mut text).map_err(read())?;
        let count = self.records * self.batches.len();
        let wrong = |found: String| FetchError::WrongLabels {
            path: path.to_owned(),
            expected: format!("a list of {count} numbers from 0 to {}", CLASSES - 1),
            found,
        };
        let labels: Vec<u8> = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
        if labels.len() != count {
            return Err(wrong(format!("{} numbers", labels.len())));
        }
        match labels.iter().find(|label| **label >= CLASSES) {
            Some(label) => Err(wrong(format!("the number {label}"))),
            None => Ok(labels),
        }
    }
}

impl Batch {
    fn rebuild(
        &self,
        picture: &Path,
        file: &Path,
        labels: &[u8],
        watch: &Watch<'_>,
    ) -> Result<(), FetchError> {
        let opened = File::open(picture).map_err(FetchError::io("read", picture))?;
        let limits = Limits { bytes: MOST_MEMORY };
        let mut decoder = Decoder::new_with_limits(BufReader::new(opened), limits);
        decoder.set_transformations(Transformations::IDENTITY);
        let wrong = |found: String| FetchError::WrongPicture {
            path: picture.to_owned(),
            expected: format!("a picture of {PIXELS} x {} pixels in 8-bit RGB", labels.len()),
            found,
        };
        let info = decoder.read_header_info().map_err(|e| wrong(e.to_string()))?;
        let shape = (info.width as usize, info.height as usize, info.color_type, info.bit_depth);
        let expected = (PIXELS, labels.len(), ColorType::Rgb, BitDepth::Eight);
        if shape != expected || info.interlaced {
            return Err(wrong(format!("{} x {}, {:?}", shape.0, shape.1, shape.2)));
        }
        let mut rows = decoder.read_info().map_err(|e| wrong(e.to_string()))?;

        let write = || FetchError::io("write", file);
        let mut out = BufWriter::new(File::create_new(file).map_err(write())?);
        let (mut md5, mut record) = (Md5::new(), Vec::with_capacity(1 + 3 * PIXELS));
        let total = (labels.len() * (1 + 3 * PIXELS)) as u64;
        let mut done = 0;
        for &label in labels {
            watch.go_on()?;
            watch.report(Phase::Unpack, self.file, done, Some(total));
            let row = rows.next_row().map_err(|e| wrong(e.to_string()))?;
            let row = row.ok_or_else(|| wrong("shorter".to_owned()))?;
            to_record(label, row.data(), &mut record);
            md5.update(&record);
            out.write_all(&record).map_err(write())?;
            done += record.len() as u64;
        }
        out.flush().map_err(write())?;
        let found = hexadecimal(md5);
        if found == self.md5 {
            Ok(())
        } else {
            let (path, expected) = (file.to_owned(), self.md5);
            Err(FetchError::WrongChecksum { path, expected, found })
        }
    }
}

/// Pixels with their channels together become planes.
fn to_record(label: u8, pixels: &[u8], record: &mut Vec<u8>) {
    record.clear();
    record.push(label);
    for channel in 0..3 {
        record.extend(pixels.iter().skip(channel).step_by(3));
    }
}

#[cfg(test)]
pub(crate) mod tests;
