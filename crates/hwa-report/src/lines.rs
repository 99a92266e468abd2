//! Lines over a common axis.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;

use crate::axis::{Axis, Fitted};
use crate::chart::{Drawing, cell, number};
use crate::frame::{Area, Drawn, Frame, Side, fine, height, place};
use crate::legend::{Legend, Sign};
use crate::svg::{FINE, Tone};

/// More points than this make a line without dots.
pub(crate) const MOST_DOTS: usize = 70;
const MOST_DOTS_OF_DASHED: usize = 12;
/// Columns within which a line of very many points is thinned.
const COLUMNS: usize = 1500;

/// Lines over a common axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lines {
    /// The axis below.
    pub x: Axis,
    /// The axis at the left.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// Points of interest.
    pub marks: Vec<Mark>,
    /// How far points may be off.
    pub errors: Vec<ErrorBar>,
}

/// A line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub tone: Tone,
    /// Its points; a number that is not finite interrupts it.
    pub points: Vec<(f64, f64)>,
}

/// A bar through a point, from where to where it may be.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorBar {
    /// The colour of its series.
    pub tone: Tone,
    /// Where along the axis below.
    pub at: f64,
    /// Its lower end.
    pub from: f64,
    /// Its upper end.
    pub to: f64,
}

/// A ring around a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// What it is, in the legend.
    pub label: String,
    /// Where.
    pub at: (f64, f64),
}

impl Lines {
    /// The lines that can be told apart, with their names: one that lies on another would hide it,
    /// and its name is told with that one's.
    fn distinct(&self) -> Vec<(&Series, String)> {
        let mut lines: Vec<(&Series, Vec<&str>)> = Vec::new();
        for series in &self.series {
            match lines.iter_mut().find(|(line, _)| line.points == series.points) {
                Some((_, names)) => names.push(&series.name),
                None => lines.push((series, vec![&series.name])),
            }
        }
        let name = |names: Vec<&str>| match names.as_slice() {
            [one] => (*one).to_owned(),
            [one, other] => format!("{one} and {other} (the same)"),
            _ if names.len() == self.series.len() => format!("all {} (the same)", names.len()),
            [one, others @ ..] => format!("{one} and {} others (the same)", others.len()),
            [] => String::new(),
        };
        lines.into_iter().map(|(series, names)| (series, name(names))).collect()
    }
}

impl Drawing for Lines {
    fn legend(&self) -> Legend {
        let lines = self.distinct().into_iter();
        let mut entries: Vec<(Sign, String)> =
            lines.map(|(series, name)| (Sign::Line(series.tone), name)).collect();
        for mark in &self.marks {
            let entry = (Sign::Ring, mark.label.clone());
            // Marks of one kind are told once.
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        Legend { entries }
    }

    fn height(&self, width: u32) -> u32 {
        height(width)
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let points = || {
            let lines = self.series.iter().flat_map(|series| series.points.iter().copied());
            lines.chain(self.marks.iter().map(|mark| mark.at))
        };
        let x = self.x.fitted(points().map(|(x, _)| x));
        let ends = self.errors.iter().flat_map(|bar| [bar.from, bar.to]);
        let y = self.y.fitted(points().map(|(_, y)| y).chain(ends));
        let (below, beside) =
            (Side::Marked(&self.x.label, x.clone()), Side::Marked(&self.y.label, y.clone()));
        let mut chart = Frame::new(below, beside).chart(area)?;
        // Where values go up and down, it is seen which do.
        if y.at(0.0) < 0.0 && y.at(1.0) > 0.0 {
            let zero = vec![(x.at(0.0), 0.0), (x.at(1.0), 0.0)];
            let line = Tone::Faint.colour().stroke_width(fine(1));
            chart.draw_series([PathElement::new(zero, line)])?;
        }
        for (series, _) in self.distinct() {
            let colour = series.tone.colour();
            for piece in pieces(&thinned(&series.points, &x), &x, &y) {
                chart.draw_series([PathElement::new(piece, colour.stroke_width(fine(2)))])?;
            }
            let shown = |(px, py): &&(f64, f64)| within(&x, *px) && within(&y, *py);
            // Dots would fill the gaps between dashes.
            let most = if series.tone.dashes() == 0 { MOST_DOTS } else { MOST_DOTS_OF_DASHED };
            if series.points.len() <= most && matches!(series.tone, Tone::Series(_)) {
                let dots = series.points.iter().filter(shown);
                chart.draw_series(dots.map(|p| Circle::new(*p, fine(5) / 2, colour.filled())))?;
            }
        }
        for bar in &self.errors {
            // What cannot be shown, as nothing on an axis of powers, is at its end.
            let (low, high) = (y.at(0.0), y.at(1.0));
            let end = |value: f64| if y.can_show(value) { value.clamp(low, high) } else { low };
            let (from, to) = (end(bar.from), end(bar.to));
            if within(&x, bar.at) && from < to {
                let line = bar.tone.undashed().colour().stroke_width(fine(1));
                chart.draw_series([PathElement::new(vec![(bar.at, from), (bar.at, to)], line)])?;
                for value in [bar.from, bar.to].into_iter().filter(|v| within(&y, *v)) {
                    let (right, down) = place(area, &chart, (bar.at, value));
                    let cap = vec![(right - 4 * FINE, down), (right + 4 * FINE, down)];
                    area.draw(&PathElement::new(cap, line))?;
                }
            }
        }
        for Mark { at: (px, py), .. } in &self.marks {
            if within(&x, *px) && within(&y, *py) {
                let ring = Tone::Ink.colour().stroke_width(fine(2));
                chart.draw_series([Circle::new((*px, *py), fine(6), ring)])?;
            }
        }
        Ok(())
    }

    fn csv(&self) -> String {
        let mut text = format!("series,{},{}", cell(&self.x.label), cell(&self.y.label));
        let errors = !self.errors.is_empty();
        text.push_str(if errors { ",from,to\n" } else { "\n" });
        for series in &self.series {
            for (x, y) in &series.points {
                let _ = write!(text, "{},{x},{}", cell(&series.name), number(*y));
                let of_point = |bar: &&ErrorBar| bar.tone == series.tone && bar.at == *x;
                match self.errors.iter().find(of_point) {
                    Some(bar) => {
                        let _ = writeln!(text, ",{},{}", number(bar.from), number(bar.to));
                    }
                    None => text.push_str(if errors { ",,\n" } else { "\n" }),
                }
            }
        }
        for Mark { label, at: (x, y) } in &self.marks {
            let _ = writeln!(text, "{},{x},{y}{}", cell(label), if errors { ",," } else { "" });
        }
        text
    }
}

/// A line of very many points by the first, the lowest, the highest and the last within each of
/// [`COLUMNS`]: it looks the same.
fn thinned<'a>(points: &'a [(f64, f64)], x: &Fitted) -> Cow<'a, [(f64, f64)]> {
    if points.len() <= 4 * COLUMNS {
        return Cow::Borrowed(points);
    }
    let column = |point: &(f64, f64)| (x.share(point.0) * COLUMNS as f64).floor();
    let mut thin = Vec::new();
    for together in points.chunk_by(|a, b| column(a) == column(b)) {
        let by = |a: &usize, b: &usize| together[*a].1.total_cmp(&together[*b].1);
        let all = 0..together.len();
        let gap = all.clone().find(|index| !together[*index].1.is_finite());
        let ends = [Some(0), all.clone().min_by(by), gap, all.clone().max_by(by), all.last()];
        let mut kept: Vec<usize> = ends.into_iter().flatten().collect();
        kept.sort_unstable();
        kept.dedup();
        thin.extend(kept.into_iter().map(|index| together[index]));
    }
    Cow::Owned(thin)
}

/// Whether an axis shows a value.
pub(crate) fn within(axis: &Fitted, value: f64) -> bool {
    let Range { start, end } = Ranged::range(axis);
    axis.can_show(value) && value >= start && value <= end
}

/// The pieces of a line that can be seen: interrupted by what cannot be shown, and cut off where
/// it leaves the chart below or above.
pub(crate) fn pieces(points: &[(f64, f64)], x: &Fitted, y: &Fitted) -> Vec<Vec<(f64, f64)>> {
    let (low, high) = (y.at(0.0), y.at(1.0));
    let (left, right) = (x.at(0.0), x.at(1.0));
    let mut pieces = Vec::new();
    let shown =
        |(px, py): &(f64, f64)| x.can_show(*px) && y.can_show(*py) && *px >= left && *px <= right;
    for run in points.split(|point| !shown(point)) {
        let mut piece: Vec<(f64, f64)> = Vec::new();
        let is_in = |(_, value): (f64, f64)| value >= low && value <= high;
        for (index, to) in run.iter().copied().enumerate() {
            let Some(from) = index.checked_sub(1).map(|before| run[before]) else {
                piece.extend(is_in(to).then_some(to));
                continue;
            };
            // Where the border is crossed, in the order of the way.
            let mut crossings: Vec<f64> = [low, high]
                .iter()
                .map(|border| (border - from.1) / (to.1 - from.1))
                .filter(|share| *share > 0.0 && *share < 1.0)
                .collect();
            crossings.sort_by(f64::total_cmp);
            for share in crossings {
                let between = |a: f64, b: f64| a + share * (b - a);
                piece.push((between(from.0, to.0), between(from.1, to.1).clamp(low, high)));
            }
            if is_in(to) {
                piece.push(to);
            } else if !piece.is_empty() {
                pieces.push(std::mem::take(&mut piece));
            }
        }
        pieces.push(piece);
    }
    pieces.retain(|piece| piece.len() > 1);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_very_long_line_keeps_its_peaks_and_its_gaps() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), 1.0)).collect();
        points[31_415].1 = 9.0;
        points[27_182].1 = -9.0;
        points[16_180].1 = f64::NAN;
        let x = Axis::counting("step").fitted(points.iter().map(|point| point.0));
        let thin = thinned(&points, &x);
        assert!(thin.len() <= 5 * (COLUMNS + 1), "{}", thin.len());
        for index in [0, 16_180, 27_182, 31_415, 99_999] {
            let (at, value) = points[index];
            let same = |p: &&(f64, f64)| p.0 == at && p.1.to_bits() == value.to_bits();
            assert!(thin.iter().any(|p| same(&p)), "{index}");
        }
        assert!(thin.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(thinned(&points[..100], &x).len(), 100);
    }

    #[test]
    fn error_bars_are_within_the_chart_and_in_the_data() {
        let (tone, points) = (Tone::Series(0), vec![(1.0, 5.0), (2.0, 6.0)]);
        let errors = vec![ErrorBar { tone, at: 2.0, from: 1.0, to: 11.0 }];
        let series = vec![Series { name: "a".to_owned(), tone, points }];
        let lines = Lines { series, errors, ..Lines::default() };
        assert_eq!(lines.csv(), "series,,,from,to\na,1,5,,\na,2,6,1,11\n");
        let nothing = Series { name: "b".to_owned(), tone, points: vec![(1.0, f64::NAN)] };
        let lines_of = |series| Lines { series: vec![series], ..Lines::default() };
        assert_eq!(lines_of(nothing).csv(), "series,,\nb,1,\n", "where there is none it is empty");
        let figure = |chart| crate::chart::Figure {
            name: "f".to_owned(),
            title: "f".to_owned(),
            caption: String::new(),
            chart: crate::chart::Chart::Lines(chart),
        };
        assert!(figure(lines).to_svg().unwrap().contains(">10<"), "the axis goes on to the bar");
    }

    #[test]
    fn lines_that_lie_on_each_other_are_one_with_all_names() {
        let series = |name: &str, y: f64| Series {
            name: name.to_owned(),
            tone: Tone::Series(0),
            points: vec![(0.0, y), (1.0, y)],
        };
        let names = |lines: &[(&str, f64)]| -> Vec<String> {
            let series = lines.iter().map(|(name, y)| series(name, *y)).collect();
            let lines = Lines { series, ..Lines::default() };
            assert_eq!(lines.csv().lines().count(), 1 + 2 * lines.series.len(), "all in the data");
            lines.distinct().into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(names(&[("a", 1.0), ("b", 2.0)]), ["a", "b"]);
        assert_eq!(names(&[("a", 1.0), ("b", 2.0), ("c", 1.0)]), ["a and c (the same)", "b"]);
        assert_eq!(names(&[("a", 1.0), ("b", 1.0), ("c", 1.0)]), ["all 3 (the same)"]);
        let four = [("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 2.0)];
        assert_eq!(names(&four), ["a and 2 others (the same)", "d"]);
    }
}
