//! Running the command in tests.
#![allow(dead_code)] // not every test needs all of it

pub(crate) mod run;

use std::fmt::Display;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

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
    let errors: Vec<&str> = message.lines().filter(|l| l.starts_with("error: ")).collect();
    // An interrupt is no error.
    let count = if code == 130 { 0 } else { 1 };
    assert_eq!(errors.len(), count, "one clear message, found: {message}");
    assert!(message.contains(expected), "{message}");
    assert!(!message.contains("panicked at"), "{message}");
}

/// Waits for it, for a minute at most.
pub(crate) fn wait_until(happened: impl Fn() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < Duration::from_secs(60), "it did not happen");
        sleep(Duration::from_millis(2));
    }
}

/// Whether the process was still there to get it.
pub(crate) fn signal(pid: impl Display, signal: &str) -> bool {
    let kill = Command::new("kill").args([signal, &pid.to_string()]).output();
    kill.unwrap().status.success()
}
