//! `hwa recalibrate`: batch-norm statistics, re-estimated on training images.

use hwa_data::{OpenOptions, RecalibrationBatches};
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
    if !(0.0..=1.0).contains(&arguments.tolerance) {
        let found = arguments.tolerance;
        return Err(Failure::usage(format!("--tolerance must be from 0 to 1, found {found}")));
    }
    let (Recalibration { images, relative_error }, available) =
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
        && let Some(shortfall) = shortfall(arguments.tolerance, relative_error, available)
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

/// The statistics' error, and how many images there were to take them from.
fn recalibrate(arguments: &Recalibrate) -> Result<(Recalibration, usize), Failure> {
    let mut opened = Opened::new(&arguments.subject)?;
    let options = opened.options.clone();
    let options = match arguments.all {
        true => OpenOptions { validation: Some(0), train_examples: None, ..options },
        false => options,
    };
    let source = opened.source(&options)?;
    let (weights, mut metadata) = opened.weights(&source)?;
    let (transform, tolerance) = match arguments.all {
        true => (source.transform.without_augmentation(), 0.0),
        false => (source.transform.clone(), arguments.tolerance),
    };
    let mut replica = opened.blank(opened::task(&source))?;
    let train = source.splits.train.clone();
    let available = train.len();
    let batches =
        RecalibrationBatches::new(train, transform, arguments.subject.batch, arguments.seed);
    let recalibration =
        opened::load_and_recalibrate(replica.as_mut(), &opened, &weights, batches, tolerance)?;
    LeftOut::of(&source).tell();
    metadata.insert("statistics".to_owned(), "re-estimated".into());
    write_tensors(&arguments.out, &replica.state()?.weights, &metadata)?;
    Ok((recalibration, available))
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
