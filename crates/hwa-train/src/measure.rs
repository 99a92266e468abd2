//! Re-estimating statistics and evaluating, on a replica of its own.

use std::num::NonZeroUsize;

use hwa_core::Weights;
use hwa_data::{
    Ahead, Batch, DataError, EvaluationBatches, RecalibrationBatches, Subset, Transform,
};

use crate::event::Evaluation;
use crate::replica::{Recalibration, Replica, ReplicaError, State, Tally};
use crate::settings::Settings;

/// Batches that are made while the network is at work.
const AHEAD: usize = 2;

/// How weights are made ready and measured: the same way for every cycle, with
/// the same images, so that differences are the weights' own.
pub(crate) struct Bench<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) transform: &'a Transform,
    pub(crate) train: &'a Subset,
    /// Asked before every batch; true ends the work with an error.
    pub(crate) cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Bench<'_> {
    /// Loads averaged parameters and re-estimates their statistics.
    pub(crate) fn prepare(
        &self,
        replica: &mut dyn Replica,
        weights: &Weights,
    ) -> Result<Recalibration, ReplicaError> {
        replica.load(weights)?;
        let transform = match self.settings.evaluate.augment {
            true => self.transform.clone(),
            false => self.transform.without_augmentation(),
        };
        let (train, batch) = (self.train.clone(), self.settings.batch);
        let batches = RecalibrationBatches::new(train, transform, batch, self.settings.seed);
        let batches = Ahead::spawn(batches, AHEAD)?;
        let mut batches = batches.take_while(|_| !(self.cancelled)());
        replica.recalibrate(&mut batches, self.settings.evaluate.tolerance)
    }

    /// Evaluates what the replica holds.
    pub(crate) fn evaluate(
        &self,
        replica: &mut dyn Replica,
        split: &Subset,
        recalibration: Option<Recalibration>,
    ) -> Result<Evaluation, ReplicaError> {
        let (split, transform) = (split.clone(), self.transform.clone());
        let batches = EvaluationBatches::new(split, transform, self.settings.batch);
        let batches = Ahead::spawn(batches, AHEAD)?;
        let tally = tally(replica, batches.take_while(|_| !(self.cancelled)()))?;
        Ok(Evaluation::new(&tally, recalibration))
    }

    /// Evaluates a complete model, with the statistics it has.
    pub(crate) fn evaluate_model(
        &self,
        replica: &mut dyn Replica,
        model: &Weights,
        split: &Subset,
    ) -> Result<Evaluation, ReplicaError> {
        // A state has momentum; a model that is only evaluated needs none of its own.
        let momentum = replica.momentum()?;
        replica.restore(&State { weights: model.clone(), momentum })?;
        self.evaluate(replica, split, None)
    }
}

/// One pass over a split, with the statistics that the replica holds.
pub fn evaluate(
    replica: &mut dyn Replica,
    split: &Subset,
    transform: &Transform,
    batch: NonZeroUsize,
) -> Result<Tally, ReplicaError> {
    let batches = EvaluationBatches::new(split.clone(), transform.clone(), batch);
    let total = tally(replica, Ahead::spawn(batches, AHEAD)?)?;
    match total.images {
        0 => Err(ReplicaError::Batch {
            what: "number of images to evaluate",
            expected: "at least 1".to_owned(),
            found: "0".to_owned(),
        }),
        _ => Ok(total),
    }
}

fn tally(
    replica: &mut dyn Replica,
    batches: impl Iterator<Item = Result<Batch, DataError>>,
) -> Result<Tally, ReplicaError> {
    let mut total = Tally::default();
    for batch in batches {
        total.add(&replica.evaluate(&batch?)?);
    }
    Ok(total)
}
