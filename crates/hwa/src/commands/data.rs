//! `hwa data`: the data sets there are, and whether their files are whole.

use hwa_data::{CatalogueEntry, cache_folder, catalogue};
use serde_json::Value;

use crate::arguments::{DataCheck, DataList};
use crate::failure::Failure;
use crate::output::give;
use crate::table::aligned;

/// `hwa data list`
pub(crate) fn list(arguments: &DataList) -> Result<(), Failure> {
    if arguments.json {
        let entries: Result<Vec<Value>, Failure> = catalogue().iter().map(json_entry).collect();
        give(Value::from(entries?));
        return Ok(());
    }
    let heading = ["data set", "classes", "image", "train", "validation", "of", "test", "here"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(catalogue().iter().map(row));
    give(aligned(&rows).trim_end());
    let cache = cache_folder().map_or("(none)".to_owned(), |p| p.display().to_string());
    give(format_args!(
        "\nof: the images of the published training set; validation images are held out of it\n\
         looked for in the cache folder {cache}\n\
         (HWA_DATA_DIR sets another; --data-dir names one for a command)"
    ));
    for entry in catalogue() {
        give(format_args!(
            "\n{}: {}\n  {}\n  {}",
            entry.name, entry.summary, entry.citation, entry.licence
        ));
        if let (Some(archive), Some(folder)) = (entry.archive, entry.folder) {
            give(format_args!("  {archive} (unpacks to {folder}/)"));
        }
    }
    Ok(())
}

fn row(entry: &CatalogueEntry) -> Vec<String> {
    let here = match (entry.folder, entry.is_found(None)) {
        (None, _) => "built in",
        (_, true) => "found",
        (_, false) => "not found",
    };
    vec![
        entry.name.to_owned(),
        entry.num_classes.to_string(),
        entry.shape.to_string(),
        trained_on(entry).to_string(),
        entry.validation_examples.to_string(),
        entry.train_examples.to_string(),
        entry.test_examples.to_string(),
        here.to_owned(),
    ]
}

/// The catalogue counts validation images as training images; people and their
/// programs read one meaning of train, that of the table.
fn json_entry(entry: &CatalogueEntry) -> Result<Value, Failure> {
    let mut object = serde_json::to_value(entry)?;
    object["train_examples"] = trained_on(entry).into();
    object["published_train_examples"] = entry.train_examples.into();
    object["found"] = entry.is_found(None).into();
    Ok(object)
}

/// How many images are left to train on.
fn trained_on(entry: &CatalogueEntry) -> usize {
    entry.train_examples - entry.validation_examples
}

/// `hwa data check`
pub(crate) fn check(arguments: &DataCheck) -> Result<(), Failure> {
    let report = hwa_data::check(&arguments.name, arguments.data_dir.as_deref())?;
    if arguments.json {
        give(serde_json::to_string(&report)?);
        return Ok(());
    }
    for file in &report.files {
        give(format_args!("{}: as published", file.display()));
    }
    let heading = ["split", "images", "smallest class", "largest class"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for split in &report.splits {
        let smallest = split.by_class.iter().min().copied().unwrap_or(0);
        let largest = split.by_class.iter().max().copied().unwrap_or(0);
        rows.push(vec![
            split.name.to_owned(),
            split.examples.to_string(),
            smallest.to_string(),
            largest.to_string(),
        ]);
    }
    give(aligned(&rows).trim_end());
    Ok(())
}
