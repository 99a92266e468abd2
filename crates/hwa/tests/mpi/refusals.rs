//! What ranks cannot do together is told once, with the rank that it is about.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::command::{succeeded, text};
use super::processes::{ended, start};
use super::{PROGRAM, folder, mpirun, settings, train};

#[test]
#[ignore = "needs Open MPI"]
fn another_build_is_refused_unless_it_is_allowed() {
    let (_keep, folder) = folder();
    let other = folder.join("hwa");
    fs::copy(PROGRAM, &other).unwrap();
    // What follows the sections of a program changes nothing but its bytes.
    let mut file = fs::OpenOptions::new().append(true).open(&other).unwrap();
    file.write_all(b"another build").unwrap();
    drop(file);
    for allowed in [false, true] {
        let run = folder.join(format!("allowed-{allowed}"));
        let mut command = mpirun();
        for program in [Path::new(PROGRAM), &other] {
            settings(command.args(["-n", "1"]).arg(program), &run, &["schedule.epochs=1"]);
            command.args(allowed.then_some("--allow-other-arithmetic"));
            command.arg(":");
        }
        let output = ended(start(command));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(if allowed { 0 } else { 2 }), "{said}");
        let line = said.lines().find(|line| line.contains("is another build of hwa"));
        assert!(line.is_some_and(|line| line.contains("rank 1 on ")), "{said}");
        assert_eq!(run.exists(), allowed);
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn a_run_that_shall_go_on_without_lost_models_says_that_ranks_do_not() {
    let (_keep, folder) = folder();
    let sets = ["schedule.epochs=1", "hwa.on_lost_replica=continue"];
    for (ranks, told) in [(1, 0), (2, 1)] {
        let output = train(ranks, &folder.join(format!("{ranks}")), &sets).output().unwrap();
        succeeded(&output);
        let said = text(&output.stderr);
        assert_eq!(said.matches("holds within one process").count(), told, "{said}");
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn more_ranks_than_models_are_a_mistake_in_the_configuration() {
    let (_keep, folder) = folder();
    let output = train(3, &folder.join("run"), &["hwa.num_models=2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert_eq!(said.matches("3 ranks are too many for 2 models").count(), 1, "{said}");
    assert!(!folder.join("run").exists());
}

#[test]
#[ignore = "needs Open MPI"]
fn a_model_that_diverges_ends_the_run_with_its_rank_and_host() {
    let (_keep, folder) = folder();
    let command = train(2, &folder.join("run"), &["optimizer.rate=1e25"]);
    let output = ended(start(command));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let named = |rank: usize, model: usize| {
        let line = format!(": model {model} diverged");
        let of_rank = |said: &&str| said.starts_with(&format!("error: rank {rank} on "));
        said.lines().filter(of_rank).any(|said| said.contains(&line))
    };
    // Whoever was first; two models are on each rank.
    assert!((0..4).any(|model| named(model / 2, model)), "{said}");
}
