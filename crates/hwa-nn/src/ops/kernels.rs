//! The kernels behind the operations: what a backend may do in a way of its own.
//!
//! Each has a default body of Burn's standard operations, which is what a backend
//! gets that has nothing better. A faster kernel is one overridden method in an
//! `impl Kernels`; no layer, no model and no backward pass changes with it.

use burn::backend::ops::ConvOptions;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Flex, Scalar, TensorMetadata};
use burn::tensor::Shape;

use super::network::{Call, Ran, WayBack};
use super::{Activation, Convolution, Normalisation, SIX};

/// What batch norm reads.
pub(crate) struct BatchNormInputs<B: Backend> {
    /// `[N, H, W, C]`.
    pub x: FloatTensor<B>,
    pub weight: FloatTensor<B>,
    pub bias: FloatTensor<B>,
    /// Added before the activation, `[N, H, W, C]`.
    pub residual: Option<FloatTensor<B>>,
}

/// What batch norm gives.
pub(crate) struct Normalised<B: Backend> {
    pub output: FloatTensor<B>,
    pub mean: FloatTensor<B>,
    /// Divided by the number of values.
    pub variance: FloatTensor<B>,
}

/// What batch norm keeps for its backward pass.
pub(crate) struct BatchNormSaved<B: Backend> {
    pub x: FloatTensor<B>,
    pub weight: FloatTensor<B>,
    pub mean: FloatTensor<B>,
    pub variance: FloatTensor<B>,
    /// The output, if an activation has to be undone.
    pub output: Option<FloatTensor<B>>,
    /// Whether the gradient of a residual is wanted.
    pub residual: bool,
}

/// What the backward pass of batch norm gives.
pub(crate) struct BatchNormGradients<B: Backend> {
    pub x: FloatTensor<B>,
    pub weight: FloatTensor<B>,
    pub bias: FloatTensor<B>,
    pub residual: Option<FloatTensor<B>>,
}

/// Forward and backward kernels on `[N, H, W, C]` activations.
pub(crate) trait Kernels: Backend {
    /// What a network's way back needs of its way forward.
    type Ran: std::fmt::Debug + Clone + Send + 'static;

    fn network_forward(
        images: FloatTensor<Self>,
        parameters: FloatTensor<Self>,
        call: Call,
        way_back: WayBack,
    ) -> (FloatTensor<Self>, Self::Ran);

    /// The gradients of images, if they were asked for, and parameters.
    fn network_backward(
        ran: Self::Ran,
        gradient: FloatTensor<Self>,
    ) -> (Option<FloatTensor<Self>>, FloatTensor<Self>);

    fn conv2d_forward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        form: Convolution,
    ) -> FloatTensor<Self> {
        to_nhwc::<Self>(Self::conv2d(to_nchw::<Self>(x), weight, None, options(form)))
    }

    fn conv2d_input_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        form: Convolution,
    ) -> FloatTensor<Self> {
        let (x, gradient) = (to_nchw::<Self>(x), to_nchw::<Self>(gradient));
        to_nhwc::<Self>(Self::conv2d_x_backward(x, weight, gradient, options(form)))
    }

    fn conv2d_weight_gradient(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        form: Convolution,
    ) -> FloatTensor<Self> {
        let (x, gradient) = (to_nchw::<Self>(x), to_nchw::<Self>(gradient));
        Self::conv2d_weight_backward(x, weight, gradient, options(form))
    }

    fn batch_norm_forward(inputs: BatchNormInputs<Self>, form: Normalisation) -> Normalised<Self> {
        let BatchNormInputs { x, weight, bias, residual } = inputs;
        // The mean first, then the variance about it: the mean of squares minus the squared mean
        // has no digits left where the mean is large.
        let mean = channel_mean::<Self>(x.clone());
        let centred = Self::float_sub(x, mean.clone());
        let variance = channel_mean::<Self>(Self::float_mul(centred.clone(), centred.clone()));
        let scale = Self::float_mul(
            along_channels::<Self>(weight),
            inverse_deviation::<Self>(variance.clone(), form.epsilon),
        );
        let mut output =
            Self::float_add(Self::float_mul(centred, scale), along_channels::<Self>(bias));
        if let Some(residual) = residual {
            output = Self::float_add(output, residual);
        }
        output = activate::<Self>(output, form.activation);
        let (mean, variance) = (flat::<Self>(mean), flat::<Self>(variance));
        Normalised { output, mean, variance }
    }

    fn batch_norm_backward(
        saved: BatchNormSaved<Self>,
        gradient: FloatTensor<Self>,
        form: Normalisation,
    ) -> BatchNormGradients<Self> {
        let count = (saved.x.shape().num_elements() / saved.mean.shape().num_elements()) as f64;
        let gradient = match saved.output {
            Some(output) => undo_activation::<Self>(output, gradient, form.activation),
            None => gradient,
        };
        let inverse =
            inverse_deviation::<Self>(along_channels::<Self>(saved.variance), form.epsilon);
        let centred = Self::float_sub(saved.x, along_channels::<Self>(saved.mean));
        let normalised = Self::float_mul(centred, inverse.clone());
        let mean_gradient = channel_mean::<Self>(gradient.clone());
        let mean_product =
            channel_mean::<Self>(Self::float_mul(gradient.clone(), normalised.clone()));
        // dx = weight / deviation * (g - mean(g) - normalised * mean(g * normalised))
        let projected = Self::float_mul(normalised, mean_product.clone());
        let remainder =
            Self::float_sub(Self::float_sub(gradient.clone(), mean_gradient.clone()), projected);
        let scale = Self::float_mul(along_channels::<Self>(saved.weight), inverse);
        let total = |mean| Self::float_mul_scalar(flat::<Self>(mean), Scalar::Float(count));
        BatchNormGradients {
            x: Self::float_mul(remainder, scale),
            weight: total(mean_product),
            bias: total(mean_gradient),
            residual: saved.residual.then_some(gradient),
        }
    }
}

impl Kernels for Flex {
    type Ran = Ran;

    fn network_forward(
        images: FloatTensor<Self>,
        parameters: FloatTensor<Self>,
        call: Call,
        way_back: WayBack,
    ) -> (FloatTensor<Self>, Ran) {
        call.forward(images, parameters, way_back)
    }

    fn network_backward(
        ran: Ran,
        gradient: FloatTensor<Self>,
    ) -> (Option<FloatTensor<Self>>, FloatTensor<Self>) {
        ran.backward(gradient)
    }
}

fn activate<B: Backend>(x: FloatTensor<B>, activation: Activation) -> FloatTensor<B> {
    match activation {
        Activation::None => x,
        Activation::Relu => B::relu(x),
        Activation::Relu6 => B::float_clamp_max(B::relu(x), Scalar::Float(SIX)),
    }
}

/// The gradient before an activation, from its output and the gradient after it.
fn undo_activation<B: Backend>(
    output: FloatTensor<B>,
    gradient: FloatTensor<B>,
    activation: Activation,
) -> FloatTensor<B> {
    match activation {
        Activation::None => gradient,
        Activation::Relu => B::relu_backward(output, gradient),
        Activation::Relu6 => {
            let below = B::float_add_scalar(B::float_neg(output.clone()), Scalar::Float(SIX));
            B::relu_backward(below, B::relu_backward(output, gradient))
        }
    }
}

fn options(form: Convolution) -> ConvOptions<2> {
    let Convolution { stride, padding, groups } = form;
    ConvOptions::new([stride, stride], [padding, padding], [1, 1], groups)
}

fn to_nchw<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_permute(x, &[0, 3, 1, 2])
}

fn to_nhwc<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_permute(x, &[0, 2, 3, 1])
}

/// `[C]` as `[1, 1, 1, C]`.
fn along_channels<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let channels = x.shape().num_elements();
    B::float_reshape(x, Shape::new([1, 1, 1, channels]))
}

/// `[1, 1, 1, C]` as `[C]`.
fn flat<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let channels = x.shape().num_elements();
    B::float_reshape(x, Shape::new([channels]))
}

/// The mean over all but the channels, as `[1, 1, 1, C]`.
fn channel_mean<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    // Dimension by dimension: a tree of short sums rounds far less than one long one.
    B::float_mean_dim(B::float_mean_dim(B::float_mean_dim(x, 2), 1), 0)
}

fn inverse_deviation<B: Backend>(variance: FloatTensor<B>, epsilon: f64) -> FloatTensor<B> {
    B::float_recip(B::float_sqrt(B::float_add_scalar(variance, Scalar::Float(epsilon))))
}
