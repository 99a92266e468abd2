//! Decoded images in memory, as bytes: a quarter of what `f32` would take.

use std::borrow::Cow;

use crate::dataset::{Dataset, Example, ImageShape};
use crate::error::DataError;

/// A data set whose images, all of one shape, lie in memory in `[N, H, W, C]` order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InMemory {
    shape: ImageShape,
    num_classes: usize,
    pixels: Vec<u8>,
    labels: Vec<u32>,
}

impl InMemory {
    /// Images one after the other, with the class of each.
    pub fn new(
        shape: ImageShape,
        num_classes: usize,
        pixels: Vec<u8>,
        labels: Vec<u32>,
    ) -> Result<Self, DataError> {
        if shape.is_empty() || !pixels.len().is_multiple_of(shape.len()) {
            return Err(DataError::PixelsDiffer { shape, found: pixels.len() });
        }
        let images = pixels.len() / shape.len();
        if images != labels.len() {
            return Err(DataError::LabelsDiffer { images, labels: labels.len() });
        }
        if let Some(index) = labels.iter().position(|&label| label as usize >= num_classes) {
            return Err(DataError::NotAClass { index, label: labels[index], classes: num_classes });
        }
        Ok(Self { shape, num_classes, pixels, labels })
    }

    /// The shape of every image.
    pub fn shape(&self) -> ImageShape {
        self.shape
    }
}

impl Dataset for InMemory {
    fn num_examples(&self) -> usize {
        self.labels.len()
    }

    fn num_classes(&self) -> usize {
        self.num_classes
    }

    fn label(&self, index: usize) -> Result<u32, DataError> {
        let count = self.labels.len();
        self.labels.get(index).copied().ok_or(DataError::NoSuchExample { index, count })
    }

    fn get(&self, index: usize) -> Result<Example<'_>, DataError> {
        let label = self.label(index)?;
        let start = index * self.shape.len();
        let pixels = &self.pixels[start..start + self.shape.len()];
        Ok(Example { pixels: Cow::Borrowed(pixels), shape: self.shape, label })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ImageShape = ImageShape { height: 1, width: 2, channels: 1 };

    #[test]
    fn an_image_is_its_slice_of_the_bytes() {
        let data = InMemory::new(SHAPE, 2, vec![1, 2, 3, 4], vec![0, 1]).unwrap();
        let second = data.get(1).unwrap();
        assert_eq!((second.pixels.as_ref(), second.label), (&[3, 4][..], 1));
        assert!(matches!(data.get(2), Err(DataError::NoSuchExample { index: 2, count: 2 })));
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let error = |pixels, labels| InMemory::new(SHAPE, 2, pixels, labels).unwrap_err();
        assert!(matches!(error(vec![0; 3], vec![0]), DataError::PixelsDiffer { found: 3, .. }));
        let labels = error(vec![0; 4], vec![0]);
        assert!(matches!(labels, DataError::LabelsDiffer { images: 2, labels: 1 }));
        let class = error(vec![0; 4], vec![0, 2]);
        assert!(matches!(class, DataError::NotAClass { index: 1, label: 2, classes: 2 }));
        let nothing = ImageShape { height: 0, ..SHAPE };
        assert!(InMemory::new(nothing, 2, vec![], vec![]).is_err());
        let absurd = ImageShape { height: usize::MAX, width: usize::MAX, channels: 3 };
        assert!(InMemory::new(absurd, 2, vec![0; 4], vec![0]).is_err());
    }
}
