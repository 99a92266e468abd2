//! The colours of values, and the round ones among them.
//!
//! The colours are those of viridis: equal steps look equal, in grey and to the colour-blind as
//! well. They are data, and the same by day and by night.

use std::ops::Range;

use plotters::prelude::RGBColor;

use crate::axis::{Axis, Fitted, linear_marks};

/// A share of a scale that is beyond all others.
const FAR: f64 = 1e3;

/// Every eighth of viridis.
const VIRIDIS: [(u8, u8, u8); 9] = [
    (68, 1, 84),
    (71, 44, 122),
    (59, 81, 139),
    (44, 113, 142),
    (33, 144, 141),
    (39, 173, 129),
    (92, 200, 99),
    (170, 220, 50),
    (253, 231, 37),
];

/// Parts of the values, and how many times larger the range of all may be than theirs before
/// theirs is shown: a bowl and a valley are whole, what explodes is not.
const PARTS: [(f64, f64); 8] = [
    (0.98, 3.0),
    (0.95, 3.0),
    (0.9, 3.0),
    (0.85, 3.0),
    (0.8, 3.0),
    (0.75, 3.0),
    (0.65, 6.0),
    (0.5, 20.0),
];
/// The same for powers of ten, of which a few are much.
const PARTS_OF_POWERS: [(f64, f64); 4] = [(0.98, 1.6), (0.95, 1.6), (0.9, 1.6), (0.75, 1.6)];
/// How many levels there should be.
const LEVELS: usize = 10;

/// Which colour a value has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    axis: Fitted,
    /// Some values are below the range.
    pub(crate) below: bool,
    /// Some values are above it.
    pub(crate) above: bool,
}

impl Scale {
    /// The scale for these values; nothing, if none of them can be shown.
    ///
    /// A few values that are much greater than all others have the colour of the end, so that
    /// there are differences to see among the others. So have those that are not positive, at the
    /// other end, where the scale is logarithmic.
    pub(crate) fn of(axis: &Axis, values: &[f64]) -> Option<Self> {
        let scaled = |value: f64| match axis.logarithmic {
            true if value <= 0.0 => f64::NEG_INFINITY,
            true => value.log10(),
            false => value,
        };
        let known = values.iter().copied().filter(|value| !value.is_nan());
        let mut sorted: Vec<f64> = known.map(scaled).collect();
        sorted.sort_by(f64::total_cmp);
        let low = sorted.iter().copied().find(|value| value.is_finite())?;
        let high = sorted.iter().copied().rfind(|value| value.is_finite())?;
        let parts: &[(f64, f64)] = if axis.logarithmic { &PARTS_OF_POWERS } else { &PARTS };
        let top =
            without_outliers(&sorted[sorted.partition_point(|v| *v < low)..], parts, low..high);
        let plain = |value: f64| if axis.logarithmic { 10f64.powf(value) } else { value };
        let top = if top < high { rounded_up(plain(top)).min(plain(high)) } else { plain(high) };
        let range = axis.range.clone().or((plain(low) < top).then(|| plain(low)..top));
        let fitted = Axis { range, ..axis.clone() }.fitted(std::iter::once(plain(low)));
        // A hair's breadth is rounding.
        let hair = 1e-9 * (fitted.range.end - fitted.range.start);
        let below = sorted.iter().any(|value| *value < fitted.range.start - hair);
        let above = sorted.iter().any(|value| *value > fitted.range.end + hair);
        Some(Self { axis: fitted, below, above })
    }

    /// Where a value stands: 0 to 1; what is beyond the ends is at the ends.
    pub(crate) fn share(&self, value: f64) -> Option<f64> {
        let share = match self.axis.can_show(value) {
            true => self.axis.share(value),
            false if value.is_nan() => return None,
            false => value,
        };
        (!share.is_nan()).then(|| share.clamp(0.0, 1.0))
    }

    /// Where a value stands, also beyond the ends: contours between points on both sides of an
    /// end are where they belong. What cannot be shown is far beyond.
    pub(crate) fn unbounded_share(&self, value: f64) -> f64 {
        match self.axis.can_show(value) {
            true => self.axis.share(value),
            false if value.is_nan() => f64::NAN,
            false if value > 0.0 => FAR,
            false => -FAR,
        }
    }

    /// Round values in the range, ascending, about as many as there should be contours.
    pub(crate) fn levels(&self) -> Vec<f64> {
        let (from, to) = (self.axis.at(0.0), self.axis.at(1.0));
        // Of all steps that are round, the one that comes nearest.
        let linear = (LEVELS / 2..2 * LEVELS).map(|most| linear_marks(&(from..to), most, false));
        let near = |levels: &Vec<f64>| levels.len().abs_diff(LEVELS);
        let linear = linear.min_by_key(near).unwrap_or_default();
        if !self.axis.logarithmic {
            return linear;
        }
        let powers = linear_marks(&self.axis.range, LEVELS + 1, true).into_iter();
        let powers: Vec<f64> = powers.map(|power| 10f64.powf(power)).collect();
        let digits: [&[f64]; 3] = [&[1.0, 3.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]];
        let finer = digits.map(|digits| {
            let (from, to) = (self.axis.range.start.floor(), self.axis.range.end.ceil());
            let powers = (from as i32..=to as i32).map(|power| 10f64.powi(power));
            let numbers = powers.flat_map(|power| digits.iter().map(move |digit| digit * power));
            let hair = 1e-9;
            numbers.filter(|n| (-hair..=1.0 + hair).contains(&self.axis.share(*n))).collect()
        });
        // The coarsest of those that come near.
        let narrow = to < 10.0 * from;
        let choices = std::iter::once(powers).chain(finer).chain(narrow.then_some(linear));
        choices.min_by_key(near).unwrap_or_default()
    }

    /// The value at a share of the range.
    pub(crate) fn at(&self, share: f64) -> f64 {
        self.axis.at(share)
    }

    /// A value in words.
    pub(crate) fn written(&self, value: f64) -> String {
        self.axis.written(value)
    }
}

/// The colour at a share of the range.
pub(crate) fn colour(share: f64) -> RGBColor {
    let place = share.clamp(0.0, 1.0) * (VIRIDIS.len() - 1) as f64;
    let (before, rest) = (place.floor().min((VIRIDIS.len() - 2) as f64), place.fract());
    let rest = if place >= (VIRIDIS.len() - 1) as f64 { 1.0 } else { rest };
    let (a, b) = (VIRIDIS[before as usize], VIRIDIS[before as usize + 1]);
    let mix = |a: u8, b: u8| (f64::from(a) + rest * (f64::from(b) - f64::from(a))).round() as u8;
    RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// What can be read on the colour at a share of the range, by day and by night.
pub(crate) fn ink(share: f64) -> RGBColor {
    // Neither is the white or the black of a page, which change.
    if share < 0.6 { RGBColor(252, 252, 252) } else { RGBColor(18, 18, 18) }
}

/// The top of the range that most of the values fill.
fn without_outliers(sorted: &[f64], parts: &[(f64, f64)], range: Range<f64>) -> f64 {
    let Range { start: low, end: high } = range;
    let mut top = sorted.last().copied().unwrap_or(high);
    for (part, larger) in parts {
        let place = (part * (sorted.len() - 1) as f64).ceil() as usize;
        let value = sorted[place];
        if value.is_finite() && value > low && top - low > larger * (value - low) {
            top = value;
        }
    }
    top.min(high)
}

/// The next number of two digits.
fn rounded_up(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let power = value.abs().log10().floor() as i32 - 1;
    // Divided by a power that is whole, where it can be: 0.1 is not exactly a tenth.
    match power {
        0.. => (value / 10f64.powi(power)).ceil() * 10f64.powi(power),
        _ => (value * 10f64.powi(-power)).ceil() / 10f64.powi(-power),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(values: &[f64]) -> Scale {
        Scale::of(&Axis::measuring("loss"), values).unwrap()
    }

    #[test]
    fn a_bowl_is_shown_whole() {
        let values: Vec<f64> = (0..441)
            .map(|i| {
                (f64::from(i % 21 - 10) / 10.0).powi(2) + (f64::from(i / 21 - 10) / 10.0).powi(2)
            })
            .collect();
        let scale = scale(&values);
        assert_eq!(
            (scale.at(0.0), scale.at(1.0), scale.below, scale.above),
            (0.0, 2.0, false, false)
        );
        assert_eq!(
            scale.levels(),
            [
                0.0,
                0.2,
                0.4,
                0.6000000000000001,
                0.8,
                1.0,
                1.2000000000000002,
                1.4000000000000001,
                1.6,
                1.8,
                2.0
            ]
        );
    }

    #[test]
    fn what_explodes_has_the_colour_of_the_end() {
        // Ninety values up to 8.9, ten that explode.
        let mut values: Vec<f64> = (0..90).map(|i| f64::from(i) / 10.0).collect();
        values.extend([100.0, 1e3, 1e6, 1e9, 1e300, f64::INFINITY, 1e3, 1e3, 1e3, 1e3]);
        let scale = scale(&values);
        assert!(scale.above && !scale.below);
        assert!((8.0..9.0).contains(&scale.at(1.0)), "{}", scale.at(1.0));
        assert_eq!((scale.share(1e9), scale.share(f64::INFINITY)), (Some(1.0), Some(1.0)));
        assert_eq!(scale.share(f64::NAN), None);
    }

    #[test]
    fn powers_of_ten_take_what_is_not_positive_to_their_lower_end() {
        let axis = Axis::measuring("loss").logarithmic();
        let scale = Scale::of(&axis, &[-1.0, 0.0, 0.01, 1.0, 100.0]).unwrap();
        assert!(scale.below && !scale.above);
        assert_eq!(
            (scale.share(-1.0), scale.share(0.0), scale.share(1.0)),
            (Some(0.0), Some(0.0), Some(0.5))
        );
        assert_eq!(scale.levels().len(), 9, "{:?}", scale.levels());
        assert_eq!(Scale::of(&axis, &[-1.0, 0.0]), None);
    }

    #[test]
    fn degenerate_values_have_a_scale_or_none() {
        for values in [vec![], vec![f64::NAN], vec![f64::INFINITY]] {
            assert_eq!(Scale::of(&Axis::measuring(""), &values), None);
        }
        for values in [vec![3.0], vec![0.0; 9], vec![1e-300, 1e300], vec![-1e308, 1e308]] {
            for axis in [Axis::measuring(""), Axis::measuring("").logarithmic()] {
                let Some(scale) = Scale::of(&axis, &values) else { continue };
                assert!(scale.levels().len() < 20, "{values:?}");
                assert!(
                    values.iter().all(|v| scale.share(*v).is_none_or(|s| (0.0..=1.0).contains(&s)))
                );
            }
        }
    }

    #[test]
    fn a_range_that_is_asked_for_is_kept() {
        let scale = Scale::of(&Axis::measuring("").within(1.0..2.0), &[0.0, 1.5, 3.0]).unwrap();
        assert_eq!((scale.at(0.0), scale.at(1.0)), (1.0, 2.0));
        assert!(scale.below && scale.above);
    }

    #[test]
    fn colours_grow_lighter_all_the_way() {
        let light = |share: f64| {
            let RGBColor(r, g, b) = colour(share);
            0.2126 * f64::from(r) + 0.7152 * f64::from(g) + 0.0722 * f64::from(b)
        };
        assert!((0..100).all(|i| light(f64::from(i) / 100.0) < light(f64::from(i + 1) / 100.0)));
        assert_eq!((colour(-1.0), colour(2.0)), (RGBColor(68, 1, 84), RGBColor(253, 231, 37)));
    }

    #[test]
    fn tops_are_rounded_to_two_digits() {
        assert_eq!(
            [7.83, 0.1234, 1234.0, 0.0, -7.83].map(rounded_up),
            [7.9, 0.13, 1300.0, 0.0, -7.8]
        );
    }
}
