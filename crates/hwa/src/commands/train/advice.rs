//! What to do about a run that could not go on.

use hwa_train::{Descent, Run, TrainError};

use crate::failure::Failure;

/// The error, and what can be done about it where the run directory tells.
pub(super) fn explained(error: TrainError, run: &Run<'_>) -> Failure {
    let advice = match &error {
        TrainError::Diverged { .. } | TrainError::NotFinite { .. } => after_divergence(run),
        error if error.is_about_writing() => how_to_go_on(run, "when there is room, "),
        // A rank is gone, and the cause with it.
        TrainError::Collective(_) => how_to_go_on(run, ""),
        error if error.is_about_state_in(&run.dir.state()) => how_to_go_back(run),
        _ => return error.into(),
    };
    Failure::Stopped { advice, error: error.into() }
}

/// The same settings would diverge again, so that resuming is no way out.
fn after_divergence(run: &Run<'_>) -> String {
    let left = match saved(run) {
        Some((steps, manifest)) => {
            format!("the state after step {steps} is kept: {manifest}; it would diverge again")
        }
        None => "no state was saved".to_owned(),
    };
    let such = match run.settings.descent {
        Descent::Plain => "",
        Descent::SharpnessAware { .. } => ", such as a smaller `optimizer.rho`",
    };
    format!("{left}\nstart a new run with other settings{such}")
}

/// What to remove so that a run with a damaged state goes on from another.
fn how_to_go_back(run: &Run<'_>) -> String {
    let go_on = format!("go on with: hwa train --resume {}", run.dir.path().display());
    match run.manifests().unwrap_or_default().as_slice() {
        [.., _, newest] => {
            format!("to go back one state, remove {} and {go_on}", newest.display())
        }
        [only] => format!(
            "there is no state before it: to begin again, remove {} and {go_on}",
            only.display()
        ),
        [] => format!("there is no complete state: to begin again, {go_on}"),
    }
}

/// What is left of a run that could not go on for a reason outside of it, and how to go on from it.
fn how_to_go_on(run: &Run<'_>, when: &str) -> String {
    let path = run.dir.path().display();
    let left = match saved(run) {
        Some((steps, manifest)) => {
            format!("the last good state is that after step {steps}: {manifest}")
        }
        None => "no state was saved yet: it will begin again".to_owned(),
    };
    format!("{left}\n{when}go on with: hwa train --resume {path}")
}

/// The steps of the last complete state, and the file that names its parts. What keeps it from being
/// read is not told: the error that led here is.
fn saved(run: &Run<'_>) -> Option<(String, String)> {
    let state = run.saved_state().ok().flatten()?;
    let steps: Vec<String> = state.steps.iter().map(u64::to_string).collect();
    Some((steps.join(", "), state.manifest.display().to_string()))
}
