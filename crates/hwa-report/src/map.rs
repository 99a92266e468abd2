//! A map: colours and contours of what was measured over a plane, as a loss landscape is.

use std::fmt::Write as _;
use std::ops::Range;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::axis::{Axis, Fitted};
use crate::chart::{Drawing, cell, number};
use crate::contour::Grid;
use crate::frame::{
    ABOVE, Area, BELOW, Chart2d, Drawn, Frame, HEIGHT, Side, at, fine, place, small, width,
};
use crate::legend::{Legend, Sign};
use crate::lines::{MOST_DOTS, Series, pieces, within};
use crate::places::Patch;
use crate::relief::{Bar, Relief};
use crate::scale::{Scale, colour};
use crate::svg::{FINE, Tone};

/// How high a map may be, in pixels.
const HIGHEST: f64 = 560.0;
/// And how low, or narrow.
const LEAST: f64 = 120.0;
/// So many colours are told apart.
const COLOURS: f64 = 127.0;
/// How long the arrow of a way is, in pixels.
const ARROW: f64 = 9.0;

/// Values over a plane.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Map {
    /// The axis below; by default it holds the grid, the spots and the paths.
    pub x: Axis,
    /// The axis at the left.
    pub y: Axis,
    /// What is measured: its label, and whether colours and levels go by its logarithm. By
    /// default a few values that are much greater than the others do not widen its range.
    pub value: Axis,
    /// The x of the grid, ascending.
    pub columns: Vec<f64>,
    /// The y of the grid, ascending.
    pub rows: Vec<f64>,
    /// Row by row. Infinity is above every range, and what is not positive below one of powers of
    /// ten; what is not a number, or missing, was not measured and is left blank.
    pub values: Vec<f64>,
    /// Points with a name.
    pub spots: Vec<Spot>,
    /// Ways over the plane, as that of a training.
    pub paths: Vec<Series>,
    /// How the axes go together.
    pub aspect: Aspect,
    /// What is known of the places between the points.
    pub between: Between,
}

/// A point of a map that has a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Spot {
    /// Its name, beside it.
    pub label: String,
    /// Where.
    pub at: (f64, f64),
}

/// What is known of the places between the points of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Between {
    /// Values go over into each other: contours are drawn.
    #[default]
    Slope,
    /// Nothing: every point is a cell by itself, without contours.
    Nothing,
}

/// How the two axes of a map go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aspect {
    /// Each fills its side.
    #[default]
    Free,
    /// One unit is as long on both: distances are true. Given up where the map would be a strip.
    Equal,
}

/// Where everything is.
struct Layout {
    x: Fitted,
    y: Fitted,
    /// Width and height of the plane, in pixels.
    plane: (f64, f64),
    /// Free pixels at the left and at the right.
    margins: (u32, u32),
}

impl Map {
    /// The scale of its colours, if anything was measured.
    pub(crate) fn scale(&self) -> Option<Scale> {
        let count = (self.columns.len() * self.rows.len()).min(self.values.len());
        Scale::of(&self.value, &self.values[..count])
    }

    /// Where each value stands on the scale.
    pub(crate) fn shares(&self, scale: &Scale) -> Vec<f64> {
        self.values.iter().map(|value| scale.share(*value).unwrap_or(f64::NAN)).collect()
    }

    /// The two axes, around everything.
    pub(crate) fn axes(&self) -> (Fitted, Fitted) {
        let points = || {
            let paths = self.paths.iter().flat_map(|path| path.points.iter().copied());
            paths.chain(self.spots.iter().map(|spot| spot.at))
        };
        let (right, up) = (points().map(|p| p.0), points().map(|p| p.1));
        (around(&self.x, &self.columns, right), around(&self.y, &self.rows, up))
    }

    fn sides(&self) -> (Side<'_>, Side<'_>) {
        let (x, y) = self.axes();
        (Side::Marked(&self.x.label, x), Side::Marked(&self.y.label, y))
    }

    fn layout(&self, width: u32) -> Layout {
        let (x, y) = self.axes();
        let beside = Side::Marked(&self.y.label, y.clone()).room_beside();
        let bar = self.scale().map_or(18, |scale| Bar::new(&scale).room());
        let room = f64::from(width.saturating_sub(4 + beside + bar)).max(LEAST);
        let length = |range: &Range<f64>| range.end - range.start;
        let plane = match self.aspect {
            Aspect::Free => (room, (f64::from(HEIGHT) - 90.0).min(room)),
            Aspect::Equal => {
                let ratio = (length(&y.range) / length(&x.range)).clamp(1e-3, 1e3);
                let height = (room * ratio).clamp(LEAST, HIGHEST);
                ((height / ratio).clamp(LEAST, room), height)
            }
        };
        // In whole pixels, and in the middle of what there is.
        let plane = (plane.0.round(), plane.1.round());
        let left = ((room - plane.0) / 2.0).floor() as u32;
        let right = width.saturating_sub(4 + left + beside + plane.0 as u32);
        Layout { x, y, plane, margins: (4 + left, right) }
    }

    /// A rectangle of its colour around each point of the grid; neighbours of one colour are one.
    fn draw_heat(&self, chart: &mut Chart2d<'_, '_>, layout: &Layout, shares: &[f64]) -> Drawn {
        let clipped = |edges: Vec<f64>, axis: &Fitted| -> Vec<f64> {
            let (low, high) = (axis.at(0.0), axis.at(1.0));
            edges.into_iter().map(|edge| edge.clamp(low, high)).collect()
        };
        let columns = clipped(edges(&self.columns, layout.x.logarithmic), &layout.x);
        let rows = clipped(edges(&self.rows, layout.y.logarithmic), &layout.y);
        let grid = Grid { columns: &self.columns, rows: &self.rows, values: shares };
        let step = |row: usize, column: usize| {
            let share = grid.value(row, column);
            (!share.is_nan()).then_some((share * COLOURS).round())
        };
        for row in 0..self.rows.len() {
            let mut column = 0;
            while column < self.columns.len() {
                let first = column;
                let here = step(row, first);
                while column < self.columns.len() && step(row, column) == here {
                    column += 1;
                }
                let Some(here) = here else { continue };
                let corners = [(columns[first], rows[row + 1]), (columns[column], rows[row])];
                let colour = colour(here / COLOURS).filled();
                chart.draw_series([Rectangle::new(corners, colour)])?;
            }
        }
        Ok(())
    }

    /// Ways, with a seam: they are seen on every colour.
    fn draw_paths(&self, area: &Area<'_>, chart: &mut Chart2d<'_, '_>, layout: &Layout) -> Drawn {
        for path in &self.paths {
            let shown = |(x, y): &&(f64, f64)| within(&layout.x, *x) && within(&layout.y, *y);
            let dotted = path.points.len() <= MOST_DOTS;
            for (tone, line, dot) in
                [(Tone::Paper, fine(4), fine(4)), (path.tone, fine(2), fine(5) / 2)]
            {
                for piece in pieces(&path.points, &layout.x, &layout.y) {
                    chart
                        .draw_series([PathElement::new(piece, tone.colour().stroke_width(line))])?;
                }
                let dots = path.points.iter().filter(shown).filter(|_| dotted);
                chart.draw_series(dots.map(|p| Circle::new(*p, dot, tone.colour().filled())))?;
            }
            let seen = pieces(&path.points, &layout.x, &layout.y);
            let on_picture = |point: &(f64, f64)| place(area, chart, *point);
            let steps = seen.iter().flat_map(|piece| piece.windows(2));
            let steps = steps.map(|step| (on_picture(&step[0]), on_picture(&step[1])));
            if let Some(tips) = arrow(steps) {
                for (tone, size) in [(Tone::Paper, 1.5), (path.tone, 1.0)] {
                    let corners = tips(size);
                    area.draw(&Polygon::new(corners.to_vec(), tone.colour().filled()))?;
                }
            }
        }
        Ok(())
    }
}

impl Drawing for Map {
    fn legend(&self) -> Legend {
        let sign = |path: &Series| (Sign::Line(path.tone), path.name.clone());
        Legend { entries: self.paths.iter().map(sign).collect() }
    }

    fn height(&self, width: u32) -> u32 {
        let (below, _) = self.sides();
        ABOVE + self.layout(width).plane.1 as u32 + below.room_below() + BELOW
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        let layout = self.layout(width(area));
        let (x, y) = self.sides();
        let mut chart = Frame { x, y, margins: layout.margins, grid: false }.chart(area)?;
        let corner = place(area, &chart, (layout.x.at(0.0), layout.y.at(1.0)));
        let pixels = |fine: i32| f64::from(fine) / f64::from(FINE);
        let from = (pixels(corner.0), pixels(corner.1));
        let plane = Patch { from, to: (from.0 + layout.plane.0, from.1 + layout.plane.1) };
        let scale = self.scale();
        if let Some(scale) = &scale {
            let shares = self.shares(scale);
            self.draw_heat(&mut chart, &layout, &shares)?;
            let on_picture = |point: (f64, f64)| {
                let (x, y) = place(area, &chart, point);
                (pixels(x), pixels(y))
            };
            let heights: Vec<f64> =
                self.values.iter().map(|value| scale.unbounded_share(*value)).collect();
            let grid = Grid { columns: &self.columns, rows: &self.rows, values: &heights };
            let lines = |share: f64| {
                let whole = match self.between {
                    Between::Slope => grid.contours(share),
                    Between::Nothing => Vec::new(),
                };
                let whole = whole.into_iter();
                let seen = whole.flat_map(|line| pieces(&line, &layout.x, &layout.y));
                seen.map(|line| line.into_iter().map(on_picture).collect()).collect()
            };
            let shown = |spot: &&Spot| within(&layout.x, spot.at.0) && within(&layout.y, spot.at.1);
            let spots: Vec<(&str, (f64, f64))> = self
                .spots
                .iter()
                .filter(shown)
                .map(|spot| (spot.label.as_str(), on_picture(spot.at)))
                .collect();
            let paths = self.paths.iter().flat_map(|path| path.points.iter());
            let dots = paths.copied().map(on_picture).collect();
            let relief = Relief::new(plane, scale, lines, spots, dots);
            relief.draw_contours(area)?;
            self.draw_paths(area, &mut chart, &layout)?;
            relief.draw_spots(area)?;
            Bar::new(scale).draw(area, plane, &self.value.label)
        } else {
            let (x, y) = plane.middle();
            let style = small(Tone::Faint).pos(Pos::new(HPos::Center, VPos::Center));
            area.draw(&Text::new("nothing measured yet", at(x, y), style))?;
            Ok(())
        }
    }

    fn csv(&self) -> String {
        let (x, y, value) = (cell(&self.x.label), cell(&self.y.label), cell(&self.value.label));
        let mut text = format!("series,{x},{y},{value}\n");
        let grid = Grid { columns: &self.columns, rows: &self.rows, values: &self.values };
        for (row, y) in self.rows.iter().enumerate() {
            for (column, x) in self.columns.iter().enumerate() {
                let value = grid.value(row, column);
                let _ = writeln!(text, "grid,{x},{y},{}", number(value));
            }
        }
        for Spot { label, at: (x, y) } in &self.spots {
            let _ = writeln!(text, "{},{x},{y},", cell(label));
        }
        for path in &self.paths {
            for (x, y) in &path.points {
                let _ = writeln!(text, "{},{x},{y},", cell(&path.name));
            }
        }
        text
    }
}

/// In the middle of the longest step, which way a way goes: the corners of an arrow by its size.
/// Nothing, where no step is long enough for one.
#[allow(clippy::type_complexity)] // a place
fn arrow(
    steps: impl Iterator<Item = ((i32, i32), (i32, i32))>,
) -> Option<impl Fn(f64) -> [(i32, i32); 3]> {
    let steps = steps.map(|(from, to)| {
        let (right, down) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        (right.hypot(down), (right, down), from)
    });
    let (long, (right, down), from) = steps.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let unit = ARROW * f64::from(FINE);
    (long >= 2.0 * unit).then_some(move |size: f64| {
        let middle = (f64::from(from.0) + right / 2.0, f64::from(from.1) + down / 2.0);
        let (right, down) = (size * unit * right / long, size * unit * down / long);
        let corner = |along: f64, aside: f64| {
            let x = middle.0 + along * right - aside * down;
            (x.round() as i32, (middle.1 + along * down + aside * right).round() as i32)
        };
        [corner(0.6, 0.0), corner(-0.4, 0.5), corner(-0.4, -0.5)]
    })
}

/// An axis that holds a grid with its rectangles, and points, with a little room for those.
fn around(axis: &Axis, grid: &[f64], points: impl Iterator<Item = f64>) -> Fitted {
    let shown = |number: &f64| number.is_finite() && (!axis.logarithmic || *number > 0.0);
    let edges = edges(grid, axis.logarithmic).into_iter().filter(shown);
    let span = |(low, high): (f64, f64), number: f64| (low.min(number), high.max(number));
    let nothing = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = edges.fold(nothing, span);
    let (least, greatest) = points.filter(shown).fold(nothing, span);
    let range = if low < high && low <= least && greatest <= high {
        Some(low..high)
    } else {
        None // what the axis makes of all of them
    };
    let all = [low, high, least, greatest].into_iter();
    Axis { range: axis.range.clone().or(range), ..axis.clone() }.fitted(all)
}

/// Where the rectangles of a grid meet: halfway between its points.
fn edges(points: &[f64], logarithmic: bool) -> Vec<f64> {
    let scaled = |value: f64| if logarithmic { value.log10() } else { value };
    let plain = |value: f64| if logarithmic { 10f64.powf(value) } else { value };
    let points: Vec<f64> = points.iter().copied().map(scaled).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let half = |at: usize| points.get(at + 1).map_or(0.5, |next| (next - points[at]) / 2.0);
    let inner = points.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
    let ends = (first - half(0), last + half(points.len().saturating_sub(2)));
    std::iter::once(ends.0).chain(inner).chain([ends.1]).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Chart, Figure};
    use crate::frame::WIDTH;

    /// A map of a function over -1 to 1, with a spot in every corner and a path between two.
    fn map(count: usize, value: impl Fn(f64, f64) -> f64) -> Map {
        let step = |i: usize| -1.0 + 2.0 * i as f64 / (count.max(2) - 1) as f64;
        let columns: Vec<f64> = (0..count).map(step).collect();
        let each = |y: &f64| columns.iter().map(|x| value(*x, *y)).collect::<Vec<f64>>();
        let values = columns.iter().flat_map(each).collect();
        let corners = [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)];
        let spots = corners.map(|at| Spot { label: "a <corner>".into(), at }).to_vec();
        let paths =
            vec![Series { name: "way".into(), tone: Tone::Series(1), points: corners.to_vec() }];
        Map { rows: columns.clone(), columns, values, spots, paths, ..Map::default() }
    }

    fn drawn(map: Map) -> String {
        let name = || "map".to_owned();
        let figure =
            Figure { name: name(), title: name(), caption: name(), chart: Chart::Map(map) };
        figure.to_svg().unwrap()
    }

    fn well_formed(svg: &str) -> bool {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
            match (tag.strip_prefix('/'), tag.ends_with('/')) {
                (Some(name), _) if open.pop() != Some(name) => return false,
                (None, false) => open.push(tag.split(' ').next().unwrap_or(tag)),
                _ => {}
            }
        }
        open.is_empty() && !svg.contains("NaN") && !svg.contains("inf")
    }

    #[test]
    fn a_bowl_has_colours_contours_spots_and_a_bar() {
        let svg = drawn(map(21, |x, y| x * x + y * y));
        assert!(well_formed(&svg), "{svg}");
        assert!(svg.contains("fill=\"#440154\"") && svg.contains("fill=\"#fde725\""));
        assert_eq!(svg.matches("a &lt;corner&gt;").count(), 4);
        assert!(svg.contains("stroke=\"#fcfcfc\"") && svg.contains("stroke=\"#121212\""));
        assert!(!svg.contains('≥'));
    }

    #[test]
    fn cells_by_themselves_have_no_contours() {
        let bowl = Map { spots: Vec::new(), paths: Vec::new(), ..map(21, |x, y| x * x + y * y) };
        let lines = |svg: &str| svg.matches("<polyline").count() + svg.matches("<path").count();
        let cells = drawn(Map { between: Between::Nothing, ..bowl.clone() });
        let slope = drawn(bowl);
        assert!(lines(&cells) < lines(&slope), "{} and {}", lines(&cells), lines(&slope));
    }

    #[test]
    fn degenerate_maps_can_be_drawn() {
        let empty = Map::default;
        let log = |map: Map| Map { value: Axis::measuring("loss").logarithmic(), ..map };
        let alone = |count, value: f64| Map {
            spots: Vec::new(),
            paths: Vec::new(),
            ..map(count, move |_, _| value)
        };
        let maps = [
            empty(),
            map(0, |_, _| 1.0),
            map(1, |_, _| 3.0),
            map(2, |_, _| f64::NAN),
            alone(1, 0.0),
            alone(5, 7.0),
            alone(5, f64::INFINITY),
            map(5, |_, _| -1.0),
            map(5, |x, _| x),
            map(5, |x, y| 1e308 * x * y),
            Map { values: vec![1.0, 2.0], ..map(5, |x, _| x) },
        ];
        for map in maps {
            for aspect in [Aspect::Free, Aspect::Equal] {
                for map in [map.clone(), log(map.clone())] {
                    let svg = drawn(Map { aspect, ..map.clone() });
                    assert!(well_formed(&svg), "{map:?} {svg}");
                }
            }
        }
    }

    #[test]
    fn what_explodes_is_told_of() {
        let svg = drawn(map(21, |x, y| if x.hypot(y) > 1.2 { 1e3 } else { x * x + y * y }));
        assert!(svg.contains("≥ 1.4"), "{svg}");
        let axis = Axis::measuring("loss").logarithmic();
        let svg = drawn(Map { value: axis, ..map(21, |x, y| (x * x + y * y) * 10.0) });
        assert!(svg.contains('≤'), "the loss in the middle is 0");
    }

    #[test]
    fn distances_are_true_if_they_should_be() {
        let mut map = Map { aspect: Aspect::Equal, ..map(21, |x, y| x * y) };
        map.columns.iter_mut().for_each(|x| *x *= 3.0);
        let layout = map.layout(WIDTH);
        let scale = |axis: &Fitted, pixels: f64| pixels / (axis.range.end - axis.range.start);
        let (x, y) = (scale(&layout.x, layout.plane.0), scale(&layout.y, layout.plane.1));
        assert!((x / y - 1.0).abs() < 0.02, "{x} {y}");
    }

    #[test]
    fn rectangles_meet_halfway() {
        assert_eq!(edges(&[0.0, 1.0, 3.0], false), [-0.5, 0.5, 2.0, 4.0]);
        assert_eq!(edges(&[5.0], false), [4.5, 5.5]);
        assert!(edges(&[], false).is_empty());
    }

    #[test]
    fn the_data_is_the_grid_then_spots_and_paths() {
        let map = Map {
            x: Axis::measuring("x"),
            y: Axis::measuring("y, m"),
            value: Axis::measuring("loss"),
            columns: vec![0.0, 1.0],
            rows: vec![5.0],
            values: vec![0.5, f64::NAN],
            spots: vec![Spot { label: "best".into(), at: (0.0, 5.0) }],
            paths: vec![Series { name: "run".into(), tone: Tone::Ink, points: vec![(1.0, 5.0)] }],
            ..Map::default()
        };
        let expected = "series,x,\"y, m\",loss\ngrid,0,5,0.5\ngrid,1,5,\nbest,0,5,\nrun,1,5,\n";
        assert_eq!(map.csv(), expected);
    }

    #[test]
    fn an_arrow_points_the_way_and_needs_room() {
        let fine = |pixels: i32| pixels * FINE;
        let steps = [((0, 0), (fine(3), 0)), ((fine(3), 0), (fine(3), fine(100)))];
        let [tip, left, right] = arrow(steps.into_iter()).unwrap()(1.0);
        // Down, in the middle of the longer step.
        assert!(tip.1 > left.1 && left.1 == right.1 && tip.0 == fine(3));
        assert!(tip.1 > fine(50) && left.1 < fine(50));
        assert!(arrow(steps[..1].iter().copied()).is_none());
        assert!(arrow(std::iter::empty()).is_none());
    }
}
