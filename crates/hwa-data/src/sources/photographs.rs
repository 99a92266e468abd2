//! What data sets of photographs in files have in common.

use std::path::PathBuf;
use std::sync::Arc;

use md5::{Digest, Md5};

use super::{Parts, Published, Request};
use crate::dataset::ImageShape;
use crate::error::DataError;
use crate::files::{ImageFiles, LabelledFile, Reading, Studio};
use crate::subset::Subset;
use crate::transform::{Augment, Crop, Normalise, Transform};

/// What networks for photographs take.
pub(super) const SHAPE: ImageShape = ImageShape { height: 224, width: 224, channels: 3 };

/// The shorter side to 256, any 224 x 224 of it or of its mirror image; to evaluate, the
/// middle.
pub(super) fn cropped() -> Result<Transform, DataError> {
    let augment = Augment { crop: Crop::Random { pad: 0 }, flip: true, cutout: 0 };
    Ok(transform(224, Some(256), augment))
}

/// Any part of any size, brought to 224 x 224, or its mirror image; to evaluate, the
/// shorter side to 256 and the middle of it.
pub(super) fn resized_crops() -> Result<Transform, DataError> {
    let augment = Augment { crop: Crop::Resized, flip: true, cutout: 0 };
    Ok(transform(224, Some(256), augment))
}

/// A transform with ImageNet's normalisation.
pub(super) fn transform(side: usize, resize: Option<usize>, augment: Augment) -> Transform {
    let normalise = Normalise::imagenet();
    Transform { side: Some(side), resize, normalise, augment }
}

/// The lists of files that a data set is made of.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) root: PathBuf,
    pub(super) classes: Vec<String>,
    pub(super) train: Vec<LabelledFile>,
    pub(super) validation: Option<Vec<LabelledFile>>,
    pub(super) test: Vec<LabelledFile>,
    /// Files that are no images.
    pub(super) strays: usize,
}

impl Lists {
    /// The data set, its images yet to be decoded.
    pub(super) fn published(self, request: &Request<'_>) -> Result<Published, DataError> {
        let studio = self.studio(request)?;
        let digest = Some(self.digest());
        let classes = self.classes.len();
        let subset = |files| {
            let images = ImageFiles::new(Arc::clone(&studio), files, classes)?;
            Ok::<_, DataError>(Subset::all(Arc::new(images)))
        };
        let parts = Parts {
            train: subset(self.train)?,
            validation: self.validation.map(subset).transpose()?,
            test: subset(self.test)?,
        };
        let (classes, strays) = (self.classes, self.strays);
        Ok(Published { parts, classes, files: Vec::new(), studio: Some(studio), strays, digest })
    }

    /// How many files there are, and the md5 of their classes and names.
    pub(super) fn digest(&self) -> String {
        let parts = [Some(&self.train), self.validation.as_ref(), Some(&self.test)];
        let (mut count, mut md5) = (0, Md5::new());
        for (number, files) in parts.into_iter().enumerate() {
            for file in files.into_iter().flatten() {
                count += 1;
                md5.update([number as u8]);
                md5.update(file.label.to_le_bytes());
                md5.update(file.path.as_os_str().as_encoded_bytes());
                md5.update([0]);
            }
        }
        let sum: String = md5.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{count} files, {sum}")
    }

    /// What the images of all splits share.
    pub(super) fn studio(&self, request: &Request<'_>) -> Result<Arc<Studio>, DataError> {
        let (transform, options) = (request.transform, request.files);
        Studio::new(Reading {
            root: self.root.clone(),
            // Parts of many sizes are taken of the image as it is.
            shorter: match transform.augment.crop {
                Crop::Resized => None,
                _ => transform.resize,
            },
            on_bad_image: options.on_bad_image,
            cache_bytes: options.cache_mib.saturating_mul(1 << 20),
            decoders: options.decoders.map_or(0, |count| count.get()),
        })
    }
}
