//! Every method trains, and has the levels of weights that belong to it.

use super::command::{hwa, json, text};
use super::{EVALUATE, resume, short_train};

/// On a real network, from end to end; most of them have tests of their own.
#[test]
fn every_method_trains() {
    let folder = tempfile::tempdir().unwrap();
    for method in hwa::train::Method::ALL {
        let method = method.name();
        let run = folder.path().join(method);
        let set = format!("method={method}");
        let sets = ["--set", &set, "--set", "swa.start=50%"];
        let result = json(&short_train(&run).args(sets).output().unwrap());
        let top1 = result["test"]["chosen"].as_f64().unwrap();
        assert!(top1 > 15.0, "{method}: {top1} is hardly better than chance");
        let best = run.join("best.safetensors");
        let evaluated = json(&hwa(&EVALUATE).arg(best).output().unwrap());
        assert_eq!(evaluated["top1"], top1, "{method}: the saved weights are the measured ones");
    }
}

#[test]
fn levels_that_a_method_does_not_have_are_null() {
    let folder = tempfile::tempdir().unwrap();
    for (method, outer, hwa) in [
        ("sgd", false, false),
        ("online", true, false),
        ("lawa", false, true),
        ("swa", false, true),
    ] {
        let run = folder.path().join(method);
        let mut command = short_train(&run);
        command.args(["--set", &format!("method={method}"), "--set", "swa.start=30%"]);
        let result = json(&command.output().unwrap());
        assert_eq!(result["test"]["outer"].is_number(), outer, "{method}: {result}");
        assert_eq!(result["test"]["hwa"].is_number(), hwa, "{method}: {result}");
        assert!(result["test"]["inner"].is_number() && result["test"]["chosen"].is_number());
        let output = resume(&run);
        assert_eq!(text(&output.stderr).contains("outer"), outer, "{method} names what it has");
    }
}
