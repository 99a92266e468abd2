//! What needs no run: help, lists and benchmarks.

use super::command::{hwa, json, succeeded};

#[test]
fn every_command_has_help_with_an_example() {
    for command in [
        vec![],
        vec!["train"],
        vec!["evaluate"],
        vec!["recalibrate"],
        vec!["models"],
        vec!["data", "list"],
        vec!["data", "check"],
        vec!["bench", "step"],
        vec!["bench", "recalibrate"],
    ] {
        let help = succeeded(&hwa(&command).arg("--help").output().unwrap());
        assert!(help.contains("Example"), "{command:?}");
        assert!(command.first() != Some(&"train") || help.contains("docs/experiment.md"));
    }
}

#[test]
fn lists_and_benchmarks_speak_json() {
    let parse = |arguments: &[&str]| json(&hwa(arguments).output().unwrap());
    let models = parse(&["models", "--data", "cifar10", "--json"]);
    let resnet20 = models.as_array().unwrap().iter().find(|m| m["name"] == "resnet20").unwrap();
    assert_eq!(resnet20["parameters"], 269_722);
    let usual = parse(&["models", "--json"]);
    let resnet18 = usual.as_array().unwrap().iter().find(|m| m["name"] == "resnet18").unwrap();
    assert_eq!(resnet18["input"], serde_json::json!([224, 224, 3]));
    assert_eq!((&resnet18["classes"], &resnet20["classes"]), (&1000.into(), &10.into()));
    let sets = parse(&["data", "list", "--json"]);
    let cifar100 = sets.as_array().unwrap().iter().find(|d| d["name"] == "cifar100").unwrap();
    assert_eq!(cifar100["train_examples"], 45_000);
    assert_eq!(cifar100["published_train_examples"], 50_000);
    assert!(cifar100["found"].is_boolean());
    // The table says the same.
    let table = succeeded(&hwa(&["data", "list"]).output().unwrap());
    let row = table.lines().find(|line| line.starts_with("cifar100 ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[3..7], ["45000", "5000", "50000", "10000"]);
    let digits = parse(&["data", "check", "digits", "--json"]);
    assert_eq!(digits["splits"][2]["examples"], 360);
    let bench =
        parse(&["bench", "step", "--model", "resnet8", "--batch", "4", "--size", "8", "--json"]);
    assert!(bench["images_per_second"].as_f64().unwrap() > 0.0);
    assert!(bench["step_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_speed_of_recalibration_is_measured_over_every_image() {
    // Three batches, the last with two images.
    let shape = ["--batch", "4", "--images", "10", "--size", "8", "--threads", "2"];
    let bench = || {
        let mut command = hwa(&["bench", "recalibrate", "--model", "resnet8"]);
        command.args(shape);
        command
    };
    let measured = json(&bench().arg("--json").output().unwrap());
    assert_eq!(measured["model"], "resnet8");
    for (key, expected) in [("images", 10), ("batch", 4), ("threads", 2)] {
        assert_eq!(measured[key], expected, "{key}");
    }
    assert!(measured["images_per_second"].as_f64().unwrap() > 0.0);
    assert!(measured.get("peak_rss_mb").is_some());
    let line = succeeded(&bench().output().unwrap());
    assert!(line.starts_with("resnet8: "), "{line}");
    assert!(line.contains(" images/s over 10 images on 2 threads, peak memory "), "{line}");
}
