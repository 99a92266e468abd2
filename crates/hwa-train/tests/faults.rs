//! What goes wrong ends the run at once, with a name, and loses nothing.

#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod toy;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use toy::{Fault, Seat, settings, train_with};

fn error(broken: Seat, fault: Fault) -> (String, Duration) {
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let faults = |seat| (seat == broken).then_some(fault);
    let outcome = train_with(folder.path(), &settings(), &faults, &Mutex::default());
    (outcome.unwrap_err().to_string(), began.elapsed())
}

#[test]
fn a_model_that_panics_is_named_and_nobody_waits_for_it() {
    let (message, time) = error(Seat::Model(1), Fault::PanicAtStep(7));
    assert_eq!(message, "model 1 panicked: toy out of order");
    assert!(time < Duration::from_secs(10), "{time:?}");
}

#[test]
fn a_model_that_fails_is_named_with_its_step() {
    let (message, _) = error(Seat::Model(0), Fault::ErrorAtStep(7));
    assert!(
        message.starts_with("model 0 failed after step 6: the batch does not fit"),
        "{message}"
    );
}

#[test]
fn a_loss_that_is_not_finite_is_named_with_model_step_and_rate() {
    let (message, _) = error(Seat::Model(1), Fault::NanAtStep(3));
    assert!(
        message.starts_with("model 1 diverged: the loss of step 3 is NaN (rate 0.09"),
        "{message}"
    );
}

#[test]
fn a_judge_that_panics_ends_the_run() {
    let (message, time) = error(Seat::Judge, Fault::PanicInEvaluate);
    assert_eq!(message, "the judge panicked: the toy does not like to be judged");
    assert!(time < Duration::from_secs(10), "{time:?}");
}

#[test]
fn models_that_should_start_alike_and_do_not_are_noticed() {
    let (message, _) = error(Seat::Model(1), Fault::StartsElsewhere);
    assert!(message.contains("starts from another `w` than the others"), "{message}");
}

#[test]
fn divergence_keeps_the_last_good_state() {
    let folder = tempfile::tempdir().unwrap();
    let faults = |seat| (seat == Seat::Model(0)).then_some(Fault::NanAtStep(8));
    train_with(folder.path(), &settings(), &faults, &Mutex::default()).unwrap_err();
    // States are saved every 3 steps: 3 and 6 are complete, and finite.
    let manifest = folder.path().join("state/manifest-0000000006.json");
    assert!(manifest.exists());
}
