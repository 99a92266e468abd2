//! Files that `torch.save` writes since PyTorch 1.6, read without running anything.
//!
//! Such a file is a zip archive: `data.pkl` is a pickle, a program for a small machine
//! that builds Python objects, and `data/<key>` are the numbers. Python's machine can
//! call anything, which is why loading a checkpoint can take over a computer. The
//! machine here can build plain data and descriptions of tensors, and nothing else: a
//! name that is not on its list ends the reading, with the name.

mod archive;
mod bytes;
mod calls;
mod globals;
mod located;
mod pickle;
mod state_dict;
mod strided;
mod tensors;
mod value;

use std::fs::File;
use std::path::Path;

use hwa_core::Weights;

use crate::checkpoint_error::CheckpointError;
use crate::error::StoreError;

use archive::Archive;
pub(crate) use archive::Check;
pub(crate) use located::{LocatedTensor, locate};

/// The longest pickle that is read. Numbers are outside of it: tens of bytes per tensor.
const MAX_PICKLE: u64 = 64 << 20;
/// The most tensors that a pickle may describe, and that a state dict may hold: a few
/// bytes that use a description again would otherwise become a thousand.
const MAX_TENSORS: usize = 1 << 17;
const MAX_WORD: u64 = 64;

/// Reads the weights of a zip archive, and says in which entry of a training
/// checkpoint they were.
pub(crate) fn read(path: &Path, file: File) -> Result<(Weights, Option<String>), StoreError> {
    let wrong = |source| StoreError::Checkpoint { path: path.to_owned(), source };
    let (mut archive, program) = opened(file).map_err(wrong)?;
    let objects = pickle::run(&program).map_err(wrong)?;
    let found = state_dict::find(&objects, None).map_err(wrong)?;
    let weights = tensors::read(path, &mut archive, &found.tensors)?;
    Ok((weights, found.entry.map(str::to_owned)))
}

/// An archive, and the pickle that describes its tensors.
fn opened(file: File) -> Result<(Archive, Vec<u8>), CheckpointError> {
    let mut archive = Archive::open(file)?;
    ensure_little_endian(&mut archive)?;
    let program = archive.read("data.pkl", MAX_PICKLE)?;
    Ok((archive, program))
}

/// Files of PyTorch before 2.1 do not say; they come from little-endian machines.
fn ensure_little_endian(archive: &mut Archive) -> Result<(), CheckpointError> {
    if !archive.has("byteorder") {
        return Ok(());
    }
    let found = archive.read("byteorder", MAX_WORD)?;
    match found.as_slice() {
        b"little" => Ok(()),
        other => Err(CheckpointError::ByteOrder { found: shown(&String::from_utf8_lossy(other)) }),
    }
}

/// A name from a file, fit for a message: short, and without control characters.
fn shown(name: &str) -> String {
    const LONGEST: usize = 100;
    let mut shown: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}
