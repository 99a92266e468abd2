//! `hwa analyze` on a run of a second.
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod command;

use std::fs;
use std::path::Path;
use std::process::Output;
#[cfg(unix)]
use std::process::Stdio;

use command::{failed, hwa, json, succeeded, text};
#[cfg(unix)]
use command::{signal, wait_until};
use serde_json::Value;

/// 4 cycles of 8 steps on 160 digits.
const SHORT: [&str; 5] = [
    "data.train_examples=160",
    "optimizer.batch=20",
    "schedule.epochs=4",
    "hwa.window_length=2",
    "evaluate.every=4",
];

fn train(run: &Path, sets: &[&str]) {
    command::train(run, &[&SHORT, sets].concat());
}

fn analyze(run: &Path, arguments: &[&str]) -> Output {
    hwa(&["analyze", "--run"]).arg(run).args(arguments).output().unwrap()
}

/// Unclear within two standard errors.
fn holds(left: f64, right: f64, error: f64) -> &'static str {
    match (right - left).abs() >= 2.0 * error {
        true if left <= right => "yes",
        true => "no",
        false => "unclear",
    }
}

fn number(point: &Value, key: &str) -> f64 {
    point[key].as_f64().unwrap_or_else(|| panic!("{key} of {point}"))
}

#[test]
fn both_sides_at_the_start_and_the_end_of_cycles() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &["checkpoints.inner_cycles=[2, 3]"]);
    let first = json(&analyze(&run, &["--json"]));
    let points = first["points"].as_array().unwrap();
    let names: Vec<&str> = points.iter().map(|point| point["weights"].as_str().unwrap()).collect();
    let expected = [
        "outer:1",
        "inner:2:0",
        "inner:2:1",
        "outer:2",
        "outer:2",
        "inner:3:0",
        "inner:3:1",
        "outer:3",
    ];
    assert_eq!(names, expected);
    for point in points {
        let [rate, risk, square, noise, l] =
            ["rate", "risk", "squared_norm", "noise", "lipschitz"].map(|key| number(point, key));
        assert!(rate > 0.0 && risk > 0.0 && square > 0.0 && noise > 0.0 && l > 0.0, "{point}");
        let (left, right) = (number(point, "left"), number(point, "right"));
        assert!((left - l / 2.0 * noise).abs() <= 1e-9 * left.abs(), "{point}");
        assert!((right - (1.0 / rate - l / 2.0) * square).abs() <= 1e-9 * right.abs(), "{point}");
        // All images: of norm and noise nothing is left open, of L what steps differ by.
        for error in ["squared_norm_error", "noise_error"] {
            assert_eq!(number(point, error), 0.0, "{point}");
        }
        let error = number(point, "difference_error");
        let of_steps = (noise + square) / 2.0 * number(point, "lipschitz_error");
        assert!(of_steps > 0.0 && (error - of_steps).abs() <= 1e-9 * of_steps, "{point}");
        assert_eq!(point["holds"], holds(left, right, error), "{point}");
        // Along a step a gradient changes by no more than it does in all.
        assert!(number(point, "curvature").abs() <= l && number(point, "curvature_error") > 0.0);
        // Momentum 0.9: ten times the rate.
        let lasting = &point["with_momentum"];
        assert!((number(lasting, "rate") / rate - 10.0).abs() < 1e-9);
        assert!(number(lasting, "right") < right);
        assert_eq!((&point["images"], &point["batch"]), (&160.into(), &20.into()));
    }
    // The average of cycle 2 is the start of cycle 3: the same weights, measured once.
    for key in ["risk", "rate", "left", "right"] {
        assert_eq!(points[3][key], points[4][key]);
    }
    let kept = run.join("analysis/gradients.jsonl");
    assert_eq!(fs::read_to_string(&kept).unwrap().lines().count(), 1 + 7, "a head, and points");

    // Two models and their average: a triangle, with the average in the middle.
    let angles = &first["angles"][0];
    assert_eq!(
        angles["weights"],
        serde_json::json!(["inner:2:0", "inner:2:1", "outer:2", "hwa:2"])
    );
    let apart = |i: usize, j: usize| angles["distances"][i][j].as_f64().unwrap();
    assert!((apart(0, 2) - apart(0, 1) / 2.0).abs() < 1e-3 * apart(0, 1), "{angles}");
    assert!(angles["cosines"][0][2].as_f64().unwrap() > 0.0, "{angles}");

    for file in ["condition.csv", "angles.csv", "sides.csv", "ratio.csv", "risks.csv"] {
        let csv = fs::read_to_string(run.join("analysis").join(file)).unwrap();
        let columns = csv.lines().next().unwrap().split(',').count();
        assert!(csv.lines().count() > 3, "{file}: {csv}");
        assert!(csv.lines().all(|line| line.split(',').count() >= columns), "{file}: {csv}");
    }
    for file in ["sides.svg", "ratio.svg", "risks.svg"] {
        assert!(fs::read_to_string(run.join("analysis").join(file)).unwrap().contains("<svg"));
    }

    // What is known is not measured again, and a torn line is.
    let again = analyze(&run, &["--json", "--threads", "1"]);
    assert!(!text(&again.stderr).contains("measured"), "{}", text(&again.stderr));
    assert_eq!(json(&again), first);
    let lines = fs::read_to_string(&kept).unwrap();
    fs::write(&kept, &lines[..lines.len() - 20]).unwrap();
    let again = analyze(&run, &["--json", "--threads", "1"]);
    assert!(text(&again.stderr).contains("measured outer:3, 1 of 1"), "{}", text(&again.stderr));
    assert_eq!(json(&again), first, "threads change nothing");
    // A file of something else is left alone.
    let strange = format!("{lines}{{\"point\":1}}\n");
    fs::write(&kept, &strange).unwrap();
    failed(&analyze(&run, &[]), 1, "gradients.jsonl, line 9: expected a line as this command");
    assert_eq!(fs::read_to_string(&kept).unwrap(), strange);
    fs::write(&kept, &lines).unwrap();

    // Other questions have other answers, beside the first ones.
    let fewer = json(&analyze(&run, &["--json", "--images", "70", "--steps", "2"]));
    assert_eq!(fewer["points"][0]["images"], 80, "whole batches");
    assert_ne!(fewer["points"][0]["risk"], first["points"][0]["risk"]);
    let augmented = json(&analyze(&run, &["--json", "--augment", "--cycles", "2"]));
    assert_ne!(augmented["points"][0]["risk"], first["points"][0]["risk"]);
    // Both leave something open: there is no end of augmented images.
    for point in fewer["points"].as_array().unwrap().iter().chain([&augmented["points"][0]]) {
        let error = number(point, "difference_error");
        let (left, right) = (number(point, "left"), number(point, "right"));
        assert!(error > 0.0 && number(point, "squared_norm_error") > 0.0, "{point}");
        assert_eq!(point["holds"], holds(left, right, error));
    }
    let one = json(&analyze(&run, &["--json", "--steps", "1", "--cycles", "2"]));
    assert_eq!(one["points"][0]["lipschitz_error"], Value::Null, "nor does one step");
    assert_eq!(one["points"][0]["holds"], "unclear");
    let two = json(&analyze(&run, &["--json", "--images", "40", "--cycles", "2"]));
    assert_eq!(two["points"][0]["difference_error"], Value::Null, "two batches tell none");
    assert_eq!(two["points"][0]["holds"], "unclear");
    assert_eq!(json(&analyze(&run, &["--json", "--images", "all"])), first);

    // For people.
    let sample = succeeded(&analyze(&run, &["--images", "80"]));
    assert!(sample.contains(" ± ") && sample.contains("standard error"), "{sample}");
    let table = succeeded(&analyze(&run, &[]));
    for part in ["start of cycle 2", "end of cycle 3, model 1", "cycle 3 averaged", "|∇R|²"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(table.contains('±') && table.contains("curvature"), "{table}");
    let page = fs::read_to_string(run.join("analysis/index.html")).unwrap();
    for part in ["<h2>Both sides</h2>", "160 of 160 training images", "Distances and angles"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(table.contains("160 of 160 training images, mini-batches of 20, L over 3 steps"));
    assert!(table.contains("cosine: of their ways from the start of the cycle"), "{table}");
    assert!(
        table.trim_end().ends_with(&run.join("analysis/index.html").display().to_string()),
        "{table}"
    );
}

#[test]
fn without_inner_weights_it_says_what_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (run, out) = (folder.path().join("run"), folder.path().join("elsewhere"));
    train(&run, &["optimizer.momentum=0"]);
    let output = analyze(&run, &["--json", "--steps", "1", "-o", out.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert!(said.contains("inner weights were not kept (checkpoints.inner_cycles)"), "{said}");
    assert!(said.contains("cycle 1: its start, the initial weights, is not kept"), "{said}");
    let found = json(&output);
    let points = found["points"].as_array().unwrap();
    let names: Vec<&str> = points.iter().map(|point| point["weights"].as_str().unwrap()).collect();
    // The first, the middle and the last of four cycles, each with its start.
    assert_eq!(names, ["outer:1", "outer:2", "outer:3", "outer:3", "outer:4"]);
    for point in points {
        assert_eq!(point["right"], point["with_momentum"]["right"], "there is no momentum");
    }
    assert!(out.join("sides.svg").is_file() && !run.join("analysis").exists());
}

#[test]
fn what_cannot_be_analyzed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    failed(&analyze(&run, &[]), 2, "is not a run directory");
    let files = hwa(&["analyze", "--model", "resnet8", "--data", "digits"]).output().unwrap();
    failed(&files, 2, "--run is needed");
    let help = hwa(&["analyze", "--help"]).output().unwrap();
    let help = succeeded(&help);
    assert!(help.contains("--run") && !help.contains("--model") && !help.contains("--data <"));
    train(&run, &["checkpoints.outer_every=4"]);
    failed(&analyze(&run, &["--cycles", "9"]), 2, "found 9, expected cycles of the run, 1 to 4");
    failed(&analyze(&run, &["--cycles", "0"]), 2, "found 0, expected cycles of the run, 1 to 4");
    failed(&analyze(&run, &["--cycles", "x"]), 2, "--cycles");
    failed(&analyze(&run, &["--cycles", "2"]), 2, "keeps no weights of cycle 2");
    failed(&analyze(&run, &["--images", "20"]), 2, "expected at least 2 of them");
    failed(&analyze(&run, &["--images=-1"]), 2, "--images");
    failed(&analyze(&run, &["--steps", "0"]), 2, "--steps");
    let outer = run.join("checkpoints/outer-000004.safetensors");
    fs::write(&outer, "no weights").unwrap();
    failed(&analyze(&run, &["--cycles", "4"]), 1, "outer-000004.safetensors");
    let blocked = folder.path().join("a file");
    fs::write(&blocked, "").unwrap();
    let output = analyze(&run, &["--cycles", "4", "-o", blocked.to_str().unwrap()]);
    failed(&output, 1, "a file");
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &["checkpoints.inner_cycles=[2, 3, 4]"]);
    // Every full batch is a step: slow enough to come in between.
    let arguments = ["--json", "--threads", "1", "--steps", "8"];
    let analyzing = hwa(&["analyze", "--run"])
        .arg(&run)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let kept = run.join("analysis/gradients.jsonl");
    // A head, and a point.
    wait_until(|| fs::read_to_string(&kept).map_or(0, |text| text.lines().count()) >= 2);
    assert!(signal(analyzing.id(), "-INT"));
    let output = analyzing.wait_with_output().unwrap();
    failed(&output, 130, "gradients.jsonl, and the same command goes on from there");
    let before = fs::read_to_string(&kept).unwrap();
    let count = before.lines().count() - 1;
    assert!((1..10).contains(&count), "{count}");
    let output = analyze(&run, &arguments);
    let said = text(&output.stderr);
    assert_eq!(said.matches("measured ").count(), 10 - count, "{said}");
    assert!(fs::read_to_string(&kept).unwrap().starts_with(&before));
    assert_eq!(json(&output)["points"].as_array().unwrap().len(), 12);
}
