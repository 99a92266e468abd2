//! Drawing curves as SVG.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use crate::ReportError;
use crate::curves::{Curves, Level};

const SIZE: (u32, u32) = (820, 440);

/// Marks on the axis of the cycles, at most.
const MOST_TICKS: usize = 12;

/// Judged cycles from which on the beginning may be cut off.
const FEWEST_TO_CUT: usize = 6;

// Colours that the colour-blind can tell apart (Okabe and Ito). A level has the
// same one in every figure.
const INNER: RGBColor = RGBColor(86, 180, 233);
const OUTER: RGBColor = RGBColor(213, 94, 0);
const WINDOWS: [RGBColor; 4] =
    [RGBColor(0, 158, 115), RGBColor(204, 121, 167), RGBColor(230, 159, 0), RGBColor(0, 114, 178)];

impl Level {
    fn colour(self) -> RGBColor {
        match self {
            Self::Inner => INNER,
            Self::Outer => OUTER,
            Self::Hwa(window) => WINDOWS[window % WINDOWS.len()],
        }
    }
}

impl Curves {
    /// Draws the curves, with the chosen cycle marked.
    pub fn to_svg(&self, title: &str) -> Result<String, ReportError> {
        let mut svg = String::new();
        self.draw(title, &mut svg).map_err(|e| ReportError::Drawing { reason: e.to_string() })?;
        Ok(svg)
    }

    fn draw(&self, title: &str, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let last = self.last_cycle();
        let accuracies = self.accuracies();
        let low = accuracies.start;
        let cycles = CycleAxis { last };
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 18))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(58)
            .build_cartesian_2d(cycles, accuracies)?;
        chart
            .configure_mesh()
            .x_desc("cycle")
            .y_desc("validation accuracy, %")
            .x_label_formatter(&|cycle| format!("{cycle:.0}"))
            .y_label_formatter(&|accuracy| short(*accuracy))
            .label_style(("sans-serif", 13))
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(225, 225, 225))
            .draw()?;
        for curve in &self.curves {
            let points: Vec<Point> =
                curve.points.iter().map(|(c, top1)| (*c as f64, *top1)).collect();
            let colour = curve.level.colour();
            let style = colour.stroke_width(2);
            let pieces = cut_at(low, &points).into_iter().map(|p| PathElement::new(p, style));
            chart
                .draw_series(pieces)?
                .label(&curve.name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style));
            let seen = points.iter().filter(|point| point.1 >= low);
            chart.draw_series(seen.map(|point| Circle::new(*point, 2, colour.filled())))?;
        }
        if let Some((cycle, top1)) = self.chosen {
            let mark = Circle::new((cycle as f64, top1), 5, BLACK.stroke_width(2));
            chart
                .draw_series([mark])?
                .label(format!("chosen: cycle {cycle}, {top1:.2} %"))
                .legend(|(x, y)| Circle::new((x + 9, y), 5, BLACK.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .label_font(("sans-serif", 13))
            .margin(10)
            .draw()?;
        area.present()?;
        Ok(())
    }

    fn points(&self) -> impl Iterator<Item = (usize, f64)> {
        self.curves.iter().flat_map(|curve| curve.points.iter().copied())
    }

    fn last_cycle(&self) -> usize {
        self.points().map(|(cycle, _)| cycle).max().unwrap_or(1)
    }

    /// From the lowest point of the later two thirds, where the curves differ by
    /// little: the steep beginning would press them flat.
    fn accuracies(&self) -> Range<f64> {
        let judged = self.curves.iter().map(|curve| curve.points.len()).max().unwrap_or(0);
        // A short run is all beginning.
        let early = if judged < FEWEST_TO_CUT { 0 } else { self.last_cycle() / 3 };
        let later = self.points().filter(|(cycle, _)| *cycle > early).chain(self.chosen);
        let low = later.map(|(_, top1)| top1).fold(f64::INFINITY, f64::min);
        let high = self.points().map(|(_, top1)| top1).fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (0.0, 100.0) };
        let room = (0.06 * (high - low)).max(0.5);
        (low - room).max(0.0)..(high + room).min(100.5)
    }
}

/// Cycles from 0 to a little after the last, marked in whole numbers only.
struct CycleAxis {
    last: usize,
}

impl Ranged for CycleAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, cycle: &f64, (left, right): (i32, i32)) -> i32 {
        let share = cycle / self.range().end;
        left + (share * f64::from(right - left)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        ticks(self.last)
    }

    fn range(&self) -> Range<f64> {
        let last = self.last as f64;
        0.0..last + (0.02 * last).max(0.5)
    }
}

/// A cycle and an accuracy.
type Point = (f64, f64);

/// The pieces of a line that lie above `low`, each cut off where it crosses it.
fn cut_at(low: f64, points: &[Point]) -> Vec<Vec<Point>> {
    let mut pieces = Vec::new();
    let mut piece: Vec<Point> =
        points.first().filter(|p| p.1 >= low).copied().into_iter().collect();
    for pair in points.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        if (from.1 < low) != (to.1 < low) {
            let share = (low - from.1) / (to.1 - from.1);
            piece.push((from.0 + share * (to.0 - from.0), low));
        }
        if to.1 >= low {
            piece.push(to);
        } else if !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
        }
    }
    pieces.push(piece);
    pieces.retain(|piece| piece.len() > 1);
    pieces
}

/// Whole numbers from 0 to `last`, a round step apart.
fn ticks(last: usize) -> Vec<f64> {
    let steps = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10usize.pow(power)));
    let step = { steps }.find(|step| last / step < MOST_TICKS).unwrap_or(last.max(1));
    (0..=last).step_by(step).map(|cycle| cycle as f64).collect()
}

/// Two decimals at most, and none that is zero.
fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::Curve;

    #[test]
    fn cycles_are_marked_in_whole_numbers() {
        assert_eq!(ticks(1), [0.0, 1.0]);
        assert_eq!(ticks(3), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(ticks(60), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(ticks(200).len(), 11);
    }

    #[test]
    fn lines_are_cut_off_at_the_border() {
        // From 10 at cycle 1 to 90 at cycle 5: 50 is crossed at cycle 3.
        let points = [(1.0, 10.0), (5.0, 90.0), (6.0, 80.0)];
        assert_eq!(cut_at(50.0, &points), [[(3.0, 50.0), (5.0, 90.0), (6.0, 80.0)]]);
        assert_eq!(cut_at(0.0, &points), [points]);
        assert!(cut_at(95.0, &points).is_empty());
        let dip = [(1.0, 90.0), (2.0, 10.0), (3.0, 90.0)];
        let halves = [[(1.0, 90.0), (1.5, 50.0)], [(2.5, 50.0), (3.0, 90.0)]];
        assert_eq!(cut_at(50.0, &dip), halves);
    }

    #[test]
    fn the_beginning_does_not_set_the_range() {
        let mut points = vec![(1, 10.0), (2, 60.0), (3, 95.0), (4, 95.0), (5, 96.0), (6, 96.0)];
        let curves = |points: &[(usize, f64)]| {
            let (name, points) = ("outer".to_owned(), points.to_vec());
            let outer = Curve { level: Level::Outer, name, points };
            Curves { curves: vec![outer], ..Curves::default() }
        };
        // Cycles 1 and 2 of 6 are the first third.
        assert_eq!(curves(&points).accuracies(), 94.5..96.5);
        points.truncate(3);
        assert!(curves(&points).accuracies().start < 10.0, "a short run is shown whole");
    }
}
