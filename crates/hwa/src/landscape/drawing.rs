//! A landscape as figures, tables, files and a page.

use hwa_report::{
    Aspect, Axis, Chart, DataFile, Figure, Lines, Map, Mark, Part, Series, Sheet, Spot, Tone,
};
use hwa_study::{Place, Reading};
use hwa_train::Tally;

use super::measuring::Landscape;
use super::view::{alike, short};

/// What is measured at a point.
#[derive(Clone, Copy)]
struct Measure {
    name: &'static str,
    label: &'static str,
    of: fn(&Tally) -> f64,
    axis: fn(&str) -> Axis,
}

const LOSS: Measure = Measure {
    name: "loss",
    label: "cross entropy",
    of: |t| t.loss / t.images as f64,
    axis: Axis::measuring,
};
const ACCURACY: Measure = Measure {
    name: "accuracy",
    label: "accuracy, %",
    of: |t| 100.0 * t.top1 as f64 / t.images as f64,
    axis: Axis::percent,
};

/// The page of a landscape, without its title.
pub(crate) fn sheet(landscape: &Landscape, title: &str) -> Sheet {
    let mut parts: Vec<Part> = Vec::new();
    let figures = match landscape.view.rows.is_empty() {
        true => lines(landscape),
        false => maps(landscape),
    };
    parts.extend(figures.into_iter().map(Part::Figure));
    if !landscape.marks.is_empty() {
        parts.push(Part::Heading("The marked weights".to_owned()));
        let (head, rows) = table(landscape);
        parts.push(Part::Table { head, rows });
        if landscape.view.marks.iter().any(|marked| !marked.inside) {
            parts.push(Part::Text(
                "Weights beside the plane are drawn where they are nearest to it. What is measured \
                 there is the projected loss; their own may be quite another."
                    .to_owned(),
            ));
        }
    }
    parts.push(Part::Files(data(landscape)));
    parts.extend(landscape.view.remarks.iter().map(|remark| Part::Text(capital(remark))));
    Sheet { title: title.to_owned(), lead: lead(landscape), parts }
}

fn lead(landscape: &Landscape) -> String {
    let images: Vec<String> = landscape
        .splits
        .iter()
        .zip(&landscape.images)
        .map(|(split, count)| format!("{count} {split} images"))
        .collect();
    format!(
        "{} points, on {}, with batch-norm statistics re-estimated at each.",
        landscape.points.len(),
        images.join(" and ")
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// What is known of the marked weights: heads and rows.
pub(crate) fn table(landscape: &Landscape) -> (Vec<String>, Vec<Vec<String>>) {
    let view = &landscape.view;
    let beside = view.marks.iter().any(|marked| !marked.inside);
    let mut head = vec!["weights".to_owned(), "at".to_owned()];
    if beside {
        head.push("distance from it".to_owned());
    }
    for split in &landscape.splits {
        head.push(format!("{split} loss"));
        if beside {
            head.push("projected".to_owned());
        }
        head.push(format!("{split} accuracy, %"));
        if beside {
            head.push("projected".to_owned());
        }
    }
    let readings = landscape.marks.iter().zip(&landscape.shadows);
    let places = view.marks.iter().flat_map(|marked| &marked.place.at);
    let far = places.map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
    let rows = view.marks.iter().zip(readings).map(|(marked, (own, shadow))| {
        let at = marked.place.at.iter();
        let at: Vec<String> = at
            .map(|x| alike(if view.frame.is_rounding(x.abs()) { 0.0 } else { *x }, far))
            .collect();
        let mut row = vec![marked.name.clone(), at.join(", ")];
        if beside {
            row.push(if marked.inside { "0".to_owned() } else { short(marked.place.residual) });
        }
        for (own, shadow) in own.splits.iter().zip(&shadow.splits) {
            for (measure, digits) in [(LOSS, 4), (ACCURACY, 2)] {
                row.push(format!("{:.digits$}", (measure.of)(own)));
                if beside {
                    row.push(format!("{:.digits$}", (measure.of)(shadow)));
                }
            }
        }
        row
    });
    (head, rows.collect())
}

/// What is known of marked weights and of ways, unrounded: `marks.csv`, `ways.csv`.
fn data(landscape: &Landscape) -> Vec<DataFile> {
    let axes = if landscape.view.rows.is_empty() { "x" } else { "x,y" };
    let mut marks = format!("weights,{axes},distance");
    for split in &landscape.splits {
        for measure in ["loss", "accuracy"] {
            marks.push_str(&format!(",{split} {measure},{split} {measure} projected"));
        }
    }
    marks.push('\n');
    let readings = landscape.marks.iter().zip(&landscape.shadows);
    for (marked, (own, shadow)) in landscape.view.marks.iter().zip(readings) {
        let mut row = place(&marked.name, &marked.place);
        for (own, shadow) in own.splits.iter().zip(&shadow.splits) {
            for measure in [LOSS, ACCURACY] {
                row.push_str(&format!(",{},{}", (measure.of)(own), (measure.of)(shadow)));
            }
        }
        marks.push_str(&row);
        marks.push('\n');
    }
    let mut ways = format!("way,{axes},distance\n");
    for way in &landscape.view.ways {
        for at in &way.places {
            ways.push_str(&place(&way.name, at));
            ways.push('\n');
        }
    }
    let files = [
        ("marks.csv", marks, landscape.marks.is_empty()),
        ("ways.csv", ways, landscape.view.ways.is_empty()),
    ];
    let full = files.into_iter().filter(|(_, _, empty)| !empty);
    full.map(|(name, text, _)| DataFile { name: name.to_owned(), text }).collect()
}

/// A name, where it is and how far beside the line or plane.
fn place(name: &str, place: &Place) -> String {
    let at: Vec<String> = place.at.iter().map(f64::to_string).collect();
    format!("\"{}\",{},{}", name.replace('"', "\"\""), at.join(","), place.residual)
}

fn series(landscape: &Landscape, split: usize, measure: Measure) -> Vec<f64> {
    let value = |reading: &Reading| reading.splits.get(split).map_or(f64::NAN, measure.of);
    landscape.points.iter().map(value).collect()
}

fn lines(landscape: &Landscape) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (index, split) in landscape.splits.iter().enumerate() {
        for measure in [LOSS, ACCURACY] {
            figures.push(line(landscape, (index, split), measure));
        }
    }
    figures
}

/// One split in a figure: beside each other the difference between two would press both flat.
fn line(landscape: &Landscape, (index, split): (usize, &str), measure: Measure) -> Figure {
    let view = &landscape.view;
    let values = series(landscape, index, measure);
    let points = view.columns.iter().copied().zip(values).collect();
    let curve = Series { name: split.to_owned(), tone: Tone::Series([5, 1, 0][index % 3]), points };
    let marks = view.marks.iter().zip(&landscape.marks).filter_map(|(marked, reading)| {
        let value = (measure.of)(reading.splits.get(index)?);
        let label = match measure.name == LOSS.name {
            true => format!("{}: {value:.4}", marked.name),
            false => format!("{}: {value:.2} %", marked.name),
        };
        Some(Mark { label, at: (*marked.place.at.first()?, value) })
    });
    let chart = Lines {
        x: Axis::measuring(&view.labels[0]),
        y: (measure.axis)(measure.label),
        series: vec![curve],
        marks: marks.collect(),
        ..Lines::default()
    };
    Figure {
        name: format!("{split}-{}", measure.name),
        title: format!("{} on {split} images", capital(measure.name).trim_end_matches('.')),
        caption: "Between 0 and 1 lie the mixtures of the two; rings mark the weights themselves."
            .to_owned(),
        chart: Chart::Lines(chart),
    }
}

fn maps(landscape: &Landscape) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (index, split) in landscape.splits.iter().enumerate() {
        for measure in [LOSS, ACCURACY] {
            figures.push(map(landscape, (index, split), measure));
        }
    }
    figures
}

fn map(landscape: &Landscape, (index, split): (usize, &str), measure: Measure) -> Figure {
    let view = &landscape.view;
    let at = |place: &Place| {
        Some((*place.at.first()?, *place.at.get(1)?))
            .filter(|(x, y)| x.is_finite() && y.is_finite())
    };
    let spots = view
        .marks
        .iter()
        .filter_map(|marked| Some(Spot { label: marked.name.clone(), at: at(&marked.place)? }));
    let paths = view.ways.iter().enumerate().map(|(number, way)| Series {
        name: way.name.clone(),
        tone: Tone::Series([1, 5, 0, 3][number % 4]),
        points: way.places.iter().filter_map(at).collect(),
    });
    let value = Axis::measuring(&format!("{split} {}", measure.label));
    let value = if measure.name == LOSS.name { value.logarithmic() } else { value };
    let chart = Map {
        x: Axis::measuring(&view.labels[0]),
        y: Axis::measuring(&view.labels[1]),
        value,
        columns: view.columns.clone(),
        rows: view.rows.clone(),
        values: series(landscape, index, measure),
        spots: spots.collect(),
        paths: paths.collect(),
        aspect: if view.lengths { Aspect::Equal } else { Aspect::default() },
        ..Map::default()
    };
    Figure {
        name: format!("{split}-{}", measure.name),
        title: format!("{} on {split} images", capital(measure.name).trim_end_matches('.')),
        caption: format!("{}, at {} x {} points.", view.title, view.columns.len(), view.rows.len()),
        chart: Chart::Map(chart),
    }
}
