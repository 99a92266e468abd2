//! A run whose ranks are killed, interrupted or suspended ends for all, and can go on.

use std::thread::sleep;
use std::time::Duration;

use super::command::run::newest_state;
use super::command::{signal, succeeded, text};
use super::processes::{SECONDS, at_work, ended, pipe, ranks_of, saved, start};
use super::{PROGRAM, assert_same, folder, mpirun, resume, settings, train};

#[test]
#[ignore = "needs Open MPI"]
fn a_killed_rank_ends_the_run_and_other_numbers_of_ranks_go_on() {
    let (_keep, folder) = folder();
    let (whole, parts) = (folder.join("whole"), folder.join("parts"));
    let sets = ["schedule.epochs=40"];
    succeeded(&train(0, &whole, &sets).output().unwrap());
    for (ranks, killed) in [(4, 2), (2, 0), (3, 1)] {
        let child = at_work(ranks, &parts, &sets);
        let Some((_, pid)) = ranks_of(&parts).into_iter().find(|(rank, _)| *rank == killed) else {
            panic!("rank {killed} has ended already: {}", text(&ended(child).stderr))
        };
        assert!(signal(pid, "-KILL"));
        let output = ended(child);
        assert!(!output.status.success());
        assert!(ranks_of(&parts).is_empty(), "nobody is left");
        // Nobody but the launcher can name it.
        let told = text(&output.stderr);
        assert!(told.contains(&format!("process rank {killed} ")), "{told}");
    }
    succeeded(&resume(0, &parts).output().unwrap());
    assert_same(&parts, &whole);
}

#[test]
#[ignore = "needs Open MPI"]
fn an_interrupt_leaves_a_run_that_any_number_of_ranks_goes_on_with() {
    let (_keep, folder) = folder();
    let (whole, parts) = (folder.join("whole"), folder.join("parts"));
    let sets = ["schedule.epochs=40"];
    succeeded(&train(0, &whole, &sets).output().unwrap());
    // To one rank, to all of them, as a cluster does it, and to the launcher, which hands it on.
    for (ranks, interrupted) in [(4, vec![2]), (3, vec![0, 1, 2]), (2, vec![])] {
        let child = at_work(ranks, &parts, &sets);
        let mut sent = Vec::new();
        if interrupted.is_empty() {
            sent.push(signal(child.id(), "-USR1"));
        }
        for (_, pid) in ranks_of(&parts).iter().filter(|(rank, _)| interrupted.contains(rank)) {
            sent.push(signal(pid, "-TERM"));
            // The others have heard of it from the first by the time their own signal comes.
            sleep(Duration::from_millis(20));
        }
        assert_eq!(sent.first(), Some(&true));
        let output = ended(child);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert_eq!(
            said.matches("interrupted; go on with: hwa train --resume").count(),
            1,
            "{said}"
        );
    }
    succeeded(&resume(2, &parts).output().unwrap());
    assert_same(&parts, &whole);
}

#[test]
#[ignore = "needs Open MPI"]
fn an_interrupt_before_training_ends_all_at_once_with_130() {
    let (_keep, folder) = folder();
    // To a rank, or to the launcher, which hands it on.
    for interrupted in [Some(0), Some(1), None] {
        let run = folder.join(format!("{interrupted:?}"));
        let experiment = run.with_extension("toml");
        let opened = pipe(&experiment);
        let mut command = train(2, &run, &[]);
        command.arg(&experiment);
        let child = start(command);
        // What it waits for never comes.
        let _rank_0 = opened.recv_timeout(SECONDS).unwrap();
        let sent = match interrupted {
            None => signal(child.id(), "-USR1"),
            Some(rank) => {
                let pid = ranks_of(&run).into_iter().find(|(found, _)| *found == rank).unwrap().1;
                signal(pid, "-TERM")
            }
        };
        assert!(sent);
        let output = ended(child);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{said}");
        assert_eq!(said.matches("interrupted; nothing was begun").count(), 1, "{said}");
        assert!(!run.exists());
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn a_run_that_is_suspended_goes_on() {
    let (_keep, folder) = folder();
    let run = folder.join("run");
    let mut command = mpirun();
    command.args(["-x", "HWA_MPI_DEADLINE=3", "-x", "HWA_MPI_STEP_DEADLINE=3"]);
    settings(command.args(["-n", "2", PROGRAM]), &run, &["schedule.epochs=400"]);
    let child = saved(start(command), &run, None);
    let ranks = ranks_of(&run);
    assert_eq!(ranks.len(), 2);
    for (order, pause) in [("-STOP", Duration::from_secs(5)), ("-CONT", Duration::ZERO)] {
        assert!(ranks.iter().all(|(_, pid)| signal(pid, order)));
        sleep(pause);
    }
    let newest = newest_state(&run);
    let child = saved(child, &run, newest);
    assert!(signal(ranks[0].1, "-TERM"));
    let output = ended(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
}
