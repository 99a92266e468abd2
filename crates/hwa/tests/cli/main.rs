//! The command as a user meets it.
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

#[path = "../command/mod.rs"]
mod command;
#[cfg(unix)]
mod disk;
#[cfg(unix)]
mod disturbances;
mod endings;
mod evaluation;
mod experiments;
mod lists;
mod methods;
mod refusals;
mod resumption;

use std::path::Path;
use std::process::{Command, Output};

use command::hwa;

/// A training of seconds: 3 cycles of 8 steps on 160 digits.
const SHORT: [&str; 6] = [
    "data.train_examples=160",
    "optimizer.batch=20",
    "schedule.epochs=3",
    "hwa.window_length=[1, 2]",
    "evaluate.every=1",
    "checkpoints.state_every=3",
];

const EVALUATE: [&str; 7] =
    ["evaluate", "--model", "resnet8", "--data", "digits", "--json", "--weights"];

fn short_train(run: &Path) -> Command {
    let mut command = hwa(&["train", "--json", "--out"]);
    command.arg(run);
    for set in SHORT {
        command.args(["--set", set]);
    }
    command
}

fn resume(run: &Path) -> Output {
    hwa(&["train", "--json", "--resume"]).arg(run).output().unwrap()
}
