//! MobileNetV2: blocks that widen, filter each channel by itself, and narrow.
//!
//! M. Sandler and others, "MobileNetV2: Inverted Residuals and Linear Bottlenecks",
//! table 2, as torchvision builds it; and for CIFAR, with stride 1 in the first convolution
//! and in the first stage of stride 2, as is usual for images of 32 x 32. Tensor names are
//! torchvision's.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::error::NnError;
use crate::features::Features;
use crate::init::Init;
use crate::layers::{Conv2dShape, Draw, Dropout, Linear};
use crate::network::ConvNet;
use crate::pass::Pass;
use crate::sequence::{Layer, Sequence};

/// The channels of the first convolution.
const STEM: usize = 32;
/// The channels of the last convolution.
const FEATURES: usize = 1280;
/// The deviation of the linear layer's initial weights, as in torchvision.
const CLASSIFIER_DEVIATION: f64 = 0.01;
/// The share of the features that training leaves out before the linear layer.
const DROPOUT: f64 = 0.2;

/// Blocks of one width.
struct Stage {
    /// How many times wider than its input a block is inside.
    expansion: usize,
    output: usize,
    blocks: usize,
    /// Of the first block.
    stride: usize,
}

const STAGES: [Stage; 7] = [
    Stage { expansion: 1, output: 16, blocks: 1, stride: 1 },
    Stage { expansion: 6, output: 24, blocks: 2, stride: 2 },
    Stage { expansion: 6, output: 32, blocks: 3, stride: 2 },
    Stage { expansion: 6, output: 64, blocks: 4, stride: 2 },
    Stage { expansion: 6, output: 96, blocks: 3, stride: 1 },
    Stage { expansion: 6, output: 160, blocks: 3, stride: 2 },
    Stage { expansion: 6, output: 320, blocks: 1, stride: 1 },
];

/// The first stage whose stride is not 1.
const FIRST_HALVING: usize = 1;

/// MobileNetV2.
#[derive(Module, Debug)]
pub struct MobileNetV2 {
    features: Vec<Part>,
    classifier: (Dropout, Linear),
}

/// An element of `features`.
#[derive(Module, Debug)]
enum Part {
    Layers(Vec<Layer>),
    Block(Block),
}

impl MobileNetV2 {
    /// For images of about 32 x 32, with so many channels.
    pub fn cifar(channels: usize, classes: usize, init: &mut Init) -> Result<Self, NnError> {
        Self::new(1, channels, classes, init)
    }

    /// For large images, with so many channels.
    pub fn imagenet(channels: usize, classes: usize, init: &mut Init) -> Result<Self, NnError> {
        Self::new(2, channels, classes, init)
    }

    /// With this stride in the two places where large images are halved first.
    fn new(
        halving: usize,
        channels: usize,
        classes: usize,
        init: &mut Init,
    ) -> Result<Self, NnError> {
        let stem = Conv2dShape::square(3, channels, STEM).with_stride(halving);
        let stem = conv_norm_relu6(Sequence::new(Draw::He, init), stem).layers()?;
        let mut features = vec![Part::Layers(stem)];
        let mut input = STEM;
        for (number, Stage { expansion, output, blocks, stride }) in STAGES.into_iter().enumerate()
        {
            let stride = if number == FIRST_HALVING { halving } else { stride };
            for block in 0..blocks {
                let stride = if block == 0 { stride } else { 1 };
                features.push(Part::Block(Block::new((input, output), expansion, stride, init)?));
                input = output;
            }
        }
        let last = Conv2dShape::pointwise(input, FEATURES);
        let last = conv_norm_relu6(Sequence::new(Draw::He, init), last).layers()?;
        features.push(Part::Layers(last));
        let linear = Linear::normal(FEATURES, classes, CLASSIFIER_DEVIATION, init)?;
        Ok(Self { features, classifier: (Dropout::new(DROPOUT)?, linear) })
    }
}

impl ConvNet for MobileNetV2 {
    fn features(&self, images: Features) -> Features {
        self.features.iter().fold(images, |x, part| match part {
            Part::Layers(layers) => x.through(layers),
            Part::Block(block) => block.forward(x),
        })
    }

    fn embed(&self, features: &Features, pass: &mut Pass) -> Tensor<2> {
        self.classifier.0.forward(features.global_average(pass), pass)
    }

    fn classifier(&self) -> &Linear {
        &self.classifier.1
    }
}

/// An inverted residual: wide inside, narrow at its ends, and no activation after the last.
#[derive(Module, Debug)]
struct Block {
    conv: Vec<Layer>,
    shortcut: bool,
}

impl Block {
    fn new(
        (input, output): (usize, usize),
        expansion: usize,
        stride: usize,
        init: &mut Init,
    ) -> Result<Self, NnError> {
        let width = expansion * input;
        let widen = Conv2dShape::pointwise(input, width);
        let filter = Conv2dShape::depthwise(width).with_stride(stride);
        let narrow = Conv2dShape::pointwise(width, output);
        let mut conv = Sequence::new(Draw::He, init);
        if expansion > 1 {
            conv = conv.nested(|layers| conv_norm_relu6(layers, widen));
        }
        let conv = conv.nested(|layers| conv_norm_relu6(layers, filter)).conv(narrow).norm(output);
        Ok(Self { conv: conv.layers()?, shortcut: stride == 1 && input == output })
    }

    fn forward(&self, x: Features) -> Features {
        let y = x.through(&self.conv);
        if self.shortcut { x + y } else { y }
    }
}

fn conv_norm_relu6(layers: Sequence<'_>, shape: Conv2dShape) -> Sequence<'_> {
    layers.conv(shape).norm(shape.output).relu6()
}
