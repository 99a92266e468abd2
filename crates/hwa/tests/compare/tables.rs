//! Figures that are there already: taken from a table or a run if they are of the same.

use std::fs;

use serde_json::Value;

use super::command::{failed, json, succeeded, text};
use super::{Place, SHORT};

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
