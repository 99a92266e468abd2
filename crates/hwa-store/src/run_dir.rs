//! A run directory: everything one training run leaves behind.
//!
//! ```text
//! experiment.toml      the resolved experiment
//! environment.json     what it ran on
//! events.jsonl         what happened, line by line
//! checkpoints/         outer weights by cycle, inner weights on request
//! state/               what a resumed run goes on from
//! best.safetensors     the chosen weights, ready to use
//! summary.json         the final figures
//! left-out.json        images that could not be read
//! report/index.html    a page about it, with its figures beside
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::atomic::{TEMPORARY, read_to_string, remove_partial_files};
use crate::checkpoints::CheckpointStore;
use crate::error::StoreError;

const EXPERIMENT: &str = "experiment.toml";
const LOCK: &str = ".lock";
const FOLDERS: [&str; 3] = ["state", "checkpoints", "report"];
/// What a run directory holds before its experiment is written, which comes last;
/// its folders are empty then.
const BEFORE_THE_EXPERIMENT: [&str; 5] =
    [LOCK, FOLDERS[0], FOLDERS[1], FOLDERS[2], "environment.json"];

/// An open run directory. While it is open, no other process can open it.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Held for its lock, which the system releases even on a kill.
    _lock: File,
}

impl RunDir {
    /// Starts a run in a new or empty folder.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(StoreError::io("create", path))?;
        let run = Self::locked(path)?;
        if run.experiment().is_file() {
            return Err(StoreError::HoldsARun { path: path.to_owned() });
        }
        let mut entries = fs::read_dir(path).map_err(StoreError::io("read", path))?;
        // What is there without an experiment is a run that was killed before it began.
        let begun =
            |name: &str| BEFORE_THE_EXPERIMENT.contains(&name) || name.starts_with(TEMPORARY);
        if entries.any(|e| e.is_ok_and(|e| !begun(&e.file_name().to_string_lossy()))) {
            return Err(StoreError::Occupied { path: path.to_owned() });
        }
        for folder in FOLDERS {
            let entries = fs::read_dir(path.join(folder));
            if entries.is_ok_and(|mut entries| entries.next().is_some()) {
                let (path, missing) = (path.to_owned(), EXPERIMENT);
                return Err(StoreError::Remains { path, folder, missing });
            }
        }
        remove_partial_files(path)?;
        for folder in [run.state(), run.checkpoints_folder(), run.report()] {
            fs::create_dir_all(&folder).map_err(StoreError::io("create", folder))?;
        }
        Ok(run)
    }

    /// Opens the directory of a run that was started before, and removes what a
    /// killed process left half-written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.join(EXPERIMENT).is_file() {
            return Err(StoreError::NotARun { path: path.to_owned(), missing: EXPERIMENT });
        }
        let run = Self::locked(path)?;
        // A folder that somebody removed is an empty one.
        for folder in [run.path.clone(), run.state(), run.checkpoints_folder(), run.report()] {
            fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
            remove_partial_files(&folder)?;
        }
        Ok(run)
    }

    /// The text of the experiment that a run in this folder trains, and its file.
    pub fn stored_experiment(path: &Path) -> Result<(String, PathBuf), StoreError> {
        let file = path.join(EXPERIMENT);
        if !file.is_file() {
            return Err(StoreError::NotARun { path: path.to_owned(), missing: EXPERIMENT });
        }
        Ok((read_to_string(&file)?, file))
    }

    /// Whether a process has the run in this folder open.
    pub fn is_in_use(path: &Path) -> bool {
        // Opened for writing: some systems lock nothing else.
        let lock = File::options().append(true).open(path.join(LOCK));
        lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
    }

    fn locked(path: &Path) -> Result<Self, StoreError> {
        let lock_path = path.join(LOCK);
        let lock = File::options().create(true).append(true).open(&lock_path);
        let lock = lock.map_err(StoreError::io("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: path.to_owned() }),
            // A file system without locks cannot tell; that is no reason not to train.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(Self { path: path.to_owned(), _lock: lock })
            }
            Err(TryLockError::Error(error)) => Err(StoreError::io("lock", lock_path)(error)),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The resolved experiment.
    pub fn experiment(&self) -> PathBuf {
        self.path.join(EXPERIMENT)
    }

    /// What the run ran on.
    pub fn environment(&self) -> PathBuf {
        self.path.join("environment.json")
    }

    /// What happened, line by line.
    pub fn events(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    /// The chosen weights.
    pub fn best(&self) -> PathBuf {
        self.path.join("best.safetensors")
    }

    /// The final figures.
    pub fn summary(&self) -> PathBuf {
        self.path.join("summary.json")
    }

    /// The images that could not be read, if there are any.
    pub fn left_out(&self) -> PathBuf {
        self.path.join("left-out.json")
    }

    /// The folder of resumable states.
    pub fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    /// The saved outer and inner weights.
    pub fn checkpoints(&self) -> CheckpointStore {
        CheckpointStore::new(self.checkpoints_folder())
    }

    /// The page about it.
    pub fn page(&self) -> PathBuf {
        self.report().join("index.html")
    }

    /// The folder of the page and its figures.
    pub fn report(&self) -> PathBuf {
        self.path.join("report")
    }

    fn checkpoints_folder(&self) -> PathBuf {
        self.path.join("checkpoints")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let first = RunDir::create(&path).unwrap();
        let message = RunDir::create(&path).unwrap_err().to_string();
        assert!(message.ends_with("is in use by another process"), "{message}");
        fs::write(first.experiment(), "").unwrap();
        assert!(matches!(RunDir::open(&path), Err(StoreError::InUse { .. })));
        drop(first);
        assert!(RunDir::open(&path).is_ok());
    }

    #[test]
    fn a_run_does_not_start_among_other_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        let message = RunDir::create(folder.path()).unwrap_err().to_string();
        assert!(message.contains("is not empty"), "{message}");
        assert!(!message.contains("--resume"), "there is nothing to resume: {message}");
        fs::write(folder.path().join(EXPERIMENT), "").unwrap();
        let message = RunDir::create(folder.path()).unwrap_err().to_string();
        assert!(message.contains("holds a run") && message.contains("--resume"), "{message}");
    }

    #[test]
    fn a_run_killed_before_its_experiment_was_written_can_be_started_again() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        fs::write(run.environment(), "").unwrap();
        fs::write(folder.path().join(".partial-x"), "").unwrap();
        drop(run);
        assert!(RunDir::create(folder.path()).is_ok());
        assert!(!folder.path().join(".partial-x").exists());
    }

    #[test]
    fn a_run_does_not_start_on_the_remains_of_another() {
        for part in ["state/manifest-0000000003.json", "checkpoints/outer-000001.safetensors"] {
            let folder = tempfile::tempdir().unwrap();
            drop(RunDir::create(folder.path()).unwrap());
            fs::write(folder.path().join(part), "").unwrap();
            let message = RunDir::create(folder.path()).unwrap_err().to_string();
            let (inside, _) = part.split_once('/').unwrap();
            let expected = format!("holds parts of a run in {inside}/ but no experiment.toml");
            assert!(message.starts_with(&format!("{} {expected}", folder.path().display())));
            assert!(folder.path().join(part).exists());
        }
    }

    #[test]
    fn folders_that_were_removed_are_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        fs::write(run.experiment(), "").unwrap();
        drop(run);
        for name in FOLDERS {
            fs::remove_dir(folder.path().join(name)).unwrap();
        }
        drop(RunDir::open(folder.path()).unwrap());
        assert!(FOLDERS.iter().all(|name| folder.path().join(name).is_dir()));
    }

    #[test]
    fn a_folder_without_an_experiment_is_no_run() {
        let folder = tempfile::tempdir().unwrap();
        let message = RunDir::open(folder.path()).unwrap_err().to_string();
        assert!(message.ends_with("is not a run directory: it has no experiment.toml"));
    }
}
