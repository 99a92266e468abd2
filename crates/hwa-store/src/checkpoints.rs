//! Saved outer and inner weights, by cycle.
//!
//! Outer weights may come every few steps, and waiting for the disk each time
//! would cost more than writing them. They are flushed together, when a state is
//! saved that needs them: what came after the state comes again.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hwa_core::{InnerWeights, OuterWeights};
use serde_json::Value;

use crate::atomic::flush;
use crate::error::StoreError;
use crate::tensor_file::{Metadata, read_tensors, write_tensors, write_tensors_unflushed};

/// Which inner weights a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InnerPosition {
    /// The cycle they belong to.
    pub cycle: usize,
    /// The model.
    pub replica: usize,
    /// Steps of the model so far.
    pub step: u64,
}

/// The folder of saved weights.
#[derive(Debug, Clone)]
pub struct CheckpointStore {
    folder: PathBuf,
    /// What every file tells beside what is its own.
    about: Metadata,
    /// The cycles whose outer weights a power failure could still take. Clones
    /// share it.
    unflushed: Arc<Mutex<BTreeSet<usize>>>,
}

impl CheckpointStore {
    /// A store in an existing folder.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, about: Metadata::new(), unflushed: Arc::default() }
    }

    /// Has every file tell this as well: of which network its weights are, and for which images.
    /// Averages of them know it too, then.
    pub fn telling(mut self, about: Metadata) -> Self {
        self.about = about;
        self
    }

    /// The file of a cycle's outer weights.
    pub fn outer_path(&self, cycle: usize) -> PathBuf {
        self.folder.join(format!("outer-{cycle:06}.safetensors"))
    }

    /// The file of one model's inner weights.
    pub fn inner_path(&self, at: InnerPosition) -> PathBuf {
        let InnerPosition { cycle, replica, step } = at;
        self.folder.join(format!("inner-{cycle:06}-{replica}-{step:08}.safetensors"))
    }

    /// Saves outer weights: parameters alone, because batch-norm statistics of an
    /// average have to be re-estimated before it is used. They survive a kill; a
    /// power failure, once [`Self::flush_outer`] has come.
    pub fn save_outer(
        &self,
        cycle: usize,
        step: u64,
        outer: &OuterWeights,
    ) -> Result<(), StoreError> {
        let mut metadata = self.about.clone();
        metadata.extend([
            ("cycle".to_owned(), Value::from(cycle)),
            ("step".to_owned(), Value::from(step)),
            ("kind".to_owned(), Value::from("outer")),
            ("statistics".to_owned(), Value::from("none")),
        ]);
        write_tensors_unflushed(&self.outer_path(cycle), outer, &metadata)?;
        self.unflushed().insert(cycle);
        Ok(())
    }

    /// Flushes the outer weights of the `wanted` cycles to the disk.
    pub fn flush_outer(&self, wanted: impl Fn(usize) -> bool) -> Result<(), StoreError> {
        let cycles: Vec<usize> = self.unflushed().iter().copied().filter(|c| wanted(*c)).collect();
        if cycles.is_empty() {
            return Ok(());
        }
        let paths: Vec<PathBuf> = cycles.iter().map(|cycle| self.outer_path(*cycle)).collect();
        flush(&self.folder, &paths)?;
        self.unflushed().retain(|cycle| !cycles.contains(cycle));
        Ok(())
    }

    /// Reads a cycle's outer weights back.
    pub fn load_outer(&self, cycle: usize) -> Result<OuterWeights, StoreError> {
        let (weights, _) = read_tensors(&self.outer_path(cycle))?;
        Ok(OuterWeights::from_checkpoint(weights))
    }

    /// Saves one model's inner weights.
    pub fn save_inner(&self, at: InnerPosition, inner: &InnerWeights) -> Result<(), StoreError> {
        let mut metadata = self.about.clone();
        metadata.extend([
            ("cycle".to_owned(), Value::from(at.cycle)),
            ("step".to_owned(), Value::from(at.step)),
            ("replica".to_owned(), Value::from(at.replica)),
            ("kind".to_owned(), Value::from("inner")),
            ("statistics".to_owned(), Value::from("none")),
        ]);
        write_tensors(&self.inner_path(at), inner, &metadata)
    }

    /// The cycles whose outer weights are there, in order.
    pub fn outer_cycles(&self) -> Result<Vec<usize>, StoreError> {
        let names = self.names("outer-")?;
        let mut cycles: Vec<usize> = names.iter().filter_map(|name| name.parse().ok()).collect();
        cycles.sort_unstable();
        Ok(cycles)
    }

    /// The inner weights that are there, in order.
    pub fn inner_positions(&self) -> Result<Vec<InnerPosition>, StoreError> {
        let position = |name: &String| {
            let mut numbers = name.split('-');
            let cycle = numbers.next()?.parse().ok()?;
            let replica = numbers.next()?.parse().ok()?;
            let step = numbers.next()?.parse().ok()?;
            numbers.next().is_none().then_some(InnerPosition { cycle, replica, step })
        };
        let mut positions: Vec<_> = self.names("inner-")?.iter().filter_map(position).collect();
        positions.sort_unstable();
        Ok(positions)
    }

    /// What the files of a kind are called between that and their ending.
    fn names(&self, kind: &str) -> Result<Vec<String>, StoreError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(StoreError::io("read", &self.folder))? {
            let entry = entry.map_err(StoreError::io("read", &self.folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let inside = name.strip_prefix(kind).and_then(|n| n.strip_suffix(".safetensors"));
            names.extend(inside.map(str::to_owned));
        }
        Ok(names)
    }

    /// Removes a cycle's outer weights, if they are there.
    pub fn remove_outer(&self, cycle: usize) -> Result<(), StoreError> {
        let path = self.outer_path(cycle);
        self.unflushed().remove(&cycle);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    /// A set of numbers is whole even if a thread panicked while it held it.
    fn unflushed(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.unflushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use hwa_core::{Tensor, Weights};

    use super::*;

    fn outer(x: f32) -> OuterWeights {
        let mut weights = Weights::new();
        weights.insert("w", Tensor::parameter(vec![1], vec![x]).unwrap()).unwrap();
        OuterWeights::from_checkpoint(weights)
    }

    #[test]
    fn outer_weights_are_found_by_cycle() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path().to_owned());
        for cycle in [12, 3] {
            store.save_outer(cycle, 0, &outer(cycle as f32)).unwrap();
        }
        std::fs::write(folder.path().join("outer-x.safetensors"), "").unwrap();
        assert_eq!(store.outer_cycles().unwrap(), [3, 12]);
        let loaded = store.load_outer(12).unwrap();
        assert_eq!(loaded.get("w").unwrap().as_f32().unwrap(), [12.0]);
        store.remove_outer(3).unwrap();
        store.remove_outer(3).unwrap();
        assert_eq!(store.outer_cycles().unwrap(), [12]);
    }

    #[test]
    fn inner_weights_are_found_by_cycle_model_and_step() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path().to_owned());
        let at = |cycle, replica, step| InnerPosition { cycle, replica, step };
        let inner = InnerWeights::new(Weights::clone(&outer(1.0)));
        for position in [at(10, 1, 400), at(10, 0, 400), at(9, 0, 360)] {
            store.save_inner(position, &inner).unwrap();
        }
        for other in ["inner-1-2.safetensors", "inner-1-2-3-4.safetensors", "inner-x-0-1"] {
            std::fs::write(folder.path().join(other), "").unwrap();
        }
        let expected = [at(9, 0, 360), at(10, 0, 400), at(10, 1, 400)];
        assert_eq!(store.inner_positions().unwrap(), expected);
    }

    #[test]
    fn what_is_wanted_is_flushed_once_and_what_was_removed_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::new(folder.path().to_owned());
        let waiting = || store.unflushed().iter().copied().collect::<Vec<_>>();
        for cycle in 1..=4 {
            store.clone().save_outer(cycle, 0, &outer(0.0)).unwrap();
        }
        store.remove_outer(1).unwrap();
        assert_eq!(waiting(), [2, 3, 4]);
        store.flush_outer(|cycle| cycle > 2).unwrap();
        assert_eq!(waiting(), [2]);
        // Someone else removed it: there is nothing to lose.
        std::fs::remove_file(store.outer_path(2)).unwrap();
        store.flush_outer(|_| true).unwrap();
        assert_eq!(waiting(), [0; 0]);
    }
}
