//! A command as the judge: what it says is worth most is found, and what it does wrong is told.

use std::fs;

use hwa_core::{Role, Tensor, Values, Weights};
use hwa_store::{Metadata, write_tensors};
use serde_json::json;

use super::bench::Bench;
use super::command::{failed, hwa, json, succeeded, text};
use super::{lasting, window};

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
