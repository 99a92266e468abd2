//! Tar archives, plain and compressed with gzip.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

use super::writer::Writer;
use crate::error::FetchError;

/// The most that may stand between two files: headers, long names, padding. The reader of
/// the format keeps them in memory.
const BETWEEN_FILES: u64 = 1 << 20;

pub(super) fn unpack_tar(path: &Path, writer: &mut Writer<'_>) -> Result<(), FetchError> {
    let (file, consumed, total) = open(path)?;
    unpack(file, &|| consumed.get(), total, writer)
}

pub(super) fn unpack_tar_gz(path: &Path, writer: &mut Writer<'_>) -> Result<(), FetchError> {
    let (file, consumed, total) = open(path)?;
    unpack(MultiGzDecoder::new(file), &|| consumed.get(), total, writer)
}

type Consumed = Rc<Cell<u64>>;

/// A file, how much of it was read, and how long it is.
fn open(path: &Path) -> Result<(impl Read, Consumed, u64), FetchError> {
    let read = || FetchError::io("read", path);
    let file = File::open(path).map_err(read())?;
    let total = file.metadata().map_err(read())?.len();
    let consumed = Consumed::default();
    let counted = Counted { inner: file, consumed: Rc::clone(&consumed) };
    Ok((BufReader::with_capacity(1 << 18, counted), consumed, total))
}

fn unpack(
    stream: impl Read,
    consumed: &dyn Fn() -> u64,
    total: u64,
    writer: &mut Writer<'_>,
) -> Result<(), FetchError> {
    let allowance = Rc::new(Cell::new(BETWEEN_FILES));
    let mut archive = Archive::new(Allowed { inner: stream, left: Rc::clone(&allowance) });
    let mut entries = archive.entries().map_err(|e| writer.damaged(e))?;
    loop {
        writer.report(consumed(), total)?;
        allowance.set(BETWEEN_FILES);
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(|e| writer.damaged(e))?;
        let name = writer.enter(&entry.path_bytes())?;
        let size = entry.size();
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                allowance.set(size.saturating_add(1));
                writer.file(&name, size, &mut entry)?;
            }
            EntryType::Directory => writer.folder(&name)?,
            EntryType::Link | EntryType::Symlink | EntryType::XGlobalHeader => writer.leave_out(),
            _ => return Err(writer.refuse(name)),
        }
    }
    // To the end, where gzip keeps its checksum.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|e| writer.damaged(e))?;
    writer.report(total, total)
}

struct Counted<R> {
    inner: R,
    consumed: Consumed,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.consumed.set(self.consumed.get() + count as u64);
        Ok(count)
    }
}

/// Gives no more bytes than it is allowed to.
struct Allowed<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Allowed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 && !buffer.is_empty() {
            let reason = "there is too much between two files";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let count = self.inner.read(&mut buffer[..most])?;
        self.left.set(left - count as u64);
        Ok(count)
    }
}
