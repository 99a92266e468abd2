//! A map as a surface that can be turned, on pages.
//!
//! The page has the data of the surface and a script that draws it. Everything is placed here, in
//! a box of -1 to 1 with heights of 0 to 1, so that colours, clipping and powers of ten are those
//! of the map; the script turns it and draws.

use serde::Serialize;

use crate::axis::Fitted;
use crate::chart::{Chart, Figure};
use crate::contour::Grid;
use crate::lines::{MOST_DOTS, Series};
use crate::map::{Aspect, Map};
use crate::scale::{Scale, colour};
use crate::svg::escaped;

/// What draws and turns every surface of a page.
pub(crate) const SCRIPT: &str = include_str!("surface.js");
/// What a page with a surface has in it.
pub(crate) const MARK: &str = "class=\"surface\"";

/// So many colours are told apart.
const COLOURS: usize = 64;
/// A way follows the surface in steps of this length.
const STEP: f64 = 0.04;

/// A surface as the script reads it.
#[derive(Serialize)]
struct Surface<'a> {
    colours: Vec<String>,
    columns: Vec<f64>,
    rows: Vec<f64>,
    /// Row by row; nothing where nothing was measured.
    heights: Vec<Option<f64>>,
    axes: [Words; 3],
    spots: Vec<Pin<'a>>,
    paths: Vec<Way>,
}

/// What stands beside an edge of the box: along it and at its ends.
#[derive(Serialize)]
struct Words {
    label: String,
    ends: [String; 2],
    /// Half the length of the edge.
    half: f64,
}

#[derive(Serialize)]
struct Pin<'a> {
    label: &'a str,
    at: [f64; 3],
}

#[derive(Serialize)]
struct Way {
    /// The name of its colour.
    tone: String,
    /// In pieces that lie on the surface.
    lines: Vec<Vec<[f64; 3]>>,
    dots: Vec<[f64; 3]>,
}

/// The surface below a figure, if it is a map that has one.
pub(crate) fn markup(figure: &Figure) -> String {
    let Chart::Map(map) = &figure.chart else { return String::new() };
    let Some(data) = data(map) else { return String::new() };
    let name = escaped(&figure.name);
    let label = escaped(&format!("{}, as a surface", figure.title));
    // Shown by the script: without it there is the map.
    format!(
        "<div {MARK} hidden><canvas id=\"{name}-surface\" role=\"img\" tabindex=\"0\" \
         aria-label=\"{label}; arrow keys turn it\"></canvas>\
         <p>Drag or use the arrow keys to turn it.</p>\
         <script type=\"application/json\">{data}</script></div>"
    )
}

/// The data as JSON that can stand in a page.
fn data(map: &Map) -> Option<String> {
    if map.columns.len() < 2 || map.rows.len() < 2 {
        return None;
    }
    let scale = map.scale()?;
    let text = serde_json::to_string(&surface(map, &scale)).ok()?;
    Some(text.replace('<', "\\u003c"))
}

fn surface<'a>(map: &'a Map, scale: &Scale) -> Surface<'a> {
    let (x, y) = map.axes();
    let shares = map.shares(scale);
    let grid = Grid { columns: &map.columns, rows: &map.rows, values: &shares };
    let length = |axis: &Fitted| axis.range.end - axis.range.start;
    let half = match map.aspect {
        Aspect::Free => (1.0, 1.0),
        Aspect::Equal => {
            let longest = length(&x).max(length(&y));
            ((length(&x) / longest).max(0.2), (length(&y) / longest).max(0.2))
        }
    };
    let right = |value: f64| short(half.0 * (2.0 * x.share(value) - 1.0));
    let back = |value: f64| short(half.1 * (2.0 * y.share(value) - 1.0));
    let on = |point: (f64, f64)| Some([right(point.0), back(point.1), short(grid.between(point)?)]);
    let heights = (0..map.rows.len())
        .flat_map(|row| (0..map.columns.len()).map(move |column| (row, column)))
        .map(|(row, column)| Some(grid.value(row, column)).filter(|v| !v.is_nan()).map(short))
        .collect();
    // Where points end: the axes of the map go on to the borders of its cells.
    let ends = |axis: &Fitted, points: &[f64]| {
        let end = |point: Option<&f64>| point.map_or_else(String::new, |at| axis.written(*at));
        [end(points.first()), end(points.last())]
    };
    let height = match map.value.logarithmic {
        true => format!("{} (powers of ten)", map.value.label),
        false => map.value.label.clone(),
    };
    let beyond = |sign: &str, beyond: bool, share: f64| {
        let value = scale.written(scale.at(share));
        if beyond { format!("{sign} {value}") } else { value }
    };
    let heights_ends = [beyond("≤", scale.below, 0.0), beyond("≥", scale.above, 1.0)];
    Surface {
        colours: (0..COLOURS).map(|step| hex(step as f64 / (COLOURS - 1) as f64)).collect(),
        columns: map.columns.iter().copied().map(right).collect(),
        rows: map.rows.iter().copied().map(back).collect(),
        heights,
        axes: [
            Words { label: map.x.label.clone(), ends: ends(&x, &map.columns), half: half.0 },
            Words { label: map.y.label.clone(), ends: ends(&y, &map.rows), half: half.1 },
            Words { label: height, ends: heights_ends, half: 0.5 },
        ],
        spots: map
            .spots
            .iter()
            .filter_map(|spot| Some(Pin { label: &spot.label, at: on(spot.at)? }))
            .collect(),
        paths: map.paths.iter().map(|path| way(path, &on, (length(&x), length(&y)))).collect(),
    }
}

/// A way over the surface; what is not on it is left out.
fn way(
    path: &Series,
    on: &dyn Fn((f64, f64)) -> Option<[f64; 3]>,
    (width, depth): (f64, f64),
) -> Way {
    let mut lines: Vec<Vec<[f64; 3]>> = vec![Vec::new()];
    let mut add = |point: (f64, f64)| match (on(point), lines.last_mut()) {
        (Some(place), Some(line)) => line.push(place),
        (None, Some(line)) if !line.is_empty() => lines.push(Vec::new()),
        _ => {}
    };
    if let Some(first) = path.points.first() {
        add(*first);
    }
    for step in path.points.windows(2) {
        let ((x, y), to) = (step[0], step[1]);
        let far = ((to.0 - x) / width).hypot((to.1 - y) / depth);
        let count = (2.0 * far / STEP).ceil().clamp(1.0, 100.0) as u32;
        for part in 1..=count {
            let share = f64::from(part) / f64::from(count);
            add((x + share * (to.0 - x), y + share * (to.1 - y)));
        }
    }
    lines.retain(|line| line.len() > 1);
    let dotted = path.points.len() <= MOST_DOTS;
    let dots = path.points.iter().filter(|_| dotted).filter_map(|point| on(*point)).collect();
    Way { tone: path.tone.class(), lines, dots }
}

/// With as many digits as a screen has.
fn short(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

fn hex(share: f64) -> String {
    let plotters::style::RGBColor(r, g, b) = colour(share);
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spot;
    use crate::svg::Tone;

    fn map() -> Map {
        Map {
            columns: vec![0.0, 1.0],
            rows: vec![0.0, 1.0, 2.0],
            values: vec![0.0, 1.0, 1.0, 2.0, f64::NAN, 2.0],
            spots: vec![
                Spot { label: "in".into(), at: (0.5, 0.5) },
                Spot { label: "out".into(), at: (9.0, 9.0) },
            ],
            paths: vec![Series {
                name: "way".into(),
                tone: Tone::Series(2),
                points: vec![(0.0, 0.0), (1.0, 1.0), (1.0, f64::NAN)],
            }],
            ..Map::default()
        }
    }

    #[test]
    fn the_data_is_that_of_the_map() {
        let data: serde_json::Value = serde_json::from_str(&data(&map()).unwrap()).unwrap();
        let expected = serde_json::json!([0.0, 0.5, 0.5, 1.0, null, 1.0]);
        assert_eq!(data["heights"], expected);
        assert_eq!(data["spots"].as_array().unwrap().len(), 1, "what is not on it has no height");
        // Halfway between 0, 1, 1 and 2.
        assert_eq!(data["spots"][0]["at"][2], 0.5);
        let line = data["paths"][0]["lines"][0].as_array().unwrap();
        assert!(line.len() > 5, "in steps over the surface");
        assert_eq!(data["paths"][0]["tone"], "s2");
        assert_eq!(data["axes"][0]["ends"], serde_json::json!(["0", "1"]), "not those of cells");
        let powers = Map { value: crate::Axis::measuring("loss").logarithmic(), ..map() };
        let words = surface(&powers, &powers.scale().unwrap()).axes[2].label.clone();
        assert_eq!(words, "loss (powers of ten)");
    }

    #[test]
    fn what_is_no_surface_has_none() {
        for map in
            [Map::default(), Map { rows: vec![0.0], ..map() }, Map { values: vec![], ..map() }]
        {
            assert_eq!(data(&map), None);
        }
    }
}
