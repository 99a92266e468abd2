//! A member of a series: a checkpoint that is opened, and read in pieces.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hwa_core::Role;
use safetensors::Dtype;

use super::error::SeriesError;
use super::header::{self, TensorFile};
use super::index;
use super::positioned::{Keep, PositionedFile};
use super::tensor::StoredTensor;
use crate::content::{self, Content};
use crate::error::StoreError;
use crate::prefixes::strip_names;
use crate::pytorch;
use crate::tensor_file::{Metadata, forget_roles};

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
}

impl Source {
    /// Opens a file of safetensors, an index of several, or a file of `torch.save`. Names lose
    /// the prefixes of wrappers, as in `read_checkpoint`.
    pub(crate) fn open(path: &Path, keep: Keep) -> Result<Self, SeriesError> {
        let mut source = match index::is_index(path) {
            true => Self::of_files(path, index::open(path, keep)?)?,
            false => Self::of_file(path, keep)?,
        };
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

    fn of_file(path: &Path, keep: Keep) -> Result<Self, SeriesError> {
        let (file, content) = content::open(path)?;
        match content {
            Content::Safetensors => Self::of_files(path, vec![TensorFile::open(path, file, keep)?]),
            Content::Zip => Self::of_archive(path, file, keep),
        }
    }

    fn of_files(path: &Path, parts: Vec<TensorFile>) -> Result<Self, SeriesError> {
        let mut source = Self::empty(path);
        for part in parts {
            source.files.push(part.file);
            source.tensors.extend(part.tensors);
            source.metadata.extend(part.metadata);
            source.foreign.extend(part.foreign);
        }
        let own = source.metadata.get("step").and_then(serde_json::Value::as_u64);
        let number = |key: &&str| source.foreign.get(*key)?.parse().ok();
        source.step = own.or_else(|| ["global_step", "step", "epoch"].iter().find_map(number));
        Ok(source)
    }

    fn of_archive(path: &Path, file: File, keep: Keep) -> Result<Self, SeriesError> {
        let kept = file.try_clone().map_err(StoreError::io("read", path))?;
        let located = pytorch::locate(path, file)?;
        let mut source = Self::empty(path);
        source.files.push(PositionedFile::new(path, kept, keep)?);
        source.step = located.step;
        let stored = |(name, tensor): (String, pytorch::LocatedTensor)| {
            let pytorch::LocatedTensor { dtype, shape, start, strides } = tensor;
            let role = header::role(&Metadata::new(), &name, dtype);
            StoredTensor { name, dtype, shape, role, file: 0, start, strides }
        };
        source.tensors = located.tensors.into_iter().map(stored).collect();
        Ok(source)
    }

    fn empty(path: &Path) -> Self {
        let (files, tensors) = (Vec::new(), Vec::new());
        let (metadata, foreign) = (Metadata::new(), BTreeMap::new());
        Self { path: path.to_owned(), files, tensors, metadata, foreign, step: None }
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
