//! The numbers of a state dict, read tensor by tensor.
//!
//! Everything is checked first: types, the lengths of storages, that no tensor reads
//! beyond its storage, and what all of them take together. Then one tensor at a time is
//! in memory as bytes. Views of one large storage are read in their own parts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use half::{bf16, f16};
use hwa_core::{Role, Tensor, Values, Weights};

use super::MAX_TENSORS;
use super::archive::Archive;
use super::shown;
use super::strided::StridedTensor;
use super::value::Element;
use crate::checkpoint_error::CheckpointError;
use crate::error::StoreError;

/// Views may repeat what is stored: one number expanded, one layer under many names.
/// All together they may take this many times the file, and a little more.
const MAX_REPEATS: u64 = 16;
const ALWAYS_ALLOWED: u64 = 16 << 20;

/// Reads tensors by name.
pub(super) fn read(
    path: &Path,
    archive: &mut Archive,
    tensors: &BTreeMap<&str, &StridedTensor<'_>>,
) -> Result<Weights, StoreError> {
    let wrong = |source| StoreError::Checkpoint { path: path.to_owned(), source };
    ensure_few(tensors).map_err(wrong)?;
    let mut parts = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let size = size_of(name, tensor.element).map_err(|found| {
            let (name, found) = (shown(name), found.to_owned());
            StoreError::UnsupportedType { path: path.to_owned(), name, found, in_series: false }
        })?;
        let part = Part::new(archive, name, tensor, size).map_err(wrong)?;
        parts.push((*name, *tensor, part));
    }
    ensure_sane(archive, &parts).map_err(wrong)?;
    let mut verified = BTreeSet::new();
    let mut weights = Weights::new();
    for (name, tensor, part) in parts {
        let bytes = part.read(archive, &mut verified).map_err(wrong)?;
        let values = values_of(tensor, &bytes).ok_or_else(|| outside(name, tensor));
        let values = values.map_err(wrong)?;
        drop(bytes);
        let shape = tensor.shape.iter().map(|d| usize::try_from(*d)).collect::<Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| wrong(outside(name, tensor)))?;
        let role = Role::infer(name, values.value_type());
        let wrong = |source| StoreError::Weights { path: path.to_owned(), source };
        let tensor = Tensor::new(role, shape, values).map_err(wrong)?;
        weights.insert(name, tensor).map_err(wrong)?;
    }
    Ok(weights)
}

/// That there are no more tensors than anybody needs.
pub(super) fn ensure_few(
    tensors: &BTreeMap<&str, &StridedTensor<'_>>,
) -> Result<(), CheckpointError> {
    let (what, limit) = ("tensors", MAX_TENSORS as u64);
    match tensors.len() > MAX_TENSORS {
        true => Err(CheckpointError::TooMany { what, limit }),
        false => Ok(()),
    }
}

/// The bytes of a storage that a tensor spans.
pub(super) struct Part<'a> {
    pub(super) entry: String,
    key: &'a str,
    pub(super) start: u64,
    length: u64,
    is_whole: bool,
    /// What the tensor takes, or what has to be read for it if that is more.
    cost: u64,
}

impl<'a> Part<'a> {
    pub(super) fn new(
        archive: &Archive,
        name: &str,
        tensor: &StridedTensor<'a>,
        size: u64,
    ) -> Result<Self, CheckpointError> {
        if tensor.is_lazy {
            return Err(CheckpointError::LazyView { name: shown(name) });
        }
        let storage = tensor.storage;
        let entry = format!("data/{}", storage.key);
        let found = archive.length_of(&entry)?;
        let expected = match storage.element {
            Some(_) => storage.length.saturating_mul(size),
            None => storage.length,
        };
        if found != expected {
            let (name, entry) = (shown(name), shown(&entry));
            return Err(CheckpointError::StorageLength { name, entry, expected, found });
        }
        let measured = || {
            let length = tensor.span()?.checked_mul(size)?;
            let start = if length == 0 { 0 } else { tensor.offset.checked_mul(size)? };
            let taken = tensor.num_elements()?.checked_mul(size)?;
            start.checked_add(length).filter(|end| *end <= found)?;
            Some((start, length, taken.max(length)))
        };
        let (start, length, cost) = measured().ok_or_else(|| outside(name, tensor))?;
        let is_whole = length == found;
        Ok(Self { entry, key: storage.key, start, length, is_whole, cost })
    }

    /// Reads the part. The whole entry's checksum is compared once in any case.
    fn read(
        &self,
        archive: &mut Archive,
        verified: &mut BTreeSet<&'a str>,
    ) -> Result<Vec<u8>, CheckpointError> {
        if self.is_whole {
            return archive.read(&self.entry, self.length);
        }
        if verified.insert(self.key) {
            archive.verify(&self.entry)?;
        }
        archive.read_part(&self.entry, self.start, self.length)
    }
}

/// That views do not repeat what is stored without end.
pub(super) fn ensure_sane(
    archive: &Archive,
    parts: &[(&str, &StridedTensor<'_>, Part<'_>)],
) -> Result<(), CheckpointError> {
    let length = archive.length();
    let limit = length.saturating_mul(MAX_REPEATS).saturating_add(ALWAYS_ALLOWED);
    let total = parts.iter().try_fold(0u64, |sum, (_, _, part)| sum.checked_add(part.cost));
    match total {
        Some(total) if total <= limit => Ok(()),
        _ => Err(CheckpointError::TooLarge { limit, length }),
    }
}

/// The bytes of a stored number, or the name of a type that weights do not have.
fn size_of(name: &str, element: Element) -> Result<u64, &'static str> {
    match element {
        Element::F64 | Element::I64 => Ok(8),
        Element::F32 => Ok(4),
        Element::F16 | Element::BF16 => Ok(2),
        // Exported models count in 32 bits.
        Element::I32 if name.rsplit('.').next() == Some("num_batches_tracked") => Ok(4),
        Element::I32 => Err("I32"),
        Element::Other(found) => Err(found),
    }
}

fn values_of(tensor: &StridedTensor<'_>, bytes: &[u8]) -> Option<Values> {
    Some(match tensor.element {
        Element::F64 => Values::F64(tensor.gathered(bytes, f64::from_le_bytes)?),
        Element::F32 => Values::F32(tensor.gathered(bytes, f32::from_le_bytes)?),
        Element::F16 => Values::F16(tensor.gathered(bytes, f16::from_le_bytes)?),
        Element::BF16 => Values::BF16(tensor.gathered(bytes, bf16::from_le_bytes)?),
        Element::I64 => Values::I64(tensor.gathered(bytes, i64::from_le_bytes)?),
        Element::I32 => Values::I64(tensor.gathered(bytes, |b| i32::from_le_bytes(b).into())?),
        Element::Other(_) => return None,
    })
}

/// That a tensor reads beyond its storage.
pub(super) fn outside(name: &str, tensor: &StridedTensor<'_>) -> CheckpointError {
    let (shape, strides) = (tensor.shape.clone(), tensor.strides.clone());
    CheckpointError::OutsideStorage { name: shown(name), shape, strides }
}
