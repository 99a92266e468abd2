//! CUB-200-2011: birds, with the split that its authors publish.

use std::path::Path;

use super::photographs::{self, Lists, SHAPE};
use super::{CatalogueEntry, Published, Request};
use crate::error::DataError;
use crate::files::LabelledFile;
use crate::list::List;
use crate::place::Home;

const HOME: Home = Home {
    dataset: "cub200",
    folder: "CUB_200_2011",
    marker: "train_test_split.txt",
    archive: "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
};

const CLASSES: usize = 200;

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: HOME.dataset,
    summary: "photographs of 200 kinds of birds (CUB-200-2011)",
    num_classes: Some(CLASSES),
    shape: SHAPE,
    train_examples: Some(5_994),
    validation_examples: Some(600),
    test_examples: Some(5_794),
    licence: "for non-commercial research and education; the images are their owners'",
    citation: "C. Wah, S. Branson, P. Welinder, P. Perona and S. Belongie, \"The Caltech-UCSD \
               Birds-200-2011 Dataset\", CNS-TR-2011-001, 2011",
    folder: Some(HOME.folder),
    archive: Some(HOME.archive),
    locate: |dir| HOME.locate(dir).map(drop),
    transform: photographs::cropped,
    read,
};

fn read(request: &Request<'_>) -> Result<Published, DataError> {
    lists(&HOME.locate(request.dir)?, CLASSES)?.published(request)
}

/// Three lists number the images from 1: where they are, of which class, and whether they
/// are for training.
fn lists(root: &Path, classes: usize) -> Result<Lists, DataError> {
    let [images, labels, split] = ["images.txt", "image_class_labels.txt", "train_test_split.txt"]
        .map(|name| List::read(root.join(name)));
    let (images, labels, split) = (images?, labels?, split?);
    let mut found = Lists { root: root.to_owned(), ..Lists::default() };
    let mut labels = labels.lines();
    let mut split = split.lines();
    for (number, line) in (1..).zip(images.lines()) {
        let path = Path::new("images").join(line.path(line.numbered(number)?)?);
        let (Some(label), Some(part)) = (labels.next(), split.next()) else {
            let reason = format!("image {number} has no line in the other two lists");
            return Err(line.wrong(reason));
        };
        let class = label.number(label.numbered(number)?, 1, classes)?;
        let file = LabelledFile { path: path.into(), label: class as u32 - 1 };
        match part.number(part.numbered(number)?, 0, 1)? {
            1 => found.train.push(file),
            _ => found.test.push(file),
        }
    }
    if let Some(line) = labels.next().or_else(|| split.next()) {
        return Err(line.wrong("there is no such image in images.txt".to_owned()));
    }
    found.classes = names(root, classes)?;
    Ok(found)
}

fn names(root: &Path, classes: usize) -> Result<Vec<String>, DataError> {
    let list = List::read(root.join("classes.txt"))?;
    let names: Vec<String> = (1..)
        .zip(list.lines())
        .map(|(number, line)| line.numbered(number).map(str::to_owned))
        .collect::<Result<_, _>>()?;
    if names.len() != classes {
        let reason = format!("{} classes, expected {classes}", names.len());
        let (path, line) = (list.path().to_owned(), names.len());
        return Err(DataError::BadLine { path, line, reason });
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::fixtures::{bmp, folder};

    /// Three birds of two classes in the published layout.
    fn birds() -> TempDir {
        let text = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
        let image = |path: &str| (format!("images/{path}"), bmp(4, 4, [1, 2, 3]));
        folder([
            text("images.txt", "1 001.Crow/a b.jpg\n2 002.Wren/c.jpg\n3 002.Wren/d.jpg\n"),
            text("image_class_labels.txt", "1 1\n2 2\n3 2\n"),
            text("train_test_split.txt", "1 1\n2 0\n3 1\n"),
            text("classes.txt", "1 001.Crow\n2 002.Wren\n"),
            image("001.Crow/a b.jpg"),
            image("002.Wren/c.jpg"),
            image("002.Wren/d.jpg"),
        ])
    }

    fn refused(file: &str, text: &str) -> String {
        let dir = birds();
        fs::write(dir.path().join(file), text).unwrap();
        let error = lists(dir.path(), 2).unwrap_err().to_string();
        let prefix = format!("`{}`, ", dir.path().join(file).display());
        error.strip_prefix(&prefix).unwrap_or(&error).to_owned()
    }

    #[test]
    fn the_split_is_the_published_one() {
        let dir = birds();
        let found = lists(dir.path(), 2).unwrap();
        let shown = |files: &[LabelledFile]| -> Vec<(String, u32)> {
            files.iter().map(|file| (file.path.display().to_string(), file.label)).collect()
        };
        let train = [("images/001.Crow/a b.jpg", 0), ("images/002.Wren/d.jpg", 1)];
        assert_eq!(shown(&found.train), train.map(|(path, label)| (path.to_owned(), label)));
        assert_eq!(shown(&found.test), [("images/002.Wren/c.jpg".to_owned(), 1)]);
        assert_eq!(found.classes, ["001.Crow", "002.Wren"]);
    }

    #[test]
    fn lists_that_do_not_fit_together_are_refused_by_line() {
        let labels = "image_class_labels.txt";
        assert_eq!(refused(labels, "1 1\n2 3\n3 2\n"), "line 2: `3` is not a number from 1 to 2");
        assert_eq!(refused(labels, "1 1\n3 2\n"), "line 2: number is `3`, expected 2");
        let more = "1 1\n2 2\n3 2\n4 1\n";
        assert_eq!(refused(labels, more), "line 4: there is no such image in images.txt");
        let fewer = refused(labels, "1 1\n2 2\n");
        assert!(fewer.ends_with("image 3 has no line in the other two lists"), "{fewer}");
        let split = "train_test_split.txt";
        assert_eq!(refused(split, "1 1\n2 2\n3 1\n"), "line 2: `2` is not a number from 0 to 1");
        let images = refused("images.txt", "1 ../../etc/passwd\n");
        assert!(images.contains("leads out of the data set's folder"), "{images}");
        assert!(refused("classes.txt", "1 001.Crow\n").contains("1 classes, expected 2"));
        assert!(refused("classes.txt", "").contains("0 classes, expected 2"));
    }
}
