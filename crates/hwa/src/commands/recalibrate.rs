//! `hwa recalibrate`: batch-norm statistics, re-estimated on training images.

use hwa_data::{OpenOptions, RecalibrationBatches};
use hwa_store::write_tensors;
use hwa_train::Recalibration;
use serde_json::json;

use crate::arguments::Recalibrate;
use crate::failure::Failure;
use crate::opened;
use crate::output::give;

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
    let Recalibration { images, relative_error } =
        opened::on_threads(arguments.subject.threads, || recalibrate(arguments))?;
    let out = arguments.out.display();
    if arguments.json {
        let object = json!({
            "images": images, "relative_error": relative_error, "out": out.to_string(),
        });
        give(object);
    } else {
        let error = relative_error.map_or("unknown".to_owned(), |e| format!("{:.2} %", e * 100.0));
        give(format_args!(
            "{out}: statistics from {images} images, relative standard error {error}"
        ));
    }
    Ok(())
}

fn recalibrate(arguments: &Recalibrate) -> Result<Recalibration, Failure> {
    let subject = &arguments.subject;
    let (weights, mut metadata) = opened::weights(&subject.weights)?;
    let options = OpenOptions { validation: arguments.all.then_some(0), ..OpenOptions::default() };
    let source = hwa_data::open(&subject.data, subject.data_dir.as_deref(), &options)?;
    let (transform, tolerance) = match arguments.all {
        true => (source.transform.without_augmentation(), 0.0),
        false => (source.transform.clone(), arguments.tolerance),
    };
    let mut replica = opened::blank(&subject.model, opened::task(&source))?;
    let train = source.splits.train.clone();
    let batches = RecalibrationBatches::new(train, transform, subject.batch, arguments.seed);
    let recalibration =
        opened::load_and_recalibrate(replica.as_mut(), subject, &weights, batches, tolerance)?;
    metadata.insert("statistics".to_owned(), "re-estimated".into());
    write_tensors(&arguments.out, &replica.state()?.weights, &metadata)?;
    Ok(recalibration)
}
