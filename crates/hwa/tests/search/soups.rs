//! A soup keeps what does not make it worse.

use hwa_store::read_tensors;
use serde_json::json;

use super::bench::{Bench, write};
use super::command::{failed, hwa, json, train};

#[test]
fn a_soup_keeps_what_does_not_make_it_worse() {
    let bench = Bench::new(0);
    // 4, 1, 3 and -2: the nearer the mean is to 0, the better.
    for (i, x) in [4.0, 1.0, 3.0, -2.0].into_iter().enumerate() {
        write(&bench.series().join(format!("e-{}.safetensors", i + 1)), &[x]);
    }
    let eval = bench
        .script("abs.sh", "tail -c 8 \"$1\" | od -An -t f8 | awk '{ print ($1 < 0) ? -$1 : $1 }'");
    let soup = |more: &[&str]| {
        let mut command = hwa(&["average", "--soup", "--eval", &eval, "--minimize", "--json"]);
        command.arg(bench.series()).arg("-o").arg(bench.at("soup.safetensors")).args(more);
        command.output().unwrap()
    };
    let told = json(&soup(&[]));
    let names: Vec<&str> =
        told["members"].as_array().unwrap().iter().map(|m| m.as_str().unwrap()).collect();
    assert!(names.len() == 2 && names[0].ends_with("e-2.safetensors"), "{names:?}");
    assert!(names[1].ends_with("e-4.safetensors"), "{names:?}");
    assert_eq!(told["soup"]["score"], 0.5);
    assert_eq!(told["soup"]["alone"], json!([4.0, 1.0, 3.0, 2.0]));
    let (weights, about) = read_tensors(&bench.at("soup.safetensors")).unwrap();
    assert_eq!(weights.get("w").unwrap().values().to_f64(), [-0.5]);
    assert_eq!(about["members"], json!(["e-2.safetensors", "e-4.safetensors"]));
    assert_eq!(about["chosen_by"], "greedy soup");
    // Nothing is left of what was tried.
    let left: Vec<String> = bench.names(".").into_iter().filter(|n| n.starts_with('.')).collect();
    assert!(left.is_empty(), "{left:?}");

    failed(&soup(&[]), 2, "exists; --force overwrites it");
    failed(&soup(&["--force", "--window", "2"]), 2, "cannot be used with");
    let out = bench.at("mean.safetensors");
    let mut command = hwa(&["average", "--eval", &eval, "--minimize", "-o"]);
    failed(&command.arg(&out).arg(bench.series()).output().unwrap(), 2, "--eval is for --soup");
    let mut command = hwa(&["average", "--soup", "-o"]);
    let nobody = command.arg(&out).arg(bench.series()).output().unwrap();
    failed(&nobody, 2, "nothing tells what an average is worth");
    assert!(!out.exists());
}

#[test]
fn the_soup_of_a_run_is_worth_at_least_its_best_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &["data.train_examples=160", "optimizer.batch=20", "schedule.epochs=4"]);
    let out = folder.path().join("soup.safetensors");
    let mut command = hwa(&["average", "--soup", "--json"]);
    let told = json(&command.arg(&run).arg("-o").arg(&out).output().unwrap());
    let alone = told["soup"]["alone"].as_array().unwrap().iter().map(|a| a.as_f64().unwrap());
    assert!(told["soup"]["score"].as_f64().unwrap() >= alone.fold(0.0, f64::max), "{told}");
    let mut evaluate = hwa(&["evaluate", "--json", "--split", "validation", "--run"]);
    let evaluated = json(&evaluate.arg(&run).arg("--weights").arg(&out).output().unwrap());
    assert_eq!(evaluated["images"], 360);
    // What is written is what was scored, with its statistics.
    assert_eq!(told["statistics"], "re-estimated");
    assert_eq!(read_tensors(&out).unwrap().1["statistics"], "re-estimated");
    assert_eq!(evaluated["top1"], told["soup"]["score"]);
    let mut command = hwa(&["average", "--soup", "--force", "--dtype", "f16"]);
    let narrow = command.arg(&run).arg("-o").arg(&out).output().unwrap();
    failed(&narrow, 2, "--dtype is not for the soup of a network");
}
