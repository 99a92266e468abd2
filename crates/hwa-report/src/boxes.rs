//! Boxes: how groups of values are spread.

use std::fmt::Write as _;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::axis::Axis;
use crate::chart::{Drawing, cell, number};
use crate::frame::{Area, Drawn, Frame, Side, fine, height, place, shortened, small, width};
use crate::legend::Legend;
use crate::svg::{FINE, Tone};

/// Quartiles of fewer values than this say nothing that the values do not.
const FEWEST_OF_A_BOX: usize = 4;

/// A box for each of several groups of values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Boxes {
    /// The axis at the left.
    pub y: Axis,
    /// Names and values.
    pub groups: Vec<(String, Vec<f64>)>,
}

impl Boxes {
    /// The median of every group that has values.
    pub fn medians(&self) -> Vec<(&str, f64)> {
        let groups = self.groups.iter();
        groups
            .filter_map(|(name, values)| Some((name.as_str(), five_numbers(values)?[2])))
            .collect()
    }
}

impl Drawing for Boxes {
    fn legend(&self) -> Legend {
        Legend::default()
    }

    fn height(&self, width: u32) -> u32 {
        height(width)
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let values = self.groups.iter().flat_map(|(_, values)| values.iter().copied());
        let y = self.y.fitted(values);
        let count = self.groups.len().max(1) as f64;
        let x = Axis::measuring("").within(-0.5..count - 0.5).fitted(std::iter::empty());
        let (below, beside) = (Side::Named(x, 48), Side::Marked(&self.y.label, y.clone()));
        let mut chart = Frame::new(below, beside).chart(area)?;
        let below = y.at(0.0);
        for (number, (name, values)) in self.groups.iter().enumerate() {
            let middle = number as f64;
            let Some(five) = five_numbers(values) else { continue };
            let count_here = values.iter().filter(|value| value.is_finite()).count();
            let [least, lower, median, upper, greatest] = five;
            // No colour: those are for curves, and a group is many of them.
            let tone = Tone::Faint.colour();
            if count_here >= FEWEST_OF_A_BOX {
                let line = tone.stroke_width(fine(2));
                for ends in [(least, lower), (upper, greatest)] {
                    let whisker = vec![(middle, ends.0), (middle, ends.1)];
                    chart.draw_series([PathElement::new(whisker, line)])?;
                }
                let corners = [(middle - 0.22, upper), (middle + 0.22, lower)];
                chart.draw_series([Rectangle::new(corners, tone.mix(0.2).filled())])?;
                chart.draw_series([Rectangle::new(corners, line)])?;
            }
            let across = vec![(middle - 0.22, median), (middle + 0.22, median)];
            chart.draw_series([PathElement::new(across, tone.stroke_width(fine(3)))])?;
            let dots = values
                .iter()
                .filter(|v| v.is_finite())
                .map(|value| Circle::new((middle, *value), fine(3), Tone::Ink.colour().filled()));
            chart.draw_series(dots)?;
            let name = shortened(name, f64::from(width(area)) * 0.86 / count);
            let (x, y) = place(area, &chart, (middle, below));
            let centred = Pos::new(HPos::Center, VPos::Top);
            let (ink, faint) = (small(Tone::Ink).pos(centred), small(Tone::Faint).pos(centred));
            area.draw(&Text::new(name, (x, y + 8 * FINE), ink))?;
            area.draw(&Text::new(format!("n = {count_here}"), (x, y + 25 * FINE), faint))?;
        }
        Ok(())
    }

    fn csv(&self) -> String {
        let mut text = format!("group,{}\n", cell(&self.y.label));
        for (name, values) in &self.groups {
            for value in values {
                let _ = writeln!(text, "{},{}", cell(name), number(*value));
            }
        }
        text
    }
}

/// Least, lower quartile, median, upper quartile and greatest.
fn five_numbers(values: &[f64]) -> Option<[f64; 5]> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    // Linear between neighbours, as NumPy does it.
    let at = |share: f64| {
        let place = share * last as f64;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        sorted[below] + (place - below as f64) * (sorted[above] - sorted[below])
    };
    Some([0.0, 0.25, 0.5, 0.75, 1.0].map(at))
}
