//! What a figure shows of one's own runs, in words: the paper's claim stands beside it.

use hwa_train::{Evaluation, Judged};

use crate::boxes::Boxes;
use crate::chart::{Chart, Figure};
use crate::lines::Series;
use crate::record::Record;
use crate::result::Level;
use crate::sheet::Part;

/// Where curves end, the highest first.
pub(super) fn ends(curves: &[Series]) -> Option<String> {
    let mut ends: Vec<(&str, f64)> =
        curves.iter().filter_map(|curve| Some((curve.name.as_str(), last(curve)?))).collect();
    ends.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ends: Vec<String> = ends.iter().map(|(name, end)| format!("{name} {end:.2} %")).collect();
    (!ends.is_empty()).then(|| format!("at the end: {}", ends.join("; ")))
}

/// From when on a curve is where another ends, or above.
pub(super) fn reaches(curve: &Series, other: &Series) -> Option<String> {
    let (goal, (over, _)) = (last(other)?, curve.points.last()?);
    let (name, other) = (&curve.name, &other.name);
    let below = curve.points.iter().rposition(|(_, y)| *y < goal);
    let from = curve.points.get(below.map_or(0, |place| place + 1));
    Some(match from {
        Some((epoch, _)) => format!(
            "{name} is at the {goal:.2} % that {other} ends with, or above, from epoch \
             {epoch:.1} of {over:.1} on"
        ),
        None => format!("{name} does not end at the {goal:.2} % that {other} ends with, or above"),
    })
}

/// How high a curve is in its second half, and how far it jumps from one point to the next.
pub(super) fn oscillation(curve: &Series) -> Option<String> {
    let half = curve.points.get(curve.points.len() / 2..)?;
    let jumps: Vec<f64> = half.windows(2).map(|pair| (pair[1].1 - pair[0].1).abs()).collect();
    let heights: Vec<f64> = half.iter().map(|point| point.1).collect();
    let (height, jump) = (mean(&heights)?, mean(&jumps)?);
    let name = &curve.name;
    Some(format!("{name} {height:.2} % on average, with jumps of {jump:.2} points"))
}

/// How far outer weights are ahead of the models, and HWA weights of outer weights, on validation.
pub(super) fn leads(record: &Record) -> Option<String> {
    let inner = |judged: &Judged| {
        mean(&judged.inner.iter().map(|evaluation| evaluation.top1).collect::<Vec<_>>())
    };
    let outer = |judged: &Judged| Some(judged.outer.as_ref()?.top1);
    let level = record.result_level();
    let result = |judged: &Judged| Some(level.of(judged)?.top1);
    let mut leads = Vec::new();
    leads.extend(lead(record, "outer weights are ahead of the models", &outer, &inner));
    if let Level::Window(window) = level {
        let length = record.started.windows.get(window).and_then(|window| window.length);
        let length = length.map_or("all".to_owned(), |length| length.to_string());
        let what = format!("HWA weights (I = {length}) are ahead of the outer weights");
        leads.extend(lead(record, &what, &result, &outer));
    }
    (!leads.is_empty()).then(|| leads.join("; "))
}

/// The most that one is ahead of another, and the last.
fn lead(
    record: &Record,
    what: &str,
    one: &dyn Fn(&Judged) -> Option<f64>,
    other: &dyn Fn(&Judged) -> Option<f64>,
) -> Option<String> {
    let leads: Vec<(usize, f64)> = record
        .judged
        .iter()
        .filter_map(|judged| Some((judged.cycle, one(judged)? - other(judged)?)))
        .collect();
    let (cycle, most) = leads.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (_, end) = leads.last()?;
    Some(format!(
        "{what} by {most:+.2} points at the most, in cycle {cycle}, and {end:+.2} at the end"
    ))
}

/// What validation chose, beside the last cycle, on test.
pub(super) fn choice(record: &Record) -> Option<String> {
    let summary = record.summary.as_ref()?;
    let (choice, chosen) = (summary.chosen?, summary.test.chosen?);
    let curve = &summary.best_on_test.as_ref()?.curve;
    let at_end = |(cycle, window, _): &&(usize, Option<usize>, f64)| {
        (*cycle, *window) == (summary.last_cycle, choice.window)
    };
    let (_, _, end) = curve.iter().find(at_end)?;
    // Of equals the last is taken: here the earliest.
    let best = curve.iter().rev().filter(|(_, window, _)| *window == choice.window);
    let (best, _, highest) = best.max_by(|a, b| a.2.total_cmp(&b.2))?;
    let Evaluation { top1, .. } = chosen;
    let (cycle, cycles) = (choice.cycle, summary.last_cycle);
    Some(format!(
        "validation chooses cycle {cycle} of {cycles}, {top1:.2} % on test; the last has \
         {end:.2} %, and the highest on test is cycle {best} with {highest:.2} %"
    ))
}

/// The middle of every box.
pub(super) fn medians(boxes: &Boxes) -> Option<String> {
    let medians = boxes.medians();
    let medians: Vec<String> =
        medians.iter().map(|(name, middle)| format!("{name} {middle:.2} %")).collect();
    (!medians.is_empty()).then(|| format!("in the middle: {}", medians.join("; ")))
}

/// Where the losses among the figures of a line are lowest.
pub fn lowest(parts: &[Part]) -> Vec<String> {
    let lowest = |part: &Part| {
        let Part::Figure(Figure { name, chart: Chart::Lines(lines), .. }) = part else {
            return None;
        };
        let points = lines.series.first()?.points.iter().filter(|point| point.1.is_finite());
        let (x, y) =
            points.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| name.ends_with("loss"))?;
        Some(format!("{} loss is lowest at {x:.2}, with {y:.4}", lines.series[0].name))
    };
    parts.iter().filter_map(lowest).collect()
}

/// What marked weights are worth: names with their losses.
pub fn losses<'a>(split: &str, marked: impl IntoIterator<Item = (&'a str, f64)>) -> Option<String> {
    let losses: Vec<String> =
        marked.into_iter().map(|(name, loss)| format!("{name} {loss:.4}")).collect();
    (!losses.is_empty()).then(|| format!("{split} loss: {}", losses.join(", ")))
}

/// What a cycle does to the loss, and what the average that begins it does.
pub fn restarts(models: &[Series], second: usize) -> Option<String> {
    let of_all = |losses: Vec<Option<&(f64, f64)>>| {
        mean(&losses.into_iter().flatten().map(|(_, loss)| *loss).collect::<Vec<_>>())
    };
    let at = |place: usize| of_all(models.iter().map(|model| model.points.get(place)).collect());
    let start = at(second)?;
    let end = of_all(models.iter().map(|model| model.points.last()).collect())?;
    let before = second.checked_sub(1).and_then(at);
    Some(match before {
        Some(before) => format!(
            "the average takes the training loss from {before:.4}, the mean of the models, to \
             {start:.4}; the cycle that follows takes it to {end:.4}"
        ),
        None => format!("a cycle takes the training loss from {start:.4} to {end:.4}"),
    })
}

/// A text for the page, behind a word that tells whose it is.
pub fn here(found: impl IntoIterator<Item = String>) -> Option<Part> {
    let found: Vec<String> = found.into_iter().collect();
    (!found.is_empty()).then(|| Part::Text(format!("Here: {}.", found.join("; "))))
}

fn last(curve: &Series) -> Option<f64> {
    curve.points.last().map(|point| point.1)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use hwa_core::{Choice, Score};
    use hwa_train::{BestOnTest, Summary, WindowEvaluation};

    use super::*;
    use crate::axis::Axis;
    use crate::lines::Lines;
    use crate::svg::Tone;

    fn curve(name: &str, points: &[(f64, f64)]) -> Series {
        Series { name: name.to_owned(), tone: Tone::Series(0), points: points.to_vec() }
    }

    #[test]
    fn ends_are_told_with_the_highest_first_and_when_they_are_reached() {
        let low = curve("one", &[(1.0, 10.0), (2.0, 20.0)]);
        let high = curve("two", &[(1.0, 20.5), (2.0, 19.0), (3.0, 30.0)]);
        let none = curve("none", &[]);
        let both = [low.clone(), high.clone(), none.clone()];
        assert_eq!(ends(&both).unwrap(), "at the end: two 30.00 %; one 20.00 %");
        let told = reaches(&high, &low).unwrap();
        // It was there in epoch 1, and below in epoch 2.
        let expected =
            "two is at the 20.00 % that one ends with, or above, from epoch 3.0 of 3.0 on";
        assert_eq!(told, expected);
        let told = reaches(&low, &high).unwrap();
        assert_eq!(told, "one does not end at the 30.00 % that two ends with, or above");
        assert_eq!((reaches(&low, &none), ends(&[none])), (None, None));
    }

    #[test]
    fn jumps_are_those_of_the_second_half() {
        // 10, 14, 12: 12 on average, jumps of 4 and 2.
        let rate = curve("rate", &[(1.0, 0.0), (2.0, 90.0), (3.0, 10.0), (4.0, 14.0), (5.0, 12.0)]);
        let told = oscillation(&rate).unwrap();
        assert_eq!(told, "rate 12.00 % on average, with jumps of 3.00 points");
        assert_eq!(oscillation(&curve("rate", &[(1.0, 1.0)])), None, "one point does not jump");
    }

    #[test]
    fn leads_are_the_largest_and_the_last() {
        let of = |top1| Evaluation { top1, ..Evaluation::default() };
        let judged = |cycle, inner: [f64; 2], outer, hwa| Judged {
            cycle,
            inner: inner.map(of).to_vec(),
            outer: Some(of(outer)),
            hwa: vec![WindowEvaluation { evaluation: of(hwa), ..WindowEvaluation::default() }],
            ..Judged::default()
        };
        let mut record = Record::default();
        record.started.windows = vec![hwa_core::WindowSpec::sliding(5.try_into().unwrap())];
        record.judged =
            vec![judged(1, [10.0, 12.0], 15.0, 16.0), judged(2, [20.0, 22.0], 21.0, 20.5)];
        assert_eq!(
            leads(&record).unwrap(),
            "outer weights are ahead of the models by +4.00 points at the most, in cycle 1, and \
             +0.00 at the end; HWA weights (I = 5) are ahead of the outer weights by +1.00 points \
             at the most, in cycle 1, and -0.50 at the end"
        );
        assert_eq!(leads(&Record::default()), None);
    }

    #[test]
    fn the_choice_stands_beside_the_last_and_the_highest() {
        let score = Score { accuracy: 0.9, loss: 0.4 };
        let curve =
            vec![(1, Some(0), 71.0), (2, Some(0), 72.5), (3, Some(0), 72.0), (3, None, 80.0)];
        let mut summary = Summary {
            last_cycle: 3,
            chosen: Some(Choice { cycle: 1, window: Some(0), model: None, score }),
            best_on_test: Some(BestOnTest { curve, ..BestOnTest::default() }),
            ..Summary::default()
        };
        summary.test.chosen = Some(Evaluation { top1: 71.0, ..Evaluation::default() });
        let record = Record { summary: Some(summary), ..Record::default() };
        assert_eq!(
            choice(&record).unwrap(),
            "validation chooses cycle 1 of 3, 71.00 % on test; the last has 72.00 %, and the \
             highest on test is cycle 2 with 72.50 %"
        );
        assert_eq!(choice(&Record::default()), None);
    }

    #[test]
    fn the_lowest_loss_of_a_line_has_a_place() {
        let part = |name: &str, points: &[(f64, f64)]| {
            let series = vec![curve("test", points)];
            let chart = Chart::Lines(Lines { series, ..Lines::default() });
            let (title, caption) = Default::default();
            Part::Figure(Figure { name: name.to_owned(), title, caption, chart })
        };
        let loss = part("test-loss", &[(-1.0, f64::NAN), (0.0, 2.5), (0.5, 2.25), (1.0, 2.75)]);
        let accuracy = part("test-accuracy", &[(0.0, 40.0), (1.0, 39.0)]);
        let found = lowest(&[Part::Text(String::new()), loss, accuracy]);
        assert_eq!(found, ["test loss is lowest at 0.50, with 2.2500"]);
    }

    #[test]
    fn boxes_have_a_middle() {
        let groups = vec![("I = 5".to_owned(), vec![3.0, 1.0, 2.0]), ("none".to_owned(), vec![])];
        let boxes = Boxes { y: Axis::measuring("%"), groups };
        assert_eq!(medians(&boxes).unwrap(), "in the middle: I = 5 2.00 %");
    }

    #[test]
    fn a_restart_is_a_fall_and_a_rise() {
        // Two models: 1 and 3 before the average, 1.5 after it, 1.6 and 2 at the end.
        let model = |before, end| curve("", &[(0.0, 1.8), (1.0, before), (1.0, 1.5), (2.0, end)]);
        let told = restarts(&[model(1.0, 1.6), model(3.0, 2.0)], 2).unwrap();
        assert_eq!(
            told,
            "the average takes the training loss from 2.0000, the mean of the models, to 1.5000; \
             the cycle that follows takes it to 1.8000"
        );
        let only = curve("", &[(0.0, 1.5), (1.0, 1.8)]);
        let told = restarts(&[only], 0).unwrap();
        assert_eq!(told, "a cycle takes the training loss from 1.5000 to 1.8000");
    }
}
