//! A run is searched with its own network, images and splits.

use std::fs;
use std::path::Path;

use hwa_core::{Role, Statistics, Weights, mean};
use hwa_store::read_tensors;
use serde_json::Value;

use super::command::{failed, hwa, json, succeeded, text, train};
use super::lasting;

#[test]
fn averages_of_a_run_know_their_images() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &["data.size=16", "schedule.epochs=3", "hwa.window_length=2"]);
    let options = ["--json", "--max-evals", "7"];
    let found = json(&hwa(&["search"]).arg(&run).args(options).output().unwrap());
    let average = folder.path().join("average.safetensors");
    succeeded(&hwa(&["average"]).arg(&run).arg("-o").arg(&average).output().unwrap());
    let (of_images, ready) = (["--model", "resnet8", "--data", "digits"], "ready.safetensors");
    let ready = folder.path().join(ready);
    let mut recalibrate = hwa(&["recalibrate", "--weights"]);
    recalibrate.arg(&average).args(of_images).arg("-o").arg(&ready);
    succeeded(&recalibrate.output().unwrap());
    let top1 = |weights: &Path| {
        let mut evaluate = hwa(&["evaluate", "--json", "--weights"]);
        json(&evaluate.arg(weights).args(of_images).output().unwrap())["top1"].as_f64().unwrap()
    };
    // Digits are 8 x 8: without a word they would be shown to a network for 16 x 16.
    let winner = run.join("search/winner.safetensors");
    assert_eq!(top1(&winner), found["winner"]["test"]["score"].as_f64().unwrap());
    assert!(top1(&ready) > 70.0, "{}", top1(&ready));
}

#[test]
fn a_run_is_searched_with_its_own_network_images_and_splits() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(
        &run,
        &[
            "data.train_examples=160",
            "optimizer.batch=20",
            "schedule.epochs=8",
            "hwa.window_length=3",
        ],
    );
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(run.join("summary.json")).unwrap()).unwrap();
    let options = ["--json", "--max-evals", "24", "--screening-images", "40", "--threads"];
    let search = |threads: &str, more: &[&str]| {
        let mut command = hwa(&["search"]);
        command.arg(&run).args(options).arg(threads).args(more).output().unwrap()
    };
    let found = json(&search("2", &[]));
    // The run's own choice has the run's own figures.
    let default = &found["usual"][0];
    assert_eq!(default["name"], "the run's choice");
    for split in ["validation", "test"] {
        assert_eq!(default[split]["score"], summary[split]["hwa"]["top1"], "{split}: {found}");
        assert_eq!(default[split]["loss"], summary[split]["hwa"]["loss"], "{split}: {found}");
    }
    assert!(found["gain"]["validation"].as_f64().unwrap() >= 0.0);
    assert!(found["evaluations"].as_u64().unwrap() <= 24);

    // What was saved is the average, with statistics of its own, and is worth what was told.
    let winner = run.join("search/winner.safetensors");
    let (saved, about) = read_tensors(&winner).unwrap();
    assert_eq!(about["statistics"], "re-estimated");
    let members: Vec<Weights> = found["winner"]["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| read_tensors(Path::new(path.as_str().unwrap())).unwrap().0)
        .collect();
    let members: Vec<&Weights> = members.iter().collect();
    let exact = mean(&members, Statistics::Omit).unwrap();
    assert_eq!(saved.only(Role::Parameter), exact.only(Role::Parameter));
    let evaluate = |split: &str| {
        let mut command = hwa(&["evaluate", "--json", "--split", split, "--run"]);
        json(&command.arg(&run).arg("--weights").arg(&winner).output().unwrap())
    };
    for split in ["validation", "test"] {
        assert_eq!(evaluate(split)["top1"], found["winner"][split]["score"]);
    }

    failed(&search("2", &[]), 2, "--resume goes on with it");
    let elsewhere = folder.path().join("elsewhere");
    let again = json(&search("1", &["-o", elsewhere.to_str().unwrap()]));
    assert_eq!(lasting(again), lasting(found));
    let bytes = fs::read(elsewhere.join("winner.safetensors")).unwrap();
    assert_eq!(bytes, fs::read(&winner).unwrap());
    // A budget that grows is kept within, and finds no less.
    let score = |found: &Value| found["winner"]["validation"]["score"].as_f64().unwrap();
    let (grown, mut before) = (folder.path().join("grown"), 0.0);
    for most in [7, 9, 12, 16, 21, 30] {
        let mut command =
            hwa(&["search", "--json", "--resume", "--screening-images", "40", "--max-evals"]);
        command.arg(most.to_string()).arg(&run).arg("-o").arg(&grown);
        let more = json(&command.output().unwrap());
        assert!(more["evaluations"].as_u64().unwrap() <= most && score(&more) >= before, "{more}");
        before = score(&more);
    }

    // The checkpoints alone, as anybody's: the default split is the run's here.
    let mut command =
        hwa(&["search", "--model", "resnet8", "--data", "digits", "--max-evals", "7"]);
    let copied = folder.path().join("copied");
    fs::create_dir(&copied).unwrap();
    for entry in fs::read_dir(run.join("checkpoints")).unwrap().flatten() {
        fs::copy(entry.path(), copied.join(entry.file_name())).unwrap();
    }
    command.arg(&copied).arg("-o").arg(folder.path().join("anybody")).arg("--json");
    let output = command.output().unwrap();
    let found = json(&output);
    let told = text(&output.stderr);
    assert!(told.contains("validation images of the default split of digits"), "{told}");
    assert_eq!(found["usual"][0]["name"], "the mean of all");
    assert_eq!(found["winner"]["test"]["images"], 360);
    assert_eq!(found["statistics"], "re-estimated");
}
