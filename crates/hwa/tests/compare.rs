//! `hwa compare` as a user meets it.
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod command;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[cfg(unix)]
use command::run::has_state;
use command::{failed, hwa, json, succeeded, text};
#[cfg(unix)]
use command::{signal, wait_until};
use serde_json::Value;

/// Runs of a second: 3 cycles of 8 steps on 160 digits.
const SHORT: &str = r#"
name = "short"
title = "Two methods on digits"
seeds = [1, 2]
methods = [
    { label = "CA", method = "sgd" },
    { label = "LAWA", method = "lawa", hwa = { window_length = 2 } },
    { label = "HWA", method = "hwa", hwa = { window_length = [1, 2] } },
]
networks = ["resnet8"]
datasets = ["digits"]

[experiment]
data = { train_examples = 160 }
optimizer = { batch = 20 }
schedule = { epochs = 3 }
evaluate = { every = 1 }
checkpoints = { state_every = 3 }

[paper.digits.resnet8]
HWA = 99.0
"#;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("c.toml"), text).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn compare(&self, arguments: &[&str]) -> Command {
        let mut command = hwa(&["compare", "c.toml", "--plain", "--cores", "2"]);
        command.current_dir(self.folder.path()).args(arguments);
        command
    }
}

/// What a run trained, without what depends on the clock.
fn weights(run: &Path) -> Vec<u8> {
    fs::read(run.join("best.safetensors")).unwrap()
}

#[test]
fn methods_are_compared_and_a_second_time_nothing_is_trained() {
    let place = Place::new(SHORT);
    let output = place.compare(&["--json"]).output().unwrap();
    let result = json(&output);
    let said = text(&output.stderr);
    // Seed by seed, large runs first; those of one model are side by side.
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("seed")).collect();
    let begun = |line: &str| lines.iter().position(|l| l.starts_with(line)).unwrap();
    assert_eq!(begun("began: HWA, seed 1"), 0, "{said}");
    assert_eq!(begun("began: LAWA, seed 1"), begun("began: CA, seed 1") + 1, "{said}");
    assert!(begun("began: CA, seed 1") < begun("began: HWA, seed 2"), "{said}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("began")).count(), 8, "{said}");

    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["per_model"], rows[0]["total"], "one gradient: one run for both budgets");
    let group = &rows[2]["per_model"];
    assert_eq!((&group["top1"]["n"], &group["planned"]), (&Value::from(2), &Value::from(2)));
    assert_eq!((&group["runs"][0]["models"], &group["runs"][0]["steps"]), (&2.into(), &24.into()));
    assert_eq!(rows[2]["total"]["runs"][0]["steps"], 12, "half the steps for each of two models");
    // Three cycles were looked at, by HWA with two windows, which are the same in the first.
    let candidates = |row: usize| &rows[row]["per_model"]["runs"][0]["candidates"];
    assert_eq!([0, 1, 2].map(candidates), [&3.into(), &3.into(), &5.into()] as [&Value; 3]);
    let parts = [&group["runs"][0]["online"], &group["runs"][0]["windows"][1]];
    assert_eq!(parts.map(|part| &part["candidates"]), [&Value::from(3); 2]);
    assert_eq!(rows[2]["paper"]["top1"], 99.0);
    if cfg!(unix) {
        assert!(group["cpu"]["mean"].as_f64().unwrap() > 0.0);
        assert!(group["peak_memory_mb"].as_f64().unwrap() > 10.0);
    }

    let out = place.path("runs/short");
    let markdown = fs::read_to_string(out.join("short.md")).unwrap();
    assert!(markdown.starts_with("# Two methods on digits\n"), "{markdown}");
    assert!(markdown.contains("| HWA | ") && markdown.contains(" | 99.00 | "), "{markdown}");
    let never = "HWA: at equal gradients a window of 2 never slides: there are 2 cycles.";
    assert_eq!(markdown.matches("never slides").count(), 1, "{markdown}");
    assert!(markdown.contains(never), "{markdown}");
    let csv = fs::read_to_string(out.join("short.csv")).unwrap();
    // A head, three methods and two windows of one of them, by two budgets.
    assert_eq!(csv.lines().count(), 1 + 2 * (3 + 2), "{csv}");
    assert!(csv.contains(",\"HWA, I = 1\",per-model,"), "{csv}");

    // The figures are those of the runs, and the runs are those of `hwa train`.
    let run = out.join("digits/resnet8/hwa/seed2");
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(run.join("summary.json")).unwrap()).unwrap();
    assert_eq!(group["runs"][1]["top1"], summary["test"]["chosen"]["top1"]);
    let mut alone = hwa(&["train"]);
    alone.arg(run.join("experiment.toml")).arg("--out").arg(place.path("alone"));
    succeeded(&alone.output().unwrap());
    assert_eq!(weights(&run), weights(&place.path("alone")));

    let again = place.compare(&[]).output().unwrap();
    assert!(succeeded(&again).contains("HWA"), "{}", text(&again.stdout));
    assert!(text(&again.stderr).contains("0 of 8 runs to train"), "{}", text(&again.stderr));
    assert!(!text(&again.stderr).contains("began"), "{}", text(&again.stderr));

    // A part of it is shown; the files are of everything all the same.
    let part = ["--tables", "--only", "CA", "--seeds", "2"];
    let shown = succeeded(&place.compare(&part).output().unwrap());
    assert!(shown.contains("CA") && !shown.contains("HWA"), "{shown}");
    let row = shown.lines().find(|line| line.starts_with("CA")).unwrap();
    assert!(!row.contains('±'), "one seed has no deviation: {shown}");
    assert_eq!(fs::read_to_string(out.join("short.md")).unwrap(), markdown);
}

#[test]
fn what_another_machine_has_finished_counts_as_done() {
    let there = Place::new(SHORT);
    let part = ["--only", "CA", "--only", "LAWA", "--seeds", "1"];
    succeeded(&there.compare(&part).output().unwrap());
    let table = there.path("runs/short/short.json");
    let first: Value = serde_json::from_str(&fs::read_to_string(&table).unwrap()).unwrap();
    assert!(!first.to_string().contains("seed1"), "no path of the other machine: {first}");

    let here = Place::new(SHORT);
    let with = ["--only", "CA", "--only", "LAWA", "--with", table.to_str().unwrap()];
    let output = here.compare(&with).output().unwrap();
    succeeded(&output);
    let said = text(&output.stderr);
    let begun: Vec<&str> = said.lines().filter(|line| line.starts_with("began")).collect();
    assert_eq!(begun, ["began: CA, seed 2", "began: LAWA, seed 2"], "{said}");
    let both = fs::read_to_string(here.path("runs/short/short.json")).unwrap();
    let both: Value = serde_json::from_str(&both).unwrap();
    for row in [0, 1] {
        let runs = &both["rows"][row]["per_model"]["runs"];
        assert_eq!(runs[0], first["rows"][row]["per_model"]["runs"][0]);
        assert_eq!((&runs[1]["seed"], runs[2].is_null()), (&2.into(), true));
    }
    // A table is not forgotten: neither without `--with` nor when runs are removed.
    fs::remove_dir_all(here.path("runs/short/digits")).unwrap();
    let kept = ["--tables", "--json", "--only", "CA"];
    let again = json(&here.compare(&kept).output().unwrap());
    assert_eq!(again["rows"][0]["per_model"], both["rows"][0]["per_model"]);
    // But what is trained is known from runs and from `--with` alone.
    let dry = succeeded(&here.compare(&["--dry-run", "--only", "CA"]).output().unwrap());
    assert!(dry.contains("2 of 2 runs to train"), "{dry}");
    assert!(dry.contains("2 of these have figures in runs/short/short.json"), "{dry}");
}

#[test]
fn outer_weights_are_worth_what_online_averaging_gives() {
    let entries = "methods = [\n    { label = \"Outer\", outer_of = \"HWA\" },\n    \
                   { label = \"Online\", method = \"online\" },";
    let place = Place::new(&SHORT.replace("methods = [", entries));
    let only = ["--only", "Outer", "--only", "Online", "--seeds", "1"];
    let output = place.compare(&only).arg("--json").output().unwrap();
    let result = json(&output);
    let of = |method: &str| {
        let rows = result["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["method"] == method).unwrap();
        ["per_model", "total"].map(|budget| {
            let run = &row[budget]["runs"][0];
            ["top1", "top5", "validation_top1", "chosen_cycle"].map(|key| run[key].clone())
        })
    };
    assert_eq!(of("Outer"), of("Online"));
    assert!(of("Outer")[0][0].as_f64().unwrap() > 10.0);
    let said = text(&output.stderr);
    assert_eq!(said.matches("began: ").count(), 4, "two methods, two budgets: {said}");
    let notes = result["notes"].to_string();
    assert!(notes.contains("Outer: the outer weights alone of the runs of HWA"), "{notes}");
    // Beside the reference: the same runs, so no difference.
    let with = SHORT.replace("methods = [", &format!("reference = \"Online\"\n{entries}"));
    fs::write(place.path("c.toml"), with).unwrap();
    let table = succeeded(&place.compare(&only).arg("--tables").output().unwrap());
    assert!(table.contains("over Online") && table.contains("+0.00"), "{table}");
    // The runs are those of HWA: nothing is left to train for it.
    let more = place.compare(&["--only", "HWA", "--seeds", "1"]).output().unwrap();
    succeeded(&more);
    assert!(!text(&more.stderr).contains("began: "), "{}", text(&more.stderr));

    // Nor where a table has the runs of HWA, and no row for its outer weights.
    let table = fs::read_to_string(place.path("runs/short/short.json")).unwrap();
    let mut table: Value = serde_json::from_str(&table).unwrap();
    table["rows"].as_array_mut().unwrap().retain(|row| row["method"] == "HWA");
    fs::write(place.path("hwa.json"), table.to_string()).unwrap();
    let elsewhere = Place::new(&SHORT.replace("methods = [", entries));
    let with = place.path("hwa.json");
    let part = ["--only", "Outer", "--seeds", "1", "--json", "--with", with.to_str().unwrap()];
    let output = elsewhere.compare(&part).output().unwrap();
    let taken = json(&output);
    assert!(!text(&output.stderr).contains("began: "), "{}", text(&output.stderr));
    assert_eq!(taken["rows"][0]["total"]["runs"][0]["top1"], of("Outer")[1][0]);
}

#[test]
fn runs_of_something_else_are_not_taken_from_a_table() {
    let there = Place::new(SHORT);
    succeeded(&there.compare(&["--only", "LAWA", "--seeds", "1"]).output().unwrap());
    let table = fs::read_to_string(there.path("runs/short/short.json")).unwrap();

    let here = Place::new(&SHORT.replace("epochs = 3", "epochs = 4"));
    fs::write(here.path("t.json"), &table).unwrap();
    let refused = here.compare(&["--tables", "--with", "t.json"]).output().unwrap();
    failed(&refused, 2, "--with: LAWA, seed 1: t.json is another experiment: `schedule.epochs` is");
    // A table without settings says at least how many models there were.
    let mut old: Value = serde_json::from_str(&table).unwrap();
    for budget in ["per_model", "total"] {
        let run = &mut old["rows"][1][budget]["runs"][0];
        run.as_object_mut().unwrap().remove("settings").unwrap();
        run["models"] = 7.into();
    }
    fs::write(here.path("t.json"), old.to_string()).unwrap();
    let refused = here.compare(&["--tables", "--with", "t.json"]).output().unwrap();
    failed(&refused, 2, "t.json has 7 models, expected 1");
    let doubt =
        "1 run without settings from t.json: of these only the number of models was compared";
    failed(&refused, 2, doubt);
    // Of a table that has nothing of this, that is told.
    fs::write(here.path("t.json"), table.replace("\"LAWA\"", "\"LAVA\"")).unwrap();
    let none = here.compare(&["--tables", "--with", "t.json"]).output().unwrap();
    succeeded(&none);
    let told = "--with t.json: none of its runs is needed here; it has those of CA on digits with";
    assert!(text(&none.stderr).contains(told), "{}", text(&none.stderr));
    let same = Place::new(SHORT);
    fs::write(same.path("t.json"), &table).unwrap();
    let taken = same.compare(&["--tables", "--with", "t.json"]).output().unwrap();
    succeeded(&taken);
    assert!(text(&taken.stderr).contains("--with t.json: 1 run taken"), "{}", text(&taken.stderr));
    let mut wrong: Value = serde_json::from_str(&table).unwrap();
    wrong["rows"][1]["per_model"]["runs"][0]["top1"] = 250.into();
    fs::write(same.path("t.json"), wrong.to_string()).unwrap();
    let refused = same.compare(&["--tables", "--with", "t.json"]).output().unwrap();
    failed(&refused, 2, "accuracies must be from 0 to 100 %, found 250");
    for (content, expected) in [
        ("{", "of `hwa compare`: t.json: EOF"),
        ("{\"rows\": 3}", "of `hwa compare`: t.json: "),
        ("{}", "of `hwa compare`: t.json has no rows"),
    ] {
        fs::write(here.path("t.json"), content).unwrap();
        failed(&here.compare(&["--tables", "--with", "t.json"]).output().unwrap(), 2, expected);
    }
    failed(&here.compare(&["--with", "none.json"]).output().unwrap(), 2, "none.json");
}

/// Longer, so that there is time to interrupt it.
#[cfg(unix)]
fn longer() -> Place {
    Place::new(&SHORT.replace("epochs = 3", "epochs = 12").replace("seeds = [1, 2]", "seeds = [1]"))
}

#[cfg(unix)]
fn signalled(place: &Place, name: &str) -> Output {
    let process = place.compare(&[]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Two runs are under way.
    for method in ["ca", "lawa"] {
        let run = place.path(&format!("runs/short/digits/resnet8/{method}/seed1"));
        wait_until(|| has_state(&run));
    }
    assert!(signal(process.id(), name));
    process.wait_with_output().unwrap()
}

#[cfg(unix)]
#[test]
fn an_interrupted_comparison_goes_on_to_the_same_bits() {
    let whole = longer();
    succeeded(&whole.compare(&[]).output().unwrap());
    for signal in ["-INT", "-KILL"] {
        let place = longer();
        let output = signalled(&place, signal);
        if signal == "-INT" {
            failed(&output, 130, "interrupted; the same command goes on");
            assert!(text(&output.stderr).contains("saved: "), "{}", text(&output.stderr));
            let dry = succeeded(&place.compare(&["--dry-run"]).output().unwrap());
            assert!(dry.contains(" to train, 2 of them begun already"), "{dry}");
        }
        let unfinished = |method: &str| {
            let run = format!("runs/short/digits/resnet8/{method}/seed1/summary.json");
            !place.path(&run).exists()
        };
        assert!(unfinished("ca") && unfinished("lawa"));
        // At once: what was left without its parent saves and stops by itself, and is waited for.
        succeeded(&place.compare(&[]).output().unwrap());
        for method in ["ca", "lawa", "hwa", "hwa-total"] {
            let run = format!("runs/short/digits/resnet8/{method}/seed1");
            assert_eq!(weights(&place.path(&run)), weights(&whole.path(&run)), "{signal} {method}");
        }
    }
}

/// A run whose process is killed is no result, and no reason to stop.
#[cfg(unix)]
#[test]
fn a_run_that_is_killed_is_named_with_the_signal() {
    let place = longer();
    let process = place.compare(&["--only", "CA"]).stderr(Stdio::piped()).spawn().unwrap();
    let run = place.path("runs/short/digits/resnet8/ca/seed1");
    wait_until(|| has_state(&run));
    let children = Command::new("pgrep").args(["-P", &process.id().to_string()]).output().unwrap();
    assert!(signal(text(&children.stdout).trim(), "-KILL"));
    let output = process.wait_with_output().unwrap();
    failed(&output, 1, "failed: signal: 9");
    succeeded(&place.compare(&["--only", "CA"]).output().unwrap());
}

#[test]
fn a_run_that_diverges_does_not_stop_the_others() {
    let diverging = SHORT.replace("method = \"sgd\"", "method = \"sgd\", optimizer.rate = 1e30");
    let place = Place::new(&diverging);
    let output = place.compare(&["--seeds", "1"]).output().unwrap();
    // It would diverge again: the table has that, and nothing is left to be done.
    succeeded(&output);
    assert!(text(&output.stderr).contains("CA, seed 1 diverged: "), "{}", text(&output.stderr));
    assert!(place.path("runs/short/digits/resnet8/hwa/seed1/summary.json").is_file());
    let table = text(&output.stdout);
    assert!(table.contains("0 of 1, 1 diverged") && table.contains("Diverged: "), "{table}");
    let json = fs::read_to_string(place.path("runs/short/short.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let diverged = &json["rows"][0]["per_model"]["diverged"][0];
    assert_eq!(diverged["seed"], 1, "{diverged}");
    assert!(diverged["reason"].as_str().unwrap().contains("diverged"), "{diverged}");
    let again = place.compare(&["--seeds", "1"]).output().unwrap();
    assert!(succeeded(&again).contains("0 of 1, 1 diverged"), "{}", text(&again.stdout));
    assert!(!text(&again.stderr).contains("CA, seed 1"), "{}", text(&again.stderr));
}

/// The state cannot be read: what is wrong is told with the way back.
#[cfg(unix)]
#[test]
fn a_run_that_fails_says_what_can_be_done() {
    let place = longer();
    signalled(&place, "-INT");
    let state = place.path("runs/short/digits/resnet8/ca/seed1/state");
    let files = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    let manifests = files.filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    manifests.for_each(|path| fs::write(path, "{").unwrap());
    let output = place.compare(&["--only", "CA"]).output().unwrap();
    // Back to the state before, or to the beginning: how many there were depends on the moment.
    failed(&output, 1, ", remove runs/short/digits/resnet8/ca/seed1/state/manifest-");
    failed(&output, 1, "error: 1 failed: CA, seed 1\nthe same command tries them again");
}

#[test]
fn figures_that_a_new_table_has_not_are_kept() {
    let place = Place::new(SHORT);
    let tables = || place.compare(&["--tables", "--seeds", "1"]).output().unwrap();
    succeeded(&place.compare(&["--seeds", "1", "--only", "CA"]).output().unwrap());
    let (table, kept) =
        (place.path("runs/short/short.json"), place.path("runs/short/short-before1.json"));
    let first = fs::read_to_string(&table).unwrap();
    succeeded(&tables());
    assert!(!kept.exists(), "nothing is missing");
    // The runs are gone, and the file asks for others.
    fs::remove_dir_all(place.path("runs/short/digits")).unwrap();
    fs::write(place.path("c.toml"), SHORT.replace("epochs = 3", "epochs = 4")).unwrap();
    let output = tables();
    succeeded(&output);
    let told = text(&output.stderr);
    assert!(told.contains("CA on digits with resnet8, seed 1; they are kept in"), "{told}");
    let now: Value = serde_json::from_str(&fs::read_to_string(&table).unwrap()).unwrap();
    assert_eq!(now["rows"][0]["per_model"]["runs"].as_array().unwrap().len(), 0);
    assert_eq!(fs::read_to_string(&kept).unwrap(), first);
    succeeded(&tables());
    assert!(!place.path("runs/short/short-before2.json").exists(), "it was kept already");
    // Nor is a table lost that cannot be read.
    fs::write(&table, "by hand").unwrap();
    succeeded(&tables());
    let second = fs::read_to_string(place.path("runs/short/short-before2.json")).unwrap();
    assert_eq!(second, "by hand");
}

#[test]
fn runs_of_other_settings_are_no_result_of_this_comparison() {
    let place = Place::new(SHORT);
    succeeded(&place.compare(&["--seeds", "1", "--only", "CA"]).output().unwrap());
    let longer = SHORT.replace("epochs = 3", "epochs = 4");
    fs::write(place.path("c.toml"), longer).unwrap();
    let output = place.compare(&["--tables", "--seeds", "1"]).output().unwrap();
    failed(&output, 2, "`schedule.epochs` is 3 there, asked for is 4; remove that run");
    failed(&output, 2, "CA, seed 1: ");
    // What the method has no use for changes nothing.
    let other = SHORT.replace("[experiment]", "[experiment]\nema.decay = 0.5\nhwa.num_models = 3");
    fs::write(place.path("c.toml"), other).unwrap();
    let table = succeeded(&place.compare(&["--tables", "--seeds", "1"]).output().unwrap());
    let row = table.lines().find(|line| line.starts_with("CA ")).unwrap();
    assert!(row.split_whitespace().nth(3) == Some("1"), "{table}");
    // Neither is it noted as if it had: not what is set, and not what stands in an entry.
    let entry =
        SHORT.replace("\"CA\", method = \"sgd\"", "\"CA\", method = \"sgd\", hwa.num_models = 3");
    fs::write(place.path("c.toml"), entry).unwrap();
    let set = ["--tables", "--seeds", "1", "--set", "ema.decay=0.5", "--set", "threads=1"];
    let output = place.compare(&set).output().unwrap();
    assert!(!succeeded(&output).contains("Set for all"), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains("CA: method sgd has no use for `hwa.num_models`"), "{said}");
    let used = ["--tables", "--out", "elsewhere", "--set", "optimizer.rate=0.05"];
    let table = succeeded(&place.compare(&used).output().unwrap());
    assert!(table.contains("Set for all: optimizer.rate=0.05."), "{table}");
}

#[test]
fn what_is_wrong_is_told_before_anything_is_trained() {
    for (from, to, expected) in [
        (
            "[\"resnet8\"]",
            "[{ label = \"resnet8\", model.name = \"resnet9\" }]",
            "c.toml: line 10: CA on digits with resnet8: `model.name` must be one of",
        ),
        (
            "[\"resnet8\"]",
            "[\"resnet8\", \"resnet9\"]",
            "c.toml: line 10: CA on digits with resnet9: `model.name`",
        ),
        (
            "[\"digits\"]",
            "[{ label = \"digits\", data.dataset = \"digit\" }]",
            "c.toml: line 11: CA on digits with resnet8: `data.dataset` must be one of",
        ),
        ("batch = 20", "batch = 0", "c.toml: line 15: in [experiment]: `optimizer.batch`"),
        ("batch = 20", "batch = 20, rate = -1", "c.toml: line 15: CA on digits with resnet8: `opt"),
        (
            "{ window_length = 2 }",
            "{ window_length = 2, window_stride = 300 }",
            "c.toml: line 7: LAWA on digits with resnet8: `hwa.window_stride` must be at most",
        ),
        (
            "methods = [",
            "reference = \"SAM\"\nmethods = [",
            "`reference` must be one of CA, LAWA, HWA, found \"SAM\"",
        ),
        ("seeds = [1, 2]", "seeds = [", "c.toml: "),
        ("every = 1", "every = 1, evry = 2", "evry"),
        ("seeds = [1, 2]", "seeds = [1, \"two\"]", "line 4: `seeds`"),
        (
            "train_examples = 160",
            "train_examples = 16000",
            "`data.train_examples` asks for too many",
        ),
    ] {
        let place = Place::new(&SHORT.replace(from, to));
        failed(&place.compare(&[]).output().unwrap(), 2, expected);
        assert!(!place.path("runs/short/digits/resnet8/ca/seed1").exists(), "{expected}");
    }
    let place = Place::new(SHORT);
    failed(&place.compare(&["--scale", "2"]).output().unwrap(), 2, "--scale must be above 0");
    failed(&place.compare(&["--seeds", "3"]).output().unwrap(), 2, "--seeds must be some of 1, 2");
    let twice = place.compare(&["--seeds", "1,1"]).output().unwrap();
    failed(&twice, 2, "--seeds must name each once, found 1 again");
    let whole = succeeded(&place.compare(&["--scale", "1", "--dry-run"]).output().unwrap());
    assert!(whole.contains("8 of 8"), "{whole}");
    let set = place.compare(&["--set", "optimizer.rate=-1"]).output().unwrap();
    failed(&set, 2, "error: --set optimizer.rate=-1: CA on digits with resnet8: `optimizer.rate`");
    let set = place.compare(&["--set", "method=hwa"]).output().unwrap();
    failed(&set, 2, "`method` is what is compared");
    failed(&place.compare(&["--scale", "-1"]).output().unwrap(), 2, "--scale must be above 0");
    failed(
        &place.compare(&["--only", "SAM"]).output().unwrap(),
        2,
        "--only must be one of \"digits\"",
    );
    let none = hwa(&["compare", "table9"]).output().unwrap();
    failed(&none, 2, "one of table1, table2");
    let output = hwa(&["train"]).arg(place.path("c.toml")).output().unwrap();
    failed(&output, 2, " is a comparison, no experiment: hwa compare ");
}

/// A run of which a part is gone has no figures.
#[test]
fn a_damaged_run_is_named_with_the_way_back() {
    let place = Place::new(SHORT);
    let only = ["--seeds", "1", "--only", "CA"];
    succeeded(&place.compare(&only).output().unwrap());
    let run = place.path("runs/short/digits/resnet8/ca/seed1");
    for name in ["events.jsonl", "summary.json", "experiment.toml"] {
        let path = run.join(name);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 3]).unwrap();
        let output = place.compare(&only).output().unwrap();
        failed(&output, 2, "CA, seed 1: ");
        failed(&output, 2, name);
        failed(&output, 2, "remove ");
        fs::write(&path, whole).unwrap();
    }
    succeeded(&place.compare(&only).output().unwrap());
}

#[test]
fn a_scaled_comparison_says_so_and_keeps_its_cycles() {
    // 320 images in batches of 20: 16 steps an epoch, 12 cycles of 16 steps.
    let whole = SHORT.replace("train_examples = 160", "train_examples = 320");
    let place = Place::new(&whole.replace("epochs = 3", "epochs = 12"));
    let output =
        place.compare(&["--scale", "0.25", "--seeds", "1", "--only", "CA"]).output().unwrap();
    let expected = "Scaled by 0.25: digits, CA: 3 of 12 epochs, 80 of 320 training images, \
                    H = 1 steps instead of 16: 12 cycles instead of 12.";
    let table = succeeded(&output);
    assert!(table.contains(expected), "{table}");
    let markdown =
        fs::read_to_string(place.path("runs/short-scale0.25/short-scale0.25.md")).unwrap();
    assert!(markdown.contains(expected), "{markdown}");
}

#[test]
fn what_was_not_asked_for_need_not_be_possible() {
    // A budget of two steps has no room for RePr's stages, and cifar10 is not here.
    let text = SHORT.replace("datasets = [\"digits\"]", "datasets = [\"digits\", \"cifar10\"]");
    let text =
        text.replace("methods = [", "methods = [\"repr\",").replace("epochs = 3", "epochs = 12");
    let place = Place::new(&text);
    let part = ["--only", "ca", "--only", "digits", "--seeds", "1", "--scale", "0.02"];
    let set = ["--set", "data.dir=\"/nowhere\""];
    let output = place.compare(&part).output().unwrap();
    assert!(succeeded(&output).contains("CA"), "{}", text_of(&output));
    let all = place.compare(&["--scale", "0.02"]).args(set).output().unwrap();
    failed(&all, 2, "with --scale 0.02: ");
}

fn text_of(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_dry_run_says_how_much_work_it_is_and_leaves_nothing() {
    let place = Place::new(SHORT);
    let said = succeeded(&place.compare(&["--dry-run"]).output().unwrap());
    // CA and LAWA 24 steps of 20 images, HWA twice that and the same: 2400 for each seed.
    assert!(said.contains("8 of 8 runs to train") && said.contains("0.005 million"), "{said}");
    assert!(said.contains("resnet8  resnet8") && said.contains(" MB"), "{said}");
    assert!(!place.path("runs").exists());
    // What rows of outer weights need is not to be left out, and a file is no folder.
    assert!(said.contains("checkpoints.outer_every"), "{said}");
    let outer = SHORT.replace("methods = [", "methods = [{ label = \"o\", outer_of = \"HWA\" },");
    fs::write(place.path("c.toml"), outer).unwrap();
    let said = succeeded(&place.compare(&["--dry-run"]).output().unwrap());
    assert!(!said.contains("checkpoints.outer_every"), "{said}");
    let inside = place.compare(&["--dry-run", "--out", "c.toml/runs"]).output().unwrap();
    failed(&inside, 2, "c.toml must be a folder, found a file");
}

#[test]
fn the_papers_tables_are_listed_and_printed() {
    let compare =
        |arguments: &[&str]| succeeded(&hwa(&["compare"]).args(arguments).output().unwrap());
    assert_eq!(compare(&["--list"]).lines().count(), 8);
    let printed = compare(&["table1", "--print"]);
    assert!(printed.contains("name = \"table1\"") && printed.contains("70.79"), "{printed}");
}
