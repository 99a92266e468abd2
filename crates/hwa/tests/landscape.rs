//! `hwa landscape` and `hwa figures` on runs of a second.
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod command;

use std::fs;
use std::path::Path;
use std::process::Output;

use command::{failed, hwa, json, succeeded, text, train};
use serde_json::Value;

/// 4 cycles of 8 steps on 160 digits.
const SHORT: [&str; 6] = [
    "data.train_examples=160",
    "optimizer.batch=20",
    "schedule.epochs=4",
    "hwa.window_length=2",
    "evaluate.every=4",
    "checkpoints.inner_cycles=[2, 3]",
];

fn landscape(kind: &str, run: &Path, arguments: &[&str]) -> Output {
    let mut command = hwa(&["landscape", kind]);
    command.arg("--run").arg(run).args(["--images", "160"]).args(arguments);
    command.output().unwrap()
}

fn mark<'a>(found: &'a Value, name: &str) -> &'a Value {
    let marks = found["marks"].as_array().unwrap();
    marks.iter().find(|mark| mark["name"] == name).unwrap_or_else(|| panic!("{name}: {found}"))
}

fn loss(mark: &Value, kind: &str) -> f64 {
    mark[kind]["splits"][0]["loss"].as_f64().unwrap()
}

#[test]
fn on_a_line_the_chosen_weights_are_worth_what_they_are_worth_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &SHORT);
    let found = json(&landscape("line", &run, &["--points", "7", "--json"]));
    assert_eq!(found["splits"], serde_json::json!(["train", "test"]));
    // best.safetensors has statistics that were re-estimated on the same images.
    let evaluated = hwa(&["evaluate", "--split", "train", "--json", "--run"]).arg(&run).output();
    let evaluated = json(&evaluated.unwrap());
    let best = mark(&found, "best");
    let expected = evaluated["loss"].as_f64().unwrap();
    assert!((loss(best, "own") - expected).abs() < 1e-7 * expected, "{best} {evaluated}");
    let split = &best["own"]["splits"][0];
    assert_eq!((&split["images"], &split["split"]), (&160.into(), &"train".into()));
    // In percent, as everywhere else.
    assert_eq!(split["top1"], evaluated["top1"]);
    assert_eq!((&best["at"][0], &mark(&found, "inner:4:0")["at"][0]), (&0.0.into(), &1.0.into()));

    let line = run.join("landscape/line-best-inner_4_0-points7-images160");
    assert!(line.join("test-accuracy.svg").is_file());
    let csv = fs::read_to_string(line.join("train-loss.csv")).unwrap();
    // Seven points, two rings, a head; the points at 0 and 1 are the weights.
    assert_eq!(csv.lines().count(), 7 + 2 + 1, "{csv}");
    assert!(csv.contains(&format!("train,0,{}", loss(best, "own"))), "{csv}");
    let page = fs::read_to_string(line.join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("inner:4:0"));
    assert!(page.contains("run: resnet8 on digits. 7 points, on 160 train images"), "{page}");
}

#[test]
fn an_interrupted_plane_goes_on_and_threads_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &SHORT);
    let plane = |out: &str, threads: &str| {
        let out = folder.path().join(out);
        let arguments = ["--size", "4", "--threads", threads, "-o", out.to_str().unwrap()];
        let output = landscape("plane", &run, &arguments);
        succeeded(&output);
        (fs::read_to_string(out.join("train-loss.csv")).unwrap(), text(&output.stderr))
    };
    let (one, _) = plane("one", "1");
    let (two, _) = plane("two", "2");
    assert_eq!(one, two);
    // A kill in the middle of a line: what is whole is kept.
    let notebooks = || -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(folder.path().join("two")).unwrap().flatten();
        entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "jsonl")).collect()
    };
    let points = notebooks().remove(0);
    let whole = fs::read_to_string(&points).unwrap();
    assert_eq!(whole.lines().count(), 1 + 16 + 2 * 4);
    fs::write(&points, &whole[..whole.len() / 2]).unwrap();
    let (again, told) = plane("two", "2");
    assert_eq!(again, one);
    assert!(told.contains("points were measured before"), "{told}");
    // Nothing is left to do.
    let before = fs::metadata(&points).unwrap().len();
    let (again, told) = plane("two", "2");
    assert_eq!((again, told.as_str()), (one, ""));
    assert_eq!(fs::metadata(&points).unwrap().len(), before);
    // Other points are not mixed with these.
    let out = folder.path().join("two");
    succeeded(&landscape("plane", &run, &["--size", "2", "-o", out.to_str().unwrap()]));
    assert_eq!(notebooks().len(), 2);
    assert_eq!(fs::metadata(&points).unwrap().len(), before);
}

#[test]
fn models_with_where_they_came_from_span_a_plane_that_holds_their_average() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &SHORT);
    let found = json(&landscape("plane", &run, &["--size", "2", "--mark", "best", "--json"]));
    let names: Vec<&str> =
        found["marks"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["inner:3:0", "inner:3:1", "outer:2", "best", "outer:3"]);
    let (average, first) = (mark(&found, "outer:3"), mark(&found, "inner:3:1"));
    assert!(
        (average["at"][0].as_f64().unwrap() * 2.0 - first["at"][0].as_f64().unwrap()).abs() < 1e-4
    );
    assert!(average["distance"].as_f64().unwrap() < 1e-4, "{average}");
    assert!((loss(average, "own") - loss(average, "projected")).abs() < 1e-4);
    // The best is elsewhere, and its projection is worth something else.
    assert!(mark(&found, "best")["distance"].as_f64().unwrap() > 0.01);

    // The models and their average alone lie on a line.
    let weights = ["inner:3:0", "inner:3:1", "outer:3", "--size", "2"];
    let output = landscape("plane", &run, &weights);
    let shown = succeeded(&output);
    assert!(text(&output.stderr).contains("lie on a line"), "{}", text(&output.stderr));
    assert!(shown.contains("outer:3"), "{shown}");

    // All digits, beside the page.
    let data = run.join("landscape/plane-inner_3_0-inner_3_1-outer_3-size2-images160/marks.csv");
    let data = fs::read_to_string(data).unwrap();
    let head = "weights,x,y,distance,train loss,train loss projected,train accuracy,";
    assert!(data.starts_with(head), "{data}");
    assert_eq!((data.lines().count(), data.matches("\"outer:3\",").count()), (4, 1), "{data}");
}

#[test]
fn a_plane_of_models_needs_the_average_that_they_made() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let sets = [&SHORT[..], &["checkpoints.outer_every=2"]].concat();
    train(&run, &sets);
    // Models of cycle 3 with their start, outer:2, and without outer:3.
    let found = json(&landscape("plane", &run, &["--size", "2", "--json"]));
    let names: Vec<&str> =
        found["marks"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["outer:2", "outer:4", "best"], "those that are kept");
}

#[test]
fn random_and_principal_directions_show_the_way_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &SHORT);
    let output = landscape("pca", &run, &["--size", "3"]);
    succeeded(&output);
    assert!(text(&output.stderr).contains("of 4 outer weights"), "{}", text(&output.stderr));
    let output = landscape("random", &run, &["--size", "3", "--reach", "0.5"]);
    succeeded(&output);
    assert!(text(&output.stderr).contains("`pca` shows it"), "{}", text(&output.stderr));
    for name in ["pca-outer-size3-images160", "random-best-reach0.5-size3-images160"] {
        let csv = run.join("landscape").join(name).join("train-loss.csv");
        let csv = fs::read_to_string(csv).unwrap();
        let on_the_way = csv.lines().filter(|line| line.contains("cycle 1 to 4")).count();
        assert_eq!(on_the_way, 4, "{name}: {csv}");
    }
}

#[test]
fn weights_of_files_need_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &SHORT);
    let file = |cycle| run.join(format!("checkpoints/outer-00000{cycle}.safetensors"));
    let out = folder.path().join("line");
    let mut command = hwa(&["landscape", "line", "--model", "resnet8", "--data", "digits"]);
    command.args(["--images", "64", "--points", "3", "--split", "validation", "-o"]).arg(&out);
    succeeded(&command.arg(file(1)).arg(file(4)).output().unwrap());
    assert!(out.join("index.html").is_file());
}

#[test]
fn what_cannot_be_drawn_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &SHORT);
    let line = |arguments: &[&str]| landscape("line", &run, arguments);
    failed(&line(&["best", "outer:9"]), 2, "has no outer:9: it keeps cycles 1 to 4");
    failed(&line(&["best", "inner:1:0"]), 2, "has no inner:1:0: it keeps cycles 2 to 3");
    failed(&line(&["best", "inner:2:7"]), 2, "has no inner:2:7");
    failed(&line(&["best", "hwa:18446744073709551615"]), 2, "has no hwa:18446744073709551615");
    failed(&line(&["best", "hwa:0"]), 2, "has no hwa:0");
    failed(&line(&["best", "best"]), 2, "the weights are equal");
    failed(&line(&["best", "outer:x"]), 2, "expected best, outer, outer:CYCLE");
    failed(&line(&["best"]), 2, "2 values required");
    failed(&line(&["best", "nowhere.pt"]), 2, "nowhere.pt is neither a file nor a name");
    failed(&line(&["best", "bst"]), 2, "expected best, outer, outer:CYCLE");
    failed(&line(&["best", "bst"]), 2, "outer: it keeps cycles 1 to 4, inner: it keeps cycles 2");
    failed(&line(&["best", "inner:4:2"]), 2, "has no inner:4:2");
    failed(&line(&["--from", "2", "--to", "1"]), 2, "expected from < to");
    failed(&line(&["--from=-inf"]), 2, "expected from < to");
    let huge = usize::MAX.to_string();
    failed(&line(&["--points", &huge]), 2, "expected a number from 2 to 2000");
    failed(&landscape("plane", &run, &["--size", &huge]), 2, "expected a number from 2 to 2000");
    failed(&landscape("random", &run, &["--reach", "0"]), 2, "expected more than 0");
    let nowhere = folder.path().join("nowhere");
    failed(&landscape("pca", &nowhere, &[]), 2, "is not a run directory");
    failed(&hwa(&["landscape", "line", "--model", "resnet8"]).output().unwrap(), 2, "--data");
    // The last number of a file becomes a NaN.
    let outer = run.join("checkpoints/outer-000003.safetensors");
    let mut bytes = fs::read(&outer).unwrap();
    let end = bytes.len() - 4;
    bytes[end..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&outer, bytes).unwrap();
    let diverged = "outer:3: `linear.weight` holds a NaN or an infinity";
    failed(&line(&["best", "outer:3"]), 1, diverged);
    failed(
        &landscape("plane", &run, &["outer:1", "outer:2", "best", "--mark", "outer:3"]),
        1,
        diverged,
    );
    failed(&landscape("random", &run, &["outer:3"]), 1, diverged);
    failed(&landscape("pca", &run, &[]), 1, diverged);
    fs::remove_file(run.join("summary.json")).unwrap();
    failed(&line(&["--split", "test"]), 2, "the run is not finished");
}

fn figures(out: &Path, arguments: &[&str]) -> Output {
    let mut command = hwa(&["figures", "--data", "digits", "--network", "resnet8", "--plain"]);
    command.args(["--size", "3", "--images", "64", "--out"]).arg(out);
    for set in [
        "data.train_examples=160",
        "optimizer.batch=20",
        "schedule.epochs=6",
        "hwa.window_length=[1, 2]",
        "evaluate.train_images=60",
    ] {
        command.args(["--set", set]);
    }
    // Last, so that they override.
    command.args(arguments).output().unwrap()
}

#[test]
fn every_figure_of_the_paper_is_drawn_from_runs_that_are_trained_once() {
    let folder = tempfile::tempdir().unwrap();
    let listed = succeeded(&hwa(&["figures", "--list"]).output().unwrap());
    let names: Vec<&str> =
        listed.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names.len(), 12);
    let dry = succeeded(&figures(folder.path(), &["all", "--dry-run"]));
    assert!(dry.contains("5 of 5 runs to train"), "{dry}");

    let output = figures(folder.path(), &["all", "--seeds", "1,2"]);
    let pages = succeeded(&output);
    assert_eq!(pages.lines().count(), 13, "{pages}");
    let all = fs::read_to_string(folder.path().join("index.html")).unwrap();
    let mut ids: Vec<&str> =
        all.split("<figure id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let count = ids.len();
    assert!(count >= 12, "{ids:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "each by a name of its own");
    for name in names {
        let page = fs::read_to_string(folder.path().join(name).join("index.html")).unwrap();
        assert!(page.contains("<svg"), "{name}");
        // Planes and the condition have tables.
        let told = ["Here: ", "<table"].iter().any(|how| page.contains(how));
        assert!(page.contains("In the paper: ") && told, "{name}");
        let drawn = fs::read_dir(folder.path().join(name)).unwrap().flatten();
        let csv =
            drawn.map(|entry| entry.path()).filter(|p| p.extension().is_some_and(|e| e == "csv"));
        for csv in csv {
            let data = fs::read_to_string(&csv).unwrap();
            assert!(data.lines().count() > 1, "{}: {data}", csv.display());
        }
    }
    // Three of SWA and one online; two constant rates, HWA from two seeds, a cosine.
    assert_eq!(text(&output.stderr).matches("began: ").count(), 9, "{}", text(&output.stderr));
    let has_curve = |seed| {
        let run = folder.path().join(format!("6-epochs/digits/resnet8/hwa/seed{seed}"));
        let summary = fs::read_to_string(run.join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
        !summary["best_on_test"].is_null()
    };
    assert_eq!([1, 2].map(has_curve), [true, false], "boxes need results alone");
    let again = figures(folder.path(), &["restart", "convergence", "--seeds", "1,2"]);
    succeeded(&again);
    assert!(!text(&again.stderr).contains("began"), "{}", text(&again.stderr));
}

#[test]
fn the_way_within_a_cycle_begins_with_its_average() {
    let folder = tempfile::tempdir().unwrap();
    // 4 cycles of 32 steps; every third is kept: 12 and 11 of cycles 2 and 3.
    let sets = ["restart", "--set", "schedule.epochs=16", "--set", "hwa.sync_period=32"];
    succeeded(&figures(folder.path(), &sets));
    let ways = fs::read_to_string(folder.path().join("restart/restart-ways.csv")).unwrap();
    for model in ["model 0", "model 1"] {
        let rows: Vec<&str> = ways.lines().filter(|line| line.contains(model)).collect();
        assert_eq!(rows.len(), 12, "{ways}");
        let distance = |row: &str| row.rsplit(',').next().unwrap().parse::<f64>().unwrap();
        // Both ends lie in the plane, and nothing between them.
        assert!(distance(rows[0]) < 1e-4 && distance(rows[11]) < 1e-4, "{ways}");
        assert!(rows[1..11].iter().all(|row| distance(row) > 1e-3), "{ways}");
    }
}

#[test]
fn a_figure_that_there_is_not_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = figures(folder.path(), &["figure7"]);
    failed(&output, 2, "\"figure7\" is no figure; expected all, swa-rate-sensitivity");
    failed(&hwa(&["figures"]).output().unwrap(), 2, "FIGURE");
    let other = hwa(&["figures", "restart", "--network", "resnet7"]).output().unwrap();
    failed(&other, 2, "resnet7");
    let files = hwa(&["landscape", "line", "a.pt", "b.pt"]).output().unwrap();
    failed(
        &files,
        2,
        "--run is missing; expected --run and a run, or files with --model and --data",
    );
    let files = hwa(&["landscape", "line", "a.pt", "b.pt", "--model", "resnet8"]).output().unwrap();
    failed(&files, 2, "--data is missing");
    let seeds = figures(folder.path(), &["restart", "--seeds", "9"]);
    failed(&seeds, 2, "--seeds: restart has [1], expected one of them");
    let scaled = figures(folder.path(), &["restart", "--scale", "2"]);
    failed(&scaled, 2, "--scale must be above 0 and at most 1, found 2");
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is left behind");
}
