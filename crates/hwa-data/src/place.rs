//! Where the files of a data set are looked for, and whether they are the right ones.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use md5::{Digest, Md5};

use crate::error::DataError;

/// The files of a data set, and how to get them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files {
    /// The data set.
    pub(crate) dataset: &'static str,
    /// The folder that its archive unpacks to.
    pub(crate) folder: &'static str,
    /// Everything that must be there.
    pub(crate) files: &'static [File],
    /// Where the archive is published.
    pub(crate) archive: &'static str,
}

/// A file as it is published.
#[derive(Debug, Clone, Copy)]
pub(crate) struct File {
    pub(crate) name: &'static str,
    pub(crate) md5: &'static str,
}

/// A file that is there, and the checksum that its authors give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    pub(crate) md5: &'static str,
}

/// The folder of a data set whose images are files, and how to get it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home {
    /// The data set.
    pub(crate) dataset: &'static str,
    /// The folder that its archive unpacks to.
    pub(crate) folder: &'static str,
    /// Something in it that tells it from others.
    pub(crate) marker: &'static str,
    /// Where the archive is published.
    pub(crate) archive: &'static str,
}

impl Home {
    /// Finds the folder: `dir` itself, or the archive's folder inside it; without `dir`,
    /// the same in the cache folder.
    pub(crate) fn locate(&self, dir: Option<&Path>) -> Result<PathBuf, DataError> {
        let root = root(dir, self.dataset)?;
        let inside = root.join(self.folder);
        let found = [&inside, &root].into_iter().find(|path| path.join(self.marker).exists());
        found.cloned().ok_or_else(|| DataError::MissingFile {
            dataset: self.dataset,
            path: inside.join(self.marker),
            also_looked_in: vec![root],
            archive: self.archive,
        })
    }
}

fn root(dir: Option<&Path>, dataset: &'static str) -> Result<PathBuf, DataError> {
    match dir {
        Some(dir) => Ok(dir.to_owned()),
        None => cache_folder().ok_or(DataError::NoFolder { dataset }),
    }
}

impl Files {
    /// Finds every file in one folder: `dir` itself, or the archive's folder inside
    /// it; without `dir`, the same in the cache folder.
    pub(crate) fn locate(&self, dir: Option<&Path>) -> Result<Vec<FoundFile>, DataError> {
        let root = root(dir, self.dataset)?;
        let (inside, itself) = (root.join(self.folder), root.as_path());
        // Where more of the files are, a missing one is more likely to be expected.
        let (folder, other) = match self.count_in(itself) > self.count_in(&inside) {
            true => (itself, inside.as_path()),
            false => (inside.as_path(), itself),
        };
        let find = |file: &File| match folder.join(file.name) {
            path if path.is_file() => Ok(FoundFile { path, md5: file.md5 }),
            path => Err(DataError::MissingFile {
                dataset: self.dataset,
                path,
                also_looked_in: vec![other.to_owned()],
                archive: self.archive,
            }),
        };
        self.files.iter().map(find).collect()
    }

    fn count_in(&self, folder: &Path) -> usize {
        self.files.iter().filter(|file| folder.join(file.name).is_file()).count()
    }
}

impl FoundFile {
    /// Returns the path if the file is what its authors published.
    pub(crate) fn verify(self) -> Result<PathBuf, DataError> {
        let Self { path, md5 } = self;
        match md5_of(&path) {
            Ok(found) if found == md5 => Ok(path),
            Ok(found) => Err(DataError::WrongChecksum { path, expected: md5, found }),
            Err(source) => Err(DataError::Io { path, source }),
        }
    }
}

fn md5_of(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut digest = Md5::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => digest.update(&buffer[..count]),
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The folder that data sets are looked for in unless another is named:
/// `HWA_DATA_DIR`, or else `hwa` in the platform's folder for caches.
pub fn cache_folder() -> Option<PathBuf> {
    cache_folder_in(std::env::consts::OS, |name| std::env::var_os(name), std::env::home_dir())
}

fn cache_folder_in(
    system: &str,
    variable: impl Fn(&str) -> Option<OsString>,
    home: Option<PathBuf>,
) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = folder("HWA_DATA_DIR") {
        return Some(folder);
    }
    let caches = match system {
        "windows" => folder("LOCALAPPDATA")?,
        "macos" => home?.join("Library").join("Caches"),
        // The XDG specification has relative paths ignored.
        _ => match folder("XDG_CACHE_HOME").filter(|folder| folder.is_absolute()) {
            Some(folder) => folder,
            None => home?.join(".cache"),
        },
    };
    Some(caches.join("hwa"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(system: &str, variables: &[(&str, &str)]) -> Option<PathBuf> {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        };
        cache_folder_in(system, lookup, Some(PathBuf::from("/home/ada")))
    }

    #[test]
    fn the_named_folder_comes_before_the_platform_cache() {
        let named = [("HWA_DATA_DIR", "/data"), ("XDG_CACHE_HOME", "/cache")];
        assert_eq!(found("linux", &named), Some("/data".into()));
        assert_eq!(found("linux", &named[1..]), Some("/cache/hwa".into()));
        assert_eq!(found("linux", &[("XDG_CACHE_HOME", "relative")]), found("linux", &[]));
        assert_eq!(found("linux", &[("HWA_DATA_DIR", "")]), Some("/home/ada/.cache/hwa".into()));
        assert_eq!(found("macos", &[]), Some("/home/ada/Library/Caches/hwa".into()));
        assert_eq!(found("windows", &[("LOCALAPPDATA", "/local")]), Some("/local/hwa".into()));
        assert_eq!(found("windows", &[]), None);
        assert_eq!(cache_folder_in("linux", |_| None, None), None);
    }
}
