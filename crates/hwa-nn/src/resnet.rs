//! The ResNets for CIFAR: depth `6n + 2`, three stages of 16, 32 and 64 channels.
//!
//! K. He and others, "Deep Residual Learning for Image Recognition", section 4.2,
//! with the shortcut that has no parameters ("option A"). Field names are those of
//! the usual PyTorch code, so checkpoints fit both ways.

use burn::module::Module;
use burn::tensor::Tensor;
use hwa_data::ImageShape;

use crate::error::{NnError, ensure_some};
use crate::features::Features;
use crate::init::Init;
use crate::layers::{BatchNorm, Conv2d, Conv2dShape, Linear};
use crate::network::Network;
use crate::ops::Convolution;
use crate::pass::Pass;

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
            conv1: Conv2d::new(three_by_three(channels, first, 1), init)?,
            bn1: BatchNorm::new(first, init)?,
            layer1: stage(blocks, (first, first), 1, init)?,
            layer2: stage(blocks, (first, second), 2, init)?,
            layer3: stage(blocks, (second, third), 2, init)?,
            linear: Linear::new(third, classes, init)?,
        })
    }

    /// The multiply-adds of one image's forward pass, in convolutions and the linear
    /// layer; everything else is additions and a few per cent.
    pub fn multiply_adds(&self, shape: ImageShape) -> u64 {
        let mut size = [shape.height, shape.width];
        let mut total = self.conv1.multiply_adds(&mut size);
        for block in self.blocks() {
            total += block.conv1.multiply_adds(&mut size);
            total += block.conv2.multiply_adds(&mut size);
        }
        total + self.linear.multiply_adds()
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.layer1.iter().chain(&self.layer2).chain(&self.layer3)
    }
}

impl Network for ResNet {
    fn forward(&self, images: Tensor<4>, pass: &mut Pass) -> Tensor<2> {
        let mut x = Features::of(images).conv(&self.conv1).norm(&self.bn1).relu();
        for block in self.blocks() {
            x = block.forward(x);
        }
        self.linear.forward(x.global_average(pass))
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
        Ok(Self {
            conv1: Conv2d::new(three_by_three(input, output, stride), init)?,
            bn1: BatchNorm::new(output, init)?,
            conv2: Conv2d::new(three_by_three(output, output, 1), init)?,
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

fn three_by_three(input: usize, output: usize, stride: usize) -> Conv2dShape {
    let form = Convolution { stride, padding: 1, groups: 1 };
    Conv2dShape { input, output, kernel: 3, form }
}
