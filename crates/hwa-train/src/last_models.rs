//! The models that a run ended with.

use std::path::Path;

use hwa_core::Weights;
use hwa_store::{StoreError, read_tensors, read_to_string};
use serde::Deserialize;

use crate::error::TrainError;
use crate::state::{WEIGHTS, manifests_in};

/// The models of a run's newest complete state, each with the steps that it has done. A state
/// stands before its synchronization: those of a finished run are its inner weights at the end of
/// the last cycle. Nothing, if there is no state.
pub fn last_models(run: &Path) -> Result<Vec<(u64, Weights)>, TrainError> {
    #[derive(Deserialize)]
    struct Manifest {
        replicas: Vec<File>,
    }
    #[derive(Deserialize)]
    struct File {
        step: u64,
        file: String,
    }
    let folder = run.join("state");
    let Some((_, path)) = manifests_in(&folder)?.pop() else { return Ok(Vec::new()) };
    let text = read_to_string(&path)?;
    let json = |source| StoreError::Json { path: path.clone(), source };
    let manifest: Manifest = serde_json::from_str(&text).map_err(json)?;
    let mut models = Vec::new();
    for File { step, file } in manifest.replicas {
        let mut weights = Weights::new();
        for (name, tensor) in read_tensors(&folder.join(file))?.0 {
            if let Some((WEIGHTS, name)) = name.split_once('.') {
                weights.insert(name, tensor)?;
            }
        }
        models.push((step, weights));
    }
    Ok(models)
}
