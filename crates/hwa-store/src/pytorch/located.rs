//! Where in an archive the numbers of a state dict are, for whoever reads them in pieces.
//!
//! Everything is stored as it is, so that a tensor in row-major order is a range of bytes of
//! the file. The same checks are made as when weights are read. Checksums are left to whoever
//! reads: of a long series perhaps a few are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use safetensors::Dtype;

use super::archive::Check;
use super::strided::StridedTensor;
use super::tensors::{self, Part};
use super::value::Element;
use super::{opened, pickle, shown, state_dict};
use crate::error::StoreError;

/// The tensors of a file of `torch.save`.
#[derive(Debug)]
pub(crate) struct Located {
    /// By name.
    pub(crate) tensors: BTreeMap<String, LocatedTensor>,
    /// How far the training was, if the checkpoint says so.
    pub(crate) step: Option<u64>,
    /// The entry of a training checkpoint that the tensors are of.
    pub(crate) entry: Option<String>,
    /// The checksums of all bytes that tensors are of.
    pub(crate) checks: Vec<Check>,
}

/// A tensor that is still on disk.
#[derive(Debug)]
pub(crate) struct LocatedTensor {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// Where its first number is, in bytes of the file.
    pub(crate) start: u64,
    /// In elements, for tensors that are not in row-major order.
    pub(crate) strides: Option<Vec<u64>>,
}

/// Finds the tensors of a zip archive, in an entry of it or where they usually are.
pub(crate) fn locate(path: &Path, file: File, entry: Option<&str>) -> Result<Located, StoreError> {
    let wrong = |source| StoreError::Checkpoint { path: path.to_owned(), source };
    let (archive, program) = opened(file).map_err(wrong)?;
    let objects = pickle::run(&program).map_err(wrong)?;
    let found = state_dict::find(&objects, entry).map_err(wrong)?;
    tensors::ensure_few(&found.tensors).map_err(wrong)?;
    let mut parts = Vec::with_capacity(found.tensors.len());
    for (name, tensor) in &found.tensors {
        let dtype = dtype_of(tensor.element).map_err(|found| {
            let (name, found) = (shown(name), found.to_owned());
            StoreError::UnsupportedType { path: path.to_owned(), name, found, in_series: true }
        })?;
        let size = dtype.bitsize() as u64 / 8;
        parts.push((*name, *tensor, Part::new(&archive, name, tensor, size).map_err(wrong)?));
    }
    tensors::ensure_sane(&archive, &parts).map_err(wrong)?;
    let entries: BTreeSet<&str> = parts.iter().map(|(_, _, part)| part.entry.as_str()).collect();
    let mut checks = Vec::with_capacity(entries.len());
    for entry in entries {
        checks.extend(archive.check_of(entry).map_err(wrong)?);
    }
    let mut located = BTreeMap::new();
    for (name, tensor, part) in &parts {
        let start = archive.start_of(&part.entry).map_err(wrong)? + part.start;
        let shape = tensor.shape.iter().map(|d| usize::try_from(*d)).collect::<Result<_, _>>();
        let shape = shape.map_err(|_| wrong(tensors::outside(name, tensor)))?;
        let Ok(dtype) = dtype_of(tensor.element) else {
            continue; // refused above
        };
        let tensor = LocatedTensor { dtype, shape, start, strides: strides(tensor) };
        located.insert((*name).to_owned(), tensor);
    }
    let entry = entry.or(found.entry).map(str::to_owned);
    Ok(Located { tensors: located, step: state_dict::step(&objects), entry, checks })
}

fn strides(tensor: &StridedTensor<'_>) -> Option<Vec<u64>> {
    let in_order = tensor.shape.contains(&0) || tensor.is_row_major();
    (!in_order).then(|| tensor.strides.clone())
}

/// Types that can be averaged, or that can be taken from the newest; otherwise its name.
fn dtype_of(element: Element) -> Result<Dtype, &'static str> {
    Ok(match element {
        Element::F64 => Dtype::F64,
        Element::F32 => Dtype::F32,
        Element::F16 => Dtype::F16,
        Element::BF16 => Dtype::BF16,
        Element::I64 => Dtype::I64,
        Element::I32 => Dtype::I32,
        Element::Other("I16") => Dtype::I16,
        Element::Other("I8") => Dtype::I8,
        Element::Other("U8") => Dtype::U8,
        Element::Other("U16") => Dtype::U16,
        Element::Other("U32") => Dtype::U32,
        Element::Other("U64") => Dtype::U64,
        Element::Other("BOOL") => Dtype::BOOL,
        Element::Other(found) => return Err(found),
    })
}
