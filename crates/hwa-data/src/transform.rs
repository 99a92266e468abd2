//! How an image becomes numbers: its size, its random changes, its normalisation.
//!
//! The order is torchvision's: `Resize`, `RandomCrop` (or `RandomResizedCrop`, or
//! `CenterCrop`) on the byte image, whose padding is black, `RandomHorizontalFlip`,
//! `ToTensor`, `Normalize`, and cutout last.

use crate::dataset::ImageShape;
use crate::error::DataError;

/// How an image becomes numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Transform {
    /// The height and width that come out; `None` for those of the image.
    pub side: Option<usize>,
    /// What the shorter side of an image is brought to before it is cropped, unless the
    /// crop itself is [resized](Crop::Resized); `None` to leave it.
    pub resize: Option<usize>,
    /// What every image goes through.
    pub normalise: Normalise,
    /// What training images go through before.
    pub augment: Augment,
}

/// Mean and standard deviation of one channel, on the scale from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Channel {
    /// Subtracted.
    pub mean: f32,
    /// Divided by.
    pub std: f32,
}

/// Takes the mean of each channel away and divides by its standard deviation.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalise {
    channels: Vec<Channel>,
}

/// Random changes to a training image that leave its class alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Augment {
    /// Which part of the image is taken.
    pub crop: Crop,
    /// Whether to mirror left and right, every second time on average.
    pub flip: bool,
    /// The side of a square, centred anywhere in the image, that is set to the mean
    /// (T. DeVries and G. W. Taylor's cutout); 0 for none.
    pub cutout: usize,
}

/// Which part of a training image is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Crop {
    /// The middle, as in evaluation.
    #[default]
    Centre,
    /// A part of the size that comes out, anywhere in the image.
    Random {
        /// Black pixels added on each side before.
        pad: usize,
    },
    /// 8 to 100 % of the area, of a shape from 3:4 to 4:3, anywhere in the image, brought
    /// to the size that comes out: torchvision's `RandomResizedCrop`.
    Resized,
}

impl Transform {
    /// Images of their own size, with no random changes.
    pub fn plain(normalise: Normalise) -> Self {
        Self { side: None, resize: None, normalise, augment: Augment::default() }
    }

    /// The same normalisation and size, and nothing random.
    pub fn without_augmentation(&self) -> Self {
        Self { augment: Augment::default(), ..self.clone() }
    }

    /// The shape that comes out for an image of this one.
    pub fn output(&self, image: ImageShape) -> ImageShape {
        match self.side {
            Some(side) => ImageShape { height: side, width: side, ..image },
            None => image,
        }
    }
}

impl Normalise {
    /// One mean and standard deviation per channel.
    pub fn new(channels: Vec<Channel>) -> Result<Self, DataError> {
        for (channel, &Channel { mean, std }) in channels.iter().enumerate() {
            if !(mean.is_finite() && std.is_finite() && std > 0.0) {
                return Err(DataError::BadNormalisation { channel, mean, std });
            }
        }
        Ok(Self { channels })
    }

    /// The mean and deviation of ImageNet's training images, which torchvision's
    /// networks are trained with.
    pub fn imagenet() -> Self {
        let channel = |mean, std| Channel { mean, std };
        let channels = vec![channel(0.485, 0.229), channel(0.456, 0.224), channel(0.406, 0.225)];
        Self { channels }
    }

    /// The channels in order.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_that_cannot_divide_are_refused() {
        for (mean, std) in [(0.0, 0.0), (0.0, -1.0), (0.0, f32::NAN), (f32::INFINITY, 1.0)] {
            let error =
                Normalise::new(vec![Channel { mean: 0.0, std: 1.0 }, Channel { mean, std }]);
            assert!(matches!(error, Err(DataError::BadNormalisation { channel: 1, .. })));
        }
    }
}
