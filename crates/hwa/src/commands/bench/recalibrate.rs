//! `hwa bench recalibrate`: re-estimated batch-norm statistics.
//!
//! Made-up images lie in memory as bytes, as those of a data set do, and go the way of
//! `hwa recalibrate` and of the judge: cropped, flipped, normalised, and run forward.

use std::time::Instant;

use hwa_data::RecalibrationBatches;
use hwa_nn::{ModelSpec, Origin, SgdConfig};
use hwa_train::Replica;
use serde_json::json;

use super::made_up;
use super::{megabytes, task};
use crate::arguments::BenchRecalibrate;
use crate::environment;
use crate::failure::Failure;
use crate::opened;
use crate::output::give;

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
    let images = made_up::images(task, arguments.images.get())?;
    let transform = made_up::transform(task)?;
    let batches = RecalibrationBatches::new(images, transform, arguments.batch, 1);
    replica.recalibrate(&mut batches.clone().take(WARMUP), 0.0)?;
    let began = Instant::now();
    // No error is as small as zero: every image is used.
    let used = replica.recalibrate(&mut { batches }, 0.0)?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Measured { threads: rayon::current_num_threads(), images: used.images, seconds })
}
