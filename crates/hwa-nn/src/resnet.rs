//! The ResNets for CIFAR: depth `6n + 2`, three stages of 16, 32 and 64 channels.
//!
//! K. He and others, "Deep Residual Learning for Image Recognition", section 4.2,
//! with the shortcut that has no parameters ("option A"). Field names are those of
//! the usual PyTorch code, so checkpoints fit both ways.

use burn::module::Module;

use crate::error::{NnError, ensure_some};
use crate::features::Features;
use crate::init::Init;
use crate::layers::{BatchNorm, Conv2d, Conv2dShape, Linear};
use crate::network::ConvNet;

/// The channels of the three stages.
const WIDTHS: [usize; 3] = [16, 32, 64];

/// A ResNet for small images.
#[derive(Module, Debug)]
pub struct ResNet {
    conv1: Conv2d,
    bn1: BatchNorm,
    layer1: Vec<Block>,
    layer2: Vec<Block>,
    layer3: Vec<Block>,
    linear: Linear,
}

impl ResNet {
    /// `blocks` in each stage make a depth of `6 * blocks + 2`.
    pub fn new(
        blocks: usize,
        channels: usize,
        classes: usize,
        init: &mut Init,
    ) -> Result<Self, NnError> {
        ensure_some([("number of blocks", blocks)])?;
        let [first, second, third] = WIDTHS;
        Ok(Self {
            conv1: Conv2d::new(Conv2dShape::square(3, channels, first), init)?,
            bn1: BatchNorm::new(first, init)?,
            layer1: stage(blocks, (first, first), 1, init)?,
            layer2: stage(blocks, (first, second), 2, init)?,
            layer3: stage(blocks, (second, third), 2, init)?,
            linear: Linear::new(third, classes, init)?,
        })
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.layer1.iter().chain(&self.layer2).chain(&self.layer3)
    }
}

impl ConvNet for ResNet {
    fn features(&self, images: Features) -> Features {
        let x = images.conv(&self.conv1).norm(&self.bn1).relu();
        self.blocks().fold(x, |x, block| block.forward(x))
    }

    fn classifier(&self) -> &Linear {
        &self.linear
    }
}

/// Two convolutions and a shortcut around them.
#[derive(Module, Debug)]
struct Block {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    stride: usize,
    output: usize,
}

impl Block {
    fn new(input: usize, output: usize, stride: usize, init: &mut Init) -> Result<Self, NnError> {
        let first = Conv2dShape::square(3, input, output).with_stride(stride);
        Ok(Self {
            conv1: Conv2d::new(first, init)?,
            bn1: BatchNorm::new(output, init)?,
            conv2: Conv2d::new(Conv2dShape::square(3, output, output), init)?,
            bn2: BatchNorm::new(output, init)?,
            stride,
            output,
        })
    }

    fn forward(&self, x: Features) -> Features {
        let y = x.conv(&self.conv1).norm(&self.bn1).relu().conv(&self.conv2).norm(&self.bn2);
        let shortcut = if self.stride == 1 { x } else { x.subsample(self.stride, self.output) };
        (y + shortcut).relu()
    }
}

fn stage(
    blocks: usize,
    (input, output): (usize, usize),
    stride: usize,
    init: &mut Init,
) -> Result<Vec<Block>, NnError> {
    let first = |i| if i == 0 { (input, stride) } else { (output, 1) };
    (0..blocks).map(first).map(|(input, stride)| Block::new(input, output, stride, init)).collect()
}
