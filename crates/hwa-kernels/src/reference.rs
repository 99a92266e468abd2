//! What the kernels are to compute, in `f64` and plain loops.

use crate::shape::Shape;
use crate::simd::padded;
use crate::weights::Dense;

/// A convolution of any form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reference {
    pub form: Dense,
    pub stride: usize,
    pub padding: usize,
    pub groups: usize,
    pub input: Shape,
}

impl Reference {
    pub(crate) fn output(&self) -> Shape {
        let along =
            |size: usize, kernel: usize| (size + 2 * self.padding - kernel) / self.stride + 1;
        Shape {
            height: along(self.input.height, self.form.kernel[0]),
            width: along(self.input.width, self.form.kernel[1]),
            channels: self.form.outputs,
            ..self.input
        }
    }

    /// Calls `f(input number, output number, weight number)` for every product.
    fn visit(&self, mut f: impl FnMut(usize, usize, usize)) {
        let (from, to) = (self.input, self.output());
        let [kh, kw] = self.form.kernel;
        let (ins, outs) = (self.form.inputs, self.form.outputs / self.groups);
        for n in 0..from.images {
            for (y, x) in (0..to.height * to.width).map(|i| (i / to.width, i % to.width)) {
                for (ky, kx) in (0..kh * kw).map(|i| (i / kw, i % kw)) {
                    let (iy, ix) = (y * self.stride + ky, x * self.stride + kx);
                    let Some(iy) = iy.checked_sub(self.padding) else { continue };
                    let Some(ix) = ix.checked_sub(self.padding) else { continue };
                    if iy >= from.height || ix >= from.width {
                        continue;
                    }
                    for o in 0..self.form.outputs {
                        for i in 0..ins {
                            let channel = o / outs * ins + i;
                            let pixel = (n * from.height + iy) * from.width + ix;
                            let result = (n * to.height + y) * to.width + x;
                            f(
                                pixel * from.stride() + channel,
                                result * to.stride() + o,
                                ((o * ins + i) * kh + ky) * kw + kx,
                            );
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn forward(&self, x: &[f64], w: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; self.output().len()];
        self.visit(|i, o, k| y[o] += x[i] * w[k]);
        y
    }

    pub(crate) fn input_gradient(&self, g: &[f64], w: &[f64]) -> Vec<f64> {
        let mut x = vec![0.0; self.input.len()];
        self.visit(|i, o, k| x[i] += g[o] * w[k]);
        x
    }

    pub(crate) fn weight_gradient(&self, x: &[f64], g: &[f64]) -> Vec<f64> {
        let mut w = vec![0.0; self.form.len()];
        self.visit(|i, o, k| w[k] += x[i] * g[o]);
        w
    }
}

/// Numbers in [-1, 1).
pub(crate) fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mix = |i: u64| {
        let mut z = (i + (seed << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count as u64).map(mix).collect()
}

/// Noise with zeros in the padding of channels.
pub(crate) fn images(shape: Shape, seed: u64) -> Vec<f32> {
    let mut x = noise(shape.len(), seed);
    clear_padding(&mut x, shape.channels);
    x
}

/// Noise per channel, `parts` times, with zeros in the padding.
pub(crate) fn per_channel(channels: usize, parts: usize, seed: u64) -> Vec<f32> {
    let mut x = noise(parts * padded(channels), seed);
    clear_padding(&mut x, channels);
    x
}

fn clear_padding(x: &mut [f32], channels: usize) {
    for pixel in x.chunks_mut(padded(channels)) {
        pixel[channels..].fill(0.0);
    }
}

pub(crate) fn to_f64(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// The largest error, relative to the largest value; NaN if there is one.
pub(crate) fn error(found: &[f32], expected: &[f64]) -> f64 {
    error_among(found, expected, expected)
}

/// The largest error, relative to the largest of some values; NaN if there is one.
pub(crate) fn error_among(found: &[f32], expected: &[f64], values: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let keep = |worst: f64, x: f64| if worst >= x || worst.is_nan() { worst } else { x };
    let largest = values.iter().map(|e| e.abs()).fold(0.0, keep);
    let worst = found.iter().zip(expected).map(|(f, e)| (f64::from(*f) - e).abs()).fold(0.0, keep);
    if worst == 0.0 { 0.0 } else { worst / largest }
}
