//! A search that is refused says why, writes nothing, and does not disturb another.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use super::bench::{Bench, write};
use super::command::{failed, hwa, json, succeeded, wait_until};
use super::window;

#[test]
fn what_cannot_be_searched_is_said_before_anything_is_written() {
    let bench = Bench::new(4);
    failed(&bench.command("x", "sh a {weights} | tail", &[]).output().unwrap(), 2, "for a shell");
    failed(&bench.command("x", "sh a", &[]).output().unwrap(), 2, "{weights} is not in it");
    let plain = |arguments: &[&str], series: &Path| {
        hwa(&["search"]).args(arguments).arg(series).arg("-o").arg(bench.at("x")).output().unwrap()
    };
    failed(&plain(&[], &bench.series()), 2, "nothing tells what an average is worth");
    failed(&plain(&["--eval", "a {weights}"], &bench.series()), 2, "--maximize or --minimize");
    failed(&plain(&["--model", "resnet8"], &bench.series()), 2, "--data");
    let zoo = ["--model", "resnet8", "--data", "digits"];
    failed(&plain(&zoo, &bench.series()), 1, "as resnet8: ");
    failed(&plain(&zoo, &bench.at("nowhere")), 2, "is not there");
    let within = bench.search("series/found", &[]);
    failed(&within, 2, "lies in the folder of the checkpoints");
    failed(&bench.search("series", &[]), 2, "lies in the folder of the checkpoints");
    failed(&bench.search("eval.sh", &[]), 2, "is a file; --out names a folder");
    assert!(!bench.at("series/found").exists());

    write(&bench.series().join("e-2.safetensors"), &[f64::NAN, 1.0]);
    failed(&bench.search("bad", &[]), 1, "e-2.safetensors: `w` holds NaN");
    let skipped = json(&bench.search("skipped", &["--skip-bad", "--json"]));
    assert_eq!(skipped["left_out"].as_array().unwrap().len(), 1);
    // The others keep their numbers.
    assert_eq!(window(&skipped["usual"][0]), (4, 4, 1));
    assert_eq!(skipped["usual"][0]["members"].as_array().unwrap().len(), 3);

    fs::create_dir(bench.at("taken")).unwrap();
    fs::write(bench.at("taken/winner.safetensors"), "mine").unwrap();
    failed(&bench.search("taken", &["--skip-bad"]), 2, "exists; --force overwrites it");
    assert_eq!(fs::read_to_string(bench.at("taken/winner.safetensors")).unwrap(), "mine");
    succeeded(&bench.search("taken", &["--skip-bad", "--force"]));
}

#[test]
fn a_search_that_is_refused_does_not_disturb_the_one_at_work() {
    let bench = Bench::new(6);
    let eval = bench.script(
        "wait.sh",
        &format!(
            "while [ ! -e {} ]; do sleep 0.02; done; test -s \"$1\" && echo 5",
            bench.at("go").display()
        ),
    );
    let mut command = bench.command("found", &eval, &["--json"]);
    let first = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let candidate = bench.at("found/candidate.safetensors");
    wait_until(|| candidate.exists());
    for more in ["--resume", "--force"] {
        failed(&bench.command("found", &eval, &[more]).output().unwrap(), 2, "in use");
    }
    // Nor does one that fails before it can ask whose folder it is.
    let bad = bench.series().join("e-9.safetensors");
    fs::write(&bad, "no tensors").unwrap();
    failed(&bench.command("found", &eval, &["--resume"]).output().unwrap(), 1, "e-9");
    assert!(candidate.exists() && bench.at("found/journal.jsonl").exists());
    fs::write(bench.at("go"), "").unwrap();
    let found = json(&first.wait_with_output().unwrap());
    assert_eq!(found["winner"]["validation"]["score"], 5.0);
    assert!(!candidate.exists());
}
