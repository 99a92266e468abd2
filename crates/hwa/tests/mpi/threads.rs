//! Ranks that share the models come to the bits that threads come to.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::command::{signal, succeeded, text};
use super::processes::{at_work, ended, start};
use super::{PROGRAM, announcing, assert_same, folder, resume, settings, train};

#[test]
#[ignore = "needs Open MPI"]
fn two_and_four_ranks_equal_threads_bit_for_bit() {
    let (_keep, folder) = folder();
    // Momentum and inner weights go through the network too.
    let sets = ["hwa.momentum_at_sync=average", "evaluate.inner=true", "stop.patience=2"];
    let threads = folder.join("threads");
    succeeded(&train(0, &threads, &sets).output().unwrap());
    for ranks in [2, 4] {
        let run = folder.join(format!("ranks-{ranks}"));
        succeeded(&train(ranks, &run, &sets).output().unwrap());
        assert_same(&run, &threads);
        let environment = fs::read_to_string(run.join("environment.json")).unwrap();
        let environment: Value = serde_json::from_str(&environment).unwrap();
        assert_eq!(environment["ranks"].as_array().unwrap().len(), ranks);
        let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
        let ended = log.lines().find(|line| line.contains("cycle_ended")).unwrap();
        let ended: Value = serde_json::from_str(ended).unwrap();
        assert!(ended["time"]["traffic"]["bytes"].as_u64().unwrap() > 0);
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn averaging_after_every_step_equals_threads() {
    let (_keep, folder) = folder();
    let sets = ["hwa.sync_period=1", "schedule.epochs=1", "evaluate.every=4", "hwa.num_models=3"];
    let (threads, ranks) = (folder.join("threads"), folder.join("ranks"));
    succeeded(&train(0, &threads, &sets).output().unwrap());
    succeeded(&train(2, &ranks, &sets).output().unwrap());
    assert_same(&ranks, &threads);
}

#[test]
#[ignore = "needs Open MPI"]
fn averaging_after_a_few_steps_equals_threads() {
    let (_keep, folder) = folder();
    // 24 steps: cycles that end within an epoch, and one that ends with the run.
    for period in [3, 64] {
        let period = format!("hwa.sync_period={period}");
        let sets = ["method=online", period.as_str(), "evaluate.every=4", "hwa.num_models=3"];
        let run = |name: &str| folder.join(format!("{name}-{}", period.replace('=', "-")));
        let (threads, ranks) = (run("threads"), run("ranks"));
        succeeded(&train(0, &threads, &sets).output().unwrap());
        succeeded(&train(3, &ranks, &sets).output().unwrap());
        assert_same(&ranks, &threads);
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn messages_that_are_announced_before_they_are_sent_arrive_as_well() {
    let (_keep, folder) = folder();
    let sets = ["schedule.epochs=1", "evaluate.inner=true"];
    let threads = folder.join("threads");
    succeeded(&train(0, &threads, &sets).output().unwrap());
    for way in ["vader,self", "tcp,self"] {
        let run = folder.join(way);
        let mut command = announcing(way);
        command.args(["-n", "3", PROGRAM]);
        settings(&mut command, &run, &sets);
        succeeded(&ended(start(command)));
        assert_same(&run, &threads);
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn a_model_is_left_out_and_the_ranks_share_the_others() {
    let (_keep, folder) = folder();
    let (threads, ranks) = (folder.join("threads"), folder.join("ranks"));
    let sets = ["schedule.epochs=8"];
    let child = at_work(0, &threads, &sets);
    assert!(signal(child.id(), "-TERM"));
    assert_eq!(ended(child).status.code(), Some(130));
    succeeded(&Command::new("cp").arg("-r").arg(&threads).arg(&ranks).output().unwrap());
    for (count, run) in [(0, &threads), (3, &ranks)] {
        let without = |model: &str, count: usize| {
            resume(count, run).args(["--without-replica", model]).output().unwrap()
        };
        if count > 0 {
            let refused = without("1", 4);
            assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
            assert!(text(&refused.stderr).contains("4 ranks are too many for 3 models"));
        }
        succeeded(&without("1", count));
    }
    assert_same(&ranks, &threads);
    let environment = fs::read_to_string(ranks.join("environment.json")).unwrap();
    let environment: Value = serde_json::from_str(&environment).unwrap();
    let places = environment["resumed"][0]["ranks"].as_array().unwrap();
    let models: Vec<&Value> = places.iter().map(|place| &place["models"][0]).collect();
    assert_eq!(models, [0, 2, 3]);
}
