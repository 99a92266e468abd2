//! The state that a resumed run goes on from.
//!
//! Each model saves its own file after some step, before anything that follows
//! that step: `replica-<model>-<step>.safetensors`. The files become valid
//! together, by a manifest that is renamed into place last and names them. The
//! newest two manifests and their files are kept. A kill at any instant leaves
//! at least the last complete state.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hwa_core::{Plan, Weights};
use hwa_store::{CheckpointStore, Metadata, StoreError, read_tensors, read_to_string};
use hwa_store::{write_atomically, write_tensors};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::collective::Loss;
use crate::error::TrainError;
use crate::experiment::Experiment;
use crate::judge::JudgeState;
use crate::replica::State;
use crate::settings::Settings;
use crate::usage::Usage;

/// The version of everything under `state/`.
pub(crate) const STATE_VERSION: u32 = 1;

const KEPT_MANIFESTS: usize = 2;

/// Names the files of one complete state, and holds what belongs to no model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    version: u32,
    /// Identifies the experiment, so that no other one goes on from here.
    experiment: String,
    /// The instruction path, which decides the bits.
    arithmetic: String,
    /// By model, those that are lost left out: steps done, and the file.
    replicas: Vec<ReplicaFile>,
    /// The models that are lost.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    lost: BTreeSet<usize>,
    /// What the leading model adds.
    pub(crate) lead: Lead,
}

impl Manifest {
    /// The steps that each model has done.
    pub(crate) fn steps(&self) -> Vec<u64> {
        self.replicas.iter().map(|r| r.step).collect()
    }

    /// The numbers of the models that are not lost.
    pub(crate) fn models(&self) -> Vec<usize> {
        let all = 0..self.replicas.len() + self.lost.len();
        all.filter(|model| !self.lost.contains(model)).collect()
    }

    /// Whether a model was there once.
    pub(crate) fn has_lost(&self, model: usize) -> bool {
        self.lost.contains(&model)
    }

    fn replica(&self, model: usize) -> Option<&ReplicaFile> {
        let before = self.lost.range(..model).count();
        if self.lost.contains(&model) { None } else { self.replicas.get(model - before) }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ReplicaFile {
    step: u64,
    file: String,
}

/// The part of a state that belongs to the run, not to a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Lead {
    /// The length of `events.jsonl`.
    pub(crate) events_bytes: u64,
    /// The judge, after its last answer.
    pub(crate) judge: JudgeState,
    /// The cycle whose verdict is still out.
    pub(crate) pending: Option<usize>,
    /// How many models it had, if some are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending_models: Option<usize>,
    /// Losses that are not in the log yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unrecorded: Vec<Loss>,
    /// Models whose loss is in it.
    #[serde(skip)]
    pub(crate) recorded: BTreeSet<usize>,
    /// Seconds of training so far.
    pub(crate) elapsed: f64,
    /// Seconds of the judge so far.
    pub(crate) judging: f64,
    /// What was used of the machine so far.
    #[serde(default)]
    pub(crate) used: Usage,
}

impl Lead {
    /// Nothing has happened yet.
    pub(crate) fn beginning(judge: JudgeState) -> Self {
        Self {
            events_bytes: 0,
            judge,
            pending: None,
            pending_models: None,
            unrecorded: Vec::new(),
            recorded: BTreeSet::new(),
            elapsed: 0.0,
            judging: 0.0,
            used: Usage::default(),
        }
    }
}

/// The losses of the cycle that a model is in: part of its state, so that a
/// resumed run reports what the uninterrupted one does.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct CycleLosses {
    pub(crate) steps: u64,
    #[serde(with = "hwa_core::float")]
    pub(crate) sum: f64,
    #[serde(with = "hwa_core::float")]
    pub(crate) first: f64,
    #[serde(with = "hwa_core::float")]
    pub(crate) last: f64,
}

/// One model's part of a state.
#[derive(Debug, Clone)]
pub(crate) struct ModelState {
    pub(crate) step: u64,
    pub(crate) losses: CycleLosses,
    pub(crate) state: State,
    /// What the method remembers.
    pub(crate) method: Weights,
}

/// What makes a state this run's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Identifies the experiment: equal for equal resolved experiments.
    pub experiment: String,
    /// The instruction path of the arithmetic.
    pub arithmetic: String,
    /// Go on from a state that was computed on another path all the same.
    pub allow_other_arithmetic: bool,
}

/// A state that a run can go on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedState {
    /// The file that makes it complete.
    pub manifest: PathBuf,
    /// The steps that each model has done.
    pub steps: Vec<u64>,
}

/// Collects the models' parts and commits them when all are there.
pub(crate) struct StateStore {
    folder: PathBuf,
    identity: Identity,
    num_models: usize,
    settings: Settings,
    checkpoints: CheckpointStore,
    /// Parts of states that are not complete, by occasion.
    gathering: Mutex<BTreeMap<Occasion, Parts>>,
    /// Models that are lost, and why, if that is not in the log for sure.
    lost: Mutex<BTreeMap<usize, Option<Loss>>>,
    /// States up to this step were already complete before this session.
    resumed_at: u64,
}

/// Why a state is saved; the models' parts of one occasion belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Occasion {
    /// Every model after the same number of steps.
    Step(u64),
    /// An interrupt: each model wherever it is, all in the same cycle.
    Interrupt,
}

#[derive(Default)]
struct Parts {
    files: BTreeMap<usize, ReplicaFile>,
    lead: Option<Lead>,
}

impl StateStore {
    pub(crate) fn new(
        folder: PathBuf,
        identity: Identity,
        settings: &Settings,
        checkpoints: CheckpointStore,
    ) -> Self {
        Self {
            folder,
            identity,
            num_models: settings.plan.num_models.get(),
            settings: settings.clone(),
            checkpoints,
            gathering: Mutex::default(),
            lost: Mutex::default(),
            resumed_at: 0,
        }
    }

    /// The newest complete state, if there is one.
    pub(crate) fn newest(&mut self) -> Result<Option<Manifest>, TrainError> {
        let manifests = self.manifests()?;
        let Some((step, path)) = manifests.last() else { return Ok(None) };
        let manifest = self.read_manifest(path)?;
        self.resumed_at = *step;
        let mut lost: BTreeMap<usize, Option<Loss>> =
            manifest.lost.iter().map(|model| (*model, None)).collect();
        for loss in &manifest.lead.unrecorded {
            lost.insert(loss.model, Some(loss.clone()));
        }
        self.lost = Mutex::new(lost);
        Ok(Some(manifest))
    }

    /// Where the newest complete state is, and what it is worth.
    pub(crate) fn saved(&self) -> Result<Option<SavedState>, TrainError> {
        let Some((_, manifest)) = self.manifests()?.pop() else { return Ok(None) };
        let steps = self.read_manifest(&manifest)?.steps();
        Ok(Some(SavedState { manifest, steps }))
    }

    /// The manifests of all complete states, oldest first.
    pub(crate) fn all(&self) -> Result<Vec<PathBuf>, TrainError> {
        Ok(self.manifests()?.into_iter().map(|(_, path)| path).collect())
    }

    fn read_manifest(&self, path: &Path) -> Result<Manifest, TrainError> {
        let text = read_to_string(path)?;
        let json = |source| StoreError::Json { path: path.to_owned(), source };
        // The version first: another version may not even have the other fields.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let found = serde_json::from_str::<Versioned>(&text).map_err(json)?.version;
        if found != STATE_VERSION {
            let (path, expected) = (path.to_owned(), STATE_VERSION);
            return Err(TrainError::StateVersion { path, expected, found });
        }
        let manifest: Manifest = serde_json::from_str(&text).map_err(json)?;
        if manifest.experiment != self.identity.experiment {
            let ours = &self.identity.experiment;
            let difference = Experiment::first_difference(&manifest.experiment, ours);
            let difference = difference.map_or(String::new(), |(key, was, is)| {
                format!(": `{key}` was {was} and is {is} now; was experiment.toml edited?")
            });
            return Err(TrainError::OtherExperiment { path: path.to_owned(), difference });
        }
        let same = manifest.arithmetic == self.identity.arithmetic;
        if !same && !self.identity.allow_other_arithmetic {
            return Err(TrainError::OtherArithmetic {
                path: path.to_owned(),
                expected: self.identity.arithmetic.clone(),
                found: manifest.arithmetic,
            });
        }
        let unknown = manifest.lost.last().is_some_and(|model| *model >= self.num_models);
        if manifest.replicas.len() + manifest.lost.len() != self.num_models || unknown {
            let reason = "it names another number of models";
            return Err(TrainError::BadState { path: path.to_owned(), reason });
        }
        Ok(manifest)
    }

    /// One model's part of a complete state.
    pub(crate) fn load(
        &self,
        manifest: &Manifest,
        replica: usize,
    ) -> Result<ModelState, TrainError> {
        let Some(entry) = manifest.replica(replica) else {
            let (path, reason) = (self.folder.clone(), "a model that is lost has no state");
            return Err(TrainError::BadState { path, reason });
        };
        let path = self.folder.join(&entry.file);
        let (tensors, metadata) = read_tensors(&path)?;
        let json = |source| StoreError::Json { path: path.clone(), source };
        let losses = metadata.get("losses").cloned().unwrap_or_default();
        let losses = serde_json::from_value(losses).map_err(json)?;
        if metadata.get("step") != Some(&entry.step.into()) {
            let reason = "its step is not the one that the manifest names";
            return Err(TrainError::BadState { path, reason });
        }
        let [mut weights, mut momentum, mut method] =
            [Weights::new(), Weights::new(), Weights::new()];
        for (name, tensor) in tensors {
            match name.split_once('.') {
                Some((WEIGHTS, name)) => weights.insert(name, tensor)?,
                Some((MOMENTUM, name)) => momentum.insert(name, tensor)?,
                Some((METHOD, name)) => method.insert(name, tensor)?,
                _ => {
                    let reason = "it holds a tensor that is no part of a state";
                    return Err(TrainError::BadState { path, reason });
                }
            }
        }
        let state = State { weights, momentum };
        Ok(ModelState { step: entry.step, losses, state, method })
    }

    /// Saves the complete models of a cycle whose verdict is going to be out.
    pub(crate) fn save_pending(
        &self,
        cycle: usize,
        models: &[Arc<Weights>],
    ) -> Result<(), TrainError> {
        for (replica, model) in models.iter().enumerate() {
            let path = self.pending_path(cycle, replica);
            write_tensors(&path, model, &Metadata::new())?;
        }
        Ok(())
    }

    /// Reads back what [`Self::save_pending`] saved: all models, or so many.
    pub(crate) fn load_pending(
        &self,
        cycle: usize,
        models: Option<usize>,
    ) -> Result<Vec<Arc<Weights>>, TrainError> {
        let load = |replica| Ok(Arc::new(read_tensors(&self.pending_path(cycle, replica))?.0));
        (0..models.unwrap_or(self.num_models)).map(load).collect()
    }

    /// How many models there were, if not all: what [`Self::load_pending`] wants to know.
    pub(crate) fn fewer(&self, models: usize) -> Option<usize> {
        (models != self.num_models).then_some(models)
    }

    fn pending_path(&self, cycle: usize, replica: usize) -> PathBuf {
        self.folder.join(format!("pending-{replica}-{cycle:010}.safetensors"))
    }

    /// Saves one model's part; the last one to come commits the whole.
    pub(crate) fn deliver(
        &self,
        occasion: Occasion,
        replica: usize,
        part: ModelState,
        lead: Option<Lead>,
    ) -> Result<(), TrainError> {
        if matches!(occasion, Occasion::Step(step) if step <= self.resumed_at) {
            return Ok(()); // The others passed this step before the interrupt.
        }
        let file = format!("replica-{replica}-{:010}.safetensors", part.step);
        let metadata = Metadata::from([
            ("step".to_owned(), part.step.into()),
            ("replica".to_owned(), replica.into()),
            ("losses".to_owned(), to_json(&part.losses, &self.folder.join(&file))?),
            ("version".to_owned(), STATE_VERSION.into()),
        ]);
        let step = part.step;
        write_tensors(&self.folder.join(&file), &flatten(part)?, &metadata)?;

        let mut gathering = self.gathering.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = gathering.entry(occasion).or_default();
        parts.files.insert(replica, ReplicaFile { step, file });
        parts.lead = lead.or(parts.lead.take());
        self.commit_if_complete(&mut gathering, occasion)
    }

    /// A model is lost. What was waiting for it may be complete now.
    pub(crate) fn lose(&self, loss: Loss) -> Result<(), TrainError> {
        let mut gathering = self.gathering.lock().unwrap_or_else(PoisonError::into_inner);
        self.lost_models().insert(loss.model, Some(loss));
        let occasions: Vec<Occasion> = gathering.keys().copied().collect();
        for occasion in occasions {
            self.commit_if_complete(&mut gathering, occasion)?;
        }
        Ok(())
    }

    /// A state is complete when every model has delivered its part or is lost. A model that was
    /// lost after it had delivered is part of it: nothing depends on who was faster.
    fn commit_if_complete(
        &self,
        gathering: &mut BTreeMap<Occasion, Parts>,
        occasion: Occasion,
    ) -> Result<(), TrainError> {
        let Some(parts) = gathering.get(&occasion) else { return Ok(()) };
        let mut lost = self.lost_models().clone();
        lost.retain(|model, _| !parts.files.contains_key(model));
        if parts.files.len() + lost.len() < self.num_models || parts.lead.is_none() {
            return Ok(());
        }
        let Some(Parts { files, lead: Some(mut lead) }) = gathering.remove(&occasion) else {
            return Ok(());
        };
        let unrecorded =
            lost.values().flatten().filter(|loss| !lead.recorded.contains(&loss.model));
        lead.unrecorded = unrecorded.cloned().collect();
        let manifest = Manifest {
            version: STATE_VERSION,
            experiment: self.identity.experiment.clone(),
            arithmetic: self.identity.arithmetic.clone(),
            replicas: files.into_values().collect(),
            lost: lost.into_keys().collect(),
            lead,
        };
        self.write(&manifest)?;
        self.prune()
    }

    fn lost_models(&self) -> MutexGuard<'_, BTreeMap<usize, Option<Loss>>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, manifest: &Manifest) -> Result<PathBuf, TrainError> {
        let newest = manifest.steps().into_iter().max().unwrap_or(0);
        let path = self.folder.join(format!("manifest-{newest:010}.json"));
        let text = to_json(manifest, &path)?.to_string();
        write_atomically(&path, |file| file.write_all(text.as_bytes()))?;
        Ok(path)
    }

    /// Goes on from the newest state without some of its models: it is written again, and with
    /// it the new length of the log.
    pub(crate) fn leave_out(
        &self,
        mut manifest: Manifest,
        models: &BTreeSet<usize>,
        events_bytes: u64,
    ) -> Result<(), TrainError> {
        let newest = self.manifests()?.pop();
        let kept = manifest.models().into_iter().zip(manifest.replicas);
        manifest.replicas =
            kept.filter(|(model, _)| !models.contains(model)).map(|(_, file)| file).collect();
        if manifest.lead.pending.is_some() && manifest.lead.pending_models.is_none() {
            manifest.lead.pending_models = Some(self.num_models - manifest.lost.len());
        }
        manifest.lost.extend(models);
        manifest.lead.events_bytes = events_bytes;
        let written = self.write(&manifest)?;
        // The one that was furthest may have been left out.
        match newest {
            Some((_, before)) if before != written => remove(&before),
            _ => Ok(()),
        }
    }

    /// Removes states and outer weights that nothing will need any more.
    fn prune(&self) -> Result<(), TrainError> {
        let mut manifests = self.manifests()?;
        let old = manifests.len().saturating_sub(KEPT_MANIFESTS);
        for (_, path) in manifests.drain(..old) {
            remove(&path)?;
        }
        let Some((_, oldest)) = manifests.first() else { return Ok(()) };
        let oldest = self.read_manifest(oldest)?;
        for (replica, step, path) in self.numbered("replica")? {
            // Newer files may belong to a state that is still being gathered.
            if oldest.replica(replica).is_none_or(|kept| step < kept.step) {
                remove(&path)?;
            }
        }
        for (_, cycle, path) in self.numbered("pending")? {
            if oldest.lead.pending.is_some_and(|kept| cycle < kept as u64) {
                remove(&path)?;
            }
        }
        let plan = &self.settings.plan;
        let needed = oldest_needed(plan, oldest.lead.pending);
        for cycle in self.checkpoints.outer_cycles()? {
            if cycle < needed && !self.settings.checkpoints.keeps(cycle, plan) {
                self.checkpoints.remove_outer(cycle)?;
            }
        }
        Ok(())
    }

    /// Leaves the outer weights that a finished run of `last` cycles keeps, and no
    /// others. Which ones were still there depends on when states were saved.
    pub(crate) fn tidy(&self, last: usize) -> Result<(), TrainError> {
        for cycle in self.checkpoints.outer_cycles()? {
            if !self.keeps(cycle, last) {
                self.checkpoints.remove_outer(cycle)?;
            }
        }
        Ok(())
    }

    /// Flushes the outer weights that a finished run of `last` cycles keeps.
    pub(crate) fn flush_kept(&self, last: usize) -> Result<(), TrainError> {
        Ok(self.checkpoints.flush_outer(|cycle| self.keeps(cycle, last))?)
    }

    fn keeps(&self, cycle: usize, last: usize) -> bool {
        let Settings { checkpoints, plan, .. } = &self.settings;
        cycle == last || (cycle < last && checkpoints.keeps(cycle, plan))
    }

    /// Steps and paths of the manifests, oldest first.
    fn manifests(&self) -> Result<Vec<(u64, PathBuf)>, TrainError> {
        manifests_in(&self.folder)
    }

    /// The files `<kind>-<model>-<number>.safetensors`.
    fn numbered(&self, kind: &str) -> Result<Vec<(usize, u64, PathBuf)>, TrainError> {
        let mut found = Vec::new();
        for path in list(&self.folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let rest = name.strip_prefix(kind).and_then(|n| n.strip_prefix('-'));
            let rest = rest.and_then(|n| n.strip_suffix(".safetensors"));
            let Some((model, number)) = rest.and_then(|p| p.split_once('-')) else { continue };
            if let (Ok(model), Ok(number)) = (model.parse(), number.parse()) {
                found.push((model, number, path));
            }
        }
        Ok(found)
    }
}

/// The oldest cycle whose outer weights a state needs in which the verdict on
/// `pending` is out. That cycle is judged again, whether or not a window holds it.
pub(crate) fn oldest_needed(plan: &Plan, pending: Option<usize>) -> usize {
    pending.map_or(1, |cycle| plan.oldest_member(cycle.saturating_sub(1).max(1)).min(cycle))
}

pub(crate) const WEIGHTS: &str = "weights";
const MOMENTUM: &str = "momentum";
const METHOD: &str = "method";

/// Weights, momentum and what the method remembers as one set of tensors, under prefixes.
/// They are moved: a copy would need as much memory again.
fn flatten(ModelState { state, method, .. }: ModelState) -> Result<Weights, TrainError> {
    let mut all = Weights::new();
    let State { weights, momentum } = state;
    for (prefix, tensors) in [(WEIGHTS, weights), (MOMENTUM, momentum), (METHOD, method)] {
        for (name, tensor) in tensors {
            all.insert(format!("{prefix}.{name}"), tensor)?;
        }
    }
    Ok(all)
}

fn to_json<T: Serialize>(value: &T, path: &Path) -> Result<serde_json::Value, TrainError> {
    let wrap = |source| StoreError::Json { path: path.to_owned(), source };
    Ok(serde_json::to_value(value).map_err(wrap)?)
}

/// Whether a run has a complete state to go on from: then what it began with is not needed
/// any more. The models' files alone are no state, as its manifest comes after them.
pub fn has_state(run: &Path) -> bool {
    manifests_in(&run.join("state")).is_ok_and(|manifests| !manifests.is_empty())
}

/// The numbers of the models that the newest state of a run holds: all but those that are lost.
/// Nothing, if there is no state that could be read; whoever goes on from it says why.
pub fn models_left(run: &Path) -> Option<Vec<usize>> {
    #[derive(Deserialize)]
    struct Left {
        replicas: Vec<IgnoredAny>,
        #[serde(default)]
        lost: BTreeSet<usize>,
    }
    let (_, newest) = manifests_in(&run.join("state")).ok()?.pop()?;
    let Left { replicas, lost } = serde_json::from_str(&read_to_string(&newest).ok()?).ok()?;
    let all = 0..replicas.len() + lost.len();
    Some(all.filter(|model| !lost.contains(model)).collect())
}

/// The manifests of complete states by their steps, oldest first.
pub(crate) fn manifests_in(folder: &Path) -> Result<Vec<(u64, PathBuf)>, TrainError> {
    let mut found = Vec::new();
    for path in list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let step = name.strip_prefix("manifest-").and_then(|n| n.strip_suffix(".json"));
        if let Some(step) = step.and_then(|s| s.parse().ok()) {
            found.push((step, path));
        }
    }
    found.sort();
    Ok(found)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, TrainError> {
    let io = |source| StoreError::Io { action: "read", path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(io)?;
    let paths = entries.map(|entry| entry.map(|e| e.path()));
    let io = |source| StoreError::Io { action: "read", path: folder.to_owned(), source };
    Ok(paths.collect::<Result<_, _>>().map_err(io)?)
}

fn remove(path: &Path) -> Result<(), TrainError> {
    let io = |source| StoreError::Io { action: "remove", path: path.to_owned(), source };
    Ok(fs::remove_file(path).map_err(io)?)
}
