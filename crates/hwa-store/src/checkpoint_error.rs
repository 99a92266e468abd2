//! Why a checkpoint that others wrote cannot be read.

use std::io;

/// What is wrong with a checkpoint, or what it is instead of one.
///
/// Nothing of a file that is refused has been run.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// It has no format that is known here.
    #[error("neither a safetensors file nor one that torch.save wrote")]
    Unknown,
    /// Git LFS left a note instead of the file.
    #[error("a note of Git LFS about a file that is not there: fetch it by `git lfs pull`")]
    LfsPointer,
    /// The format of PyTorch's first versions.
    #[error(
        "a tar archive, as PyTorch wrote them before 0.2: load it in PyTorch and save it again"
    )]
    Tar,
    /// PyTorch's format before the zip archive.
    #[error(
        "saved by PyTorch before 1.6, or with `_use_new_zipfile_serialization=False`: load it \
         in PyTorch and save it again"
    )]
    Legacy,
    /// A pickle without PyTorch.
    #[error(
        "a pickle that torch.save did not write: in Python, save its tensors by torch.save or \
         as safetensors"
    )]
    BarePickle,
    /// It holds code.
    #[error(
        "a TorchScript program, not a state dict: in PyTorch, save \
         `torch.jit.load(file).state_dict()`"
    )]
    TorchScript,
    /// A zip archive of somebody else.
    #[error("a zip archive without a data.pkl: torch.save did not write it")]
    NoPickle,
    /// The operating system said no.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// A zip archive's directory stands at its end.
    #[error("the archive's directory is missing or damaged: the file may have been cut off")]
    NoDirectory,
    /// `torch.save` stores. What is compressed may be a bomb.
    #[error("the entry `{name}` is compressed or encrypted, which torch.save never does")]
    NotStored {
        /// The entry.
        name: String,
    },
    /// An entry lies elsewhere than in the file.
    #[error("the entry `{name}` does not lie inside the file")]
    OutsideFile {
        /// The entry.
        name: String,
    },
    /// Two entries use the same bytes.
    #[error("the entries `{first}` and `{second}` overlap")]
    Overlap {
        /// The entry that comes first.
        first: String,
        /// The entry that begins inside of it.
        second: String,
    },
    /// Readers would disagree about which one counts.
    #[error("the entry `{name}` is there twice")]
    DuplicateEntry {
        /// The entry.
        name: String,
    },
    /// The directory says one thing, the entry another.
    #[error("the entry `{name}` is not what the archive's directory says")]
    HeadersDisagree {
        /// The entry.
        name: String,
    },
    /// The bytes are not those that were written.
    #[error("the entry `{name}` is damaged: its checksum is wrong")]
    Checksum {
        /// The entry.
        name: String,
    },
    /// An entry that the pickle speaks of is not there.
    #[error("the entry `{name}` is missing")]
    MissingEntry {
        /// The entry.
        name: String,
    },
    /// Numbers in an order that is not read here.
    #[error(
        "saved on a machine with byte order `{found}`, expected `little`: load it in PyTorch on \
         this machine and save it again"
    )]
    ByteOrder {
        /// What the file says.
        found: String,
    },
    /// A bound that no honest file reaches was reached.
    #[error("more than {limit} {what}: no checkpoint needs as many")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
    /// The pickle is cut off, or its lengths are wrong.
    #[error("its pickle ends in the middle of something, at byte {at}")]
    PickleEnds {
        /// Where more was expected.
        at: usize,
    },
    /// An instruction that state dicts do not need.
    #[error("its pickle has the instruction {code:#04x} at byte {at}, which no state dict needs")]
    Instruction {
        /// The instruction.
        code: u8,
        /// Where it stands.
        at: usize,
    },
    /// An instruction came upon something else than it works on.
    #[error("its pickle makes no sense at byte {at}: expected {expected}")]
    Senseless {
        /// Where.
        at: usize,
        /// What should have been there.
        expected: &'static str,
    },
    /// The pickle asks for something beyond tensors and plain data.
    #[error(
        "it asks for `{name}`: refused, and nothing of it was run; only if you trust the file, \
         load it in PyTorch and save the state dict alone"
    )]
    Refused {
        /// What it asks for, as module and name.
        name: String,
    },
    /// There are no tensors by name in it.
    #[error(
        "no state dict in it: neither the whole nor one of {expected} is a dict of tensors; \
         found {found}{}", hint.as_ref().map_or(String::new(), |key| format!("; `{key}` is one"))
    )]
    NoStateDict {
        /// The entries that are looked at.
        expected: String,
        /// What there is instead.
        found: String,
        /// An entry of an entry that is one.
        hint: Option<String>,
    },
    /// The entry that was asked for holds no tensors by name, or is not there.
    #[error("no state dict under the key `{wanted}`; found {found}")]
    NoEntry {
        /// The entry that was asked for.
        wanted: String,
        /// What there is instead.
        found: String,
    },
    /// An entry was asked for of a file that has tensors and nothing else.
    #[error("no key `{entry}` in it: a safetensors file holds one state dict, as it is")]
    NoEntries {
        /// The entry that was asked for.
        entry: String,
    },
    /// Among the tensors is something else.
    #[error("`{name}` is no tensor, but stands in the state dict")]
    NotATensor {
        /// The entry of the state dict.
        name: String,
    },
    /// A key of a dict was given twice.
    #[error("`{name}` is there twice")]
    DuplicateKey {
        /// The key.
        name: String,
    },
    /// A storage has not the length that its tensor counts on.
    #[error("`{name}`: its storage `{entry}` has {found} bytes, expected {expected}")]
    StorageLength {
        /// The tensor.
        name: String,
        /// The storage's entry in the archive.
        entry: String,
        /// The bytes that the pickle speaks of.
        expected: u64,
        /// The bytes that are there.
        found: u64,
    },
    /// A tensor reads beyond its storage.
    #[error("`{name}` with shape {shape:?} and strides {strides:?} reads beyond its storage")]
    OutsideStorage {
        /// The tensor.
        name: String,
        /// Its shape.
        shape: Vec<u64>,
        /// Its strides.
        strides: Vec<u64>,
    },
    /// A view that is computed when it is read, such as a negated one.
    #[error("`{name}` is a negated or conjugated view: save it as `tensor.clone()`")]
    LazyView {
        /// The tensor.
        name: String,
    },
    /// Views can repeat what is stored without end.
    #[error(
        "its tensors would take more than {limit} bytes, from a file of {length}: it repeats \
         stored numbers too often"
    )]
    TooLarge {
        /// The bytes allowed.
        limit: u64,
        /// The bytes of the file.
        length: u64,
    },
}
