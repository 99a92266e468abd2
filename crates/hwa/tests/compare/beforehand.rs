//! What is told before anything is trained: mistakes, the work ahead, the paper's tables.

use std::fs;
use std::process::Output;

use super::command::{failed, hwa, succeeded, text};
use super::{Place, SHORT};

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
