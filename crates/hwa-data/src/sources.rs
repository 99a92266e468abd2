//! The data sets that can be opened, one file each.
//!
//! A data set is an entry of the catalogue: what it is, how its images are usually seen, and
//! a function that reads its published parts. Validation split and subsets are made here,
//! alike for all.

mod caltech256;
mod cifar;
mod cub;
mod devkit;
mod digits;
mod fashion_mnist;
mod folder;
mod imagenet;
mod photographs;
mod tiny_imagenet;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::dataset::ImageShape;
use crate::error::DataError;
use crate::files::Studio;
use crate::options::{FileOptions, OpenOptions};
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
    /// How many classes it has; `None` if its folder decides.
    pub num_classes: Option<usize>,
    /// The shape of an image as a network usually sees it.
    pub shape: ImageShape,
    /// How many images there are to train on, validation included; `None` if its folder
    /// decides.
    pub train_examples: Option<usize>,
    /// How many of them are held out for validation unless asked otherwise; `None` if its
    /// folder decides.
    pub validation_examples: Option<usize>,
    /// How many images there are to test on; `None` if its folder decides.
    pub test_examples: Option<usize>,
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
    locate: fn(Option<&Path>) -> Result<(), DataError>,
    #[serde(skip)]
    transform: fn() -> Result<Transform, DataError>,
    #[serde(skip)]
    read: fn(&Request<'_>) -> Result<Published, DataError>,
}

/// What a data set is read for.
struct Request<'a> {
    dir: Option<&'a Path>,
    /// How its images will be seen.
    transform: &'a Transform,
    files: FileOptions,
    /// How many training images will be held out for validation, if that was asked for.
    holds_out: Option<usize>,
    split_seed: u64,
}

/// A data set as its authors publish it.
#[derive(Debug)]
struct Published {
    parts: Parts,
    /// The names of the classes.
    classes: Vec<String>,
    /// What it was read from, where that is a few files with published checksums.
    files: Vec<FoundFile>,
    /// What its image files share, if it has such.
    studio: Option<Arc<Studio>>,
    /// Files among its images that are none.
    strays: usize,
    /// See [`Source::digest`].
    digest: Option<String>,
}

/// The parts of a data set.
#[derive(Debug)]
struct Parts {
    train: Subset,
    /// `None` if validation images are to be held out of `train`.
    validation: Option<Subset>,
    test: Subset,
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
    /// The names of the classes, in the order of their numbers.
    pub class_names: Vec<String>,
    /// The shape of an image as a network sees it.
    pub shape: ImageShape,
    /// Normalisation and augmentation: the data set's usual ones, changed as asked.
    pub transform: Transform,
    /// How many image files there are, and a checksum of their names and classes; `None` if
    /// the data set does not consist of such files. Splits depend on it.
    pub digest: Option<String>,
    studio: Option<Arc<Studio>>,
}

impl Source {
    /// The folder of the image files; `None` if the data set does not consist of such files.
    pub fn root(&self) -> Option<&Path> {
        self.studio.as_ref().map(|studio| studio.root())
    }

    /// How many image files could not be read so far.
    pub fn num_unreadable(&self) -> usize {
        self.studio.as_ref().map_or(0, |studio| studio.unreadable().len())
    }

    /// The image files that could not be read so far, and why.
    pub fn unreadable(&self) -> Vec<(PathBuf, String)> {
        self.studio.as_ref().map_or_else(Vec::new, |studio| studio.unreadable().list())
    }
}

static CATALOGUE: [CatalogueEntry; 10] = [
    digits::ENTRY,
    cifar::CIFAR10,
    cifar::CIFAR100,
    fashion_mnist::ENTRY,
    tiny_imagenet::ENTRY,
    cub::ENTRY,
    caltech256::CALTECH256,
    caltech256::CALTECH257,
    imagenet::ENTRY,
    folder::ENTRY,
];

/// Every data set that can be opened.
pub fn catalogue() -> &'static [CatalogueEntry] {
    &CATALOGUE
}

/// Opens a data set of the catalogue.
///
/// Files are looked for in `dir`, or else in the [cache folder](crate::cache_folder),
/// there or in a folder with the name that the authors' archive unpacks to.
pub fn open(name: &str, dir: Option<&Path>, options: &OpenOptions) -> Result<Source, DataError> {
    let (source, ..) = find(name)?.opened(dir, options)?;
    Ok(source)
}

impl CatalogueEntry {
    /// Whether its files are where [`open`] would look for them, without reading
    /// them. A data set that is part of this library is always there.
    pub fn is_found(&self, dir: Option<&Path>) -> bool {
        (self.locate)(dir).is_ok()
    }

    /// The data set, the files that it was read from, and how many others lie among them.
    pub(crate) fn opened(
        &self,
        dir: Option<&Path>,
        options: &OpenOptions,
    ) -> Result<(Source, Vec<FoundFile>, usize), DataError> {
        let transform = options.view.applied((self.transform)()?, self.shape)?;
        let mut published = (self.read)(&Request {
            dir,
            transform: &transform,
            files: options.files,
            holds_out: options.validation,
            split_seed: options.split_seed,
        })?;
        let files = std::mem::take(&mut published.files);
        let strays = published.strays;
        Ok((self.split(published, options, transform)?, files, strays))
    }

    fn split(
        &self,
        published: Published,
        options: &OpenOptions,
        transform: Transform,
    ) -> Result<Source, DataError> {
        let Published { parts, classes, studio, digest, .. } = published;
        let Parts { train, validation, test } = parts;
        if let (Some(before), Some(now)) = (&options.digest, &digest)
            && before != now
        {
            let reason = format!(
                "was {before}, now it is {now}: files were added or removed, and the split is another"
            );
            return Err(DataError::BadOption { key: "data.digest", reason });
        }
        let seed = options.split_seed;
        let (validation, mut train) = match (validation, options.validation) {
            (None, count) => {
                let usual = self.validation_examples.unwrap_or(train.len().div_ceil(10));
                train.hold_out(count.unwrap_or(usual), seed, Part::Validation)?
            }
            (Some(_), Some(0)) => (train.with_sorted(Vec::new()), train),
            (Some(own), Some(count)) if count != own.len() => {
                let own = own.len();
                let reason = format!("is {count}, but the folder has {own} validation images");
                return Err(DataError::BadOption { key: "data.validation", reason });
            }
            (Some(own), _) => (own, train),
        };
        if let Some(count) = options.train_examples {
            train = train.balanced(count, seed)?;
        }
        Ok(Source {
            name: self.name.to_owned(),
            splits: Splits { train, validation, test },
            num_classes: classes.len(),
            class_names: classes,
            shape: transform.output(self.shape),
            transform,
            digest,
            studio,
        })
    }
}

/// The data set of that name.
pub(crate) fn find(name: &str) -> Result<&'static CatalogueEntry, DataError> {
    CATALOGUE.iter().find(|entry| entry.name == name).ok_or_else(|| DataError::UnknownName {
        name: name.to_owned(),
        known: CATALOGUE.iter().map(|entry| entry.name).collect(),
    })
}

/// Names for classes that have none.
fn numbered(classes: usize) -> Vec<String> {
    (0..classes).map(|class| class.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::check::check;

    fn digits(options: OpenOptions) -> Source {
        open("digits", None, &options).unwrap()
    }

    fn numbers(subset: &Subset) -> BTreeSet<usize> {
        subset.indices().iter().copied().collect()
    }

    #[test]
    fn digits_are_split_60_20_20_in_proportion() {
        let report = check("digits", None, &|_, _| true).unwrap();
        assert!(report.files.is_empty());
        assert_eq!(
            report.splits.iter().map(|split| split.examples).collect::<Vec<_>>(),
            [1077, 360, 360]
        );
        for class in 0..10 {
            let [train, validation, test] = [0, 1, 2].map(|i| report.splits[i].by_class[class]);
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
        assert_eq!(entry.num_classes, Some(source.splits.train.num_classes()));
        let Splits { train, validation, test } = source.splits;
        assert_eq!(entry.train_examples, Some(train.len() + validation.len()));
        assert_eq!(entry.validation_examples, Some(validation.len()));
        assert_eq!(entry.test_examples, Some(test.len()));
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
            "unknown data set `digit`; known are digits, cifar10, cifar100, fashion-mnist, \
             tiny-imagenet, cub200, caltech256, caltech257, imagenet, folder"
        );
        assert!(check("", None, &|_, _| true).is_err());
    }
}
