//! `hwa search` and `hwa average --soup` as a user meets them.
#![cfg(unix)] // its commands are scripts of a shell
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod command;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use command::{failed, hwa, json, signal, succeeded, text, train, wait_until};
use hwa_core::{Role, Statistics, Tensor, Values, Weights, mean};
use hwa_store::{Metadata, read_tensors, write_tensors};
use serde_json::{Value, json};

/// The members of the window that is worth most.
const PEAK: std::ops::RangeInclusive<i32> = 9..=14;

/// A folder with a series of two numbers, and a command that knows what its averages are worth.
///
/// Checkpoint `i` is `i` and `i` times `i`: the means of both tell windows apart.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(count: i32) -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(bench.series()).unwrap();
        for i in 1..=count {
            let x = f64::from(i);
            write(&bench.series().join(format!("e-{i}.safetensors")), &[x, x * x]);
        }
        let means = |power: i32| {
            let sum: f64 = PEAK.map(|i| f64::from(i).powi(power)).sum();
            sum / PEAK.count() as f64
        };
        // The numbers are the last sixteen bytes. It says nothing of note on the way.
        bench.script(
            "eval.sh",
            &format!(
                "echo called >> {calls}\n\
                 if [ -e {slow} ] && [ $(wc -l < {calls}) -gt 5 ]; then\n\
                 echo $$ > {pid}; sleep 600; fi\n\
                 echo evaluating \"$1\"\n\
                 tail -c 16 \"$1\" | od -An -t f8 | \
                 awk '{{ a = $1 - {a}; b = $2 - {b}; print \"score:\", 10 - a*a - b*b/400 }}'",
                calls = bench.at("calls").display(),
                slow = bench.at("slow").display(),
                pid = bench.at("pid").display(),
                a = means(1),
                b = means(2),
            ),
        );
        bench
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn series(&self) -> PathBuf {
        self.at("series")
    }

    fn script(&self, name: &str, script: &str) -> String {
        fs::write(self.at(name), script).unwrap();
        format!("sh '{}' {{weights}}", self.at(name).display())
    }

    fn calls(&self) -> usize {
        fs::read_to_string(self.at("calls")).unwrap_or_default().lines().count()
    }

    fn command(&self, out: &str, eval: &str, more: &[&str]) -> Command {
        let mut command = hwa(&["search", "--eval", eval, "--maximize", "-o"]);
        command.arg(self.at(out)).arg(self.series()).args(more);
        command
    }

    fn search(&self, out: &str, more: &[&str]) -> Output {
        let eval = format!("sh '{}' {{weights}}", self.at("eval.sh").display());
        self.command(out, &eval, more).output().unwrap()
    }

    fn names(&self, out: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(out)).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn write(path: &Path, values: &[f64]) {
    let mut weights = Weights::new();
    let values = Values::F64(values.to_vec());
    let tensor = Tensor::new(Role::Parameter, vec![values.len()], values).unwrap();
    weights.insert("w", tensor).unwrap();
    write_tensors(path, &weights, &Metadata::new()).unwrap();
}

fn window(line: &Value) -> (u64, u64, u64) {
    let number = |key: &str| line[key].as_u64().unwrap();
    (number("at"), number("length"), number("stride"))
}

/// What does not depend on the clock or the folder.
fn lasting(mut result: Value) -> Value {
    for key in ["seconds", "out", "file"] {
        result.as_object_mut().unwrap().remove(key);
    }
    result
}

#[test]
fn a_command_finds_the_window_that_is_worth_most_and_its_average_is_that_of_hwa_average() {
    let bench = Bench::new(24);
    let output = bench.search("found", &["--json"]);
    let found = json(&output);
    assert_eq!(window(&found["winner"]), (14, 6, 1), "{found}");
    assert_eq!(found["winner"]["validation"]["score"], 10.0);
    let best = found["best"].as_array().unwrap();
    assert_eq!((best.len(), &best[0]), (10, &found["winner"]));
    // The default is among what was scored: what is found is never worse.
    let usual: Vec<&str> =
        found["usual"].as_array().unwrap().iter().map(|u| u["name"].as_str().unwrap()).collect();
    assert_eq!(usual, ["the last 20", "the mean of all", "the last checkpoint"]);
    assert!(found["gain"]["validation"].as_f64().unwrap() > 0.0);
    assert!(found["untested"].as_str().unwrap().contains("--test-eval"));
    let evaluations = found["evaluations"].as_u64().unwrap() as usize;
    assert_eq!(bench.calls(), evaluations);
    assert!(evaluations <= 120);

    let out = bench.at("average.safetensors");
    let average = ["--window", "6", "--at", "14"];
    succeeded(
        &hwa(&["average"]).arg(bench.series()).arg("-o").arg(&out).args(average).output().unwrap(),
    );
    let winner = fs::read(bench.at("found/winner.safetensors")).unwrap();
    assert_eq!(winner, fs::read(&out).unwrap());
    assert_eq!(
        bench.names("found"),
        ["journal.jsonl", "result.json", "scores.csv", "scores.svg", "winner.safetensors"]
    );
    let svg = fs::read_to_string(bench.at("found/scores.svg")).unwrap();
    assert!(svg.contains("found") && svg.contains("length of the window, I"));
    let csv = fs::read_to_string(bench.at("found/scores.csv")).unwrap();
    assert!(
        csv.starts_with(
            "e,I,s,members,screened,screened_loss,validation,validation_loss\n14,6,1,6,,,10,\n"
        ),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), evaluations + 1);

    // Once more, elsewhere: the same questions and the same answers.
    let again = json(&bench.search("again", &["--json", "--threads", "1"]));
    assert_eq!(lasting(again), lasting(found));
    // And for people: the map, the ten best, the comparison.
    let shown = succeeded(&bench.search("shown", &["--plain"]));
    for part in ["I \\ e", "validation score", "the last 20", "on validation", "winner.safetensors"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains('█'), "{shown}");
}

#[test]
fn low_numbers_can_be_good_and_test_is_read_once_after_the_choice() {
    let bench = Bench::new(12);
    let eval = bench.script(
        "loss.sh",
        "tail -c 16 \"$1\" | od -An -t f8 | awk '{ print ($1 - 5) * ($1 - 5) }'",
    );
    let test = bench.script(
        "test.sh",
        &format!(
            "echo tested >> {}; tail -c 16 \"$1\" | od -An -t f8 | awk '{{ print $1 }}'",
            bench.at("tests").display()
        ),
    );
    let mut command =
        hwa(&["search", "--minimize", "--json", "--eval", &eval, "--test-eval", &test]);
    command.arg(bench.series()).arg("-o").arg(bench.at("found"));
    let found = json(&command.output().unwrap());
    // Many windows have the mean 5: the latest, of 1 to 9, is taken.
    assert_eq!(window(&found["winner"]), (9, 9, 1), "{found}");
    assert_eq!(found["winner"]["test"]["score"], 5.0);
    // Two usual windows, 1 to 12 and 12: 6.5 and 12; low is good.
    assert_eq!(found["gain"], json!({ "validation": 2.25, "test": 1.5 }));
    assert_eq!(fs::read_to_string(bench.at("tests")).unwrap().lines().count(), 3);
    // A search that is over answers again, and reads nothing.
    let again = json(&command.arg("--resume").output().unwrap());
    assert_eq!(lasting(again), lasting(found));
    assert_eq!(fs::read_to_string(bench.at("tests")).unwrap().lines().count(), 3);
    // Another test is another number, for the same window.
    let seven = bench.script("seven.sh", "echo 7");
    let mut command =
        hwa(&["search", "--minimize", "--json", "--eval", &eval, "--test-eval", &seven]);
    command.arg(bench.series()).arg("-o").arg(bench.at("found")).arg("--resume");
    let other = json(&command.output().unwrap());
    assert_eq!(
        (window(&other["winner"]), &other["winner"]["test"]["score"]),
        ((9, 9, 1), &json!(7.0))
    );
    assert_eq!(other["test_read_before"], false);
    // It was read for windows that are no longer what is found, whatever has read it.
    let journal = bench.at("found/journal.jsonl");
    let moved = fs::read_to_string(&journal).unwrap();
    let moved = moved.replace(
        "{\"look\":\"test\",\"window\":{\"at\":9,\"length\":9,",
        "{\"look\":\"test\",\"window\":{\"at\":9,\"length\":8,",
    );
    fs::write(&journal, moved).unwrap();
    let eight = bench.script("eight.sh", "echo 8");
    let mut command =
        hwa(&["search", "--minimize", "--json", "--eval", &eval, "--test-eval", &eight]);
    command.arg(bench.series()).arg("-o").arg(bench.at("found")).arg("--resume");
    let output = command.output().unwrap();
    assert_eq!(json(&output)["test_read_before"], true);
    assert!(text(&output.stderr).contains("test was read before, for another window"));
    // Whoever begins anew has seen it all the same.
    let mut command =
        hwa(&["search", "--minimize", "--json", "--eval", &eval, "--test-eval", &eight]);
    command.arg(bench.series()).arg("-o").arg(bench.at("found")).arg("--force");
    let anew = command.output().unwrap();
    assert_eq!(json(&anew)["test_read_before"], true);
    assert!(!text(&anew.stderr).contains("known from before"), "{}", text(&anew.stderr));
}

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
fn commands_that_fail_are_told_of_and_the_search_can_go_on() {
    let bench = Bench::new(6);
    let calls = bench.at("calls").display().to_string();
    let fails = |script: &str, more: &[&str], expected: &str| {
        // The first goes well.
        let first = format!("echo >> {calls}; [ $(wc -l < {calls}) = 1 ] && echo nan && exit");
        let eval = bench.script("wrong.sh", &format!("{first}\n{script}"));
        let _ = fs::remove_file(&calls);
        let output = bench.command("found", &eval, more).output().unwrap();
        failed(&output, 1, expected);
        let goes_on = script != "echo nan";
        failed(
            &output,
            1,
            if goes_on { "--resume goes on with it" } else { "--force begins anew" },
        );
        assert_eq!(bench.names("found"), ["journal.jsonl"]);
        fs::remove_dir_all(bench.at("found")).unwrap();
        text(&output.stderr)
    };
    let told = fails("echo no GPU >&2; exit 7", &[], "ended with exit code 7");
    assert!(told.contains("no GPU"), "{told}");
    fails("echo accuracy unknown", &[], "its last line is \"accuracy unknown\"");
    fails("true", &[], "printed nothing");
    fails("kill -9 $$", &[], "was ended: signal: 9");
    fails("echo nan", &[], "windows scored a finite number");
    let slow = ["--eval-timeout", "0.3s"];
    fails("echo loading >&2; sleep 600 & wait", &slow, "took longer than 0.3 s (--eval-timeout)");
    // Before there is a score there is nothing to go on with, and nothing is left.
    let gone = bench.command("found", "/no/such/program {weights}", &[]).output().unwrap();
    failed(&gone, 1, "cannot be run");
    assert!(!text(&gone.stderr).contains("--resume") && !bench.at("found").exists());
}

#[test]
fn a_window_that_is_no_number_cannot_win() {
    let bench = Bench::new(8);
    // Whatever holds the last checkpoints has diverged.
    let eval = bench.script(
        "eval2.sh",
        "tail -c 16 \"$1\" | od -An -t f8 | awk '{ print ($1 > 5) ? \"nan\" : $1 }'",
    );
    let output = bench.command("found", &eval, &["--json"]).output().unwrap();
    let found = json(&output);
    assert_eq!(found["winner"]["validation"]["score"], 5.0, "{found}");
    assert!(text(&output.stderr).contains("NaN for the average of 1 up to 8: it cannot win"));
}

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

#[test]
fn what_the_scores_are_with_is_said() {
    let bench = Bench::new(0);
    for i in 1..=3 {
        let mut weights = Weights::new();
        let mean = Tensor::new(Role::Statistic, vec![1], Values::F32(vec![i as f32])).unwrap();
        weights.insert("bn.running_mean", mean).unwrap();
        let path = bench.series().join(format!("e-{i}.safetensors"));
        write_tensors(&path, &weights, &Metadata::new()).unwrap();
    }
    let eval = bench.script("one.sh", "echo 1");
    let output = bench.command("found", &eval, &["--json"]).output().unwrap();
    assert_eq!(json(&output)["statistics"], "averaged");
    assert!(text(&output.stderr).contains("averaged batch-norm statistics, which fit no weights"));
    let result = fs::read_to_string(bench.at("found/result.json")).unwrap();
    assert!(result.contains("\"statistics\": \"averaged\""), "{result}");
    let mut command = hwa(&["average", "--soup", "--eval", &eval, "--maximize", "-o"]);
    let soup = command.arg(bench.at("soup.safetensors")).arg(bench.series()).output().unwrap();
    succeeded(&soup);
    assert!(text(&soup.stderr).contains("averaged batch-norm statistics, which fit no weights"));
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

#[test]
fn a_larger_budget_never_finds_less_and_counts_what_was_scored_before() {
    let bench = Bench::new(24);
    let score = |found: &Value| found["winner"]["validation"]["score"].as_f64().unwrap();
    let mut before = f64::NEG_INFINITY;
    for most in [6, 7, 9, 14, 15, 22, 30, 31, 40] {
        let number = most.to_string();
        let found = json(&bench.search("found", &["--json", "--resume", "--max-evals", &number]));
        assert!(bench.calls() <= most, "{} of {most}", bench.calls());
        assert_eq!(found["evaluations"].as_u64().unwrap() as usize, bench.calls());
        assert!(score(&found) >= before, "{most}: {found}");
        before = score(&found);
        let csv = fs::read_to_string(bench.at("found/scores.csv")).unwrap();
        assert_eq!(csv.lines().count(), bench.calls() + 1);
    }
    // With fewer than were scored nothing is scored, and nothing is forgotten.
    let calls = bench.calls();
    let fewer = json(&bench.search("found", &["--json", "--resume", "--max-evals", "6"]));
    assert_eq!((bench.calls(), score(&fewer)), (calls, before));
    assert_eq!(fewer["ended"], "max_evals");
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

#[test]
fn budgets_are_kept() {
    let bench = Bench::new(24);
    let found = json(&bench.search("few", &["--json", "--max-evals", "7"]));
    assert_eq!((&found["evaluations"], &found["ended"]), (&json!(7), &json!("max_evals")));
    assert_eq!(bench.calls(), 7);
    // Without time there are the usual windows.
    let found = json(&bench.search("none", &["--json", "--max-time", "0s"]));
    assert_eq!((&found["evaluations"], &found["ended"]), (&json!(3), &json!("max_time")));
    assert!(
        found["usual"].as_array().unwrap().iter().any(|u| window(u) == window(&found["winner"]))
    );
    failed(&bench.search("less", &["--max-evals", "2"]), 2, "at least 3 are needed");
    // Of one member a stride says nothing; the usual windows have theirs.
    succeeded(&bench.search("strided", &["--strides", "3"]));
    let csv = fs::read_to_string(bench.at("strided/scores.csv")).unwrap();
    let other = |line: &&str| {
        let cells: Vec<&str> = line.split(',').collect();
        cells[2] != "3" && cells[3] != "1"
    };
    assert_eq!(csv.lines().skip(1).filter(other).count(), 2, "{csv}");
}

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
