//! Made-up images: they lie in memory as bytes, as those of a data set do.

use std::sync::Arc;

use hwa_core::seed::{Purpose, Random};
use hwa_data::{Augment, Channel, Crop, InMemory, Normalise, Subset, Transform};
use hwa_nn::Task;

use crate::failure::Failure;

/// Bytes of images that a machine may have room for: 64 GiB.
const MOST_BYTES: usize = 64 << 30;

/// So many images of noise.
pub(super) fn images(task: Task, count: usize) -> Result<Subset, Failure> {
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
pub(super) fn transform(task: Task) -> Result<Transform, Failure> {
    let channel = Channel { mean: 0.5, std: 0.25 };
    let normalise = Normalise::new(vec![channel; task.images.channels])?;
    // Smaller images have no room for more.
    let pad = task.images.height.min(4);
    let augment = Augment { crop: Crop::Random { pad }, flip: true, cutout: 0 };
    Ok(Transform { augment, ..Transform::plain(normalise) })
}
