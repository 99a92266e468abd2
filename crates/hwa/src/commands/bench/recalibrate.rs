//! `hwa bench recalibrate`: re-estimated batch-norm statistics.
//!
//! Made-up images lie in memory as bytes, as those of a data set do, and go the way of
//! `hwa recalibrate` and of the judge: cropped, flipped, normalised, and run forward.

use std::sync::Arc;
use std::time::Instant;

use hwa_core::seed::{Purpose, Random};
use hwa_data::{Augment, Channel, InMemory, Normalise, RecalibrationBatches, Subset, Transform};
use hwa_nn::{ModelSpec, Origin, SgdConfig, Task};
use hwa_train::Replica;
use serde_json::json;

use super::{megabytes, task};
use crate::arguments::BenchRecalibrate;
use crate::environment;
use crate::failure::Failure;
use crate::opened;
use crate::output::give;

/// Bytes of images that a machine may have room for: 64 GiB.
const MOST_BYTES: usize = 64 << 30;

/// Batches before the clock starts.
const WARMUP: usize = 3;

/// What was measured.
struct Measured {
    threads: usize,
    images: u64,
    seconds: f64,
}

/// Runs the command.
pub(crate) fn run(arguments: &BenchRecalibrate) -> Result<(), Failure> {
    let Measured { threads, images, seconds } =
        opened::on_threads(arguments.threads, || measure(arguments))?;
    let images_per_second = images as f64 / seconds;
    let peak = environment::peak_memory_mb();
    if arguments.json {
        let object = json!({
            "model": arguments.model, "images": images, "batch": arguments.batch,
            "threads": threads, "images_per_second": images_per_second, "peak_rss_mb": peak,
        });
        give(object);
    } else {
        give(format_args!(
            "{}: {images_per_second:.1} images/s over {images} images on {threads} threads, peak memory {}",
            arguments.model,
            megabytes(peak)
        ));
    }
    Ok(())
}

fn measure(arguments: &BenchRecalibrate) -> Result<Measured, Failure> {
    let spec: ModelSpec = arguments.model.parse()?;
    let task = task(spec, arguments.size, arguments.classes);
    let config = SgdConfig { momentum: 0.0, weight_decay: 0.0 };
    let mut replica = spec.build(task, Origin { seed: 0, replica: 0 }, config)?;
    let images = made_up(task, arguments.images.get())?;
    let batches = RecalibrationBatches::new(images, transform(task)?, arguments.batch, 1);
    replica.recalibrate(&mut batches.clone().take(WARMUP), 0.0)?;
    let began = Instant::now();
    // No error is as small as zero: every image is used.
    let used = replica.recalibrate(&mut { batches }, 0.0)?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Measured { threads: rayon::current_num_threads(), images: used.images, seconds })
}

fn made_up(task: Task, count: usize) -> Result<Subset, Failure> {
    let mut random = Random::new(1, 0, Purpose::Recalibrate, [2, 0]);
    let bytes = count.checked_mul(task.images.len()).filter(|bytes| *bytes <= MOST_BYTES);
    let bytes = bytes.ok_or_else(|| {
        Failure::usage(format!("--images {count}: that many images of this size are too many"))
    })?;
    let words = (0..bytes.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes());
    let pixels = words.take(bytes).collect();
    let labels = (0..count).map(|_| random.below(task.classes as u64) as u32).collect();
    let images = InMemory::new(task.images, task.classes, pixels, labels)?;
    Ok(Subset::all(Arc::new(images)))
}

/// As for CIFAR: a crop, a flip, and values around zero.
fn transform(task: Task) -> Result<Transform, Failure> {
    let channel = Channel { mean: 0.5, std: 0.25 };
    let normalise = Normalise::new(vec![channel; task.images.channels])?;
    // Smaller images have no room for more.
    let pad = task.images.height.min(4);
    Ok(Transform { normalise, augment: Augment { pad, flip: true } })
}
