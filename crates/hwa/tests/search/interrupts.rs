//! An interrupt ends a search and the command that it waits for; the search can go on.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use super::bench::Bench;
use super::command::{failed, json, signal, wait_until};
use super::lasting;

#[test]
fn an_interrupted_search_goes_on_and_ends_as_an_uninterrupted_one() {
    let bench = Bench::new(24);
    let whole = json(&bench.search("whole", &["--json", "--max-evals", "40"]));
    let journal = fs::read_to_string(bench.at("whole/journal.jsonl")).unwrap();
    fs::remove_file(bench.at("calls")).unwrap();
    fs::write(bench.at("slow"), "").unwrap();
    let eval = format!("sh '{}' {{weights}}", bench.at("eval.sh").display());
    let mut command = bench.command("found", &eval, &["--json", "--max-evals", "40"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| fs::read_to_string(bench.at("pid")).is_ok_and(|pid| pid.ends_with('\n')));
    assert!(signal(child.id(), "-INT"));
    let output = child.wait_with_output().unwrap();
    failed(&output, 130, "interrupted; the same command with --resume goes on with it");
    // The command that was waited for is gone, and so is its file.
    let pid = fs::read_to_string(bench.at("pid")).unwrap();
    assert!(!signal(pid.trim(), "-0"), "{pid} is alive");
    assert_eq!(bench.names("found"), ["journal.jsonl"]);

    fs::remove_file(bench.at("slow")).unwrap();
    failed(&bench.search("found", &[]), 2, "--resume goes on with it, --force begins anew");
    let before = bench.calls();
    let resumed = json(&bench.search("found", &["--json", "--max-evals", "40", "--resume"]));
    assert_eq!(lasting(resumed), lasting(whole.clone()));
    // Five were known, and one was interrupted.
    assert_eq!(before, 6);
    assert_eq!(bench.calls() - before, whole["evaluations"].as_u64().unwrap() as usize - 5);

    // A kill in the middle of a line: what is whole is kept.
    fs::create_dir(bench.at("torn")).unwrap();
    fs::write(bench.at("torn/journal.jsonl"), &journal[..journal.len() / 2]).unwrap();
    let torn = json(&bench.search("torn", &["--json", "--max-evals", "40", "--resume"]));
    assert_eq!(lasting(torn), lasting(whole));
}

#[test]
fn a_second_interrupt_leaves_at_once_and_takes_the_command_along() {
    let bench = Bench::new(4);
    let pid = bench.at("stubborn");
    let eval = bench.script(
        "stubborn.sh",
        &format!("trap '' TERM; echo $$ > {}; while :; do sleep 0.05; done", pid.display()),
    );
    let mut command = bench.command("found", &eval, &[]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until(|| fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
    // Within the two seconds that it has to end by itself.
    for _ in 0..2 {
        signal(child.id(), "-INT");
        thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let pid = fs::read_to_string(pid).unwrap();
    let gone = (0..200).any(|_| {
        thread::sleep(Duration::from_millis(10));
        !signal(pid.trim(), "-0")
    });
    if !gone {
        signal(pid.trim(), "-KILL");
    }
    assert!(gone, "{pid} is alive");
}
