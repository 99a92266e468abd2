//! Tiny-ImageNet: 200 of ImageNet's classes at 64 x 64. Its validation images are for
//! testing here; the labels of its test images were never published.

use std::path::Path;

use super::photographs::{self, Lists};
use super::{CatalogueEntry, Published, Request};
use crate::dataset::ImageShape;
use crate::error::DataError;
use crate::files::LabelledFile;
use crate::list::List;
use crate::place::Home;
use crate::scan::{below, class_folders, entries};
use crate::transform::{Augment, Crop};

const HOME: Home = Home {
    dataset: "tiny-imagenet",
    folder: "tiny-imagenet-200",
    marker: "val/val_annotations.txt",
    archive: "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
};

const CLASSES: usize = 200;

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: HOME.dataset,
    summary: "photographs of 200 kinds of things, small (Tiny-ImageNet)",
    num_classes: Some(CLASSES),
    shape: ImageShape { height: 64, width: 64, channels: 3 },
    train_examples: Some(100_000),
    validation_examples: Some(10_000),
    test_examples: Some(10_000),
    licence: "as ImageNet: for non-commercial research and education",
    citation: "L. Yao and J. Miller, \"Tiny ImageNet Classification with Convolutional Neural \
               Networks\", CS 231N, 2015",
    folder: Some(HOME.folder),
    archive: Some(HOME.archive),
    locate: |dir| HOME.locate(dir).map(drop),
    transform: || {
        let augment = Augment { crop: Crop::Random { pad: 8 }, flip: true, cutout: 0 };
        Ok(photographs::transform(64, None, augment))
    },
    read,
};

fn read(request: &Request<'_>) -> Result<Published, DataError> {
    lists(&HOME.locate(request.dir)?, CLASSES)?.published(request)
}

/// `train/<class>/images/*.JPEG`, and `val/images/*.JPEG` with a list of their classes.
fn lists(root: &Path, classes: usize) -> Result<Lists, DataError> {
    let mut train = class_folders(root, &root.join("train"))?;
    train.ensure(&root.join("train"), classes)?;
    // Each class has a list of boxes beside its images.
    train.strays = train.strays.saturating_sub(classes);
    let list = List::read(root.join(HOME.marker))?;
    let mut test = Vec::new();
    for line in list.lines() {
        let (name, rest) = line.pair()?;
        let class = rest.split_whitespace().next().unwrap_or_default();
        // Folders come in the order of their names.
        let label = train.classes.binary_search_by(|known| known.as_str().cmp(class));
        let label = label.map_err(|_| line.wrong(format!("`{class}` is not a class")))?;
        let path = root.join("val").join("images").join(line.path(name)?);
        test.push(LabelledFile { path: below(root, path), label: label as u32 });
    }
    let listed = test.len();
    let there = entries(&root.join("val").join("images"))?.len();
    Ok(Lists {
        root: root.to_owned(),
        classes: train.classes,
        train: train.files,
        validation: None,
        test,
        strays: train.strays + there.saturating_sub(listed),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::fixtures::{bmp, folder, images};

    fn tiny() -> TempDir {
        let text = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
        let annotations = "val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn01\t52\t55\t57\t59\n";
        let lists = [
            text("val/val_annotations.txt", annotations),
            text("train/n01/n01_boxes.txt", ""),
            text("train/n02/n02_boxes.txt", ""),
            ("val/images/val_0.JPEG".to_owned(), bmp(4, 4, [1; 3])),
            ("val/images/val_1.JPEG".to_owned(), bmp(4, 4, [1; 3])),
            ("test/images/test_0.JPEG".to_owned(), bmp(4, 4, [1; 3])),
        ];
        let train = images("train/n01/images", 2).chain(images("train/n02/images", 3));
        folder(lists.into_iter().chain(train))
    }

    #[test]
    fn validation_images_are_for_testing_and_their_classes_are_listed() {
        let dir = tiny();
        let found = lists(dir.path(), 2).unwrap();
        assert_eq!(found.classes, ["n01", "n02"]);
        assert_eq!((found.train.len(), found.strays), (5, 0));
        let test: Vec<u32> = found.test.iter().map(|file| file.label).collect();
        assert_eq!(test, [1, 0]);
        assert_eq!(found.test[0].path.as_ref(), Path::new("val/images/val_0.JPEG"));
    }

    #[test]
    fn unknown_classes_and_missing_ones_are_named() {
        let dir = tiny();
        let list = dir.path().join("val/val_annotations.txt");
        fs::write(&list, "val_0.JPEG\tn09\n").unwrap();
        let error = lists(dir.path(), 2).unwrap_err().to_string();
        assert!(error.ends_with("line 1: `n09` is not a class"), "{error}");
        fs::write(&list, "../val_0.JPEG\tn01\n").unwrap();
        assert!(lists(dir.path(), 2).unwrap_err().to_string().contains("leads out"));
        let error = lists(dir.path(), 3).unwrap_err().to_string();
        assert!(error.ends_with("train`: 2 folders of classes, expected 3"), "{error}");
    }
}
