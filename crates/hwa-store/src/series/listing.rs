//! Which files a series is of.
//!
//! Files are taken as they are named. A folder is a run (its outer weights, numbered by cycle),
//! a model in one or several files, or a folder of checkpoints.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::SeriesError;
use super::index;
use super::order::by_name;
use crate::atomic::{TEMPORARY, folder_of};
use crate::checkpoints::CheckpointStore;
use crate::error::StoreError;

/// The endings of files that are taken from a folder; what they are, their content tells.
const ENDINGS: [&str; 5] = ["safetensors", "pt", "pth", "bin", "ckpt"];

/// What libraries call the weights of a model, whatever they put beside them; the first is best.
const MODELS: [&str; 3] =
    ["model.safetensors.index.json", "model.safetensors", "pytorch_model.bin"];

/// A checkpoint that was found, and its cycle if a run numbers it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) path: PathBuf,
    pub(crate) cycle: Option<usize>,
}

impl Listed {
    fn plain(path: PathBuf) -> Self {
        Self { path, cycle: None }
    }
}

/// The checkpoints that are named: files and model folders, or one folder of them.
pub(crate) fn list(paths: &[PathBuf]) -> Result<Vec<Listed>, SeriesError> {
    match paths {
        [] => Err(SeriesError::Nothing),
        [folder] if folder.is_dir() => in_folder(folder),
        several => several.iter().map(|path| member(path).map(Listed::plain)).collect(),
    }
}

/// A file, or the file that stands for a model folder.
fn member(path: &Path) -> Result<PathBuf, SeriesError> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    model_in(path)?.ok_or_else(|| SeriesError::Empty { path: path.to_owned() })
}

fn in_folder(folder: &Path) -> Result<Vec<Listed>, SeriesError> {
    if let Some(checkpoints) = checkpoints_of_run(folder) {
        let store = CheckpointStore::new(checkpoints);
        let listed = |cycle| Listed { path: store.outer_path(cycle), cycle: Some(cycle) };
        let cycles = store.outer_cycles()?;
        return non_empty(folder, cycles.into_iter().map(listed).collect());
    }
    let mut found = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            // Other programs keep what is theirs in hidden folders.
            if !is_hidden(&path) {
                found.extend(model_in(&path)?);
            }
        } else if is_checkpoint(&path) {
            found.push(path);
        }
    }
    // A model in several files is one checkpoint.
    let indices: Vec<PathBuf> =
        entries(folder)?.into_iter().filter(|path| index::is_index(path)).collect();
    for index in indices {
        let shards = index::shards(&index)?;
        let is_shard = |path: &PathBuf| {
            folder_of(path) == folder && shards.iter().any(|shard| path.ends_with(shard))
        };
        found.retain(|path| !is_shard(path));
        found.push(index);
    }
    non_empty(folder, found.into_iter().map(Listed::plain).collect())
}

/// Where a run keeps its weights, if the folder is a run or that place itself.
fn checkpoints_of_run(folder: &Path) -> Option<PathBuf> {
    let is_run = |folder: &Path| folder.join("experiment.toml").is_file();
    if is_run(folder) {
        return Some(folder.join("checkpoints"));
    }
    let of_run =
        folder.file_name().is_some_and(|name| name == "checkpoints") && is_run(folder_of(folder));
    of_run.then(|| folder.to_owned())
}

/// The checkpoint of a folder, if there is any; which of several it is has to be clear.
fn model_in(folder: &Path) -> Result<Option<PathBuf>, SeriesError> {
    let entries = entries(folder)?;
    let indices = entries.iter().filter(|path| index::is_index(path)).cloned();
    let weights = entries.iter().filter(|path| path.is_file() && is_checkpoint(path)).cloned();
    // Beside weights in safetensors, other files are states of the training.
    let (tensors, others): (Vec<PathBuf>, Vec<PathBuf>) =
        weights.partition(|path| path.extension().is_some_and(|ending| ending == "safetensors"));
    let kinds = [indices.collect(), tensors, others];
    let Some(mut files) = kinds.into_iter().find(|files| !files.is_empty()) else {
        return Ok(None);
    };
    let named = |name: &&str| files.iter().find(|path| path.ends_with(name)).cloned();
    if let Some(model) = MODELS.iter().find_map(named) {
        return Ok(Some(model));
    }
    match files.len() {
        1 => Ok(files.pop()),
        _ => Err(SeriesError::Ambiguous { folder: folder.to_owned(), files }),
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(StoreError::io("read", folder))? {
        paths.push(entry.map_err(StoreError::io("read", folder))?.path());
    }
    paths.sort_by(|a, b| by_name(a, b));
    Ok(paths)
}

fn is_checkpoint(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    !is_hidden(path) && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| {
        let name = name.to_string_lossy();
        name.starts_with(TEMPORARY) || name.starts_with('.')
    })
}

fn non_empty(folder: &Path, found: Vec<Listed>) -> Result<Vec<Listed>, SeriesError> {
    match found.is_empty() {
        true => Err(SeriesError::Empty { path: folder.to_owned() }),
        false => Ok(found),
    }
}
