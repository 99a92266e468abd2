//! CIFAR-10 and CIFAR-100 in their authors' binary format.
//!
//! A record is the label (CIFAR-100: coarse, then fine; the fine one is used) and
//! 1,024 red, 1,024 green and 1,024 blue bytes. Images are kept with their channels
//! together, as batches have them.

use std::fs;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use super::{CatalogueEntry, Parts, Published, numbered};
use crate::dataset::ImageShape;
use crate::error::DataError;
use crate::memory::InMemory;
use crate::place::{File, Files, FoundFile};
use crate::subset::Subset;
use crate::transform::{Augment, Channel, Crop, Normalise, Transform};

const SHAPE: ImageShape = ImageShape { height: 32, width: 32, channels: 3 };
const PLANE: usize = 32 * 32;
const CITATION: &str =
    "A. Krizhevsky, \"Learning Multiple Layers of Features from Tiny Images\", 2009";
const LICENCE: &str = "none stated; free to use with citation";

pub(super) const CIFAR10: CatalogueEntry = CatalogueEntry {
    name: "cifar10",
    summary: "photographs of 10 kinds of things, colour",
    num_classes: Some(10),
    shape: SHAPE,
    train_examples: Some(50_000),
    validation_examples: Some(5_000),
    test_examples: Some(10_000),
    licence: LICENCE,
    citation: CITATION,
    folder: Some(LAYOUT10.files.folder),
    archive: Some(LAYOUT10.files.archive),
    locate: |dir| LAYOUT10.files.locate(dir).map(drop),
    transform: || transform(&STATISTICS10),
    read: |request| read(&LAYOUT10, request.dir),
};

pub(super) const CIFAR100: CatalogueEntry = CatalogueEntry {
    name: "cifar100",
    summary: "photographs of 100 kinds of things, colour",
    num_classes: Some(100),
    shape: SHAPE,
    train_examples: Some(50_000),
    validation_examples: Some(5_000),
    test_examples: Some(10_000),
    licence: LICENCE,
    citation: CITATION,
    folder: Some(LAYOUT100.files.folder),
    archive: Some(LAYOUT100.files.archive),
    locate: |dir| LAYOUT100.files.locate(dir).map(drop),
    transform: || transform(&STATISTICS100),
    read: |request| read(&LAYOUT100, request.dir),
};

/// Mean and standard deviation over all pixels of the 50,000 training images, to the
/// four digits that are usually published. (The deviations 0.2023, 0.1994, 0.2010,
/// often seen for CIFAR-10, are means of the single images' deviations.)
const STATISTICS10: [Channel; 3] = [
    Channel { mean: 0.4914, std: 0.2470 },
    Channel { mean: 0.4822, std: 0.2435 },
    Channel { mean: 0.4465, std: 0.2616 },
];
const STATISTICS100: [Channel; 3] = [
    Channel { mean: 0.5071, std: 0.2673 },
    Channel { mean: 0.4865, std: 0.2564 },
    Channel { mean: 0.4409, std: 0.2762 },
];

const CLASSES10: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// The files of a variant, and how many records each has.
#[derive(Debug, Clone)]
struct Layout {
    files: Files,
    /// All of the files but the last are for training.
    train_records: usize,
    /// The last file is for testing.
    test_records: usize,
    /// Labels before the pixels; the last one counts.
    labels: usize,
    classes: usize,
    /// The list of the classes' names.
    names: &'static str,
}

const LAYOUT10: Layout = Layout {
    files: Files {
        dataset: "cifar10",
        folder: "cifar-10-batches-bin",
        files: &[
            File { name: "data_batch_1.bin", md5: "5dd7e06a14cb22eb9f671a540d1b7c25" },
            File { name: "data_batch_2.bin", md5: "5ea93a67294ea407fff1d09f752e9692" },
            File { name: "data_batch_3.bin", md5: "942cd6a4bcdd0dd3c604fbe906cb4421" },
            File { name: "data_batch_4.bin", md5: "ae636b3ba5c66a11e91e8cb52e771fcb" },
            File { name: "data_batch_5.bin", md5: "53f37980c15c3d472c316c40844f3f0d" },
            File { name: "test_batch.bin", md5: "803d5f7f4d78ea53de84dbe85f74fb6d" },
        ],
        archive: "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    },
    train_records: 10_000,
    test_records: 10_000,
    labels: 1,
    classes: 10,
    names: "batches.meta.txt",
};

const LAYOUT100: Layout = Layout {
    files: Files {
        dataset: "cifar100",
        folder: "cifar-100-binary",
        files: &[
            File { name: "train.bin", md5: "6172c7755cfe09b2fe270c85cebc1b15" },
            File { name: "test.bin", md5: "4499cfba6c016c1be1438163640a0898" },
        ],
        archive: "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    },
    train_records: 50_000,
    test_records: 10_000,
    labels: 2,
    classes: 100,
    names: "fine_label_names.txt",
};

fn transform(statistics: &[Channel]) -> Result<Transform, DataError> {
    let augment = Augment { crop: Crop::Random { pad: 4 }, flip: true, cutout: 0 };
    Ok(Transform { augment, ..Transform::plain(Normalise::new(statistics.to_vec())?) })
}

fn read(layout: &Layout, dir: Option<&Path>) -> Result<Published, DataError> {
    let files = layout.files.locate(dir)?;
    let (train, test) = files.split_at(files.len().saturating_sub(1));
    let train = layout.read_files(train, layout.train_records)?;
    let test = layout.read_files(test, layout.test_records)?;
    let parts = Parts { train, validation: None, test };
    let classes = layout.class_names(&files);
    Ok(Published { parts, classes, files, studio: None, strays: 0, digest: None })
}

impl Layout {
    /// What the list in the same folder calls the classes. CIFAR-10's are known without it.
    fn class_names(&self, files: &[FoundFile]) -> Vec<String> {
        let folder = files.first().and_then(|file| file.path.parent());
        let text = folder.and_then(|folder| fs::read_to_string(folder.join(self.names)).ok());
        let names = text.map(|text| {
            let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
            names.map(str::to_owned).collect::<Vec<String>>()
        });
        let names = names.filter(|names| names.len() == self.classes);
        names.unwrap_or_else(|| match self.classes == CLASSES10.len() {
            true => CLASSES10.map(str::to_owned).to_vec(),
            false => numbered(self.classes),
        })
    }

    fn read_files(&self, files: &[FoundFile], records: usize) -> Result<Subset, DataError> {
        let mut pixels = Vec::with_capacity(files.len() * records * SHAPE.len());
        let mut labels = Vec::with_capacity(files.len() * records);
        for file in files {
            self.read_file(&file.path, records, &mut pixels, &mut labels)?;
        }
        Ok(Subset::all(Arc::new(InMemory::new(SHAPE, self.classes, pixels, labels)?)))
    }

    fn read_file(
        &self,
        path: &Path,
        records: usize,
        pixels: &mut Vec<u8>,
        labels: &mut Vec<u32>,
    ) -> Result<(), DataError> {
        let failed = |source| DataError::Io { path: path.to_owned(), source };
        let file = fs::File::open(path).map_err(failed)?;
        let mut record = vec![0; self.labels + SHAPE.len()];
        let expected = (records * record.len()) as u64;
        let found = file.metadata().map_err(failed)?.len();
        if found != expected {
            return Err(DataError::WrongSize { path: path.to_owned(), expected, found });
        }
        let mut file = BufReader::with_capacity(1 << 20, file);
        for number in 0..records {
            file.read_exact(&mut record).map_err(failed)?;
            let (head, planes) = record.split_at(self.labels);
            let label = u32::from(head.last().copied().unwrap_or_default());
            let largest = self.classes as u32 - 1;
            if label > largest {
                let (path, record) = (path.to_owned(), number);
                return Err(DataError::LabelOutOfRange { path, record, found: label, largest });
            }
            labels.push(label);
            pixels.extend((0..PLANE).flat_map(|i| [0, 1, 2].map(|c| planes[c * PLANE + i])));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;
    use crate::check::check;
    use crate::options::OpenOptions;
    use crate::sources::open;

    /// The official layout with two training files of three records.
    const SMALL: Layout = Layout {
        files: Files {
            files: &[
                File { name: "a.bin", md5: "" },
                File { name: "b.bin", md5: "" },
                File { name: "test.bin", md5: "" },
            ],
            ..LAYOUT100.files
        },
        train_records: 3,
        test_records: 1,
        ..LAYOUT100
    };

    /// A coarse label that is not the fine one, then planes of one colour each,
    /// but for their second pixel.
    fn record(fine: u8, [red, green, blue]: [u8; 3]) -> Vec<u8> {
        let mut record = vec![fine / 5, fine];
        for value in [red, green, blue] {
            let mut plane = vec![value; PLANE];
            plane[1] = value + 1;
            record.extend(plane);
        }
        record
    }

    fn small() -> TempDir {
        let dir = TempDir::new().unwrap();
        let folder = dir.path().join("cifar-100-binary");
        fs::create_dir(&folder).unwrap();
        let file = |labels: [u8; 3]| labels.map(|l| record(l, [l, 100, 200])).concat();
        fs::write(folder.join("a.bin"), file([10, 11, 12])).unwrap();
        fs::write(folder.join("b.bin"), file([20, 99, 0])).unwrap();
        fs::write(folder.join("test.bin"), record(7, [1, 2, 3])).unwrap();
        dir
    }

    fn read_small(dir: &Path) -> Result<Published, DataError> {
        read(&SMALL, Some(dir))
    }

    fn file(dir: &TempDir, name: &str) -> PathBuf {
        dir.path().join("cifar-100-binary").join(name)
    }

    #[test]
    fn records_become_images_with_their_channels_together() {
        let dir = small();
        // The folder itself and its parent are both understood.
        for dir in [dir.path(), &dir.path().join("cifar-100-binary")] {
            let Parts { train, test, .. } = read_small(dir).unwrap().parts;
            let labels: Vec<u32> = (0..6).map(|i| train.label(i).unwrap()).collect();
            assert_eq!(labels, [10, 11, 12, 20, 99, 0]);
            let image = train.get(3).unwrap();
            assert_eq!(image.shape, SHAPE);
            assert_eq!(image.pixels[..9], [20, 100, 200, 21, 101, 201, 20, 100, 200]);
            assert_eq!((test.len(), test.label(0).unwrap()), (1, 7));
            assert_eq!(test.get(0).unwrap().pixels[3 * 1023..], [1, 2, 3]);
        }
    }

    #[test]
    fn truncated_oversized_and_empty_files_are_refused() {
        let dir = small();
        let path = file(&dir, "b.bin");
        let whole = fs::read(&path).unwrap();
        let longer = [whole.as_slice(), &[0]].concat();
        for bytes in [&whole[..whole.len() - 1], &longer, &[]] {
            fs::write(&path, bytes).unwrap();
            let error = read_small(dir.path()).unwrap_err();
            let (size, right) = (bytes.len() as u64, whole.len() as u64);
            assert!(
                matches!(&error, DataError::WrongSize { path: p, expected, found }
                    if *p == path && *expected == right && *found == size),
                "{error}"
            );
        }
    }

    #[test]
    fn a_label_out_of_range_is_named_with_its_record() {
        let dir = small();
        let mut bytes = fs::read(file(&dir, "b.bin")).unwrap();
        bytes[2 * 3074 + 1] = 100;
        fs::write(file(&dir, "b.bin"), bytes).unwrap();
        let error = read_small(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("b.bin`: record 2 has label 100, allowed are 0 to 99"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named_where_the_others_are() {
        let dir = small();
        fs::remove_file(file(&dir, "b.bin")).unwrap();
        let error = read_small(dir.path()).unwrap_err();
        let DataError::MissingFile { path, also_looked_in, .. } = &error else { panic!("{error}") };
        assert_eq!(*path, file(&dir, "b.bin"));
        assert_eq!(*also_looked_in, [dir.path()]);
        assert!(error.to_string().contains("cifar-100-binary.tar.gz"), "{error}");
        // A folder under the name of a file is no file.
        fs::create_dir(file(&dir, "b.bin")).unwrap();
        assert!(matches!(read_small(dir.path()), Err(DataError::MissingFile { .. })));
    }

    #[test]
    fn folders_that_do_not_exist_hold_nothing() {
        let dir = TempDir::new().unwrap();
        let nowhere = dir.path().join("nowhere");
        for name in ["cifar10", "cifar100"] {
            let error = open(name, Some(&nowhere), &OpenOptions::default()).unwrap_err();
            assert!(matches!(error, DataError::MissingFile { .. }), "{error}");
        }
    }

    #[test]
    fn cifar10_records_have_one_label() {
        let dir = TempDir::new().unwrap();
        let layout = Layout { train_records: 1, test_records: 1, ..LAYOUT10 };
        for (label, file) in (0..).zip(layout.files.files) {
            fs::write(dir.path().join(file.name), &record(label, [label; 3])[1..]).unwrap();
        }
        let Published { parts: Parts { train, test, .. }, files, .. } =
            read(&layout, Some(dir.path())).unwrap();
        let labels: Vec<u32> = (0..5).map(|i| train.label(i).unwrap()).collect();
        assert_eq!((labels, test.label(0).unwrap()), (vec![0, 1, 2, 3, 4], 5));
        assert_eq!(train.get(4).unwrap().pixels[..6], [4, 4, 4, 5, 5, 5]);
        assert!(matches!(files[0].clone().verify(), Err(DataError::WrongChecksum { .. })));
    }

    #[test]
    fn opening_insists_on_the_official_sizes() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("train.bin"), record(0, [0; 3])).unwrap();
        fs::write(dir.path().join("test.bin"), record(0, [0; 3])).unwrap();
        let error = open("cifar100", Some(dir.path()), &OpenOptions::default()).unwrap_err();
        assert!(matches!(error, DataError::WrongSize { expected: 153_700_000, found: 3_074, .. }));
    }

    /// Run with `HWA_DATA_DIR=<folder> cargo test -p hwa-data -- --ignored`.
    #[test]
    #[ignore = "needs CIFAR-100 in HWA_DATA_DIR"]
    fn the_real_cifar100_is_complete_and_normalised_by_its_own_statistics() {
        let report = check("cifar100", None, &|_, _| true).unwrap();
        let found: Vec<_> =
            report.splits.into_iter().map(|split| (split.examples, split.by_class)).collect();
        let classes = |examples: usize| (100 * examples, vec![examples; 100]);
        assert_eq!(found, [classes(450), classes(50), classes(100)]);

        let options = OpenOptions { validation: Some(0), ..OpenOptions::default() };
        let source = open("cifar100", None, &options).unwrap();
        let train = source.splits.train;
        let (mut sums, mut squares) = ([0.0; 3], [0.0; 3]);
        for i in 0..train.len() {
            for pixel in train.get(i).unwrap().pixels.chunks(3) {
                for (c, &byte) in pixel.iter().enumerate() {
                    sums[c] += f64::from(byte) / 255.0;
                    squares[c] += (f64::from(byte) / 255.0).powi(2);
                }
            }
        }
        let count = (train.len() * PLANE) as f64;
        for (c, channel) in source.transform.normalise.channels().iter().enumerate() {
            let mean = sums[c] / count;
            let std = (squares[c] / count - mean * mean).sqrt();
            assert!((f64::from(channel.mean) - mean).abs() < 1e-4, "{c}: {mean}");
            assert!((f64::from(channel.std) - std).abs() < 1e-4, "{c}: {std}");
        }
    }
}
