//! `hwa evaluate`: weights on a split of a data set.

use hwa_data::{OpenOptions, Splits};
use hwa_train::{Evaluation, evaluate};
use serde_json::json;

use crate::arguments::{Evaluate, Split};
use crate::failure::Failure;
use crate::left_out::LeftOut;
use crate::opened::{self, Opened};
use crate::output::{give, tell};

/// Runs the command.
pub(crate) fn run(arguments: &Evaluate) -> Result<(), Failure> {
    let (evaluation, statistics) =
        opened::on_threads(arguments.subject.threads, || measure(arguments))?;
    let Evaluation { top1, top5, loss, images, .. } = evaluation;
    let split = arguments.split.word();
    if arguments.json {
        give(json!({
            "top1": top1, "top5": top5, "loss": loss,
            "split": split, "images": images, "statistics": statistics,
        }));
    } else {
        give(format_args!(
            "top-1 {top1:.2} %   top-5 {top5:.2} %   loss {loss:.4}   \
             {split}, {images} images ({statistics} statistics)"
        ));
    }
    Ok(())
}

fn measure(arguments: &Evaluate) -> Result<(Evaluation, &'static str), Failure> {
    let mut opened = Opened::new(&arguments.subject)?;
    let source = opened.source(&opened.options)?;
    let (weights, metadata) = opened.weights(&source)?;
    let file = opened.weights.display();
    let mut replica = opened.blank(opened::task(&source))?;
    let splits = &source.splits;
    if let Some(line) = which_split(arguments.split, splits, &opened) {
        tell(line);
    }
    if let Some(run) = &arguments.subject.run
        && arguments.split == Split::Test
        && !run.join("summary.json").is_file()
    {
        tell("the run is not finished: what is chosen after a look at test is chosen on test");
    }
    let complete = opened::is_complete(&weights);
    if complete {
        opened::load_complete(replica.as_mut(), &opened, weights)?;
    } else {
        tell(format_args!("{file}: no statistics; re-estimating them on training images"));
        opened::load_and_recalibrate(replica.as_mut(), &opened, &weights, &source)?;
    }
    let averaged = metadata.get("statistics").is_some_and(|s| s == "averaged");
    if averaged {
        tell(format_args!(
            "{file}: its statistics are averages; `hwa recalibrate` re-estimates them"
        ));
    }
    let split = match arguments.split {
        Split::Train => &splits.train,
        Split::Validation => &splits.validation,
        Split::Test => &splits.test,
    };
    let tally = evaluate(replica.as_mut(), split, &source.transform, opened.estimation.batch)?;
    LeftOut::of(&source).tell();
    let statistics = match (complete, averaged) {
        (false, _) => "re-estimated",
        (true, true) => "averaged",
        (true, false) => "stored",
    };
    Ok((Evaluation::new(&tally, None), statistics))
}

/// Which images are meant, where that depends on how the data set was split: weights
/// may have been trained on images that another split calls validation.
fn which_split(split: Split, splits: &Splits, opened: &Opened) -> Option<String> {
    if split == Split::Test {
        return None;
    }
    let whose = if opened.of_run { "the run's split" } else { "the default split" };
    let seed = OpenOptions::default().split_seed;
    let held_out = splits.validation.len();
    Some(format!("{}: {whose}, {held_out} images held out, split seed {seed}", split.word()))
}
