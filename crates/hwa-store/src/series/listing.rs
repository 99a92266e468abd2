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
const MODELS: [&str; 6] = [
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
    "adapter_model.safetensors",
    "adapter_model.bin",
];

/// How the names of files begin that hold the state of a training and no weights.
const STATES: [&str; 6] =
    ["optimizer", "scheduler", "scaler", "sampler", "rng_state", "training_args"];

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

/// What was found.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) members: Vec<Listed>,
    /// Files of a folder that look like checkpoints and are not of the series.
    pub(crate) passed_over: Vec<PathBuf>,
}

impl Listing {
    fn of(members: Vec<Listed>) -> Self {
        Self { members, passed_over: Vec::new() }
    }
}

/// The checkpoints that are named: files and model folders, or one folder of them.
pub(crate) fn list(paths: &[PathBuf]) -> Result<Listing, SeriesError> {
    match paths {
        [] => Err(SeriesError::Nothing),
        [folder] if folder.is_dir() => in_folder(folder),
        several => {
            let members = several.iter().map(|path| member(path).map(Listed::plain));
            members.collect::<Result<_, _>>().map(Listing::of)
        }
    }
}

/// A file, or the file that stands for a model folder.
fn member(path: &Path) -> Result<PathBuf, SeriesError> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    model_in(path)?.ok_or_else(|| SeriesError::Empty { path: path.to_owned() })
}

fn in_folder(folder: &Path) -> Result<Listing, SeriesError> {
    if let Some(checkpoints) = checkpoints_of_run(folder) {
        let store = CheckpointStore::new(checkpoints);
        let listed = |cycle| Listed { path: store.outer_path(cycle), cycle: Some(cycle) };
        let cycles = store.outer_cycles()?;
        return non_empty(folder, Listing::of(cycles.into_iter().map(listed).collect()));
    }
    let (mut models, mut files, mut passed_over) = (Vec::new(), Vec::new(), Vec::new());
    for path in entries(folder)? {
        if path.is_dir() {
            // Other programs keep what is theirs in hidden folders.
            if !is_hidden(&path) {
                models.extend(model_in(&path)?);
            }
        } else if is_checkpoint(&path) {
            if is_state(&path) { passed_over.push(path) } else { files.push(path) }
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
        files.retain(|path| !is_shard(path));
        files.push(index);
    }
    // What a library saves beside its checkpoints at the end is one of them once more.
    if !models.is_empty() {
        let is_final = |path: &PathBuf| MODELS.iter().any(|name| path.ends_with(name));
        passed_over.extend(files.extract_if(.., |path| is_final(path)));
    }
    let members = models.into_iter().chain(files).map(Listed::plain).collect();
    non_empty(folder, Listing { members, passed_over })
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
    let is_weights = |path: &&PathBuf| path.is_file() && is_checkpoint(path) && !is_state(path);
    let weights = entries.iter().filter(is_weights).cloned();
    // Beside weights in safetensors, other files are states of the training, or the same again.
    let (indices, other_indices): (Vec<PathBuf>, Vec<PathBuf>) =
        indices.partition(|path| index::is_of_safetensors(path));
    let (tensors, others): (Vec<PathBuf>, Vec<PathBuf>) =
        weights.partition(|path| path.extension().is_some_and(|ending| ending == "safetensors"));
    let kinds = [indices, tensors, other_indices, others];
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
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase());
    // `.pth.tar` is an old habit, and never was one.
    let ending = |name: &str| {
        let name = name.strip_suffix(".tar").unwrap_or(name);
        name.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
    };
    !is_hidden(path) && name.is_some_and(|name| ending(&name))
}

/// Whether a file is called as states of a training are: `optimizer.pt`, `rng_state_0.pth`.
fn is_state(path: &Path) -> bool {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase());
    let rest = |stem: &str| STATES.iter().find_map(|name| stem.strip_prefix(name)?.chars().next());
    stem.is_some_and(|stem| {
        STATES.contains(&stem.as_str()) || matches!(rest(&stem), Some('_' | '-' | '.'))
    })
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| {
        let name = name.to_string_lossy();
        name.starts_with(TEMPORARY) || name.starts_with('.')
    })
}

fn non_empty(folder: &Path, found: Listing) -> Result<Listing, SeriesError> {
    match found.members.is_empty() {
        true => Err(SeriesError::Empty { path: folder.to_owned() }),
        false => Ok(found),
    }
}
