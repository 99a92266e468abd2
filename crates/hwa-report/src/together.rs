//! The figures of several runs.

use crate::axis::Axis;
use crate::boxes::Boxes;
use crate::chart::{Chart, Figure};
use crate::differences::groups;
use crate::figures::{Times, later, lines, time_figure};
use crate::lines::{Lines, Mark, Series};
use crate::record::Record;
use crate::result::Level;
use crate::svg::{SERIES, Tone};

/// What is drawn of a run, by cycle.
type Points<'a> = &'a dyn Fn(&Record) -> Vec<(f64, f64)>;

/// Figures of several runs together: curve by curve, and boxes over seeds.
pub fn compared(records: &[Record]) -> Vec<Figure> {
    let (names, tones) = (names(records), tones(records));
    let each = |points: Points<'_>| -> Vec<Series> {
        let series = records.iter().zip(names.iter().zip(&tones)).map(|(record, (name, tone))| {
            let by_epoch = |(cycle, y)| (record.epoch_of(cycle), y);
            let points = points(record).into_iter().map(by_epoch).collect();
            Series { name: name.clone(), tone: *tone, points }
        });
        series.filter(|series| !series.points.is_empty()).collect()
    };
    let epochs = || Axis::counting("epoch");
    let plain = |name: &str, title: &str, caption: &str, y: Axis, points: Points<'_>| {
        lines(
            name,
            title,
            caption,
            Lines { x: epochs(), y, series: each(points), ..Lines::default() },
        )
    };
    let accuracy = each(&|record| record.result(|evaluation| evaluation.top1));
    let marks: Vec<Mark> = records
        .iter()
        .filter_map(|record| {
            let Mark { at: (cycle, top1), .. } = record.chosen_mark()?;
            let label = "chosen by validation".to_owned();
            Some(Mark { label, at: (record.epoch_of(cycle), top1) })
        })
        .collect();
    let caption = "The level of each run that validation chose (of several windows, one) on the \
                   validation images; rings mark the chosen cycles.";
    let y = Axis::percent("validation accuracy, %");
    let (y, caption) = later(y, &accuracy, &marks, caption);
    let x = epochs();
    let mut figures: Vec<Figure> = [
        lines(
            "accuracy",
            "Accuracy by epoch",
            &caption,
            Lines { x, y, series: accuracy, marks, ..Lines::default() },
        ),
        plain(
            "validation-loss",
            "Validation loss by epoch",
            "Mean cross entropy of the same weights.",
            Axis::measuring("cross entropy").logarithmic(),
            &|record| record.result(|evaluation| evaluation.loss),
        ),
        plain(
            "training-loss",
            "Training loss by epoch",
            "Mean cross entropy of the batches that were trained on.",
            Axis::measuring("cross entropy").logarithmic(),
            &|record| record.by_cycle(|model| model.loss),
        ),
        plain(
            "rate",
            "Learning rate",
            "In the last step of each cycle.",
            Axis::measuring("learning rate"),
            &|record| record.cycles.iter().map(|c| (c.cycle as f64, c.rate)).collect(),
        ),
        plain(
            "test-accuracy",
            "Test accuracy by epoch",
            "The same weights, measured by the final pass: nothing was chosen by it.",
            Axis::percent("test accuracy, %"),
            &|record| {
                let curve = record.test_curve(record.result_level());
                curve.map_or_else(Vec::new, |series| series.points)
            },
        ),
        plain(
            "outer-accuracy",
            "Accuracy of the outer weights by epoch",
            "The average of the models, before any window, on the validation images.",
            Axis::percent("validation accuracy, %"),
            &|record| match record.is_single() || record.is_outer() {
                true => Vec::new(),
                false => record.of_level(Level::Outer, |evaluation| evaluation.top1),
            },
        ),
        plain(
            "distances",
            "How far the models are apart",
            "Euclidean distance between the weights of two models at the end of each cycle, before \
             they are averaged (root mean square).",
            Axis::measuring("distance"),
            &|record| match record.is_single() {
                true => Vec::new(),
                false => record.apart(),
            },
        ),
        plain(
            "restarts",
            "How the training loss changes at a synchronization",
            "From the last batch of a cycle to the first of the next, which begins with the \
             average. Below zero is down. Single batches are noisy.",
            Axis::measuring("change of the batch loss"),
            &|record| match record.goes_on_from_the_average() {
                true => record.at_synchronizations(),
                false => Vec::new(),
            },
        ),
        boxes(records),
    ]
    .into_iter()
    .flatten()
    .collect();
    let times: Vec<(String, String, Times)> = names
        .into_iter()
        .zip(records)
        .map(|(name, record)| (name.clone(), format!("{name}, judge"), record.times()))
        .collect();
    figures.extend(time_figure(&times));
    figures
}

/// Names that tell runs apart: by method and seed if that does, else by folder too.
fn names(records: &[Record]) -> Vec<String> {
    let labels: Vec<String> = records.iter().map(Record::label).collect();
    let unique = |label: &String| labels.iter().filter(|other| *other == label).count() == 1;
    let name = |(record, label): (&Record, &String)| match unique(label) {
        true => label.clone(),
        false => format!("{} ({label})", record.name),
    };
    records.iter().zip(&labels).map(name).collect()
}

/// Repetitions have one colour and other dashes, where there are colours for all groups; else
/// every run has its own.
fn tones(records: &[Record]) -> Vec<Tone> {
    let groups = groups(records);
    let own = groups.len() > SERIES || groups.len() == records.len() || groups.len() == 1;
    let tone = |(number, record): (usize, &Record)| {
        let mut members = groups.iter().enumerate().flat_map(|(group, (_, runs))| {
            runs.iter().enumerate().map(move |(place, run)| (group, place, *run))
        });
        let found = members.find(|(_, _, run)| std::ptr::eq(*run, record));
        match found.filter(|_| !own) {
            Some((group, place, _)) => Tone::Series(group + SERIES * place),
            None => Tone::Series(number),
        }
    };
    records.iter().enumerate().map(tone).collect()
}

/// Boxes of the accuracy on test over runs that differ by their seed alone.
fn boxes(records: &[Record]) -> Option<Figure> {
    let tested = |record: &&Record| {
        record.summary.as_ref().and_then(|s| s.test.chosen).map(|evaluation| evaluation.top1)
    };
    let groups: Vec<(String, Vec<f64>)> = groups(records)
        .into_iter()
        .map(|(name, runs)| (name, runs.iter().filter_map(tested).collect::<Vec<f64>>()))
        .filter(|(_, values)| !values.is_empty())
        .collect();
    if groups.iter().all(|(_, values)| values.len() < 2) {
        return None;
    }
    Some(Figure {
        name: "seeds".to_owned(),
        title: "Test accuracy over seeds".to_owned(),
        caption: "Of the weights that validation chose: every run, their median, and from four \
                  runs on the quartiles."
            .to_owned(),
        chart: Chart::Boxes(Boxes { y: Axis::percent("test accuracy, %"), groups }),
    })
}

#[cfg(test)]
mod tests {
    use hwa_train::{CycleEnded, ModelReport};

    use super::*;
    use crate::result::tests::two_windows;

    #[test]
    fn repetitions_have_one_colour() {
        let run = |method: &str, seed| Record {
            experiment: format!("method = \"{method}\"\nseed = {seed}\n"),
            ..Record::default()
        };
        let of = |runs: &[Record]| -> Vec<usize> {
            let number = |tone| match tone {
                Tone::Series(number) => number,
                other => panic!("{other:?}"),
            };
            tones(runs).into_iter().map(number).collect()
        };
        let both = [run("hwa", 1), run("sgd", 1), run("hwa", 2), run("sgd", 2)];
        assert_eq!(of(&both), [0, 1, SERIES, SERIES + 1], "dashed, of the same colour");
        assert_eq!(of(&both[..2]), [0, 1]);
        assert_eq!(of(&[run("hwa", 1), run("hwa", 2)]), [0, 1], "of one method by its seeds");
    }

    #[test]
    fn several_runs_are_compared_in_all_that_they_have() {
        let ended = |cycle, first_loss| {
            let model = ModelReport { first_loss, last_loss: 2.0, ..ModelReport::default() };
            CycleEnded { cycle, step: cycle as u64, models: vec![model; 2], ..Default::default() }
        };
        let mut hwa = two_windows(&[[(80.0, 0.5), (90.0, 0.5)], [(81.0, 0.5), (90.0, 0.4)]]);
        hwa.cycles = vec![ended(1, 3.0), ended(2, 1.5)];
        hwa.experiment = "method = \"hwa\"\nseed = 1\n".to_owned();
        let grafted =
            Record { experiment: "method = \"fg\"\nseed = 1\n".to_owned(), ..hwa.clone() };
        assert!(hwa.restarts().is_some());
        assert!(grafted.restarts().is_none(), "its models do not begin with the average");
        let figures = compared(&[hwa, grafted]);
        let lines = |name: &str| {
            let figure = figures.iter().find(|figure| figure.name == name);
            match &figure.unwrap_or_else(|| panic!("{name}")).chart {
                Chart::Lines(lines) => lines.series.clone(),
                _ => panic!("lines"),
            }
        };
        assert_eq!(lines("distances").len(), 2);
        assert_eq!(lines("outer-accuracy").len(), 2);
        // From 2.0 at the end of the first cycle to 1.5.
        assert_eq!(lines("restarts").len(), 1);
        assert_eq!(lines("restarts")[0].points, [(1.0, -0.5)]);
        assert!(figures.iter().all(|figure| figure.name != "test-accuracy"), "there is none");
    }
}
