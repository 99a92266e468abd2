//! The data sets that can be opened, one file each.
//!
//! A data set is an entry of the catalogue: what it is, and a function that reads
//! its published parts. Validation split and subsets are made here, alike for all.

mod cifar;
mod digits;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::dataset::ImageShape;
use crate::error::DataError;
use crate::place::FoundFile;
use crate::split::Part;
use crate::subset::{Splits, Subset};
use crate::transform::Transform;

/// What is known about a data set before it is opened.
#[derive(Debug, Clone, Copy, Serialize)]
#[non_exhaustive]
pub struct CatalogueEntry {
    /// The name it is opened by.
    pub name: &'static str,
    /// What its images show.
    pub summary: &'static str,
    /// How many classes it has.
    pub num_classes: usize,
    /// The shape of an image.
    pub shape: ImageShape,
    /// How many images there are to train on, validation included.
    pub train_examples: usize,
    /// How many of them are held out for validation unless asked otherwise.
    pub validation_examples: usize,
    /// How many images there are to test on.
    pub test_examples: usize,
    /// On what terms it is published.
    pub licence: &'static str,
    /// Whom to cite.
    pub citation: &'static str,
    /// The folder that its archive unpacks to, looked for in the folder named or in
    /// the [cache folder](crate::cache_folder); `None` if it is part of this library.
    pub folder: Option<&'static str>,
    /// Where its authors publish the archive.
    pub archive: Option<&'static str>,
    #[serde(skip)]
    locate: fn(Option<&Path>) -> Result<Vec<FoundFile>, DataError>,
    #[serde(skip)]
    read: fn(Option<&Path>) -> Result<Published, DataError>,
}

/// A data set as its authors publish it.
#[derive(Debug)]
struct Published {
    train: Subset,
    test: Subset,
    transform: Transform,
    /// What it was read from; none if it is part of this library.
    files: Vec<FoundFile>,
}

/// What to make of a data set. The default is its usual splits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// How many training images to hold out for validation, stratified; `None` for
    /// the data set's default, 0 for none.
    pub validation: Option<usize>,
    /// How many of the remaining training images to keep, as many of each class;
    /// `None` for all.
    pub train_examples: Option<usize>,
    /// Chooses the images of both. Not the seed of a run: leave it at 0, and runs of
    /// all seeds and experiments share their validation images. The test images never
    /// depend on it.
    pub split_seed: u64,
}

/// An opened data set.
#[derive(Debug, Clone)]
pub struct Source {
    /// The name it was opened by.
    pub name: String,
    /// Train, validation and test.
    pub splits: Splits,
    /// How many classes there are.
    pub num_classes: usize,
    /// The shape of an image.
    pub shape: ImageShape,
    /// Its usual normalisation and augmentation.
    pub transform: Transform,
}

/// What a check of a data set found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The data set.
    pub name: String,
    /// The files that it was read from, all of the published size and checksum; none
    /// if it is part of this library.
    pub files: Vec<PathBuf>,
    /// Training, validation and test images by class, with the default options.
    pub splits: [SplitReport; 3],
}

/// The images of one split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SplitReport {
    /// `train`, `validation` or `test`.
    pub name: &'static str,
    /// How many there are.
    pub examples: usize,
    /// How many there are of each class.
    pub by_class: Vec<usize>,
}

static CATALOGUE: [CatalogueEntry; 3] = [digits::ENTRY, cifar::CIFAR10, cifar::CIFAR100];

/// Every data set that can be opened.
pub fn catalogue() -> &'static [CatalogueEntry] {
    &CATALOGUE
}

/// Opens a data set of the catalogue.
///
/// Files are looked for in `dir`, or else in the [cache folder](crate::cache_folder),
/// there or in a folder with the name that the authors' archive unpacks to.
pub fn open(name: &str, dir: Option<&Path>, options: &OpenOptions) -> Result<Source, DataError> {
    let entry = find(name)?;
    entry.split((entry.read)(dir)?, options)
}

/// Reads a data set from end to end, compares its files with the published checksums,
/// and counts.
pub fn check(name: &str, dir: Option<&Path>) -> Result<CheckReport, DataError> {
    let entry = find(name)?;
    let mut published = (entry.read)(dir)?;
    let files = std::mem::take(&mut published.files);
    let files = files.into_iter().map(FoundFile::verify).collect::<Result<_, _>>()?;
    let source = entry.split(published, &OpenOptions::default())?;
    let report = |name, subset: &Subset| {
        let by_class = subset.class_counts()?;
        Ok::<_, DataError>(SplitReport { name, examples: subset.len(), by_class })
    };
    let splits = [
        report("train", &source.splits.train)?,
        report("validation", &source.splits.validation)?,
        report("test", &source.splits.test)?,
    ];
    Ok(CheckReport { name: source.name, files, splits })
}

impl CatalogueEntry {
    /// Whether its files are where [`open`] would look for them, without reading
    /// them. A data set that is part of this library is always there.
    pub fn is_found(&self, dir: Option<&Path>) -> bool {
        (self.locate)(dir).is_ok()
    }

    fn split(&self, published: Published, options: &OpenOptions) -> Result<Source, DataError> {
        let Published { train, test, transform, .. } = published;
        let seed = options.split_seed;
        let count = options.validation.unwrap_or(self.validation_examples);
        let (validation, mut train) = train.hold_out(count, seed, Part::Validation)?;
        if let Some(count) = options.train_examples {
            train = train.balanced(count, seed)?;
        }
        Ok(Source {
            name: self.name.to_owned(),
            splits: Splits { train, validation, test },
            num_classes: self.num_classes,
            shape: self.shape,
            transform,
        })
    }
}

fn find(name: &str) -> Result<&'static CatalogueEntry, DataError> {
    CATALOGUE.iter().find(|entry| entry.name == name).ok_or_else(|| DataError::UnknownName {
        name: name.to_owned(),
        known: CATALOGUE.iter().map(|entry| entry.name).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn digits(options: OpenOptions) -> Source {
        open("digits", None, &options).unwrap()
    }

    fn numbers(subset: &Subset) -> BTreeSet<usize> {
        subset.indices().iter().copied().collect()
    }

    #[test]
    fn digits_are_split_60_20_20_in_proportion() {
        let report = check("digits", None).unwrap();
        assert!(report.files.is_empty());
        assert_eq!(report.splits.each_ref().map(|split| split.examples), [1077, 360, 360]);
        for class in 0..10 {
            let [train, validation, test] = report.splits.each_ref().map(|s| s.by_class[class]);
            assert!((34..=38).contains(&validation) && (34..=38).contains(&test));
            assert!((104..=111).contains(&train));
        }
        let Splits { train, validation, test } = digits(OpenOptions::default()).splits;
        let all = &(&numbers(&train) | &numbers(&validation)) | &numbers(&test);
        assert_eq!(all, (0..1797).collect());
    }

    #[test]
    fn the_split_seed_moves_validation_and_never_test() {
        let usual = digits(OpenOptions::default());
        assert_eq!(
            numbers(&usual.splits.validation),
            numbers(&digits(OpenOptions::default()).splits.validation)
        );
        let other = digits(OpenOptions { split_seed: 1, ..OpenOptions::default() });
        assert_ne!(numbers(&usual.splits.validation), numbers(&other.splits.validation));
        assert_eq!(numbers(&usual.splits.test), numbers(&other.splits.test));
    }

    #[test]
    fn fewer_training_examples_are_balanced_and_leave_validation_alone() {
        let usual = digits(OpenOptions::default());
        let few = digits(OpenOptions { train_examples: Some(200), ..OpenOptions::default() });
        assert_eq!(few.splits.train.class_counts().unwrap(), [20; 10]);
        assert_eq!(numbers(&few.splits.validation), numbers(&usual.splits.validation));
        assert!(numbers(&few.splits.train).is_subset(&numbers(&usual.splits.train)));
        let none = digits(OpenOptions { validation: Some(0), ..OpenOptions::default() });
        assert_eq!((none.splits.train.len(), none.splits.validation.len()), (1437, 0));
        let many = OpenOptions { train_examples: Some(1077), ..OpenOptions::default() };
        let error = open("digits", None, &many).unwrap_err();
        assert!(matches!(error, DataError::ClassTooSmall { needed: 108, .. }), "{error}");
    }

    #[test]
    fn the_catalogue_tells_the_truth() {
        let names: BTreeSet<&str> = catalogue().iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), catalogue().len());
        let entry = find("digits").unwrap();
        let source = digits(OpenOptions::default());
        assert_eq!(entry.shape, source.splits.train.get(0).unwrap().shape);
        assert_eq!(entry.num_classes, source.splits.train.num_classes());
        let Splits { train, validation, test } = source.splits;
        assert_eq!(entry.train_examples, train.len() + validation.len());
        assert_eq!(entry.validation_examples, validation.len());
        assert_eq!(entry.test_examples, test.len());
    }

    #[test]
    fn data_sets_are_found_where_they_would_be_opened() {
        let nowhere = Path::new("/no/such/folder");
        assert!(find("digits").unwrap().is_found(Some(nowhere)));
        assert!(!find("cifar10").unwrap().is_found(Some(nowhere)));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = open("digit", None, &OpenOptions::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown data set `digit`; known are digits, cifar10, cifar100"
        );
        assert!(check("", None).is_err());
    }
}
