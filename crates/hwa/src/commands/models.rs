//! `hwa models`: the networks and what they cost.

use hwa_nn::{ModelSpec, Task};
use serde_json::json;

use crate::arguments::Models;
use crate::failure::Failure;
use crate::output::give;
use crate::table::aligned;

/// Runs the command.
pub(crate) fn run(arguments: &Models) -> Result<(), Failure> {
    let known = hwa_data::catalogue();
    let entry = known.iter().find(|entry| entry.name == arguments.data).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|entry| entry.name).collect();
        let list = names.join(", ");
        Failure::usage(format!("unknown data set `{}`; known are {list}", arguments.data))
    })?;
    let task = Task { images: entry.shape, classes: entry.num_classes };
    let heading = ["network", "parameters", "multiply-adds", "input"].map(str::to_owned);
    let (mut rows, mut objects) = (vec![heading.to_vec()], Vec::new());
    for spec in ModelSpec::all() {
        let (name, cost) = (spec.to_string(), spec.cost(task)?);
        objects.push(json!({
            "name": name, "parameters": cost.parameters, "multiply_adds": cost.multiply_adds,
            "input": [entry.shape.height, entry.shape.width, entry.shape.channels],
            "classes": entry.num_classes,
        }));
        let multiply_adds = format!("{:.1} M", cost.multiply_adds as f64 / 1e6);
        rows.push(vec![name, cost.parameters.to_string(), multiply_adds, entry.shape.to_string()]);
    }
    if arguments.json {
        give(serde_json::Value::from(objects));
    } else {
        give(aligned(&rows).trim_end());
        give(format_args!(
            "\nfor {} ({} classes); resnet<d> is there for any depth d = 6n + 2",
            entry.name, entry.num_classes
        ));
    }
    Ok(())
}
