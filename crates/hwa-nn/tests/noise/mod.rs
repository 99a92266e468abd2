//! Weights and images of noise, the same here and in `golden/make_golden.py`.

use hwa_core::{Tensor, Weights};
use hwa_data::{Batch, ImageShape, Position};
use hwa_train::Step;

/// The stream of the first images, as in the script.
pub(crate) const IMAGES: u64 = 1000;

/// Numbers in `[-1, 1)`, as `noise` in the script.
pub(crate) fn noise(stream: u64, count: usize) -> impl Iterator<Item = f64> {
    let one = move |index: u64| {
        let mut z = (index + (stream << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        (z >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    (0..count as u64).map(one)
}

/// The same, scaled and shifted, in single precision.
pub(crate) fn noise_f32(stream: u64, count: usize, scale: f64, shift: f64) -> Vec<f32> {
    noise(stream, count).map(|u| (shift + scale * u) as f32).collect()
}

/// Parameters from noise, in the order of their names, as `fill` in the script.
pub(crate) fn fill(layout: &Weights, shifts: [f64; 2]) -> Weights {
    let mut filled = Weights::new();
    for (stream, (name, tensor)) in layout.iter().enumerate() {
        let shape = tensor.shape().to_vec();
        let drawn = noise(stream as u64, shape.iter().product());
        let value = |u: f64| match shape[..] {
            [_, input, height, width] => u * (6.0 / (input * height * width) as f64).sqrt(),
            [_, input] => u * (1.0 / input as f64).sqrt(),
            _ if name.ends_with("weight") => 0.5 + 0.125 * u,
            _ => shifts[usize::from(u >= 0.0)] + 0.25 * u,
        };
        let values = drawn.map(|u| value(u) as f32).collect();
        filled.insert(name, Tensor::parameter(shape, values).unwrap()).unwrap();
    }
    filled
}

/// Square colour images of noise with the labels 0, 1, 2, ..., as in the script.
pub(crate) fn batch(stream: u64, images: usize, size: usize) -> Batch {
    let shape = ImageShape { height: size, width: size, channels: 3 };
    Batch {
        images: noise_f32(stream, images * shape.len(), 2.0, 0.0),
        labels: (0..images as u32).map(|i| i % 10).collect(),
        shape,
    }
}

/// A step of the first model in a run with seed 1.
pub(crate) fn at(rate: f64, step: u64) -> Step {
    Step { rate, position: Position { seed: 1, replica: 0, step } }
}

/// The single-precision values of a named tensor.
pub(crate) fn values<'a>(weights: &'a Weights, name: &str) -> &'a [f32] {
    weights.require(name).unwrap().as_f32().unwrap()
}
