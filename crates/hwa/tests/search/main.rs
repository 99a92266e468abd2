//! `hwa search` and `hwa average --soup` as a user meets them.
#![cfg(unix)] // its commands are scripts of a shell
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod bench;
mod budgets;
#[path = "../command/mod.rs"]
mod command;
mod interrupts;
mod journal;
mod judge;
mod refusals;
mod runs;
mod soups;

use serde_json::Value;

fn window(line: &Value) -> (u64, u64, u64) {
    let number = |key: &str| line[key].as_u64().unwrap();
    (number("at"), number("length"), number("stride"))
}

/// What does not depend on the clock or the folder.
fn lasting(mut result: Value) -> Value {
    for key in ["seconds", "out", "file"] {
        result.as_object_mut().unwrap().remove(key);
    }
    result
}
