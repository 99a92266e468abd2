//! Training in several processes, started by `mpirun` on this machine.
//!
//! Compiled with the feature `mpi` only, and ignored unless it is asked for: the machine needs
//! Open MPI. `cargo test --workspace --features hwa/mpi --test mpi -- --ignored`
#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod command;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use command::run::{fingerprint, newest_state};
use command::{signal, succeeded, text};
use serde_json::Value;
use tempfile::TempDir;

/// A training of seconds: 3 cycles of 8 steps of four models on 160 digits.
const SHORT: [&str; 7] = [
    "hwa.num_models=4",
    "data.train_examples=160",
    "optimizer.batch=20",
    "schedule.epochs=3",
    "hwa.window_length=[1, 2]",
    "evaluate.every=1",
    "checkpoints.state_every=3",
];

const PROGRAM: &str = env!("CARGO_BIN_EXE_hwa");

/// What a rank may take at most to end, after another has.
const SECONDS: Duration = Duration::from_secs(60);

/// `hwa` with these arguments, in so many ranks; without ranks, in threads.
fn hwa(ranks: usize, arguments: &[&str]) -> Command {
    if ranks == 0 {
        return command::hwa(arguments);
    }
    let mut command = mpirun();
    command.args(["-n", &ranks.to_string(), PROGRAM]).args(arguments);
    command
}

fn mpirun() -> Command {
    let mut command = Command::new("mpirun");
    // More ranks than cores, and not pinned to any; inside a container everyone is root.
    command.args(["--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]);
    command
}

/// `mpirun` with a limit below a notice: not only tensors wait until they are asked for.
fn announcing(way: &str) -> Command {
    let mut command = mpirun();
    for limit in ["btl_vader_eager_limit", "btl_tcp_eager_limit", "btl_self_eager_limit"] {
        command.args(["--mca", limit, "256"]);
    }
    command.args(["--mca", "pml", "ob1", "--mca", "btl", way]);
    command
}

/// A new run with these settings beside [`SHORT`].
fn train(ranks: usize, run: &Path, sets: &[&str]) -> Command {
    let mut command = hwa(ranks, &[]);
    settings(&mut command, run, sets);
    command
}

/// Arguments for a new run with these settings beside [`SHORT`].
fn settings(command: &mut Command, run: &Path, sets: &[&str]) {
    command.args(["train", "--json", "--out"]).arg(run);
    for set in SHORT.iter().chain(sets) {
        command.args(["--set", set]);
    }
}

fn resume(ranks: usize, run: &Path) -> Command {
    let mut command = hwa(ranks, &["train", "--json", "--resume"]);
    command.arg(run);
    command
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    (folder, path)
}

fn assert_same(a: &Path, b: &Path) {
    let ((files_a, events_a), (files_b, events_b)) = (fingerprint(a), fingerprint(b));
    assert_eq!(events_a, events_b);
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(&files_a), names(&files_b));
    assert!(files_a == files_b, "weights differ");
}

/// Waits until a process ends, for [`SECONDS`] at most.
fn ended(mut child: Child) -> Output {
    // Whoever fills a pipe that nobody reads would never end.
    let (stdout, stderr) = (whole(child.stdout.take()), whole(child.stderr.take()));
    let began = Instant::now();
    let (status, goes_on) = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break (status, false);
        }
        if began.elapsed() > SECONDS {
            child.kill().unwrap();
            break (child.wait().unwrap(), true);
        }
        sleep(Duration::from_millis(20));
    };
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    assert!(!goes_on, "it goes on: {}", text(&stderr));
    Output { status, stdout, stderr }
}

/// Reads a pipe to its end, in a thread of its own.
fn whole(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    spawn(move || {
        let mut bytes = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut bytes)).transpose().unwrap();
        bytes
    })
}

fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Starts a run, or goes on with it, and waits until it has saved another state.
fn at_work(ranks: usize, run: &Path, sets: &[&str]) -> Child {
    let before = newest_state(run);
    let child = start(if run.exists() { resume(ranks, run) } else { train(ranks, run, sets) });
    saved(child, run, before)
}

/// Waits until a run that was started has saved another state.
fn saved(mut child: Child, run: &Path, before: Option<String>) -> Child {
    let began = Instant::now();
    while newest_state(run) <= before {
        let over = child.try_wait().unwrap().is_some() || began.elapsed() > SECONDS;
        if over && newest_state(run) <= before {
            let _ = child.kill();
            let output = child.wait_with_output().unwrap();
            panic!("no other state after {before:?}: {}", text(&output.stderr));
        }
        sleep(Duration::from_millis(5));
    }
    child
}

/// The processes of `hwa` whose arguments name this run, by their parent's choice of rank.
fn ranks_of(run: &Path) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let read = |name: &str| text(&fs::read(entry.path().join(name)).unwrap_or_default());
        let arguments = read("cmdline");
        let is_hwa = arguments.split('\0').next().is_some_and(|name| name.ends_with("/hwa"));
        if !is_hwa || !arguments.contains(&run.display().to_string()) {
            continue;
        }
        let environment = read("environ");
        let rank = environment.split('\0').find_map(|v| v.strip_prefix("OMPI_COMM_WORLD_RANK="));
        if let Some(rank) = rank.and_then(|rank| rank.parse().ok()) {
            found.push((rank, pid));
        }
    }
    found
}

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
            std::thread::sleep(Duration::from_millis(20));
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

/// Makes a pipe. Whoever opens it to read waits for what is written to it; gives the other end then.
fn pipe(path: &Path) -> Receiver<fs::File> {
    succeeded(&Command::new("mkfifo").arg(path).output().unwrap());
    let ((opened, receiver), path) = (channel(), path.to_owned());
    // To open one end waits for the other.
    spawn(move || opened.send(fs::OpenOptions::new().write(true).open(path).unwrap()));
    receiver
}

/// The text of the default experiment.
const EXPERIMENT: &str = include_str!("../experiments/digits-hwa.toml");

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

/// Two folders of so many images each, in which something may be wrong.
fn images(folder: &Path, count: u8, spoil: impl Fn(u8, Vec<u8>) -> Vec<u8>) {
    for class in ["one", "two"] {
        let place = folder.join(class);
        fs::create_dir_all(&place).unwrap();
        for number in 0..count {
            let mut bytes = BITMAP.to_vec();
            bytes[54] = number;
            let bytes = spoil(number, bytes);
            fs::write(place.join(format!("{number:02}.bmp")), bytes).unwrap();
        }
    }
}

/// Nothing is wrong.
fn good(_number: u8, bytes: Vec<u8>) -> Vec<u8> {
    bytes
}

/// An image is shorter than it says.
fn short(number: u8, mut bytes: Vec<u8>) -> Vec<u8> {
    if number == 7 {
        bytes.truncate(10);
    }
    bytes
}

/// Half of the images say that they are something else.
fn unreadable(number: u8, mut bytes: Vec<u8>) -> Vec<u8> {
    if number % 2 == 1 {
        bytes[0] = b'X';
    }
    bytes
}

/// One rank for each of these folders of images, for a new run.
fn over(folders: &[PathBuf], run: &Path, sets: &[&str]) -> Command {
    over_by(mpirun(), folders, run, sets)
}

/// The same, started by this command.
fn over_by(mut command: Command, folders: &[PathBuf], run: &Path, sets: &[&str]) -> Command {
    for (number, data) in folders.iter().enumerate() {
        if number > 0 {
            command.arg(":");
        }
        command.args(["-n", "1", PROGRAM, "train", "--json", "--out"]).arg(run);
        command.arg("--data-dir").arg(data);
        for set in ["data.dataset=folder", "data.size=32"].iter().chain(sets) {
            command.args(["--set", set]);
        }
    }
    command
}

/// A bitmap of one pixel: two headers, three colours, one byte to fill the row.
#[rustfmt::skip]
const BITMAP: [u8; 58] = [
    b'B', b'M', 58, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0,
    40, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 24, 0,
    0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0,
];

#[test]
#[ignore = "needs Open MPI"]
fn a_rank_with_a_broken_data_file_ends_the_run_with_its_name_and_the_reason() {
    let (_keep, folder) = folder();
    let folders = [folder.join("good"), folder.join("bad")];
    images(&folders[0], 20, good);
    images(&folders[1], 20, short);
    let output = ended(start(over(&folders, &folder.join("run"), &["data.on_bad_image=fail"])));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("rank 1 on ") && said.contains("07.bmp"), "{said}");
    assert!(!folder.join("run").exists(), "nothing was begun");
}

#[test]
#[ignore = "needs Open MPI"]
fn a_rank_whose_data_is_missing_or_other_is_named() {
    let (_keep, folder) = folder();
    images(&folder.join("good"), 20, good);
    images(&folder.join("less"), 20, good);
    fs::remove_file(folder.join("less/one/03.bmp")).unwrap();
    for data in ["missing", "less"] {
        let folders = [folder.join("good"), folder.join(data)];
        let output = ended(start(over(&folders, &folder.join("run"), &[])));
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("rank 1 on "), "{said}");
        assert!(!folder.join("run").exists(), "nothing was begun");
    }
}

/// Two models, an epoch.
const EPOCH: [&str; 4] =
    ["hwa.num_models=2", "schedule.epochs=1", "optimizer.batch=20", "data.on_bad_image=skip"];

#[test]
#[ignore = "needs Open MPI"]
fn images_that_only_one_rank_cannot_read_end_the_run() {
    let (_keep, folder) = folder();
    let (whole, spoilt) = (folder.join("whole"), folder.join("spoilt"));
    images(&whole, 60, good);
    images(&spoilt, 60, unreadable);
    // Whichever of the two ranks it is.
    for (number, folders) in
        [[whole.clone(), spoilt.clone()], [spoilt, whole]].into_iter().enumerate()
    {
        let output = ended(start(over(&folders, &folder.join(format!("run-{number}")), &EPOCH)));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let named = format!("rank {} on ", 1 - number);
        let line = said.lines().find(|line| line.starts_with("error: ") && line.contains(&named));
        assert!(line.is_some_and(|line| line.contains("the file is another there")), "{said}");
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn images_that_no_rank_can_read_are_left_out_by_all_as_in_threads() {
    let (_keep, folder) = folder();
    let (data, run, threads) = (folder.join("data"), folder.join("run"), folder.join("threads"));
    images(&data, 60, unreadable);
    succeeded(&over(&[data.clone(), data.clone()], &run, &EPOCH).output().unwrap());
    let mut alone = hwa(0, &["train", "--out"]);
    alone.arg(&threads).arg("--data-dir").arg(&data);
    for set in ["data.dataset=folder", "data.size=32"].iter().chain(&EPOCH) {
        alone.args(["--set", set]);
    }
    succeeded(&alone.output().unwrap());
    let left_out = |run: &Path| fs::read_to_string(run.join("left-out.json")).unwrap();
    // Again with notices that leave when they are taken: both ranks send long ones at once.
    let announced = folder.join("announced");
    let command = announcing("vader,self");
    let folders = [data.clone(), data];
    succeeded(&ended(start(over_by(command, &folders, &announced, &EPOCH))));
    for run in [&run, &announced] {
        assert_same(run, &threads);
        assert_eq!(left_out(run), left_out(&threads));
    }
}
