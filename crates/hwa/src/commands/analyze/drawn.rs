//! What was found, as figures and files.

use std::path::PathBuf;

use hwa_report::{Axis, Chart, Figure, Lines, PageOptions, Part, Series, Sheet, Tone};
use hwa_store::write_atomically;
use hwa_study::Gradients;

use super::cycles::Place;
use super::{Found, shown};
use crate::failure::Failure;

/// The places of a cycle, each with a colour and its neighbour.
const PLACES: [(&str, usize, usize); 3] = [("start", 5, 2), ("end", 1, 4), ("average", 0, 3)];

/// Writes tables and figures, and tells which files.
pub(crate) fn write(found: &Found) -> Result<Vec<PathBuf>, Failure> {
    let mut files = vec![
        ("condition.csv".to_owned(), shown::condition_csv(found)),
        ("angles.csv".to_owned(), shown::angles_csv(found)),
    ];
    let page = sheet(found).page(PageOptions { files: true, ..PageOptions::default() });
    let page = page.map_err(|error| Failure::Run(error.into()))?;
    for figure in &page.figures {
        let svg = figure.to_svg().map_err(|error| Failure::Run(error.into()))?;
        files.push((format!("{}.svg", figure.name), svg));
        files.push((format!("{}.csv", figure.name), figure.to_csv()));
    }
    files.push(("index.html".to_owned(), page.html));
    let mut paths = Vec::new();
    for (name, text) in files {
        let path = found.folder.join(name);
        write_atomically(&path, |file| file.write_all(text.as_bytes()))?;
        paths.push(path);
    }
    Ok(paths)
}

fn sheet(found: &Found) -> Sheet {
    let mut parts = parts(found);
    parts.push(Part::Heading("Distances and angles".to_owned()));
    parts.push(table(shown::pairs(found, shown::short)));
    Sheet {
        title: "The convergence condition".to_owned(),
        lead: "A step of SGD is expected to lower the training loss while the left side is below \
               the right one."
            .to_owned(),
        parts,
    }
}

/// The figures and the table of the condition.
pub(crate) fn parts(found: &Found) -> Vec<Part> {
    let figures = [sides(found), ratio(found), risks(found)].map(Part::Figure);
    let mut parts = Vec::from(figures);
    parts.push(table(shown::conditions(found)));
    parts
}

/// The first row is the head.
fn table(mut rows: Vec<Vec<String>>) -> Part {
    let head = if rows.is_empty() { Vec::new() } else { rows.remove(0) };
    Part::Table { head, rows }
}

/// Both sides of the condition.
fn sides(found: &Found) -> Figure {
    let side = |name: &str, word: &str, tone, of: &dyn Fn(&Place, &Gradients) -> f64| Series {
        name: format!("{name}, {}", place_name(word)),
        tone: Tone::Series(tone),
        points: by_cycle(found, word, of),
    };
    let left = |place: &Place, gradients: &Gradients| gradients.condition(place.rate).left;
    let right = |place: &Place, gradients: &Gradients| gradients.condition(place.rate).right;
    let series = PLACES.iter().flat_map(|(word, dark, light)| {
        [side("left", word, *dark, &left), side("right", word, *light, &right)]
    });
    lines(
        "sides",
        "Both sides of the convergence condition",
        "Left is (L/2) times the noise of a mini-batch, right is (1/rate - L/2) times the squared \
         norm of the full gradient. Where left is above right, a step of SGD is expected to raise \
         the training loss. A right side below zero is not drawn.",
        Axis::measuring("side").logarithmic(),
        series.collect(),
    )
}

/// How far the left side is above the right one.
fn ratio(found: &Found) -> Figure {
    let plain = |place: &Place, gradients: &Gradients| {
        let condition = gradients.condition(place.rate);
        condition.left / condition.right
    };
    let lasting = |place: &Place, gradients: &Gradients| {
        let condition = gradients.condition(found.lasting(place.rate));
        condition.left / condition.right
    };
    let series = PLACES.iter().flat_map(|(word, dark, light)| {
        let one = |name: String, tone, of: &dyn Fn(&Place, &Gradients) -> f64| Series {
            name,
            tone: Tone::Series(tone),
            points: by_cycle(found, word, of),
        };
        let name = place_name(word);
        let momentum = format!("{name}, with momentum");
        [one(name.to_owned(), *dark, &plain), one(momentum, *light, &lasting)]
    });
    lines(
        "ratio",
        "The left side over the right side",
        "Above 1 the condition does not hold: a step is expected to raise the training loss. With \
         momentum, the rate is rate / (1 - momentum), what a gradient moves the weights by in the \
         end. Where the right side is not above zero, nothing is drawn.",
        Axis::measuring("left / right").logarithmic(),
        series.collect(),
    )
}

/// The training loss where a cycle starts, where its models end and of their average.
fn risks(found: &Found) -> Figure {
    let series = PLACES.map(|(word, tone, _)| Series {
        name: place_name(word).to_owned(),
        tone: Tone::Series(tone),
        points: by_cycle(found, word, &|_, gradients| gradients.risk),
    });
    lines(
        "risks",
        "Training loss within cycles",
        "The risk R on training images where a cycle starts, of its models at its end (their \
         mean), and of their average.",
        Axis::measuring("cross entropy").logarithmic(),
        series.into(),
    )
}

fn lines(name: &str, title: &str, caption: &str, y: Axis, mut series: Vec<Series>) -> Figure {
    series.retain(|series| !series.points.is_empty());
    Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        chart: Chart::Lines(Lines { x: Axis::counting("cycle"), y, series, marks: Vec::new() }),
    }
}

fn place_name(word: &str) -> &'static str {
    match word {
        "start" => "start of the cycle",
        "end" => "models at its end",
        _ => "their average",
    }
}

/// A value by cycle at some place; the mean over models where there are several.
fn by_cycle(found: &Found, word: &str, of: &dyn Fn(&Place, &Gradients) -> f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(usize, Vec<f64>)> = Vec::new();
    for (place, gradients) in found.points.iter().filter(|(p, _)| p.position.word() == word) {
        match points.last_mut().filter(|(cycle, _)| *cycle == place.cycle) {
            Some((_, values)) => values.push(of(place, gradients)),
            None => points.push((place.cycle, vec![of(place, gradients)])),
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    points.iter().map(|(cycle, values)| (*cycle as f64, mean(values))).collect()
}
