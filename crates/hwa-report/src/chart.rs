//! Figures, and the kinds of charts that are in them.

use plotters::prelude::*;

use crate::ReportError;
use crate::bars::Bars;
use crate::boxes::Boxes;
use crate::frame::{Area, Drawn, HEAD, NARROW, TITLE, WIDTH, at, fine, font};
use crate::legend::Legend;
use crate::lines::Lines;
use crate::map::Map;
use crate::svg::{Canvas, Place, Tone, framed, text_width};

/// How high a further line of a title is.
const LINE: u32 = 20;

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
    /// A map: colours and contours over a plane.
    Map(Map),
}

/// What every kind of chart can do.
pub(crate) trait Drawing {
    /// What is what.
    fn legend(&self) -> Legend;

    /// Pixels that it takes below the title and the legend, in a figure of this width.
    fn height(&self, width: u32) -> u32;

    /// Draws it below the title and the legend.
    fn draw(&self, area: &Area<'_>) -> Drawn;

    /// The data, as comma-separated values.
    fn csv(&self) -> String;
}

impl Chart {
    fn drawing(&self) -> &dyn Drawing {
        match self {
            Self::Lines(lines) => lines,
            Self::Boxes(boxes) => boxes,
            Self::Bars(bars) => bars,
            Self::Map(map) => map,
        }
    }
}

impl Figure {
    /// A file of its own.
    pub fn to_svg(&self) -> Result<String, ReportError> {
        self.drawn(WIDTH, Place::File)
    }

    /// For a page that has the style sheet: for wide screens and for narrow ones, of which the
    /// style sheet shows one.
    pub fn inline(&self) -> Result<String, ReportError> {
        Ok(self.drawn(WIDTH, Place::Page)? + &self.drawn(NARROW, Place::NarrowPage)?)
    }

    /// The data, as comma-separated values.
    pub fn to_csv(&self) -> String {
        self.chart.drawing().csv()
    }

    fn drawn(&self, width: u32, place: Place) -> Result<String, ReportError> {
        let drawing = self.chart.drawing();
        let head = HEAD + LINE * (self.title_in(width).len().max(1) as u32 - 1);
        let size = (width, head + drawing.legend().height(width) + drawing.height(width));
        let mut body = String::new();
        let drawn = self.draw(&mut body, size);
        drawn.map_err(|error| ReportError::Drawing { reason: error.to_string() })?;
        Ok(framed(&body, size, &self.title, place))
    }

    fn draw(&self, body: &mut String, size: (u32, u32)) -> Drawn {
        let root = Canvas::new(body, size).into_drawing_area();
        root.fill(&Tone::Paper.colour())?;
        let drawing = self.chart.drawing();
        let legend = drawing.legend();
        let lines = self.title_in(size.0);
        let above = HEAD + LINE * (lines.len().max(1) as u32 - 1);
        let (head, plot) = root.split_vertically(fine(above + legend.height(size.0)));
        for (number, line) in lines.into_iter().enumerate() {
            let title = font(TITLE).style(FontStyle::Bold).color(&Tone::Ink.colour());
            let y = 12.0 + f64::from(LINE) * number as f64;
            head.draw(&Text::new(line, at(16.0, y), title))?;
        }
        legend.draw(&head, above)?;
        drawing.draw(&plot)
    }

    /// The title in lines that have room.
    fn title_in(&self, width: u32) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in self.title.split_whitespace() {
            // Bold letters are wider.
            let longer = |line: &String| 1.1 * text_width(&format!("{line} {word}"), TITLE);
            match lines.last_mut() {
                Some(line) if longer(line) <= f64::from(width) - 24.0 => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines
    }
}

/// A cell of comma-separated values.
pub(crate) fn cell(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// A number as such a cell, which is empty where there is none.
pub(crate) fn number(value: f64) -> String {
    if value.is_nan() { String::new() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Series};

    #[test]
    fn a_narrow_figure_has_room_for_its_title_and_its_legend() {
        let name = "a curve with a name that is a good deal longer than a phone is wide, and on";
        let points = vec![(1.0, 1.0), (2.0, 2.0)];
        let series = vec![Series { name: name.to_owned(), tone: Tone::Series(0), points }];
        let (x, y) = (Axis::counting("cycle"), Axis::measuring("loss"));
        let figure = Figure {
            name: "figure".to_owned(),
            title: "The result on images that it was trained on, and on others".to_owned(),
            caption: String::new(),
            chart: Chart::Lines(Lines { x, y, series, ..Lines::default() }),
        };
        assert_eq!(figure.title_in(WIDTH).len(), 1);
        assert_eq!(figure.title_in(NARROW).len(), 2);
        let inline = figure.inline().unwrap();
        assert_eq!(inline.matches("<svg").count(), 2);
        for line in figure.title_in(NARROW) {
            assert!(inline.contains(&format!(">{line}</text>")), "{line}");
        }
        let narrow = inline.split("figure narrow").nth(1).unwrap();
        assert!(narrow.contains("…</text>") && !narrow.contains("and on</text>"), "{narrow}");
    }
}
