//! `hwa models`: the networks and what they cost.

use hwa_data::{CatalogueEntry, ImageShape};
use hwa_nn::{ModelSpec, NnError, Task};
use serde_json::json;

use crate::arguments::Models;
use crate::failure::Failure;
use crate::output::give;
use crate::table::aligned;

/// Unless a data set says otherwise: colour, and as many classes as `hwa bench` has.
const CHANNELS: usize = 3;
const CLASSES: usize = 100;

/// Runs the command.
pub(crate) fn run(arguments: &Models) -> Result<(), Failure> {
    let entry = arguments.data.as_deref().map(find).transpose()?;
    let heading = ["network", "parameters", "multiply-adds", "input"].map(str::to_owned);
    let (mut rows, mut objects) = (vec![heading.to_vec()], Vec::new());
    let mut left_out = Vec::new();
    for spec in ModelSpec::all() {
        let (name, task) = (spec.to_string(), task(spec, entry));
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
        let multiply_adds = format!("{:.1} M", cost.multiply_adds as f64 / 1e6);
        rows.push(vec![name, cost.parameters.to_string(), multiply_adds, task.images.to_string()]);
    }
    if arguments.json {
        give(serde_json::Value::from(objects));
        return Ok(());
    }
    give(aligned(&rows).trim_end());
    let (whom, classes) = match entry {
        Some(entry) => (entry.name, entry.num_classes.unwrap_or(CLASSES)),
        None => ("images of the usual size", CLASSES),
    };
    give(format_args!(
        "\nfor {whom} ({classes} classes); resnet<d> is there for any depth d = 6n + 2 but 50 and 152"
    ));
    if !left_out.is_empty() {
        give(format_args!("the images are too small for {}", left_out.join(", ")));
    }
    Ok(())
}

/// What a network is counted for.
fn task(spec: ModelSpec, entry: Option<&CatalogueEntry>) -> Task {
    match entry {
        Some(entry) => Task { images: entry.shape, classes: entry.num_classes.unwrap_or(CLASSES) },
        None => {
            let side = spec.usual_size();
            let images = ImageShape { height: side, width: side, channels: CHANNELS };
            Task { images, classes: CLASSES }
        }
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
