//! Training in several processes, started by `mpirun` on this machine.
//!
//! Compiled with the feature `mpi` only, and ignored unless it is asked for: the machine needs
//! Open MPI. `cargo test --workspace --features hwa/mpi --test mpi -- --ignored`
#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

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

/// What a rank may take at most to end, after another has.
const SECONDS: Duration = Duration::from_secs(60);

/// `hwa` with these arguments, in so many ranks; without ranks, in threads.
fn hwa(ranks: usize, arguments: &[&str]) -> Command {
    let program = env!("CARGO_BIN_EXE_hwa");
    let mut command = match ranks {
        0 => Command::new(program),
        ranks => {
            let mut mpirun = mpirun();
            mpirun.args(["-n", &ranks.to_string(), program]);
            mpirun
        }
    };
    command.args(arguments).stdin(Stdio::null());
    command
}

fn mpirun() -> Command {
    let mut command = Command::new("mpirun");
    // More ranks than cores, and not pinned to any; inside a container everyone is root.
    command.args(["--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]);
    command
}

/// A new run with these settings beside [`SHORT`].
fn train(ranks: usize, run: &Path, sets: &[&str]) -> Command {
    let mut command = hwa(ranks, &["train", "--json", "--out"]);
    command.arg(run);
    for set in SHORT.iter().chain(sets) {
        command.args(["--set", set]);
    }
    command
}

fn resume(ranks: usize, run: &Path) -> Command {
    let mut command = hwa(ranks, &["train", "--json", "--resume"]);
    command.arg(run);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Everything of a finished run that must not depend on how it came about.
fn fingerprint(run: &Path) -> (Vec<(String, Vec<u8>)>, Vec<Value>) {
    let mut files = vec![("best".to_owned(), fs::read(run.join("best.safetensors")).unwrap())];
    for entry in fs::read_dir(run.join("checkpoints")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        files.push((name, fs::read(path).unwrap()));
    }
    files.sort();
    (files, events(run))
}

/// The events, without what depends on the clock and on the network.
fn events(run: &Path) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("time");
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let text = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let parse = |line: &str| {
        let mut event = serde_json::from_str(line).unwrap();
        strip(&mut event);
        event
    };
    text.lines().map(parse).collect()
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
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > SECONDS {
            child.kill().unwrap();
            panic!("it goes on: {}", text(&child.wait_with_output().unwrap().stderr));
        }
        sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The newest state of a run.
fn newest_state(run: &Path) -> Option<String> {
    let names = fs::read_dir(run.join("state")).ok()?.flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("manifest-")).max()
}

/// Starts a run, or goes on with it, and waits until it has saved another state.
fn at_work(ranks: usize, run: &Path, sets: &[&str]) -> Child {
    let (before, began) = (newest_state(run), Instant::now());
    let child = start(if run.exists() { resume(ranks, run) } else { train(ranks, run, sets) });
    while newest_state(run) <= before {
        assert!(began.elapsed() < SECONDS, "no other state in {}", run.display());
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

/// Whether the process was still there to get it.
fn signal(pid: u32, signal: &str) -> bool {
    let kill = Command::new("kill").args([signal, &pid.to_string()]).output();
    kill.unwrap().status.success()
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
    // To one rank, and to all of them, as a cluster does it.
    for (ranks, interrupted) in [(4, vec![2]), (3, vec![0, 1, 2])] {
        let child = at_work(ranks, &parts, &sets);
        let mut sent = Vec::new();
        for (_, pid) in ranks_of(&parts).iter().filter(|(rank, _)| interrupted.contains(rank)) {
            sent.push(signal(*pid, "-TERM"));
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

/// Two folders of images, of which one image each cannot be read, if they shall be broken.
fn images(folder: &Path, broken: bool) {
    for class in ["one", "two"] {
        let place = folder.join(class);
        fs::create_dir_all(&place).unwrap();
        for number in 0..20 {
            let mut bytes = BITMAP.to_vec();
            bytes[54] = number;
            if broken && number == 7 {
                bytes.truncate(10);
            }
            fs::write(place.join(format!("{number:02}.bmp")), bytes).unwrap();
        }
    }
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
    for (name, broken) in [("good", false), ("bad", true)] {
        images(&folder.join(name), broken);
    }
    let mut command = mpirun();
    for (number, data) in ["good", "bad"].into_iter().enumerate() {
        if number > 0 {
            command.arg(":");
        }
        command.args(["-n", "1", env!("CARGO_BIN_EXE_hwa"), "train", "--out"]);
        command.arg(folder.join("run")).arg("--data-dir").arg(folder.join(data));
        for set in ["data.dataset=folder", "data.size=32", "data.on_bad_image=fail"] {
            command.args(["--set", set]);
        }
    }
    let output = ended(start(command));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: rank 1 on "), "{said}");
    assert!(said.contains("07.bmp"), "{said}");
}

#[test]
#[ignore = "needs Open MPI"]
fn a_rank_whose_data_is_missing_or_other_is_named() {
    let (_keep, folder) = folder();
    images(&folder.join("good"), false);
    images(&folder.join("less"), false);
    fs::remove_file(folder.join("less/one/03.bmp")).unwrap();
    for data in ["missing", "less"] {
        let mut command = mpirun();
        for (number, data) in ["good", data].into_iter().enumerate() {
            if number > 0 {
                command.arg(":");
            }
            command.args(["-n", "1", env!("CARGO_BIN_EXE_hwa"), "train", "--out"]);
            command.arg(folder.join("run")).arg("--data-dir").arg(folder.join(data));
            command.args(["--set", "data.dataset=folder", "--set", "data.size=32"]);
        }
        let output = ended(start(command));
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("rank 1 on "), "{said}");
        assert!(!folder.join("run").exists(), "nothing was begun");
    }
}
