//! Files read and written by position, by several threads at once.
//!
//! A read copies into a buffer that is used again, so that a file which is cut off meanwhile is
//! an error and not a crash, as it would be through a memory map (decision 0026).

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::StoreError;

/// A file of a member. Of a long series, files are opened for each read: systems allow some
/// hundred open ones.
#[derive(Debug)]
pub(crate) struct PositionedFile {
    path: PathBuf,
    length: u64,
    written: Option<SystemTime>,
    kept: Option<Shared>,
}

impl PositionedFile {
    /// A file whose contents are known; `keep` says whether it stays open.
    pub(crate) fn new(path: &Path, file: File, keep: Keep) -> Result<Self, StoreError> {
        let about = file.metadata().map_err(StoreError::io("read", path))?;
        let kept = (keep == Keep::Open).then(|| Shared::new(file));
        let (path, length, written) = (path.to_owned(), about.len(), about.modified().ok());
        Ok(Self { path, length, written, kept })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of the file when it was opened.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// When it was last written.
    pub(crate) fn written(&self) -> Option<SystemTime> {
        self.written
    }

    /// Fills the buffer from that position on.
    pub(crate) fn read(&self, start: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let mut read = || match &self.kept {
            Some(file) => file.read_exact_at(into, start),
            None => {
                let file = File::open(&self.path)?;
                self.ensure_same(&file.metadata()?)?;
                Shared::new(file).read_exact_at(into, start)
            }
        };
        read().map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => StoreError::io("read", &self.path)(changed()),
            _ => StoreError::io("read", &self.path)(error),
        })
    }

    /// Whether the file is as it was when it was opened: its length, and when it was written.
    /// A file that stays open is asked itself: one that took its place by renaming is not read.
    pub(crate) fn ensure_unchanged(&self) -> Result<(), StoreError> {
        let about = match &self.kept {
            Some(file) => file.metadata(),
            None => std::fs::metadata(&self.path),
        };
        let same = about.and_then(|about| self.ensure_same(&about));
        same.map_err(StoreError::io("read", &self.path))
    }

    fn ensure_same(&self, now: &Metadata) -> io::Result<()> {
        let same = now.len() == self.length && now.modified().ok() == self.written;
        if same { Ok(()) } else { Err(changed()) }
    }
}

/// Whether a file stays open between reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It does.
    Open,
    /// It is opened for each read.
    Closed,
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it was changed while it was read")
}

/// A file without a position of its own.
#[derive(Debug)]
pub(crate) struct Shared {
    #[cfg(unix)]
    file: File,
    #[cfg(not(unix))]
    file: std::sync::Mutex<File>,
}

#[cfg(unix)]
impl Shared {
    pub(crate) fn new(file: File) -> Self {
        Self { file }
    }

    fn read_exact_at(&self, into: &mut [u8], start: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, into, start)
    }

    fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Waits until it is on the disk.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Writes all bytes from that position on.
    pub(crate) fn write_all_at(&self, bytes: &[u8], start: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, start)
    }
}

#[cfg(not(unix))]
impl Shared {
    pub(crate) fn new(file: File) -> Self {
        Self { file: std::sync::Mutex::new(file) }
    }

    fn at(&self, start: u64) -> io::Result<std::sync::MutexGuard<'_, File>> {
        use std::io::Seek;
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.seek(io::SeekFrom::Start(start))?;
        Ok(file)
    }

    fn read_exact_at(&self, into: &mut [u8], start: u64) -> io::Result<()> {
        io::Read::read_exact(&mut *self.at(start)?, into)
    }

    fn metadata(&self) -> io::Result<Metadata> {
        self.at(0)?.metadata()
    }

    /// Waits until it is on the disk.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        self.at(0)?.sync_all()
    }

    /// Writes all bytes from that position on.
    pub(crate) fn write_all_at(&self, bytes: &[u8], start: u64) -> io::Result<()> {
        io::Write::write_all(&mut *self.at(start)?, bytes)
    }
}
