//! What is asked for: an experiment, where it comes from, and what it names.

use std::path::{Path, PathBuf};

use hwa_compare::FileKind;
use hwa_core::Weights;
use hwa_data::{DataError, Source};
use hwa_nn::{Head, ModelSpec, NnError, Task};
use hwa_store::{RunDir, read_to_string};
use hwa_train::{Data, Experiment, ExperimentError, Method, Model};
use serde_json::Value;

use crate::arguments::Train;
use crate::failure::Failure;

use crate::opened;
use crate::output::tell;

/// What `hwa train` trains without an argument.
const DEFAULT_EXPERIMENT: &str = include_str!("../../../experiments/digits-hwa.toml");

/// An experiment, and the text and overrides it came from, for messages.
pub(super) struct Asked {
    pub(super) experiment: Experiment,
    pub(super) folder: String,
    pub(super) text: String,
    pub(super) path: PathBuf,
    pub(super) sets: Vec<String>,
}

/// Data sets that are open, so that no one is opened twice.
#[derive(Default)]
pub(crate) struct Sources {
    open: Vec<(Data, Source)>,
}

impl Sources {
    /// The data set that a table of an experiment describes.
    pub(crate) fn open(&mut self, data: &Data) -> Result<Source, DataError> {
        if let Some((_, source)) = self.open.iter().find(|(known, _)| known == data) {
            return Ok(source.clone());
        }
        let source = hwa_data::open(&data.dataset, data.dir.as_deref(), &data.options())?;
        self.open.push((data.clone(), source.clone()));
        Ok(source)
    }
}

/// Whether the last layer is that of a file or drawn anew.
fn head(model: &Model) -> Head {
    if model.new_head { Head::Fresh } else { Head::Kept }
}

impl Asked {
    /// The weights of the file that the experiment names, as they are in it; that they fit
    /// the network is found out now.
    pub(super) fn initial_weights(
        &self,
        spec: ModelSpec,
        task: Task,
    ) -> Result<Option<Weights>, Failure> {
        let model = &self.experiment.model;
        let Some(path) = &model.weights else {
            return match model.new_head {
                true => Err(self.wrong("model.new_head", "needs `model.weights`")),
                false => Ok(None),
            };
        };
        let advice = "; --new-head draws it anew";
        let read = opened::read_weights(path, spec, task, head(model));
        let adapted = read.map_err(|unusable| unusable.failure(advice))?;
        let fresh = match adapted.fresh.as_slice() {
            [] => String::new(),
            fresh => format!("; drawn anew: {}", fresh.join(", ")),
        };
        tell(format_args!("beginning with {}{fresh}", path.display()));
        Ok(Some(adapted.weights))
    }

    pub(super) fn network(&self) -> Result<ModelSpec, Failure> {
        self.experiment.model.name.parse().map_err(|error| match error {
            NnError::UnknownModel { name, near, known } => {
                let known =
                    format!("{known}, or resnet<d> for any depth d = 6n + 2 but 50 and 152");
                let meant = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
                self.wrong("model.name", format!("must be one of {known}, found {name:?}{meant}"))
            }
            other => other.into(),
        })
    }

    pub(super) fn open(&self, sources: &mut Sources) -> Result<Source, Failure> {
        let data = &self.experiment.data;
        let source = sources.open(data).map_err(|error| match error {
            DataError::UnknownName { name, known } => {
                let known = known.join(", ");
                self.wrong("data.dataset", format!("must be one of {known}, found {name:?}"))
            }
            DataError::ClassTooSmall { .. } | DataError::TooFewExamples { .. } => {
                // What is wrong without a subset as well is not the subset's fault.
                let whole = Data { train_examples: None, ..data.clone() };
                let subset = data.train_examples.is_some() && sources.open(&whole).is_ok();
                let key = if subset { "data.train_examples" } else { "data.validation" };
                self.wrong(key, format!("asks for too many images: {error}"))
            }
            DataError::BadOption { key, reason } => self.wrong(key, reason),
            other => other.into(),
        })?;
        if source.splits.train.is_empty() {
            return Err(self.wrong("data.train_examples", "must leave images to train on"));
        }
        if source.splits.validation.is_empty() {
            return Err(self.wrong("data.validation", "must leave images that can choose, found 0"));
        }
        if source.splits.test.is_empty() {
            return Err(self.wrong("data.dataset", "has no images to test on"));
        }
        Ok(source)
    }

    pub(super) fn wrong(&self, key: &'static str, reason: impl Into<String>) -> Failure {
        self.located(ExperimentError::Value { key, reason: reason.into() })
    }

    pub(super) fn located(&self, error: ExperimentError) -> Failure {
        error.located(&self.text, &self.path, &self.sets).into()
    }
}

/// The experiment that is asked for: a file, the default, or that of a run.
pub(super) fn experiment(arguments: &Train) -> Result<Asked, Failure> {
    let mut sets = arguments.sets.clone();
    if let Some(dir) = &arguments.data_dir {
        sets.push(format!("data.dir={}", toml_string(dir)));
    }
    if let Some(file) = &arguments.weights {
        sets.push(format!("model.weights={}", toml_string(file)));
    }
    if arguments.new_head {
        sets.push("model.new_head=true".to_owned());
    }
    let (text, path) = match (&arguments.experiment, &arguments.resume) {
        (Some(file), _) => {
            (read_to_string(file).map_err(|e| Failure::Usage(e.into()))?, file.clone())
        }
        (None, Some(run)) => RunDir::stored_experiment(run)?,
        (None, None) => (DEFAULT_EXPERIMENT.to_owned(), PathBuf::from("the default experiment")),
    };
    if FileKind::of(&text) == Some(FileKind::Comparison) {
        let path = path.display();
        return Err(Failure::usage(format!(
            "{path} is a comparison, no experiment: hwa compare {path}"
        )));
    }
    let mut experiment = Experiment::parse(&text, &path, &sets)?;
    for key in experiment.keys_without_use() {
        let is_set = |set: &&String| set.split_once('=').is_some_and(|(k, _)| k.trim() == key);
        if let Some(set) = sets.iter().find(is_set) {
            let method = experiment.method.name();
            tell(format_args!("--set {set}: method {method} has no use for it"));
        }
    }
    let as_written = Experiment::parse(&text, &path, &[]).map_or(experiment.method, |e| e.method);
    let folder = folder_name(&experiment, as_written, &sets);
    if let Some(run) = &arguments.resume {
        experiment = as_in(run, experiment)?;
    }
    // A run can be resumed from another folder.
    let Experiment { data, model, .. } = &mut experiment;
    for path in [&mut data.dir, &mut model.weights].into_iter().flatten() {
        if let Ok(absolute) = std::path::absolute(&*path) {
            *path = absolute;
        }
    }
    Ok(Asked { experiment, folder, text, path, sets })
}

/// The experiment with what a run in `run` wrote down about itself. That it is the one that
/// the run trains is made sure of.
fn as_in(run: &Path, experiment: Experiment) -> Result<Experiment, Failure> {
    let (text, path) = RunDir::stored_experiment(run)?;
    Ok(experiment.as_stored(&Experiment::parse(&text, &path, &[])?, run)?)
}

pub(crate) fn toml_string(path: &Path) -> String {
    Value::from(path.display().to_string()).to_string()
}

/// What the folder of a new run is called: the experiment's name, with the method
/// and the seed if `--set` changed them, so that runs to compare can be told apart.
fn folder_name(experiment: &Experiment, method_before: Method, sets: &[String]) -> String {
    let is_set = |key: &str| {
        sets.iter().any(|set| set.split_once('=').is_some_and(|(name, _)| name.trim() == key))
    };
    let mut name = experiment.name.clone();
    if is_set("name") {
        return name;
    }
    if is_set("data.dataset") {
        // The name tells of other images.
        name = format!("{}-{}", experiment.data.dataset, method_before.name());
    }
    if is_set("method") {
        let (before, method) = (method_before.name(), experiment.method.name());
        let stem = name.strip_suffix(&format!("-{before}")).unwrap_or(&name);
        name = format!("{stem}-{method}");
    }
    if is_set("seed") {
        name = format!("{name}-seed{}", experiment.seed);
    }
    name
}

/// `runs/<name>`, or the first `runs/<name>-<n>` that is free.
pub(super) fn vacant(name: &str) -> PathBuf {
    let base = Path::new("runs");
    let first = base.join(name);
    let mut numbered = (2..).map(|n| base.join(format!("{name}-{n}")));
    if first.exists() { numbered.find(|path| !path.exists()).unwrap_or(first) } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_by_what_was_set() {
        for (sets, expected) in [
            (vec![], "digits-hwa"),
            (vec!["method=sgd"], "digits-sgd"),
            (vec!["seed=2"], "digits-hwa-seed2"),
            (vec!["method = \"swa\"", "seed=3", "hwa.num_models=3"], "digits-swa-seed3"),
            (vec!["name=mine", "seed=3"], "mine"),
            (vec!["data.dataset=folder"], "folder-hwa"),
            (vec!["data.dataset=folder", "method=sgd"], "folder-sgd"),
        ] {
            let sets: Vec<String> = sets.into_iter().map(str::to_owned).collect();
            let path = Path::new("default");
            let experiment = Experiment::parse(DEFAULT_EXPERIMENT, path, &sets).unwrap();
            assert_eq!(folder_name(&experiment, Method::Hwa, &sets), expected);
        }
    }
}
