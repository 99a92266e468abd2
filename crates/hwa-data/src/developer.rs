//! From bytes to `f32`, as a [`Transform`] says.
//!
//! A byte has 256 values, so normalisation is computed once per channel and value and
//! looked up from then on.

use std::borrow::Cow;

use hwa_core::seed::Random;
use hwa_picture::Rectangle;

use crate::dataset::{Example, ImageShape};
use crate::error::DataError;
use crate::transform::{Augment, Channel, Crop, Transform};
use crate::view::{self, View, Window};

/// A transform made ready: one value per byte and channel.
#[derive(Debug, Clone)]
pub(crate) struct Developer {
    tables: Vec<[f32; 256]>,
    transform: Transform,
}

impl Developer {
    pub(crate) fn new(transform: &Transform) -> Self {
        let table = |&Channel { mean, std }: &Channel| {
            // In f32 and in this order, as torchvision computes it.
            std::array::from_fn(|byte| (byte as f32 / 255.0 - mean) / std)
        };
        let tables = transform.normalise.channels().iter().map(table).collect();
        Self { tables, transform: transform.clone() }
    }

    /// The shape that comes out for every image, if it does not depend on the image.
    pub(crate) fn fixed_output(&self) -> Option<ImageShape> {
        let side = self.transform.side?;
        Some(ImageShape { height: side, width: side, channels: self.tables.len() })
    }

    /// The shape that comes out for an image.
    pub(crate) fn output(&self, image: ImageShape) -> ImageShape {
        self.transform.output(image)
    }

    /// Writes the image into `out`, which has the output's size; augmented if there are
    /// random numbers to do so.
    pub(crate) fn develop(
        &self,
        example: &Example<'_>,
        random: Option<&mut Random>,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        self.check(example)?;
        let output = self.output(example.shape);
        let random = random.map(|random| (self.transform.augment, random));
        let (frame, view) = match random {
            Some((Augment { crop: Crop::Resized, flip, cutout }, random)) => {
                let part = view::part(example.shape, random);
                let frame = Frame::part(example, part, (output.height, output.width))?;
                (frame, View::whole(output).changed(flip, cutout, random))
            }
            Some((Augment { crop, flip, cutout }, random)) => {
                let frame = self.resized(example)?;
                let view = match crop {
                    Crop::Random { pad } => View::drawn(output, frame.shape, pad, random)?,
                    _ => View::middle(output, frame.shape)?,
                };
                (frame, view.changed(flip, cutout, random))
            }
            None => {
                let frame = self.resized(example)?;
                let view = View::middle(output, frame.shape)?;
                (frame, view)
            }
        };
        self.expose(&frame, view, out);
        Ok(())
    }

    /// The image with its shorter side as the transform wants it.
    fn resized<'a>(&self, example: &'a Example<'_>) -> Result<Frame<'a>, DataError> {
        let Some(side) = self.transform.resize else { return Ok(Frame::of(example)) };
        let size = hwa_picture::shorter_to(side, example.shape);
        Frame::part(example, Rectangle::whole(example.shape), size)
    }

    fn expose(&self, frame: &Frame<'_>, view: View, out: &mut [f32]) {
        let channels = self.tables.len();
        let row = frame.shape.width * channels;
        for (y, out) in out.chunks_exact_mut(view.columns.len() * channels).enumerate() {
            match view.rows.source(y, frame.shape.height) {
                Some(y) => self.expose_row(&frame.pixels[y * row..(y + 1) * row], view, out),
                None => self.blacken(out),
            }
            if let Some(cutout) = view.cutout
                && (cutout.top..cutout.top + cutout.height).contains(&y)
            {
                out[cutout.left * channels..(cutout.left + cutout.width) * channels].fill(0.0);
            }
        }
    }

    fn expose_row(&self, pixels: &[u8], view: View, out: &mut [f32]) {
        let channels = self.tables.len();
        let (before, seen) = view.columns.seen(pixels.len() / channels);
        let after = view.columns.len() - before - seen.len();
        let pixels = &pixels[seen.start * channels..seen.end * channels];
        let (before, after) = if view.flipped { (after, before) } else { (before, after) };
        let (left, rest) = out.split_at_mut(before * channels);
        let (middle, right) = rest.split_at_mut(rest.len() - after * channels);
        self.blacken(left);
        self.blacken(right);
        if view.flipped {
            self.look_up(pixels.rchunks_exact(channels), middle);
        } else {
            self.look_up(pixels.chunks_exact(channels), middle);
        }
    }

    fn look_up<'a>(&self, pixels: impl Iterator<Item = &'a [u8]>, out: &mut [f32]) {
        for (out, pixel) in out.chunks_exact_mut(self.tables.len()).zip(pixels) {
            for ((out, &byte), table) in out.iter_mut().zip(pixel).zip(&self.tables) {
                *out = table[usize::from(byte)];
            }
        }
    }

    fn blacken(&self, out: &mut [f32]) {
        for out in out.chunks_exact_mut(self.tables.len()) {
            for (out, table) in out.iter_mut().zip(&self.tables) {
                *out = table[0];
            }
        }
    }

    /// Whether the image is one that can be developed.
    pub(crate) fn check(&self, example: &Example<'_>) -> Result<(), DataError> {
        let shape = example.shape;
        if shape.is_empty() || example.pixels.len() != shape.len() {
            return Err(DataError::PixelsDiffer { shape, found: example.pixels.len() });
        }
        if shape.channels != self.tables.len() {
            let expected = self.tables.len();
            return Err(DataError::ChannelsDiffer { expected, found: shape.channels });
        }
        match self.transform.augment.crop {
            Crop::Random { pad } if pad > shape.height.min(shape.width) => {
                Err(DataError::PaddingTooLarge { pad, shape })
            }
            _ => Ok(()),
        }
    }
}

/// An image at the size that it is cropped from.
struct Frame<'a> {
    pixels: Cow<'a, [u8]>,
    shape: ImageShape,
}

impl<'a> Frame<'a> {
    /// The image as it is.
    fn of(example: &'a Example<'_>) -> Self {
        Self { pixels: Cow::Borrowed(&example.pixels), shape: example.shape }
    }

    /// A part of the image, brought to a height and a width.
    fn part(
        example: &'a Example<'_>,
        part: Rectangle,
        (height, width): (usize, usize),
    ) -> Result<Self, DataError> {
        let shape = ImageShape { height, width, ..example.shape };
        if part == Rectangle::whole(example.shape) && shape == example.shape {
            return Ok(Self::of(example));
        }
        let pixels = hwa_picture::resized(&example.pixels, example.shape, part, shape)?;
        Ok(Self { pixels: Cow::Owned(pixels), shape })
    }
}

impl View {
    /// All of an image.
    fn whole(image: ImageShape) -> Self {
        let (rows, columns) = (Window::whole(image.height), Window::whole(image.width));
        Self { rows, columns, flipped: false, cutout: None }
    }

    /// The middle of an image.
    fn middle(output: ImageShape, image: ImageShape) -> Result<Self, DataError> {
        let rows = Window::middle(output.height, image.height)?;
        let columns = Window::middle(output.width, image.width)?;
        Ok(Self { rows, columns, flipped: false, cutout: None })
    }

    /// Anywhere in a padded image. The row is drawn first.
    fn drawn(
        output: ImageShape,
        image: ImageShape,
        pad: usize,
        random: &mut Random,
    ) -> Result<Self, DataError> {
        let rows = Window::drawn(output.height, image.height, pad, random)?;
        let columns = Window::drawn(output.width, image.width, pad, random)?;
        Ok(Self { rows, columns, flipped: false, cutout: None })
    }

    /// Flipped or not, then with a square cut out or not.
    fn changed(self, flip: bool, cutout: usize, random: &mut Random) -> Self {
        let flipped = flip && random.below(2) == 1;
        let (height, width) = (self.rows.len(), self.columns.len());
        let image = ImageShape { height, width, channels: 1 };
        Self { flipped, cutout: view::cutout(cutout, image, random), ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use hwa_core::seed::Purpose;
    use proptest::prelude::*;

    use super::*;
    use crate::transform::Normalise;

    /// Bytes come out as they are: the table computes (byte / 255 - 0) / (1 / 255).
    fn as_bytes(channels: usize, pad: usize) -> Developer {
        let channel = Channel { mean: 0.0, std: 1.0 / 255.0 };
        let normalise = Normalise::new(vec![channel; channels]).unwrap();
        Developer::new(&padded(normalise, pad, true))
    }

    fn padded(normalise: Normalise, pad: usize, flip: bool) -> Transform {
        let augment = Augment { crop: Crop::Random { pad }, flip, cutout: 0 };
        Transform { augment, ..Transform::plain(normalise) }
    }

    fn example(height: usize, width: usize, channels: usize, pixels: &[u8]) -> Example<'_> {
        let shape = ImageShape { height, width, channels };
        Example { pixels: Cow::Borrowed(pixels), shape, label: 0 }
    }

    /// The part of the image's own size that starts there, counted from the image's corner.
    fn view(image: &Example<'_>, top: isize, left: isize, flipped: bool) -> View {
        let ImageShape { height, width, .. } = image.shape;
        let (rows, columns) = (Window::at(top, height), Window::at(left, width));
        View { rows, columns, flipped, cutout: None }
    }

    fn exposed(example: &Example<'_>, view: View) -> Vec<u8> {
        let mut out = vec![f32::NAN; view.rows.len() * view.columns.len() * example.shape.channels];
        as_bytes(example.shape.channels, 0).expose(&Frame::of(example), view, &mut out);
        out.iter().map(|value| value.round() as u8).collect()
    }

    #[test]
    fn crops_and_flips_follow_the_hand_computed_image() {
        // Padded by one:  0 0 0 0 0
        //                 0 1 2 3 0
        //                 0 4 5 6 0
        //                 0 7 8 9 0
        //                 0 0 0 0 0
        let image = example(3, 3, 1, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(exposed(&image, view(&image, -1, -1, false)), [0, 0, 0, 0, 1, 2, 0, 4, 5]);
        assert_eq!(exposed(&image, view(&image, 0, 0, false)), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(exposed(&image, view(&image, 1, 1, false)), [5, 6, 0, 8, 9, 0, 0, 0, 0]);
        assert_eq!(exposed(&image, view(&image, 0, 1, true)), [0, 3, 2, 0, 6, 5, 0, 9, 8]);
        assert_eq!(exposed(&image, view(&image, 0, -1, true)), [2, 1, 0, 5, 4, 0, 8, 7, 0]);
    }

    #[test]
    fn a_flip_keeps_the_channels_of_a_pixel_together() {
        let image = example(1, 2, 3, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(exposed(&image, view(&image, 0, 0, true)), [4, 5, 6, 1, 2, 3]);
    }

    proptest! {
        #[test]
        fn every_crop_and_flip_equals_the_definition(
            height in 1..6usize, width in 1..6usize, channels in 1..5usize,
            pad in 0..6usize, top in 0..11usize, left in 0..11usize, flipped: bool,
        ) {
            let pad = pad.min(height).min(width);
            let (top, left) = (top % (2 * pad + 1), left % (2 * pad + 1));
            let pixels: Vec<u8> = (1..=(height * width * channels) as u8).collect();
            let image = example(height, width, channels, &pixels);
            let (up, along) = (top as isize - pad as isize, left as isize - pad as isize);
            let found = exposed(&image, view(&image, up, along, flipped));
            for y in 0..height {
                for x in 0..width {
                    let column = if flipped { width - 1 - x } else { x };
                    let inside = (pad..pad + height).contains(&(y + top))
                        && (pad..pad + width).contains(&(column + left));
                    for c in 0..channels {
                        let expected = match inside {
                            true => {
                                let (y, x) = (y + top - pad, column + left - pad);
                                pixels[(y * width + x) * channels + c]
                            }
                            false => 0,
                        };
                        prop_assert_eq!(found[(y * width + x) * channels + c], expected);
                    }
                }
            }
        }
    }

    #[test]
    fn offsets_are_uniform_and_flips_are_fair() {
        let image = ImageShape { height: 4, width: 4, channels: 1 };
        let mut counts = std::collections::BTreeMap::new();
        for position in 0..18_000 {
            let mut random = Random::new(0, 0, Purpose::Augment, [0, position]);
            let view = View::drawn(image, image, 1, &mut random).unwrap();
            let View { rows, columns, flipped, .. } = view.changed(true, 0, &mut random);
            *counts.entry(format!("{rows:?} {columns:?} {flipped}")).or_insert(0u32) += 1;
        }
        // 3 x 3 offsets x 2: each binomial with mean 1,000 and standard deviation 31.
        assert_eq!(counts.len(), 18);
        assert!(counts.values().all(|count| count.abs_diff(1000) < 150), "{counts:?}");
    }

    #[test]
    fn normalisation_is_per_channel_and_padding_is_black_before_it() {
        let channels = [(0.5, 0.25), (0.0, 1.0), (1.0, 0.5)];
        let channels = channels.map(|(mean, std)| Channel { mean, std }).to_vec();
        let normalise = Normalise::new(channels).unwrap();
        let developer = Developer::new(&padded(normalise, 1, false));
        let image = example(1, 1, 3, &[255, 51, 0]);
        let mut out = [0.0; 3];
        developer.develop(&image, None, &mut out).unwrap();
        // (1 - 0.5) / 0.25, 51 / 255, (0 - 1) / 0.5
        assert_eq!(out, [2.0, 0.2, -2.0]);
        developer.expose(&Frame::of(&image), view(&image, -1, -1, false), &mut out);
        assert_eq!(out, [-2.0, 0.0, -2.0]);
    }

    #[test]
    fn without_augmentation_nothing_is_random() {
        let normalise = Normalise::new(vec![Channel { mean: 0.0, std: 1.0 / 255.0 }]).unwrap();
        let transform = padded(normalise, 1, true);
        let developer = Developer::new(&transform.without_augmentation());
        for position in 0..50 {
            let mut random = Random::new(0, 0, Purpose::Augment, [0, position]);
            let mut out = [0.0; 2];
            developer.develop(&example(1, 2, 1, &[7, 9]), Some(&mut random), &mut out).unwrap();
            assert_eq!(out.map(|value| value.round() as u8), [7, 9]);
        }
    }

    #[test]
    fn images_that_do_not_fit_the_transform_are_refused() {
        let develop = |image: Example<'_>, pad| {
            as_bytes(1, pad).develop(&image, None, &mut vec![0.0; image.pixels.len()]).unwrap_err()
        };
        let short = develop(example(2, 2, 1, &[0; 3]), 0);
        assert!(matches!(short, DataError::PixelsDiffer { found: 3, .. }), "{short}");
        let empty = develop(example(0, 2, 1, &[]), 0);
        assert!(matches!(empty, DataError::PixelsDiffer { found: 0, .. }), "{empty}");
        let colour = develop(example(1, 1, 3, &[0; 3]), 0);
        assert!(matches!(colour, DataError::ChannelsDiffer { expected: 1, found: 3 }), "{colour}");
        let padded = develop(example(1, 2, 1, &[0; 2]), 2);
        assert!(matches!(padded, DataError::PaddingTooLarge { pad: 2, .. }), "{padded}");
    }

    /// A gradient, so that every pixel tells where it is.
    fn large(height: usize, width: usize) -> Vec<u8> {
        (0..height).flat_map(|y| (0..width).flat_map(move |x| [y as u8, x as u8, 7])).collect()
    }

    #[test]
    fn a_crop_smaller_than_the_image_is_its_middle_or_any_part() {
        let channel = Channel { mean: 0.0, std: 1.0 / 255.0 };
        let normalise = Normalise::new(vec![channel; 3]).unwrap();
        let transform = Transform { side: Some(4), ..padded(normalise, 0, false) };
        let developer = Developer::new(&transform);
        let pixels = large(8, 10);
        let image = example(8, 10, 3, &pixels);
        let corner = |random: Option<&mut Random>| {
            let mut out = [0.0; 4 * 4 * 3];
            developer.develop(&image, random, &mut out).unwrap();
            let [top, left, _, ..] = out.map(|value| value.round() as usize);
            let last = (out[45].round() as usize, out[46].round() as usize);
            assert_eq!(last, (top + 3, left + 3));
            (top, left)
        };
        assert_eq!(corner(None), (2, 3));
        let drawn: std::collections::BTreeSet<_> = (0..2000)
            .map(|at| corner(Some(&mut Random::new(0, 0, Purpose::Augment, [0, at]))))
            .collect();
        // Rows 0 to 4 and columns 0 to 6.
        assert_eq!(drawn.len(), 35);
        assert!(drawn.contains(&(0, 0)) && drawn.contains(&(4, 6)));
    }

    #[test]
    fn a_cutout_is_the_mean_and_nothing_else_changes() {
        let channels = vec![Channel { mean: 0.5, std: 0.5 }; 3];
        let mut transform = Transform::plain(Normalise::new(channels).unwrap());
        transform.augment.cutout = 3;
        let developer = Developer::new(&transform);
        let pixels = [255; 6 * 6 * 3];
        let image = example(6, 6, 3, &pixels);
        let mut sizes = std::collections::BTreeSet::new();
        for at in 0..200 {
            let mut out = [f32::NAN; 6 * 6 * 3];
            let mut random = Random::new(0, 0, Purpose::Augment, [0, at]);
            developer.develop(&image, Some(&mut random), &mut out).unwrap();
            assert!(out.iter().all(|value| [0.0, 1.0].contains(value)));
            sizes.insert(out.iter().filter(|value| **value == 0.0).count() / 3);
        }
        // 3 x 3, 2 x 3 at an edge and 2 x 2 in a corner.
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [4, 6, 9]);
    }

    #[test]
    fn resized_crops_and_resized_images_have_the_size_that_is_asked_for() {
        let channels = vec![Channel { mean: 0.0, std: 1.0 / 255.0 }; 3];
        let normalise = Normalise::new(channels).unwrap();
        let augment = Augment { crop: Crop::Resized, flip: true, cutout: 0 };
        let transform = Transform { side: Some(8), resize: Some(10), normalise, augment };
        let developer = Developer::new(&transform);
        let pixels = large(30, 40);
        let image = example(30, 40, 3, &pixels);
        let mut out = [f32::NAN; 8 * 8 * 3];
        for at in 0..50 {
            let mut random = Random::new(0, 0, Purpose::Augment, [0, at]);
            developer.develop(&image, Some(&mut random), &mut out).unwrap();
            let rows: Vec<f32> = out.chunks(8 * 3).map(|row| row[0]).collect();
            assert!(rows.is_sorted() && rows[7] > rows[0] && rows[7] < 30.0, "{rows:?}");
        }
        // Without random numbers: 10 x 13 of the whole, and its middle 8 x 8. A pixel is
        // three of the image's, the first of the middle begins at the fourth.
        developer.develop(&image, None, &mut out).unwrap();
        assert!((out[0] - 4.0).abs() <= 1.0, "{}", out[0]);
        assert!((out[out.len() - 3] - 25.0).abs() <= 1.0, "{}", out[out.len() - 3]);
        assert!(out.iter().skip(2).step_by(3).all(|blue| blue.round() == 7.0));
    }
}
