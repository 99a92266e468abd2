//! Saved weights: measured as their run measured them, refused where they do not fit.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::command::{failed, hwa, json, succeeded, text};
use super::{EVALUATE, short_train};

#[test]
fn statistics_that_are_missing_are_re_estimated() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    succeeded(&short_train(&run).output().unwrap());
    // Outer checkpoints have no statistics.
    let outer = run.join("checkpoints/outer-000003.safetensors");
    let evaluated = json(&hwa(&EVALUATE).arg(&outer).output().unwrap());
    assert_eq!(evaluated["statistics"], "re-estimated");

    let ready = folder.path().join("ready.safetensors");
    let mut command =
        hwa(&["recalibrate", "--model", "resnet8", "--data", "digits", "--json", "--all"]);
    command.arg("--weights").arg(&outer).arg("-o").arg(&ready);
    let recalibrated = json(&command.output().unwrap());
    assert_eq!(recalibrated["images"], 1437, "every image that is not test");
    let evaluated = json(&hwa(&EVALUATE).arg(&ready).output().unwrap());
    assert_eq!(evaluated["statistics"], "stored");
    failed(&command.output().unwrap(), 2, "exists; --force overwrites it");
}

/// A run that held out another number of images is measured on its own.
#[test]
fn a_run_is_evaluated_on_its_own_split() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut command = short_train(&run);
    let result = json(&command.args(["--set", "data.validation=100"]).output().unwrap());
    let evaluate = |arguments: &[&str]| {
        let mut command = hwa(&["evaluate", "--json", "--run"]);
        json(&command.arg(&run).args(arguments).output().unwrap())
    };
    let validation = evaluate(&["--split", "validation"]);
    assert_eq!((&validation["split"], &validation["images"]), (&"validation".into(), &100.into()));
    assert_eq!(validation["top1"], result["validation"]["hwa"]);
    assert_eq!(evaluate(&[])["top1"], result["test"]["hwa"]);
    // Statistics are re-estimated as the run did it: the last outer weights are worth the same.
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(run.join("summary.json")).unwrap()).unwrap();
    let cycle = summary["last_cycle"].as_u64().unwrap();
    let outer = run.join(format!("checkpoints/outer-{cycle:06}.safetensors"));
    let of_outer = evaluate(&["--weights", outer.to_str().unwrap()]);
    assert_eq!(of_outer["statistics"], "re-estimated");
    for key in ["top1", "loss"] {
        assert_eq!(of_outer[key], summary["test"]["outer"][key], "{key}");
    }
    // Without the run it is the default split, and says so.
    let mut command = hwa(&EVALUATE);
    command.arg(run.join("best.safetensors")).args(["--split", "validation"]);
    let message = text(&command.output().unwrap().stderr);
    assert!(message.contains("validation: the default split, 360 images held out"), "{message}");

    let ready = folder.path().join("ready.safetensors");
    let mut command = hwa(&["recalibrate", "--tolerance", "0", "--run"]);
    let output = command.arg(&run).arg("-o").arg(&ready).output().unwrap();
    succeeded(&output);
    let message = text(&output.stderr);
    assert!(message.contains("not reached (") && message.contains("all 160 training images used"));
    failed(&hwa(&["evaluate", "--run", "nowhere"]).output().unwrap(), 2, "is not a run directory");
}

#[test]
fn weights_that_do_not_fit_name_the_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    succeeded(&short_train(&run).output().unwrap());
    let evaluate = |model: &str, weights: &Path| {
        let mut command = hwa(&["evaluate", "--data", "digits", "--model", model, "--weights"]);
        command.arg(weights).output().unwrap()
    };
    let best = run.join("best.safetensors");
    failed(&evaluate("resnet20", &best), 1, "missing: `layer1.1.bn1.bias`, ");
    let cut = folder.path().join("cut.safetensors");
    let bytes = fs::read(&best).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    failed(&evaluate("resnet8", &cut), 1, "is a safetensors file that is cut off or damaged");
    // PyTorch's files come the same way: this one holds two layers, that one a command.
    let saved = |name| Path::new("../hwa-store/tests/golden").join(name);
    failed(&evaluate("resnet8", &saved("training.pth")), 1, "missing: `bn1.bias`");
    failed(&evaluate("resnet8", &saved("system.pt")), 1, "it asks for `posix.system`: refused");
}
