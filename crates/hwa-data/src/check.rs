//! Whether a data set is whole: its files, its counts, each of its images.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use crate::dataset::OnBadImage;
use crate::developer::Developer;
use crate::error::DataError;
use crate::options::{FileOptions, OpenOptions};
use crate::place::FoundFile;
use crate::sources::{Source, find};
use crate::subset::Subset;

/// What a check of a data set found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The data set.
    pub name: String,
    /// The files that it was read from, all of the published size and checksum; none
    /// if its images are files, or if it is part of this library.
    pub files: Vec<PathBuf>,
    /// The names of the classes.
    pub class_names: Vec<String>,
    /// Training, validation and test images by class, with the default options.
    pub splits: Vec<SplitReport>,
    /// Images that cannot be read.
    pub unreadable: Vec<BadFile>,
    /// Files among the images that are none.
    pub strays: usize,
    /// Where counts are not those that were published.
    pub differences: Vec<String>,
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

/// A file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadFile {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

impl CheckReport {
    /// Whether everything is as published.
    pub fn is_whole(&self) -> bool {
        self.unreadable.is_empty() && self.differences.is_empty()
    }
}

/// Reads a data set from end to end, compares its files with the published checksums and
/// its counts with the published ones, and decodes every image.
///
/// `go_on` hears how many images of how many have been looked at, and ends the check by
/// saying no.
pub fn check(
    name: &str,
    dir: Option<&Path>,
    go_on: &(dyn Fn(usize, usize) -> bool + Sync),
) -> Result<CheckReport, DataError> {
    let entry = find(name)?;
    // Nothing is looked at twice.
    let files = FileOptions { cache_mib: 0, on_bad_image: OnBadImage::Fail, ..Default::default() };
    let options = OpenOptions { files, ..OpenOptions::default() };
    let (source, files, strays) = entry.opened(dir, &options)?;
    let files = files.into_iter().map(FoundFile::verify).collect::<Result<_, _>>()?;
    look_at_all(&source, go_on)?;
    let report = |name, subset: &Subset| {
        let by_class = subset.class_counts()?;
        Ok::<_, DataError>(SplitReport { name, examples: subset.len(), by_class })
    };
    let splits = vec![
        report("train", &source.splits.train)?,
        report("validation", &source.splits.validation)?,
        report("test", &source.splits.test)?,
    ];
    let [train, validation, test] = [0, 1, 2].map(|i| splits[i].examples);
    let published = [
        ("training", entry.train_examples, train + validation),
        ("test", entry.test_examples, test),
    ];
    let differences = published.into_iter().filter_map(|(what, expected, found)| {
        let expected = expected.filter(|expected| *expected != found)?;
        Some(format!("{found} {what} images, published are {expected}"))
    });
    let bad = |(path, reason)| BadFile { path, reason };
    Ok(CheckReport {
        files,
        splits,
        unreadable: source.unreadable().into_iter().map(bad).collect(),
        strays,
        differences: differences.collect(),
        name: source.name,
        class_names: source.class_names,
    })
}

/// Looks at one image as an evaluation does.
fn seen(subset: &Subset, developer: &Developer, i: usize) -> Result<(), DataError> {
    let example = subset.get(i)?;
    let mut out = vec![0.0; developer.output(example.shape).len()];
    let developed = developer.develop(&example, None, &mut out);
    developed.map_err(|error| subset.bad_image(i, error))
}

/// Decodes every image once; those that cannot be are noted by the data set.
fn look_at_all(
    source: &Source,
    go_on: &(dyn Fn(usize, usize) -> bool + Sync),
) -> Result<(), DataError> {
    let splits = &source.splits;
    let subsets = [&splits.train, &splits.validation, &splits.test];
    let total: usize = subsets.iter().map(|subset| subset.len()).sum();
    let developer = Developer::new(&source.transform.without_augmentation());
    let (done, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    for subset in subsets {
        let look = |i: usize| {
            if stopped.load(Ordering::Relaxed) {
                return Err(DataError::Interrupted);
            }
            match seen(subset, &developer, i) {
                Ok(()) | Err(DataError::BadImage { .. }) => {}
                Err(error) => return Err(error),
            }
            if !go_on(done.fetch_add(1, Ordering::Relaxed) + 1, total) {
                stopped.store(true, Ordering::Relaxed);
            }
            Ok(())
        };
        match subset.dataset().decoders() {
            Some(pool) => pool.install(|| (0..subset.len()).into_par_iter().try_for_each(look))?,
            None => (0..subset.len()).try_for_each(look)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{folder, images};

    fn damaged() -> tempfile::TempDir {
        let bad = [("a/bad.png".to_owned(), b"no".to_vec()), ("a/notes.txt".to_owned(), vec![])];
        folder(images("a", 9).chain(images("b", 10)).chain(bad))
    }

    #[test]
    fn bad_images_and_strays_are_found() {
        let dir = damaged();
        let seen = std::sync::Mutex::new(0);
        let go_on = |done: usize, total: usize| {
            assert!(done <= total && total == 20);
            *seen.lock().unwrap() += 1;
            true
        };
        let report = check("folder", Some(dir.path()), &go_on).unwrap();
        assert_eq!(*seen.lock().unwrap(), 20);
        assert_eq!(report.unreadable.len(), 1);
        assert_eq!(report.unreadable[0].path, dir.path().join("a/bad.png"));
        assert_eq!((report.strays, report.is_whole()), (1, false));
        let counts: Vec<(&str, usize)> =
            report.splits.iter().map(|split| (split.name, split.examples)).collect();
        assert_eq!(counts, [("train", 12), ("validation", 4), ("test", 4)]);
        assert!(check("digits", None, &|_, _| true).unwrap().is_whole());
    }

    #[test]
    fn a_check_ends_when_it_is_told_to() {
        let dir = damaged();
        let stopped = check("folder", Some(dir.path()), &|done, _| done < 3);
        assert!(matches!(stopped, Err(DataError::Interrupted)));
    }
}
