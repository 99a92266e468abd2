//! CalTech256: 256 kinds of things, and a class of clutter that is left out unless asked for.
//!
//! Its authors publish no split. Here a fifth of each class is for testing, always the same
//! images; validation images are held out of the rest, as everywhere.

use std::path::Path;
use std::sync::Arc;

use super::photographs::{self, Lists, SHAPE};
use super::{CatalogueEntry, Parts, Published, Request};
use crate::error::DataError;
use crate::files::ImageFiles;
use crate::place::Home;
use crate::scan::class_folders;
use crate::split::Part;
use crate::subset::Subset;

const HOME: Home = Home {
    dataset: "caltech256",
    folder: "256_ObjectCategories",
    marker: "001.ak47",
    archive: "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
};

const CLUTTER: &str = "257.clutter";
const CLASSES: usize = 256;

pub(super) const CALTECH256: CatalogueEntry = CatalogueEntry {
    name: "caltech256",
    summary: "photographs of 256 kinds of things, without the class of clutter",
    num_classes: Some(CLASSES),
    shape: SHAPE,
    train_examples: Some(23_824),
    validation_examples: Some(2_382),
    test_examples: Some(5_956),
    licence: "CC BY 4.0; the images are their owners'",
    citation: "G. Griffin, A. Holub and P. Perona, \"Caltech-256 Object Category Dataset\", \
               CNS-TR-2007-001, 2007",
    folder: Some(HOME.folder),
    archive: Some(HOME.archive),
    locate: |dir| HOME.locate(dir).map(drop),
    transform: photographs::cropped,
    read: |request| read(request, CLASSES),
};

pub(super) const CALTECH257: CatalogueEntry = CatalogueEntry {
    name: "caltech257",
    summary: "CalTech256 with the class of clutter",
    num_classes: Some(CLASSES + 1),
    train_examples: Some(24_486),
    validation_examples: Some(2_448),
    test_examples: Some(6_121),
    read: |request| read(request, CLASSES + 1),
    ..CALTECH256
};

fn read(request: &Request<'_>, classes: usize) -> Result<Published, DataError> {
    let lists = lists(&HOME.locate(request.dir)?, classes)?;
    let studio = lists.studio(request)?;
    let digest = Some(lists.digest());
    let images = ImageFiles::new(Arc::clone(&studio), lists.train, lists.classes.len())?;
    let all = Subset::all(Arc::new(images));
    let (test, train) = all.hold_out(all.len() / 5, 0, Part::Test)?;
    let parts = Parts { train, validation: None, test };
    let (classes, strays) = (lists.classes, lists.strays);
    Ok(Published { parts, classes, files: Vec::new(), studio: Some(studio), strays, digest })
}

/// All images, under `train`.
fn lists(root: &Path, classes: usize) -> Result<Lists, DataError> {
    let mut found = class_folders(root, root)?;
    if classes == CLASSES && found.classes.last().is_some_and(|name| name == CLUTTER) {
        found.classes.pop();
        found.files.retain(|file| (file.label as usize) < found.classes.len());
    }
    found.ensure(root, classes)?;
    let (classes, train, strays) = (found.classes, found.files, found.strays);
    Ok(Lists { root: root.to_owned(), classes, train, strays, ..Lists::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{folder, images};
    use crate::options::OpenOptions;
    use crate::sources::open;

    #[test]
    fn clutter_is_left_out_unless_asked_for_and_a_fifth_is_for_testing() {
        let name = |class: usize| match class {
            1 => "001.ak47".to_owned(),
            257 => CLUTTER.to_owned(),
            _ => format!("{class:03}.thing"),
        };
        let strays = ["056.thing/greg/notes", "198.thing/RENAME2"];
        let strays = strays.map(|path| (format!("256_ObjectCategories/{path}"), vec![]));
        let classes = (1..=257).map(|class| format!("256_ObjectCategories/{}", name(class)));
        let dir = folder(classes.flat_map(|class| images(&class, 5)).chain(strays));
        let options = OpenOptions { validation: Some(256), ..OpenOptions::default() };
        let source = open("caltech256", Some(dir.path()), &options).unwrap();
        assert_eq!(source.num_classes, 256);
        assert_eq!(source.class_names[0], "001.ak47");
        let counts = |subset: &Subset| subset.class_counts().unwrap();
        assert_eq!(counts(&source.splits.test), [1; 256]);
        assert_eq!(counts(&source.splits.validation), [1; 256]);
        assert_eq!(counts(&source.splits.train), [3; 256]);
        let source = open("caltech257", Some(dir.path()), &options).unwrap();
        assert_eq!(source.class_names.last().map(String::as_str), Some(CLUTTER));
        assert_eq!(source.splits.test.len(), 257);

        std::fs::remove_dir_all(dir.path().join("256_ObjectCategories/200.thing")).unwrap();
        let error = open("caltech256", Some(dir.path()), &options).unwrap_err().to_string();
        assert!(error.ends_with("255 folders of classes, expected 256"), "{error}");
    }
}
