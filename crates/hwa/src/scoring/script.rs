//! What tells versions of a file apart.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The bytes that are looked at; a script has fewer.
const MOST: u64 = 16 << 20;

/// The name, length and checksum of a file; nothing if it is none, or cannot be read.
pub(super) fn version(path: &Path) -> Option<String> {
    let about = std::fs::metadata(path).ok().filter(|about| about.is_file())?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    let (length, checksum) = (about.len(), crc32fast::hash(&bytes));
    Some(format!("{}: {length} bytes, {checksum:08x}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_by_a_letter_and_folders_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("eval.py");
        std::fs::write(&script, "print(1)").unwrap();
        let first = version(&script).unwrap();
        assert_eq!(version(&script).unwrap(), first);
        std::fs::write(&script, "print(2)").unwrap();
        assert_ne!(version(&script).unwrap(), first);
        assert!(version(folder.path()).is_none() && version(&folder.path().join("x")).is_none());
    }
}
