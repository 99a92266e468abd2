//! How a training ends: with its figures, or with the reason why there are none.

use std::fs;

use super::command::{failed, hwa, json, succeeded, text};
use super::{EVALUATE, short_train};

#[test]
fn training_ends_with_one_json_object() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let result = json(&short_train(&run).output().unwrap());
    assert_eq!(result["run"], run.display().to_string());
    assert!(result["seconds"].as_f64().unwrap() > 0.0);
    assert!((1..=3).contains(&result["chosen_cycle"].as_u64().unwrap()));
    assert_eq!((&result["method"], &result["seed"]), (&"hwa".into(), &1.into()));
    for split in ["validation", "test"] {
        for level in ["inner", "outer", "hwa"] {
            let top1 = result[split][level].as_f64().unwrap();
            assert!((0.0..=100.0).contains(&top1), "{result}");
        }
    }
    for file in ["experiment.toml", "environment.json", "events.jsonl", "summary.json"] {
        assert!(run.join(file).is_file(), "{file}");
    }
    // The saved weights are the measured ones: evaluating them gives the same figure.
    let evaluated = json(&hwa(&EVALUATE).arg(run.join("best.safetensors")).output().unwrap());
    assert_eq!(evaluated["top1"], result["test"]["hwa"]);
    assert_eq!(evaluated["images"], 360);
    assert!(evaluated["top5"].as_f64() >= evaluated["top1"].as_f64());
}

/// Well below what it reaches with any seed: only a defect fails this.
#[test]
#[ignore = "trains the default experiment to its end: cargo test -p hwa --test cli -- --ignored"]
fn the_default_run_reaches_97_percent() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = hwa(&["train", "--json", "--out"]);
    let result = json(&command.arg(folder.path().join("run")).output().unwrap());
    let top1 = result["test"]["hwa"].as_f64().unwrap();
    assert!(top1 >= 97.0, "{result}");
}

#[test]
fn divergence_names_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command = short_train(&run);
    command.args(["--set", "optimizer.rate=1e30"]);
    let output = command.output().unwrap();
    failed(&output, 1, "diverged");
    let message = text(&output.stderr);
    assert!(message.contains("error: model ") && message.contains(" step "), "{message}");
    assert!(message.contains("`schedule.warmup`"), "{message}");
    assert!(message.contains("no state was saved"), "{message}");
    assert!(!message.contains("--resume"), "it would diverge again: {message}");
    // A page that is made later knows it too.
    succeeded(&hwa(&["report"]).arg(&run).output().unwrap());
    let page = fs::read_to_string(run.join("report/index.html")).unwrap();
    assert!(page.contains("failed</span>: ") && page.contains("diverged"), "{page}");
}
