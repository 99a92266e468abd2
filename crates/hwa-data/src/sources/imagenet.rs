//! ImageNet (ILSVRC 2012). Its validation images are for testing here; the labels of its
//! test images were never published.
//!
//! Training images lie in a folder for each class. Validation images do too, as most people
//! sort them, or lie in one folder as published, beside a list of their classes or the
//! authors' development kit.

use std::path::{Path, PathBuf};

use super::devkit::{self, Devkit};
use super::photographs::{self, Lists, SHAPE};
use super::{CatalogueEntry, Published, Request};
use crate::error::DataError;
use crate::files::LabelledFile;
use crate::list::{Line, List};
use crate::place::Home;
use crate::scan::{ClassFolders, below, class_folders, entries, images_below};

const HOME: Home = Home {
    dataset: "imagenet",
    folder: "imagenet",
    marker: "train",
    archive: "https://image-net.org/download.php",
};

const CLASSES: usize = 1000;

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: HOME.dataset,
    summary: "photographs of 1000 kinds of things (ILSVRC 2012)",
    num_classes: Some(CLASSES),
    shape: SHAPE,
    train_examples: Some(1_281_167),
    validation_examples: Some(50_000),
    test_examples: Some(50_000),
    licence: "on request, for non-commercial research and education",
    citation: "O. Russakovsky and others, \"ImageNet Large Scale Visual Recognition Challenge\", \
               IJCV 115, 2015",
    folder: Some(HOME.folder),
    archive: Some(HOME.archive),
    locate: |dir| HOME.locate(dir).map(drop),
    transform: photographs::resized_crops,
    read,
};

/// Lists of the validation images' classes: one name a line in the order of the images,
/// or the name of an image and its class.
const IN_ORDER: &str = "imagenet_2012_validation_synset_labels.txt";
const BY_NAME: &str = "LOC_val_solution.csv";

fn read(request: &Request<'_>) -> Result<Published, DataError> {
    lists(&HOME.locate(request.dir)?, CLASSES)?.published(request)
}

fn lists(root: &Path, classes: usize) -> Result<Lists, DataError> {
    let train = class_folders(root, &root.join("train"))?;
    ensure_classes(&root.join("train"), &train, classes)?;
    let folder = root.join("val");
    let (test, strays) = match entries(&folder)?.iter().any(|entry| entry.is_folder) {
        true => {
            let found = class_folders(root, &folder)?;
            ensure_classes(&folder, &found, classes)?;
            if let Some((a, b)) = train.classes.iter().zip(&found.classes).find(|(a, b)| a != b) {
                let reason = format!("has the class `{b}` where train has `{a}`");
                return Err(DataError::WrongContent { path: folder, reason });
            }
            (found.files, found.strays)
        }
        false => flat(root, &folder, &train.classes)?,
    };
    Ok(Lists {
        root: root.to_owned(),
        classes: train.classes,
        train: train.files,
        validation: None,
        test,
        strays: train.strays + strays,
    })
}

fn ensure_classes(path: &Path, found: &ClassFolders, classes: usize) -> Result<(), DataError> {
    if found.classes.len() != classes {
        let found = found.classes.len();
        let reason = format!(
            "{found} folders of classes, expected {classes}; for other classes there is the \
             data set `folder`"
        );
        return Err(DataError::WrongContent { path: path.to_owned(), reason });
    }
    Ok(())
}

/// Images in one folder, with a list of their classes.
fn flat(
    root: &Path,
    folder: &Path,
    classes: &[String],
) -> Result<(Vec<LabelledFile>, usize), DataError> {
    let mut images = Vec::new();
    let strays = images_below(folder, 0, &mut images)?;
    let find = |name: &str| {
        [root, folder].map(|dir| dir.join(name)).into_iter().find(|path| path.is_file())
    };
    let labels = match (find(IN_ORDER), find(BY_NAME), Devkit::find(root)) {
        (Some(list), ..) => {
            in_order(List::read(list)?, images.len(), |line| known(line, line.word(), classes))?
        }
        (None, Some(list), _) => by_name(List::read(list)?, &images, classes)?,
        (None, None, Some(devkit)) => by_number(&devkit, &images, classes)?,
        (None, None, None) => {
            let reason = format!(
                "images without folders of classes, and neither {IN_ORDER} nor {BY_NAME} nor the \
                 development kit ({}) to tell their classes",
                devkit::FOLDER
            );
            return Err(DataError::WrongContent { path: folder.to_owned(), reason });
        }
    };
    let file = |(path, label)| LabelledFile { path: below(root, path), label };
    Ok((images.into_iter().zip(labels).map(file).collect(), strays))
}

/// A line for each image, which `label` makes a class of.
fn in_order(
    list: List,
    images: usize,
    label: impl Fn(Line<'_>) -> Result<u32, DataError>,
) -> Result<Vec<u32>, DataError> {
    let labels: Vec<u32> = list.lines().map(label).collect::<Result<_, _>>()?;
    if labels.len() != images {
        let (path, line) = (list.path().to_owned(), labels.len());
        let reason = format!("{line} classes for {images} images");
        return Err(DataError::BadLine { path, line, reason });
    }
    Ok(labels)
}

/// The development kit has numbers of classes, in the order of the images, and their names.
fn by_number(
    devkit: &Devkit,
    images: &[PathBuf],
    classes: &[String],
) -> Result<Vec<u32>, DataError> {
    devkit::ensure_published_names(images)?;
    let leaves = devkit.leaves()?;
    in_order(List::read(devkit.ground_truth())?, images.len(), |line| {
        let number = line.number(line.word(), 1, classes.len())?;
        let Some(name) = leaves.get(&(number as u32)) else {
            return Err(line.wrong(format!("meta.mat has no class with the number {number}")));
        };
        known(line, name, classes)
    })
}

fn by_name(list: List, images: &[PathBuf], classes: &[String]) -> Result<Vec<u32>, DataError> {
    let mut labels = std::collections::HashMap::new();
    // The first line names the columns.
    for line in list.lines().skip(1) {
        let known = line.word().split_once(',').and_then(|(name, rest)| {
            Some((name, class(rest.split_whitespace().next()?, classes)?))
        });
        let wrong = || line.wrong("expected the name of an image, a comma and a class".to_owned());
        let (name, label) = known.ok_or_else(wrong)?;
        labels.insert(name, label);
    }
    let label = |image: &PathBuf| {
        let name = image.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        labels.get(name).copied().ok_or_else(|| {
            let reason = format!("the class of `{name}` is not listed");
            DataError::BadLine { path: list.path().to_owned(), line: 1, reason }
        })
    };
    images.iter().map(label).collect()
}

fn known(line: Line<'_>, name: &str, classes: &[String]) -> Result<u32, DataError> {
    class(name, classes).ok_or_else(|| line.wrong(format!("`{name}` is not a class")))
}

/// Classes come in the order of their names.
fn class(name: &str, classes: &[String]) -> Option<u32> {
    classes.binary_search_by(|known| known.as_str().cmp(name)).ok().map(|label| label as u32)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::fixtures::{self, bmp, folder, images};

    fn train() -> impl Iterator<Item = (String, Vec<u8>)> {
        images("train/n01", 2).chain(images("train/n02", 1))
    }

    fn labels(lists: &Lists) -> Vec<u32> {
        lists.test.iter().map(|file| file.label).collect()
    }

    #[test]
    fn validation_images_in_folders_of_classes_are_for_testing() {
        let dir = folder(train().chain(images("val/n01", 1)).chain(images("val/n02", 2)));
        let found = lists(dir.path(), 2).unwrap();
        assert_eq!((found.train.len(), labels(&found)), (3, vec![0, 1, 1]));
        let dir = folder(train().chain(images("val/n01", 1)).chain(images("val/n03", 2)));
        let error = lists(dir.path(), 2).unwrap_err().to_string();
        assert!(error.ends_with("val`: has the class `n03` where train has `n02`"), "{error}");
    }

    #[test]
    fn validation_images_in_one_folder_take_their_classes_from_a_list() {
        let flat = ["b", "a"].map(|name| (format!("val/{name}.JPEG"), bmp(2, 2, [0; 3])));
        let dir = folder(train().chain(flat));
        let error = lists(dir.path(), 2).unwrap_err().to_string();
        assert!(error.contains("neither imagenet_2012_validation_synset_labels.txt"), "{error}");
        assert!(error.contains("the development kit (ILSVRC2012_devkit_t12) to tell"), "{error}");

        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write(BY_NAME, "ImageId,PredictionString\nb,n01 1 2 3 4\na,n02 1 2 3 4 n02 5 6 7 8\n");
        assert_eq!(labels(&lists(dir.path(), 2).unwrap()), [1, 0]);
        write(IN_ORDER, "n01\nn02\n");
        assert_eq!(labels(&lists(dir.path(), 2).unwrap()), [0, 1]);

        write(IN_ORDER, "n01\n");
        let error = lists(dir.path(), 2).unwrap_err().to_string();
        assert!(error.ends_with("1 classes for 2 images"), "{error}");
        fs::remove_file(dir.path().join(IN_ORDER)).unwrap();
        write(BY_NAME, "ImageId,PredictionString\nb,n01 1 2 3 4\n");
        let error = lists(dir.path(), 2).unwrap_err().to_string();
        assert!(error.ends_with("the class of `a` is not listed"), "{error}");
        write(BY_NAME, "ImageId,PredictionString\nb;n01\n");
        assert!(lists(dir.path(), 2).unwrap_err().to_string().contains("line 2: expected"));
    }

    /// The published layout: three classes to train on, so many validation images, and the
    /// development kit with these numbers.
    fn published(images: usize, numbers: &str) -> TempDir {
        let train = ["n02100735", "n02119789", "n07753592"];
        let train =
            train.into_iter().flat_map(|class| fixtures::images(&format!("train/{class}"), 1));
        let name = |number| format!("val/ILSVRC2012_val_{number:08}.JPEG");
        let val = (1..=images).map(|number| (name(number), bmp(2, 2, [0; 3])));
        let meta = include_bytes!("../../tests/golden/meta.mat").to_vec();
        let kit = [(META, meta), (GROUND_TRUTH, numbers.as_bytes().to_vec())];
        folder(train.chain(val).chain(kit.map(|(name, bytes)| (name.to_owned(), bytes))))
    }

    const META: &str = "ILSVRC2012_devkit_t12/data/meta.mat";
    const GROUND_TRUTH: &str = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt";

    fn refused(dir: &TempDir) -> String {
        let error = lists(dir.path(), 3).unwrap_err().to_string();
        error.replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn validation_images_as_published_take_their_classes_from_the_development_kit() {
        // In meta.mat the three classes have the numbers 3, 1 and 2.
        let dir = published(4, "3\n1\n2\n1\n");
        let found = lists(dir.path(), 3).unwrap();
        assert_eq!((labels(&found), found.strays), (vec![0, 1, 2, 1], 0));
        let first = found.test[0].path.display().to_string();
        assert_eq!(first, "val/ILSVRC2012_val_00000001.JPEG");

        let compressed = include_bytes!("../../tests/golden/meta_compressed.mat");
        fs::write(dir.path().join(META), compressed).unwrap();
        assert_eq!(labels(&lists(dir.path(), 3).unwrap()), [0, 1, 2, 1]);
    }

    #[test]
    fn a_development_kit_that_does_not_fit_is_refused() {
        let short = refused(&published(4, "3\n1\n2\n"));
        assert_eq!(short, format!("`{GROUND_TRUTH}`, line 3: 3 classes for 4 images"));
        let long = refused(&published(2, "3\n1\n2\n"));
        assert_eq!(long, format!("`{GROUND_TRUTH}`, line 3: 3 classes for 2 images"));
        for number in ["0", "4", "-1", "fox"] {
            let error = refused(&published(2, &format!("3\n{number}\n")));
            let reason = format!("line 2: `{number}` is not a number from 1 to 3");
            assert_eq!(error, format!("`{GROUND_TRUTH}`, {reason}"));
        }

        let dir = published(2, "1\n3\n");
        fs::rename(dir.path().join("train/n02100735"), dir.path().join("train/n02")).unwrap();
        let reason = "line 2: `n02100735` is not a class";
        assert_eq!(refused(&dir), format!("`{GROUND_TRUTH}`, {reason}"));
        fs::write(dir.path().join(META), "a text").unwrap();
        assert_eq!(refused(&dir), format!("`{META}`: is no MATLAB file of level 5"));
        fs::remove_file(dir.path().join(META)).unwrap();
        assert_eq!(refused(&dir), format!("cannot read `{META}`"));
    }

    #[test]
    fn a_number_that_no_class_has_is_named() {
        let dir = published(2, "3\n4\n");
        // A fourth class to train on, so that 4 may be one; in meta.mat it has others below it.
        fs::create_dir(dir.path().join("train/n09")).unwrap();
        let error = lists(dir.path(), 4).unwrap_err().to_string();
        assert!(error.ends_with("line 2: meta.mat has no class with the number 4"), "{error}");
    }

    #[test]
    fn a_missing_image_does_not_shift_the_classes_of_the_others() {
        let dir = published(3, "3\n1\n2\n");
        let image = |number| dir.path().join(format!("val/ILSVRC2012_val_0000000{number}.JPEG"));
        fs::rename(image(2), image(4)).unwrap();
        let error = refused(&dir);
        let reason = "expected ILSVRC2012_val_00000002 here, in the order of the images' names";
        assert_eq!(error, format!("`val/ILSVRC2012_val_00000003.JPEG`: {reason}"));
    }

    #[test]
    fn other_numbers_of_classes_are_another_data_set() {
        let dir = folder(train());
        let error = lists(dir.path(), 3).unwrap_err().to_string();
        assert!(error.contains("2 folders of classes, expected 3; for other classes"), "{error}");
    }
}
