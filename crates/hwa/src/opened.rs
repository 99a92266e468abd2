//! What several commands open: a data set, a network for it, weights for both.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hwa_core::{Role, Weights};
use hwa_data::{OpenOptions, RecalibrationBatches, Source};
use hwa_nn::{Adapted, BurnReplica, Head, ModelSpec, NnError, Origin, Precision, SgdConfig, Task};
use hwa_store::{Checkpoint, Metadata, RunDir, StoreError, read_checkpoint};
use hwa_train::{Convolution, EvaluateTable, Experiment, Recalibration, Replica, State};

use crate::about::About;
use crate::arguments::Subject;
use crate::failure::Failure;
use crate::notices;
use crate::output::tell;
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
    /// How statistics are re-estimated.
    pub(crate) estimation: Estimation,
    checkpoint: Checkpoint,
}

/// How statistics are re-estimated: as the judge of a run does it, or as usual.
pub(crate) struct Estimation {
    /// Images per batch.
    pub(crate) batch: NonZeroUsize,
    /// Chooses the order and the augmentation of the images.
    pub(crate) seed: u64,
    /// The relative standard error that is small enough.
    pub(crate) tolerance: f64,
    /// Whether images are augmented as in training.
    pub(crate) augment: bool,
}

impl Estimation {
    fn usual(batch: Option<NonZeroUsize>) -> Self {
        let EvaluateTable { tolerance, augment, .. } = EvaluateTable::default();
        let batch = batch.unwrap_or(NonZeroUsize::MIN.saturating_add(127));
        Self { batch, seed: 1, tolerance, augment }
    }

    fn of(experiment: &Experiment) -> Self {
        Self {
            batch: experiment.optimizer.batch,
            seed: experiment.seed,
            tolerance: experiment.evaluate.tolerance,
            augment: experiment.evaluate.augment,
        }
    }

    /// Batches of training images for it.
    pub(crate) fn batches(&self, source: &Source) -> RecalibrationBatches {
        let transform = match self.augment {
            true => source.transform.clone(),
            false => source.transform.without_augmentation(),
        };
        RecalibrationBatches::new(source.splits.train.clone(), transform, self.batch, self.seed)
    }
}

impl Opened {
    /// From a run's experiment, or from the arguments alone.
    pub(crate) fn new(subject: &Subject) -> Result<Self, Failure> {
        let missing = |what: &str| Failure::usage(format!("{what} is needed without --run"));
        let Some(run) = &subject.run else {
            let model = subject.model.clone().ok_or_else(|| missing("--model"))?;
            let weights = subject.weights.clone().ok_or_else(|| missing("--weights"))?;
            let data = subject.data.clone().ok_or_else(|| missing("--data"))?;
            let checkpoint = read_checkpoint(&weights)?;
            let mut options = OpenOptions::default();
            options.view.size = About::read(&checkpoint.metadata).size_unlike(&data);
            if let Some(size) = options.view.size {
                let file = weights.display();
                tell(format_args!("{file} is of images of {size} x {size}: so are these"));
            }
            return Ok(Self {
                model,
                convolution: Convolution::default(),
                weights,
                data,
                data_dir: subject.data_dir.clone(),
                options,
                of_run: false,
                estimation: Estimation::usual(subject.batch),
                checkpoint,
            });
        };
        let (text, path) = RunDir::stored_experiment(run)?;
        let experiment = Experiment::parse(&text, &path, &[])?;
        let mut estimation = Estimation::of(&experiment);
        estimation.batch = subject.batch.unwrap_or(estimation.batch);
        let Experiment { model, data, .. } = experiment;
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
            checkpoint: read_checkpoint(&weights)?,
            weights,
            options: data.options(),
            data: data.dataset,
            // The data may have moved since.
            data_dir: subject.data_dir.clone().or(data.dir),
            of_run: true,
            estimation,
        })
    }

    /// The network without a past, for weights that come from elsewhere.
    pub(crate) fn blank(&self, task: Task) -> Result<Box<dyn Replica>, Failure> {
        let spec: ModelSpec = self.model.parse()?;
        let config = SgdConfig { momentum: 0.0, weight_decay: 0.0 };
        let replica = BurnReplica::new(spec.blank(task)?, task, config)?;
        Ok(Box::new(replica.with_precision(precision(self.convolution))))
    }

    /// The weights, made fit for the network and taken out, and what their file says of them.
    pub(crate) fn weights(&mut self, source: &Source) -> Result<(Weights, Metadata), Failure> {
        let spec: ModelSpec = self.model.parse()?;
        let metadata = self.checkpoint.metadata.clone();
        if let Some(line) = About::read(&metadata).classes_unlike(source) {
            tell(format_args!("{}: {line}", self.weights.display()));
        }
        let found = std::mem::take(&mut self.checkpoint.weights);
        let adapted = fitted(found, &self.weights, spec, task(source), Head::Kept);
        Ok((adapted.map_err(|unusable| unusable.failure(""))?.weights, metadata))
    }

    /// Opens the data set.
    pub(crate) fn source(&self, options: &OpenOptions) -> Result<Source, Failure> {
        Ok(hwa_data::open(&self.data, self.data_dir.as_deref(), options)?)
    }
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
    /// They are not numbers.
    NotFinite {
        /// Where they are.
        path: PathBuf,
        /// The first tensor that holds a NaN or an infinity.
        tensor: String,
    },
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
            Self::NotFinite { path, tensor } => {
                let place = path.display();
                Failure::Run(anyhow::anyhow!("{place}: `{tensor}` holds NaN or infinite values"))
            }
            Self::NotFitting { path, spec, source } => {
                let classes = matches!(source, NnError::OtherClasses { .. });
                let advice = if classes { advice } else { "" };
                let place = path.display();
                Failure::Run(anyhow::anyhow!("{place} as {spec}: {source}{advice}"))
            }
        }
    }
}

/// Reads weights from a file and makes them fit a network.
pub(crate) fn read_weights(
    path: &Path,
    spec: ModelSpec,
    task: Task,
    head: Head,
) -> Result<Adapted, Unusable> {
    let found = read_checkpoint(path).map_err(Unusable::File)?.weights;
    fitted(found, path, spec, task, head)
}

/// Makes weights fit a network.
pub(crate) fn fitted(
    found: Weights,
    path: &Path,
    spec: ModelSpec,
    task: Task,
    head: Head,
) -> Result<Adapted, Unusable> {
    let path = path.to_owned();
    if let Some(tensor) = found.first_non_finite() {
        return Err(Unusable::NotFinite { path, tensor: tensor.to_owned() });
    }
    let adapted = spec.adapt(found, task, Origin { seed: 0, replica: 0 }, head);
    adapted.map_err(|source| Unusable::NotFitting { path, spec, source })
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
    source: &Source,
) -> Result<Recalibration, Failure> {
    replica.load(&weights.only(Role::Parameter)).map_err(|error| in_file(opened, error))?;
    let mut batches = opened.estimation.batches(source);
    Ok(replica.recalibrate(&mut batches, opened.estimation.tolerance)?)
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
