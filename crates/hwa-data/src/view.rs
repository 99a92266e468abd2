//! Which part of an image is seen: drawn at random for training, the middle otherwise.

use hwa_core::seed::Random;
use hwa_picture::Rectangle;

use crate::dataset::ImageShape;
use crate::error::DataError;

/// A part of an image as it will come out. What is outside of the image is black.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) rows: Window,
    pub(crate) columns: Window,
    pub(crate) flipped: bool,
    /// The rectangle that is set to the mean.
    pub(crate) cutout: Option<Rectangle>,
}

/// A part of an image in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// The first pixel; negative in the padding.
    start: isize,
    /// How many are seen.
    length: usize,
}

impl Window {
    #[cfg(test)]
    pub(crate) fn at(start: isize, length: usize) -> Self {
        Self { start, length }
    }

    /// All of it.
    pub(crate) fn whole(length: usize) -> Self {
        Self { start: 0, length }
    }

    /// The middle, where torchvision's `CenterCrop` takes it: halves to the even pixel.
    pub(crate) fn middle(length: usize, image: usize) -> Result<Self, DataError> {
        let rest = room(length, image, 0)?;
        let half = rest / 2;
        let start = half + usize::from(rest % 2 == 1 && half % 2 == 1);
        Ok(Self { start: start as isize, length })
    }

    /// Anywhere in the padded image, each place as likely.
    pub(crate) fn drawn(
        length: usize,
        image: usize,
        pad: usize,
        random: &mut Random,
    ) -> Result<Self, DataError> {
        let start = match room(length, image, pad)? {
            0 => 0,
            rest => random.below(rest as u64 + 1) as isize,
        };
        Ok(Self { start: start - pad as isize, length })
    }

    /// How many pixels are seen.
    pub(crate) fn len(self) -> usize {
        self.length
    }

    /// Which pixel of an image is seen at `position`, if it is one.
    pub(crate) fn source(self, position: usize, image: usize) -> Option<usize> {
        let at = self.start.checked_add_unsigned(position)?;
        usize::try_from(at).ok().filter(|at| *at < image)
    }

    /// How many black pixels come before, and which of the image's are seen.
    pub(crate) fn seen(self, image: usize) -> (usize, std::ops::Range<usize>) {
        let end = self.start.saturating_add_unsigned(self.length);
        let inside = |at: isize| usize::try_from(at).unwrap_or(0).min(image);
        let (first, last) = (inside(self.start), inside(end));
        let before = usize::try_from(-self.start.min(0)).unwrap_or(0).min(self.length);
        (before, first..last.max(first))
    }
}

/// How many places there are for a window to start at, but one.
fn room(length: usize, image: usize, pad: usize) -> Result<usize, DataError> {
    let padded = image.saturating_add(pad.saturating_mul(2));
    padded.checked_sub(length).ok_or(DataError::CropTooLarge { side: length, image, pad })
}

/// The square of a cutout: its centre is any pixel, and what is outside is cut off.
pub(crate) fn cutout(side: usize, image: ImageShape, random: &mut Random) -> Option<Rectangle> {
    if side == 0 {
        return None;
    }
    let mut span = |length: usize| {
        let centre = random.below(length as u64) as usize;
        let first = centre.saturating_sub(side / 2);
        let end = (centre + side.div_ceil(2)).min(length);
        (first, end - first)
    };
    let ((top, height), (left, width)) = (span(image.height), span(image.width));
    Some(Rectangle { top, left, height, width })
}

/// The share of the area that a resized crop takes.
const AREA: (f64, f64) = (0.08, 1.0);
/// Width by height of a resized crop.
const RATIO: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);
/// How many rectangles are drawn before the middle is taken.
const TRIES: usize = 10;

/// The rectangle of a resized crop, by torchvision's rule: area and shape are drawn until
/// they fit the image; if they never do, the middle is taken, as wide or high as the
/// shapes allow.
pub(crate) fn part(image: ImageShape, random: &mut Random) -> Rectangle {
    let area = image.height as f64 * image.width as f64;
    for _ in 0..TRIES {
        let mut uniform = |low: f64, high: f64| low + (high - low) * random.unit();
        let target = area * uniform(AREA.0, AREA.1);
        let ratio = uniform(RATIO.0.ln(), RATIO.1.ln()).exp();
        let width = (target * ratio).sqrt().round_ties_even() as usize;
        let height = (target / ratio).sqrt().round_ties_even() as usize;
        if (1..=image.width).contains(&width) && (1..=image.height).contains(&height) {
            let top = random.below((image.height - height) as u64 + 1) as usize;
            let left = random.below((image.width - width) as u64 + 1) as usize;
            return Rectangle { top, left, height, width };
        }
    }
    middle_part(image)
}

fn middle_part(ImageShape { height, width, .. }: ImageShape) -> Rectangle {
    let ratio = width as f64 / height as f64;
    let (height, width, top, left) = if ratio < RATIO.0 {
        let part = ((width as f64 / RATIO.0).round_ties_even() as usize).clamp(1, height);
        (part, width, (height - part) / 2, 0)
    } else if ratio > RATIO.1 {
        let part = ((height as f64 * RATIO.1).round_ties_even() as usize).clamp(1, width);
        (height, part, 0, (width - part) / 2)
    } else {
        (height, width, 0, 0)
    };
    Rectangle { top, left, height, width }
}

#[cfg(test)]
mod tests {
    use hwa_core::seed::Purpose;
    use proptest::prelude::*;

    use super::*;

    fn random(position: u64) -> Random {
        Random::new(0, 0, Purpose::Augment, [0, position])
    }

    fn image(height: usize, width: usize) -> ImageShape {
        ImageShape { height, width, channels: 3 }
    }

    #[test]
    fn the_middle_is_where_torchvision_takes_it() {
        // int(round((image - length) / 2)), and Python rounds halves to even numbers.
        for (image, length, start) in [(5, 5, 0), (6, 5, 0), (8, 5, 2), (7, 5, 1), (10, 5, 2)] {
            let window = Window::middle(length, image).unwrap();
            assert_eq!(window, Window { start, length }, "{length} of {image}");
        }
        let error = Window::middle(6, 5).unwrap_err();
        assert_eq!(error.to_string(), "a crop of 6 pixels does not fit into 5 (padding 0)");
    }

    #[test]
    fn windows_are_drawn_uniformly_from_the_padded_image() {
        let mut counts = std::collections::BTreeMap::new();
        for position in 0..5_000 {
            let window = Window::drawn(4, 6, 1, &mut random(position)).unwrap();
            *counts.entry(window.start).or_insert(0u32) += 1;
        }
        // Five places, each binomial with mean 1,000 and standard deviation 28.
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [-1, 0, 1, 2, 3]);
        assert!(counts.values().all(|count| count.abs_diff(1000) < 150), "{counts:?}");
    }

    #[test]
    fn cutouts_are_squares_that_are_cut_at_the_edges() {
        let mut areas = std::collections::BTreeSet::new();
        for position in 0..500 {
            let Rectangle { top, left, height, width } =
                cutout(4, image(8, 8), &mut random(position)).unwrap();
            assert!(top + height <= 8 && left + width <= 8);
            areas.insert((height, width));
        }
        // A centre at 0 leaves two of four rows, one at 7 three; a corner does so twice.
        assert!(areas.contains(&(4, 4)) && areas.contains(&(2, 2)) && areas.contains(&(3, 4)));
        assert!(areas.iter().all(|(height, width)| (2..=4).contains(height) && *width <= 4));
        assert_eq!(cutout(0, image(8, 8), &mut random(0)), None);
    }

    #[test]
    fn images_of_extreme_shapes_give_their_middle() {
        // 3:4 of a width of 3 is a height of 4.
        let expected = Rectangle { top: 48, left: 0, height: 4, width: 3 };
        assert_eq!(middle_part(image(100, 3)), expected);
        let expected = Rectangle { top: 0, left: 48, height: 3, width: 4 };
        assert_eq!(middle_part(image(3, 100)), expected);
        assert_eq!(middle_part(image(1, 1)), Rectangle { top: 0, left: 0, height: 1, width: 1 });
    }

    #[test]
    fn areas_and_shapes_of_resized_crops_are_spread_as_torchvisions() {
        let (mut areas, mut ratios) = (0.0, 0.0);
        let count = 4_000;
        for position in 0..count {
            let Rectangle { height, width, .. } = part(image(500, 500), &mut random(position));
            areas += (height * width) as f64 / 250_000.0 / count as f64;
            ratios += (width as f64 / height as f64).ln() / count as f64;
        }
        // From torchvision's RandomResizedCrop.get_params over 200,000 draws of a square
        // image: mean area 0.4787, mean logarithm of the ratio 0.000; the deviations of
        // single draws are 0.234 and 0.159, so these means' are 0.0037 and 0.0025.
        assert!((areas - 0.4787).abs() < 0.015, "{areas}");
        assert!(ratios.abs() < 0.010, "{ratios}");
    }

    proptest! {
        #[test]
        fn parts_lie_inside_of_every_image(
            height in 1..3000usize, width in 1..3000usize, position: u64,
        ) {
            let Rectangle { top, left, height: h, width: w } =
                part(image(height, width), &mut random(position));
            prop_assert!(h >= 1 && w >= 1 && top + h <= height && left + w <= width);
        }

        #[test]
        fn a_window_sees_what_its_definition_says(
            image in 1..9usize, pad in 0..5usize, cut in 0..9usize, position: u64,
        ) {
            let length = (image + 2 * pad).saturating_sub(cut).max(1);
            let window = Window::drawn(length, image, pad, &mut random(position)).unwrap();
            let (before, seen) = window.seen(image);
            let sources: Vec<Option<usize>> =
                (0..length).map(|at| window.source(at, image)).collect();
            let mut expected = vec![None; before];
            expected.extend(seen.map(Some));
            expected.resize(length, None);
            prop_assert_eq!(sources, expected);
        }
    }
}
