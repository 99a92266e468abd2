//! Running the command in tests.
#![allow(dead_code)] // not every test needs all of it

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The command with some arguments.
pub(crate) fn hwa(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hwa"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Trains a run with some keys set.
pub(crate) fn train(run: &Path, sets: &[&str]) {
    let mut command = hwa(&["train", "--plain", "--out"]);
    command.arg(run);
    for set in sets {
        command.args(["--set", set]);
    }
    succeeded(&command.output().unwrap());
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What it gave, if it succeeded.
pub(crate) fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_str(succeeded(output).trim()).unwrap()
}

/// That it failed with this code, and said this.
pub(crate) fn failed(output: &Output, code: i32, expected: &str) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.contains(expected), "{message}");
    assert!(!message.contains("panicked at"), "{message}");
}
