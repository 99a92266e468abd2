//! What several commands open: a data set, a network for it, weights for both.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hwa_core::{Role, Weights};
use hwa_data::{OpenOptions, RecalibrationBatches, Source};
use hwa_nn::{Adapted, BurnReplica, Head, ModelSpec, NnError, Origin, Precision, SgdConfig, Task};
use hwa_store::{Checkpoint, Metadata, StoreError, read_checkpoint, read_to_string};
use hwa_train::{Convolution, Experiment, Recalibration, Replica, State};

use crate::arguments::Subject;
use crate::failure::Failure;
use crate::notices;
use crate::terminal::Voice;

/// What is measured or re-estimated, and with which images.
pub(crate) struct Opened {
    /// The network.
    pub(crate) model: String,
    /// How its convolutions are computed.
    pub(crate) convolution: Convolution,
    /// The file of the weights.
    pub(crate) weights: PathBuf,
    /// The data set.
    pub(crate) data: String,
    /// Its folder, if it is not the cache folder.
    pub(crate) data_dir: Option<PathBuf>,
    /// How it is split.
    pub(crate) options: OpenOptions,
    /// Whether the split is that of a run.
    pub(crate) of_run: bool,
}

impl Opened {
    /// From a run's experiment, or from the arguments alone.
    pub(crate) fn new(subject: &Subject) -> Result<Self, Failure> {
        let missing = |what: &str| Failure::usage(format!("{what} is needed without --run"));
        let Some(run) = &subject.run else {
            return Ok(Self {
                model: subject.model.clone().ok_or_else(|| missing("--model"))?,
                convolution: Convolution::default(),
                weights: subject.weights.clone().ok_or_else(|| missing("--weights"))?,
                data: subject.data.clone().ok_or_else(|| missing("--data"))?,
                data_dir: subject.data_dir.clone(),
                options: OpenOptions::default(),
                of_run: false,
            });
        };
        let (text, path) = stored_experiment(run)?;
        let Experiment { model, data, .. } = Experiment::parse(&text, &path, &[])?;
        let best = run.join("best.safetensors");
        let weights = subject.weights.clone().unwrap_or_else(|| best.clone());
        if weights == best && !best.is_file() {
            return Err(Failure::usage(format!(
                "{} has no best.safetensors yet; --weights names other weights",
                run.display()
            )));
        }
        Ok(Self {
            model: model.name,
            convolution: model.convolution,
            weights,
            options: data.options(),
            data: data.dataset,
            // The data may have moved since.
            data_dir: subject.data_dir.clone().or(data.dir),
            of_run: true,
        })
    }

    /// The network without a past, for weights that come from elsewhere.
    pub(crate) fn blank(&self, task: Task) -> Result<Box<dyn Replica>, Failure> {
        let spec: ModelSpec = self.model.parse()?;
        let config = SgdConfig { momentum: 0.0, weight_decay: 0.0 };
        let replica = BurnReplica::new(spec.blank(task)?, task, config)?;
        Ok(Box::new(replica.with_precision(precision(self.convolution))))
    }

    /// Reads the weights.
    pub(crate) fn weights(&self, task: Task) -> Result<(Weights, Metadata), Failure> {
        let spec: ModelSpec = self.model.parse()?;
        let read = read_weights(&self.weights, spec, task, Head::Kept);
        let (adapted, metadata) = read.map_err(|unusable| unusable.failure(""))?;
        Ok((adapted.weights, metadata))
    }

    /// Opens the data set.
    pub(crate) fn source(&self, options: &OpenOptions) -> Result<Source, Failure> {
        Ok(hwa_data::open(&self.data, self.data_dir.as_deref(), options)?)
    }
}

/// The experiment that a run directory keeps.
pub(crate) fn stored_experiment(run: &Path) -> Result<(String, PathBuf), Failure> {
    let path = run.join("experiment.toml");
    if !path.is_file() {
        let (path, missing) = (run.to_owned(), "experiment.toml");
        return Err(hwa_store::StoreError::NotARun { path, missing }.into());
    }
    Ok((read_to_string(&path)?, path))
}

/// The task that a data set sets.
pub(crate) fn task(source: &Source) -> Task {
    Task { images: source.shape, classes: source.num_classes }
}

/// What an experiment's word for convolutions means to a network.
pub(crate) fn precision(convolution: Convolution) -> Precision {
    match convolution {
        Convolution::Winograd => Precision::Fast,
        Convolution::Direct => Precision::Exact,
    }
}

/// Weights that cannot be used.
pub(crate) enum Unusable {
    /// They cannot be read.
    File(StoreError),
    /// They are not for this network.
    NotFitting {
        /// Where they are.
        path: PathBuf,
        /// The network.
        spec: ModelSpec,
        /// What does not fit.
        source: NnError,
    },
}

impl Unusable {
    /// What to tell; with advice, if they are for other classes and nothing else is wrong.
    pub(crate) fn failure(self, advice: &str) -> Failure {
        match self {
            Self::File(error) => error.into(),
            Self::NotFitting { path, spec, source } => {
                let classes = matches!(source, NnError::OtherClasses { .. });
                let advice = if classes { advice } else { "" };
                let place = path.display();
                Failure::Run(anyhow::anyhow!("{place} as {spec}: {source}{advice}"))
            }
        }
    }
}

/// Reads weights from a file and makes them fit a network, together with what the file says
/// about them.
pub(crate) fn read_weights(
    path: &Path,
    spec: ModelSpec,
    task: Task,
    head: Head,
) -> Result<(Adapted, Metadata), Unusable> {
    let Checkpoint { weights, metadata, .. } = read_checkpoint(path).map_err(Unusable::File)?;
    let adapted = spec.adapt(weights, task, Origin { seed: 0, replica: 0 }, head);
    let adapted =
        adapted.map_err(|source| Unusable::NotFitting { path: path.to_owned(), spec, source })?;
    Ok((adapted, metadata))
}

/// Whether the file holds a complete model, or parameters alone.
pub(crate) fn is_complete(weights: &Weights) -> bool {
    weights.iter().any(|(_, tensor)| tensor.role() != Role::Parameter)
}

/// Loads a complete model.
pub(crate) fn load_complete(
    replica: &mut dyn Replica,
    opened: &Opened,
    weights: Weights,
) -> Result<(), Failure> {
    let momentum = replica.momentum()?;
    replica.restore(&State { weights, momentum }).map_err(|error| in_file(opened, error))
}

/// Loads parameters and re-estimates the statistics that go with them.
pub(crate) fn load_and_recalibrate(
    replica: &mut dyn Replica,
    opened: &Opened,
    weights: &Weights,
    batches: RecalibrationBatches,
    tolerance: f64,
) -> Result<Recalibration, Failure> {
    replica.load(&weights.only(Role::Parameter)).map_err(|error| in_file(opened, error))?;
    Ok(replica.recalibrate(&mut { batches }, tolerance)?)
}

fn in_file(opened: &Opened, error: hwa_train::ReplicaError) -> Failure {
    let place = format!("{} as {}", opened.weights.display(), opened.model);
    Failure::Run(anyhow::Error::new(error).context(place))
}

/// Runs `work` on a pool of so many threads, or one per core. It draws no bars, so that
/// notices are plain lines.
pub(crate) fn on_threads<T: Send>(
    threads: Option<NonZeroUsize>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    notices::show(Voice::new(true));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.map_or(0, NonZeroUsize::get))
        .build()
        .map_err(|error| Failure::Run(error.into()))?;
    pool.install(work)
}
