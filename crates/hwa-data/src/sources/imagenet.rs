//! ImageNet (ILSVRC 2012). Its validation images are for testing here; the labels of its
//! test images were never published.
//!
//! Training images lie in a folder for each class. Validation images do too, as most people
//! sort them, or lie in one folder as published, beside a list of their classes.

use std::path::{Path, PathBuf};

use super::photographs::{self, Lists, SHAPE};
use super::{CatalogueEntry, Published, Request};
use crate::error::DataError;
use crate::files::LabelledFile;
use crate::list::List;
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
    let labels = match (find(IN_ORDER), find(BY_NAME)) {
        (Some(list), _) => in_order(List::read(list)?, images.len(), classes)?,
        (None, Some(list)) => by_name(List::read(list)?, &images, classes)?,
        (None, None) => {
            let reason = format!(
                "images without folders of classes, and neither {IN_ORDER} nor {BY_NAME} to \
                 tell their classes"
            );
            return Err(DataError::WrongContent { path: folder.to_owned(), reason });
        }
    };
    let file = |(path, label)| LabelledFile { path: below(root, path), label };
    Ok((images.into_iter().zip(labels).map(file).collect(), strays))
}

fn in_order(list: List, images: usize, classes: &[String]) -> Result<Vec<u32>, DataError> {
    let labels: Vec<u32> = list
        .lines()
        .map(|line| {
            let label = class(line.word(), classes);
            label.ok_or_else(|| line.wrong(format!("`{}` is not a class", line.word())))
        })
        .collect::<Result<_, _>>()?;
    if labels.len() != images {
        let (path, line) = (list.path().to_owned(), labels.len());
        let reason = format!("{line} classes for {images} images");
        return Err(DataError::BadLine { path, line, reason });
    }
    Ok(labels)
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

/// Classes come in the order of their names.
fn class(name: &str, classes: &[String]) -> Option<u32> {
    classes.binary_search_by(|known| known.as_str().cmp(name)).ok().map(|label| label as u32)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fixtures::{bmp, folder, images};

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

    #[test]
    fn other_numbers_of_classes_are_another_data_set() {
        let dir = folder(train());
        let error = lists(dir.path(), 3).unwrap_err().to_string();
        assert!(error.contains("2 folders of classes, expected 3; for other classes"), "{error}");
    }
}
