//! The part of a file that was downloaded so far.
//!
//! `<name>.part` holds the bytes, `<name>.part.json` of which version of the file they are.
//! The note is written when the part is empty, so bytes never stand under the note of
//! another version.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::FetchError;
use crate::http::Resume;

/// A file that is being downloaded into a folder.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    path: PathBuf,
    note: PathBuf,
}

/// What the bytes are a part of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Note {
    pub(crate) url: String,
    pub(crate) validator: Option<String>,
}

impl Part {
    pub(crate) fn new(dir: &Path, name: &str) -> Self {
        let path = dir.join(format!("{name}.part"));
        Self { path, note: dir.join(format!("{name}.part.json")) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes there are.
    pub(crate) fn length(&self) -> Result<u64, FetchError> {
        match fs::metadata(&self.path) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(FetchError::io("read", &self.path)(error)),
        }
    }

    /// How to go on with the file at `url`, unless it is to be started afresh: a part whose
    /// version is not known could be that of another file.
    pub(crate) fn resume(&self, url: &str) -> Result<Option<Resume>, FetchError> {
        let offset = self.length()?;
        let note = self.note().filter(|note| note.url == url);
        let validator = note.and_then(|note| note.validator);
        Ok(validator.filter(|_| offset > 0).map(|validator| Resume { offset, validator }))
    }

    /// Whether the bytes came from `url`.
    pub(crate) fn is_from(&self, url: &str) -> bool {
        self.note().is_some_and(|note| note.url == url)
    }

    /// An unreadable note is none: it was not written by this version of the program.
    fn note(&self) -> Option<Note> {
        serde_json::from_slice(&fs::read(&self.note).ok()?).ok()
    }

    /// Throws away what is there, and begins with another version.
    pub(crate) fn restart(&self, note: &Note) -> Result<File, FetchError> {
        let file = File::create(&self.path).map_err(FetchError::io("create", &self.path))?;
        let folder = self.note.parent().unwrap_or(Path::new("."));
        let write = || -> io::Result<()> {
            let mut beside = NamedTempFile::new_in(folder)?;
            serde_json::to_writer(&mut beside, note)?;
            beside.flush()?;
            beside.persist(&self.note).map_err(|e| e.error)?;
            Ok(())
        };
        write().map_err(FetchError::io("write", &self.note))?;
        Ok(file)
    }

    /// Opens what is there to be added to.
    pub(crate) fn append(&self) -> Result<File, FetchError> {
        let file = File::options().append(true).open(&self.path);
        file.map_err(FetchError::io("open", &self.path))
    }

    /// Removes the part and its note.
    pub(crate) fn discard(&self) -> Result<(), FetchError> {
        // Bytes first: a note without bytes is harmless.
        for path in [&self.path, &self.note] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(FetchError::io("remove", path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://a.org/x.tar";

    fn begun(validator: Option<&str>) -> (tempfile::TempDir, Part) {
        let dir = tempfile::tempdir().unwrap();
        let part = Part::new(dir.path(), "x.tar");
        let validator = validator.map(str::to_owned);
        let mut file = part.restart(&Note { url: URL.to_owned(), validator }).unwrap();
        file.write_all(b"12345").unwrap();
        (dir, part)
    }

    #[test]
    fn a_part_goes_on_only_as_the_version_it_was_begun_with() {
        let (_dir, part) = begun(Some("\"v1\""));
        let expected = Resume { offset: 5, validator: "\"v1\"".to_owned() };
        assert_eq!(part.resume(URL).unwrap(), Some(expected));
        assert_eq!(part.resume("https://b.org/x.tar").unwrap(), None);
        let (_dir, nameless) = begun(None);
        assert_eq!(nameless.resume(URL).unwrap(), None);
        assert!(nameless.is_from(URL));
    }

    #[test]
    fn a_part_without_a_readable_note_is_started_afresh() {
        for note in ["", "{", "{\"url\": 3}", "[]", "{\"url\": \"https://a.org/x.tar\", \"x\": 1}"]
        {
            let (_dir, part) = begun(Some("\"v1\""));
            fs::write(&part.note, note).unwrap();
            assert_eq!(part.resume(URL).unwrap(), None, "{note}");
        }
    }

    #[test]
    fn nothing_is_left_of_a_discarded_part() {
        let (dir, part) = begun(Some("\"v1\""));
        part.discard().unwrap();
        part.discard().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(part.length().unwrap(), 0);
    }
}
