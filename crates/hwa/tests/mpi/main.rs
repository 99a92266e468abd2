//! Training in several processes, started by `mpirun` on this machine.
//!
//! Compiled with the feature `mpi` only, and ignored unless it is asked for: the machine needs
//! Open MPI. `cargo test --workspace --features hwa/mpi --test mpi -- --ignored`
#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

#[path = "../command/mod.rs"]
mod command;
mod data;
mod deadlines;
mod interrupts;
mod processes;
mod refusals;
mod threads;

use std::path::{Path, PathBuf};
use std::process::Command;

use command::run::fingerprint;
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
