//! `hwa models`: the networks and what they cost.

use hwa_data::{CatalogueEntry, ImageShape};
use hwa_nn::{ModelSpec, NnError, Task};
use serde_json::json;

use crate::arguments::Models;
use crate::failure::Failure;
use crate::output::give;
use crate::table::aligned;

/// A folder of one's own has as many classes as it has; the networks are counted for these.
const CLASSES_OF_A_FOLDER: usize = 10;

/// Runs the command.
pub(crate) fn run(arguments: &Models) -> Result<(), Failure> {
    let entry = arguments.data.as_deref().map(find).transpose()?;
    let heading = ["network", "parameters", "multiply-adds", "input", "classes"].map(str::to_owned);
    let (mut rows, mut objects) = (vec![heading.to_vec()], Vec::new());
    let mut left_out = Vec::new();
    for spec in ModelSpec::all() {
        let task = entry.map_or_else(|| spec.usual_task(), task);
        let name = spec.to_string();
        let cost = match spec.cost(task) {
            Err(NnError::TooSmall { .. }) => {
                left_out.push(name);
                continue;
            }
            cost => cost?,
        };
        let ImageShape { height, width, channels } = task.images;
        objects.push(json!({
            "name": name, "parameters": cost.parameters, "multiply_adds": cost.multiply_adds,
            "input": [height, width, channels], "classes": task.classes,
        }));
        rows.push(vec![
            name,
            cost.parameters.to_string(),
            in_words(cost.multiply_adds),
            task.images.to_string(),
            task.classes.to_string(),
        ]);
    }
    if arguments.json {
        give(serde_json::Value::from(objects));
        return Ok(());
    }
    give(aligned(&rows).trim_end());
    let whom = entry.map_or("the images that each was made for", |entry| entry.name);
    give(format_args!("\nfor {whom}; resnet<d> is there for any depth d = 6n + 2 but 50 and 152"));
    if entry.is_some_and(|entry| entry.num_classes.is_none()) {
        give(format_args!(
            "counted for {CLASSES_OF_A_FOLDER} classes; yours are counted in training"
        ));
    }
    if !left_out.is_empty() {
        give(format_args!("the images are too small for {}", left_out.join(", ")));
    }
    Ok(())
}

/// The task that a data set sets.
fn task(entry: &CatalogueEntry) -> Task {
    Task { images: entry.shape, classes: entry.num_classes.unwrap_or(CLASSES_OF_A_FOLDER) }
}

/// In millions, or in thousands of millions.
fn in_words(multiply_adds: u64) -> String {
    match multiply_adds as f64 / 1e6 {
        millions if millions < 1e3 => format!("{millions:.1} M"),
        millions => format!("{:.2} G", millions / 1e3),
    }
}

fn find(name: &str) -> Result<&'static CatalogueEntry, Failure> {
    let known = hwa_data::catalogue();
    known.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|entry| entry.name).collect();
        let list = names.join(", ");
        Failure::usage(format!("unknown data set `{name}`; known are {list}"))
    })
}
