//! Which files below a folder are images, and of which class.
//!
//! Real folders hold more than images: thumbnails' data bases, hidden files, notes. What has
//! no image's name is counted and left alone. Everything comes in the order of its name, so
//! that a folder gives the same numbers on every machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::files::LabelledFile;

/// What a file has to end in to be taken for an image; what it is its content says.
/// Some kinds are not read: those are told by name, and not taken for notes.
const EXTENSIONS: [&str; 20] = [
    "jpg", "jpeg", "jpe", "jfif", "png", "gif", "bmp", "webp", "tif", "tiff", "heic", "heif",
    "avif", "jxl", "jp2", "ppm", "pgm", "pbm", "pnm", "psd",
];
/// Folders within folders, in which links may lead back to where they came from.
const DEEPEST: usize = 8;

/// A folder of class folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClassFolders {
    /// The names of the classes, in order.
    pub(crate) classes: Vec<String>,
    /// Their images, class by class.
    pub(crate) files: Vec<LabelledFile>,
    /// Files that are no images.
    pub(crate) strays: usize,
}

impl ClassFolders {
    /// Checks that there are as many classes as the data set has.
    pub(crate) fn ensure(&self, folder: &Path, classes: usize) -> Result<(), DataError> {
        let found = self.classes.len();
        match found == classes {
            true => Ok(()),
            false => {
                let reason = format!("{found} folders of classes, expected {classes}");
                Err(DataError::WrongContent { path: folder.to_owned(), reason })
            }
        }
    }
}

/// Finds the classes of a folder and their images, with paths below `root`.
pub(crate) fn class_folders(root: &Path, folder: &Path) -> Result<ClassFolders, DataError> {
    let mut found = ClassFolders::default();
    for Entry { path, is_folder } in entries(folder)? {
        if !is_folder {
            found.strays += 1;
            continue;
        }
        let label = found.classes.len() as u32;
        found.classes.push(name(&path));
        let mut images = Vec::new();
        found.strays += images_below(&path, DEEPEST, &mut images)?;
        for image in images {
            found.files.push(LabelledFile { path: below(root, image), label });
        }
    }
    Ok(found)
}

/// The images of a folder and of its folders; gives the number of other files.
pub(crate) fn images_below(
    folder: &Path,
    depth: usize,
    images: &mut Vec<PathBuf>,
) -> Result<usize, DataError> {
    let mut strays = 0;
    for Entry { path, is_folder } in entries(folder)? {
        if is_folder && depth > 0 && !leads_back(&path, folder) {
            strays += images_below(&path, depth - 1, images)?;
        } else if !is_folder && is_named_as_image(&path) {
            images.push(path);
        } else {
            strays += 1;
        }
    }
    Ok(strays)
}

/// Something in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    /// Or a link to one.
    pub(crate) is_folder: bool,
}

/// What a folder holds and does not hide, by name.
pub(crate) fn entries(folder: &Path) -> Result<Vec<Entry>, DataError> {
    let failed = |source: io::Error| DataError::Io { path: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if is_hidden(&path) {
            continue;
        }
        // The folder knows the kind of its entries; where a link leads has to be asked for.
        let kind = entry.file_type().map_err(failed)?;
        let is_folder = if kind.is_symlink() { path.is_dir() } else { kind.is_dir() };
        found.push(Entry { path, is_folder });
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether a folder is a link to one that it lies in: its images would come again, in
/// another class.
fn leads_back(path: &Path, folder: &Path) -> bool {
    let is_link = fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink());
    let places = || Some((fs::canonicalize(path).ok()?, fs::canonicalize(folder).ok()?));
    is_link && places().is_none_or(|(target, here)| here.starts_with(target))
}

/// `.git`, `.DS_Store`, `._photo.jpg`, and what macOS packs beside them.
fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b".") || name == b"__MACOSX"
}

fn is_named_as_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|e| EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(e)))
}

/// The last part of a path.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The path below `root`.
pub(crate) fn below(root: &Path, path: PathBuf) -> Box<Path> {
    match path.strip_prefix(root) {
        Ok(rest) => rest.into(),
        Err(_) => path.into_boxed_path(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{folder, images};

    #[test]
    fn classes_and_images_come_in_the_order_of_their_names() {
        let dir = folder(images("b", 2).chain(images("a", 1)).chain(images("C", 1)));
        let found = class_folders(dir.path(), dir.path()).unwrap();
        // As Python sorts: capitals first.
        assert_eq!(found.classes, ["C", "a", "b"]);
        let files: Vec<(String, u32)> =
            found.files.iter().map(|f| (f.path.display().to_string(), f.label)).collect();
        let expected = [("C/000.bmp", 0), ("a/000.bmp", 1), ("b/000.bmp", 2), ("b/001.bmp", 2)];
        assert_eq!(files, expected.map(|(path, label)| (path.to_owned(), label)));
    }

    #[test]
    fn what_is_no_image_is_counted_and_what_is_hidden_is_not_seen() {
        let strays = ["a/Thumbs.db", "a/notes.txt", "README.md", "a/sub/x.mat", "a/no_extension"];
        let hidden = [".git/config.png", "a/.DS_Store", "a/._000.bmp", "__MACOSX/a/000.jpg"];
        let others = strays.into_iter().chain(hidden);
        let others = others.map(|path| (path.to_owned(), vec![]));
        let named = ["a/x.JPEG", "a/sub/y.Png", "a/sub/deeper/z.webp"];
        let named = named.map(|path| (path.to_owned(), vec![]));
        let dir = folder(others.chain(named).chain(images("b", 1)));
        let found = class_folders(dir.path(), dir.path()).unwrap();
        assert_eq!(found.classes, ["a", "b"]);
        assert_eq!((found.files.len(), found.strays), (4, 5));
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_in_circles_end() {
        let dir = folder(images("a", 1));
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/again")).unwrap();
        let found = class_folders(dir.path(), dir.path()).unwrap();
        assert_eq!((found.files.len(), found.strays), (1, 1));
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = class_folders(Path::new("/"), Path::new("/no/such")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read `/no/such`");
    }
}
