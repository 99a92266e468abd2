//! Zip archives.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use zip::ZipArchive;

use super::writer::Writer;
use crate::error::FetchError;

/// The bits of a Unix mode that say what an entry is.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

pub(super) fn unpack_zip(path: &Path, writer: &mut Writer<'_>) -> Result<(), FetchError> {
    let read = || FetchError::io("read", path);
    let file = File::open(path).map_err(read())?;
    let total = file.metadata().map_err(read())?.len();
    let opened = ZipArchive::new(BufReader::with_capacity(1 << 18, file));
    let mut archive = opened.map_err(|e| writer.damaged(e.into()))?;
    // Of two entries of one name its reader knows one.
    if archive.has_duplicate_names() {
        let reason = "two entries have the same name";
        return Err(writer.damaged(io::Error::new(io::ErrorKind::InvalidData, reason)));
    }
    let mut done = 0_u64;
    for index in 0..archive.len() {
        writer.report(done, total)?;
        let mut entry = archive.by_index(index).map_err(|e| writer.damaged(e.into()))?;
        let name = writer.enter(entry.name_raw())?;
        let (size, kind) = (entry.size(), entry.unix_mode().unwrap_or_default() & KIND);
        if entry.is_symlink() {
            writer.leave_out();
        } else if entry.is_dir() {
            writer.folder(&name)?;
        } else if kind == 0 || kind == REGULAR {
            writer.file(&name, size, &mut entry)?;
        } else {
            return Err(writer.refuse(name));
        }
        done = done.saturating_add(entry.compressed_size());
    }
    writer.report(total, total)
}
