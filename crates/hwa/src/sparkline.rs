//! Small curves of a run, for terminals.

use hwa_report::{Chart, Record};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The widest that a curve may be.
const WIDEST: usize = 40;

/// The curves of a run, a line each: the loss on training batches, and what the judge saw of the
/// result. Nothing of runs too short for one.
pub(crate) fn curves(record: &Record) -> String {
    let training = match record.training_loss().map(|figure| figure.chart) {
        Some(Chart::Lines(lines)) => lines.series.into_iter().next().map(|series| series.points),
        _ => None,
    };
    let result = record.result(|evaluation| evaluation.top1);
    let chosen = record.choice().map_or_else(String::new, |choice| {
        format!("; chosen: {:.2} %, cycle {}", 100.0 * choice.score.accuracy, choice.cycle)
    });
    let curves = [
        ("training loss", training.unwrap_or_default(), "", ""),
        ("accuracy on validation", result, " %", chosen.as_str()),
    ];
    // A loss falls by powers of ten, as on the page: by itself it would soon be flat.
    let height = |unit: &str, value: f64| if unit.is_empty() { value.log10() } else { value };
    let mut text = String::new();
    for (name, points, unit, chosen) in curves {
        let values: Vec<f64> = points.iter().map(|point| point.1).collect();
        let heights: Vec<f64> = values.iter().map(|value| height(unit, *value)).collect();
        if let ([first, .., last], Some(line)) = (values.as_slice(), sparkline(&heights)) {
            let digits = if unit.is_empty() { 3 } else { 2 };
            text.push_str(&format!(
                "{name:<22} {line} first {first:.digits$}, last {last:.digits$}{unit}{chosen}\n"
            ));
        }
    }
    text
}

/// A bar for every value, or for some that are evenly apart; nothing if none is finite.
fn sparkline(values: &[f64]) -> Option<String> {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    let low = finite.clone().fold(f64::INFINITY, f64::min);
    let high = finite.fold(f64::NEG_INFINITY, f64::max);
    if low > high {
        return None;
    }
    let columns = values.len().min(WIDEST);
    let at = |column: usize| match columns {
        1 => values[0],
        _ => values[column * (values.len() - 1) / (columns - 1)],
    };
    let bar = |value: f64| match value.is_finite() {
        false => ' ',
        true if high == low => BARS[0],
        true => BARS[(((value - low) / (high - low)) * 7.0).round() as usize],
    };
    Some((0..columns).map(|column| bar(at(column))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_shares_of_the_range() {
        let eight: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(sparkline(&eight).unwrap(), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[3.0, 3.0]).unwrap(), "▁▁");
        assert_eq!(sparkline(&[1.0, f64::NAN, 2.0]).unwrap(), "▁ █");
        assert_eq!(sparkline(&[f64::NAN]), None);
        assert_eq!(sparkline(&[]), None);
    }

    #[test]
    fn a_long_curve_keeps_its_ends_and_becomes_no_wider() {
        let long: Vec<f64> = (0..1000).map(f64::from).collect();
        let line = sparkline(&long).unwrap();
        assert_eq!(line.chars().count(), WIDEST);
        assert!(line.starts_with('▁') && line.ends_with('█'));
    }
}
