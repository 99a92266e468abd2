//! `hwa recalibrate`: batch-norm statistics, re-estimated on training images.

use hwa_data::OpenOptions;
use hwa_store::write_tensors;
use hwa_train::Recalibration;
use serde_json::json;

use crate::arguments::Recalibrate;
use crate::failure::Failure;
use crate::left_out::LeftOut;
use crate::opened::{self, Opened};
use crate::output::{give, tell};

/// Runs the command.
pub(crate) fn run(arguments: &Recalibrate) -> Result<(), Failure> {
    if arguments.out.exists() && !arguments.force {
        let out = arguments.out.display();
        return Err(Failure::usage(format!("{out} exists; --force overwrites it")));
    }
    if let Some(found) = arguments.tolerance.filter(|asked| !(0.0..=1.0).contains(asked)) {
        return Err(Failure::usage(format!("--tolerance must be from 0 to 1, found {found}")));
    }
    let Done { recalibration: Recalibration { images, relative_error }, available, tolerance } =
        opened::on_threads(arguments.subject.threads, || recalibrate(arguments))?;
    let out = arguments.out.display();
    if arguments.json {
        let object = json!({
            "images": images, "relative_error": relative_error, "out": out.to_string(),
        });
        give(object);
        return Ok(());
    }
    let error = relative_error.map_or("unknown".to_owned(), |e| format!("{:.2} %", e * 100.0));
    give(format_args!("{out}: statistics from {images} images, relative standard error {error}"));
    if !arguments.all
        && let Some(shortfall) = shortfall(tolerance, relative_error, available)
    {
        tell(shortfall);
    }
    Ok(())
}

/// What to say of statistics that stayed above the tolerance: there is no more to be had.
fn shortfall(tolerance: f64, relative_error: Option<f64>, available: usize) -> Option<String> {
    let error = relative_error.filter(|error| *error > tolerance)?;
    let (tolerance, error) = (100.0 * tolerance, 100.0 * error);
    Some(format!(
        "tolerance {tolerance} % not reached ({error:.2} %): all {available} training images used"
    ))
}

/// What was done.
struct Done {
    recalibration: Recalibration,
    /// The images that there were.
    available: usize,
    /// The error that was small enough.
    tolerance: f64,
}

fn recalibrate(arguments: &Recalibrate) -> Result<Done, Failure> {
    let mut opened = Opened::new(&arguments.subject)?;
    let estimation = &mut opened.estimation;
    estimation.seed = arguments.seed.unwrap_or(estimation.seed);
    estimation.tolerance = arguments.tolerance.unwrap_or(estimation.tolerance);
    let mut options = opened.options.clone();
    if arguments.all {
        (estimation.augment, estimation.tolerance) = (false, 0.0);
        options = OpenOptions { validation: Some(0), train_examples: None, ..options };
    }
    let source = opened.source(&options)?;
    let (weights, mut metadata) = opened.weights(&source)?;
    let mut replica = opened.blank(opened::task(&source))?;
    let recalibration = opened::load_and_recalibrate(replica.as_mut(), &opened, &weights, &source)?;
    LeftOut::of(&source).tell();
    metadata.insert("statistics".to_owned(), "re-estimated".into());
    write_tensors(&arguments.out, &replica.state()?.weights, &metadata)?;
    let (available, tolerance) = (source.splits.train.len(), opened.estimation.tolerance);
    Ok(Done { recalibration, available, tolerance })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_that_was_not_reached_is_told() {
        let told = shortfall(0.01, Some(0.013), 1077).unwrap();
        assert_eq!(told, "tolerance 1 % not reached (1.30 %): all 1077 training images used");
        assert_eq!(shortfall(0.01, Some(0.01), 1077), None);
        assert_eq!(shortfall(0.01, None, 1077), None);
    }
}
