//! Axes: where a number stands, and which numbers are written.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// So many numbers stand beside an axis at the most.
const MOST_LABELS: usize = 9;
/// Marks and contours are at least such a part of the range apart.
const FINEST: f64 = 1.0 / 20.0;

/// An axis of a chart, as it is asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// From where to where; by default what there is, with a little room.
    pub range: Option<Range<f64>>,
    /// Only whole numbers are marked: cycles, epochs.
    pub whole: bool,
    /// Powers of ten are equally far apart.
    pub logarithmic: bool,
    /// What no value can be above.
    pub ceiling: Option<f64>,
}

/// What stays above a ceiling, as a part of the range: dots that touch it are whole.
const ROOM: f64 = 0.03;

impl Axis {
    /// One that counts.
    pub fn counting(label: &str) -> Self {
        Self { label: label.to_owned(), whole: true, ..Self::default() }
    }

    /// One that measures.
    pub fn measuring(label: &str) -> Self {
        Self { label: label.to_owned(), ..Self::default() }
    }

    /// One of shares in percent.
    pub fn percent(label: &str) -> Self {
        Self { ceiling: Some(100.0), ..Self::measuring(label) }
    }

    /// With powers of ten.
    pub fn logarithmic(self) -> Self {
        Self { logarithmic: true, ..self }
    }

    /// From here to there.
    pub fn within(self, range: Range<f64>) -> Self {
        Self { range: Some(range), ..self }
    }

    /// The axis for these values. What cannot be shown (not finite, or not positive with powers
    /// of ten) is passed over.
    pub(crate) fn fitted(&self, values: impl Iterator<Item = f64>) -> Fitted {
        let shown = |value: &f64| value.is_finite() && (!self.logarithmic || *value > 0.0);
        let (low, high) = values
            .filter(shown)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
        let logarithmic = self.logarithmic;
        let scale = |value: f64| if logarithmic { value.log10() } else { value };
        let range = match &self.range {
            Some(range) if shown(&range.start) && shown(&range.end) && range.start < range.end => {
                scale(range.start)..scale(range.end)
            }
            _ if low > high => scale(1.0)..scale(10.0),
            _ => {
                let (low, high) = (scale(low), scale(high));
                // Values that are all the same stand in the middle.
                let least = if logarithmic { 0.1 } else { 1e-9 + 0.01 * high.abs() };
                let room = match self.whole {
                    true => 0.02 * (high - low),
                    false => (0.05 * (high - low)).max(if high > low { 0.0 } else { least }),
                };
                let room = if high > low { room } else { room.max(least.max(0.5)) };
                let top = self.ceiling.map_or(f64::INFINITY, |most| {
                    scale(most) + ROOM * (scale(most) - (low - room)).max(0.0)
                });
                (low - room)..(high + room).min(top.max(high))
            }
        };
        Fitted { range, whole: self.whole, logarithmic }
    }
}

/// An axis with its range; of powers of ten if it is logarithmic.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fitted {
    pub(crate) range: Range<f64>,
    whole: bool,
    /// Powers of ten are equally far apart.
    pub(crate) logarithmic: bool,
}

impl Fitted {
    /// Where a value stands between the ends: 0 to 1 within the range.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.log10() } else { value };
        (value - self.range.start) / (self.range.end - self.range.start)
    }

    /// Whether a value can be shown at all, within the range or not.
    pub(crate) fn can_show(&self, value: f64) -> bool {
        value.is_finite() && (!self.logarithmic || value > 0.0)
    }

    /// The value at a share of the way.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let value = self.range.start + share * (self.range.end - self.range.start);
        if self.logarithmic { 10f64.powf(value) } else { value }
    }

    /// What is marked.
    pub(crate) fn marks(&self, most: usize) -> Vec<f64> {
        let most = most.clamp(2, MOST_LABELS);
        if !self.logarithmic {
            return linear_marks(&self.range, most, self.whole);
        }
        let powers = linear_marks(&self.range, most, true);
        if powers.len() >= 3 {
            return powers.into_iter().map(|power| 10f64.powf(power)).collect();
        }
        let (from, to) = (self.range.start.floor() as i32, self.range.end.ceil() as i32);
        let fine = (from..=to).flat_map(|power| [1.0, 2.0, 5.0].map(|d| d * 10f64.powi(power)));
        let fine: Vec<f64> = fine.filter(|m| (0.0..=1.0).contains(&self.share(*m))).collect();
        match fine.len() {
            0..3 => linear_marks(&(self.at(0.0)..self.at(1.0)), most, self.whole),
            _ => fine,
        }
    }

    /// A number beside an axis, with as many digits as tell marks apart.
    pub(crate) fn written(&self, value: f64) -> String {
        let (low, high) = (self.at(0.0), self.at(1.0));
        // Within a power of ten marks are as far apart as on any other axis.
        match self.logarithmic && high >= 10.0 * low {
            true => digits(value, value.abs() / 100.0, value.abs()),
            false => digits(value, FINEST * (high - low), low.abs().max(high.abs())),
        }
    }
}

/// A number as one of that size, with digits down to this step.
fn digits(value: f64, step: f64, size: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let power = |number: f64| number.max(f64::MIN_POSITIVE).log10().floor() as i32;
    let step = power(step);
    if (1e-3..1e6).contains(&size) {
        return trimmed(&format!("{value:.*}", step.saturating_neg().clamp(0, 12) as usize));
    }
    let behind = power(value.abs()).saturating_sub(step).clamp(0, 12) as usize;
    let text = format!("{value:.behind$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}e{exponent}", trimmed(mantissa))
}

fn trimmed(text: &str) -> String {
    let short = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    };
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// Round numbers in a range, a step of 1, 2 or 5 times a power of ten apart.
pub(crate) fn linear_marks(range: &Range<f64>, most: usize, whole: bool) -> Vec<f64> {
    let span = range.end - range.start;
    if !(span.is_finite() && span > 0.0) {
        return Vec::new();
    }
    let rough = span / most as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter();
    let step = step.clone().find(|step| span / step <= most as f64).unwrap_or(10.0 * power);
    let step = if whole { step.max(1.0).round() } else { step };
    let first = (range.start / step - 1e-9).ceil();
    // Multiplied, not added up: 0.1 + 0.2 would not be 0.3.
    let marks = (0..=most).map(|i| (first + i as f64) * step);
    marks.take_while(|mark| *mark <= range.end + 1e-9 * span).collect()
}

impl Ranged for Fitted {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        // What is far outside stays near: the axis may be short.
        let share = self.share(*value).clamp(-1.0, 2.0);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.marks(hint.max_num_points())
    }

    fn range(&self) -> Range<f64> {
        self.at(0.0)..self.at(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(range: Range<f64>, whole: bool) -> Vec<f64> {
        Fitted { range, whole, logarithmic: false }.marks(8)
    }

    #[test]
    fn marks_are_round_numbers() {
        assert_eq!(marks(0.0..1.0, false), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(marks(0.0..61.0, true), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(marks(0.0..2.0, true), [0.0, 1.0, 2.0]);
        assert_eq!(marks(94.5..96.5, false), [94.5, 95.0, 95.5, 96.0, 96.5]);
        assert_eq!(marks(-1.0..2.0, false), [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0]);
        assert!(marks(1.0..1.0, false).is_empty() && marks(0.0..f64::NAN, false).is_empty());
    }

    #[test]
    fn numbers_have_the_digits_that_they_need() {
        let written = |range: Range<f64>, value| {
            Fitted { range, whole: false, logarithmic: false }.written(value)
        };
        assert_eq!(written(0.0..1.0, 0.6000000000000001), "0.6");
        assert_eq!(written(94.5..96.5, 95.0), "95");
        assert_eq!(written(2.300..2.305, 2.302), "2.302");
        assert_eq!(written(-1.0..2.0, -0.0), "0");
        assert_eq!(written(0.0..2e7, 1.5e7), "1.5e7");
    }

    #[test]
    fn what_stands_beside_a_scale_of_powers_of_ten_has_its_digits() {
        let written = |low: f64, high: f64, value| {
            let range = low.log10()..high.log10();
            Fitted { range, whole: false, logarithmic: true }.written(value)
        };
        assert_eq!(written(0.0148, 0.0172, 0.0155), "0.0155");
        assert_eq!(written(0.02, 0.0225, 0.0215), "0.0215");
        assert_eq!(written(2.0, 2.4, 2.15), "2.15");
        assert_eq!(written(1e-6, 1.0, 1e-4), "1e-4");
        assert_eq!(written(0.01, 1e7, 1500.0), "1500");
        assert_eq!(written(1e-5, 1.5e-5, 1.25e-5), "1.25e-5");
    }

    proptest::proptest! {
        #[test]
        fn different_marks_are_written_differently(
            low in -8.0..8.0f64, span in 1e-4..9.0f64, sign in proptest::bool::ANY,
        ) {
            let from = 10f64.powf(low);
            let linear = from..from * (1.0 + span);
            let linear = if sign { -linear.end..-linear.start } else { linear };
            let powers = low..low + span;
            for (range, logarithmic) in [(linear, false), (powers, true)] {
                let axis = Fitted { range, whole: false, logarithmic };
                let marks: Vec<String> = axis.marks(9).iter().map(|m| axis.written(*m)).collect();
                let mut once = marks.clone();
                once.dedup();
                proptest::prop_assert_eq!(once, marks);
            }
        }
    }

    #[test]
    fn powers_of_ten_are_equally_far_apart() {
        let axis =
            Axis::measuring("").logarithmic().fitted([0.01, 100.0, 0.0, f64::NAN].into_iter());
        assert!((axis.share(1.0) - 0.5).abs() < 1e-12);
        assert_eq!(axis.marks(8), [0.01, 0.1, 1.0, 10.0, 100.0]);
        assert!(!axis.can_show(0.0) && axis.can_show(1e-9));
        let short = Axis::measuring("").logarithmic().fitted([1.0, 6.0].into_iter());
        assert_eq!(short.marks(8), [1.0, 2.0, 5.0]);
        let narrow = Axis::measuring("").logarithmic().fitted([2.4, 4.2].into_iter());
        assert_eq!(narrow.marks(8), [2.5, 3.0, 3.5, 4.0]);
    }

    #[test]
    fn a_percentage_has_no_mark_above_a_hundred() {
        for values in [[99.2, 100.0], [20.0, 100.0], [100.0, 100.0]] {
            let axis = Axis::percent("").fitted(values.into_iter());
            let marks = axis.marks(8);
            assert!(marks.iter().all(|mark| *mark <= 100.0), "{values:?}: {marks:?}");
            assert!(axis.at(1.0) >= 100.0 && axis.at(0.0) < axis.at(1.0), "{axis:?}");
        }
    }

    #[test]
    fn every_collection_of_values_has_a_range() {
        for values in [vec![], vec![f64::NAN], vec![5.0], vec![0.0, 0.0], vec![1e308, -1e308]] {
            for axis in [Axis::measuring(""), Axis::counting(""), Axis::measuring("").logarithmic()]
            {
                let fitted = axis.fitted(values.iter().copied());
                assert!(fitted.range.start < fitted.range.end, "{values:?} {axis:?} {fitted:?}");
            }
        }
    }
}
