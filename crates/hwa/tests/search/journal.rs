//! The journal of a search knows whose scores it holds.

use std::fs;

use super::bench::{Bench, write};
use super::command::{failed, json, succeeded, text};

#[test]
fn scores_of_another_version_of_the_script_are_told_of() {
    let bench = Bench::new(8);
    let few = ["--max-evals", "4"];
    succeeded(&bench.search("found", &few));
    let same = bench.search("found", &["--max-evals", "5", "--resume", "--json"]);
    assert_eq!(json(&same)["scores_of_other_versions"], 0);
    let script = fs::read_to_string(bench.at("eval.sh")).unwrap();
    fs::write(bench.at("eval.sh"), format!("{script}\n# mended")).unwrap();
    let mended = bench.search("found", &["--max-evals", "6", "--resume", "--json"]);
    assert_eq!(json(&mended)["scores_of_other_versions"], 5);
    // A file that the command writes is no version of it.
    let log = bench.at("log.txt");
    fs::write(&log, "").unwrap();
    bench.script("logs.sh", "echo x >> \"$2\"; echo 1");
    let eval = format!("sh '{}' {{weights}} '{}'", bench.at("logs.sh").display(), log.display());
    succeeded(&bench.command("logged", &eval, &few).output().unwrap());
    let more = ["--max-evals", "5", "--resume", "--json"];
    let again = bench.command("logged", &eval, &more).output().unwrap();
    assert_eq!(json(&again)["scores_of_other_versions"], 0);
    assert!(text(&mended.stderr).contains("5 of them are by another version of a file"));
}

#[test]
fn a_journal_of_something_else_is_refused_and_says_what_differs() {
    let bench = Bench::new(8);
    let few = ["--max-evals", "4"];
    succeeded(&bench.search("found", &few));
    let journal = fs::read_to_string(bench.at("found/journal.jsonl")).unwrap();
    let eval = bench.script("other.sh", "echo 1");
    let other = bench.command("found", &eval, &["--resume"]).output().unwrap();
    failed(&other, 2, "is of something else: `eval` is ");
    write(&bench.series().join("e-3.safetensors"), &[7.0, 7.0]);
    failed(&bench.search("found", &["--resume"]), 2, "`e-3.safetensors` is ");
    write(&bench.series().join("e-9.safetensors"), &[7.0, 7.0]);
    failed(&bench.search("found", &["--resume"]), 2, "`checkpoints` is 8 there, and 9 now");
    assert_eq!(fs::read_to_string(bench.at("found/journal.jsonl")).unwrap(), journal);
    // A larger budget is no other search; another series is, and begins anew if it should.
    let calls = bench.calls();
    succeeded(&bench.search("found", &["--max-evals", "6", "--force"]));
    assert_eq!(bench.calls() - calls, 6);
    succeeded(&bench.search("found", &["--max-evals", "9", "--resume"]));
    assert!(bench.calls() - calls <= 9);
}
