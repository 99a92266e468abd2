//! What several commands open: a data set, a network for it, weights for both.

use std::num::NonZeroUsize;
use std::path::Path;

use hwa_core::{Role, Weights};
use hwa_data::{RecalibrationBatches, Source};
use hwa_nn::{ModelSpec, Origin, SgdConfig, Task};
use hwa_store::{Metadata, read_tensors};
use hwa_train::{Recalibration, Replica, State};

use crate::arguments::Subject;
use crate::failure::Failure;

/// The task that a data set sets.
pub(crate) fn task(source: &Source) -> Task {
    Task { images: source.shape, classes: source.num_classes }
}

/// A network without a past, for weights that come from elsewhere.
pub(crate) fn blank(model: &str, task: Task) -> Result<Box<dyn Replica>, Failure> {
    let spec: ModelSpec = model.parse()?;
    let config = SgdConfig { momentum: 0.0, weight_decay: 0.0 };
    Ok(spec.build(task, Origin { seed: 0, replica: 0 }, config)?)
}

/// Reads weights from a file.
pub(crate) fn weights(path: &Path) -> Result<(Weights, Metadata), Failure> {
    Ok(read_tensors(path)?)
}

/// Whether the file holds a complete model, or parameters alone.
pub(crate) fn is_complete(weights: &Weights) -> bool {
    weights.iter().any(|(_, tensor)| tensor.role() != Role::Parameter)
}

/// Loads a complete model.
pub(crate) fn load_complete(
    replica: &mut dyn Replica,
    subject: &Subject,
    weights: Weights,
) -> Result<(), Failure> {
    let momentum = replica.momentum()?;
    replica.restore(&State { weights, momentum }).map_err(|error| in_file(subject, error))
}

/// Loads parameters and re-estimates the statistics that go with them.
pub(crate) fn load_and_recalibrate(
    replica: &mut dyn Replica,
    subject: &Subject,
    weights: &Weights,
    batches: RecalibrationBatches,
    tolerance: f64,
) -> Result<Recalibration, Failure> {
    replica.load(&weights.only(Role::Parameter)).map_err(|error| in_file(subject, error))?;
    Ok(replica.recalibrate(&mut { batches }, tolerance)?)
}

fn in_file(subject: &Subject, error: hwa_train::ReplicaError) -> Failure {
    let place = format!("{} as {}", subject.weights.display(), subject.model);
    Failure::Run(anyhow::Error::new(error).context(place))
}

/// Runs `work` on a pool of so many threads, or one per core.
pub(crate) fn on_threads<T: Send>(
    threads: Option<NonZeroUsize>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.map_or(0, NonZeroUsize::get))
        .build()
        .map_err(|error| Failure::Run(error.into()))?;
    pool.install(work)
}
