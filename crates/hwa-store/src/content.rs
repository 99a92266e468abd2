//! What a file is, told by its first bytes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::checkpoint_error::CheckpointError;
use crate::error::StoreError;

/// The bytes that are needed to tell.
const HEAD: usize = 512;

/// A content that weights may be read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A length of eight bytes and a JSON object.
    Safetensors,
    /// A zip archive, by PyTorch or by others.
    Zip,
}

/// `0x1950a86a20f9469cfc6c`, pickled: how files of PyTorch before 1.6 begin.
const LEGACY: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
/// The place of a tar archive's magic word.
const TAR_MAGIC: usize = 257;

/// Opens a file that is one: whoever opens a pipe waits for its other end.
pub(crate) fn open_regular(path: &Path) -> Result<File, StoreError> {
    let open = || match fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is not a regular file")),
    };
    open().map_err(StoreError::io("read", path))
}

/// Opens a file, reads its first bytes, and tells what it is.
pub(crate) fn open(path: &Path) -> Result<(File, Content), StoreError> {
    let mut file = open_regular(path)?;
    let mut head = Vec::with_capacity(HEAD);
    Read::by_ref(&mut file)
        .take(HEAD as u64)
        .read_to_end(&mut head)
        .map_err(StoreError::io("read", path))?;
    let content = recognise(&head)
        .map_err(|source| StoreError::Checkpoint { path: path.to_owned(), source })?;
    Ok((file, content))
}

/// Tells what begins with `head`, which is the whole file or its first [`HEAD`] bytes.
pub(crate) fn recognise(head: &[u8]) -> Result<Content, CheckpointError> {
    if head.is_empty() {
        return Err(CheckpointError::Empty);
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return Ok(Content::Zip);
    }
    if head.starts_with(LEGACY) {
        return Err(CheckpointError::Legacy);
    }
    // Before pickles: a header of 640 bytes gives a file the first bytes of one.
    if head.get(8) == Some(&b'{') {
        return Ok(Content::Safetensors);
    }
    if let [0x80, 2..=5, ..] = head {
        return Err(CheckpointError::BarePickle);
    }
    if head.get(TAR_MAGIC..).is_some_and(|rest| rest.starts_with(b"ustar")) {
        return Err(CheckpointError::Tar);
    }
    if head.starts_with(b"version https://git-lfs") {
        return Err(CheckpointError::LfsPointer);
    }
    Err(CheckpointError::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_formats_apart() {
        // 640 is 0x0280: little-endian, these are the first bytes of a pickle.
        let mut disguised = 640u64.to_le_bytes().to_vec();
        disguised.extend(b"{\"w\":");
        assert_eq!(recognise(&disguised).unwrap(), Content::Safetensors);
        assert_eq!(recognise(b"PK\x03\x04\0\0\x08\x08").unwrap(), Content::Zip);

        let mut tar = vec![0; HEAD];
        tar[TAR_MAGIC..TAR_MAGIC + 5].copy_from_slice(b"ustar");
        let refused = |head: &[u8]| recognise(head).unwrap_err().to_string();
        assert!(refused(&tar).starts_with("a tar archive"));
        assert!(refused(LEGACY).starts_with("saved by PyTorch before 1.6"));
        assert!(refused(b"\x80\x04\x95rest of it").starts_with("a pickle"));
        assert!(refused(b"version https://git-lfs.github.com/spec/v1\n").contains("git lfs pull"));
        assert_eq!(refused(b""), "the file is empty");
        assert!(refused(b"\x80").starts_with("neither"));
        assert!(refused(b"hello, world").starts_with("neither"));
    }
}
