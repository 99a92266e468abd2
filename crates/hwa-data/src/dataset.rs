//! What a data set is: examples by number.

use std::borrow::Cow;
use std::path::Path;

use crc32fast::Hasher;
pub use hwa_picture::ImageShape;
use rayon::ThreadPool;
use serde::{Deserialize, Serialize};

use crate::error::DataError;

/// One image, as bytes in `[H, W, C]` order, and its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example<'a> {
    /// `shape.len()` bytes.
    pub pixels: Cow<'a, [u8]>,
    /// The shape of the image.
    pub shape: ImageShape,
    /// The class, below the data set's number of classes.
    pub label: u32,
}

/// What to do with an image that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadImage {
    /// Go on without it. In training the next image of the order takes its place.
    #[default]
    Skip,
    /// Stop.
    Fail,
}

/// Labelled images by number.
pub trait Dataset: Send + Sync {
    /// How many examples there are.
    fn num_examples(&self) -> usize;

    /// How many classes there are.
    fn num_classes(&self) -> usize;

    /// The class of an example, without decoding its image.
    fn label(&self, index: usize) -> Result<u32, DataError>;

    /// One example.
    fn get(&self, index: usize) -> Result<Example<'_>, DataError>;

    /// What tells an example apart from that of another copy of the data set: of its pixels and
    /// its class; where images are files, of their names, sizes and classes, without decoding.
    fn checksum(&self, index: usize) -> Result<u32, DataError> {
        let example = self.get(index)?;
        let mut hasher = Hasher::new();
        hasher.update(&example.pixels);
        hasher.update(&example.label.to_le_bytes());
        Ok(hasher.finalize())
    }

    /// The file of an example below the folder of the data set, if it has one of its own.
    fn file(&self, _index: usize) -> Option<&Path> {
        None
    }

    /// What a loader does where [`get`](Self::get) says [`DataError::BadImage`].
    fn on_bad_image(&self) -> OnBadImage {
        OnBadImage::Fail
    }

    /// Gives up on an image that was got and cannot be seen as it is asked for, such as one
    /// that is too narrow: [`DataError::BadImage`] with its file, if it has one.
    fn give_up(&self, _index: usize, _reason: String) -> Option<DataError> {
        None
    }

    /// The threads that share the examples of a batch, if getting one takes long.
    fn decoders(&self) -> Option<&ThreadPool> {
        None
    }
}
