//! Checkpoints in any format that can be read, told apart by their content.
//!
//! A name is no proof: `.bin` may be a zip archive, a pickle or something else, and
//! `.pt` may be a program. The first bytes decide, and what cannot be read is refused
//! with what it is and what to do about it.

use std::path::Path;

use hwa_core::Weights;

use crate::content::{self, Content};
use crate::error::StoreError;
use crate::tensor_file::{Metadata, forget_roles, read_tensors};
use crate::{prefixes, pytorch};

/// Weights, and what their file says about them.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The tensors, without the prefixes of wrappers such as `DataParallel`.
    pub weights: Weights,
    /// What the file says about its tensors. Of PyTorch's files only `n_averaged`,
    /// where an `AveragedModel` counted.
    pub metadata: Metadata,
    /// What the file is.
    pub format: Format,
    /// The entry of a training checkpoint that held the weights, such as `model`.
    pub entry: Option<String>,
}

/// The formats that weights can be read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One safetensors file.
    Safetensors,
    /// What `torch.save` writes since PyTorch 1.6: a zip archive with a pickle.
    Pytorch,
}

/// Reads weights from a safetensors file or from a file of `torch.save`.
///
/// Nothing in the file is ever run: a pickle that asks for anything but tensors and
/// plain data is refused, with the name of what it asks for.
///
/// Wrappers leave their prefix on every name: `module.` comes from `DataParallel` and
/// `DistributedDataParallel`, `_orig_mod.` from `torch.compile`. They are removed, in
/// any order and nesting, when all names have them.
pub fn read_checkpoint(path: &Path) -> Result<Checkpoint, StoreError> {
    let (file, content) = content::open(path)?;
    let (weights, metadata, format, entry) = match content {
        Content::Safetensors => {
            drop(file);
            let (weights, metadata) = read_tensors(path)?;
            (weights, metadata, Format::Safetensors, None)
        }
        Content::Zip => {
            let (weights, entry) = pytorch::read(path, file)?;
            (weights, Metadata::new(), Format::Pytorch, entry)
        }
    };
    let (weights, metadata) = unwrapped(path, weights, metadata)?;
    Ok(Checkpoint { weights, metadata, format, entry })
}

fn unwrapped(
    path: &Path,
    weights: Weights,
    mut metadata: Metadata,
) -> Result<(Weights, Metadata), StoreError> {
    let stripped = prefixes::strip(weights)
        .map_err(|source| StoreError::Weights { path: path.to_owned(), source })?;
    if stripped.changed {
        // They go by the old names. The tensors carry their roles themselves.
        forget_roles(&mut metadata);
    }
    if let Some(count) = stripped.n_averaged {
        metadata.insert("n_averaged".to_owned(), count.into());
    }
    Ok((stripped.named, metadata))
}
