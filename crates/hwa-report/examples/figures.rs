//! Draws every figure of some runs, and a page of them.
//!
//! Run: `cargo run -p hwa-report --example figures -- OUT RUN...`

#![allow(clippy::print_stdout)] // an example shows its result

use std::error::Error;
use std::fs;
use std::path::Path;

use hwa_report::{PageOptions, Record, page};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().ok_or("figures OUT RUN...")?;
    let mut records = Vec::new();
    for run in arguments {
        let run = Path::new(&run);
        let events = fs::read_to_string(run.join("events.jsonl"))?;
        let mut record = Record::from_events(&run.display().to_string(), &events)?;
        record.experiment = fs::read_to_string(run.join("experiment.toml"))?;
        records.push(record);
    }
    let page = page(&records, PageOptions { files: true, ..PageOptions::default() })?;
    fs::create_dir_all(&out)?;
    for figure in &page.figures {
        let path = Path::new(&out).join(format!("{}.svg", figure.name));
        fs::write(&path, figure.to_svg()?)?;
    }
    let index = Path::new(&out).join("index.html");
    fs::write(&index, page.html)?;
    println!("{}", index.display());
    Ok(())
}
