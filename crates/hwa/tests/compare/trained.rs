//! What is compared is trained once, and the tables have the figures of the runs.

use std::fs;

use serde_json::Value;

use super::command::{hwa, json, succeeded, text};
use super::{Place, SHORT, weights};

#[test]
fn methods_are_compared_and_a_second_time_nothing_is_trained() {
    let place = Place::new(SHORT);
    let output = place.compare(&["--json"]).output().unwrap();
    let result = json(&output);
    let said = text(&output.stderr);
    // Seed by seed, large runs first; those of one model are side by side.
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("seed")).collect();
    let begun = |line: &str| lines.iter().position(|l| l.starts_with(line)).unwrap();
    assert_eq!(begun("began: HWA, seed 1"), 0, "{said}");
    assert_eq!(begun("began: LAWA, seed 1"), begun("began: CA, seed 1") + 1, "{said}");
    assert!(begun("began: CA, seed 1") < begun("began: HWA, seed 2"), "{said}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("began")).count(), 8, "{said}");

    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["per_model"], rows[0]["total"], "one gradient: one run for both budgets");
    let group = &rows[2]["per_model"];
    assert_eq!((&group["top1"]["n"], &group["planned"]), (&Value::from(2), &Value::from(2)));
    assert_eq!((&group["runs"][0]["models"], &group["runs"][0]["steps"]), (&2.into(), &24.into()));
    assert_eq!(rows[2]["total"]["runs"][0]["steps"], 12, "half the steps for each of two models");
    // Three cycles were looked at, by HWA with two windows, which are the same in the first.
    let candidates = |row: usize| &rows[row]["per_model"]["runs"][0]["candidates"];
    assert_eq!([0, 1, 2].map(candidates), [&3.into(), &3.into(), &5.into()] as [&Value; 3]);
    let parts = [&group["runs"][0]["online"], &group["runs"][0]["windows"][1]];
    assert_eq!(parts.map(|part| &part["candidates"]), [&Value::from(3); 2]);
    assert_eq!(rows[2]["paper"]["top1"], 99.0);
    if cfg!(unix) {
        assert!(group["cpu"]["mean"].as_f64().unwrap() > 0.0);
        assert!(group["peak_memory_mb"].as_f64().unwrap() > 10.0);
    }

    let out = place.path("runs/short");
    let markdown = fs::read_to_string(out.join("short.md")).unwrap();
    assert!(markdown.starts_with("# Two methods on digits\n"), "{markdown}");
    assert!(markdown.contains("| HWA | ") && markdown.contains(" | 99.00 | "), "{markdown}");
    let never = "HWA: at equal gradients a window of 2 never slides: there are 2 cycles.";
    assert_eq!(markdown.matches("never slides").count(), 1, "{markdown}");
    assert!(markdown.contains(never), "{markdown}");
    let csv = fs::read_to_string(out.join("short.csv")).unwrap();
    // A head, three methods and two windows of one of them, by two budgets.
    assert_eq!(csv.lines().count(), 1 + 2 * (3 + 2), "{csv}");
    assert!(csv.contains(",\"HWA, I = 1\",per-model,"), "{csv}");

    // The figures are those of the runs, and the runs are those of `hwa train`.
    let run = out.join("digits/resnet8/hwa/seed2");
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(run.join("summary.json")).unwrap()).unwrap();
    assert_eq!(group["runs"][1]["top1"], summary["test"]["chosen"]["top1"]);
    let mut alone = hwa(&["train"]);
    alone.arg(run.join("experiment.toml")).arg("--out").arg(place.path("alone"));
    succeeded(&alone.output().unwrap());
    assert_eq!(weights(&run), weights(&place.path("alone")));

    let again = place.compare(&[]).output().unwrap();
    assert!(succeeded(&again).contains("HWA"), "{}", text(&again.stdout));
    assert!(text(&again.stderr).contains("0 of 8 runs to train"), "{}", text(&again.stderr));
    assert!(!text(&again.stderr).contains("began"), "{}", text(&again.stderr));

    // A part of it is shown; the files are of everything all the same.
    let part = ["--tables", "--only", "CA", "--seeds", "2"];
    let shown = succeeded(&place.compare(&part).output().unwrap());
    assert!(shown.contains("CA") && !shown.contains("HWA"), "{shown}");
    let row = shown.lines().find(|line| line.starts_with("CA")).unwrap();
    assert!(!row.contains('±'), "one seed has no deviation: {shown}");
    assert_eq!(fs::read_to_string(out.join("short.md")).unwrap(), markdown);
}

#[test]
fn outer_weights_are_worth_what_online_averaging_gives() {
    let entries = "methods = [\n    { label = \"Outer\", outer_of = \"HWA\" },\n    \
                   { label = \"Online\", method = \"online\" },";
    let place = Place::new(&SHORT.replace("methods = [", entries));
    let only = ["--only", "Outer", "--only", "Online", "--seeds", "1"];
    let output = place.compare(&only).arg("--json").output().unwrap();
    let result = json(&output);
    let of = |method: &str| {
        let rows = result["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["method"] == method).unwrap();
        ["per_model", "total"].map(|budget| {
            let run = &row[budget]["runs"][0];
            ["top1", "top5", "validation_top1", "chosen_cycle"].map(|key| run[key].clone())
        })
    };
    assert_eq!(of("Outer"), of("Online"));
    assert!(of("Outer")[0][0].as_f64().unwrap() > 10.0);
    let said = text(&output.stderr);
    assert_eq!(said.matches("began: ").count(), 4, "two methods, two budgets: {said}");
    let notes = result["notes"].to_string();
    assert!(notes.contains("Outer: the outer weights alone of the runs of HWA"), "{notes}");
    // Beside the reference: the same runs, so no difference.
    let with = SHORT.replace("methods = [", &format!("reference = \"Online\"\n{entries}"));
    fs::write(place.path("c.toml"), with).unwrap();
    let table = succeeded(&place.compare(&only).arg("--tables").output().unwrap());
    assert!(table.contains("over Online") && table.contains("+0.00"), "{table}");
    // The runs are those of HWA: nothing is left to train for it.
    let more = place.compare(&["--only", "HWA", "--seeds", "1"]).output().unwrap();
    succeeded(&more);
    assert!(!text(&more.stderr).contains("began: "), "{}", text(&more.stderr));

    // Nor where a table has the runs of HWA, and no row for its outer weights.
    let table = fs::read_to_string(place.path("runs/short/short.json")).unwrap();
    let mut table: Value = serde_json::from_str(&table).unwrap();
    table["rows"].as_array_mut().unwrap().retain(|row| row["method"] == "HWA");
    fs::write(place.path("hwa.json"), table.to_string()).unwrap();
    let elsewhere = Place::new(&SHORT.replace("methods = [", entries));
    let with = place.path("hwa.json");
    let part = ["--only", "Outer", "--seeds", "1", "--json", "--with", with.to_str().unwrap()];
    let output = elsewhere.compare(&part).output().unwrap();
    let taken = json(&output);
    assert!(!text(&output.stderr).contains("began: "), "{}", text(&output.stderr));
    assert_eq!(taken["rows"][0]["total"]["runs"][0]["top1"], of("Outer")[1][0]);
}

#[test]
fn a_scaled_comparison_says_so_and_keeps_its_cycles() {
    // 320 images in batches of 20: 16 steps an epoch, 12 cycles of 16 steps.
    let whole = SHORT.replace("train_examples = 160", "train_examples = 320");
    let place = Place::new(&whole.replace("epochs = 3", "epochs = 12"));
    let output =
        place.compare(&["--scale", "0.25", "--seeds", "1", "--only", "CA"]).output().unwrap();
    let expected = "Scaled by 0.25: digits, CA: 3 of 12 epochs, 80 of 320 training images, \
                    H = 1 steps instead of 16: 12 cycles instead of 12.";
    let table = succeeded(&output);
    assert!(table.contains(expected), "{table}");
    let markdown =
        fs::read_to_string(place.path("runs/short-scale0.25/short-scale0.25.md")).unwrap();
    assert!(markdown.contains(expected), "{markdown}");
}
