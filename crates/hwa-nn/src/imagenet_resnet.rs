//! The ResNets for ImageNet, as torchvision builds them: a stem of 7 x 7, four stages.
//!
//! K. He and others, "Deep Residual Learning for Image Recognition", table 1, with
//! shortcuts that are projected where shapes change ("option B"). In bottlenecks the
//! convolution of 3 x 3 has the stride, not the first of 1 x 1. Tensor names are
//! torchvision's.

use burn::module::Module;

use crate::error::NnError;
use crate::features::{Features, Windows};
use crate::init::Init;
use crate::layers::{BatchNorm, Conv2d, Conv2dShape, Draw, Linear};
use crate::network::ConvNet;
use crate::sequence::{Layer, Sequence};

/// The channels of the stem.
const STEM: usize = 64;
/// The channels of the four stages; bottlenecks give four times as many.
const WIDTHS: [usize; 4] = [64, 128, 256, 512];
const EXPANSION: usize = 4;

/// A ResNet for large images.
#[derive(Module, Debug)]
pub struct ImageNetResNet {
    conv1: Conv2d,
    bn1: BatchNorm,
    layer1: Vec<Block>,
    layer2: Vec<Block>,
    layer3: Vec<Block>,
    layer4: Vec<Block>,
    fc: Linear,
}

/// What a ResNet for large images is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Basic,
    Bottleneck,
}

impl ImageNetResNet {
    /// ResNet-18: two basic blocks in each stage.
    pub fn resnet18(channels: usize, classes: usize, init: &mut Init) -> Result<Self, NnError> {
        Self::new((Kind::Basic, [2, 2, 2, 2]), channels, classes, init)
    }

    /// ResNet-50: 3, 4, 6 and 3 bottlenecks.
    pub fn resnet50(channels: usize, classes: usize, init: &mut Init) -> Result<Self, NnError> {
        Self::new((Kind::Bottleneck, [3, 4, 6, 3]), channels, classes, init)
    }

    fn new(
        (kind, blocks): (Kind, [usize; 4]),
        channels: usize,
        classes: usize,
        init: &mut Init,
    ) -> Result<Self, NnError> {
        let outputs = WIDTHS.map(|width| kind.output(width));
        Ok(Self {
            conv1: Conv2d::new(Conv2dShape::square(7, channels, STEM).with_stride(2), init)?,
            bn1: BatchNorm::new(STEM, init)?,
            layer1: kind.stage(blocks[0], (STEM, WIDTHS[0]), 1, init)?,
            layer2: kind.stage(blocks[1], (outputs[0], WIDTHS[1]), 2, init)?,
            layer3: kind.stage(blocks[2], (outputs[1], WIDTHS[2]), 2, init)?,
            layer4: kind.stage(blocks[3], (outputs[2], WIDTHS[3]), 2, init)?,
            fc: Linear::new(outputs[3], classes, init)?,
        })
    }
}

impl ConvNet for ImageNetResNet {
    fn features(&self, images: Features) -> Features {
        let x = images.conv(&self.conv1).norm(&self.bn1).relu();
        let x = x.max_pool(Windows { kernel: 3, stride: 2, padding: 1 });
        let stages = [&self.layer1, &self.layer2, &self.layer3, &self.layer4];
        stages.into_iter().flatten().fold(x, |x, block| match block {
            Block::Basic(block) => block.forward(x),
            Block::Bottleneck(block) => block.forward(x),
        })
    }

    fn classifier(&self) -> &Linear {
        &self.fc
    }
}

/// A block of a stage.
#[allow(clippy::large_enum_variant)] // A box is no module to Burn, and layers are few.
#[derive(Module, Debug)]
enum Block {
    Basic(Basic),
    Bottleneck(Bottleneck),
}

impl Kind {
    /// The channels that a block of a width gives.
    fn output(self, width: usize) -> usize {
        match self {
            Self::Basic => width,
            Self::Bottleneck => EXPANSION * width,
        }
    }

    fn stage(
        self,
        blocks: usize,
        (input, width): (usize, usize),
        stride: usize,
        init: &mut Init,
    ) -> Result<Vec<Block>, NnError> {
        let first = |i| if i == 0 { (input, stride) } else { (self.output(width), 1) };
        let build = |(input, stride)| match self {
            Self::Basic => Basic::new((input, width), stride, init).map(Block::Basic),
            Self::Bottleneck => {
                Bottleneck::new((input, width), stride, init).map(Block::Bottleneck)
            }
        };
        (0..blocks).map(first).map(build).collect()
    }
}

/// Two convolutions and a shortcut around them.
#[derive(Module, Debug)]
struct Basic {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    downsample: Vec<Layer>,
}

impl Basic {
    fn new(
        (input, width): (usize, usize),
        stride: usize,
        init: &mut Init,
    ) -> Result<Self, NnError> {
        Ok(Self {
            conv1: Conv2d::new(Conv2dShape::square(3, input, width).with_stride(stride), init)?,
            bn1: BatchNorm::new(width, init)?,
            conv2: Conv2d::new(Conv2dShape::square(3, width, width), init)?,
            bn2: BatchNorm::new(width, init)?,
            downsample: downsample((input, width), stride, init)?,
        })
    }

    fn forward(&self, x: Features) -> Features {
        let y = x.conv(&self.conv1).norm(&self.bn1).relu().conv(&self.conv2).norm(&self.bn2);
        (y + x.through(&self.downsample)).relu()
    }
}

/// A convolution between two that narrow and widen, and a shortcut around them.
#[derive(Module, Debug)]
struct Bottleneck {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    conv3: Conv2d,
    bn3: BatchNorm,
    downsample: Vec<Layer>,
}

impl Bottleneck {
    fn new(
        (input, width): (usize, usize),
        stride: usize,
        init: &mut Init,
    ) -> Result<Self, NnError> {
        let output = EXPANSION * width;
        Ok(Self {
            conv1: Conv2d::new(Conv2dShape::pointwise(input, width), init)?,
            bn1: BatchNorm::new(width, init)?,
            conv2: Conv2d::new(Conv2dShape::square(3, width, width).with_stride(stride), init)?,
            bn2: BatchNorm::new(width, init)?,
            conv3: Conv2d::new(Conv2dShape::pointwise(width, output), init)?,
            bn3: BatchNorm::new(output, init)?,
            downsample: downsample((input, output), stride, init)?,
        })
    }

    fn forward(&self, x: Features) -> Features {
        let y = x.conv(&self.conv1).norm(&self.bn1).relu();
        let y = y.conv(&self.conv2).norm(&self.bn2).relu();
        let y = y.conv(&self.conv3).norm(&self.bn3);
        (y + x.through(&self.downsample)).relu()
    }
}

/// The shortcut: projected where the shape changes, empty elsewhere.
fn downsample(
    (input, output): (usize, usize),
    stride: usize,
    init: &mut Init,
) -> Result<Vec<Layer>, NnError> {
    let layers = Sequence::new(Draw::He, init);
    match (input, stride) == (output, 1) {
        true => layers.layers(),
        false => layers
            .conv(Conv2dShape::pointwise(input, output).with_stride(stride))
            .norm(output)
            .layers(),
    }
}
