//! Archives and pickles as `torch.save` writes them, and as it never would.

use std::path::PathBuf;

use hwa_core::{Tensor, Values};
use hwa_store::{Checkpoint, CheckpointError, StoreError, read_checkpoint};

/// One entry of an archive, with what its headers claim.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) method: u16,
    pub(crate) checksum: u32,
    pub(crate) length: u32,
    /// Where the directory says that it is, if not where it is.
    pub(crate) place: Option<u32>,
    /// What its own header says that it is called.
    pub(crate) local_name: String,
}

/// An entry as PyTorch would write it.
pub(crate) fn entry(name: &str, bytes: &[u8]) -> Entry {
    let name = format!("archive/{name}");
    Entry {
        local_name: name.clone(),
        name,
        bytes: bytes.to_vec(),
        method: 0,
        checksum: crc32fast::hash(bytes),
        length: bytes.len() as u32,
        place: None,
    }
}

/// The archive of some entries.
pub(crate) fn archive(entries: &[Entry]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let place = entry.place.unwrap_or(file.len() as u32);
        let packed = entry.bytes.len() as u32;
        let packed = if entry.method == 0 { entry.length } else { packed };
        file.extend(b"PK\x03\x04\0\0\0\0");
        file.extend(entry.method.to_le_bytes());
        file.extend([0; 4]);
        for number in [entry.checksum, packed, entry.length] {
            file.extend(number.to_le_bytes());
        }
        file.extend((entry.local_name.len() as u16).to_le_bytes());
        file.extend([0; 2]);
        file.extend(entry.local_name.as_bytes());
        file.extend(&entry.bytes);

        directory.extend(b"PK\x01\x02\0\0\0\0\0\0");
        directory.extend(entry.method.to_le_bytes());
        directory.extend([0; 4]);
        for number in [entry.checksum, packed, entry.length] {
            directory.extend(number.to_le_bytes());
        }
        directory.extend((entry.name.len() as u16).to_le_bytes());
        directory.extend([0; 12]);
        directory.extend(place.to_le_bytes());
        directory.extend(entry.name.as_bytes());
    }
    let start = file.len() as u32;
    file.extend(&directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([(entries.len() as u16).to_le_bytes(); 2].concat());
    file.extend((directory.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0; 2]);
    file
}

/// An archive with a pickle and storages.
pub(crate) fn saved(program: &[u8], storages: &[(&str, &[u8])]) -> Vec<u8> {
    let mut entries = vec![entry("data.pkl", program), entry("byteorder", b"little")];
    entries.extend(storages.iter().map(|(key, bytes)| entry(&format!("data/{key}"), bytes)));
    archive(&entries)
}

/// A pickle of `{"w": tensor}`.
pub(crate) fn one_tensor(tensor: &View<'_>) -> Vec<u8> {
    [b"\x80\x02}".as_slice(), &text("w"), &tensor.program(), b"s."].concat()
}

/// How a tensor is described.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) storage: &'a str,
    pub(crate) key: &'a str,
    pub(crate) length: i64,
    pub(crate) offset: i64,
    pub(crate) shape: &'a [i64],
    pub(crate) strides: &'a [i64],
}

impl View<'_> {
    /// Two floats that are all of storage `0`.
    pub(crate) const PAIR: Self = View {
        storage: "FloatStorage",
        key: "0",
        length: 2,
        offset: 0,
        shape: &[2],
        strides: &[1],
    };

    /// Instructions that build it.
    pub(crate) fn program(&self) -> Vec<u8> {
        let storage = format!("ctorch\n{}\n", self.storage);
        [
            b"ctorch._utils\n_rebuild_tensor_v2\n((".as_slice(),
            &text("storage"),
            storage.as_bytes(),
            &text(self.key),
            &text("cpu"),
            &int(self.length),
            b"tQ",
            &int(self.offset),
            &ints(self.shape),
            &ints(self.strides),
            b"\x89ccollections\nOrderedDict\n)RtR",
        ]
        .concat()
    }
}

/// Instructions that put a text onto the stack.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [b"X".as_slice(), &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// Instructions that put an integer onto the stack.
pub(crate) fn int(number: i64) -> Vec<u8> {
    [b"\x8a\x08".as_slice(), &number.to_le_bytes()].concat()
}

fn ints(numbers: &[i64]) -> Vec<u8> {
    let items: Vec<u8> = numbers.iter().flat_map(|n| int(*n)).collect();
    [b"(".as_slice(), &items, b"t"].concat()
}

/// Little-endian bytes of floats.
pub(crate) fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Reads a file with those bytes.
pub(crate) fn read(bytes: &[u8]) -> Result<Checkpoint, StoreError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.pt");
    std::fs::write(&path, bytes).unwrap();
    read_checkpoint(&path)
}

/// Why a file with those bytes is refused.
pub(crate) fn refused(bytes: &[u8]) -> CheckpointError {
    match read(bytes) {
        Err(StoreError::Checkpoint { source, .. }) => source,
        other => panic!("expected a refusal, found {other:?}"),
    }
}

/// The place of a golden file.
pub(crate) fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A tensor's numbers, as they are stored.
pub(crate) fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    match tensor.values() {
        Values::F64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Values::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Values::F16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Values::BF16(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Values::I64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}
