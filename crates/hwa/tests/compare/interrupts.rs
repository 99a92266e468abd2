//! Runs that are interrupted or killed: the same command goes on, or says what can be done.

use std::fs;
use std::process::{Command, Output, Stdio};

use super::command::run::has_state;
use super::command::{failed, signal, succeeded, text, wait_until};
use super::{Place, SHORT, weights};

/// Longer, so that there is time to interrupt it.
fn longer() -> Place {
    Place::new(&SHORT.replace("epochs = 3", "epochs = 12").replace("seeds = [1, 2]", "seeds = [1]"))
}

fn signalled(place: &Place, name: &str) -> Output {
    let process = place.compare(&[]).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Two runs are under way.
    for method in ["ca", "lawa"] {
        let run = place.path(&format!("runs/short/digits/resnet8/{method}/seed1"));
        wait_until(|| has_state(&run));
    }
    assert!(signal(process.id(), name));
    process.wait_with_output().unwrap()
}

#[test]
fn an_interrupted_comparison_goes_on_to_the_same_bits() {
    let whole = longer();
    succeeded(&whole.compare(&[]).output().unwrap());
    for signal in ["-INT", "-KILL"] {
        let place = longer();
        let output = signalled(&place, signal);
        if signal == "-INT" {
            failed(&output, 130, "interrupted; the same command goes on");
            assert!(text(&output.stderr).contains("saved: "), "{}", text(&output.stderr));
            let dry = succeeded(&place.compare(&["--dry-run"]).output().unwrap());
            assert!(dry.contains(" to train, 2 of them begun already"), "{dry}");
        }
        let unfinished = |method: &str| {
            let run = format!("runs/short/digits/resnet8/{method}/seed1/summary.json");
            !place.path(&run).exists()
        };
        assert!(unfinished("ca") && unfinished("lawa"));
        // At once: what was left without its parent saves and stops by itself, and is waited for.
        succeeded(&place.compare(&[]).output().unwrap());
        for method in ["ca", "lawa", "hwa", "hwa-total"] {
            let run = format!("runs/short/digits/resnet8/{method}/seed1");
            assert_eq!(weights(&place.path(&run)), weights(&whole.path(&run)), "{signal} {method}");
        }
    }
}

/// A run whose process is killed is no result, and no reason to stop.
#[test]
fn a_run_that_is_killed_is_named_with_the_signal() {
    let place = longer();
    let process = place.compare(&["--only", "CA"]).stderr(Stdio::piped()).spawn().unwrap();
    let run = place.path("runs/short/digits/resnet8/ca/seed1");
    wait_until(|| has_state(&run));
    let children = Command::new("pgrep").args(["-P", &process.id().to_string()]).output().unwrap();
    assert!(signal(text(&children.stdout).trim(), "-KILL"));
    let output = process.wait_with_output().unwrap();
    failed(&output, 1, "failed: signal: 9");
    succeeded(&place.compare(&["--only", "CA"]).output().unwrap());
}

/// The state cannot be read: what is wrong is told with the way back.
#[test]
fn a_run_that_fails_says_what_can_be_done() {
    let place = longer();
    signalled(&place, "-INT");
    let state = place.path("runs/short/digits/resnet8/ca/seed1/state");
    let files = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    let manifests = files.filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    manifests.for_each(|path| fs::write(path, "{").unwrap());
    let output = place.compare(&["--only", "CA"]).output().unwrap();
    // Back to the state before, or to the beginning: how many there were depends on the moment.
    failed(&output, 1, ", remove runs/short/digits/resnet8/ca/seed1/state/manifest-");
    failed(&output, 1, "error: 1 failed: CA, seed 1\nthe same command tries them again");
}
