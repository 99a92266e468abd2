//! What charts stand in: axes with their marks, a grid, and text of one size.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::axis::Fitted;
use crate::svg::{Canvas, FINE, Tone, text_width};

/// How wide a figure is, in pixels.
pub(crate) const WIDTH: u32 = 760;
/// And on a narrow screen, or in columns on paper: its text has the same size.
pub(crate) const NARROW: u32 = 400;
/// An axis has at most one label in so many pixels of a figure.
const PER_LABEL: u32 = 84;
/// How high it is, where nothing else decides, without its legend.
pub(crate) const HEIGHT: u32 = 400;
/// How high the title of a figure is, with the room around it.
pub(crate) const HEAD: u32 = 38;
/// The size of a title.
pub(crate) const TITLE: f64 = 16.0;
/// The size of other text.
pub(crate) const TEXT: f64 = 12.5;

/// Pixels left free above and below a chart with its axes.
pub(crate) const ABOVE: u32 = 6;
pub(crate) const BELOW: u32 = 5;

/// Something to draw on.
pub(crate) type Area<'a> = DrawingArea<Canvas<'a>, Shift>;
/// What drawing gives.
pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;
/// A chart with two axes.
pub(crate) type Chart2d<'a, 'b> = ChartContext<'a, Canvas<'b>, Cartesian2d<Fitted, Fitted>>;

/// Two axes around a chart, and the room outside of them.
pub(crate) struct Frame<'a> {
    /// Below.
    pub(crate) x: Side<'a>,
    /// At the left.
    pub(crate) y: Side<'a>,
    /// Pixels left free at the left and at the right.
    pub(crate) margins: (u32, u32),
    /// Whether marks go on as lines across the chart.
    pub(crate) grid: bool,
}

/// An axis as it is drawn.
pub(crate) enum Side<'a> {
    /// With marks and a label.
    Marked(&'a str, Fitted),
    /// Without: the chart names its places itself, in so many pixels.
    Named(Fitted, u32),
}

impl<'a> Frame<'a> {
    /// The usual frame.
    pub(crate) fn new(x: Side<'a>, y: Side<'a>) -> Self {
        Self { x, y, margins: (4, 18), grid: true }
    }

    /// Draws it, and gives what to draw in.
    pub(crate) fn chart<'b, 'c>(
        &self,
        area: &'b Area<'c>,
    ) -> Result<Chart2d<'b, 'c>, Box<dyn std::error::Error>> {
        let (left, right) = self.margins;
        let (x, y) = (self.x.axis(), self.y.axis());
        let mut chart = ChartBuilder::on(area)
            .margin_right(fine(right))
            .margin_top(fine(ABOVE))
            .margin_bottom(fine(BELOW))
            .margin_left(fine(left))
            .x_label_area_size(fine(self.x.room_below()))
            .y_label_area_size(fine(self.y.room_beside()))
            .build_cartesian_2d(x.clone(), y.clone())?;
        let written_x = |value: &f64| x.written(*value);
        let written_y = |value: &f64| y.written(*value);
        let lines = if self.grid { Tone::Grid.colour().to_rgba() } else { TRANSPARENT };
        let mut mesh = chart.configure_mesh();
        mesh.label_style(small(Tone::Faint))
            .axis_desc_style(small(Tone::Ink))
            .axis_style(Tone::Faint.colour().stroke_width(fine(1)))
            .light_line_style(TRANSPARENT)
            .bold_line_style(lines.stroke_width(fine(1)));
        match &self.x {
            Side::Marked(label, _) => {
                let labels = (width(area) / PER_LABEL) as usize;
                mesh.x_desc(*label).x_labels(labels).x_label_formatter(&written_x)
            }
            Side::Named(..) => mesh.disable_x_mesh().disable_x_axis(),
        };
        match &self.y {
            Side::Marked(label, _) => mesh.y_desc(*label).y_labels(7).y_label_formatter(&written_y),
            Side::Named(..) => mesh.disable_y_mesh().disable_y_axis(),
        };
        mesh.draw()?;
        Ok(chart)
    }
}

impl Side<'_> {
    fn axis(&self) -> &Fitted {
        match self {
            Self::Marked(_, axis) | Self::Named(axis, _) => axis,
        }
    }

    /// Pixels that its marks and its label take below a chart.
    pub(crate) fn room_below(&self) -> u32 {
        match self {
            Self::Marked(..) => 46,
            Self::Named(_, room) => *room,
        }
    }

    /// And beside it.
    pub(crate) fn room_beside(&self) -> u32 {
        match self {
            Self::Marked(_, axis) => widest_mark(axis) as u32 + 34,
            Self::Named(_, room) => *room,
        }
    }
}

fn widest_mark(axis: &Fitted) -> f64 {
    let marks = axis.marks(9).into_iter().map(|mark| text_width(&axis.written(mark), TEXT));
    marks.fold(0.0, f64::max)
}

/// Where a point of a chart is on the area around it.
pub(crate) fn place(area: &Area<'_>, chart: &Chart2d<'_, '_>, point: (f64, f64)) -> (i32, i32) {
    let ((x, y), (left, top)) = (chart.backend_coord(&point), area.get_base_pixel());
    (x - left, y - top)
}

/// How wide an area is, in pixels.
pub(crate) fn width(area: &Area<'_>) -> u32 {
    area.dim_in_pixel().0 / FINE as u32
}

/// How high a chart is in a figure of this width, where nothing else decides.
pub(crate) fn height(width: u32) -> u32 {
    (HEIGHT - HEAD).min(width * 2 / 3)
}

/// A font of this size in pixels.
pub(crate) fn font(size: f64) -> FontDesc<'static> {
    FontDesc::new(FontFamily::SansSerif, size * f64::from(FINE), FontStyle::Normal)
}

/// Text of the usual size.
pub(crate) fn small(tone: Tone) -> TextStyle<'static> {
    font(TEXT).color(&tone.colour())
}

/// A place in pixels.
pub(crate) fn at(x: f64, y: f64) -> (i32, i32) {
    ((x * f64::from(FINE)) as i32, (y * f64::from(FINE)) as i32)
}

/// A length in pixels.
pub(crate) fn fine(pixels: u32) -> u32 {
    pixels * FINE as u32
}

/// As much of a text as has room.
pub(crate) fn shortened(text: &str, room: f64) -> String {
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
