//! The deadline of rank 0 holds for all: who stands still is missed, who is only slow is not.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use super::command::{signal, succeeded, text};
use super::processes::{SECONDS, at_work, ended, pipe, ranks_of, saved, start};
use super::{PROGRAM, folder, mpirun, settings, train};

/// The text of the default experiment.
const EXPERIMENT: &str = include_str!("../../experiments/digits-hwa.toml");

/// Longer than the shortest deadline.
const LATE: Duration = Duration::from_secs(6);

/// A rank for each of these deadlines, for a new run or one to go on with.
fn with_deadlines(deadlines: &[&str], arguments: impl Fn(&mut Command)) -> Command {
    let mut command = mpirun();
    for (rank, deadline) in deadlines.iter().enumerate() {
        command.args((rank > 0).then_some(":"));
        command.args(["-n", "1", "env", &format!("HWA_MPI_DEADLINE={deadline}"), PROGRAM]);
        arguments(&mut command);
    }
    command
}

#[test]
#[ignore = "needs Open MPI"]
fn a_rank_that_stands_still_is_missed_by_what_rank_0_was_told() {
    let (_keep, folder) = folder();
    for stopped in [0, 1] {
        let run = folder.join(format!("stopped-{stopped}"));
        let mut command = mpirun();
        // Only rank 0 knows of the deadline: the others hear of it from there.
        command.args(["-n", "1", "env", "HWA_MPI_DEADLINE=3"]);
        settings(command.arg(PROGRAM), &run, &["schedule.epochs=400"]);
        settings(command.args([":", "-n", "1", PROGRAM]), &run, &["schedule.epochs=400"]);
        let child = saved(start(command), &run, None);
        let pid = ranks_of(&run).into_iter().find(|(rank, _)| *rank == stopped).unwrap().1;
        assert!(signal(pid, "-STOP"));
        let output = ended(child);
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{said}");
        // Who is not heard of, or who is waited for in the middle of an exchange.
        let missed = format!("rank {stopped} on ");
        let of = |line: &&str| {
            line.starts_with(&format!("error: rank {} on ", 1 - stopped)) && line.contains(&missed)
        };
        assert!(said.lines().filter(of).any(|line| line.contains("3 seconds")), "{said}");
        assert!(ranks_of(&run).is_empty(), "nobody is left");
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn the_deadline_of_rank_0_holds_for_all_while_it_opens_what_it_trains() {
    let (_keep, folder) = folder();
    for deadlines in [["3", "120"], ["600", "3"]] {
        let run = folder.join(deadlines[0]);
        let experiment = run.with_extension("toml");
        let opened = pipe(&experiment);
        let child = start(with_deadlines(&deadlines, |command| {
            settings(command, &run, &["schedule.epochs=1"]);
            command.arg(&experiment);
        }));
        let mut rank_0 = opened.recv_timeout(SECONDS).unwrap();
        sleep(LATE);
        // It may have been given up: then it says why.
        let _ = rank_0.write_all(EXPERIMENT.as_bytes());
        drop(rank_0);
        succeeded(&ended(child));
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn rank_0_is_there_while_it_opens_a_run() {
    let (_keep, folder) = folder();
    let run = folder.join("run");
    let child = at_work(0, &run, &["schedule.epochs=8"]);
    assert!(signal(child.id(), "-TERM"));
    assert_eq!(ended(child).status.code(), Some(130));
    let (events, kept) = (run.join("events.jsonl"), folder.join("events.jsonl"));
    fs::rename(&events, &kept).unwrap();
    let opened = pipe(&events);
    let child = start(with_deadlines(&["3", "3"], |command| {
        command.args(["train", "--resume"]).arg(&run);
    }));
    let rank_0 = opened.recv_timeout(SECONDS).unwrap();
    sleep(LATE);
    fs::rename(&kept, &events).unwrap();
    drop(rank_0);
    succeeded(&ended(child));
}

#[test]
#[ignore = "needs Open MPI"]
fn rank_0_is_there_until_the_end_or_missed() {
    let (_keep, folder) = folder();
    let run = folder.join("run");
    succeeded(&train(0, &run, &["schedule.epochs=1"]).output().unwrap());
    let environment = run.join("environment.json");
    for stands_still in [false, true] {
        // The page is all that is left to do, and tells of the environment.
        fs::remove_file(run.join("report/index.html")).unwrap();
        fs::remove_file(&environment).unwrap();
        let opened = pipe(&environment);
        let child = start(with_deadlines(&["3", "3"], |command| {
            command.args(["train", "--resume"]).arg(&run);
        }));
        let rank_0 = opened.recv_timeout(SECONDS).unwrap();
        if stands_still {
            let pid = ranks_of(&run).into_iter().find(|(rank, _)| *rank == 0).unwrap().1;
            assert!(signal(pid, "-STOP"));
            let output = ended(child);
            let said = text(&output.stderr);
            assert!(!output.status.success(), "{said}");
            assert!(said.contains("has not been heard of for 3 seconds"), "{said}");
            assert!(ranks_of(&run).is_empty(), "nobody is left");
        } else {
            sleep(LATE);
            // It is read twice, for the page and for the curves.
            fs::remove_file(&environment).unwrap();
            fs::write(&environment, "{}").unwrap();
            drop(rank_0);
            succeeded(&ended(child));
        }
    }
}
