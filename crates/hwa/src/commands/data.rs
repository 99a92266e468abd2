//! `hwa data`: the data sets there are, and whether their files are whole.

use hwa_data::{CatalogueEntry, cache_folder, catalogue};

use crate::arguments::{DataCheck, DataList};
use crate::failure::Failure;
use crate::output::give;
use crate::table::aligned;

/// `hwa data list`
pub(crate) fn list(arguments: &DataList) -> Result<(), Failure> {
    if arguments.json {
        give(serde_json::to_string(catalogue())?);
        return Ok(());
    }
    let heading = ["data set", "classes", "image", "train", "validation", "test", "where"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(catalogue().iter().map(row));
    give(aligned(&rows).trim_end());
    let cache = cache_folder().map_or("(none)".to_owned(), |p| p.display().to_string());
    give(format_args!(
        "\nlooked for in --data-dir, or in the cache folder {cache} (HWA_DATA_DIR sets another)"
    ));
    for entry in catalogue() {
        give(format_args!(
            "\n{}: {}\n  {}\n  {}",
            entry.name, entry.summary, entry.citation, entry.licence
        ));
        if let Some(archive) = entry.archive {
            give(format_args!("  {archive}"));
        }
    }
    Ok(())
}

fn row(entry: &CatalogueEntry) -> Vec<String> {
    let train = entry.train_examples - entry.validation_examples;
    vec![
        entry.name.to_owned(),
        entry.num_classes.to_string(),
        entry.shape.to_string(),
        train.to_string(),
        entry.validation_examples.to_string(),
        entry.test_examples.to_string(),
        entry.folder.map_or("built in".to_owned(), |folder| format!("{folder}/")),
    ]
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
    let heading = ["split", "images", "least of a class", "most of a class"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for split in &report.splits {
        let least = split.by_class.iter().min().copied().unwrap_or(0);
        let most = split.by_class.iter().max().copied().unwrap_or(0);
        rows.push(vec![
            split.name.to_owned(),
            split.examples.to_string(),
            least.to_string(),
            most.to_string(),
        ]);
    }
    give(aligned(&rows).trim_end());
    Ok(())
}
