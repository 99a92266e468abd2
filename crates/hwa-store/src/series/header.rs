//! What a file says about its tensors, read and checked without the numbers behind it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use hwa_core::{Role, ValueType};
use safetensors::tensor::{Metadata as Tensors, TensorInfo};
use safetensors::{Dtype, SafeTensorError};

use super::positioned::{Keep, PositionedFile};
use super::tensor::StoredTensor;
use crate::checkpoint_error::CheckpointError;
use crate::content::{self, Content};
use crate::error::StoreError;
use crate::pytorch::{self, Check};
use crate::tensor_file::{METADATA_KEY, Metadata, role_of};

/// The bytes that say how long the header is.
const LENGTH: u64 = 8;
/// The longest header, as in the `safetensors` crate.
const LONGEST: u64 = 100_000_000;

/// One file of safetensors or of `torch.save`.
#[derive(Debug)]
pub(crate) struct TensorFile {
    pub(crate) file: PositionedFile,
    pub(crate) tensors: Vec<StoredTensor>,
    /// What `hwa` says about the tensors.
    pub(crate) metadata: Metadata,
    /// What others say about the file.
    pub(crate) foreign: BTreeMap<String, String>,
    /// How far the training was, if that is not among what others say.
    pub(crate) step: Option<u64>,
    /// Checksums that were not compared yet.
    pub(crate) checks: Vec<Check>,
}

impl TensorFile {
    /// Opens a file that its content tells. Of a training checkpoint, `entry` is the one that
    /// holds the weights, if it is not one of the usual ones.
    pub(crate) fn open(path: &Path, keep: Keep, entry: Option<&str>) -> Result<Self, StoreError> {
        let (file, content) = content::open(path)?;
        match (content, entry) {
            (Content::Zip, entry) => Self::of_archive(path, file, keep, entry),
            (Content::Safetensors, None) => Self::of_safetensors(path, file, keep),
            (Content::Safetensors, Some(entry)) => {
                let source = CheckpointError::NoEntries { entry: entry.to_owned() };
                Err(StoreError::Checkpoint { path: path.to_owned(), source })
            }
        }
    }

    fn of_archive(
        path: &Path,
        file: File,
        keep: Keep,
        entry: Option<&str>,
    ) -> Result<Self, StoreError> {
        let kept = file.try_clone().map_err(StoreError::io("read", path))?;
        let located = pytorch::locate(path, file, entry)?;
        let file = PositionedFile::new(path, kept, keep)?;
        let stored = |(name, tensor): (String, pytorch::LocatedTensor)| {
            let pytorch::LocatedTensor { dtype, shape, start, strides } = tensor;
            let role = role(&Metadata::new(), &name, dtype);
            StoredTensor { name, dtype, shape, role, file: 0, start, strides }
        };
        let tensors = located.tensors.into_iter().map(stored).collect();
        let entry = located.entry.map(|entry| ("key".to_owned(), entry.into()));
        let (metadata, foreign) = (Metadata::from_iter(entry), BTreeMap::new());
        Ok(Self { file, tensors, metadata, foreign, step: located.step, checks: located.checks })
    }

    /// Reads the header and checks that it fits the file.
    fn of_safetensors(path: &Path, file: File, keep: Keep) -> Result<Self, StoreError> {
        let file = PositionedFile::new(path, file, keep)?;
        let wrong = |source| StoreError::NotSafetensors { path: path.to_owned(), source };
        let mut length = [0; LENGTH as usize];
        if file.length() < LENGTH {
            return Err(wrong(SafeTensorError::HeaderTooSmall));
        }
        file.read(0, &mut length)?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST {
            return Err(wrong(SafeTensorError::HeaderTooLarge));
        }
        if LENGTH + length > file.length() {
            return Err(wrong(SafeTensorError::InvalidHeaderLength));
        }
        let mut header = vec![0; length as usize];
        file.read(LENGTH, &mut header)?;
        // Checks that tensors follow each other without a gap, and fit their shapes.
        let header: Tensors = serde_json::from_slice(&header)
            .map_err(|source| wrong(SafeTensorError::InvalidHeaderDeserialization(source)))?;
        let start = LENGTH + length;
        if start.checked_add(header.data_len() as u64) != Some(file.length()) {
            return Err(wrong(SafeTensorError::MetadataIncompleteBuffer));
        }
        let mut foreign: BTreeMap<String, String> =
            header.metadata().clone().unwrap_or_default().into_iter().collect();
        let metadata = match foreign.remove(METADATA_KEY) {
            Some(json) => serde_json::from_str(&json)
                .map_err(|source| StoreError::Json { path: path.to_owned(), source })?,
            None => Metadata::new(),
        };
        let mut tensors = Vec::new();
        for (name, info) in header.tensors() {
            tensors.push(stored(path, name, info, start, &metadata)?);
        }
        let step = metadata.get("step").and_then(serde_json::Value::as_u64);
        Ok(Self { file, tensors, metadata, foreign, step, checks: Vec::new() })
    }
}

fn stored(
    path: &Path,
    name: String,
    info: &TensorInfo,
    start: u64,
    metadata: &Metadata,
) -> Result<StoredTensor, StoreError> {
    let (dtype, shape) = (info.dtype, info.shape.clone());
    if !is_known(dtype) {
        let (path, found) = (path.to_owned(), dtype.to_string());
        return Err(StoreError::UnsupportedType { path, name, found, in_series: true });
    }
    let start = start + info.data_offsets.0 as u64;
    let role = role(metadata, &name, dtype);
    Ok(StoredTensor { name, dtype, shape, role, file: 0, start, strides: None })
}

/// Types that are averaged, and those that are taken from the newest.
fn is_known(dtype: Dtype) -> bool {
    use Dtype::{BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(dtype, F64 | F32 | F16 | BF16 | I64 | I32 | I16 | I8 | U64 | U32 | U16 | U8 | BOOL)
}

/// Whatever is no floating-point number counts, or chooses: it is not averaged.
pub(crate) fn role(metadata: &Metadata, name: &str, dtype: Dtype) -> Role {
    match dtype {
        Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16 => {
            match role_of(metadata, name, ValueType::F32) {
                Role::Counter => Role::Parameter,
                role => role,
            }
        }
        _ => Role::Counter,
    }
}
