//! Going on with a run: with its own settings, and without the models that are left out.

use std::fs;

use serde_json::Value;

use super::command::{failed, hwa, succeeded, text};
use super::short_train;

#[test]
fn a_resume_with_other_settings_names_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    succeeded(&short_train(&run).output().unwrap());
    let mut command = hwa(&["train", "--set", "hwa.num_models=3", "--resume"]);
    let output = command.arg(&run).output().unwrap();
    failed(&output, 2, "`hwa.num_models` is 2 there, asked for is 3");
}

#[test]
fn a_run_goes_on_without_a_model_that_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    succeeded(&short_train(&run).output().unwrap());
    // Back to the state before the last: 24 steps, and a state after every third.
    fs::remove_file(run.join("summary.json")).unwrap();
    fs::remove_file(run.join("state/manifest-0000000024.json")).unwrap();
    let resume = |without: &str| {
        hwa(&["train", "--json", "--without-replica", without, "--resume"]).arg(&run).output()
    };
    let page = || fs::read_to_string(run.join("report/index.html")).unwrap();
    let before = page();
    failed(&resume("2").unwrap(), 2, "there is no model 2; there are 0, 1");
    assert_eq!(page(), before, "a slip of the finger changes nothing");
    let output = resume("1").unwrap();
    succeeded(&output);
    let told = text(&output.stderr);
    assert!(told.contains("1 of 2 models go on; left out: model 1"), "{told}");
    assert!(page().contains("with 2 models (without model 1 after a while)"));
    let summary = fs::read_to_string(run.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["test"]["inner"].as_array().map(Vec::len), Some(1), "{summary}");
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let lost = r#"{"event":"replica_lost","replica":1,"step":21,"reason":"it was left out"}"#;
    assert_eq!(events.matches(lost).count(), 1, "{events}");
    let environment = fs::read_to_string(run.join("environment.json")).unwrap();
    let environment: Value = serde_json::from_str(&environment).unwrap();
    assert_eq!(environment["resumed"][0]["without_replicas"], serde_json::json!([1]));
    failed(&hwa(&["train", "--without-replica", "1"]).output().unwrap(), 2, "--resume");
}
