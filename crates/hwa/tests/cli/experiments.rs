//! An experiment is done as its file says, or its mistakes are shown with line and key.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::command::run::fingerprint;
use super::command::{failed, hwa, json, succeeded};
use super::{EVALUATE, short_train};

#[test]
fn mistakes_in_an_experiment_show_line_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("e.toml");
    let train = |content: &str| {
        fs::write(&file, content).unwrap();
        hwa(&["train"]).arg(&file).current_dir(folder.path()).output().unwrap()
    };
    failed(&train("[hwa]\nnum_modles = 2\n"), 2, "line 2");
    failed(&train("[hwa]\nnum_models = 2.5\n"), 2, "line 2");
    failed(&train("[optimizer]\nbatch = 0\n"), 2, "line 2");
    failed(&train("[hwa]\nsync_period = 0\n"), 2, "line 2: `hwa.sync_period` must be at least one");
    failed(&train("[data]\ntrain_examples = 99999\n"), 2, "line 2: `data.train_examples` asks");
    failed(
        &train("[data]\nvalidation = 99999\n"),
        2,
        "line 2: `data.validation` asks for too many",
    );
    failed(&train("[data]\n\nvalidation = 0\n"), 2, "line 3: `data.validation` must leave");
    failed(&train("[model]\nname = \"resnet21\"\n"), 2, "line 2: `model.name` must be one of");
    failed(&train("[data]\ndataset = \"mnist\"\n"), 2, "line 2: `data.dataset` must be one of");
    let set = hwa(&["train", "--set", "data.dataset=mnist"]).output().unwrap();
    failed(&set, 2, "--set data.dataset=mnist: `data.dataset` must be one of digits");
    let missing = hwa(&["train", "no-such.toml"]).output().unwrap();
    failed(&missing, 2, "cannot read no-such.toml");
    assert!(!folder.path().join("runs").exists(), "nothing is created for a bad experiment");
}

/// Every experiment in the repository can be read, and the built-in one is a copy.
#[test]
fn the_experiments_of_the_repository_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut folders = vec![root.clone()];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let experiment = hwa::Experiment::parse(&text, &path, &[]).unwrap();
            experiment.settings(10_000).unwrap();
            // Each can be run under every method, with that method's own rate.
            for method in hwa::train::Method::ALL {
                let sets = [format!("method={}", method.name())];
                let experiment = hwa::Experiment::parse(&text, &path, &sets).unwrap();
                experiment.settings(10_000).unwrap();
                drop(experiment.technique(10_000).unwrap());
            }
            assert!(text.contains("# Run:"), "{} says how to run it", path.display());
            count += 1;
        }
    }
    assert!(count >= 4);
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/digits-hwa.toml");
    let copy = fs::read_to_string(root.join("digits/hwa.toml")).unwrap();
    assert_eq!(fs::read_to_string(built_in).unwrap(), copy);
}

/// Both ways of computing convolutions: each repeats its bits, and they are not the same.
#[test]
fn convolutions_are_computed_as_the_experiment_says() {
    let folder = tempfile::tempdir().unwrap();
    let train = |name: &str, convolution: &str| {
        let run = folder.path().join(name);
        let set = format!("model.convolution={convolution}");
        succeeded(&short_train(&run).args(["--set", &set]).output().unwrap());
        run
    };
    let (winograd, direct) = (train("winograd", "winograd"), train("direct", "direct"));
    assert_eq!(fingerprint(&train("winograd-again", "winograd")), fingerprint(&winograd));
    assert_eq!(fingerprint(&train("direct-again", "direct")), fingerprint(&direct));
    let weights = |run: &Path| fs::read(run.join("checkpoints/outer-000003.safetensors")).unwrap();
    assert_ne!(weights(&direct), weights(&winograd));
    let stored = fs::read_to_string(direct.join("experiment.toml")).unwrap();
    assert!(stored.contains("convolution = \"direct\""), "{stored}");

    // A later look at the run computes as it did; without the run, by the default.
    let summary = fs::read_to_string(direct.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let measured = summary["test"]["hwa"]["loss"].as_f64().unwrap();
    let away = |output: Output| (json(&output)["loss"].as_f64().unwrap() / measured - 1.0).abs();
    // Batches as in training: how scores are rounded depends on how many there are at once.
    let batch = ["--batch", "20"];
    let of_run = hwa(&["evaluate", "--json", "--run"]).arg(&direct).args(batch).output().unwrap();
    let best = direct.join("best.safetensors");
    let of_file = hwa(&EVALUATE).arg(best).args(batch).output().unwrap();
    let (of_run, of_file) = (away(of_run), away(of_file));
    assert!(of_run < 1e-13 && 1e-11 < of_file && of_file < 1e-4, "{of_run:e} {of_file:e}");

    let resumed = hwa(&["train", "--set", "model.convolution=winograd", "--resume"])
        .arg(&direct)
        .output()
        .unwrap();
    failed(&resumed, 2, "`model.convolution` is \"direct\" there, asked for is \"winograd\"");
    let set = ["--set", "model.convolution=fft"];
    let unknown = short_train(&folder.path().join("fft")).args(set).output().unwrap();
    failed(&unknown, 2, "model.convolution");
}
