//! `hwa bench step`: training steps on made-up images.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use hwa_core::seed::{Purpose, Random};
use hwa_data::{Batch, Position};
use hwa_nn::{ModelSpec, Origin, SgdConfig, Task};
use hwa_train::{Replica, Step};
use serde_json::json;

use super::{median, megabytes, task};
use crate::arguments::BenchStep;
use crate::environment;
use crate::failure::Failure;
use crate::opened;
use crate::output::give;

pub(super) const RATE: f64 = 0.05;

/// Runs the command.
pub(crate) fn run(arguments: &BenchStep) -> Result<(), Failure> {
    let steps = &arguments.steps;
    let spec: ModelSpec = steps.model.parse()?;
    let task = task(spec, steps.size, steps.classes);
    let medians = all_at_once(arguments.replicas.get(), |number, start| {
        opened::on_threads(Some(steps.threads), || {
            let config = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };
            let origin = Origin { seed: 1, replica: number as u32 };
            let mut replica = spec.build(task, origin, config)?;
            let batch = noise(task, steps.batch.get(), number as u32);
            let mut position = Position { seed: 1, replica: number as u32, step: 0 };
            for _ in 0..steps.warmup {
                replica.step(&batch, Step { rate: RATE, position })?;
                position.step += 1;
            }
            match start.wait() {
                true => median_step(steps.steps, &mut replica, &batch, position).map(Some),
                false => Ok(None),
            }
        })
    })?;
    let images = steps.batch.get() as f64;
    let images_per_second: f64 = medians.iter().map(|seconds| images / seconds).sum();
    let step_ms = medians.iter().copied().fold(0.0, f64::max) * 1e3;
    let peak = environment::peak_memory_mb();
    if arguments.json {
        let object = json!({
            "model": steps.model, "batch": steps.batch, "replicas": arguments.replicas,
            "threads": steps.threads, "images_per_second": images_per_second,
            "step_ms": step_ms, "peak_rss_mb": peak,
        });
        give(object);
    } else {
        give(format_args!(
            "{}: {images_per_second:.1} images/s over {} replicas, {step_ms:.2} ms a step, peak memory {}",
            steps.model,
            arguments.replicas,
            megabytes(peak)
        ));
    }
    Ok(())
}

/// A replica's place at the start. Whoever drops it unused lets nobody go.
pub(super) struct Start {
    ready: Sender<()>,
    go: Receiver<()>,
}

impl Start {
    /// Waits until everyone is ready. False, if someone never will be.
    pub(super) fn wait(self) -> bool {
        let Self { ready, go } = self;
        let announced = ready.send(()).is_ok();
        // The starter counts until nobody can be ready any more.
        drop(ready);
        announced && go.recv().is_ok()
    }
}

/// Runs `work` in so many threads, which wait for each other at their [`Start`].
/// If one fails before it, the others do not go either, and its error is returned.
/// A barrier would hold them for ever.
pub(super) fn all_at_once<T: Send>(
    replicas: usize,
    work: impl Fn(usize, Start) -> Result<Option<T>, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    thread::scope(|scope| {
        let (ready, arrivals) = channel();
        let (mut signals, mut running) = (Vec::new(), Vec::new());
        for number in 0..replicas {
            let (signal, go) = channel();
            let (work, start) = (&work, Start { ready: ready.clone(), go });
            let replica = thread::Builder::new().name(format!("replica {number}"));
            let replica = replica.spawn_scoped(scope, move || work(number, start));
            running.push(replica.map_err(|error| Failure::Run(error.into()))?);
            signals.push(signal);
        }
        drop(ready);
        if arrivals.iter().count() == replicas {
            for signal in &signals {
                // A replica that is gone since then has an error of its own.
                let _ = signal.send(());
            }
        }
        drop(signals);
        let joined = running.into_iter().map(|replica| {
            let panicked = |_| Err(Failure::Run(anyhow::anyhow!("a replica panicked")));
            replica.join().unwrap_or_else(panicked)
        });
        let measured: Vec<Option<T>> = joined.collect::<Result<_, _>>()?;
        Ok(measured.into_iter().flatten().collect())
    })
}

fn median_step(
    steps: NonZeroUsize,
    replica: &mut dyn Replica,
    batch: &Batch,
    mut position: Position,
) -> Result<f64, Failure> {
    let mut seconds = Vec::new();
    for _ in 0..steps.get() {
        let began = Instant::now();
        replica.step(batch, Step { rate: RATE, position })?;
        position.step += 1;
        seconds.push(began.elapsed().as_secs_f64());
    }
    Ok(median(seconds))
}

/// A batch of made-up images.
pub(super) fn noise(task: Task, count: usize, number: u32) -> Batch {
    let mut random = Random::new(1, number, Purpose::Augment, [0, 0]);
    let images =
        (0..count.saturating_mul(task.images.len())).map(|_| random.normal() as f32).collect();
    let labels = (0..count).map(|_| random.below(task.classes as u64) as u32).collect();
    Batch { images, labels, shape: task.images }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_that_are_all_ready_go_together() {
        let went = all_at_once(3, |number, start| Ok(start.wait().then_some(number)));
        assert_eq!(went.unwrap(), [0, 1, 2]);
    }

    #[test]
    fn a_replica_that_fails_before_the_start_keeps_nobody_waiting() {
        let outcome = all_at_once(3, |number, start| match number {
            1 => Err(Failure::usage("no threads to be had")),
            _ => Ok(start.wait().then_some(number)),
        });
        assert_eq!(outcome.unwrap_err().to_string(), "no threads to be had");
    }

    #[test]
    fn a_replica_that_panics_before_the_start_keeps_nobody_waiting() {
        let outcome = all_at_once(2, |number, start| {
            assert!(number == 0, "this replica panics");
            Ok(start.wait().then_some(number))
        });
        assert_eq!(outcome.unwrap_err().to_string(), "a replica panicked");
    }
}
