//! What figures look like, pinned: a change of a picture is a change that somebody has seen.
//!
//! After a change on purpose, look at the pictures, then: `INSTA_UPDATE=always cargo test
//! --workspace --test pinned`.
#![allow(clippy::unwrap_used)] // it is a test

use hwa_report::{
    Aspect, Axis, Bars, Between, Boxes, Chart, ErrorBar, Figure, Lines, Map, Mark, Series, Spot,
    Tone,
};

fn figure(name: &str, chart: Chart) -> String {
    let figure = Figure {
        name: name.to_owned(),
        title: format!("A figure of {name} & more"),
        caption: String::new(),
        chart,
    };
    figure.to_svg().unwrap()
}

fn series(name: &str, tone: usize, points: &[(f64, f64)]) -> Series {
    Series { name: name.to_owned(), tone: Tone::Series(tone), points: points.to_vec() }
}

#[test]
fn lines_with_a_gap_and_a_mark() {
    let lines = Lines {
        x: Axis::counting("cycle"),
        y: Axis::measuring("loss").logarithmic(),
        series: vec![
            series("outer", 1, &[(1.0, 2.0), (2.0, 1.0), (3.0, f64::NAN), (4.0, 0.5), (5.0, 0.4)]),
            series("HWA", 0, &[(1.0, 2.0), (2.0, 0.8), (3.0, 0.5), (4.0, 0.4), (5.0, 0.35)]),
        ],
        marks: vec![Mark { label: "chosen: cycle 5".to_owned(), at: (5.0, 0.35) }],
        errors: vec![ErrorBar { tone: Tone::Series(0), at: 4.0, from: 0.3, to: 0.6 }],
    };
    insta::assert_snapshot!(figure("lines", Chart::Lines(lines)));
}

#[test]
fn boxes_over_seeds() {
    let groups = vec![
        ("I = 20".to_owned(), vec![70.1, 70.9, 70.4, 70.6, 71.2]),
        ("I = 50".to_owned(), vec![70.3, 70.2]),
        ("none".to_owned(), Vec::new()),
    ];
    let boxes = Boxes { y: Axis::measuring("test accuracy, %"), groups };
    insta::assert_snapshot!(figure("boxes", Chart::Boxes(boxes)));
}

#[test]
fn bars_of_shares() {
    let bars = Bars {
        x: Axis::measuring("minutes"),
        parts: ["steps", "waiting"].map(str::to_owned).to_vec(),
        bars: vec![("hwa".to_owned(), vec![5.0, 0.5]), ("sgd".to_owned(), vec![4.0, 0.25])],
    };
    insta::assert_snapshot!(figure("bars", Chart::Bars(bars)));
}

#[test]
fn a_map_with_contours_a_spot_and_a_way() {
    let grid: Vec<f64> = (-3..=3).map(f64::from).collect();
    let values = grid.iter().flat_map(|y| grid.iter().map(move |x| 0.1 + x * x + 2.0 * y * y));
    let map = Map {
        x: Axis::measuring("first direction"),
        y: Axis::measuring("second direction"),
        value: Axis::measuring("loss").logarithmic(),
        values: values.collect(),
        columns: grid.clone(),
        rows: grid,
        spots: vec![Spot { label: "outer:3".to_owned(), at: (0.0, 0.0) }],
        paths: vec![series("the run", 1, &[(-2.0, 2.0), (-1.0, 0.5), (0.0, 0.0)])],
        aspect: Aspect::Equal,
        between: Between::Slope,
    };
    insta::assert_snapshot!(figure("a map", Chart::Map(map)));
}
