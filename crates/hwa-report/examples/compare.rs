//! Two runs in one figure: the averages of the first, and the single model of the second.
//!
//! Run: `cargo run -p hwa-report --example compare -- HWA_RUN SGD_RUN TITLE OUT.svg`

use std::error::Error;
use std::fs;

use hwa_report::{Curve, Curves, Level};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [averaged, single, title, out] = &arguments[..] else {
        return Err("expected HWA_RUN SGD_RUN TITLE OUT.svg".into());
    };
    let (mut figure, single) = (read(averaged)?, read(single)?);
    // The outer weights and the first window: more lines would hide each other.
    figure.curves.truncate(2);
    for curve in single.curves.into_iter().filter(|curve| curve.level == Level::Outer) {
        let (level, name) = (Level::Inner, "SGD, one model".to_owned());
        figure.curves.insert(0, Curve { level, name, ..curve });
    }
    fs::write(out, figure.to_svg(title)?)?;
    Ok(())
}

fn read(run: &str) -> Result<Curves, Box<dyn Error>> {
    Ok(Curves::from_events(&fs::read_to_string(format!("{run}/events.jsonl"))?)?)
}
