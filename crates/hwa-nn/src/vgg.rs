//! VGG-16 for CIFAR: thirteen convolutions with batch norm, and one linear layer.
//!
//! K. Simonyan and A. Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
//! Recognition", configuration D, with batch norm after each convolution and without the
//! two hidden linear layers: the form that is usual for images of 32 x 32. Tensor names
//! are those of the usual PyTorch code.

use burn::module::Module;

use crate::error::NnError;
use crate::features::{Features, Windows};
use crate::init::Init;
use crate::layers::{Conv2dShape, Draw, Linear};
use crate::network::ConvNet;
use crate::sequence::{Layer, Sequence};

/// The channels of the convolutions; a max pool comes after each group.
const WIDTHS: [&[usize]; 5] =
    [&[64, 64], &[128, 128], &[256, 256, 256], &[512, 512, 512], &[512, 512, 512]];

/// The width of the last convolution.
const FEATURES: usize = 512;

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
        let mut features = Sequence::new(Draw::Uniform, init);
        let mut input = channels;
        for widths in WIDTHS {
            for &output in widths {
                let shape = Conv2dShape::square(3, input, output);
                features = features.conv_with_bias(shape).norm(output).relu();
                input = output;
            }
            features = features.max_pool(Windows { kernel: 2, stride: 2, padding: 0 });
        }
        Ok(Self { features: features.layers()?, classifier: Linear::new(FEATURES, classes, init)? })
    }
}

impl ConvNet for Vgg16 {
    fn features(&self, images: Features) -> Features {
        images.through(&self.features)
    }

    fn classifier(&self) -> &Linear {
        &self.classifier
    }

    /// Each pool halves the image.
    fn smallest(&self) -> usize {
        1 << WIDTHS.len()
    }
}
