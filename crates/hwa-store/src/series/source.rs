//! A member of a series: a checkpoint that is opened, and read in pieces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use crc32fast::Hasher;
use hwa_core::Role;
use safetensors::Dtype;

use super::error::SeriesError;
use super::header::TensorFile;
use super::index;
use super::positioned::{Keep, PositionedFile};
use super::tensor::StoredTensor;
use crate::error::StoreError;
use crate::prefixes::strip_names;
use crate::pytorch::Check;
use crate::tensor_file::{Metadata, forget_roles};

/// The bytes at either end of a tensor that tell it apart.
const DIGESTED: usize = 4 << 10;

/// An open checkpoint.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    files: Vec<PositionedFile>,
    /// In the order of their names.
    tensors: Vec<StoredTensor>,
    metadata: Metadata,
    foreign: BTreeMap<String, String>,
    step: Option<u64>,
    /// Checksums by the numbers of their files, and whether they were compared.
    checks: Vec<(usize, Check)>,
    is_verified: AtomicBool,
}

impl Source {
    /// Opens a file of safetensors, a file of `torch.save`, or an index of several. Names lose
    /// the prefixes of wrappers, as in `read_checkpoint`.
    pub(crate) fn open(path: &Path, keep: Keep, entry: Option<&str>) -> Result<Self, SeriesError> {
        let parts = match index::is_index(path) {
            true => index::open(path, keep, entry)?,
            false => vec![TensorFile::open(path, keep, entry)?],
        };
        let mut source = Self::of_files(path, parts);
        let named = std::mem::take(&mut source.tensors);
        let named: BTreeMap<String, StoredTensor> =
            named.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
        let stripped = strip_names(named, |tensor| source.count(tensor));
        if stripped.changed {
            forget_roles(&mut source.metadata);
        }
        let renamed = |(name, tensor)| StoredTensor { name, ..tensor };
        source.tensors = stripped.named.into_iter().map(renamed).collect();
        Ok(source)
    }

    fn of_files(path: &Path, parts: Vec<TensorFile>) -> Self {
        let (files, tensors) = (Vec::new(), Vec::new());
        let (metadata, foreign) = (Metadata::new(), BTreeMap::new());
        let path = path.to_owned();
        let (checks, is_verified) = (Vec::new(), AtomicBool::new(false));
        let mut source =
            Self { path, files, tensors, metadata, foreign, step: None, checks, is_verified };
        for part in parts {
            let number = source.files.len();
            source.checks.extend(part.checks.into_iter().map(|check| (number, check)));
            source.files.push(part.file);
            source.tensors.extend(part.tensors);
            source.metadata.extend(part.metadata);
            source.foreign.extend(part.foreign);
            source.step = source.step.or(part.step);
        }
        let number = |key: &&str| source.foreign.get(*key)?.parse().ok();
        let stated = || ["global_step", "step", "epoch"].iter().find_map(number);
        source.step = source.step.or_else(stated);
        source
    }

    /// A number that tells it from others.
    pub(crate) fn digest(&self, buffer: &mut Vec<u8>) -> Result<u32, StoreError> {
        let mut hasher = Hasher::new();
        for file in &self.files {
            hasher.update(&file.length().to_le_bytes());
        }
        for (_, check) in &self.checks {
            hasher.update(&check.checksum.to_le_bytes());
        }
        for tensor in &self.tensors {
            hasher.update(tensor.name.as_bytes());
            let dimensions = tensor.shape.iter().flat_map(|d| (*d as u64).to_le_bytes());
            hasher.update(&dimensions.collect::<Vec<u8>>());
            let span = tensor.num_spanned_bytes();
            buffer.resize(span.min(DIGESTED), 0);
            for at in [0, span - buffer.len()] {
                self.files[tensor.file].read(tensor.start + at as u64, buffer)?;
                hasher.update(buffer);
            }
        }
        Ok(hasher.finalize())
    }

    /// Whether there are checksums that nobody has compared yet.
    pub(crate) fn is_verified(&self) -> bool {
        self.checks.is_empty() || self.is_verified.load(Ordering::Relaxed)
    }

    /// Compares the checksums, reading through a buffer.
    pub(crate) fn verify(&self, buffer: &mut [u8]) -> Result<(), StoreError> {
        for (number, check) in &self.checks {
            let file = &self.files[*number];
            let (mut hasher, mut done) = (Hasher::new(), 0);
            while done < check.length {
                let left = usize::try_from(check.length - done).unwrap_or(usize::MAX);
                let length = left.min(buffer.len());
                let piece = &mut buffer[..length];
                file.read(check.start + done, piece)?;
                hasher.update(piece);
                done += length as u64;
            }
            let wrong = |source| StoreError::Checkpoint { path: file.path().to_owned(), source };
            check.compare(hasher).map_err(wrong)?;
        }
        self.is_verified.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether its files are those that were opened, as far as that can be seen.
    pub(crate) fn ensure_unchanged(&self) -> Result<(), StoreError> {
        self.files.iter().try_for_each(PositionedFile::ensure_unchanged)
    }

    /// The checkpoint's place.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its tensors, in the order of their names.
    pub(crate) fn tensors(&self) -> &[StoredTensor] {
        &self.tensors
    }

    /// What `hwa` wrote about it.
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// What others wrote about it.
    pub(crate) fn foreign(&self) -> &BTreeMap<String, String> {
        &self.foreign
    }

    /// How far the training was.
    pub(crate) fn step(&self) -> Option<u64> {
        self.step
    }

    /// When its newest file was written.
    pub(crate) fn written(&self) -> Option<SystemTime> {
        self.files.iter().filter_map(PositionedFile::written).max()
    }

    /// The bytes of its files.
    pub(crate) fn num_file_bytes(&self) -> u64 {
        self.files.iter().map(PositionedFile::length).sum()
    }

    /// Its files, to be read as they are.
    pub(crate) fn files(&self) -> &[PositionedFile] {
        &self.files
    }

    /// Reads elements of a tensor.
    pub(crate) fn read(
        &self,
        tensor: usize,
        first: usize,
        into: &mut [u8],
        gathered: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let tensor = &self.tensors[tensor];
        tensor.read(&self.files[tensor.file], first, into, gathered)
    }

    /// The value of a tensor that is a single count.
    fn count(&self, tensor: &StoredTensor) -> Option<i64> {
        if tensor.dtype != Dtype::I64 || tensor.num_elements() != 1 || tensor.role != Role::Counter
        {
            return None;
        }
        let mut bytes = [0; 8];
        tensor.read(&self.files[tensor.file], 0, &mut bytes, &mut Vec::new()).ok()?;
        Some(i64::from_le_bytes(bytes))
    }
}
