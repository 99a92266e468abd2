//! VGG-16: thirteen convolutions with batch norm, and linear layers.
//!
//! K. Simonyan and A. Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
//! Recognition", configuration D, with batch norm after each convolution. For ImageNet as
//! torchvision builds it, with its names; and for CIFAR without the two hidden linear layers,
//! the form that is usual for images of 32 x 32, with the names of the usual PyTorch code.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::module::adaptive_avg_pool2d;

use crate::error::NnError;
use crate::features::{Features, Windows};
use crate::init::Init;
use crate::layers::{Conv2dShape, Draw, Dropout, Linear};
use crate::network::ConvNet;
use crate::pass::Pass;
use crate::sequence::{Layer, Sequence};

/// The channels of the convolutions; a max pool comes after each group.
const WIDTHS: [&[usize]; 5] =
    [&[64, 64], &[128, 128], &[256, 256, 256], &[512, 512, 512], &[512, 512, 512]];

/// The width of the last convolution.
const FEATURES: usize = 512;

/// Each pool halves an image.
const SMALLEST: usize = 1 << WIDTHS.len();

/// The pixels, up and across, that large images are averaged to before the linear layers.
const PIXELS: usize = 7;
/// The width of the hidden linear layers.
const HIDDEN: usize = 4096;
/// The deviation of the linear layers' initial weights, as in torchvision.
const DEVIATION: f64 = 0.01;
/// The share of the hidden values that training leaves out.
const DROPOUT: f64 = 0.5;

/// VGG-16 with batch norm for small images.
///
/// Of images of 32 x 32 one pixel is left, as in PyTorch's code; the pixels that are left
/// of larger ones are averaged.
#[derive(Module, Debug)]
pub struct Vgg16 {
    features: Vec<Layer>,
    classifier: Linear,
}

impl Vgg16 {
    /// For images with so many channels.
    pub fn new(channels: usize, classes: usize, init: &mut Init) -> Result<Self, NnError> {
        let features = convolutions(channels, Draw::Uniform, init)?;
        Ok(Self { features, classifier: Linear::new(FEATURES, classes, init)? })
    }
}

/// VGG-16 with batch norm for large images, torchvision's `vgg16_bn`.
///
/// Of images of 224 x 224 the convolutions leave 7 x 7 pixels, which the linear layers see one
/// by one. What is left of other sizes is averaged to as many.
#[derive(Module, Debug)]
pub struct Vgg16Bn {
    features: Vec<Layer>,
    classifier: (Linear, Relu, Dropout, Linear, Relu, Dropout, Linear),
}

/// Where torchvision has a ReLU that takes a number.
#[derive(Module, Debug)]
struct Relu;

impl Vgg16Bn {
    /// For images with so many channels.
    pub fn new(channels: usize, classes: usize, init: &mut Init) -> Result<Self, NnError> {
        let features = convolutions(channels, Draw::He, init)?;
        let mut linear = |input, output| Linear::normal(input, output, DEVIATION, init);
        let first = linear(FEATURES * PIXELS * PIXELS, HIDDEN)?;
        let (second, last) = (linear(HIDDEN, HIDDEN)?, linear(HIDDEN, classes)?);
        let dropout = || Dropout::new(DROPOUT);
        let classifier = (first, Relu, dropout()?, second, Relu, dropout()?, last);
        Ok(Self { features, classifier })
    }
}

fn convolutions(channels: usize, draw: Draw, init: &mut Init) -> Result<Vec<Layer>, NnError> {
    let mut features = Sequence::new(draw, init);
    let mut input = channels;
    for widths in WIDTHS {
        for &output in widths {
            let shape = Conv2dShape::square(3, input, output);
            features = features.conv_with_bias(shape).norm(output).relu();
            input = output;
        }
        features = features.max_pool(Windows { kernel: 2, stride: 2, padding: 0 });
    }
    features.layers()
}

impl ConvNet for Vgg16 {
    fn features(&self, images: Features) -> Features {
        images.through(&self.features)
    }

    fn classifier(&self) -> &Linear {
        &self.classifier
    }

    fn smallest(&self) -> usize {
        SMALLEST
    }
}

impl ConvNet for Vgg16Bn {
    fn features(&self, images: Features) -> Features {
        images.through(&self.features)
    }

    fn embed(&self, features: &Features, pass: &mut Pass) -> Tensor<2> {
        let (first, _, first_dropout, second, _, second_dropout, _) = &self.classifier;
        // PyTorch flattens channel by channel.
        let x = features.tensor(pass).permute([0, 3, 1, 2]);
        let x = match x.dims() {
            [_, _, PIXELS, PIXELS] => x,
            _ => adaptive_avg_pool2d(x, [PIXELS; 2]),
        };
        let x = first_dropout.forward(relu(first.forward(x.flatten(1, 3))), pass);
        second_dropout.forward(relu(second.forward(x)), pass)
    }

    fn embedding_multiply_adds(&self) -> u64 {
        let (first, _, _, second, ..) = &self.classifier;
        first.multiply_adds() + second.multiply_adds()
    }

    fn classifier(&self) -> &Linear {
        &self.classifier.6
    }

    fn smallest(&self) -> usize {
        SMALLEST
    }
}
