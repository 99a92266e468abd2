//! The folder that a data set goes to, held by one process at a time.
//!
//! Whatever is made is made in a folder beside it, `.fetch-<name>`, and renamed into place.
//! What a killed process left there is removed by the next.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::FetchError;

/// Where a data set is being put together.
#[derive(Debug)]
pub(crate) struct Target {
    folder: PathBuf,
    staging: PathBuf,
    /// Held for its lock, which the system releases even on a kill.
    _lock: File,
}

impl Target {
    /// Makes `dir` if need be, and locks it for the data set `name`, which is to be found in
    /// `folder` of it.
    pub(crate) fn lock(dir: &Path, name: &str, folder: &str) -> Result<Self, FetchError> {
        fs::create_dir_all(dir).map_err(FetchError::io("create", dir))?;
        // The lock file stays: removing it would let two processes hold a lock each.
        let path = dir.join(format!(".fetch-{name}.lock"));
        let lock = File::options().create(true).append(true).open(&path);
        let lock = lock.map_err(FetchError::io("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(FetchError::InUse { dir: dir.to_owned() });
            }
            // A file system without locks cannot tell; that is no reason not to fetch.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(FetchError::io("lock", path)(error)),
        }
        let staging = dir.join(format!(".fetch-{name}"));
        Ok(Self { folder: dir.join(folder), staging, _lock: lock })
    }

    /// An empty folder to work in, on the same disk, closed to others.
    pub(crate) fn stage(&self) -> Result<&Path, FetchError> {
        self.clear()?;
        #[cfg_attr(not(unix), allow(unused_mut))]
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt;
            builder.mode(0o700);
        }
        builder.create(&self.staging).map_err(FetchError::io("create", &self.staging))?;
        Ok(&self.staging)
    }

    /// Removes the folder to work in, with all that is in it.
    pub(crate) fn clear(&self) -> Result<(), FetchError> {
        match fs::remove_dir_all(&self.staging) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FetchError::io("remove", &self.staging)(error))
            }
            _ => Ok(()),
        }
    }

    /// Renames a folder of the staging folder into place. What was in that place is removed
    /// then, and not before.
    pub(crate) fn publish(&self, made: &Path) -> Result<(), FetchError> {
        let rename = |from: &Path, to: &Path| {
            fs::rename(from, to).map_err(FetchError::io("move into place", from))
        };
        let old = self.staging.join("replaced");
        match fs::rename(&self.folder, &old) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => rename(made, &self.folder)?,
            Err(error) => return Err(FetchError::io("move away", &self.folder)(error)),
            Ok(()) => {
                if let Err(error) = rename(made, &self.folder) {
                    rename(&old, &self.folder)?;
                    return Err(error);
                }
            }
        }
        if let Some(dir) = self.folder.parent() {
            sync_folder(dir).map_err(FetchError::io("flush", dir))?;
        }
        self.clear()
    }
}

/// Makes a rename survive a power failure; only Unix can open folders.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_fetches_a_data_set_into_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let first = Target::lock(dir.path(), "a", "A").unwrap();
        assert!(matches!(Target::lock(dir.path(), "a", "A"), Err(FetchError::InUse { .. })));
        assert!(Target::lock(dir.path(), "b", "B").is_ok());
        drop(first);
        assert!(Target::lock(dir.path(), "a", "A").is_ok());
    }

    #[test]
    fn what_was_there_is_replaced_by_a_whole_folder_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("A");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("old"), "").unwrap();
        let target = Target::lock(dir.path(), "a", "A").unwrap();

        let staging = target.stage().unwrap();
        assert!(target.publish(&staging.join("nothing")).is_err());
        assert!(folder.join("old").exists());

        let made = target.stage().unwrap().join("A");
        fs::create_dir(&made).unwrap();
        fs::write(made.join("new"), "").unwrap();
        target.publish(&made).unwrap();
        assert!(folder.join("new").exists() && !folder.join("old").exists());
        assert!(!dir.path().join(".fetch-a").exists());
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".fetch-a/A/deep")).unwrap();
        let target = Target::lock(dir.path(), "a", "A").unwrap();
        assert_eq!(fs::read_dir(target.stage().unwrap()).unwrap().count(), 0);
    }
}
