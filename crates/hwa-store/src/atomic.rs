//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::error::StoreError;

/// The start of the names of files that are being written. What is left of them
/// after a kill is removed when the run is opened again.
pub(crate) const TEMPORARY: &str = ".partial-";

/// Writes a file beside `path`, flushes it to the disk and renames it.
///
/// On any error, a full disk included, `path` stays as it was.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), StoreError> {
    let folder = folder_of(path);
    let write = || -> io::Result<()> {
        let file = written_in(folder, write)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        sync_folder(folder)
    };
    write().map_err(StoreError::io("write", path))
}

/// Writes a file beside `path` and renames it. A kill leaves it whole or not there
/// at all; a power failure may leave half of it, until [`flush`] has come.
pub(crate) fn write_unflushed(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), StoreError> {
    let write = || -> io::Result<()> {
        written_in(folder_of(path), write)?.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(StoreError::io("write", path))
}

/// Flushes files of `folder` to the disk, and then the folder. Files that were
/// removed meanwhile are passed over.
pub(crate) fn flush(folder: &Path, paths: &[PathBuf]) -> Result<(), StoreError> {
    for path in paths {
        let flushed = File::options().write(true).open(path).and_then(|file| file.sync_all());
        match flushed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(StoreError::io("flush", path))?,
        }
    }
    sync_folder(folder).map_err(StoreError::io("flush", folder))
}

/// The folder that a path lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A temporary file in `folder`, removed when it is dropped.
pub(crate) fn temporary_in(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(TEMPORARY);
    // Temporary files are private by default; results are for whoever may read the folder.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

/// A temporary file in `folder` with everything written.
fn written_in(
    folder: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<NamedTempFile> {
    let mut file = temporary_in(folder)?;
    let mut buffered = io::BufWriter::with_capacity(1 << 16, file.as_file_mut());
    write(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    Ok(file)
}

/// Makes a rename survive a power failure; only Unix can open folders.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Reads a text file.
pub fn read_to_string(path: &Path) -> Result<String, StoreError> {
    fs::read_to_string(path).map_err(StoreError::io("read", path))
}

/// Removes what a killed process left half-written in a folder.
pub(crate) fn remove_partial_files(folder: &Path) -> Result<(), StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(StoreError::io("read", folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(StoreError::io("read", folder))?;
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            fs::remove_file(entry.path()).map_err(StoreError::io("remove", entry.path()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("best");
        write_atomically(&path, |w| w.write_all(b"old")).unwrap();
        let error = write_atomically(&path, |w| {
            w.write_all(b"half of the new")?;
            Err(io::Error::new(io::ErrorKind::StorageFull, "no space left"))
        });
        let message = error.unwrap_err().to_string();
        assert!(message.starts_with("cannot write ") && message.ends_with("no space left"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["best"]);
    }

    #[test]
    fn partial_files_of_a_killed_process_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".partial-x1"), b"").unwrap();
        fs::write(folder.path().join("best"), b"").unwrap();
        remove_partial_files(folder.path()).unwrap();
        assert_eq!(names(folder.path()), ["best"]);
        remove_partial_files(&folder.path().join("not there")).unwrap();
    }
}
