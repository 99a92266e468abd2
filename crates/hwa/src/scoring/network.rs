//! What a network of the zoo says that an average is worth: its accuracy on validation images,
//! with batch-norm statistics of its own.

use std::num::NonZeroUsize;
use std::path::Path;

use hwa_core::{PrefixSums, Role, Weights, WeightsError};
use hwa_data::{Ahead, Batch, RecalibrationBatches};
use hwa_nn::Head;
use hwa_store::{Averaging, Window, write_tensors};
use hwa_train::{EvaluateTable, Evaluation, Replica, Tally};
use serde_json::{Map, Value, json};

use super::{Goal, Look, Measured, RE_ESTIMATED, Scorer, Subject};
use crate::arguments::{Scoring, Split, StudyOf};
use crate::failure::Failure;
use crate::opened::fitted;
use crate::output::tell;
use crate::studied::{Studied, Views};

/// Batches that are made while the network is at work.
const AHEAD: usize = 2;
/// Shorter windows are read as fast as sums are subtracted.
const FEWEST: usize = 5;

/// Measures averages on a network.
pub(super) struct NetworkScorer<'a> {
    averaging: &'a Averaging<'a>,
    studied: Studied,
    replica: Box<dyn Replica>,
    /// Training images that statistics are screened with.
    screening: Vec<Batch>,
    screening_images: NonZeroUsize,
    validation: Vec<Batch>,
    /// Read after the choice, not before.
    test: Vec<Batch>,
    /// Why test images are not to be read.
    sealed: Option<&'static str>,
    evaluate: EvaluateTable,
    sums: Sums,
    /// The members whose average the replica holds, with full statistics.
    held: Vec<usize>,
    cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// Prefix sums over the series: they rank, and make no result.
enum Sums {
    /// Not asked for yet.
    Unknown,
    /// They would take too much memory.
    TooLarge,
    /// They are there.
    There(PrefixSums),
}

impl<'a> NetworkScorer<'a> {
    pub(super) fn new(how: &Scoring, subject: Subject<'a>) -> Result<Self, Failure> {
        if how.maximize || how.minimize {
            return Err(Failure::usage(
                "--maximize and --minimize are for --eval: networks are scored by accuracy",
            ));
        }
        // What is given by hand goes before what the run says.
        let run = subject.run.filter(|_| how.model.is_none());
        let unfinished = run.as_ref().is_some_and(|run| !run.join("summary.json").is_file());
        let (model, data) = (how.model.clone(), how.data.clone());
        let (data_dir, batch) = (how.data_dir.clone(), how.batch);
        let studied = Studied::new(&StudyOf { run, model, data, data_dir, batch, threads: None })?;
        let evaluate = match &studied.experiment {
            Some(experiment) => experiment.evaluate.clone(),
            None => EvaluateTable::default(),
        };
        let splits = &studied.source.splits;
        if splits.validation.is_empty() {
            return Err(Failure::usage(
                "there are no validation images (data.validation = 0): nothing to choose by",
            ));
        }
        let sealed = match (unfinished, splits.test.is_empty()) {
            (true, _) => Some("the run is not finished, and test images are for after its choice"),
            (_, true) => Some("the data set has no test images"),
            _ => None,
        };
        if studied.experiment.is_none() {
            let (data, count) = (&studied.data, splits.validation.len());
            tell(format_args!(
                "scored on the {count} validation images of the default split of {data}: of checkpoints \
                 that were trained on some of them, all scores are too good, and the choice is \
                 worth little"
            ));
        }
        let views = if evaluate.augment { Views::Augmented } else { Views::Plain };
        Ok(Self {
            averaging: subject.averaging,
            replica: studied.blank()?,
            screening: studied.shuffled(Some(subject.screening_images), views)?,
            screening_images: subject.screening_images,
            validation: studied.images(Split::Validation, None)?,
            test: Vec::new(),
            sealed,
            evaluate,
            sums: Sums::Unknown,
            held: Vec::new(),
            cancelled: subject.cancelled,
            studied,
        })
    }

    /// The average as it is screened: by prefix sums where they are there and save anything.
    fn approximate(&mut self, window: &Window) -> Result<Weights, Failure> {
        let members = window.members();
        let stretch = match members {
            [first, .., last] if last - first + 1 == members.len() => Some(*first..last + 1),
            _ => None,
        };
        if let Some(stretch) = stretch.filter(|stretch| stretch.len() >= FEWEST) {
            if let Sums::Unknown = self.sums {
                self.sums = self.summed()?;
            }
            let wrong = |error: WeightsError| Failure::Run(error.into());
            if let Sums::There(sums) = &self.sums
                && let Some(mean) = sums.mean(stretch).map_err(wrong)?
            {
                return Ok(mean);
            }
        }
        Ok(self.averaging.weights(window)?)
    }

    /// One pass over the series.
    fn summed(&self) -> Result<Sums, Failure> {
        let series = self.averaging.series;
        let mut sums = PrefixSums::default();
        for place in 0..series.len() {
            let member = self.averaging.weights(&series.selection(&[place])?)?;
            let bytes = PrefixSums::num_bytes(series.len(), member.num_elements());
            if bytes > self.averaging.limits.max_memory {
                return Ok(Sums::TooLarge);
            }
            sums.push(&member).map_err(|error| Failure::Run(error.into()))?;
        }
        Ok(Sums::There(sums))
    }

    /// Loads an average into the network; names and types of others are made the network's own.
    fn load(&mut self, found: Weights, window: &Window) -> Result<(), Failure> {
        let newest = window.members().last().copied().unwrap_or_default();
        let path = self.averaging.series.paths().nth(newest).unwrap_or(Path::new(""));
        let Studied { spec, .. } = self.studied;
        let fitted = fitted(found, path, spec, self.studied.task(), Head::Kept);
        let weights = fitted.map_err(|unusable| unusable.failure(""))?.weights;
        self.held.clear();
        Ok(self.replica.load(&weights.only(Role::Parameter))?)
    }

    /// Weights and statistics as they will be used: as the judge of a run has them.
    fn prepare(&mut self, window: &Window) -> Result<(), Failure> {
        if self.held == window.members() {
            return Ok(());
        }
        self.load(self.averaging.weights(window)?, window)?;
        let Studied { source, batch, seed, .. } = &self.studied;
        let transform = match self.evaluate.augment {
            true => source.transform.clone(),
            false => source.transform.without_augmentation(),
        };
        let batches =
            RecalibrationBatches::new(source.splits.train.clone(), transform, *batch, *seed);
        let cancelled = self.cancelled;
        let mut batches = Ahead::spawn(batches, AHEAD)?.take_while(|_| !cancelled());
        let done = self.replica.recalibrate(&mut batches, self.evaluate.tolerance);
        // A pass that was cut short may have failed for that alone.
        self.go_on()?;
        done?;
        self.held = window.members().to_vec();
        Ok(())
    }

    fn screen(&mut self, window: &Window) -> Result<(), Failure> {
        let weights = self.approximate(window)?;
        self.load(weights, window)?;
        let cancelled = self.cancelled;
        let mut batches =
            self.screening.iter().take_while(|_| !cancelled()).map(|batch| Ok(batch.clone()));
        let done = self.replica.recalibrate(&mut batches, 0.0);
        self.go_on()?;
        done?;
        Ok(())
    }

    fn go_on(&self) -> Result<(), Failure> {
        match (self.cancelled)() {
            true => Err(Failure::Cancelled { advice: "nothing was written".to_owned() }),
            false => Ok(()),
        }
    }
}

impl Scorer for NetworkScorer<'_> {
    fn goal(&self) -> Goal {
        Goal::High
    }

    fn unit(&self) -> &'static str {
        "accuracy, %"
    }

    fn screens(&self) -> bool {
        true
    }

    fn tests(&self) -> Result<String, String> {
        self.sealed.map_or(Ok("test images".to_owned()), |reason| Err(reason.to_owned()))
    }

    fn statistics(&self) -> &'static str {
        RE_ESTIMATED
    }

    fn identity(&self) -> Map<String, Value> {
        let Studied { spec, convolution, data, source, seed, batch, .. } = &self.studied;
        let EvaluateTable { tolerance, augment, .. } = self.evaluate;
        let identity = json!({
            "model": spec.to_string(), "convolution": convolution, "data": data, "seed": seed,
            "batch": batch, "tolerance": tolerance, "augment": augment,
            "train": source.splits.train.len(), "validation": source.splits.validation.len(),
            "screening_images": self.screening_images, "arithmetic": hwa_nn::arithmetic(),
        });
        match identity {
            Value::Object(identity) => identity,
            _ => Map::new(),
        }
    }

    fn measure(&mut self, window: &Window, look: Look) -> Result<Measured, Failure> {
        match look {
            Look::Screening => self.screen(window)?,
            Look::Full | Look::Test => self.prepare(window)?,
        }
        if look == Look::Test && self.test.is_empty() {
            self.test = self.studied.images(Split::Test, None)?;
        }
        let images = if look == Look::Test { &self.test } else { &self.validation };
        let mut total = Tally::default();
        for batch in images {
            self.go_on()?;
            total.add(&self.replica.evaluate(batch)?);
        }
        let Evaluation { top1, loss, images, .. } = Evaluation::new(&total, None);
        let loss = Some(loss).filter(|loss| loss.is_finite());
        Ok(Measured { score: top1, loss, images: Some(images) })
    }

    fn save(&mut self, window: &Window, path: &Path) -> Result<(), Failure> {
        self.prepare(window)?;
        let mut metadata = self.averaging.metadata(window);
        metadata.insert("statistics".to_owned(), RE_ESTIMATED.into());
        Ok(write_tensors(path, &self.replica.state()?.weights, &metadata)?)
    }
}
