//! The operations that layers and models are made of, on `[N, H, W, C]` tensors.
//!
//! A network that is recorded as [`Features`](crate::Features) runs as one operation on the
//! kernels of `hwa-kernels` (`network`), through an extension of Burn's backends
//! (`dispatch`). What works on one tensor at a time is composed of Burn's own operations,
//! with backward passes of our own for convolution and batch norm (`kernels`). All of them
//! panic, as Burn's do, at shapes that do not fit; layers check theirs when they are built.

pub(crate) mod dispatch;
mod kernels;
pub(crate) mod network;

use burn::backend::Dispatch;
use burn::tensor::activation::{log_softmax, relu};
use burn::tensor::{Int, Tensor, s};

use dispatch::Operations;

pub use hwa_kernels::Activation;
use hwa_kernels::Moments;

/// How a convolution moves over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// Pixels from one output to the next, in both directions.
    pub stride: usize,
    /// Zeros on each side, in both directions.
    pub padding: usize,
    /// Groups of channels that are convolved separately.
    pub groups: usize,
}

/// Where ReLU6 ends.
const SIX: f64 = 6.0;

/// How a batch is normalised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalisation {
    /// Added to the variance.
    pub epsilon: f64,
    /// Applied to the result, after the residual is added.
    pub activation: Activation,
}

/// The scale and shift of batch norm, one of each per channel.
#[derive(Debug, Clone)]
pub struct Affine {
    /// PyTorch's `weight`, also known as gamma.
    pub weight: Tensor<1>,
    /// PyTorch's `bias`, also known as beta.
    pub bias: Tensor<1>,
}

/// Mean and variance per channel.
#[derive(Debug, Clone)]
pub struct ChannelStatistics {
    /// The mean.
    pub mean: Tensor<1>,
    /// The variance; of a batch, it is divided by the number of values.
    pub variance: Tensor<1>,
}

impl ChannelStatistics {
    pub(crate) fn moments(&self) -> Moments {
        let numbers = |tensor: &Tensor<1>| tensor.to_data().iter::<f64>().collect();
        Moments { mean: numbers(&self.mean), variance: numbers(&self.variance) }
    }
}

/// Convolves `[N, H, W, I]` with weights `[O, I / groups, kh, kw]` to `[N, H', W', O]`.
pub fn conv2d(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    form: Convolution,
) -> Tensor<4> {
    let y = Dispatch::convolve(x.into_dispatch(), weight.into_dispatch(), form);
    let y = Tensor::from_dispatch(y);
    match bias {
        Some(bias) => y + along_channels(bias),
        None => y,
    }
}

/// Normalises `[N, H, W, C]` by its own statistics, which come back untracked,
/// adds `residual` and applies the activation.
pub fn batch_norm(
    x: Tensor<4>,
    affine: Affine,
    residual: Option<Tensor<4>>,
    form: Normalisation,
) -> (Tensor<4>, ChannelStatistics) {
    let (x, weight) = (x.into_dispatch(), affine.weight.into_dispatch());
    let bias = affine.bias.into_dispatch();
    let (y, mean, variance) = match residual {
        Some(r) => Dispatch::normalise_and_add(x, weight, bias, r.into_dispatch(), form),
        None => Dispatch::normalise(x, weight, bias, form),
    };
    let (mean, variance) = (Tensor::from_dispatch(mean), Tensor::from_dispatch(variance));
    (Tensor::from_dispatch(y), ChannelStatistics { mean, variance })
}

/// Normalises `[N, H, W, C]` by given statistics, adds `residual` and applies
/// the activation.
pub fn batch_norm_by(
    x: Tensor<4>,
    (statistics, affine): (ChannelStatistics, Affine),
    residual: Option<Tensor<4>>,
    form: Normalisation,
) -> Tensor<4> {
    let inverse = (statistics.variance + form.epsilon).sqrt().recip();
    let centred = x - along_channels(statistics.mean);
    let mut y = centred * along_channels(affine.weight * inverse) + along_channels(affine.bias);
    if let Some(residual) = residual {
        y = y + residual;
    }
    match form.activation {
        Activation::None => y,
        Activation::Relu => relu(y),
        Activation::Relu6 => relu(y).clamp_max(SIX),
    }
}

/// The mean over each image of `[N, H, W, C]`, as `[N, C]`.
pub fn global_average_pool(x: Tensor<4>) -> Tensor<2> {
    let [n, h, w, c] = x.dims();
    x.reshape([n, h * w, c]).mean_dim(1).reshape([n, c])
}

/// `x * weight^T + bias` for `[N, I]` and weights `[O, I]`, as PyTorch stores them.
pub fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    let y = x.matmul(weight.transpose());
    match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
}

/// The cross entropy of the softmax of `[N, classes]` scores, averaged over the batch.
pub fn cross_entropy(scores: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    let [n, _] = scores.dims();
    log_softmax(scores, 1).gather(1, labels.reshape([n, 1])).mean().neg()
}

/// Every second pixel of `[N, H, W, C]`, with zeros on both sides for new channels:
/// the shortcut without parameters ("option A") of the ResNet paper.
pub fn subsample_and_pad(x: Tensor<4>, channels: usize) -> Tensor<4> {
    let x = x.slice(s![.., ..;2, ..;2, ..]);
    let [n, h, w, c] = x.dims();
    let before = channels.saturating_sub(c) / 2;
    let after = channels.saturating_sub(c) - before;
    let zeros = |channels| Tensor::zeros([n, h, w, channels], &x.device());
    match (before, after) {
        (0, 0) => x,
        (0, _) => Tensor::cat(vec![x.clone(), zeros(after)], 3),
        _ => Tensor::cat(vec![zeros(before), x.clone(), zeros(after)], 3),
    }
}

/// `[C]` as `[1, 1, 1, C]`.
fn along_channels(x: Tensor<1>) -> Tensor<4> {
    let [channels] = x.dims();
    x.reshape([1, 1, 1, channels])
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;

    fn image(values: &[f32], shape: [usize; 4]) -> Tensor<4> {
        Tensor::from_data(TensorData::new(values.to_vec(), shape), &Device::flex())
    }

    fn to_vec(tensor: Tensor<4>) -> Vec<f32> {
        tensor.into_data().iter::<f32>().collect()
    }

    #[test]
    fn a_convolution_sees_rows_columns_and_channels_in_that_order() {
        // 2 x 2 pixels of 2 channels: channel 0 is 1 2 / 3 4, channel 1 is 10 20 / 30 40.
        let x = image(&[1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0], [1, 2, 2, 2]);
        // One output: the upper right of channel 0 and the lower left of channel 1.
        let weight = image(&[0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0], [1, 2, 2, 2]);
        let form = Convolution { stride: 1, padding: 0, groups: 1 };
        let bias = Tensor::from_data([0.5], &Device::flex());
        assert_eq!(to_vec(conv2d(x, weight, Some(bias), form)), [32.5]);
    }

    #[test]
    fn groups_keep_channels_apart() {
        let x = image(&[1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0], [1, 2, 2, 2]);
        // Two groups of one channel, 1 x 1, times 2 and 3; every second pixel.
        let weight = image(&[2.0, 3.0], [2, 1, 1, 1]);
        let form = Convolution { stride: 2, padding: 0, groups: 2 };
        assert_eq!(to_vec(conv2d(x, weight, None, form)), [2.0, 30.0]);
    }

    #[test]
    fn the_shortcut_takes_every_second_pixel_and_pads_channels_evenly() {
        let x = image(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], [1, 3, 3, 1]);
        let expected = [0.0, 1.0, 0.0, 0.0, 3.0, 0.0, 0.0, 7.0, 0.0, 0.0, 9.0, 0.0];
        assert_eq!(to_vec(subsample_and_pad(x.clone(), 3)), expected);
        assert_eq!(to_vec(subsample_and_pad(x, 1)), [1.0, 3.0, 7.0, 9.0]);
    }

    #[test]
    fn a_constant_channel_normalises_to_its_shift() {
        let device = Device::flex();
        let affine =
            Affine { weight: Tensor::ones([1], &device), bias: Tensor::from_data([0.25], &device) };
        let form = Normalisation { epsilon: 1e-5, activation: Activation::Relu };
        let x = image(&[1e6; 8], [2, 2, 2, 1]);
        let (y, statistics) = batch_norm(x, affine, None, form);
        assert_eq!(to_vec(y), [0.25; 8]);
        assert_eq!(statistics.mean.into_scalar::<f32>(), 1e6);
        assert_eq!(statistics.variance.into_scalar::<f32>(), 0.0);
    }
}
