//! The paper's figures that are drawn from what runs have told, with what they show in words.

pub mod findings;
mod networks;

use crate::axis::Axis;
use crate::boxes::Boxes;
use crate::chart::{Chart, Figure};
use crate::figures::later;
use crate::lines::{Lines, Series};
use crate::record::Record;
use crate::result::Level;
use crate::sheet::Part;
use crate::svg::Tone;

pub use networks::Networks;

/// The label of runs of HWA.
pub const HWA: &str = "HWA";
/// That of online averaging.
pub const ONLINE: &str = "online";
/// That of offline averaging, with the usual rate.
pub const SWA: &str = "SWA, rate 0.05";
/// That of one model whose rate is a cosine.
pub const COSINE: &str = "cosine";

/// A run under its labels in a comparison.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Labelled {
    /// The network.
    pub network: String,
    /// The method: figures that need a certain one know it by its label.
    pub method: String,
    /// What the run has told.
    pub record: Record,
}

type Points = Vec<(f64, f64)>;

/// Tones of one run, on training and on test images.
const BLUES: (usize, usize) = (2, 5);
const REDS: (usize, usize) = (1, 4);

/// Accuracy on test by epoch, as the final pass measured it: of a window, or of the outer weights.
fn on_test(record: &Record, window: Option<usize>) -> Points {
    let curve = record.summary.as_ref().and_then(|summary| summary.best_on_test.as_ref());
    let curve = curve.map_or(&[][..], |best| &best.curve);
    let of_window = curve.iter().filter(|(_, of, _)| *of == window);
    of_window.map(|(cycle, _, top1)| (record.epoch_of(*cycle as f64), *top1)).collect()
}

/// The same of the level that validation chose.
fn result_on_test(record: &Record) -> Points {
    on_test(record, record.result_level().window())
}

fn on_training(record: &Record) -> Points {
    let judged = record.judged.iter();
    judged.filter_map(|j| Some((record.epoch_of(j.cycle as f64), j.train?.top1))).collect()
}

fn series(name: impl Into<String>, tone: usize, points: Points) -> Series {
    Series { name: name.into(), tone: Tone::Series(tone), points }
}

/// Curves of accuracies. The steep beginning is left out where it would press the rest flat.
fn lines(
    name: String,
    title: String,
    caption: &str,
    (x, y): (Axis, &str),
    curves: Vec<Series>,
) -> Part {
    let (y, caption) = later(Axis::percent(y), &curves, &[], caption);
    let chart = Chart::Lines(Lines { x, y, series: curves, ..Lines::default() });
    Part::Figure(Figure { name, title, caption, chart })
}

/// The runs of a network.
fn of_network<'a>(runs: &'a [Labelled], network: &str) -> impl Iterator<Item = &'a Labelled> {
    runs.iter().filter(move |run| run.network == network)
}

/// Those of them that are of a method.
fn of_method<'a>(
    runs: &'a [Labelled],
    network: &str,
    method: &str,
) -> impl Iterator<Item = &'a Record> {
    of_network(runs, network).filter(move |run| run.method == method).map(|run| &run.record)
}

fn networks(runs: &[Labelled]) -> Networks {
    Networks::of(runs.iter().map(|run| run.network.as_str()))
}

/// The accuracy of offline averaging on test, with other rates in its second stage.
pub fn swa_rates(runs: &[Labelled]) -> Vec<Part> {
    let networks = networks(runs);
    let mut parts = Vec::new();
    for network in networks.iter() {
        let curves = of_network(runs, network).enumerate().map(|(number, run)| {
            let tone = [1, 0, 5, 3][number % 4];
            series(&run.method, tone, on_test(&run.record, Some(0)))
        });
        let curves: Vec<Series> = curves.collect();
        parts.extend(findings::here(findings::ends(&curves)));
        parts.push(lines(
            networks.named("swa-rate-sensitivity", network),
            networks.titled("SWA with other rates in its second stage", network),
            "Accuracy on test of the mean of all samples of the second stage, by epoch.",
            (Axis::counting("epoch"), "test accuracy, %"),
            curves,
        ));
    }
    parts
}

/// The accuracy of online averaging, of offline averaging and of both on test, by epoch and by
/// time.
pub fn online_offline_hwa(runs: &[Labelled]) -> Vec<Part> {
    let networks = networks(runs);
    let mut parts = Vec::new();
    for network in networks.iter() {
        let (mut by_epoch, mut by_time) = (Vec::new(), Vec::new());
        for (method, name, tone) in
            [(ONLINE, "online", 2), (SWA, "offline (SWA)", 1), (HWA, HWA, 0)]
        {
            for record in of_method(runs, network, method) {
                let curve = match method {
                    // Before its second stage there is nothing to average.
                    SWA => on_test(record, Some(0)),
                    _ => result_on_test(record),
                };
                by_time.push(series(name, tone, timed(record, &curve)));
                by_epoch.push(series(name, tone, curve));
            }
        }
        if let [others @ .., hwa] = by_epoch.as_slice() {
            let reached = others.iter().filter_map(|other| findings::reaches(hwa, other));
            parts.extend(findings::here(findings::ends(&by_epoch).into_iter().chain(reached)));
        }
        let name = |what: &str| networks.named(&format!("online-offline-hwa{what}"), network);
        parts.push(lines(
            name(""),
            networks.titled("Accuracy on test by epoch", network),
            "Epochs of each model. SWA begins to average when its second stage begins.",
            (Axis::counting("epoch"), "test accuracy, %"),
            by_epoch,
        ));
        parts.push(lines(
            name("-time"),
            networks.titled("Accuracy on test by time", network),
            "Minutes of steps, of waiting for data and of synchronization, on the machine that \
             trained it: two models need twice the cores, or twice the time.",
            (Axis::measuring("minutes"), "test accuracy, %"),
            by_time,
        ));
    }
    parts
}

/// Epochs become minutes of steps, of waiting for data and of synchronization.
fn timed(record: &Record, points: &[(f64, f64)]) -> Points {
    let mut seconds = 0.0;
    let mut at: Points = Vec::new();
    for cycle in &record.cycles {
        let models = cycle.models.iter().map(|model| model.time.steps + model.time.data);
        seconds += models.sum::<f64>() / cycle.models.len().max(1) as f64;
        seconds += cycle.time.synchronization;
        at.push((record.epoch_of(cycle.cycle as f64), seconds / 60.0));
    }
    let minutes = |epoch: f64| at.iter().find(|(end, _)| *end >= epoch).map(|(_, time)| *time);
    points.iter().filter_map(|(x, y)| Some((minutes(*x)?, *y))).collect()
}

/// The accuracy of SGD with constant rates on training and on test images.
pub fn constant_rate(runs: &[Labelled]) -> Vec<Part> {
    let networks = networks(runs);
    let mut parts = Vec::new();
    for network in networks.iter() {
        let mut curves = Vec::new();
        for (number, run) in of_network(runs, network).enumerate() {
            let tones = [BLUES, REDS][number % 2];
            let name = |what| format!("{}, {what}", run.method);
            curves.push(series(name("training"), tones.0, on_training(&run.record)));
            curves.push(series(name("test"), tones.1, result_on_test(&run.record)));
        }
        let jumps: Vec<String> = curves.iter().filter_map(findings::oscillation).collect();
        if !jumps.is_empty() {
            let jumps = format!("in the second half of the run {}", jumps.join("; "));
            parts.extend(findings::here([jumps]));
        }
        parts.push(lines(
            networks.named("constant-rate", network),
            networks.titled("Accuracy of SGD with a constant rate", network),
            "By epoch, with statistics re-estimated.",
            (Axis::counting("epoch"), "accuracy, %"),
            curves,
        ));
    }
    parts
}

/// Accuracy and loss of inner, outer and HWA weights by cycle.
pub fn inner_outer_hwa(runs: &[Labelled]) -> Vec<Part> {
    let figures = |record: &Record| vec![record.accuracy(), record.validation_loss()];
    of_records(runs, findings::leads, figures)
}

/// The HWA weights on training, validation and test images by cycle.
pub fn best_cycle(runs: &[Labelled]) -> Vec<Part> {
    of_records(runs, findings::choice, |record| vec![record.generalisation()])
}

/// Figures that reports have as well, and what they show.
fn of_records(
    runs: &[Labelled],
    finding: fn(&Record) -> Option<String>,
    figures: fn(&Record) -> Vec<Option<Figure>>,
) -> Vec<Part> {
    let networks = networks(runs);
    let mut parts = Vec::new();
    for network in networks.iter() {
        for record in of_method(runs, network, HWA) {
            parts.extend(findings::here(finding(record)));
            for mut figure in figures(record).into_iter().flatten() {
                figure.name = networks.named(&figure.name, network);
                figure.title = networks.titled(&figure.title, network);
                parts.push(Part::Figure(figure));
            }
        }
    }
    parts
}

/// The accuracy of windows of different length on test, a box over seeds for each.
pub fn window_boxplot(runs: &[Labelled]) -> Vec<Part> {
    let networks = networks(runs);
    let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
    for network in networks.iter() {
        let mut add = |name: String, value: Option<f64>| {
            let name = networks.titled(&name, network);
            match groups.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.extend(value),
                None => groups.push((name, value.into_iter().collect())),
            }
        };
        for record in of_method(runs, network, HWA) {
            for (index, window) in record.started.windows.iter().enumerate() {
                let length = window.length.map_or("all".to_owned(), |length| length.to_string());
                add(format!("I = {length}"), chosen_on_test(record, index));
            }
        }
    }
    let boxes = Boxes { y: Axis::percent("test accuracy, %"), groups };
    let found = findings::here(findings::medians(&boxes));
    let figure = Part::Figure(Figure {
        name: "window-boxplot".to_owned(),
        title: "Accuracy on test by the length of the window".to_owned(),
        caption: "A value for each seed: at the cycle that validation chooses for this window."
            .to_owned(),
        chart: Chart::Boxes(boxes),
    });
    found.into_iter().chain([figure]).collect()
}

/// What a window is worth on test, at the cycle that validation chooses for it.
fn chosen_on_test(record: &Record, window: usize) -> Option<f64> {
    let summary = record.summary.as_ref()?;
    if let Some(of_window) = summary.windows.iter().find(|of| of.window == window) {
        return Some(of_window.test.top1);
    }
    if summary.chosen.is_some_and(|choice| choice.window == Some(window)) {
        return summary.test.chosen.map(|evaluation| evaluation.top1);
    }
    // Runs that do not keep all outer weights, and logs of older versions.
    let cycle = record.best_cycle(Level::Window(window))?;
    let curve = &summary.best_on_test.as_ref()?.curve;
    let point = curve.iter().find(|(of, at, _)| *of == cycle && *at == Some(window))?;
    Some(point.2)
}

/// The accuracy of one model and of HWA on training and on test images, by epoch.
pub fn convergence(runs: &[Labelled]) -> Vec<Part> {
    let networks = networks(runs);
    let mut parts = Vec::new();
    for network in networks.iter() {
        let mut curves = Vec::new();
        for (method, name, tones) in [(COSINE, "one model, cosine", BLUES), (HWA, HWA, REDS)] {
            for record in of_method(runs, network, method) {
                // Both of the same weights: training images are seen with the first window alone.
                let window = (!record.started.windows.is_empty()).then_some(0);
                let test = on_test(record, window);
                curves.push(series(format!("{name}, training"), tones.0, on_training(record)));
                curves.push(series(format!("{name}, test"), tones.1, test));
            }
        }
        if let [_, cosine, _, hwa] = curves.as_slice() {
            let found = findings::ends(&curves).into_iter().chain(findings::reaches(hwa, cosine));
            parts.extend(findings::here(found));
        }
        parts.push(lines(
            networks.named("convergence", network),
            networks.titled("Accuracy by epoch", network),
            "Training accuracy is that on training images without augmentation. HWA weights are \
             those of the first window.",
            (Axis::counting("epoch"), "accuracy, %"),
            curves,
        ));
    }
    parts
}

#[cfg(test)]
mod tests {
    use hwa_core::{Choice, Score};
    use hwa_train::{BestOnTest, Evaluation, Judged, Summary, WindowEvaluation, WindowSummary};

    use super::*;

    /// One window: equally accurate in both cycles, with less loss in the second.
    fn tied() -> Record {
        let judged = |cycle, loss| {
            let evaluation = Evaluation { top1: 90.0, loss, ..Evaluation::default() };
            let hwa = vec![WindowEvaluation { evaluation, ..WindowEvaluation::default() }];
            Judged { cycle, hwa, ..Judged::default() }
        };
        let curve = vec![(1, Some(0), 71.0), (2, Some(0), 72.0)];
        let best_on_test = Some(BestOnTest { curve, ..BestOnTest::default() });
        let summary = Some(Summary { best_on_test, ..Summary::default() });
        Record { judged: vec![judged(1, 0.5), judged(2, 0.4)], summary, ..Record::default() }
    }

    #[test]
    fn a_window_is_worth_what_its_chosen_cycle_is() {
        let mut record = tied();
        assert_eq!(chosen_on_test(&record, 0), Some(72.0), "the loss breaks the tie");
        let summary = record.summary.as_mut().unwrap();
        let score = Score { accuracy: 0.9, loss: 0.4 };
        summary.chosen = Some(Choice { cycle: 2, window: Some(0), model: None, score });
        summary.test.chosen = Some(Evaluation { top1: 73.0, ..Evaluation::default() });
        assert_eq!(chosen_on_test(&record, 0), Some(73.0), "as the run says");
        let test = Evaluation { top1: 74.0, ..Evaluation::default() };
        record.summary.as_mut().unwrap().windows =
            vec![WindowSummary { test, ..WindowSummary::default() }];
        assert_eq!(chosen_on_test(&record, 0), Some(74.0));
        assert_eq!(chosen_on_test(&record, 1), None);
    }
}
