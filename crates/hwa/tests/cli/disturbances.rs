//! A run that is killed, interrupted, begun a second time or no longer read comes to its end.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::command::run::{fingerprint, has_state};
use super::command::{failed, signal, succeeded, text, wait_until};
use super::{resume, short_train};

/// Longer, so that there is time to disturb it.
fn longer(run: &Path) -> Command {
    let mut command = short_train(run);
    command.args(["--set", "schedule.epochs=12"]);
    command
}

#[test]
fn a_killed_run_resumes_to_the_same_bits_and_events() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    succeeded(&short_train(&whole).output().unwrap());
    let expected = fingerprint(&whole);
    let mut cut_off = 0;
    for attempt in 0..8u64 {
        let run = folder.path().join(format!("killed-{attempt}"));
        let mut child =
            short_train(&run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The first before there is any state, the others later and later after one.
        wait_until(|| run.join("experiment.toml").exists() && (attempt == 0 || has_state(&run)));
        sleep(Duration::from_millis(15 * attempt * attempt));
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        cut_off += u32::from(!run.join("summary.json").exists());
        succeeded(&resume(&run));
        assert!(fingerprint(&run) == expected, "attempt {attempt}");
        // A finished run has nothing to resume, and says so.
        assert!(text(&resume(&run).stderr).contains("is finished"));
    }
    assert!(cut_off >= 3, "only {cut_off} runs were cut off: the others had finished");
}

#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, run) = (folder.path().join("whole"), folder.path().join("run"));
    succeeded(&longer(&whole).output().unwrap());
    let child = longer(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| has_state(&run));
    assert!(signal(child.id(), "-INT"));
    let output = child.wait_with_output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.contains("hwa train --resume"), "{message}");
    let environment = || -> Value {
        serde_json::from_str(&fs::read_to_string(run.join("environment.json")).unwrap()).unwrap()
    };
    let beginning = environment();
    let resumed = resume(&run);
    succeeded(&resumed);
    // It introduces itself again.
    let again = text(&resumed.stderr);
    for part in
        ["2 models of ", "images: 160 train", "best: highest HWA", "resumed: ", "final pass"]
    {
        assert!(again.contains(part), "{part}: {again}");
    }
    assert!(fingerprint(&run) == fingerprint(&whole));
    // What it began on stays; what it went on with stands beside it.
    let mut later = environment();
    let resumed = later.as_object_mut().unwrap().remove("resumed").unwrap();
    assert_eq!(later, beginning);
    assert_eq!(resumed.as_array().unwrap().len(), 1);
    assert_eq!(resumed[0]["cpu"], beginning["cpu"]);
    assert!(resumed[0]["after_steps"][0].as_u64().unwrap() >= 3);
}

#[test]
fn a_folder_in_use_is_refused_and_its_run_not_disturbed() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, run) = (folder.path().join("whole"), folder.path().join("run"));
    succeeded(&longer(&whole).output().unwrap());
    let first = longer(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| run.join("events.jsonl").exists());
    let in_use = format!("{} is in use by another process", run.display());
    failed(&longer(&run).output().unwrap(), 2, &in_use);
    failed(&resume(&run), 2, &in_use);
    assert!(!run.join("summary.json").exists(), "the first run was over too soon");
    succeeded(&first.wait_with_output().unwrap());
    assert!(fingerprint(&run) == fingerprint(&whole));
}

/// A reader that goes away does not end the training.
#[test]
fn a_closed_pipe_does_not_stop_training() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut child =
        short_train(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert!(run.join("summary.json").is_file());
}
