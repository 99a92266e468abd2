//! ShuffleNetV2, width 1: half of the channels pass each block as they are.
//!
//! N. Ma and others, "ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture
//! Design", table 5 and figure 3 (c, d). Tensor names are torchvision's.

use burn::module::Module;

use crate::error::NnError;
use crate::features::{Features, Windows};
use crate::init::Init;
use crate::layers::{Conv2dShape, Draw, Linear};
use crate::network::ConvNet;
use crate::sequence::{Layer, Sequence};

/// The channels of the first convolution.
const STEM: usize = 24;
/// The channels of the three stages.
const WIDTHS: [usize; 3] = [116, 232, 464];
/// The blocks of the three stages.
const BLOCKS: [usize; 3] = [4, 8, 4];
/// The channels of the last convolution.
const FEATURES: usize = 1024;

/// ShuffleNetV2 of width 1.
#[derive(Module, Debug)]
pub struct ShuffleNetV2 {
    conv1: Vec<Layer>,
    stage2: Vec<Block>,
    stage3: Vec<Block>,
    stage4: Vec<Block>,
    conv5: Vec<Layer>,
    fc: Linear,
}

impl ShuffleNetV2 {
    /// For images with so many channels.
    pub fn new(channels: usize, classes: usize, init: &mut Init) -> Result<Self, NnError> {
        let stem = Conv2dShape::square(3, channels, STEM).with_stride(2);
        let [second, third, fourth] = WIDTHS;
        let last = Conv2dShape::pointwise(fourth, FEATURES);
        Ok(Self {
            conv1: Sequence::new(Draw::Uniform, init).conv(stem).norm(STEM).relu().layers()?,
            stage2: stage(BLOCKS[0], (STEM, second), init)?,
            stage3: stage(BLOCKS[1], (second, third), init)?,
            stage4: stage(BLOCKS[2], (third, fourth), init)?,
            conv5: Sequence::new(Draw::Uniform, init).conv(last).norm(FEATURES).relu().layers()?,
            fc: Linear::new(FEATURES, classes, init)?,
        })
    }
}

impl ConvNet for ShuffleNetV2 {
    fn features(&self, images: Features) -> Features {
        let x = images.through(&self.conv1);
        let x = x.max_pool(Windows { kernel: 3, stride: 2, padding: 1 });
        let stages = [&self.stage2, &self.stage3, &self.stage4];
        let x = stages.into_iter().flatten().fold(x, |x, block| block.forward(x));
        x.through(&self.conv5)
    }

    fn classifier(&self) -> &Linear {
        &self.fc
    }
}

/// Two branches, put together and shuffled. The first block of a stage gives all channels
/// to both, with stride 2; the others give half to each, and `branch1` is empty.
#[derive(Module, Debug)]
struct Block {
    branch1: Vec<Layer>,
    branch2: Vec<Layer>,
    /// The channels of a branch.
    half: usize,
    splits: bool,
}

impl Block {
    /// The first block of a stage.
    fn first(input: usize, output: usize, init: &mut Init) -> Result<Self, NnError> {
        let half = output / 2;
        let branch1 = Sequence::new(Draw::Uniform, init)
            .conv(Conv2dShape::depthwise(input).with_stride(2))
            .norm(input)
            .conv(Conv2dShape::pointwise(input, half))
            .norm(half)
            .relu()
            .layers()?;
        Ok(Self { branch1, branch2: branch2((input, half), 2, init)?, half, splits: false })
    }

    /// Another block of a stage.
    fn next(channels: usize, init: &mut Init) -> Result<Self, NnError> {
        let half = channels / 2;
        let branch1 = Vec::new();
        Ok(Self { branch1, branch2: branch2((half, half), 1, init)?, half, splits: true })
    }

    fn forward(&self, x: Features) -> Features {
        let (left, right) = match self.splits {
            true => (x.channels(0..self.half), x.channels(self.half..2 * self.half)),
            false => (x.clone(), x),
        };
        left.through(&self.branch1).concat(&right.through(&self.branch2), 2)
    }
}

fn branch2(
    (input, half): (usize, usize),
    stride: usize,
    init: &mut Init,
) -> Result<Vec<Layer>, NnError> {
    Sequence::new(Draw::Uniform, init)
        .conv(Conv2dShape::pointwise(input, half))
        .norm(half)
        .relu()
        .conv(Conv2dShape::depthwise(half).with_stride(stride))
        .norm(half)
        .conv(Conv2dShape::pointwise(half, half))
        .norm(half)
        .relu()
        .layers()
}

fn stage(
    blocks: usize,
    (input, output): (usize, usize),
    init: &mut Init,
) -> Result<Vec<Block>, NnError> {
    let mut stage = vec![Block::first(input, output, init)?];
    for _ in 1..blocks {
        stage.push(Block::next(output, init)?);
    }
    Ok(stage)
}
