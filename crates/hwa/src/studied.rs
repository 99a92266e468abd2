//! What is looked into: a network on images, with the weights of a run or of files.

use std::num::NonZeroUsize;
use std::path::Path;

use hwa_data::{
    Batch, DataError, EvaluationBatches, OpenOptions, Part, RecalibrationBatches, Source,
};
use hwa_nn::{BurnReplica, ModelSpec, SgdConfig, Task};
use hwa_train::{Convolution, Experiment, Replica, ReplicaError};

use crate::arguments::{Split, StudyOf};
use crate::failure::Failure;
use crate::opened::{precision, stored_experiment, task};
use crate::pages;
use crate::shelf::Shelf;

/// What images may take in memory.
const MOST_MEMORY: usize = 16 << 30;

/// A network, its images and where its weights are.
pub(crate) struct Studied {
    pub(crate) spec: ModelSpec,
    pub(crate) convolution: Convolution,
    /// The data set's name.
    pub(crate) data: String,
    pub(crate) source: Source,
    /// The seed that images are drawn with.
    pub(crate) seed: u64,
    pub(crate) batch: NonZeroUsize,
    pub(crate) shelf: Shelf,
    /// The experiment of the run, if it is one.
    pub(crate) experiment: Option<Experiment>,
}

/// How training images are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Views {
    /// As they are.
    Plain,
    /// Augmented, as in training.
    Augmented,
}

impl Studied {
    pub(crate) fn new(subject: &StudyOf) -> Result<Self, Failure> {
        let missing = |what: &str| {
            Failure::usage(format!(
                "{what} is missing; expected --run and a run, or files with --model and --data, \
                 for example --model resnet20 --data cifar100"
            ))
        };
        let without_model = if subject.data.is_some() { "--model" } else { "--run" };
        let experiment = match &subject.run {
            Some(run) => {
                let (text, path) = stored_experiment(run)?;
                Some(Experiment::parse(&text, &path, &[])?)
            }
            None => None,
        };
        let (name, convolution, data, dir, options, seed, batch) = match &experiment {
            Some(Experiment { model, data, seed, optimizer, .. }) => (
                model.name.clone(),
                model.convolution,
                data.dataset.clone(),
                data.dir.clone(),
                data.options(),
                *seed,
                optimizer.batch,
            ),
            None => (
                subject.model.clone().ok_or_else(|| missing(without_model))?,
                Convolution::default(),
                subject.data.clone().ok_or_else(|| missing("--data"))?,
                None,
                OpenOptions::default(),
                1,
                NonZeroUsize::MIN.saturating_add(127),
            ),
        };
        let spec: ModelSpec = name.parse()?;
        // The data may have moved since.
        let dir = subject.data_dir.clone().or(dir);
        let source = hwa_data::open(&data, dir.as_deref(), &options)?;
        let shelf = Shelf::new(subject.run.clone(), spec, task(&source));
        let batch = subject.batch.unwrap_or(batch);
        Ok(Self { spec, convolution, data, source, seed, batch, shelf, experiment })
    }

    /// What is looked into, in words.
    pub(crate) fn title(&self, run: Option<&Path>) -> String {
        let what = format!("{} on {}", self.spec, self.data);
        match run {
            Some(run) => format!("{}: {what}", pages::names(&[run.to_owned()]).concat()),
            None => what,
        }
    }

    /// What the network is for.
    pub(crate) fn task(&self) -> Task {
        task(&self.source)
    }

    /// A network without a past.
    pub(crate) fn blank(&self) -> Result<Box<dyn Replica>, ReplicaError> {
        let task = self.task();
        let config = SgdConfig { momentum: 0.0, weight_decay: 0.0 };
        let failed = |error: hwa_nn::NnError| ReplicaError::Framework {
            operation: "building the network",
            reason: error.to_string(),
        };
        let network = self.spec.blank(task).map_err(failed)?;
        let replica = BurnReplica::new(network, task, config).map_err(failed)?;
        Ok(Box::new(replica.with_precision(precision(self.convolution))))
    }

    /// That so many images can be kept.
    fn ensure_room(&self, images: usize) -> Result<(), Failure> {
        let bytes = images.saturating_mul(self.source.shape.len()).saturating_mul(4);
        if bytes <= MOST_MEMORY {
            return Ok(());
        }
        let (found, most) = (bytes >> 30, MOST_MEMORY >> 30);
        Err(Failure::usage(format!(
            "--images: {images} images take {found} GiB of memory, expected at most {most}"
        )))
    }

    /// Images of a split, at most so many: then each class has its share.
    pub(crate) fn images(
        &self,
        split: Split,
        most: Option<NonZeroUsize>,
    ) -> Result<Vec<Batch>, Failure> {
        let splits = &self.source.splits;
        let subset = match split {
            Split::Train => &splits.train,
            Split::Validation => &splits.validation,
            Split::Test => &splits.test,
        };
        self.ensure_room(most.map_or(subset.len(), NonZeroUsize::get).min(subset.len()))?;
        let some = match most.filter(|most| most.get() < subset.len()) {
            Some(most) => subset.hold_out(most.get(), self.seed, Part::Train)?.0,
            None => subset.clone(),
        };
        let batches = EvaluationBatches::new(some, self.source.transform.clone(), self.batch);
        Ok(batches.collect::<Result<_, DataError>>()?)
    }

    /// Training images in random order, in batches of the training size: all of them, or the
    /// batches that hold so many.
    pub(crate) fn shuffled(
        &self,
        most: Option<NonZeroUsize>,
        views: Views,
    ) -> Result<Vec<Batch>, Failure> {
        let transform = match views {
            Views::Plain => self.source.transform.without_augmentation(),
            Views::Augmented => self.source.transform.clone(),
        };
        let train = self.source.splits.train.clone();
        self.ensure_room(most.map_or(train.len(), NonZeroUsize::get).min(train.len()))?;
        let count = most.map_or(usize::MAX, |most| most.get().div_ceil(self.batch.get()));
        let batches = RecalibrationBatches::new(train, transform, self.batch, self.seed);
        // Of a batch whose images cannot be read nothing is left.
        let some = batches.filter(|batch| !batch.as_ref().is_ok_and(Batch::is_empty)).take(count);
        Ok(some.collect::<Result<_, DataError>>()?)
    }
}
