//! Batch norm as numbers per channel: what the convolutions around it apply as they read.
//!
//! ```text
//! normalised = scale * x + shift        scale = weight / sqrt(variance + epsilon)
//!                                       shift = bias - mean * scale
//! dx = a * g + b * (x - mean) + c       a = scale
//!                                       b = -scale * sum(g * (x - mean)) / ((variance + epsilon) * n)
//!                                       c = -scale * sum(g) / n
//! ```
//!
//! All in `f64`, rounded once; `c` makes up for the rounding of the mean.

use crate::simd::padded;

/// The scale and shift of a batch norm.
#[derive(Debug, Clone, Copy)]
pub struct Affine<'a> {
    /// PyTorch's `weight`.
    pub weight: &'a [f32],
    /// PyTorch's `bias`.
    pub bias: &'a [f32],
    /// Added to the variance.
    pub epsilon: f64,
}

/// Mean and variance of each channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Moments {
    /// The mean.
    pub mean: Vec<f64>,
    /// The variance; of a batch, divided by the number of values.
    pub variance: Vec<f64>,
}

/// What a batch norm does to its input, and what its gradient needs.
#[derive(Debug)]
pub(crate) struct Normaliser {
    /// Scale, then shift, of each padded channel.
    pub coefficients: Vec<f32>,
    /// Of each padded channel.
    pub mean: Vec<f32>,
    /// Of the tensor without the offset.
    moments: Moments,
    epsilon: f64,
    /// `scale` before it was rounded.
    scale: Vec<f64>,
}

impl Normaliser {
    /// Normalises by `moments` what then gets `offset` added, a convolution's bias, if
    /// there is one.
    pub(crate) fn new(affine: Affine<'_>, moments: Moments, offset: Option<&[f32]>) -> Self {
        let channels = affine.weight.len();
        let width = padded(channels);
        let mut coefficients = vec![0.0; 2 * width];
        let mut mean = vec![0.0; width];
        let (mut scales, mut means) = (vec![0.0; channels], vec![0.0; channels]);
        for c in 0..channels {
            let scale = f64::from(affine.weight[c]) / (moments.variance[c] + affine.epsilon).sqrt();
            let before = moments.mean[c] - offset.map_or(0.0, |offset| f64::from(offset[c]));
            coefficients[c] = scale as f32;
            coefficients[width + c] = (f64::from(affine.bias[c]) - before * scale) as f32;
            means[c] = before;
            mean[c] = before as f32;
            scales[c] = scale;
        }
        let moments = Moments { mean: means, ..moments };
        Self { coefficients, mean, moments, epsilon: affine.epsilon, scale: scales }
    }

    /// The gradients of weight and bias, and [coefficients](crate::read::Source::Gradient) of
    /// each padded channel, from the sums of `g` and of `g * (x - mean)` over `count` pixels.
    pub(crate) fn backward(
        &self,
        (sums, products): (&[f64], &[f64]),
        count: usize,
    ) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let channels = self.scale.len();
        let (width, n) = (padded(channels), count as f64);
        let mut coefficients = vec![0.0; 4 * width];
        let (mut weight, mut bias) = (vec![0.0; channels], vec![0.0; channels]);
        for c in 0..channels {
            let spread = self.moments.variance[c] + self.epsilon;
            // The products are about the mean as it was rounded.
            let mean = f64::from(self.mean[c]);
            let product = products[c] - (self.moments.mean[c] - mean) * sums[c];
            weight[c] = (product / spread.sqrt()) as f32;
            bias[c] = sums[c] as f32;
            let slope = -self.scale[c] * product / (spread * n);
            coefficients[c] = self.scale[c] as f32;
            coefficients[width + c] = slope as f32;
            coefficients[2 * width + c] =
                (-self.scale[c] * sums[c] / n - slope * (self.moments.mean[c] - mean)) as f32;
            coefficients[3 * width + c] = self.mean[c];
        }
        (weight, bias, coefficients)
    }

    /// The gradients of weight and bias, and the gradient's coefficients, where the statistics
    /// were given: they do not depend on the input.
    pub(crate) fn backward_given(
        &self,
        (sums, products): (&[f64], &[f64]),
    ) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let (weight, bias, mut coefficients) = self.backward((sums, products), 1);
        let width = self.mean.len();
        coefficients[width..].fill(0.0);
        (weight, bias, coefficients)
    }
}
