//! Images at some positions, made into a batch: by several threads where that pays, and
//! without those that cannot be read where that is allowed.

use std::ops::Range;

use hwa_core::seed::Random;
use rayon::prelude::*;

use crate::batch::Batch;
use crate::dataset::{ImageShape, OnBadImage};
use crate::developer::Developer;
use crate::error::DataError;
use crate::subset::Subset;

/// How many images may be tried in the place of a bad one.
const REPLACEMENTS: usize = 16;

/// So many bad images are left out of a batch even if they are most of it.
const FEW: usize = 8;

/// The images of a pass.
pub(crate) struct Images<'a> {
    pub(crate) subset: &'a Subset,
    /// The order of a pass in which the next image takes the place of a bad one; without
    /// an order the images come as they are, and bad ones are left out.
    pub(crate) order: Option<&'a [usize]>,
}

impl Images<'_> {
    /// Develops the images at these positions, each with random numbers of its own.
    pub(crate) fn developed(
        &self,
        developer: &Developer,
        positions: Range<usize>,
        random: impl Fn(usize) -> Option<Random> + Sync,
    ) -> Result<Batch, DataError> {
        let shape = self.shape(developer, positions.start)?;
        let mut images = vec![0.0; positions.len() * shape.len()];
        let one = |(position, out): (usize, &mut [f32])| {
            self.develop_one(developer, position, random(position), (shape, out))
        };
        let outs = images.chunks_exact_mut(shape.len());
        let labels: Vec<Result<u32, DataError>> = match self.subset.dataset().decoders() {
            None => positions.zip(outs).map(one).collect(),
            Some(pool) => {
                let work: Vec<(usize, &mut [f32])> = positions.zip(outs).collect();
                pool.install(|| work.into_par_iter().map(one).collect())
            }
        };
        self.without_bad_ones(images, labels, shape)
    }

    /// The shape of a batch: the transform's, or that of its first image.
    fn shape(&self, developer: &Developer, first: usize) -> Result<ImageShape, DataError> {
        if let Some(shape) = developer.fixed_output() {
            return Ok(shape);
        }
        let example = self.subset.get(self.number(first))?;
        // Before memory is asked for by its shape.
        developer.check(&example)?;
        Ok(developer.output(example.shape))
    }

    /// Develops the image at a position, or the next one that can be in its place; gives its
    /// class.
    fn develop_one(
        &self,
        developer: &Developer,
        position: usize,
        random: Option<Random>,
        (shape, out): (ImageShape, &mut [f32]),
    ) -> Result<u32, DataError> {
        let first =
            match self.develop(developer, self.number(position), random.clone(), (shape, out)) {
                Err(error @ DataError::BadImage { .. }) => error,
                other => return other,
            };
        let (Some(order), OnBadImage::Skip) = (self.order, self.subset.dataset().on_bad_image())
        else {
            return Err(first);
        };
        for step in 1..=REPLACEMENTS {
            let index = order[(position + step) % order.len()];
            match self.develop(developer, index, random.clone(), (shape, out)) {
                Err(DataError::BadImage { .. }) => {}
                other => return other,
            }
        }
        let (bad, images, first) = (REPLACEMENTS + 1, order.len(), Box::new(first));
        Err(DataError::TooManyBadImages { bad, images, first })
    }

    fn develop(
        &self,
        developer: &Developer,
        index: usize,
        mut random: Option<Random>,
        (shape, out): (ImageShape, &mut [f32]),
    ) -> Result<u32, DataError> {
        let example = self.subset.get(index)?;
        let found = developer.output(example.shape);
        if found != shape {
            return Err(DataError::ShapesDiffer { index, expected: shape, found });
        }
        let (label, classes) = (example.label, self.subset.num_classes());
        if label as usize >= classes {
            return Err(DataError::NotAClass { index, label, classes });
        }
        match developer.develop(&example, random.as_mut(), out) {
            Ok(()) => Ok(label),
            Err(error) => Err(self.subset.bad_image(index, error)),
        }
    }

    fn number(&self, position: usize) -> usize {
        self.order.map_or(position, |order| order[position])
    }

    /// Closes the gaps that bad images left.
    fn without_bad_ones(
        &self,
        mut images: Vec<f32>,
        found: Vec<Result<u32, DataError>>,
        shape: ImageShape,
    ) -> Result<Batch, DataError> {
        let skip = self.subset.dataset().on_bad_image() == OnBadImage::Skip;
        let (all, mut labels) = (found.len(), Vec::with_capacity(found.len()));
        let (mut bad, mut first_bad) = (0, None);
        for (i, label) in found.into_iter().enumerate() {
            match label {
                Ok(label) => {
                    let to = labels.len() * shape.len();
                    if bad > 0 {
                        images.copy_within(i * shape.len()..(i + 1) * shape.len(), to);
                    }
                    labels.push(label);
                }
                Err(error @ DataError::BadImage { .. }) if skip => {
                    bad += 1;
                    first_bad.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(first) = first_bad
            && bad > (all / 2).max(FEW)
        {
            return Err(DataError::TooManyBadImages { bad, images: all, first: Box::new(first) });
        }
        images.truncate(labels.len() * shape.len());
        Ok(Batch { images, labels, shape })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::num::NonZeroUsize;
    use std::sync::Arc;

    use super::*;
    use crate::files::{ImageFiles, Reading, Studio};
    use crate::fixtures::{folder, images};
    use crate::loader::{EvaluationBatches, Position, RecalibrationBatches, TrainingBatches};
    use crate::scan::class_folders;
    use crate::transform::{Normalise, Transform};

    /// Ten images of 8 x 10 of two classes, of which number 3 and those in `more` are bad.
    fn damaged(more: &[usize], on_bad_image: OnBadImage) -> (tempfile::TempDir, Subset) {
        let bad = |i: usize| i == 3 || more.contains(&i);
        let files = images("a", 5).chain(images("b", 5)).enumerate();
        let dir = folder(files.map(|(i, (path, bytes))| match bad(i) {
            true => (path, b"<html>not found</html>".to_vec()),
            false => (path, bytes),
        }));
        let found = class_folders(dir.path(), dir.path()).unwrap();
        let studio = Studio::new(Reading {
            root: dir.path().to_owned(),
            shorter: None,
            on_bad_image,
            cache_bytes: 10 * 8 * 10,
            decoders: 3,
        });
        let images = ImageFiles::new(studio.unwrap(), found.files, 2).unwrap();
        (dir, Subset::all(Arc::new(images)))
    }

    fn transform() -> Transform {
        Transform { side: Some(6), ..Transform::plain(Normalise::imagenet()) }
    }

    fn size(batch: usize) -> NonZeroUsize {
        NonZeroUsize::new(batch).unwrap()
    }

    fn training(subset: Subset) -> impl Iterator<Item = Result<Batch, DataError>> {
        let from = Position { seed: 1, replica: 0, step: 0 };
        TrainingBatches::new(subset, transform(), size(4), from).unwrap()
    }

    /// Which images a batch holds, by the red of their first pixel.
    fn numbers(batch: &Batch) -> Vec<usize> {
        let number = |image: &[f32], label: u32| {
            let red = (image[0] * 0.229 + 0.485) * 255.0;
            red.round() as usize + 5 * label as usize
        };
        let images = batch.images.chunks(batch.shape.len());
        images.zip(&batch.labels).map(|(image, &label)| number(image, label)).collect()
    }

    #[test]
    fn in_training_the_next_image_takes_the_place_of_a_bad_one() {
        let (_whole, all) = damaged(&[], OnBadImage::Skip);
        let batches: Vec<Batch> = training(all).take(3).map(Result::unwrap).collect();
        assert_eq!(batches.iter().map(Batch::len).collect::<Vec<_>>(), [4, 4, 2]);
        let seen: Vec<usize> = batches.iter().flat_map(numbers).collect();
        assert!(!seen.contains(&3));
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 9);
        // One of them stands twice: where it belongs, and just before.
        let twice = seen.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(twice == 1 || seen[9] == seen[0], "{seen:?}");
    }

    #[test]
    fn an_evaluation_leaves_bad_images_out() {
        let (_dir, subset) = damaged(&[8, 9], OnBadImage::Skip);
        let batches = EvaluationBatches::new(subset.clone(), transform(), size(4));
        let seen: Vec<Vec<usize>> = batches.map(|batch| numbers(&batch.unwrap())).collect();
        // Of the last batch nothing is left.
        assert_eq!(seen, [vec![0, 1, 2], vec![4, 5, 6, 7]]);
        let one_by_one = EvaluationBatches::new(subset, transform(), size(1));
        let seen: Vec<usize> = one_by_one.flat_map(|batch| numbers(&batch.unwrap())).collect();
        assert_eq!(seen, [0, 1, 2, 4, 5, 6, 7]);
    }

    #[test]
    fn when_most_images_are_bad_it_ends() {
        let most: Vec<usize> = (0..9).collect();
        let (_dir, subset) = damaged(&most, OnBadImage::Skip);
        let error = EvaluationBatches::new(subset, transform(), size(10)).next().unwrap();
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("9 of 10 images of a batch cannot be read; the first: `"));
        let all: Vec<usize> = (0..10).collect();
        let (_dir, subset) = damaged(&all, OnBadImage::Skip);
        assert!(matches!(training(subset).next(), Some(Err(DataError::TooManyBadImages { .. }))));
    }

    #[test]
    fn it_fails_where_it_is_told_to() {
        let (_dir, subset) = damaged(&[], OnBadImage::Fail);
        let fails = |batches: &mut dyn Iterator<Item = Result<Batch, DataError>>| {
            batches.take(3).any(|batch| matches!(batch, Err(DataError::BadImage { .. })))
        };
        assert!(fails(&mut training(subset.clone())));
        assert!(fails(&mut EvaluationBatches::new(subset.clone(), transform(), size(4))));
        assert!(fails(&mut RecalibrationBatches::new(subset, transform(), size(4), 0)));
    }

    #[test]
    fn threads_and_memory_do_not_change_a_batch() {
        let batches = |decoders, cache_bytes| -> Vec<Batch> {
            let dir = folder(images("a", 5).chain(images("b", 5)));
            let found = class_folders(dir.path(), dir.path()).unwrap();
            let (root, on_bad_image) = (dir.path().to_owned(), OnBadImage::Fail);
            let reading = Reading { root, shorter: Some(7), on_bad_image, cache_bytes, decoders };
            let studio = Studio::new(reading).unwrap();
            let images = ImageFiles::new(studio, found.files, 2).unwrap();
            training(Subset::all(Arc::new(images))).take(9).map(Result::unwrap).collect()
        };
        let expected = batches(1, 0);
        for (decoders, cache) in [(4, 0), (1, 1 << 20), (3, 1 << 20), (2, 500)] {
            assert_eq!(batches(decoders, cache), expected, "{decoders} threads, {cache} bytes");
        }
    }
}
