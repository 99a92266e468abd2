//! `hwa data`: the data sets there are, and whether their files are whole.

use std::path::Path;
use std::sync::atomic::Ordering;

use hwa_data::{CatalogueEntry, CheckReport, cache_folder, catalogue};
use serde_json::Value;

use crate::arguments::{DataCheck, DataList};
use crate::counting::{Counting, interrupt};
use crate::failure::Failure;
use crate::output::give;
use crate::table::aligned;

/// So many classes are counted one by one without being asked to.
const FEW_CLASSES: usize = 20;

/// `hwa data list`
pub(crate) fn list(arguments: &DataList) -> Result<(), Failure> {
    let dir = arguments.data_dir.as_deref();
    if arguments.json {
        let entries: Result<Vec<Value>, Failure> =
            catalogue().iter().map(|entry| json_entry(entry, dir)).collect();
        give(Value::from(entries?));
        return Ok(());
    }
    let heading = ["data set", "classes", "image", "train", "validation", "of", "test", "here"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(catalogue().iter().map(|entry| row(entry, dir)));
    give(aligned(&rows).trim_end());
    let cache = cache_folder().map_or("(none)".to_owned(), |p| p.display().to_string());
    let place = match dir {
        Some(dir) => dir.display().to_string(),
        None => format!(
            "the cache folder {cache}\n\
             (HWA_DATA_DIR sets another; --data-dir names one for a command)"
        ),
    };
    give(format_args!(
        "\nof: the images of the published training set; validation images are held out of it\n\
         looked for in {place}"
    ));
    for entry in catalogue() {
        give(format_args!(
            "\n{}: {}\n  {}\n  {}",
            entry.name, entry.summary, entry.citation, entry.licence
        ));
        if let (Some(archive), Some(folder)) = (entry.archive, entry.folder) {
            give(format_args!("  {archive} (goes to {folder}/)"));
        }
    }
    Ok(())
}

fn row(entry: &CatalogueEntry, dir: Option<&Path>) -> Vec<String> {
    let here = match (entry.folder, entry.is_found(dir)) {
        (None, _) => "built in",
        _ if entry.num_classes.is_none() => "--data-dir",
        (_, true) => "found",
        (_, false) => "not found",
    };
    let count = |count: Option<usize>| count.map_or("–".to_owned(), |count| count.to_string());
    vec![
        entry.name.to_owned(),
        count(entry.num_classes),
        entry.shape.to_string(),
        count(trained_on(entry)),
        count(entry.validation_examples),
        count(entry.train_examples),
        count(entry.test_examples),
        here.to_owned(),
    ]
}

/// The catalogue counts validation images as training images; people and their
/// programs read one meaning of train, that of the table.
fn json_entry(entry: &CatalogueEntry, dir: Option<&Path>) -> Result<Value, Failure> {
    let mut object = serde_json::to_value(entry)?;
    object["train_examples"] = trained_on(entry).into();
    object["published_train_examples"] = entry.train_examples.into();
    object["found"] = entry.is_found(dir).into();
    Ok(object)
}

/// How many images are left to train on.
fn trained_on(entry: &CatalogueEntry) -> Option<usize> {
    Some(entry.train_examples? - entry.validation_examples?)
}

/// `hwa data check`
pub(crate) fn check(arguments: &DataCheck) -> Result<(), Failure> {
    let progress = Counting::new("images");
    let stop = interrupt()?;
    let go_on = |done: usize, total: usize| {
        progress.show(done as u64, Some(total as u64));
        !stop.load(Ordering::Relaxed)
    };
    let report = hwa_data::check(&arguments.name, arguments.data_dir.as_deref(), &go_on)?;
    progress.end();
    match arguments.json {
        true => give(serde_json::to_string(&report)?),
        false => describe(&report, arguments.classes),
    }
    if report.is_whole() {
        return Ok(());
    }
    let (bad, differences) = (report.unreadable.len(), report.differences.join("; "));
    let bad = if bad > 0 { format!("{bad} images cannot be read") } else { String::new() };
    let reasons = [bad, differences].into_iter().filter(|text| !text.is_empty());
    let reasons = reasons.collect::<Vec<String>>().join("; ");
    Err(Failure::Run(anyhow::anyhow!("{}: {reasons}", report.name)))
}

fn describe(report: &CheckReport, classes: bool) {
    for file in &report.files {
        give(format_args!("{}: as published", file.display()));
    }
    give(aligned(&by_split(report)).trim_end());
    if classes || report.class_names.len() <= FEW_CLASSES {
        give(format_args!("\n{}", aligned(&by_class(report)).trim_end()));
    } else {
        give("(--classes counts each class)");
    }
    if report.strays > 0 {
        give(format_args!("{} other files, without the name of an image", report.strays));
    }
    for bad in &report.unreadable {
        give(format_args!("cannot be read: {}: {}", bad.path.display(), bad.reason));
    }
}

fn by_split(report: &CheckReport) -> Vec<Vec<String>> {
    let heading = ["split", "images", "smallest class", "largest class"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for split in &report.splits {
        let smallest = split.by_class.iter().min().copied().unwrap_or(0);
        let largest = split.by_class.iter().max().copied().unwrap_or(0);
        let counts = [split.examples, smallest, largest].map(|count| count.to_string());
        rows.push([&[split.name.to_owned()], counts.as_slice()].concat());
    }
    rows
}

fn by_class(report: &CheckReport) -> Vec<Vec<String>> {
    let mut heading = vec!["class".to_owned()];
    heading.extend(report.splits.iter().map(|split| split.name.to_owned()));
    let mut rows = vec![heading];
    for (class, name) in report.class_names.iter().enumerate() {
        let counts = report.splits.iter().map(|split| split.by_class[class].to_string());
        rows.push([name.clone()].into_iter().chain(counts).collect());
    }
    rows
}
