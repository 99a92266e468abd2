//! Batches: endless and shuffled for training, one pass for statistics or evaluation.
//!
//! Order and augmentation are addressed by epoch and position, not drawn from a
//! running stream, so a loader can start at any step and gives the batches that
//! it would have given had it started at the first. Partial last batches are kept.

use std::num::NonZeroUsize;
use std::ops::Range;

use hwa_core::seed::{Purpose, Random};

use crate::batch::Batch;
use crate::collect::Images;
use crate::developer::Developer;
use crate::error::DataError;
use crate::subset::Subset;
use crate::transform::Transform;

/// How many batches one pass over the examples takes, the partial last one included.
pub fn steps_per_epoch(examples: usize, batch: NonZeroUsize) -> u64 {
    examples.div_ceil(batch.get()) as u64
}

/// The endless training batches of one replica.
///
/// Step `t` belongs to epoch `t / steps_per_epoch`. The order of an epoch comes from
/// `(seed, replica, epoch)`, the augmentation of an image from
/// `(seed, replica, epoch, position in that order)`.
#[derive(Debug, Clone)]
pub struct TrainingBatches {
    subset: Subset,
    developer: Developer,
    batch: NonZeroUsize,
    seed: u64,
    replica: u32,
    step: u64,
    order: Vec<usize>,
    order_of: Option<u64>, // the epoch that `order` is for
}

/// Where in a run's stream of batches a loader starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The seed of the run.
    pub seed: u64,
    /// The number of the model, which has its own order.
    pub replica: u32,
    /// The step of the first batch, counted from 0 over all epochs.
    pub step: u64,
}

impl TrainingBatches {
    /// Batches from a position on.
    pub fn new(
        subset: Subset,
        transform: Transform,
        batch: NonZeroUsize,
        from: Position,
    ) -> Result<Self, DataError> {
        if subset.is_empty() {
            return Err(DataError::NoExamples);
        }
        Ok(Self {
            subset,
            developer: Developer::new(&transform),
            batch,
            seed: from.seed,
            replica: from.replica,
            step: from.step,
            order: Vec::new(),
            order_of: None,
        })
    }

    /// The step of the next batch.
    pub fn step(&self) -> u64 {
        self.step
    }

    fn enter(&mut self, epoch: u64) {
        if self.order_of != Some(epoch) {
            let mut random = Random::new(self.seed, self.replica, Purpose::Order, [epoch, 0]);
            // From the sorted order, not from the last epoch's: no epoch depends on another.
            self.order.clear();
            self.order.extend(0..self.subset.len());
            random.shuffle(&mut self.order);
            self.order_of = Some(epoch);
        }
    }
}

impl Iterator for TrainingBatches {
    type Item = Result<Batch, DataError>;

    /// The next batch, for ever. One that cannot be read counts as a step all the same.
    fn next(&mut self) -> Option<Self::Item> {
        let steps = steps_per_epoch(self.subset.len(), self.batch);
        let (epoch, step) = (self.step / steps, self.step % steps);
        self.step = self.step.saturating_add(1);
        self.enter(epoch);
        let positions = positions(step as usize, self.subset.len(), self.batch);
        let images = Images { subset: &self.subset, order: Some(&self.order) };
        Some(images.developed(&self.developer, positions, |position| {
            let at = [epoch, position as u64];
            Some(Random::new(self.seed, self.replica, Purpose::Augment, at))
        }))
    }
}

/// One pass over training images in a shuffled order, for batch-norm statistics.
///
/// In training mode every batch is normalised by its own statistics, so these batches
/// have to look like those that the weights were trained on: class-mixed, of the
/// training batch size, and augmented. To measure what augmentation is worth, hand in
/// [`Transform::without_augmentation`]. The same seed gives the same batches.
#[derive(Debug, Clone)]
pub struct RecalibrationBatches {
    subset: Subset,
    developer: Developer,
    batch: NonZeroUsize,
    seed: u64,
    step: usize,
    order: Vec<usize>,
}

impl RecalibrationBatches {
    /// One shuffled pass, in batches of `batch`.
    pub fn new(subset: Subset, transform: Transform, batch: NonZeroUsize, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..subset.len()).collect();
        Random::new(seed, 0, Purpose::Recalibrate, [0, 0]).shuffle(&mut order);
        Self { subset, developer: Developer::new(&transform), batch, seed, step: 0, order }
    }
}

impl Iterator for RecalibrationBatches {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let positions = positions(self.step, self.subset.len(), self.batch);
        if positions.is_empty() {
            return None;
        }
        self.step += 1;
        let images = Images { subset: &self.subset, order: Some(&self.order) };
        Some(images.developed(&self.developer, positions, |position| {
            // Coordinates [0, 0] are the order's.
            let at = [1, position as u64];
            Some(Random::new(self.seed, 0, Purpose::Recalibrate, at))
        }))
    }
}

/// One pass in order, without augmentation.
#[derive(Debug, Clone)]
pub struct EvaluationBatches {
    subset: Subset,
    developer: Developer,
    batch: NonZeroUsize,
    step: usize,
}

impl EvaluationBatches {
    /// One pass, in batches of `batch`; of the transform, nothing that is random is used.
    pub fn new(subset: Subset, transform: Transform, batch: NonZeroUsize) -> Self {
        let developer = Developer::new(&transform.without_augmentation());
        Self { subset, developer, batch, step: 0 }
    }
}

impl Iterator for EvaluationBatches {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let images = Images { subset: &self.subset, order: None };
        loop {
            let positions = positions(self.step, self.subset.len(), self.batch);
            if positions.is_empty() {
                return None;
            }
            self.step += 1;
            let batch = images.developed(&self.developer, positions, |_| None);
            // Of a last batch with one bad image nothing is left.
            if !batch.as_ref().is_ok_and(Batch::is_empty) {
                return Some(batch);
            }
        }
    }
}

/// The positions of one step of a pass; none once the pass is over.
fn positions(step: usize, examples: usize, batch: NonZeroUsize) -> Range<usize> {
    let start = step.saturating_mul(batch.get()).min(examples);
    start..start.saturating_add(batch.get()).min(examples)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::dataset::{Dataset, Example, ImageShape};
    use crate::memory::InMemory;
    use crate::transform::{Augment, Channel, Crop, Normalise};

    /// Images of 2x2 whose pixels and labels tell their number.
    fn numbered(count: usize) -> Subset {
        let shape = ImageShape { height: 2, width: 2, channels: 1 };
        let pixels = (0..count).flat_map(|i| [4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3]);
        let pixels = pixels.map(|value| value as u8).collect();
        let labels = (0..count as u32).collect();
        Subset::all(Arc::new(InMemory::new(shape, count, pixels, labels).unwrap()))
    }

    fn transform() -> Transform {
        let normalise = Normalise::new(vec![Channel { mean: 0.0, std: 1.0 / 255.0 }]).unwrap();
        let augment = Augment { crop: Crop::Random { pad: 1 }, flip: true, cutout: 0 };
        Transform { augment, ..Transform::plain(normalise) }
    }

    fn size(batch: usize) -> NonZeroUsize {
        NonZeroUsize::new(batch).unwrap()
    }

    fn training(count: usize, batch: usize, seed: u64, replica: u32, step: u64) -> TrainingBatches {
        let from = Position { seed, replica, step };
        TrainingBatches::new(numbered(count), transform(), size(batch), from).unwrap()
    }

    fn labels(batches: impl Iterator<Item = Result<Batch, DataError>>) -> Vec<Vec<u32>> {
        batches.map(|batch| batch.unwrap().labels).collect()
    }

    #[test]
    fn an_epoch_has_the_partial_batch() {
        assert_eq!(steps_per_epoch(50_000, size(128)), 391);
        assert_eq!(steps_per_epoch(45_000, size(128)), 352);
        assert_eq!(steps_per_epoch(0, size(128)), 0);
        let sizes: Vec<usize> =
            training(7, 3, 0, 0, 0).take(6).map(|batch| batch.unwrap().len()).collect();
        assert_eq!(sizes, [3, 3, 1, 3, 3, 1]);
    }

    proptest! {
        #[test]
        fn every_epoch_is_a_permutation(count in 1..60usize, batch in 1..70usize, seed: u64) {
            let steps = steps_per_epoch(count, size(batch)) as usize;
            let mut batches = labels(training(count, batch, seed, 0, 0).take(3 * steps));
            for _ in 0..3 {
                let epoch: Vec<u32> = batches.drain(..steps).flatten().collect();
                prop_assert_eq!(epoch.len(), count);
                let seen: BTreeSet<u32> = epoch.into_iter().collect();
                prop_assert_eq!(seen, (0..count as u32).collect::<BTreeSet<_>>());
            }
        }

        #[test]
        fn a_loader_started_at_a_step_equals_one_that_skipped_to_it(
            count in 1..30usize, batch in 1..40usize, seed: u64, replica in 0..4u32, step in 0..40u64,
        ) {
            let from_start = training(count, batch, seed, replica, 0).skip(step as usize);
            let resumed = training(count, batch, seed, replica, step);
            for (a, b) in from_start.zip(resumed).take(5) {
                prop_assert_eq!(a.unwrap(), b.unwrap());
            }
        }
    }

    #[test]
    fn replicas_seeds_and_epochs_have_orders_of_their_own() {
        let order = |seed, replica, step| labels(training(50, 50, seed, replica, step).take(1));
        let first = order(0, 0, 0);
        for other in [order(1, 0, 0), order(0, 1, 0), order(0, 0, 1)] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn an_image_is_augmented_anew_in_every_epoch() {
        let views: BTreeSet<Vec<u32>> = training(1, 1, 0, 0, 0)
            .take(100)
            .map(|batch| batch.unwrap().images.iter().map(|value| value.to_bits()).collect())
            .collect();
        // 9 offsets times 2, of which a blank image (only the 0 is left) may come twice.
        assert!(views.len() > 12, "{}", views.len());
    }

    #[test]
    fn the_last_step_there_is_does_not_panic() {
        assert!(training(5, 2, 0, 0, u64::MAX).nth(2).unwrap().is_ok());
    }

    #[test]
    fn evaluation_is_one_pass_in_order_without_augmentation() {
        let batches = EvaluationBatches::new(numbered(5), transform(), size(2));
        let batches: Vec<Batch> = batches.map(Result::unwrap).collect();
        assert_eq!(labels(batches.iter().cloned().map(Ok)), [vec![0, 1], vec![2, 3], vec![4]]);
        let values: Vec<f32> = batches.iter().flat_map(|b| &b.images).map(|v| v.round()).collect();
        assert_eq!(values, (0..20).map(|value| value as f32).collect::<Vec<f32>>());
        let mut none = EvaluationBatches::new(numbered(0), transform(), size(2));
        assert!(none.next().is_none());
    }

    #[test]
    fn recalibration_is_one_shuffled_augmented_pass_and_repeats_exactly() {
        let pass = |seed, transform| -> Vec<Batch> {
            let batches = RecalibrationBatches::new(numbered(40), transform, size(16), seed);
            batches.map(Result::unwrap).collect()
        };
        let batches = pass(0, transform());
        assert_eq!(batches, pass(0, transform()));
        assert_eq!(batches.iter().map(Batch::len).collect::<Vec<_>>(), [16, 16, 8]);
        let mut order: Vec<u32> = batches.iter().flat_map(|batch| batch.labels.clone()).collect();
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert_eq!(order, (0..40).collect::<Vec<u32>>());

        let plain = pass(0, transform().without_augmentation());
        for (augmented, plain) in batches.iter().zip(&plain) {
            assert_eq!(augmented.labels, plain.labels);
            assert_ne!(augmented.images, plain.images);
            for (image, label) in plain.images.chunks(4).zip(&plain.labels) {
                assert_eq!(image[0].round() as u32, 4 * label);
            }
        }
    }

    #[test]
    fn sorted_classes_are_mixed_for_recalibration() {
        // Ten classes of 100 in a row: no batch of 100 may be of few classes.
        let shape = ImageShape { height: 1, width: 1, channels: 1 };
        let sorted = InMemory::new(shape, 10, vec![0; 1000], (0..1000).map(|i| i / 100).collect());
        let sorted = Subset::all(Arc::new(sorted.unwrap()));
        for labels in labels(RecalibrationBatches::new(sorted, transform(), size(100), 0)) {
            assert!(labels.into_iter().collect::<BTreeSet<u32>>().len() == 10);
        }
    }

    #[test]
    fn no_examples_are_refused() {
        let from = Position { seed: 0, replica: 0, step: 0 };
        let empty = TrainingBatches::new(numbered(0), transform(), size(1), from);
        assert!(matches!(empty, Err(DataError::NoExamples)));
    }

    #[test]
    fn batches_never_change_between_versions() {
        // Written down from the first version: a change here changes every user's runs.
        let batch = training(6, 2, 1, 2, 4).next().unwrap().unwrap();
        assert_eq!(batch.labels, [1, 3]);
        let images: Vec<u8> = batch.images.iter().map(|value| value.round() as u8).collect();
        assert_eq!(images, [0, 7, 0, 0, 0, 12, 0, 14]);
    }

    /// A data set that does not keep its promises: example 1 is wider, or of no class.
    struct Careless {
        width: usize,
        label: u32,
    }

    impl Dataset for Careless {
        fn num_examples(&self) -> usize {
            2
        }

        fn num_classes(&self) -> usize {
            2
        }

        fn label(&self, _: usize) -> Result<u32, DataError> {
            Ok(self.label)
        }

        fn get(&self, index: usize) -> Result<Example<'_>, DataError> {
            let (width, label) = if index == 1 { (self.width, self.label) } else { (2, 0) };
            let shape = ImageShape { height: 2, width, channels: 1 };
            Ok(Example { pixels: Cow::Owned(vec![0; shape.len()]), shape, label })
        }
    }

    /// A data set of one image whose shape promises more, or less, than its pixels.
    struct Boastful(ImageShape);

    impl Dataset for Boastful {
        fn num_examples(&self) -> usize {
            1
        }

        fn num_classes(&self) -> usize {
            1
        }

        fn label(&self, _: usize) -> Result<u32, DataError> {
            Ok(0)
        }

        fn get(&self, _: usize) -> Result<Example<'_>, DataError> {
            Ok(Example { pixels: Cow::Borrowed(&[]), shape: self.0, label: 0 })
        }
    }

    #[test]
    fn absurd_shapes_become_errors() {
        for side in [0, 1, usize::MAX] {
            let shape = ImageShape { height: side, width: side, channels: 1 };
            let subset = Subset::all(Arc::new(Boastful(shape)));
            let batch = EvaluationBatches::new(subset, transform(), size(2)).next().unwrap();
            assert!(matches!(batch, Err(DataError::PixelsDiffer { found: 0, .. })));
        }
    }

    #[test]
    fn careless_data_sets_become_errors() {
        let first = |width, label| {
            let subset = Subset::all(Arc::new(Careless { width, label }));
            EvaluationBatches::new(subset, transform(), size(2)).next().unwrap()
        };
        assert!(first(2, 1).is_ok());
        assert!(matches!(first(3, 1), Err(DataError::ShapesDiffer { index: 1, .. })));
        let class = first(2, 2);
        assert!(matches!(class, Err(DataError::NotAClass { index: 1, label: 2, classes: 2 })));
        let counts = Subset::all(Arc::new(Careless { width: 2, label: 2 })).class_counts();
        assert!(matches!(counts, Err(DataError::NotAClass { index: 0, .. })));
    }
}
