//! Bars: what a whole is made of.

use std::fmt::Write as _;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::axis::Axis;
use crate::chart::{Drawing, cell, number};
use crate::frame::{Area, Drawn, Frame, HEAD, Side, TEXT, place, shortened, small, width};
use crate::legend::{Legend, Sign};
use crate::svg::{FINE, Tone, text_width};

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

impl Drawing for Bars {
    fn legend(&self) -> Legend {
        let patch = |(n, part): (usize, &String)| (Sign::Patch(Tone::Series(n)), part.clone());
        Legend { entries: self.parts.iter().enumerate().map(patch).collect() }
    }

    fn height(&self, _width: u32) -> u32 {
        100 - HEAD + 34 * self.bars.len() as u32
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let total = |values: &Vec<f64>| values.iter().filter(|v| v.is_finite()).sum::<f64>();
        let longest = self.bars.iter().map(|(_, values)| total(values)).fold(0.0, f64::max);
        let x = Axis { range: Some(0.0..(1.02 * longest).max(1e-9)), ..self.x.clone() };
        let x = x.fitted(std::iter::empty());
        let count = self.bars.len().max(1) as f64;
        let y = Axis::measuring("").within(-0.5..count - 0.5).fitted(std::iter::empty());
        let widest = self.bars.iter().map(|(name, _)| text_width(name, TEXT)).fold(0.0, f64::max);
        let left = (widest + 20.0).min(f64::from(width(area)) * 0.35);
        let (below, beside) = (Side::Marked(&self.x.label, x), Side::Named(y, left as u32));
        let mut chart = Frame::new(below, beside).chart(area)?;
        for (number, (name, values)) in self.bars.iter().enumerate() {
            // The first one is at the top.
            let middle = count - 1.0 - number as f64;
            let mut from = 0.0;
            for (part, value) in
                values.iter().enumerate().filter(|(_, v)| v.is_finite() && **v > 0.0)
            {
                let corners = [(from, middle + 0.32), (from + value, middle - 0.32)];
                let colour = Tone::Series(part).colour();
                chart.draw_series([Rectangle::new(corners, colour.filled())])?;
                from += value;
            }
            let style = small(Tone::Ink).pos(Pos::new(HPos::Right, VPos::Center));
            let (x, y) = place(area, &chart, (0.0, middle));
            let name = shortened(name, left - 12.0);
            area.draw(&Text::new(name, (x - 8 * FINE, y), style))?;
        }
        Ok(())
    }

    fn csv(&self) -> String {
        let mut text = format!("bar,part,{}\n", cell(&self.x.label));
        for (name, values) in &self.bars {
            for (part, value) in self.parts.iter().zip(values) {
                let _ = writeln!(text, "{},{},{}", cell(name), cell(part), number(*value));
            }
        }
        text
    }
}
