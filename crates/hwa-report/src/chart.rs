//! Charts: lines over an axis, boxes over seeds, bars of shares.

use std::fmt::Write as _;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::ReportError;
use crate::axis::{Axis, Fitted};
use crate::svg::{Canvas, FINE, Tone, framed, text_width};

const WIDTH: u32 = 760;
const HEIGHT: u32 = 400;
const TITLE: f64 = 16.0;
const TEXT: f64 = 12.5;
/// More points than this make a line without dots.
const MOST_DOTS: usize = 70;

/// A figure with a name, words and data.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What its files are called.
    pub name: String,
    /// What stands above it.
    pub title: String,
    /// What there is to see, in a sentence or two.
    pub caption: String,
    /// What is drawn.
    pub chart: Chart,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Chart {
    /// Lines.
    Lines(Lines),
    /// Boxes.
    Boxes(Boxes),
    /// Bars.
    Bars(Bars),
}

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

/// A ring around a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// What it is, in the legend.
    pub label: String,
    /// Where.
    pub at: (f64, f64),
}

/// A box for each of several groups of values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Boxes {
    /// The axis at the left.
    pub y: Axis,
    /// Names and values.
    pub groups: Vec<(String, Vec<f64>)>,
}

/// Bars, each cut into shares.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bars {
    /// The axis below.
    pub x: Axis,
    /// What the shares are.
    pub parts: Vec<String>,
    /// Names, and a value for each part.
    pub bars: Vec<(String, Vec<f64>)>,
}

type Area<'a> = DrawingArea<Canvas<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Figure {
    /// A file of its own.
    pub fn to_svg(&self) -> Result<String, ReportError> {
        self.drawn(true)
    }

    /// For a page that has the style sheet.
    pub fn inline(&self) -> Result<String, ReportError> {
        self.drawn(false)
    }

    fn drawn(&self, alone: bool) -> Result<String, ReportError> {
        let size = (WIDTH, self.height());
        let mut body = String::new();
        let drawn = self.draw(&mut body, size);
        drawn.map_err(|error| ReportError::Drawing { reason: error.to_string() })?;
        Ok(framed(&body, size, &self.title, alone))
    }

    fn height(&self) -> u32 {
        match &self.chart {
            Chart::Lines(lines) => HEIGHT + lines.legend().height(),
            Chart::Boxes(_) => HEIGHT,
            Chart::Bars(bars) => 100 + bars.legend().height() + 34 * bars.bars.len() as u32,
        }
    }

    fn draw(&self, body: &mut String, size: (u32, u32)) -> Drawn {
        let root = Canvas::new(body, size).into_drawing_area();
        root.fill(&Tone::Paper.colour())?;
        let legend = match &self.chart {
            Chart::Lines(lines) => lines.legend(),
            Chart::Bars(bars) => bars.legend(),
            Chart::Boxes(_) => Legend::default(),
        };
        let head = 38 + legend.height();
        let (head, plot) = root.split_vertically(head * FINE as u32);
        let title = font(TITLE).style(FontStyle::Bold).color(&Tone::Ink.colour());
        head.draw(&Text::new(self.title.clone(), at(16.0, 12.0), title))?;
        legend.draw(&head)?;
        match &self.chart {
            Chart::Lines(lines) => lines.draw(&plot),
            Chart::Boxes(boxes) => boxes.draw(&plot),
            Chart::Bars(bars) => bars.draw(&plot),
        }
    }

    /// The data, as comma-separated values.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        match &self.chart {
            Chart::Lines(lines) => {
                let (x, y) = (cell(&lines.x.label), cell(&lines.y.label));
                let _ = writeln!(text, "series,{x},{y}");
                for series in &lines.series {
                    for (x, y) in &series.points {
                        let _ = writeln!(text, "{},{x},{y}", cell(&series.name));
                    }
                }
                for Mark { label, at: (x, y) } in &lines.marks {
                    let _ = writeln!(text, "{},{x},{y}", cell(label));
                }
            }
            Chart::Boxes(boxes) => {
                let _ = writeln!(text, "group,{}", cell(&boxes.y.label));
                for (name, values) in &boxes.groups {
                    for value in values {
                        let _ = writeln!(text, "{},{value}", cell(name));
                    }
                }
            }
            Chart::Bars(bars) => {
                let _ = writeln!(text, "bar,part,{}", cell(&bars.x.label));
                for (name, values) in &bars.bars {
                    for (part, value) in bars.parts.iter().zip(values) {
                        let _ = writeln!(text, "{},{},{value}", cell(name), cell(part));
                    }
                }
            }
        }
        text
    }
}

/// A cell of comma-separated values.
pub(crate) fn cell(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn font(size: f64) -> FontDesc<'static> {
    FontDesc::new(FontFamily::SansSerif, size * f64::from(FINE), FontStyle::Normal)
}

fn small(tone: Tone) -> TextStyle<'static> {
    font(TEXT).color(&tone.colour())
}

/// A place in pixels.
fn at(x: f64, y: f64) -> (i32, i32) {
    ((x * f64::from(FINE)) as i32, (y * f64::from(FINE)) as i32)
}

fn fine(pixels: u32) -> u32 {
    pixels * FINE as u32
}

/// What is what, in rows above a chart.
#[derive(Debug, Clone, PartialEq, Default)]
struct Legend {
    entries: Vec<(Sign, String)>,
}

/// How an entry of a legend looks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sign {
    Line(Tone),
    Patch(Tone),
    Ring,
}

impl Legend {
    const ROW: u32 = 20;

    /// Each entry with its place.
    fn placed(&self) -> Vec<(f64, u32)> {
        let (mut x, mut row) = (16.0, 0);
        let mut places = Vec::new();
        for (_, name) in &self.entries {
            let width = 26.0 + text_width(name, TEXT) + 18.0;
            if x > 16.0 && x + width > f64::from(WIDTH) - 10.0 {
                (x, row) = (16.0, row + 1);
            }
            places.push((x, row));
            x += width;
        }
        places
    }

    fn height(&self) -> u32 {
        self.placed().last().map_or(0, |(_, row)| (row + 1) * Self::ROW)
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        for ((sign, name), (x, row)) in self.entries.iter().zip(self.placed()) {
            let y = 48.0 + f64::from(row * Self::ROW);
            match sign {
                Sign::Line(tone) => {
                    let style = tone.colour().stroke_width(fine(2) + 1);
                    let line = vec![at(x, y), at(x + 20.0, y)];
                    area.draw(&PathElement::new(line, style))?;
                    area.draw(&Circle::new(
                        at(x + 10.0, y),
                        fine(3) as i32,
                        tone.colour().filled(),
                    ))?;
                }
                Sign::Patch(tone) => {
                    let corners = [at(x + 4.0, y - 6.0), at(x + 18.0, y + 6.0)];
                    area.draw(&Rectangle::new(corners, tone.colour().filled()))?;
                }
                Sign::Ring => {
                    let style = Tone::Ink.colour().stroke_width(fine(2));
                    area.draw(&Circle::new(at(x + 10.0, y), fine(5) as i32, style))?;
                }
            }
            let style = small(Tone::Ink).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(name.clone(), at(x + 26.0, y), style))?;
        }
        Ok(())
    }
}

impl Lines {
    fn legend(&self) -> Legend {
        let lines = self.series.iter().map(|s| (Sign::Line(s.tone), s.name.clone()));
        let marks = self.marks.iter().map(|mark| (Sign::Ring, mark.label.clone()));
        Legend { entries: lines.chain(marks).collect() }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let points = || {
            let lines = self.series.iter().flat_map(|series| series.points.iter().copied());
            lines.chain(self.marks.iter().map(|mark| mark.at))
        };
        let x = self.x.fitted(points().map(|(x, _)| x));
        let y = self.y.fitted(points().map(|(_, y)| y));
        let mut chart = framed_chart(area, &self.x.label, &self.y.label, (x.clone(), y.clone()))?;
        for series in &self.series {
            let colour = series.tone.colour();
            for piece in pieces(&series.points, &x, &y) {
                chart.draw_series([PathElement::new(piece, colour.stroke_width(fine(2)))])?;
            }
            let shown = |(px, py): &&(f64, f64)| within(&x, *px) && within(&y, *py);
            if series.points.len() <= MOST_DOTS {
                let dots = series.points.iter().filter(shown);
                chart.draw_series(dots.map(|p| Circle::new(*p, fine(5) / 2, colour.filled())))?;
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
}

fn within(axis: &Fitted, value: f64) -> bool {
    let Range { start, end } = plotters::coord::ranged1d::Ranged::range(axis);
    axis.can_show(value) && value >= start && value <= end
}

type Chart2d<'a, 'b> = ChartContext<'a, Canvas<'b>, Cartesian2d<Fitted, Fitted>>;

/// Axes, a grid, and what they show.
fn framed_chart<'a, 'b>(
    area: &'a Area<'b>,
    x_label: &str,
    y_label: &str,
    (x, y): (Fitted, Fitted),
) -> Result<Chart2d<'a, 'b>, Box<dyn std::error::Error>> {
    let (written_x, written_y) = (x.clone(), y.clone());
    let widest = y.marks(9).into_iter().map(|mark| text_width(&y.written(mark), TEXT));
    let left = widest.fold(0.0, f64::max) as u32 + 34;
    let mut chart = ChartBuilder::on(area)
        .margin_right(fine(18))
        .margin_top(fine(6))
        .margin_left(fine(4))
        .x_label_area_size(fine(46))
        .y_label_area_size(fine(left))
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_desc(x_label)
        .y_desc(y_label)
        .x_labels(9)
        .y_labels(7)
        .x_label_formatter(&|value| written_x.written(*value))
        .y_label_formatter(&|value| written_y.written(*value))
        .label_style(small(Tone::Faint))
        .axis_desc_style(small(Tone::Ink))
        .axis_style(Tone::Faint.colour().stroke_width(fine(1)))
        .light_line_style(TRANSPARENT)
        .bold_line_style(Tone::Grid.colour().stroke_width(fine(1)))
        .draw()?;
    Ok(chart)
}

/// The pieces of a line that can be seen: interrupted by what cannot be shown, and cut off where
/// it leaves the chart below or above.
fn pieces(points: &[(f64, f64)], x: &Fitted, y: &Fitted) -> Vec<Vec<(f64, f64)>> {
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

impl Boxes {
    fn draw(&self, area: &Area<'_>) -> Drawn {
        let values = self.groups.iter().flat_map(|(_, values)| values.iter().copied());
        let y = self.y.fitted(values);
        let count = self.groups.len().max(1) as f64;
        let x = Axis::measuring("").within(-0.5..count - 0.5).fitted(std::iter::empty());
        let written_y = y.clone();
        let widest = y.marks(9).into_iter().map(|mark| text_width(&y.written(mark), TEXT));
        let left = widest.fold(0.0, f64::max) as u32 + 34;
        let mut chart = ChartBuilder::on(area)
            .margin_right(fine(18))
            .margin_top(fine(6))
            .margin_left(fine(4))
            .x_label_area_size(fine(34))
            .y_label_area_size(fine(left))
            .build_cartesian_2d(x, y.clone())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .disable_x_axis()
            .y_desc(&self.y.label)
            .y_labels(7)
            .y_label_formatter(&|value| written_y.written(*value))
            .label_style(small(Tone::Faint))
            .axis_desc_style(small(Tone::Ink))
            .axis_style(Tone::Faint.colour().stroke_width(fine(1)))
            .light_line_style(TRANSPARENT)
            .bold_line_style(Tone::Grid.colour().stroke_width(fine(1)))
            .draw()?;
        let below = y.at(0.0);
        for (number, (name, values)) in self.groups.iter().enumerate() {
            let (middle, tone) = (number as f64, Tone::Series(number));
            let Some(five) = five_numbers(values) else { continue };
            let line = tone.colour().stroke_width(fine(2));
            let [least, lower, median, upper, greatest] = five;
            for ends in [(least, lower), (upper, greatest)] {
                let whisker = vec![(middle, ends.0), (middle, ends.1)];
                chart.draw_series([PathElement::new(whisker, line)])?;
            }
            let corners = [(middle - 0.22, upper), (middle + 0.22, lower)];
            chart.draw_series([Rectangle::new(corners, tone.colour().mix(0.25).filled())])?;
            chart.draw_series([Rectangle::new(corners, line)])?;
            let across = vec![(middle - 0.22, median), (middle + 0.22, median)];
            chart.draw_series([PathElement::new(across, tone.colour().stroke_width(fine(3)))])?;
            let dots = values.iter().filter(|v| v.is_finite()).map(|value| {
                Circle::new((middle, *value), fine(5) / 2, Tone::Ink.colour().filled())
            });
            chart.draw_series(dots)?;
            let name = shortened(name, f64::from(WIDTH) * 0.86 / count);
            let style = small(Tone::Ink).pos(Pos::new(HPos::Center, VPos::Top));
            let (px, py) = chart.backend_coord(&(middle, below));
            let (ox, oy) = (area.get_base_pixel().0, area.get_base_pixel().1);
            area.draw(&Text::new(name, (px - ox, py - oy + 8 * FINE), style))?;
        }
        Ok(())
    }
}

/// As much of a text as has room.
fn shortened(text: &str, room: f64) -> String {
    if text_width(text, TEXT) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    for letter in text.chars() {
        if text_width(&short, TEXT) + 16.0 > room {
            break;
        }
        short.push(letter);
    }
    short + "…"
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

impl Bars {
    fn legend(&self) -> Legend {
        let patch = |(n, part): (usize, &String)| (Sign::Patch(Tone::Series(n)), part.clone());
        Legend { entries: self.parts.iter().enumerate().map(patch).collect() }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let total = |values: &Vec<f64>| values.iter().filter(|v| v.is_finite()).sum::<f64>();
        let longest = self.bars.iter().map(|(_, values)| total(values)).fold(0.0, f64::max);
        let x = Axis { range: Some(0.0..(1.02 * longest).max(1e-9)), ..self.x.clone() };
        let x = x.fitted(std::iter::empty());
        let count = self.bars.len().max(1) as f64;
        let y = Axis::measuring("").within(-0.5..count - 0.5).fitted(std::iter::empty());
        let widest = self.bars.iter().map(|(name, _)| text_width(name, TEXT)).fold(0.0, f64::max);
        let left = (widest + 20.0).min(f64::from(WIDTH) * 0.35);
        let written = x.clone();
        let mut chart = ChartBuilder::on(area)
            .margin_right(fine(22))
            .x_label_area_size(fine(46))
            .y_label_area_size((left * f64::from(FINE)) as u32)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_desc(&self.x.label)
            .x_labels(8)
            .x_label_formatter(&|value| written.written(*value))
            .label_style(small(Tone::Faint))
            .axis_desc_style(small(Tone::Ink))
            .axis_style(Tone::Faint.colour().stroke_width(fine(1)))
            .light_line_style(TRANSPARENT)
            .bold_line_style(Tone::Grid.colour().stroke_width(fine(1)))
            .draw()?;
        for (number, (name, values)) in self.bars.iter().enumerate() {
            // The first one is at the top.
            let middle = count - 1.0 - number as f64;
            let mut from = 0.0;
            for (part, value) in values.iter().enumerate().filter(|(_, v)| v.is_finite()) {
                let corners = [(from, middle + 0.32), (from + value, middle - 0.32)];
                let colour = Tone::Series(part).colour();
                chart.draw_series([Rectangle::new(corners, colour.filled())])?;
                from += value;
            }
            let style = small(Tone::Ink).pos(Pos::new(HPos::Right, VPos::Center));
            let (px, py) = chart.backend_coord(&(0.0, middle));
            let (ox, oy) = (area.get_base_pixel().0, area.get_base_pixel().1);
            let name = shortened(name, left - 12.0);
            area.draw(&Text::new(name, (px - ox - 8 * FINE, py - oy), style))?;
        }
        Ok(())
    }
}
