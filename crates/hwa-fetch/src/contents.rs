//! What the folder of a data set holds, and whether it does.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::FetchError;

/// Folders in folders that images are looked for in.
const DEPTH: usize = 4;

/// Something that must be in the folder of a data set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content {
    /// A file, by its path in the folder, of this size if it is known.
    File { path: &'static str, bytes: Option<u64> },
    /// At least this many files whose names end so, in a folder and the folders in it.
    /// Hidden and empty files do not count.
    Images { under: &'static str, extension: &'static str, count: u64 },
}

/// What a folder lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// A file is missing.
    Missing {
        /// Its path in the folder.
        path: &'static str,
    },
    /// A file does not have the size that was published.
    WrongSize {
        /// Its path in the folder.
        path: &'static str,
        /// The published size.
        expected: u64,
        /// The size that it has.
        found: u64,
    },
    /// There are too few images.
    TooFew {
        /// The folder that they are in.
        under: &'static str,
        /// How many there should be.
        expected: u64,
        /// How many there are.
        found: u64,
    },
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { path } => write!(f, "`{path}` is missing"),
            Self::WrongSize { path, expected, found } => {
                write!(f, "`{path}` has {found} bytes, expected {expected}")
            }
            Self::TooFew { under, expected, found } => {
                write!(f, "`{under}` has {found} images, expected {expected}")
            }
        }
    }
}

/// The first thing that a folder lacks.
pub(crate) fn flaw(folder: &Path, contents: &[Content]) -> Result<Option<Flaw>, FetchError> {
    for content in contents {
        if let Some(flaw) = content.flaw(folder)? {
            return Ok(Some(flaw));
        }
    }
    Ok(None)
}

impl Content {
    fn flaw(&self, folder: &Path) -> Result<Option<Flaw>, FetchError> {
        Ok(match *self {
            Self::File { path, bytes } => {
                match fs::metadata(folder.join(path)).ok().filter(fs::Metadata::is_file) {
                    None => Some(Flaw::Missing { path }),
                    Some(metadata) => bytes
                        .filter(|&bytes| bytes != metadata.len())
                        .map(|expected| Flaw::WrongSize { path, expected, found: metadata.len() }),
                }
            }
            Self::Images { under, extension, count: expected } => {
                let found = count(&folder.join(under), extension, DEPTH)?;
                (found < expected).then_some(Flaw::TooFew { under, expected, found })
            }
        })
    }
}

fn count(folder: &Path, extension: &str, depth: usize) -> Result<u64, FetchError> {
    let read = |path: PathBuf| FetchError::io("read", path);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        other => other.map_err(read(folder.to_owned()))?,
    };
    let mut found = 0;
    for entry in entries {
        let path = entry.map_err(read(folder.to_owned()))?.path();
        // Links are followed: large data sets live on other disks.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_dir() && depth > 0 {
            found += count(&path, extension, depth - 1)?;
        } else if metadata.is_file() && metadata.len() > 0 && is_image(&path, extension) {
            found += 1;
        }
    }
    Ok(found)
}

fn is_image(path: &Path, extension: &str) -> bool {
    let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENTS: &[Content] = &[
        Content::File { path: "labels.txt", bytes: None },
        Content::File { path: "test.bin", bytes: Some(3) },
        Content::Images { under: "train", extension: "jpeg", count: 2 },
    ];

    #[test]
    fn each_thing_that_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let found = || flaw(dir.path(), CONTENTS).unwrap().map(|flaw| flaw.to_string());
        let put = |path: &str, bytes: &[u8]| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        assert_eq!(found().unwrap(), "`labels.txt` is missing");
        put("labels.txt", b"");
        // A folder under the name of a file is no file.
        fs::create_dir(dir.path().join("test.bin")).unwrap();
        assert_eq!(found().unwrap(), "`test.bin` is missing");
        fs::remove_dir(dir.path().join("test.bin")).unwrap();
        put("test.bin", b"1234");
        assert_eq!(found().unwrap(), "`test.bin` has 4 bytes, expected 3");
        put("test.bin", b"123");
        assert_eq!(found().unwrap(), "`train` has 0 images, expected 2");
        put("train/a/images/1.JPEG", b"x");
        // Hidden, empty, and no image.
        put("train/a/images/._2.JPEG", b"x");
        put("train/a/images/2.JPEG", b"");
        put("train/a/boxes.txt", b"x");
        assert_eq!(found().unwrap(), "`train` has 1 images, expected 2");
        put("train/b/images/1.jpeg", b"x");
        assert_eq!(found(), None);
    }
}
