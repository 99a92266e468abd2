//! Budgets are kept, and a larger one never finds less.

use std::fs;

use serde_json::{Value, json};

use super::bench::Bench;
use super::command::{failed, json, succeeded};
use super::window;

#[test]
fn budgets_are_kept() {
    let bench = Bench::new(24);
    let found = json(&bench.search("few", &["--json", "--max-evals", "7"]));
    assert_eq!((&found["evaluations"], &found["ended"]), (&json!(7), &json!("max_evals")));
    assert_eq!(bench.calls(), 7);
    // Without time there are the usual windows.
    let found = json(&bench.search("none", &["--json", "--max-time", "0s"]));
    assert_eq!((&found["evaluations"], &found["ended"]), (&json!(3), &json!("max_time")));
    assert!(
        found["usual"].as_array().unwrap().iter().any(|u| window(u) == window(&found["winner"]))
    );
    failed(&bench.search("less", &["--max-evals", "2"]), 2, "at least 3 are needed");
    // Of one member a stride says nothing; the usual windows have theirs.
    succeeded(&bench.search("strided", &["--strides", "3"]));
    let csv = fs::read_to_string(bench.at("strided/scores.csv")).unwrap();
    let other = |line: &&str| {
        let cells: Vec<&str> = line.split(',').collect();
        cells[2] != "3" && cells[3] != "1"
    };
    assert_eq!(csv.lines().skip(1).filter(other).count(), 2, "{csv}");
}

#[test]
fn a_larger_budget_never_finds_less_and_counts_what_was_scored_before() {
    let bench = Bench::new(24);
    let score = |found: &Value| found["winner"]["validation"]["score"].as_f64().unwrap();
    let mut before = f64::NEG_INFINITY;
    for most in [6, 7, 9, 14, 15, 22, 30, 31, 40] {
        let number = most.to_string();
        let found = json(&bench.search("found", &["--json", "--resume", "--max-evals", &number]));
        assert!(bench.calls() <= most, "{} of {most}", bench.calls());
        assert_eq!(found["evaluations"].as_u64().unwrap() as usize, bench.calls());
        assert!(score(&found) >= before, "{most}: {found}");
        before = score(&found);
        let csv = fs::read_to_string(bench.at("found/scores.csv")).unwrap();
        assert_eq!(csv.lines().count(), bench.calls() + 1);
    }
    // With fewer than were scored nothing is scored, and nothing is forgotten.
    let calls = bench.calls();
    let fewer = json(&bench.search("found", &["--json", "--resume", "--max-evals", "6"]));
    assert_eq!((bench.calls(), score(&fewer)), (calls, before));
    assert_eq!(fewer["ended"], "max_evals");
}
