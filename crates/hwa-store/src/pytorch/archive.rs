//! Zip archives in which everything is stored as it is, which is how PyTorch writes them.
//!
//! The directory at the end is read once, and every entry is checked against it before
//! anything else is believed: it lies inside the file, overlaps no other, is there once,
//! and is not compressed, so that no entry can be longer than the file. Entries are then
//! read one by one, or in parts; no name in an archive is ever used as a path.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use crc32fast::Hasher;

use super::bytes::Bytes;
use super::shown;
use crate::checkpoint_error::CheckpointError;

/// The longest directory: more than two hundred thousand entries.
const MAX_DIRECTORY: u64 = 16 << 20;
/// The end record without its comment, the longest comment, the locator before it.
const END: u64 = 22;
const MAX_COMMENT: u64 = u16::MAX as u64;
const LOCATOR: u64 = 20;
const END_64: u64 = 56;
const LOCAL_HEADER: u64 = 30;
/// The bytes that are read at a time to compute a checksum.
const PIECE: usize = 64 << 10;
/// The checksum that PyTorch writes when told not to compute one (`set_crc32_options`).
const UNCHECKED: u32 = 0;

/// A file of `torch.save`, with the places of its entries.
#[derive(Debug)]
pub(super) struct Archive {
    file: File,
    length: u64,
    /// By their names in the folder that everything lies in.
    entries: BTreeMap<String, Entry>,
}

/// Where an entry's bytes are.
#[derive(Debug, Clone, Copy)]
struct Entry {
    header: u64,
    start: u64,
    length: u64,
    checksum: u32,
    is_stored: bool,
}

/// A checksum that was not compared yet.
#[derive(Debug)]
pub(crate) struct Check {
    /// The entry of the archive.
    pub(crate) entry: String,
    /// Where its bytes are.
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) checksum: u32,
}

impl Check {
    /// Compares the checksum of all bytes.
    pub(crate) fn compare(&self, hasher: Hasher) -> Result<(), CheckpointError> {
        match hasher.finalize() == self.checksum {
            true => Ok(()),
            false => Err(CheckpointError::Checksum { name: shown(&self.entry) }),
        }
    }
}

impl Archive {
    /// Reads the directory and checks every entry against it.
    pub(super) fn open(mut file: File) -> Result<Self, CheckpointError> {
        let length = file.seek(SeekFrom::End(0))?;
        let directory = Directory::find(&mut file, length)?;
        let listed = directory.entries(&mut file)?;
        let prefix = prefix_of(&listed)?;
        let mut entries = BTreeMap::new();
        for (name, mut entry) in listed {
            if !entry.is_stored {
                return Err(CheckpointError::NotStored { name: shown(&name) });
            }
            entry.start = data_start(&mut file, &name, entry, directory.start)?;
            if entries.insert(name.clone(), entry).is_some() {
                return Err(CheckpointError::DuplicateEntry { name: shown(&name) });
            }
        }
        ensure_apart(&entries)?;
        let inside = |(name, entry): (String, Entry)| {
            name.strip_prefix(&prefix).map(|name| (name.to_owned(), entry))
        };
        let entries = entries.into_iter().filter_map(inside).collect();
        Ok(Self { file, length, entries })
    }

    /// The bytes of the file.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether there is an entry of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The bytes of an entry.
    pub(super) fn length_of(&self, name: &str) -> Result<u64, CheckpointError> {
        Ok(self.entry(name)?.length)
    }

    /// Where in the file the bytes of an entry begin.
    pub(super) fn start_of(&self, name: &str) -> Result<u64, CheckpointError> {
        Ok(self.entry(name)?.start)
    }

    /// What has to be read to tell whether an entry is as it was written; nothing if it was saved
    /// without a checksum.
    pub(super) fn check_of(&self, name: &str) -> Result<Option<Check>, CheckpointError> {
        let Entry { start, length, checksum, .. } = self.entry(name)?;
        let check = Check { entry: name.to_owned(), start, length, checksum };
        Ok(Some(check).filter(|_| checksum != UNCHECKED))
    }

    /// Reads an entry of at most `limit` bytes, and checks its checksum.
    pub(super) fn read(&mut self, name: &str, limit: u64) -> Result<Vec<u8>, CheckpointError> {
        let entry = self.entry(name)?;
        if entry.length > limit {
            return Err(CheckpointError::TooMany { what: "bytes in an entry", limit });
        }
        let bytes = self.read_part(name, 0, entry.length)?;
        let mut hasher = Hasher::new();
        hasher.update(&bytes);
        self.compare(name, entry, hasher)?;
        Ok(bytes)
    }

    /// Reads a part of an entry, without a look at its checksum.
    pub(super) fn read_part(
        &mut self,
        name: &str,
        start: u64,
        length: u64,
    ) -> Result<Vec<u8>, CheckpointError> {
        let entry = self.entry(name)?;
        if start.checked_add(length).is_none_or(|end| end > entry.length) {
            return Err(CheckpointError::OutsideFile { name: shown(name) });
        }
        Ok(part(&mut self.file, entry.start + start, length)?)
    }

    /// Checks an entry's checksum, without holding the entry in memory.
    pub(super) fn verify(&mut self, name: &str) -> Result<(), CheckpointError> {
        let entry = self.entry(name)?;
        if entry.checksum == UNCHECKED {
            return Ok(());
        }
        let mut hasher = Hasher::new();
        let mut piece = vec![0; PIECE];
        let mut left = entry.length;
        self.file.seek(SeekFrom::Start(entry.start))?;
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            self.file.read_exact(&mut piece[..length])?;
            hasher.update(&piece[..length]);
            left -= length as u64;
        }
        self.compare(name, entry, hasher)
    }

    fn compare(&self, name: &str, entry: Entry, hasher: Hasher) -> Result<(), CheckpointError> {
        if entry.checksum != UNCHECKED && entry.checksum != hasher.finalize() {
            return Err(CheckpointError::Checksum { name: shown(name) });
        }
        Ok(())
    }

    fn entry(&self, name: &str) -> Result<Entry, CheckpointError> {
        let missing = || CheckpointError::MissingEntry { name: shown(name) };
        self.entries.get(name).copied().ok_or_else(missing)
    }
}

/// The folder that a saved state lies in. Programs and archives of others are refused,
/// before anything else is said about them: PyTorch compresses programs.
fn prefix_of(listed: &[(String, Entry)]) -> Result<String, CheckpointError> {
    let first = listed.first().and_then(|(name, _)| name.split_once('/'));
    let prefix = first.map(|(prefix, _)| format!("{prefix}/")).ok_or(CheckpointError::NoPickle)?;
    let names = || listed.iter().filter_map(|(name, _)| name.strip_prefix(&prefix));
    if names().any(|name| name == "constants.pkl" || name.starts_with("code/")) {
        return Err(CheckpointError::TorchScript);
    }
    if !names().any(|name| name == "data.pkl") {
        return Err(CheckpointError::NoPickle);
    }
    Ok(prefix)
}

/// Where the directory is.
#[derive(Debug, Clone, Copy)]
struct Directory {
    start: u64,
    length: u64,
    num_entries: u64,
}

impl Directory {
    /// Finds it from the end of the file: a comment may follow the end record.
    fn find(file: &mut File, length: u64) -> Result<Self, CheckpointError> {
        let tail_length = length.min(LOCATOR + END + MAX_COMMENT);
        let tail_start = length - tail_length;
        let tail = part(file, tail_start, tail_length)?;
        let is_end = |at: &usize| {
            let comment =
                tail.get(at + 20..at + 22).map(|n| usize::from(n[0]) | usize::from(n[1]) << 8);
            tail[*at..].starts_with(b"PK\x05\x06")
                && comment.is_some_and(|n| at + 22 + n == tail.len())
        };
        let at = (0..tail.len()).rev().find(is_end).ok_or(CheckpointError::NoDirectory)?;
        let end_start = tail_start + at as u64;
        let locator = at.checked_sub(LOCATOR as usize).map(|start| &tail[start..at]);
        let (directory, limit) = match locator {
            Some(locator) if locator.starts_with(b"PK\x06\x07") => {
                let start = Bytes::new(&locator[8..]).u64().ok_or(CheckpointError::NoDirectory)?;
                (Self::in_record_64(file, start, length)?, start)
            }
            _ => (Self::in_record(&tail[at..]), end_start),
        };
        let directory = directory.ok_or(CheckpointError::NoDirectory)?;
        let end = directory.start.checked_add(directory.length);
        if end.is_none_or(|end| end > limit.min(end_start)) {
            return Err(CheckpointError::NoDirectory);
        }
        if directory.length > MAX_DIRECTORY {
            let limit = MAX_DIRECTORY;
            return Err(CheckpointError::TooMany { what: "bytes in the directory", limit });
        }
        Ok(directory)
    }

    fn in_record(record: &[u8]) -> Option<Self> {
        let mut bytes = Bytes::new(record);
        bytes.take(10)?;
        let num_entries = bytes.u16()?.into();
        let (length, start) = (bytes.u32()?.into(), bytes.u32()?.into());
        Some(Self { start, length, num_entries })
    }

    /// The record of archives beyond four gigabytes; PyTorch always writes it.
    fn in_record_64(
        file: &mut File,
        start: u64,
        length: u64,
    ) -> Result<Option<Self>, CheckpointError> {
        if start.checked_add(END_64).is_none_or(|end| end > length) {
            return Ok(None);
        }
        let record = part(file, start, END_64)?;
        let mut bytes = Bytes::new(&record);
        let mut parse = || {
            let is_record = bytes.take(4)? == b"PK\x06\x06";
            bytes.take(28)?;
            let num_entries = bytes.u64()?;
            let (length, start) = (bytes.u64()?, bytes.u64()?);
            is_record.then_some(Self { start, length, num_entries })
        };
        Ok(parse())
    }

    /// The entries, in order. Where their bytes start, only they themselves can say.
    fn entries(self, file: &mut File) -> Result<Vec<(String, Entry)>, CheckpointError> {
        let bytes = part(file, self.start, self.length)?;
        let mut bytes = Bytes::new(&bytes);
        let mut entries = Vec::new();
        while !bytes.is_empty() {
            entries.push(listed(&mut bytes)?);
        }
        if entries.len() as u64 != self.num_entries {
            return Err(CheckpointError::NoDirectory);
        }
        Ok(entries)
    }
}

/// One entry of the directory.
fn listed(bytes: &mut Bytes<'_>) -> Result<(String, Entry), CheckpointError> {
    let mut parse = || {
        let is_entry = bytes.take(4)? == b"PK\x01\x02";
        bytes.take(4)?;
        let (flags, method) = (bytes.u16()?, bytes.u16()?);
        bytes.take(4)?;
        let checksum = bytes.u32()?;
        let (packed, length) = (bytes.u32()?.into(), bytes.u32()?.into());
        let (name, extra, comment) = (bytes.u16()?, bytes.u16()?, bytes.u16()?);
        bytes.take(8)?;
        let header = bytes.u32()?.into();
        let name = std::str::from_utf8(bytes.take(name.into())?).ok()?;
        let [length, packed, header] =
            widened([length, packed, header], bytes.take(extra.into())?)?;
        bytes.take(comment.into())?;
        let is_stored = flags & 1 == 0 && method == 0 && packed == length;
        let entry = Entry { header, start: 0, length, checksum, is_stored };
        is_entry.then(|| (name.to_owned(), entry))
    };
    parse().ok_or(CheckpointError::NoDirectory)
}

/// Takes numbers that do not fit into four bytes from the entry's extra fields.
fn widened(mut numbers: [u64; 3], extra: &[u8]) -> Option<[u64; 3]> {
    const WIDE: u16 = 1;
    let mut extra = Bytes::new(extra);
    let mut wide = Bytes::new(&[]);
    while !extra.is_empty() {
        let (kind, length) = (extra.u16()?, extra.u16()?);
        let field = extra.take(length.into())?;
        if kind == WIDE {
            wide = Bytes::new(field);
        }
    }
    for number in numbers.iter_mut().filter(|n| **n == u64::from(u32::MAX)) {
        *number = wide.u64()?;
    }
    Some(numbers)
}

/// Where an entry's bytes start: behind its own header, which repeats its name.
fn data_start(
    file: &mut File,
    name: &str,
    entry: Entry,
    directory: u64,
) -> Result<u64, CheckpointError> {
    let outside = || CheckpointError::OutsideFile { name: shown(name) };
    let name_end = entry.header.checked_add(LOCAL_HEADER + name.len() as u64);
    if name_end.is_none_or(|end| end > directory) {
        return Err(outside());
    }
    let header = part(file, entry.header, LOCAL_HEADER + name.len() as u64)?;
    let mut bytes = Bytes::new(&header);
    let mut parse = || {
        let is_entry = bytes.take(4)? == b"PK\x03\x04";
        bytes.take(2)?;
        let (flags, method) = (bytes.u16()?, bytes.u16()?);
        bytes.take(16)?;
        let (name_length, extra) = (bytes.u16()?, bytes.u16()?);
        let same_name = usize::from(name_length) == name.len()
            && bytes.take(name_length.into())? == name.as_bytes();
        (is_entry && flags & 1 == 0 && method == 0 && same_name).then_some(extra)
    };
    let disagree = || CheckpointError::HeadersDisagree { name: shown(name) };
    let extra = parse().ok_or_else(disagree)?;
    let start = entry.header + header.len() as u64 + u64::from(extra);
    if start.checked_add(entry.length).is_none_or(|end| end > directory) {
        return Err(outside());
    }
    Ok(start)
}

/// No byte belongs to two entries: bombs are made of entries that overlap.
fn ensure_apart(entries: &BTreeMap<String, Entry>) -> Result<(), CheckpointError> {
    let mut by_place: Vec<_> = entries.iter().collect();
    by_place.sort_by_key(|(_, entry)| entry.header);
    for pair in by_place.windows(2) {
        if let [(first, before), (second, after)] = pair
            && before.start + before.length > after.header
        {
            let (first, second) = (shown(first), shown(second));
            return Err(CheckpointError::Overlap { first, second });
        }
    }
    Ok(())
}

/// Bytes of the file, which the caller has found to be there.
fn part(file: &mut File, start: u64, length: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = vec![0; usize::try_from(length).map_err(std::io::Error::other)?];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
