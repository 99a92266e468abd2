//! Any folder of class folders, split by its owner or here.
//!
//! With `train` and `test` folders (and `val`, or `valid`, or `validation`) the split is the
//! owner's; of `train` and `val` alone, `val` is for testing, and validation images are held
//! out of `train`: what chooses must not be what is reported. Without them a fifth of each
//! class is for testing and a fifth for validation, always the same images.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::photographs::{self, Lists, SHAPE};
use super::{CatalogueEntry, Parts, Published, Request};
use crate::error::DataError;
use crate::files::{ImageFiles, LabelledFile};
use crate::scan::{ClassFolders, class_folders, entries};
use crate::split::Part;
use crate::subset::Subset;

const NAME: &str = "folder";
const VALIDATION: [&str; 3] = ["val", "valid", "validation"];

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: NAME,
    summary: "your own images: a folder for each class, in --data-dir",
    num_classes: None,
    shape: SHAPE,
    train_examples: None,
    validation_examples: None,
    test_examples: None,
    licence: "yours",
    citation: "none",
    folder: Some("."),
    archive: None,
    locate: |dir| folder(dir).map(drop),
    transform: photographs::cropped,
    read,
};

/// There is no folder to look in but the one that is named.
fn folder(dir: Option<&Path>) -> Result<&Path, DataError> {
    let dir = dir.ok_or(DataError::NoFolder { dataset: NAME })?;
    match dir.is_dir() {
        true => Ok(dir),
        false => {
            let reason = "there is no such folder".to_owned();
            Err(DataError::WrongContent { path: dir.to_owned(), reason })
        }
    }
}

fn read(request: &Request<'_>) -> Result<Published, DataError> {
    let root = folder(request.dir)?;
    let owner = Owner::of(root)?;
    if let (Some(train), true) = (&owner.train, owner.test.is_some() || owner.validation.is_some())
    {
        return split_by_owner(root, train, &owner)?.published(request);
    }
    let found = class_folders(root, root)?;
    ensure_images(root, &found)?;
    let lists = Lists { root: root.to_owned(), train: found.files, ..Lists::default() };
    let (studio, digest) = (lists.studio(request)?, Some(lists.digest()));
    let images = ImageFiles::new(Arc::clone(&studio), lists.train, found.classes.len())?;
    let all = Subset::all(Arc::new(images));
    let fifth = all.len() / 5;
    let (test, rest) = all.hold_out(fifth, 0, Part::Test)?;
    let parts = match request.holds_out {
        // The usual fifth of all.
        None => {
            let (validation, train) = rest.hold_out(fifth, request.split_seed, Part::Validation)?;
            Parts { train, validation: Some(validation), test }
        }
        Some(_) => Parts { train: rest, validation: None, test },
    };
    let (classes, strays) = (found.classes, found.strays);
    Ok(Published { parts, classes, files: Vec::new(), studio: Some(studio), strays, digest })
}

/// The folders of a split that its owner made, in small letters or others.
struct Owner {
    train: Option<PathBuf>,
    validation: Option<PathBuf>,
    test: Option<PathBuf>,
}

impl Owner {
    fn of(root: &Path) -> Result<Self, DataError> {
        let folders: Vec<PathBuf> = entries(root)?
            .into_iter()
            .filter(|entry| entry.is_folder)
            .map(|entry| entry.path)
            .collect();
        let called = |names: &[&str]| {
            let is_one = |path: &&PathBuf| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                names.iter().any(|known| name.eq_ignore_ascii_case(known))
            };
            folders.iter().find(is_one).cloned()
        };
        Ok(Self {
            train: called(&["train"]),
            validation: called(&VALIDATION),
            test: called(&["test"]),
        })
    }
}

fn split_by_owner(root: &Path, train_folder: &Path, owner: &Owner) -> Result<Lists, DataError> {
    let train = class_folders(root, train_folder)?;
    ensure_images(train_folder, &train)?;
    let (validation, test) = match owner.test.clone() {
        Some(test) => (owner.validation.clone(), test),
        // One of the two is there.
        None => (None, owner.validation.clone().unwrap_or_default()),
    };
    let mut strays = train.strays;
    let mut of = |folder: PathBuf| {
        let found = class_folders(root, &folder)?;
        strays += found.strays;
        labelled_as(&train.classes, found, folder)
    };
    let validation = validation.map(&mut of).transpose()?;
    let test = of(test)?;
    let (classes, train) = (train.classes, train.files);
    Ok(Lists { root: root.to_owned(), classes, train, validation, test, strays })
}

/// The files of another split, labelled with the classes of the training images.
fn labelled_as(
    classes: &[String],
    found: ClassFolders,
    folder: PathBuf,
) -> Result<Vec<LabelledFile>, DataError> {
    let mut labels = Vec::with_capacity(found.classes.len());
    for name in &found.classes {
        let label = classes.iter().position(|known| known == name);
        labels.push(label.ok_or_else(|| DataError::WrongContent {
            path: folder.join(name),
            reason: "there is no such class in `train`".to_owned(),
        })? as u32);
    }
    if found.files.is_empty() {
        let reason = "holds no images in folders of classes".to_owned();
        return Err(DataError::WrongContent { path: folder, reason });
    }
    let relabelled =
        |file: LabelledFile| LabelledFile { label: labels[file.label as usize], ..file };
    Ok(found.files.into_iter().map(relabelled).collect())
}

/// Every class needs something to learn from.
fn ensure_images(folder: &Path, found: &ClassFolders) -> Result<(), DataError> {
    let mut counts = vec![0; found.classes.len()];
    for file in &found.files {
        counts[file.label as usize] += 1;
    }
    let wrong = |path: PathBuf, reason: &str| {
        Err(DataError::WrongContent { path, reason: reason.to_owned() })
    };
    match counts.iter().position(|&count| count == 0) {
        _ if counts.len() < 2 => {
            let reason = match found.classes.first() {
                Some(only) if only.eq_ignore_ascii_case("train") => {
                    format!("has `{only}` but neither `test` nor `val` beside it")
                }
                Some(only) => format!(
                    "has one folder, `{only}`, expected one for each of at least 2 classes; if \
                     those are in it, name it instead"
                ),
                None => "has no folders, expected one for each of at least 2 classes".to_owned(),
            };
            wrong(folder.to_owned(), &reason)
        }
        Some(empty) => wrong(folder.join(&found.classes[empty]), "a class without images"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::ImageShape;
    use crate::fixtures::{bmp, folder, images};
    use crate::options::{OpenOptions, ViewOptions};
    use crate::sources::{Source, open};

    fn opened(dir: &Path, options: &OpenOptions) -> Result<Source, String> {
        open("folder", Some(dir), options).map_err(|error| error.to_string())
    }

    fn lengths(source: &Source) -> [usize; 3] {
        let splits = &source.splits;
        [splits.train.len(), splits.validation.len(), splits.test.len()]
    }

    #[test]
    fn without_folders_of_splits_three_fifths_are_for_training() {
        let dir = folder(images("cat", 10).chain(images("dog", 20)));
        let usual = opened(dir.path(), &OpenOptions::default()).unwrap();
        assert_eq!(lengths(&usual), [18, 6, 6]);
        assert_eq!(usual.splits.test.class_counts().unwrap(), [2, 4]);
        assert_eq!(usual.class_names, ["cat", "dog"]);
        assert_eq!(usual.shape, ImageShape { height: 224, width: 224, channels: 3 });
        let options = OpenOptions { validation: Some(3), ..OpenOptions::default() };
        let other = opened(dir.path(), &options).unwrap();
        assert_eq!(lengths(&other), [21, 3, 6]);
        assert_eq!(other.splits.test.indices(), usual.splits.test.indices());
        // What a run keeps of the usual split opens the same one.
        let options = OpenOptions { validation: Some(6), ..OpenOptions::default() };
        let kept = opened(dir.path(), &options).unwrap();
        assert_eq!(kept.splits.validation.indices(), usual.splits.validation.indices());
    }

    #[test]
    fn a_split_that_was_made_before_is_not_made_of_other_files() {
        let dir = folder(images("cat", 10).chain(images("dog", 20)));
        let digest = opened(dir.path(), &OpenOptions::default()).unwrap().digest;
        assert!(digest.as_ref().unwrap().starts_with("30 files, "));
        let options = OpenOptions { digest, ..OpenOptions::default() };
        assert!(opened(dir.path(), &options).is_ok());
        std::fs::write(dir.path().join("cat/new.bmp"), bmp(8, 8, [0; 3])).unwrap();
        let error = opened(dir.path(), &options).unwrap_err();
        assert!(error.starts_with("`data.digest` was 30 files, "), "{error}");
        assert!(error.contains("now it is 31 files, "), "{error}");
    }

    #[test]
    fn the_owners_split_is_kept() {
        let of = |part: &str, count| {
            images(&format!("{part}/a"), count).chain(images(&format!("{part}/b"), count))
        };
        let dir = folder(of("train", 5).chain(of("valid", 2)).chain(of("test", 1)));
        let source = opened(dir.path(), &OpenOptions::default()).unwrap();
        assert_eq!(lengths(&source), [10, 4, 2]);
        let options = OpenOptions { validation: Some(1), ..OpenOptions::default() };
        let error = opened(dir.path(), &options).unwrap_err();
        assert_eq!(error, "`data.validation` is 1, but the folder has 4 validation images");

        let dir = folder(of("train", 10).chain(of("val", 2)));
        let source = opened(dir.path(), &OpenOptions::default()).unwrap();
        // What was called validation is reported, so a tenth of the others chooses.
        assert_eq!(lengths(&source), [18, 2, 4]);
    }

    #[test]
    fn a_split_may_lack_classes_but_has_no_others() {
        let train = images("train/a", 5).chain(images("train/b", 5));
        let dir = folder(train.chain(images("test/b", 2)));
        let source = opened(dir.path(), &OpenOptions::default()).unwrap();
        assert_eq!(source.splits.test.class_counts().unwrap(), [0, 2]);
        let train = images("train/a", 5).chain(images("train/b", 5));
        let dir = folder(train.chain(images("test/c", 2)));
        let error = opened(dir.path(), &OpenOptions::default()).unwrap_err();
        assert!(error.ends_with("test/c`: there is no such class in `train`"), "{error}");
    }

    #[test]
    fn folders_without_classes_or_images_are_refused_by_name() {
        let error = |dir: &Path| opened(dir, &OpenOptions::default()).unwrap_err();
        let one = folder(images("a", 3));
        assert!(error(one.path()).contains("has one folder, `a`, expected one for each of"));
        let empty = folder(images("a", 3).chain([("b/notes.txt".to_owned(), vec![])]));
        assert!(error(empty.path()).ends_with("b`: a class without images"));
        // Without another part beside it, a train is a train.
        let trains = folder(images("train", 5).chain(images("tram", 5)));
        let source = opened(trains.path(), &OpenOptions::default()).unwrap();
        assert_eq!(source.class_names, ["train", "tram"]);
        assert!(error(&one.path().join("none")).ends_with("there is no such folder"));
        assert!(open("folder", None, &OpenOptions::default()).is_err());
    }

    #[test]
    fn images_of_all_sizes_come_out_at_one() {
        let sizes = [(5, 9), (300, 200), (64, 64), (1, 30)];
        let image = |(i, (height, width)): (usize, (usize, usize))| {
            (format!("{}/{i}.bmp", ["a", "b"][i % 2]), bmp(height, width, [9, 9, 9]))
        };
        let dir = folder((0..3).flat_map(|_| sizes).enumerate().map(image));
        let size = std::num::NonZeroUsize::new(16);
        let view = ViewOptions { size, ..ViewOptions::default() };
        let source = opened(dir.path(), &OpenOptions { view, ..OpenOptions::default() }).unwrap();
        let batch = std::num::NonZeroUsize::new(100).unwrap();
        let batches =
            crate::EvaluationBatches::new(source.splits.train.clone(), source.transform, batch);
        for batch in batches {
            let batch = batch.unwrap();
            assert_eq!(batch.shape, source.shape);
            assert_eq!(batch.len(), source.splits.train.len());
        }
    }
}
