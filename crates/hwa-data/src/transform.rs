//! From bytes to `f32`: crop, flip, normalisation.
//!
//! The order is torchvision's: `RandomCrop(padding)` on the byte image, whose
//! padding is black, `RandomHorizontalFlip`, `ToTensor`, `Normalize`. A byte has
//! 256 values, so the arithmetic of the last two is done once per channel and
//! looked up from then on.

use hwa_core::seed::Random;

use crate::dataset::Example;
use crate::error::DataError;

/// How an image becomes numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Transform {
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
    /// Black pixels added on each side before a crop of the image's own size is
    /// taken at random; 0 for no crop.
    pub pad: usize,
    /// Whether to mirror left and right, every second time on average.
    pub flip: bool,
}

impl Transform {
    /// The same normalisation, and nothing random.
    pub fn without_augmentation(&self) -> Self {
        Self { normalise: self.normalise.clone(), augment: Augment::default() }
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

    /// The channels in order.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }
}

/// A transform made ready: one value per byte and channel.
#[derive(Debug, Clone)]
pub(crate) struct Developer {
    tables: Vec<[f32; 256]>,
    augment: Augment,
}

impl Developer {
    pub(crate) fn new(transform: &Transform) -> Self {
        let table = |&Channel { mean, std }: &Channel| {
            // In f32 and in this order, as torchvision computes it.
            std::array::from_fn(|byte| (byte as f32 / 255.0 - mean) / std)
        };
        let tables = transform.normalise.channels.iter().map(table).collect();
        Self { tables, augment: transform.augment }
    }

    /// Writes the image into `out`, which has its size; augmented if there are
    /// random numbers to do so.
    pub(crate) fn develop(
        &self,
        example: &Example<'_>,
        random: Option<&mut Random>,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        self.check(example)?;
        let view = random.map_or(View::default(), |random| View::draw(self.augment, random));
        self.expose(example, view, out);
        Ok(())
    }

    fn expose(&self, example: &Example<'_>, view: View, out: &mut [f32]) {
        let row = example.shape.width * example.shape.channels;
        for (y, out) in out.chunks_exact_mut(row).enumerate() {
            match view.rows.source(y).filter(|&y| y < example.shape.height) {
                Some(y) => self.expose_row(&example.pixels[y * row..(y + 1) * row], view, out),
                None => self.blacken(out),
            }
        }
    }

    fn expose_row(&self, pixels: &[u8], view: View, out: &mut [f32]) {
        let channels = self.tables.len();
        let Shift { before, after } = view.columns;
        let pixels = &pixels[after * channels..pixels.len() - before * channels];
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
        let (shape, pad) = (example.shape, self.augment.pad);
        if shape.is_empty() || example.pixels.len() != shape.len() {
            return Err(DataError::PixelsDiffer { shape, found: example.pixels.len() });
        }
        if shape.channels != self.tables.len() {
            let expected = self.tables.len();
            return Err(DataError::ChannelsDiffer { expected, found: shape.channels });
        }
        if pad > shape.height.min(shape.width) {
            return Err(DataError::PaddingTooLarge { pad, shape });
        }
        Ok(())
    }
}

/// A crop and a flip, drawn for one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct View {
    rows: Shift,
    columns: Shift,
    flipped: bool,
}

/// A crop of the image's own size, in one direction: `before` black pixels and the
/// image without its last, or the image without its first `after` and as many black.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Shift {
    before: usize,
    after: usize,
}

impl View {
    /// Draws the row, then the column, then the flip.
    fn draw(augment: Augment, random: &mut Random) -> Self {
        let mut shift = || match augment.pad {
            0 => Shift::default(),
            pad => Shift::new(random.below(2 * pad as u64 + 1) as usize, pad),
        };
        let (rows, columns) = (shift(), shift());
        Self { rows, columns, flipped: augment.flip && random.below(2) == 1 }
    }
}

impl Shift {
    /// The crop that starts at `offset` in the image padded by `pad`.
    fn new(offset: usize, pad: usize) -> Self {
        Self { before: pad.saturating_sub(offset), after: offset.saturating_sub(pad) }
    }

    /// Which pixel of the image, or past its end, the crop shows at `position`.
    fn source(self, position: usize) -> Option<usize> {
        Some(position.checked_sub(self.before)? + self.after)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use hwa_core::seed::Purpose;
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::ImageShape;

    /// Bytes come out as they are: the table computes (byte / 255 - 0) / (1 / 255).
    fn as_bytes(channels: usize, pad: usize) -> Developer {
        let channel = Channel { mean: 0.0, std: 1.0 / 255.0 };
        let normalise = Normalise::new(vec![channel; channels]).unwrap();
        Developer::new(&Transform { normalise, augment: Augment { pad, flip: true } })
    }

    fn example(height: usize, width: usize, channels: usize, pixels: &[u8]) -> Example<'_> {
        let shape = ImageShape { height, width, channels };
        Example { pixels: Cow::Borrowed(pixels), shape, label: 0 }
    }

    fn view(top: usize, left: usize, flipped: bool) -> View {
        View { rows: Shift::new(top, 1), columns: Shift::new(left, 1), flipped }
    }

    fn exposed(example: &Example<'_>, pad: usize, view: View) -> Vec<u8> {
        let mut out = vec![f32::NAN; example.pixels.len()];
        as_bytes(example.shape.channels, pad).expose(example, view, &mut out);
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
        assert_eq!(exposed(&image, 1, view(0, 0, false)), [0, 0, 0, 0, 1, 2, 0, 4, 5]);
        assert_eq!(exposed(&image, 1, view(1, 1, false)), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(exposed(&image, 1, view(2, 2, false)), [5, 6, 0, 8, 9, 0, 0, 0, 0]);
        assert_eq!(exposed(&image, 1, view(1, 2, true)), [0, 3, 2, 0, 6, 5, 0, 9, 8]);
        assert_eq!(exposed(&image, 1, view(1, 0, true)), [2, 1, 0, 5, 4, 0, 8, 7, 0]);
    }

    #[test]
    fn a_flip_keeps_the_channels_of_a_pixel_together() {
        let image = example(1, 2, 3, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(exposed(&image, 1, view(1, 1, true)), [4, 5, 6, 1, 2, 3]);
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
            let view = View { rows: Shift::new(top, pad), columns: Shift::new(left, pad), flipped };
            let found = exposed(&example(height, width, channels, &pixels), pad, view);
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
        let augment = Augment { pad: 1, flip: true };
        let mut counts = std::collections::BTreeMap::new();
        for position in 0..18_000 {
            let mut random = Random::new(0, 0, Purpose::Augment, [0, position]);
            let View { rows, columns, flipped } = View::draw(augment, &mut random);
            *counts
                .entry((rows.before, rows.after, columns.before, columns.after, flipped))
                .or_insert(0u32) += 1;
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
        let augment = Augment { pad: 1, flip: false };
        let developer = Developer::new(&Transform { normalise, augment });
        let image = example(1, 1, 3, &[255, 51, 0]);
        let mut out = [0.0; 3];
        developer.develop(&image, None, &mut out).unwrap();
        // (1 - 0.5) / 0.25, 51 / 255, (0 - 1) / 0.5
        assert_eq!(out, [2.0, 0.2, -2.0]);
        developer.expose(&image, view(0, 0, false), &mut out);
        assert_eq!(out, [-2.0, 0.0, -2.0]);
    }

    #[test]
    fn without_augmentation_nothing_is_random() {
        let normalise = Normalise::new(vec![Channel { mean: 0.0, std: 1.0 / 255.0 }]).unwrap();
        let transform = Transform { normalise, augment: Augment { pad: 1, flip: true } };
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

    #[test]
    fn deviations_that_cannot_divide_are_refused() {
        for (mean, std) in [(0.0, 0.0), (0.0, -1.0), (0.0, f32::NAN), (f32::INFINITY, 1.0)] {
            let error =
                Normalise::new(vec![Channel { mean: 0.0, std: 1.0 }, Channel { mean, std }]);
            assert!(matches!(error, Err(DataError::BadNormalisation { channel: 1, .. })));
        }
    }
}
