//! `hwa evaluate`: weights on a split of a data set.

use hwa_data::{OpenOptions, RecalibrationBatches};
use hwa_train::{Evaluation, evaluate};
use serde_json::json;

use crate::arguments::{Evaluate, Split};
use crate::failure::Failure;
use crate::opened;
use crate::output::{give, tell};

const TOLERANCE: f64 = 0.01;
const SEED: u64 = 1;

/// Runs the command.
pub(crate) fn run(arguments: &Evaluate) -> Result<(), Failure> {
    let (evaluation, statistics) =
        opened::on_threads(arguments.subject.threads, || measure(arguments))?;
    if arguments.json {
        let Evaluation { top1, top5, loss, images, .. } = evaluation;
        let object = json!({
            "top1": top1, "top5": top5, "loss": loss, "images": images, "statistics": statistics,
        });
        give(object);
    } else {
        give(format_args!(
            "top-1 {:.2} %   top-5 {:.2} %   loss {:.4}   over {} images (statistics {statistics})",
            evaluation.top1, evaluation.top5, evaluation.loss, evaluation.images
        ));
    }
    Ok(())
}

fn measure(arguments: &Evaluate) -> Result<(Evaluation, &'static str), Failure> {
    let subject = &arguments.subject;
    let (weights, metadata) = opened::weights(&subject.weights)?;
    let dir = subject.data_dir.as_deref();
    let source = hwa_data::open(&subject.data, dir, &OpenOptions::default())?;
    let mut replica = opened::blank(&subject.model, opened::task(&source))?;
    let splits = &source.splits;
    let complete = opened::is_complete(&weights);
    if complete {
        opened::load_complete(replica.as_mut(), subject, weights)?;
    } else {
        tell(format_args!(
            "{}: no statistics; re-estimating them on training images",
            subject.weights.display()
        ));
        let (train, transform) = (splits.train.clone(), source.transform.clone());
        let batches = RecalibrationBatches::new(train, transform, subject.batch, SEED);
        opened::load_and_recalibrate(replica.as_mut(), subject, &weights, batches, TOLERANCE)?;
    }
    let averaged = metadata.get("statistics").is_some_and(|s| s == "averaged");
    if averaged {
        tell(format_args!(
            "{}: its statistics are averages; `hwa recalibrate` re-estimates them",
            subject.weights.display()
        ));
    }
    let split = match arguments.split {
        Split::Train => &splits.train,
        Split::Validation => &splits.validation,
        Split::Test => &splits.test,
    };
    let tally = evaluate(replica.as_mut(), split, &source.transform, subject.batch)?;
    let statistics = match (complete, averaged) {
        (false, _) => "re-estimated",
        (true, true) => "averaged",
        (true, false) => "stored",
    };
    Ok((Evaluation::new(&tally, None), statistics))
}
