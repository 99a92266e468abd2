//! What a model has to be: a Burn module with one forward pass.

use burn::module::Module;
use burn::tensor::Tensor;
use hwa_data::ImageShape;

use crate::error::NnError;
use crate::features::Features;
use crate::layers::Linear;
use crate::pass::Pass;

/// A model that classifies images. Any Burn module becomes one by its forward pass.
pub trait Network: Module {
    /// Scores `[N, classes]` of images `[N, H, W, C]`.
    ///
    /// Batch-norm layers take `pass` and leave in it what they saw.
    fn forward(&self, images: Tensor<4>, pass: &mut Pass) -> Tensor<2>;

    /// The least height and width of an image that something is left of.
    fn smallest(&self) -> usize {
        1
    }
}

/// A network whose features are averaged over each image and then scored by a linear
/// layer, as most for images are. Others say what comes between the two.
pub trait ConvNet {
    /// What it makes of images, before the average.
    fn features(&self, images: Features) -> Features;

    /// Runs the features, and makes of them what is scored, `[N, C]`: their average, unless
    /// the network says otherwise.
    fn embed(&self, features: &Features, pass: &mut Pass) -> Tensor<2> {
        features.global_average(pass)
    }

    /// The multiply-adds for one image between the features and the classifier.
    fn embedding_multiply_adds(&self) -> u64 {
        0
    }

    /// The linear layer that makes scores: the only part that depends on the classes.
    fn classifier(&self) -> &Linear;

    /// The least height and width of an image that something is left of.
    fn smallest(&self) -> usize {
        1
    }

    /// The multiply-adds of one image's forward pass, in convolutions and linear
    /// layers; everything else is additions and a few per cent.
    fn multiply_adds(&self, shape: ImageShape) -> Result<u64, NnError> {
        ensure_large_enough(shape, self.smallest())?;
        let device = self.classifier().weight.device();
        let image = Tensor::zeros([1, shape.height, shape.width, shape.channels], &device);
        let features = self.features(Features::of(image));
        let linear = self.embedding_multiply_adds() + self.classifier().multiply_adds();
        Ok(features.multiply_adds()? + linear)
    }
}

impl<N: ConvNet + Module> Network for N {
    fn forward(&self, images: Tensor<4>, pass: &mut Pass) -> Tensor<2> {
        let features = self.features(Features::of(images));
        self.classifier().forward(self.embed(&features, pass))
    }

    fn smallest(&self) -> usize {
        ConvNet::smallest(self)
    }
}

/// Checks that something is left of images.
pub(crate) fn ensure_large_enough(images: ImageShape, smallest: usize) -> Result<(), NnError> {
    let ImageShape { height, width, .. } = images;
    if height.min(width) < smallest {
        return Err(NnError::TooSmall { height, width, smallest });
    }
    Ok(())
}
