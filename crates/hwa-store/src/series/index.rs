//! Models in several files, with an index that says which tensor is where.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::error::SeriesError;
use super::header::TensorFile;
use super::positioned::Keep;
use crate::atomic::folder_of;
use crate::content::open_regular;
use crate::error::StoreError;

/// How the names of indices end: of safetensors, and of files of `torch.save`.
const INDICES: [&str; 2] = [".safetensors.index.json", ".bin.index.json"];

/// Whether a file is one, by its name.
pub(crate) fn is_index(path: &Path) -> bool {
    INDICES.iter().any(|index| ends_with(path, index))
}

/// Whether an index is one of safetensors, by its name.
pub(crate) fn is_of_safetensors(path: &Path) -> bool {
    ends_with(path, INDICES[0])
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending))
}

/// `model.safetensors.index.json`, as Hugging Face's libraries write it.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// The files that an index names.
pub(crate) fn shards(path: &Path) -> Result<BTreeSet<String>, SeriesError> {
    Ok(read(path)?.weight_map.into_values().collect())
}

/// Opens all files of an index, and checks that every tensor is where it says.
pub(crate) fn open(
    path: &Path,
    keep: Keep,
    entry: Option<&str>,
) -> Result<Vec<TensorFile>, SeriesError> {
    let wrong = |reason: String| SeriesError::Index { path: path.to_owned(), reason };
    let index = read(path)?;
    let names: BTreeSet<&String> = index.weight_map.values().collect();
    let mut files = Vec::with_capacity(names.len());
    for (number, name) in names.iter().enumerate() {
        let shard = folder_of(path).join(name);
        let mut file = TensorFile::open(&shard, keep, entry)?;
        for tensor in &mut file.tensors {
            tensor.file = number;
            match index.weight_map.get(&tensor.name) {
                Some(place) if place == *name => {}
                _ => return Err(wrong(format!("`{}` of {name} is not in it", tensor.name))),
            }
        }
        files.push(file);
    }
    let found: usize = files.iter().map(|file| file.tensors.len()).sum();
    if found != index.weight_map.len() {
        let there: BTreeSet<&String> =
            files.iter().flat_map(|file| &file.tensors).map(|tensor| &tensor.name).collect();
        let missing = index.weight_map.iter().find(|(name, _)| !there.contains(name));
        let (name, place) = missing.map_or(("?", "?"), |(name, place)| (name, place));
        return Err(wrong(format!("`{name}` is not in {place}, where it should be")));
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Index, SeriesError> {
    let mut text = String::new();
    open_regular(path)?.read_to_string(&mut text).map_err(StoreError::io("read", path))?;
    let index: Index = serde_json::from_str(&text)
        .map_err(|source| StoreError::Json { path: path.to_owned(), source })?;
    let wrong = |reason: String| SeriesError::Index { path: path.to_owned(), reason };
    if index.weight_map.is_empty() {
        return Err(wrong("it names no tensors".to_owned()));
    }
    // A name from a file is used as a path only if it stays in the folder.
    let leaves = |name: &&String| {
        Path::new(name.as_str()).file_name().is_none_or(|file| file != name.as_str())
    };
    match index.weight_map.values().find(leaves) {
        Some(name) => Err(wrong(format!("{name:?} is not the name of a file beside it"))),
        None => Ok(index),
    }
}
