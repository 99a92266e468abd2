//! What to make of a data set: its splits, its views, how its files are read.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::dataset::{ImageShape, OnBadImage};
use crate::error::DataError;
use crate::transform::{Crop, Transform};

/// What to make of a data set. The default is its usual splits and its usual views.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// How many training images to hold out for validation, stratified; `None` for
    /// the data set's default, 0 for none.
    pub validation: Option<usize>,
    /// How many of the remaining training images to keep, as many of each class;
    /// `None` for all.
    pub train_examples: Option<usize>,
    /// Chooses the images of both. Not the seed of a run: leave it at 0, and runs of
    /// all seeds and experiments share their validation images. The test images never
    /// depend on it.
    pub split_seed: u64,
    /// What [`Source::digest`](crate::Source::digest) was when it was opened before: other
    /// image files are refused, because their split would be another.
    pub digest: Option<String>,
    /// What differs from the data set's usual views.
    pub view: ViewOptions,
    /// How image files are read.
    pub files: FileOptions,
}

/// What differs from a data set's usual [`Transform`]; `None` for what does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ViewOptions {
    /// The height and width that come out.
    pub size: Option<NonZeroUsize>,
    /// What the shorter side is brought to before.
    pub resize: Option<NonZeroUsize>,
    /// Which part of a training image is taken.
    pub crop: Option<CropKind>,
    /// Black pixels around an image before a random part is taken.
    pub pad: Option<usize>,
    /// Whether to mirror training images.
    pub flip: Option<bool>,
    /// The side of the square that is cut out of training images.
    pub cutout: Option<usize>,
}

/// Which part of a training image is taken; see [`Crop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CropKind {
    /// The middle.
    Centre,
    /// Any part of the size that comes out.
    Random,
    /// Any part of many sizes, brought to the one that comes out.
    Resized,
}

/// How image files are read. Data sets that lie in memory whole have no use for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOptions {
    /// What to do with those that cannot be.
    pub on_bad_image: OnBadImage,
    /// Memory for decoded images, in MiB.
    pub cache_mib: usize,
    /// Threads that decode; by default one per core.
    pub decoders: Option<NonZeroUsize>,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { on_bad_image: OnBadImage::Skip, cache_mib: 2048, decoders: None }
    }
}

impl ViewOptions {
    /// The data set's usual transform, changed as asked. `image` is the shape that it
    /// usually gives.
    pub(crate) fn applied(
        &self,
        usual: Transform,
        image: ImageShape,
    ) -> Result<Transform, DataError> {
        ensure_sensible("data.size", self.size)?;
        ensure_sensible("data.resize", self.resize)?;
        let mut transform = usual;
        if let Some(size) = self.size {
            // As much is cropped away as before: 256 for 224 is 146 for 128.
            let before = transform.resize.zip(transform.side);
            let (resize, side) = before.unwrap_or((1, 1));
            transform.resize = Some((size.get() * resize + side / 2) / side);
            transform.side = Some(size.get());
        }
        if let Some(resize) = self.resize {
            transform.resize = Some(resize.get());
            transform.side.get_or_insert(image.height.min(image.width));
        }
        transform.augment.crop = self.crop(transform.augment.crop)?;
        if transform.augment.crop == Crop::Resized {
            transform.side.get_or_insert(image.height.min(image.width));
        }
        let whole = transform.resize.or(transform.side).unwrap_or(image.height.min(image.width));
        if let Crop::Random { pad } = transform.augment.crop
            && pad > whole
        {
            let reason = format!("is {pad}, expected at most the side of the image, {whole}");
            return Err(DataError::BadOption { key: "data.pad", reason });
        }
        transform.augment.flip = self.flip.unwrap_or(transform.augment.flip);
        transform.augment.cutout = self.cutout.unwrap_or(transform.augment.cutout);
        if let (Some(resize), Some(side)) = (transform.resize, transform.side)
            && resize < side
        {
            let reason = format!("is {resize}, expected at least the size, {side}");
            return Err(DataError::BadOption { key: "data.resize", reason });
        }
        Ok(transform)
    }

    fn crop(&self, usual: Crop) -> Result<Crop, DataError> {
        let usual_pad = if let Crop::Random { pad } = usual { pad } else { 0 };
        let crop = match self.crop {
            None => usual,
            Some(CropKind::Centre) => Crop::Centre,
            Some(CropKind::Resized) => Crop::Resized,
            Some(CropKind::Random) => Crop::Random { pad: usual_pad },
        };
        match (crop, self.pad) {
            (Crop::Random { .. }, Some(pad)) => Ok(Crop::Random { pad }),
            (_, None | Some(0)) => Ok(crop),
            (_, Some(pad)) => {
                let reason = format!("is {pad}, but only a random crop is padded");
                Err(DataError::BadOption { key: "data.pad", reason })
            }
        }
    }
}

/// More than a network can make use of, and less than what overflows.
const LARGEST: usize = 4096;

fn ensure_sensible(key: &'static str, side: Option<NonZeroUsize>) -> Result<(), DataError> {
    match side {
        Some(side) if side.get() > LARGEST => {
            let reason = format!("is {side}, expected at most {LARGEST}");
            Err(DataError::BadOption { key, reason })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::{Augment, Normalise};

    const LARGE: ImageShape = ImageShape { height: 224, width: 224, channels: 3 };
    const SMALL: ImageShape = ImageShape { height: 32, width: 32, channels: 3 };

    fn large() -> Transform {
        let augment = Augment { crop: Crop::Random { pad: 0 }, flip: true, cutout: 0 };
        let plain = Transform::plain(Normalise::imagenet());
        Transform { side: Some(224), resize: Some(256), augment, ..plain }
    }

    fn small() -> Transform {
        let augment = Augment { crop: Crop::Random { pad: 4 }, flip: true, cutout: 0 };
        Transform { augment, ..Transform::plain(Normalise::imagenet()) }
    }

    fn count(n: usize) -> Option<NonZeroUsize> {
        NonZeroUsize::new(n)
    }

    #[test]
    fn nothing_asked_for_changes_nothing() {
        let options = ViewOptions::default();
        assert_eq!(options.applied(large(), LARGE).unwrap(), large());
        assert_eq!(options.applied(small(), SMALL).unwrap(), small());
    }

    #[test]
    fn an_image_is_padded_by_its_side_at_most() {
        let padded = |pad: usize| {
            let options = ViewOptions { pad: Some(pad), ..ViewOptions::default() };
            options.applied(small(), SMALL)
        };
        assert_eq!(padded(32).unwrap().augment.crop, Crop::Random { pad: 32 });
        let message = padded(33).unwrap_err().to_string();
        assert!(message.contains("data.pad") && message.contains("at most the side"), "{message}");
    }

    #[test]
    fn another_size_keeps_the_share_that_is_cropped_away() {
        let options = ViewOptions { size: count(128), ..ViewOptions::default() };
        let found = options.applied(large(), LARGE).unwrap();
        // 128 * 256 / 224 is 146.3.
        assert_eq!((found.side, found.resize), (Some(128), Some(146)));
        let found = options.applied(small(), SMALL).unwrap();
        assert_eq!((found.side, found.resize), (Some(128), Some(128)));
        assert_eq!(found.augment, small().augment);
    }

    #[test]
    fn crops_are_replaced_with_their_padding() {
        let crop = |crop, pad| {
            let options = ViewOptions { crop: Some(crop), pad, ..ViewOptions::default() };
            options.applied(small(), SMALL).map(|found| (found.augment.crop, found.side))
        };
        let random = |pad| Crop::Random { pad };
        assert_eq!(crop(CropKind::Random, None).unwrap(), (random(4), None));
        assert_eq!(crop(CropKind::Random, Some(2)).unwrap(), (random(2), None));
        assert_eq!(crop(CropKind::Centre, None).unwrap(), (Crop::Centre, None));
        assert_eq!(crop(CropKind::Resized, None).unwrap(), (Crop::Resized, Some(32)));
        let error = crop(CropKind::Resized, Some(3)).unwrap_err().to_string();
        assert_eq!(error, "`data.pad` is 3, but only a random crop is padded");
    }

    #[test]
    fn an_image_cannot_be_cropped_to_more_than_it_is_resized_to() {
        let options = ViewOptions { resize: count(200), ..ViewOptions::default() };
        let error = options.applied(large(), LARGE).unwrap_err().to_string();
        assert_eq!(error, "`data.resize` is 200, expected at least the size, 224");
        let options = ViewOptions { size: count(usize::MAX), ..ViewOptions::default() };
        let error = options.applied(large(), LARGE).unwrap_err().to_string();
        assert!(error.ends_with("expected at most 4096"), "{error}");
    }
}
