//! What is what: the rows of signs and names above a chart.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::frame::{Area, Drawn, TEXT, at, fine, shortened, small, width};
use crate::svg::{Tone, text_width};

/// What is what, in rows above a chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Legend {
    /// Signs and what they stand for.
    pub(crate) entries: Vec<(Sign, String)>,
}

/// How an entry of a legend looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Sign {
    /// A line with a dot.
    Line(Tone),
    /// A square.
    Patch(Tone),
    /// A ring.
    Ring,
}

impl Legend {
    const ROW: u32 = 20;

    /// Each entry with its place in a figure of this width.
    fn placed(&self, whole: u32) -> Vec<(f64, u32)> {
        let (mut x, mut row) = (16.0, 0);
        let mut places = Vec::new();
        for (_, name) in &self.entries {
            let width = 26.0 + text_width(name, TEXT) + 18.0;
            if x > 16.0 && x + width > f64::from(whole) - 6.0 {
                (x, row) = (16.0, row + 1);
            }
            places.push((x, row));
            x += width;
        }
        places
    }

    /// Pixels that it takes.
    pub(crate) fn height(&self, whole: u32) -> u32 {
        self.placed(whole).last().map_or(0, |(_, row)| (row + 1) * Self::ROW)
    }

    /// Draws it below a title of this height.
    pub(crate) fn draw(&self, area: &Area<'_>, title: u32) -> Drawn {
        let whole = width(area);
        for ((sign, name), (x, row)) in self.entries.iter().zip(self.placed(whole)) {
            let y = f64::from(title + 10 + row * Self::ROW);
            match sign {
                Sign::Line(tone) => {
                    let style = tone.colour().stroke_width(fine(2) + 1);
                    let line = vec![at(x, y), at(x + 20.0, y)];
                    area.draw(&PathElement::new(line, style))?;
                    if tone.dashes() == 0 && matches!(tone, Tone::Series(_)) {
                        let dot = tone.colour().filled();
                        area.draw(&Circle::new(at(x + 10.0, y), fine(3) as i32, dot))?;
                    }
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
            let name = shortened(name, f64::from(whole) - x - 30.0);
            area.draw(&Text::new(name, at(x + 26.0, y), style))?;
        }
        Ok(())
    }
}
