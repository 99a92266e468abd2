//! Makes the files and folders of an archive, within its limits.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::Unpacking;
use super::entry_name::safe_path;
use crate::error::FetchError;
use crate::progress::{Phase, Watch};

/// Writes entries, and counts them.
pub(super) struct Writer<'a> {
    unpacking: Unpacking<'a>,
    watch: &'a Watch<'a>,
    entries: u64,
    bytes: u64,
    left_out: u64,
    buffer: Vec<u8>,
}

/// An entry that passed the checks of its name.
#[derive(Debug)]
pub(super) struct Entry {
    /// As the archive has it, for messages.
    name: String,
    /// Where it goes; nowhere if it is not in the folder that is wanted.
    path: Option<PathBuf>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(unpacking: Unpacking<'a>, watch: &'a Watch<'a>) -> Self {
        let buffer = vec![0; 1 << 16];
        Self { unpacking, watch, entries: 0, bytes: 0, left_out: 0, buffer }
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Tells how much of the archive is read, and whether to go on.
    pub(super) fn report(&self, done: u64, total: u64) -> Result<(), FetchError> {
        self.watch.report(Phase::Unpack, self.unpacking.name, done.min(total), Some(total));
        self.watch.go_on()
    }

    /// The next entry. Counts it, and checks its name, whatever it is.
    pub(super) fn enter(&mut self, name: &[u8]) -> Result<Entry, FetchError> {
        self.watch.go_on()?;
        self.entries += 1;
        if self.entries > self.unpacking.limits.entries {
            return Err(self.too_large("entries", self.unpacking.limits.entries));
        }
        let archive = || self.unpacking.archive.to_owned();
        let text = String::from_utf8_lossy(name).into_owned();
        let Some(path) = safe_path(name) else {
            return Err(FetchError::Escapes { archive: archive(), entry: text });
        };
        let wanted = path.starts_with(self.unpacking.folder);
        Ok(Entry { name: text, path: wanted.then(|| self.unpacking.into.join(path)) })
    }

    /// Leaves an entry out.
    pub(super) fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// Refuses what is neither a file nor a folder.
    pub(super) fn refuse(&self, entry: Entry) -> FetchError {
        let archive = self.unpacking.archive.to_owned();
        FetchError::NotAFile { archive, entry: entry.name }
    }

    /// Makes a folder.
    pub(super) fn folder(&mut self, entry: &Entry) -> Result<(), FetchError> {
        match &entry.path {
            Some(path) => fs::create_dir_all(path).map_err(|e| self.not_made(entry, path, e)),
            None => {
                self.leave_out();
                Ok(())
            }
        }
    }

    /// Makes a file of `size` bytes, which must be what `content` has.
    pub(super) fn file(
        &mut self,
        entry: &Entry,
        size: u64,
        content: &mut dyn Read,
    ) -> Result<(), FetchError> {
        let limits = self.unpacking.limits;
        if size > limits.bytes_per_entry {
            return Err(self.too_large("bytes in one entry", limits.bytes_per_entry));
        }
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > limits.bytes {
            return Err(self.too_large("bytes", limits.bytes));
        }
        let Some(path) = &entry.path else {
            self.leave_out();
            return self.copy(content, size, &mut io::sink(), Path::new(""));
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|e| self.not_made(entry, folder, e))?;
        }
        // Never over a file that is there, under whatever name the file system takes for
        // the same.
        let file = File::options().write(true).create_new(true).open(path);
        let mut file = file.map_err(|e| self.not_made(entry, path, e))?;
        self.copy(content, size, &mut file, path)
    }

    /// An archive that cannot be read on.
    pub(super) fn damaged(&self, source: io::Error) -> FetchError {
        FetchError::Damaged { archive: self.unpacking.archive.to_owned(), source }
    }

    pub(super) fn copy(
        &mut self,
        content: &mut dyn Read,
        size: u64,
        to: &mut dyn Write,
        path: &Path,
    ) -> Result<(), FetchError> {
        // One more than there should be, to notice it.
        let mut content = content.take(size.saturating_add(1));
        let mut copied = 0;
        loop {
            self.watch.go_on()?;
            let count = match content.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.damaged(error)),
            };
            to.write_all(&self.buffer[..count]).map_err(FetchError::io("write", path))?;
            copied += count as u64;
        }
        if copied == size {
            return Ok(());
        }
        let reason = if copied < size { "an entry ends early" } else { "an entry has no end" };
        Err(self.damaged(io::Error::new(io::ErrorKind::InvalidData, reason)))
    }

    fn not_made(&self, entry: &Entry, path: &Path, error: io::Error) -> FetchError {
        match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                let archive = self.unpacking.archive.to_owned();
                FetchError::Repeated { archive, entry: entry.name.clone() }
            }
            _ => FetchError::io("create", path)(error),
        }
    }

    fn too_large(&self, what: &'static str, limit: u64) -> FetchError {
        FetchError::TooLarge { archive: self.unpacking.archive.to_owned(), what, limit }
    }
}
