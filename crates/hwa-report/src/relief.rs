//! What lies on the colours of a map: contours with their levels, names of spots, and the bar of
//! colours beside it.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::frame::{Area, Drawn, TEXT, at, fine, font, shortened, small};
use crate::places::{Patch, beside};
use crate::scale::{Scale, colour, ink};
use crate::svg::{Tone, text_width};

/// The size of the levels on their contours.
const LEVEL: f64 = 10.0;
/// A contour of fewer pixels has no level on it.
const SHORTEST: f64 = 110.0;
/// How many places for a level are tried.
const TRIES: usize = 60;
/// How high a line of text is.
const LINE: f64 = 18.0;
/// How far the bar is from the map, and how wide.
const GAP: f64 = 18.0;
const BAR: f64 = 14.0;

type Point = (f64, f64);

/// Contours and spots, placed; everything in pixels.
pub(crate) struct Relief<'a> {
    contours: Vec<Contour>,
    spots: Vec<(&'a str, Point)>,
    /// The patches of the names of spots.
    names: Vec<Patch>,
    plane: Patch,
}

/// The lines of one level.
struct Contour {
    share: f64,
    lines: Vec<Vec<Point>>,
    /// The level in words.
    level: String,
    /// Where that is written, if there is a place.
    place: Option<Patch>,
}

impl<'a> Relief<'a> {
    /// `lines` gives the contours at a share of the scale; nothing is to cover the `dots`.
    pub(crate) fn new(
        plane: Patch,
        scale: &Scale,
        lines: impl Fn(f64) -> Vec<Vec<Point>>,
        spots: Vec<(&'a str, Point)>,
        dots: Vec<Point>,
    ) -> Self {
        let rings = spots.iter().map(|(_, place)| Patch::around(*place, (18.0, 18.0)));
        let dots = dots.into_iter().map(|dot| Patch::around(dot, (8.0, 8.0)));
        let mut taken: Vec<Patch> = rings.chain(dots).collect();
        let mut names = Vec::new();
        for (label, place) in &spots {
            let width = text_width(label, TEXT).min(plane.to.0 - plane.from.0 - 20.0) + 12.0;
            let patch = beside(*place, (width, LINE), &plane, &taken);
            taken.push(patch);
            names.push(patch);
        }
        let levels = scale.levels();
        let shares = levels.iter().filter_map(|level| Some((*level, scale.share(*level)?)));
        // A line around what is at the end of the scale would follow the grid, not the values.
        let shares = shares.filter(|(_, share)| *share > 1e-6 && *share < 1.0 - 1e-6);
        let mut contours: Vec<Contour> = shares
            .map(|(level, share)| {
                let level = scale.written(level);
                Contour { share, lines: lines(share), level, place: None }
            })
            .collect();
        for index in 0..contours.len() {
            let place = place_level(&contours, index, &plane, &taken);
            taken.extend(place);
            contours[index].place = place;
        }
        Self { contours, spots, names, plane }
    }

    /// The contours and their levels.
    pub(crate) fn draw_contours(&self, area: &Area<'_>) -> Drawn {
        for Contour { share, lines, level, place } in &self.contours {
            let style = ink(*share).mix(0.55).stroke_width(fine(1));
            for line in lines {
                let parts = match place {
                    Some(patch) => patch.cut_from(line),
                    None => vec![line.clone()],
                };
                for part in parts {
                    let part: Vec<(i32, i32)> = part.into_iter().map(|(x, y)| at(x, y)).collect();
                    area.draw(&PathElement::new(part, style))?;
                }
            }
            if let Some(patch) = place {
                let (x, y) = patch.middle();
                let centred = Pos::new(HPos::Center, VPos::Center);
                let style = font(LEVEL).color(&ink(*share)).pos(centred);
                area.draw(&Text::new(level.clone(), at(x, y), style))?;
            }
        }
        Ok(())
    }

    /// The rings of spots, and their names.
    pub(crate) fn draw_spots(&self, area: &Area<'_>) -> Drawn {
        for ((_, (x, y)), name) in self.spots.iter().zip(&self.names) {
            let end = (x.clamp(name.from.0, name.to.0), y.clamp(name.from.1, name.to.1));
            // A name that is not at its ring is led to it.
            let apart = (end.0 - x).hypot(end.1 - y);
            if apart > 20.0 {
                let begin = (x + 6.0 * (end.0 - x) / apart, y + 6.0 * (end.1 - y) / apart);
                for (tone, width) in [(Tone::Paper, fine(3)), (Tone::Ink, fine(1))] {
                    let line = vec![at(begin.0, begin.1), at(end.0, end.1)];
                    area.draw(&PathElement::new(line, tone.colour().stroke_width(width)))?;
                }
            }
            for (tone, width) in [(Tone::Paper, fine(5)), (Tone::Ink, fine(2))] {
                let style = tone.colour().stroke_width(width);
                area.draw(&Circle::new(at(*x, *y), fine(6) as i32, style))?;
            }
        }
        for ((label, _), name) in self.spots.iter().zip(&self.names) {
            let corners = [at(name.from.0, name.from.1), at(name.to.0, name.to.1)];
            area.draw(&Rectangle::new(corners, Tone::Paper.colour().mix(0.88).filled()))?;
            let label = shortened(label, self.plane.to.0 - self.plane.from.0 - 20.0);
            let (x, y) = name.middle();
            let style = small(Tone::Ink).pos(Pos::new(HPos::Center, VPos::Center));
            area.draw(&Text::new(label, at(x, y), style))?;
        }
        Ok(())
    }
}

/// The place for the level on the longest of its lines: where that is flat, and nothing else is.
fn place_level(
    contours: &[Contour],
    index: usize,
    plane: &Patch,
    taken: &[Patch],
) -> Option<Patch> {
    let contour = &contours[index];
    let longest = contour.lines.iter().max_by(|a, b| length(a).total_cmp(&length(b)))?;
    if length(longest) < SHORTEST {
        return None;
    }
    let size = (text_width(&contour.level, LEVEL) + 6.0, LEVEL + 3.0);
    let every = longest.len().div_ceil(TRIES).max(1);
    let mut tries: Vec<(f64, Point)> = (2..longest.len().saturating_sub(2))
        .step_by(every)
        .map(|i| {
            let (before, after) = (longest[i - 2], longest[i + 2]);
            let steep = (after.1 - before.1).abs() / (after.0 - before.0).abs().max(1e-3);
            (steep, longest[i])
        })
        .collect();
    tries.sort_by(|a, b| a.0.total_cmp(&b.0));
    let free = |patch: &Patch| {
        let others = contours.iter().enumerate().filter(|(other, _)| *other != index);
        let mut lines = others.flat_map(|(_, contour)| contour.lines.iter());
        plane.holds(patch)
            && taken.iter().all(|other| patch.shared(other) == 0.0)
            && lines.all(|line| !line.iter().any(|point| patch.contains(*point)))
    };
    tries.into_iter().map(|(_, middle)| Patch::around(middle, size)).find(free)
}

fn length(line: &[Point]) -> f64 {
    line.windows(2).map(|w| (w[0].0 - w[1].0).hypot(w[0].1 - w[1].1)).sum()
}

/// The colours beside a map, with the values that they stand for.
pub(crate) struct Bar {
    /// Shares of the range and what is written there; those at the ends first.
    marks: Vec<(f64, String)>,
}

impl Bar {
    /// For this scale: the levels of the contours, and the ends where values are beyond them.
    pub(crate) fn new(scale: &Scale) -> Self {
        let end = |beyond: bool, share: f64, sign: &str| {
            beyond.then(|| (share, format!("{sign} {}", scale.written(scale.at(share)))))
        };
        let ends = end(scale.above, 1.0, "≥").into_iter().chain(end(scale.below, 0.0, "≤"));
        let levels = scale.levels().into_iter();
        let levels = levels.filter_map(|level| Some((scale.share(level)?, scale.written(level))));
        Self { marks: ends.chain(levels).collect() }
    }

    fn widest(&self) -> f64 {
        self.marks.iter().map(|(_, text)| text_width(text, TEXT)).fold(0.0, f64::max)
    }

    /// How many pixels it needs beside the map.
    pub(crate) fn room(&self) -> u32 {
        (GAP + BAR + 8.0 + self.widest() + 34.0) as u32
    }

    /// Draws it beside the map.
    pub(crate) fn draw(&self, area: &Area<'_>, plane: Patch, label: &str) -> Drawn {
        let (left, right) = (plane.to.0 + GAP, plane.to.0 + GAP + BAR);
        let height = plane.to.1 - plane.from.1;
        let y = |share: f64| plane.to.1 - share * height;
        let steps = 64;
        for step in 0..steps {
            let share = |step: i32| f64::from(step) / f64::from(steps);
            let corners = [at(left, y(share(step + 1))), at(right, y(share(step)))];
            let colour = colour(f64::from(step) / f64::from(steps - 1)).filled();
            area.draw(&Rectangle::new(corners, colour))?;
        }
        let mut written: Vec<f64> = Vec::new();
        for (share, text) in &self.marks {
            let line = vec![at(left, y(*share)), at(right, y(*share))];
            area.draw(&PathElement::new(line, ink(*share).mix(0.55).stroke_width(fine(1))))?;
            if written.iter().any(|other| (other - y(*share)).abs() < TEXT + 2.0) {
                continue;
            }
            written.push(y(*share));
            let style = small(Tone::Faint).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(text.clone(), at(right + 8.0, y(*share)), style))?;
        }
        let style = small(Tone::Ink).transform(FontTransform::Rotate270);
        let style = style.pos(Pos::new(HPos::Center, VPos::Top));
        let place = at(right + 8.0 + self.widest() + 8.0, y(0.5));
        area.draw(&Text::new(shortened(label, height), place, style))?;
        Ok(())
    }
}
