//! `hwa bench landscape`: what a point of a landscape costs beyond its forward passes.
//!
//! The points of a plane around drawn weights, on made-up images, against as many forward passes
//! by as many threads with nothing around them: no weights to make, none to load, no statistics.

use std::num::NonZeroUsize;
use std::time::Instant;

use hwa_data::{Batch, DataError, EvaluationBatches};
use hwa_nn::{ModelSpec, Origin, SgdConfig, Task};
use hwa_study::{Direction, Frame, StudyError, Survey};
use hwa_train::{Replica, ReplicaError};
use serde_json::json;

use super::{made_up, median, task};
use crate::arguments::BenchLandscape;
use crate::failure::Failure;
use crate::output::give;

/// Runs the command.
pub(crate) fn run(arguments: &BenchLandscape) -> Result<(), Failure> {
    let spec: ModelSpec = arguments.model.parse()?;
    let task = task(spec, None, arguments.classes);
    let images = made_up::images(task, arguments.images.get())?;
    let transform = made_up::transform(task)?.without_augmentation();
    let batches = EvaluationBatches::new(images, transform, arguments.batch);
    let batches: Vec<Batch> = batches.collect::<Result<_, DataError>>()?;
    let threads = arguments.threads.or_else(|| std::thread::available_parallelism().ok());
    let threads = threads.unwrap_or(NonZeroUsize::MIN);
    let bench = Bench { spec, task, batches, threads, points: arguments.points.get() };
    bench.forward_passes()?;
    let (mut plain, mut measured) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds.get() {
        plain.push(bench.forward_passes()?);
        measured.push(bench.landscape()?);
    }
    let (plain, measured) = (median(plain), median(measured));
    let ratio = measured / plain;
    let passes = 2 * arguments.images.get() * arguments.points.get();
    let speed = passes as f64 / measured;
    if arguments.json {
        give(json!({
            "model": arguments.model, "points": arguments.points, "images": arguments.images,
            "threads": threads, "forward_seconds": plain, "landscape_seconds": measured,
            "ratio": ratio, "images_per_second": speed,
        }));
    } else {
        give(format_args!(
            "{}: {} points over {} images in {measured:.2} s, forward passes alone {plain:.2} s: \
             {ratio:.3} times as long ({speed:.0} images/s on {threads} threads)",
            arguments.model, arguments.points, arguments.images
        ));
    }
    Ok(())
}

struct Bench {
    spec: ModelSpec,
    task: Task,
    batches: Vec<Batch>,
    threads: NonZeroUsize,
    points: usize,
}

impl Bench {
    fn build(&self) -> Result<Box<dyn Replica>, ReplicaError> {
        let config = SgdConfig { momentum: 0.0, weight_decay: 0.0 };
        let built = self.spec.build(self.task, Origin { seed: 0, replica: 0 }, config);
        let replica = built.map_err(|error| ReplicaError::Framework {
            operation: "building the network",
            reason: error.to_string(),
        })?;
        Ok(Box::new(replica))
    }

    /// Seconds of the points of a plane.
    fn landscape(&self) -> Result<f64, Failure> {
        let weights = self.build()?.weights()?;
        let axes = (0..2).map(|number| Direction::random(&weights, 1, number));
        let frame = Frame::along(&weights, axes.collect::<Result<_, _>>()?);
        let survey = Survey {
            build: &|| self.build(),
            statistics: &self.batches,
            // No error is as small: every image is used.
            tolerance: 0.0,
            splits: std::slice::from_ref(&self.batches),
            threads: self.threads,
            cancelled: &|| false,
        };
        let points: Vec<usize> = (0..self.points).collect();
        let place = |point: usize| [point as f64 / 100.0, -(point as f64) / 200.0];
        let began = Instant::now();
        survey.measure(
            &points,
            |point| frame.at(&place(point)),
            |_, _| Ok::<(), StudyError>(()),
        )?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Seconds of as many forward passes, the points dealt out among the threads.
    fn forward_passes(&self) -> Result<f64, Failure> {
        let began = Instant::now();
        std::thread::scope(|scope| {
            let threads = self.threads.get().min(self.points);
            let workers: Vec<_> = (0..threads)
                .map(|worker| {
                    let points = (worker..self.points).step_by(threads).count();
                    scope.spawn(move || self.passes(points))
                })
                .collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(passed) => passed,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        Ok(began.elapsed().as_secs_f64())
    }

    fn passes(&self, points: usize) -> Result<(), Failure> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let pool = pool.map_err(|error| Failure::Run(error.into()))?;
        pool.install(|| {
            let mut replica = self.build()?;
            for _ in 0..2 * points {
                for batch in &self.batches {
                    replica.evaluate(batch)?;
                }
            }
            Ok(())
        })
    }
}
