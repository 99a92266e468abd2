//! Safetensors files that are written in pieces, by several threads, and appear when whole.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hwa_core::{Role, Tensor, ValueType, Weights};
use safetensors::SafeTensorError;
use safetensors::tensor::TensorInfo;
use tempfile::TempPath;

use super::error::SeriesError;
use super::layout::{Planned, in_file_order};
use super::positioned::Shared;
use super::stream::{Piece, Sink};
use crate::atomic::{folder_of, sync_folder, temporary_in};
use crate::error::StoreError;
use crate::tensor_file::{METADATA_KEY, Metadata, ROLES_KEY, values_of};

/// The longest header that readers accept.
const LONGEST: usize = 100_000_000;

/// What is written about tensors, beside them.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    pub(crate) metadata: Metadata,
    pub(crate) foreign: BTreeMap<String, String>,
}

/// A file beside its place, until it is whole.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    file: Shared,
    beside: TempPath,
    /// Where the numbers begin.
    start: u64,
    places: Vec<(u64, u64)>,
}

impl OutputFile {
    /// A file with a header and no numbers yet.
    pub(crate) fn create(
        path: &Path,
        planned: &[Planned],
        about: &About,
    ) -> Result<Self, StoreError> {
        let header = header(path, planned, about)?;
        let places = planned.iter().map(|p| (p.start as u64, p.width() as u64)).collect();
        let length = header.len() + planned.iter().map(Planned::num_bytes).sum::<usize>();
        let create = || -> io::Result<Self> {
            let (handle, beside) = temporary_in(folder_of(path))?.into_parts();
            handle.set_len(length as u64)?;
            let file = Shared::new(handle);
            file.write_all_at(&header, 0)?;
            let (path, start) = (path.to_owned(), header.len() as u64);
            Ok(Self { path, file, beside, start, places })
        };
        create().map_err(StoreError::io("write", path))
    }

    fn put(&self, piece: Piece, bytes: &[u8]) -> Result<(), StoreError> {
        let (start, width) = self.places[piece.tensor];
        let at = self.start + start + piece.first as u64 * width;
        self.file.write_all_at(bytes, at).map_err(StoreError::io("write", &self.path))
    }

    /// Flushes it to the disk; it is still beside its place.
    pub(crate) fn flush(self) -> Result<FinishedFile, StoreError> {
        self.file.sync_all().map_err(StoreError::io("write", &self.path))?;
        Ok(self.unflushed())
    }

    /// Leaves it to the system when it comes to the disk; it is still beside its place.
    pub(crate) fn unflushed(self) -> FinishedFile {
        FinishedFile { path: self.path, beside: self.beside }
    }
}

/// A whole file beside its place.
#[derive(Debug)]
pub(crate) struct FinishedFile {
    path: PathBuf,
    beside: TempPath,
}

impl FinishedFile {
    /// Puts it in its place, and flushes that.
    pub(crate) fn rename(self) -> Result<(), StoreError> {
        let path = self.path.clone();
        self.appear()?;
        sync_folder(folder_of(&path)).map_err(StoreError::io("write", &path))
    }

    /// Puts it in its place.
    pub(crate) fn appear(self) -> Result<(), StoreError> {
        let Self { path, beside } = self;
        beside.persist(&path).map_err(|error| StoreError::io("write", &path)(error.error))
    }
}

/// One file for each window.
pub(crate) struct OutputFiles(pub(crate) Vec<OutputFile>);

impl Sink for OutputFiles {
    fn put(&self, piece: Piece, window: usize, bytes: &[u8]) -> Result<(), StoreError> {
        self.0[window].put(piece, bytes)
    }
}

/// An average in memory.
pub(crate) struct InMemory<'a> {
    planned: &'a [Planned],
    tensors: Vec<Mutex<Vec<u8>>>,
}

impl<'a> InMemory<'a> {
    /// Room for all tensors.
    pub(crate) fn new(planned: &'a [Planned]) -> Self {
        let room = |planned: &Planned| Mutex::new(vec![0; planned.num_bytes()]);
        Self { planned, tensors: planned.iter().map(room).collect() }
    }

    /// What was put into it.
    pub(crate) fn weights(self, place: &Path) -> Result<Weights, SeriesError> {
        let mut weights = Weights::new();
        let wrong = |source| StoreError::Weights { path: place.to_owned(), source };
        for (planned, bytes) in self.planned.iter().zip(self.tensors) {
            let bytes = bytes.into_inner().unwrap_or_else(PoisonError::into_inner);
            let values = values_of(planned.dtype, &bytes).ok_or_else(|| {
                let (name, found) = (planned.name.clone(), planned.dtype.to_string());
                StoreError::UnsupportedType {
                    path: place.to_owned(),
                    name,
                    found,
                    in_series: false,
                }
            })?;
            let tensor = Tensor::new(planned.role, planned.shape.clone(), values);
            weights.insert(&planned.name, tensor.map_err(wrong)?).map_err(wrong)?;
        }
        Ok(weights)
    }
}

impl Sink for InMemory<'_> {
    fn put(&self, piece: Piece, _: usize, bytes: &[u8]) -> Result<(), StoreError> {
        let at = piece.first * self.planned[piece.tensor].width();
        let mut tensor = self.tensors[piece.tensor].lock().unwrap_or_else(PoisonError::into_inner);
        tensor[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// The bytes before the numbers, equal to those of the `safetensors` crate; keys are sorted, so
/// that equal averages are equal bytes.
fn header(path: &Path, planned: &[Planned], about: &About) -> Result<Vec<u8>, StoreError> {
    let json = |source| StoreError::Json { path: path.to_owned(), source };
    let mut metadata = about.metadata.clone();
    metadata.remove(ROLES_KEY);
    let unusual =
        |p: &&Planned| p.role != Role::Counter && Role::infer(&p.name, ValueType::F32) != p.role;
    let roles: BTreeMap<&str, Role> =
        planned.iter().filter(unusual).map(|p| (p.name.as_str(), p.role)).collect();
    if !roles.is_empty() {
        metadata.insert(ROLES_KEY.to_owned(), serde_json::to_value(roles).map_err(json)?);
    }
    let mut keys = about.foreign.clone();
    keys.insert(METADATA_KEY.to_owned(), serde_json::to_string(&metadata).map_err(json)?);
    let mut text = format!("{{\"__metadata__\":{}", serde_json::to_string(&keys).map_err(json)?);
    for number in in_file_order(planned) {
        let Planned { name, shape, dtype, start, .. } = &planned[number];
        let data_offsets = (*start, start + planned[number].num_bytes());
        let info = TensorInfo { dtype: *dtype, shape: shape.clone(), data_offsets };
        let name = serde_json::to_string(name).map_err(json)?;
        text.push_str(&format!(",{name}:{}", serde_json::to_string(&info).map_err(json)?));
    }
    text.push('}');
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    if text.len() > LONGEST {
        let source = SafeTensorError::HeaderTooLarge;
        return Err(StoreError::NotSafetensors { path: path.to_owned(), source });
    }
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.into_bytes());
    Ok(bytes)
}
