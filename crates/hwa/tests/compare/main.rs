//! `hwa compare` as a user meets it.
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod beforehand;
#[path = "../command/mod.rs"]
mod command;
mod failures;
#[cfg(unix)]
mod interrupts;
mod tables;
mod trained;

use std::fs;
use std::path::Path;
use std::process::Command;

use command::hwa;

/// Runs of a second: 3 cycles of 8 steps on 160 digits.
const SHORT: &str = r#"
name = "short"
title = "Two methods on digits"
seeds = [1, 2]
methods = [
    { label = "CA", method = "sgd" },
    { label = "LAWA", method = "lawa", hwa = { window_length = 2 } },
    { label = "HWA", method = "hwa", hwa = { window_length = [1, 2] } },
]
networks = ["resnet8"]
datasets = ["digits"]

[experiment]
data = { train_examples = 160 }
optimizer = { batch = 20 }
schedule = { epochs = 3 }
evaluate = { every = 1 }
checkpoints = { state_every = 3 }

[paper.digits.resnet8]
HWA = 99.0
"#;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("c.toml"), text).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn compare(&self, arguments: &[&str]) -> Command {
        let mut command = hwa(&["compare", "c.toml", "--plain", "--cores", "2"]);
        command.current_dir(self.folder.path()).args(arguments);
        command
    }
}

/// What a run trained, without what depends on the clock.
fn weights(run: &Path) -> Vec<u8> {
    fs::read(run.join("best.safetensors")).unwrap()
}
