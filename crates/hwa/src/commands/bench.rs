//! `hwa bench`: how fast it is here.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use hwa_core::seed::{Purpose, Random};
use hwa_data::{Batch, ImageShape};
use hwa_nn::{ModelSpec, Origin, SgdConfig, Task};
use serde_json::json;

use crate::arguments::BenchStep;
use crate::environment;
use crate::failure::Failure;
use crate::opened;
use crate::output::give;

/// `hwa bench step`
pub(crate) fn step(arguments: &BenchStep) -> Result<(), Failure> {
    let spec: ModelSpec = arguments.model.parse()?;
    let side = arguments.size.get();
    let images = ImageShape { height: side, width: side, channels: 3 };
    let task = Task { images, classes: arguments.classes.get() };
    let together = Barrier::new(arguments.replicas.get());
    let medians: Vec<f64> = thread::scope(|scope| {
        let replica = |number: usize| {
            let together = &together;
            scope.spawn(move || {
                opened::on_threads(Some(arguments.threads), || {
                    median_step(arguments, &spec, task, number as u32, together)
                })
            })
        };
        let running: Vec<_> = (0..arguments.replicas.get()).map(replica).collect();
        let joined = running.into_iter().map(|r| {
            r.join().unwrap_or_else(|_| Err(Failure::Run(anyhow::anyhow!("a replica panicked"))))
        });
        joined.collect::<Result<_, _>>()
    })?;
    let images = arguments.batch.get() as f64;
    let images_per_second: f64 = medians.iter().map(|seconds| images / seconds).sum();
    let step_ms = medians.iter().copied().fold(0.0, f64::max) * 1e3;
    let peak = environment::peak_memory_mb();
    if arguments.json {
        let object = json!({
            "model": arguments.model, "batch": arguments.batch, "replicas": arguments.replicas,
            "threads": arguments.threads, "images_per_second": images_per_second,
            "step_ms": step_ms, "peak_rss_mb": peak,
        });
        give(object);
    } else {
        let peak = peak.map_or("unknown".to_owned(), |mb| format!("{mb:.0} MB"));
        give(format_args!(
            "{}: {images_per_second:.1} images/s over {} replicas, {step_ms:.2} ms a step, peak memory {peak}",
            arguments.model, arguments.replicas
        ));
    }
    Ok(())
}

fn median_step(
    arguments: &BenchStep,
    spec: &ModelSpec,
    task: Task,
    number: u32,
    together: &Barrier,
) -> Result<f64, Failure> {
    let config = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };
    let built = spec.build(task, Origin { seed: 1, replica: number }, config);
    let batch = noise(task, arguments.batch.get(), number);
    // Everyone arrives here, even with an error, or the others would wait for ever.
    together.wait();
    let mut replica = built?;
    let mut seconds = Vec::new();
    for step in 0..arguments.warmup + arguments.steps.get() {
        let began = Instant::now();
        replica.step(&batch, 0.05)?;
        if step >= arguments.warmup {
            seconds.push(began.elapsed().as_secs_f64());
        }
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

fn noise(task: Task, count: usize, number: u32) -> Batch {
    let mut random = Random::new(1, number, Purpose::Augment, [0, 0]);
    let images = (0..count * task.images.len()).map(|_| random.normal() as f32).collect();
    let labels = (0..count).map(|_| random.below(task.classes as u64) as u32).collect();
    Batch { images, labels, shape: task.images }
}
