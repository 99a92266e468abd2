//! Layers one after the other, named by their numbers as in PyTorch's `nn.Sequential`.
//!
//! Layers without tensors are counted too, so the second convolution of
//! `conv, norm, relu, conv` is `3`.

use burn::module::Module;

use crate::error::NnError;
use crate::features::Windows;
use crate::init::Init;
use crate::layers::{BatchNorm, Conv2d, Conv2dShape, Draw};
use crate::ops::Activation;

/// A layer of a sequence; [`Features::through`](crate::Features::through) runs them.
#[allow(clippy::large_enum_variant)] // A box is no module to Burn, and layers are few.
#[derive(Module, Debug)]
pub enum Layer {
    /// A convolution.
    Conv(Conv2d),
    /// Batch norm.
    Norm(BatchNorm),
    /// An activation.
    Activate(Activate),
    /// The largest of each window.
    MaxPool(MaxPool),
    /// A sequence within the sequence.
    Sequence(Vec<Layer>),
}

/// An activation as a layer.
#[derive(Module, Debug)]
pub struct Activate {
    #[module(skip)]
    pub(crate) activation: Activation,
}

/// The largest of each window, as a layer.
#[derive(Module, Debug)]
pub struct MaxPool {
    #[module(skip)]
    pub(crate) windows: Windows,
}

/// Builds layers in the order in which they are run.
///
/// ```text
/// let layers = Sequence::new(Draw::He, init).conv(shape).norm(64).relu().layers()?;
/// ```
#[derive(Debug)]
pub struct Sequence<'a> {
    draw: Draw,
    init: &'a mut Init,
    /// The first error, if there was one.
    layers: Result<Vec<Layer>, NnError>,
}

impl<'a> Sequence<'a> {
    /// Nothing yet; how convolutions will be drawn.
    pub fn new(draw: Draw, init: &'a mut Init) -> Self {
        Self { draw, init, layers: Ok(Vec::new()) }
    }

    /// A convolution without bias.
    pub fn conv(self, shape: Conv2dShape) -> Self {
        self.then(|draw, init| Conv2d::drawn(draw, shape, init).map(Layer::Conv))
    }

    /// A convolution with bias.
    pub fn conv_with_bias(self, shape: Conv2dShape) -> Self {
        self.then(|draw, init| {
            let conv = Conv2d::drawn(draw, shape, init)?;
            Ok(Layer::Conv(conv.with_bias_drawn(draw, init)))
        })
    }

    /// Batch norm.
    pub fn norm(self, channels: usize) -> Self {
        self.then(|_, init| BatchNorm::new(channels, init).map(Layer::Norm))
    }

    /// `max(x, 0)`.
    pub fn relu(self) -> Self {
        self.then(|_, _| Ok(Layer::Activate(Activate { activation: Activation::Relu })))
    }

    /// `min(max(x, 0), 6)`.
    pub fn relu6(self) -> Self {
        self.then(|_, _| Ok(Layer::Activate(Activate { activation: Activation::Relu6 })))
    }

    /// The largest of each window.
    pub fn max_pool(self, windows: Windows) -> Self {
        self.then(|_, _| Ok(Layer::MaxPool(MaxPool { windows })))
    }

    /// A sequence of its own, which takes one number here.
    pub fn nested(self, build: impl FnOnce(Sequence<'_>) -> Sequence<'_>) -> Self {
        self.then(|draw, init| build(Sequence::new(draw, init)).layers().map(Layer::Sequence))
    }

    /// The layers, if all of them could be built.
    pub fn layers(self) -> Result<Vec<Layer>, NnError> {
        self.layers
    }

    fn then(self, layer: impl FnOnce(Draw, &mut Init) -> Result<Layer, NnError>) -> Self {
        let Self { draw, init, layers } = self;
        let layers = layers.and_then(|mut layers| {
            layers.push(layer(draw, init)?);
            Ok(layers)
        });
        Self { draw, init, layers }
    }
}
