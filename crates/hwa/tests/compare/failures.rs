//! A run that diverged or is damaged is named, and the others have their figures.

use std::fs;

use serde_json::Value;

use super::command::{failed, succeeded, text};
use super::{Place, SHORT};

#[test]
fn a_run_that_diverges_does_not_stop_the_others() {
    let diverging = SHORT.replace("method = \"sgd\"", "method = \"sgd\", optimizer.rate = 1e30");
    let place = Place::new(&diverging);
    let output = place.compare(&["--seeds", "1"]).output().unwrap();
    // It would diverge again: the table has that, and nothing is left to be done.
    succeeded(&output);
    assert!(text(&output.stderr).contains("CA, seed 1 diverged: "), "{}", text(&output.stderr));
    assert!(place.path("runs/short/digits/resnet8/hwa/seed1/summary.json").is_file());
    let table = text(&output.stdout);
    assert!(table.contains("0 of 1, 1 diverged") && table.contains("Diverged: "), "{table}");
    let json = fs::read_to_string(place.path("runs/short/short.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let diverged = &json["rows"][0]["per_model"]["diverged"][0];
    assert_eq!(diverged["seed"], 1, "{diverged}");
    assert!(diverged["reason"].as_str().unwrap().contains("diverged"), "{diverged}");
    let again = place.compare(&["--seeds", "1"]).output().unwrap();
    assert!(succeeded(&again).contains("0 of 1, 1 diverged"), "{}", text(&again.stdout));
    assert!(!text(&again.stderr).contains("CA, seed 1"), "{}", text(&again.stderr));
}

/// A run of which a part is gone has no figures.
#[test]
fn a_damaged_run_is_named_with_the_way_back() {
    let place = Place::new(SHORT);
    let only = ["--seeds", "1", "--only", "CA"];
    succeeded(&place.compare(&only).output().unwrap());
    let run = place.path("runs/short/digits/resnet8/ca/seed1");
    for name in ["events.jsonl", "summary.json", "experiment.toml"] {
        let path = run.join(name);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 3]).unwrap();
        let output = place.compare(&only).output().unwrap();
        failed(&output, 2, "CA, seed 1: ");
        failed(&output, 2, name);
        failed(&output, 2, "remove ");
        fs::write(&path, whole).unwrap();
    }
    succeeded(&place.compare(&only).output().unwrap());
}
