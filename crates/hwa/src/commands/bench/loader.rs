//! `hwa bench loader`: images per second of loading, and what loading costs a training step.
//!
//! The cost is measured, not computed: the same replicas take steps on one batch that lies
//! there, and on batches that a loader makes beside them, in turn.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Instant;

use hwa_data::{
    Ahead, Batch, DataError, ImageShape, OpenOptions, Position, Source, Subset, TrainingBatches,
    Transform,
};
use hwa_nn::{ModelSpec, Origin, SgdConfig, Task};
use hwa_train::{Replica, Step};
use serde_json::json;

use super::step::all_at_once;
use super::{made_up, median};
use crate::arguments::BenchLoader;
use crate::environment;
use crate::failure::Failure;
use crate::opened;
use crate::output::give;

const RATE: f64 = 0.05;
/// As many batches ahead as in training.
const AHEAD: usize = 3;
/// Made-up images: as CIFAR's, but fewer.
const MADE_UP: usize = 10_000;
const SHAPE: ImageShape = ImageShape { height: 32, width: 32, channels: 3 };
const CLASSES: usize = 100;
/// Steps on one batch, then as many on a loader's, and again.
const TURNS: usize = 3;

/// What is loaded.
struct Images {
    name: String,
    train: Subset,
    transform: Transform,
    task: Task,
    /// The data set, if it is not made up.
    source: Option<Source>,
}

impl Images {
    /// The data set that was named, or made-up images as CIFAR's.
    fn new(arguments: &BenchLoader) -> Result<Self, Failure> {
        let Some(name) = &arguments.data else {
            let task = Task { images: SHAPE, classes: CLASSES };
            let (train, transform) = (made_up::images(task, MADE_UP)?, made_up::transform(task)?);
            let name = "made-up images of 32 x 32".to_owned();
            return Ok(Self { name, train, transform, task, source: None });
        };
        let source = hwa_data::open(name, arguments.data_dir.as_deref(), &OpenOptions::default())?;
        Ok(Self {
            name: name.clone(),
            train: source.splits.train.clone(),
            transform: source.transform.clone(),
            task: opened::task(&source),
            source: Some(source),
        })
    }

    fn unreadable(&self) -> usize {
        self.source.as_ref().map_or(0, |source| source.unreadable().len())
    }
}

/// Images per second of one kind of work.
struct Speeds {
    /// Loading alone.
    loader: f64,
    /// Steps on one batch that lies there.
    fixed: f64,
    /// Steps on loaded batches.
    loaded: f64,
}

/// Runs the command.
pub(crate) fn run(arguments: &BenchLoader) -> Result<(), Failure> {
    let images = Images::new(arguments)?;
    let loader = loading(arguments, &images)?;
    let speeds = match arguments.model.as_deref() {
        Some(model) => {
            let (fixed, loaded) = stepping(arguments, &images, model.parse()?)?;
            Some(Speeds { loader, fixed, loaded })
        }
        None => None,
    };
    let cost = speeds.as_ref().map(|speeds| 100.0 * (speeds.fixed / speeds.loaded - 1.0));
    if arguments.json {
        give(json!({
            "data": images.name, "batch": arguments.batch, "replicas": arguments.replicas,
            "images_per_second": loader, "model": arguments.model,
            "step_images_per_second": speeds.as_ref().map(|speeds| speeds.fixed),
            "loaded_step_images_per_second": speeds.as_ref().map(|speeds| speeds.loaded),
            "cost_percent": cost, "peak_rss_mb": environment::peak_memory_mb(),
            "unreadable_images": images.unreadable(),
        }));
        return Ok(());
    }
    give(format_args!(
        "{}: {loader:.0} images/s loaded and augmented for {} replicas",
        images.name, arguments.replicas
    ));
    if let (Some(speeds), Some(cost), Some(model)) = (speeds, cost, &arguments.model) {
        give(format_args!(
            "{model}: {:.1} images/s on one batch, {:.1} on loaded ones: loading costs {cost:.1} %, \
             and {:.1} % of a step's time by itself",
            speeds.fixed,
            speeds.loaded,
            100.0 * speeds.fixed / speeds.loader
        ));
    }
    Ok(())
}

/// Batches of one replica.
fn batches(
    arguments: &BenchLoader,
    images: &Images,
    replica: usize,
) -> Result<TrainingBatches, DataError> {
    let from = Position { seed: 1, replica: replica as u32, step: 0 };
    let (train, transform) = (images.train.clone(), images.transform.clone());
    TrainingBatches::new(train, transform, arguments.batch, from)
}

/// Every replica's loader by itself, all at once.
fn loading(arguments: &BenchLoader, images: &Images) -> Result<f64, Failure> {
    let batch = arguments.batch.get();
    let count = arguments.images.get().div_ceil(batch);
    let load = &|replica: usize| -> Result<usize, DataError> {
        let mut batches = batches(arguments, images, replica)?;
        let loaded = batches.by_ref().take(count).map(|batch| Ok(batch?.len()));
        loaded.sum::<Result<usize, DataError>>()
    };
    let began = Instant::now();
    let loaded = thread::scope(|scope| {
        let replicas = 0..arguments.replicas.get();
        let threads: Vec<_> = replicas.map(|replica| scope.spawn(move || load(replica))).collect();
        let outcomes = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => Err(DataError::Panicked { message: "in a benchmark".to_owned() }),
        });
        outcomes.sum::<Result<usize, DataError>>()
    })?;
    Ok(loaded as f64 / began.elapsed().as_secs_f64())
}

/// Steps on one batch and on loaded ones, in turn; images per second of each, by the
/// median step.
fn stepping(
    arguments: &BenchLoader,
    images: &Images,
    spec: ModelSpec,
) -> Result<(f64, f64), Failure> {
    let task = images.task;
    let medians = all_at_once(arguments.replicas.get(), |number, start| {
        opened::on_threads(Some(arguments.threads), || {
            let mut replica = Stepper::new(spec, task, number)?;
            let mut loaded = Ahead::spawn(batches(arguments, images, number)?, AHEAD)?;
            let first = next(&mut loaded)?;
            for _ in 0..3 {
                replica.step(&first)?;
            }
            if !start.wait() {
                return Ok(None);
            }
            let (mut fixed_times, mut loaded_times) = (Vec::new(), Vec::new());
            for _ in 0..TURNS {
                replica.turn(arguments.steps, &mut fixed_times, || Ok(None), &first)?;
                let next = || next(&mut loaded).map(Some);
                replica.turn(arguments.steps, &mut loaded_times, next, &first)?;
            }
            Ok(Some((median(fixed_times), median(loaded_times))))
        })
    })?;
    let speed = |seconds: f64| arguments.batch.get() as f64 / seconds;
    let fixed = medians.iter().map(|(fixed, _)| speed(*fixed)).sum();
    let loaded = medians.iter().map(|(_, loaded)| speed(*loaded)).sum();
    Ok((fixed, loaded))
}

fn next(batches: &mut Ahead) -> Result<Batch, Failure> {
    Ok(batches.next().ok_or(DataError::NoExamples)??)
}

/// A replica that counts its steps.
struct Stepper {
    replica: Box<dyn Replica>,
    position: Position,
}

impl Stepper {
    fn new(spec: ModelSpec, task: Task, number: usize) -> Result<Self, Failure> {
        let config = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };
        let (seed, number) = (1, number as u32);
        let replica = spec.build(task, Origin { seed, replica: number }, config)?;
        let position = Position { seed, replica: number, step: 0 };
        Ok(Self { replica: Box::new(replica), position })
    }

    fn step(&mut self, batch: &Batch) -> Result<(), Failure> {
        self.replica.step(batch, Step { rate: RATE, position: self.position })?;
        self.position.step += 1;
        Ok(())
    }

    /// Steps on what `next` gives, or else on `fixed`, each with its time.
    fn turn(
        &mut self,
        steps: NonZeroUsize,
        seconds: &mut Vec<f64>,
        mut next: impl FnMut() -> Result<Option<Batch>, Failure>,
        fixed: &Batch,
    ) -> Result<(), Failure> {
        for _ in 0..steps.get() {
            let began = Instant::now();
            let batch = next()?;
            self.step(batch.as_ref().unwrap_or(fixed))?;
            seconds.push(began.elapsed().as_secs_f64());
        }
        Ok(())
    }
}
