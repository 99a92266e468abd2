//! Figures, and the kinds of charts that are in them.

use plotters::prelude::*;

use crate::ReportError;
use crate::bars::Bars;
use crate::boxes::Boxes;
use crate::frame::{Area, Drawn, HEAD, TITLE, WIDTH, at, fine, font};
use crate::legend::Legend;
use crate::lines::Lines;
use crate::map::Map;
use crate::svg::{Canvas, Tone, framed};

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

    /// Pixels that it takes below the title and the legend.
    fn height(&self) -> u32;

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
        self.drawn(true)
    }

    /// For a page that has the style sheet.
    pub fn inline(&self) -> Result<String, ReportError> {
        self.drawn(false)
    }

    /// The data, as comma-separated values.
    pub fn to_csv(&self) -> String {
        self.chart.drawing().csv()
    }

    fn drawn(&self, alone: bool) -> Result<String, ReportError> {
        let drawing = self.chart.drawing();
        let size = (WIDTH, HEAD + drawing.legend().height() + drawing.height());
        let mut body = String::new();
        let drawn = self.draw(&mut body, size);
        drawn.map_err(|error| ReportError::Drawing { reason: error.to_string() })?;
        Ok(framed(&body, size, &self.title, alone))
    }

    fn draw(&self, body: &mut String, size: (u32, u32)) -> Drawn {
        let root = Canvas::new(body, size).into_drawing_area();
        root.fill(&Tone::Paper.colour())?;
        let drawing = self.chart.drawing();
        let legend = drawing.legend();
        let (head, plot) = root.split_vertically(fine(HEAD + legend.height()));
        let title = font(TITLE).style(FontStyle::Bold).color(&Tone::Ink.colour());
        head.draw(&Text::new(self.title.clone(), at(16.0, 12.0), title))?;
        legend.draw(&head)?;
        drawing.draw(&plot)
    }
}

/// A cell of comma-separated values.
pub(crate) fn cell(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
