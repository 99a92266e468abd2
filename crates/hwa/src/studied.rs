//! What is looked into: a network on images, with the weights of a run or of files.

use std::num::NonZeroUsize;
use std::path::Path;

use hwa_data::{
    Batch, DataError, EvaluationBatches, OpenOptions, Part, RecalibrationBatches, Source, Subset,
};
use hwa_nn::{BurnReplica, ModelSpec, SgdConfig, Task};
use hwa_store::RunDir;
use hwa_train::{Convolution, Data, Experiment, Replica, ReplicaError};
use serde_json::{Map, Value, json};

use crate::arguments::{Split, StudyOf};
use crate::failure::Failure;
use crate::opened::{precision, task};
use crate::pages;
use crate::shelf::Shelf;

/// What images may take in memory.
const MOST_MEMORY: usize = 16 << 30;
/// Images of a split that are compared with those of an earlier look, evenly apart.
const COMPARED: usize = 64;

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
                let (text, path) = RunDir::stored_experiment(run)?;
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

    /// Everything that what is measured on images of some splits depends on, but for the weights:
    /// if any of it differs, readings are of something else. Where the data lie and how they are
    /// read is no part of it.
    pub(crate) fn identity(&self, splits: &[Split]) -> Result<Value, Failure> {
        let data = match &self.experiment {
            Some(experiment) => experiment.data.clone(),
            None => Data { dataset: self.data.clone(), ..Data::default() },
        };
        let data = Data { dir: None, decoders: None, cache_mib: 0, ..data };
        let mut contents = Map::new();
        for split in splits {
            let content = format!("{:08x}", checksum(self.subset(*split))?);
            contents.insert(split.word().to_owned(), content.into());
        }
        let sizes = [Split::Train, Split::Validation, Split::Test].map(|s| self.subset(s).len());
        Ok(json!({
            "network": self.spec.to_string(),
            "convolution": self.convolution,
            "data": data,
            "files": self.source.digest,
            "sizes": sizes,
            "contents": contents,
            "batch": self.batch,
            "seed": self.seed,
            "arithmetic": hwa_nn::arithmetic(),
        }))
    }

    fn subset(&self, split: Split) -> &Subset {
        let splits = &self.source.splits;
        match split {
            Split::Train => &splits.train,
            Split::Validation => &splits.validation,
            Split::Test => &splits.test,
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
        let subset = self.subset(split);
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

/// A number that tells images apart: by all classes, and by the pixels of some.
fn checksum(subset: &Subset) -> Result<u32, DataError> {
    let mut hasher = crc32fast::Hasher::new();
    for i in 0..subset.len() {
        hasher.update(&subset.label(i)?.to_le_bytes());
    }
    for i in (0..subset.len()).step_by(subset.len().div_ceil(COMPARED).max(1)) {
        match subset.get(i) {
            Ok(example) => hasher.update(&example.pixels),
            // Whether that ends the work is decided where images are looked at.
            Err(_) => hasher.update(b"cannot be read"),
        }
    }
    Ok(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(sets: &[String]) -> Studied {
        let experiment = Experiment::parse("", Path::new("test.toml"), sets).unwrap();
        let options = experiment.data.options();
        let source = hwa_data::open("digits", None, &options).unwrap();
        let spec: ModelSpec = "resnet8".parse().unwrap();
        Studied {
            spec,
            convolution: Convolution::default(),
            data: "digits".to_owned(),
            shelf: Shelf::new(None, spec, task(&source)),
            source,
            seed: 1,
            batch: NonZeroUsize::MIN,
            experiment: Some(experiment),
        }
    }

    #[test]
    fn what_images_are_and_how_they_are_seen_is_told_apart_and_where_they_lie_is_not() {
        let all = [Split::Train, Split::Test];
        let of = |set: &[&str]| {
            let sets: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
            digits(&sets).identity(&all).unwrap()
        };
        let plain = of(&[]);
        assert_eq!(plain, of(&[]));
        assert_eq!(plain, of(&["data.dir=\"elsewhere\"", "data.decoders=3", "data.cache_mib=1"]));
        for other in ["data.train_examples=100", "data.validation=300", "data.pad=3"] {
            assert_ne!(plain, of(&[other]), "{other}");
        }
        assert_ne!(plain, digits(&[]).identity(&all[..1]).unwrap());
        // As many images of the same classes, but others.
        let Studied { source, .. } = digits(&[]);
        let train = &source.splits.train;
        let (some, rest) = train.hold_out(train.len() / 2, 1, Part::Train).unwrap();
        assert_ne!(checksum(&some).unwrap(), checksum(&rest).unwrap());
    }
}
