//! The figures of a run, and of several.

use std::ops::Range;

use hwa_train::{Evaluation, JudgeTime, Judged, Method, ModelReport};

use crate::axis::Axis;
use crate::bars::Bars;
use crate::chart::{Chart, Figure};
use crate::lines::{Lines, Mark, Series};
use crate::record::Record;
use crate::result::Level;
use crate::svg::Tone;

/// The levels of weights have the same colours in every figure.
const OUTER: Tone = Tone::Series(1);
const INNER: Tone = Tone::Series(2);
/// And windows the others.
const WINDOWS: [Tone; 5] =
    [Tone::Series(0), Tone::Series(3), Tone::Series(4), Tone::Series(5), Tone::Series(6)];

/// Points of a curve from which on its beginning may be cut off.
const FEWEST_TO_CUT: usize = 6;

impl Record {
    /// Everything that can be drawn of this run.
    pub fn figures(&self) -> Vec<Figure> {
        [
            self.accuracy(),
            self.generalisation(),
            self.validation_loss(),
            self.training_loss(),
            self.restarts(),
            self.distances(),
            self.rate(),
            self.time(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Accuracy of each level by cycle.
    pub fn accuracy(&self) -> Option<Figure> {
        let series = self.levels(|evaluation| evaluation.top1);
        let marks: Vec<Mark> = self.chosen_mark().into_iter().collect();
        let mut caption =
            "The weights of each level on the validation images; the ring marks what \
                           validation chose."
                .to_owned();
        if !self.is_single() && self.judged.iter().any(|judged| !judged.inner.is_empty()) {
            caption.push_str(
                " Inner weights have the batch-norm statistics of training, which lag behind; \
                 averages have re-estimated ones. Some of what they are ahead is due to that.",
            );
        }
        let y = Axis::percent("validation accuracy, %");
        let (y, caption) = later(y, &series, &marks, &caption);
        lines(
            "accuracy",
            "Accuracy by cycle",
            &caption,
            Lines { x: Axis::counting("cycle"), y, series, marks, ..Lines::default() },
        )
    }

    /// The result on training, validation and test images by cycle: where it is best on images
    /// that it was not trained on is not where it fits the others best.
    pub fn generalisation(&self) -> Option<Figure> {
        let level = self.result_level();
        let (train, test) = (self.train_curve(level), self.test_curve(level));
        if train.is_none() && test.is_none() {
            return None;
        }
        let marks: Vec<Mark> = self.chosen_mark().into_iter().collect();
        let points = self.of_level(level, |evaluation| evaluation.top1);
        let validation = Series { name: "validation".to_owned(), tone: OUTER, points };
        let mut caption =
            format!("{} by cycle; the ring is what validation chose.", self.level_name(level));
        if train.is_some() && level != self.first_level() {
            let first = self.level_name(self.first_level());
            caption.push_str(&format!(" Training images were only evaluated with {first}."));
        }
        let series: Vec<Series> = train.into_iter().chain([validation]).chain(test).collect();
        let (y, caption) = later(Axis::percent("accuracy, %"), &series, &marks, &caption);
        lines(
            "generalisation",
            "The result on images that it was trained on, and on others",
            &caption,
            Lines { x: Axis::counting("cycle"), y, series, marks, ..Lines::default() },
        )
    }

    pub(crate) fn chosen_mark(&self) -> Option<Mark> {
        let choice = self.choice()?;
        let (cycle, top1) = (choice.cycle, 100.0 * choice.score.accuracy);
        let label = format!("chosen: cycle {cycle}, {top1:.2} %");
        Some(Mark { label, at: (cycle as f64, top1) })
    }

    /// Loss of each level by cycle.
    pub fn validation_loss(&self) -> Option<Figure> {
        let series = self.levels(|evaluation| evaluation.loss);
        lines(
            "validation-loss",
            "Validation loss by cycle",
            "Mean cross entropy of each level on the validation images.",
            Lines {
                x: Axis::counting("cycle"),
                y: Axis::measuring("cross entropy").logarithmic(),
                series,
                ..Lines::default()
            },
        )
    }

    /// Loss on the training batches.
    pub fn training_loss(&self) -> Option<Figure> {
        let mean = self.by_cycle(|model| model.loss);
        let series = vec![Series { name: "mean over the cycle".into(), tone: INNER, points: mean }];
        lines(
            "training-loss",
            "Training loss by cycle",
            "Mean cross entropy of the batches that the models were trained on, over each cycle.",
            Lines {
                x: Axis::counting("cycle"),
                y: Axis::measuring("cross entropy").logarithmic(),
                series,
                ..Lines::default()
            },
        )
    }

    /// What the average does to the loss, and what training on from it does.
    pub fn restarts(&self) -> Option<Figure> {
        if !self.goes_on_from_the_average() {
            return None;
        }
        let first = self.by_cycle(|model| model.first_loss);
        let last = self.by_cycle(|model| model.last_loss);
        let inside = first.iter().zip(&last).map(|(first, last)| (first.0, last.1 - first.1));
        let series = vec![
            Series {
                name: "at the synchronization".into(),
                tone: OUTER,
                points: self.at_synchronizations(),
            },
            Series { name: "within the cycle".into(), tone: INNER, points: inside.collect() },
        ];
        lines(
            "restarts",
            "How the training loss changes",
            "From the last batch of a cycle to the first of the next, which begins with the \
             average; and from the first batch of a cycle to its last. Below zero is down. Single \
             batches are noisy.",
            Lines {
                x: Axis::counting("cycle"),
                y: Axis::measuring("change of the batch loss"),
                series,
                ..Lines::default()
            },
        )
    }

    /// Whether there are models that begin a cycle with the average of all. Of a method that is not
    /// known here it is believed.
    pub(crate) fn goes_on_from_the_average(&self) -> bool {
        let name = self.key("method");
        let method = Method::ALL.into_iter().find(|method| Some(method.name()) == name.as_deref());
        !self.is_single() && method.is_none_or(Method::restarts_from_the_average)
    }

    /// From the last batch of a cycle to the first of the next.
    pub(crate) fn at_synchronizations(&self) -> Vec<(f64, f64)> {
        let first = self.by_cycle(|model| model.first_loss);
        let last = self.by_cycle(|model| model.last_loss);
        first.iter().skip(1).zip(&last).map(|(next, this)| (this.0, next.1 - this.1)).collect()
    }

    /// How far two models are apart at the end of a cycle, as a root mean square.
    pub(crate) fn apart(&self) -> Vec<(f64, f64)> {
        let apart = |models: &[ModelReport]| {
            let squares: f64 = models.iter().map(|model| model.distance.powi(2)).sum();
            // The squares of all differences sum to K times those of the distances to the mean.
            (2.0 * squares / (models.len().max(2) - 1) as f64).sqrt()
        };
        self.cycles.iter().map(|c| (c.cycle as f64, apart(&c.models))).collect()
    }

    /// How far models go from each other within a cycle.
    pub fn distances(&self) -> Option<Figure> {
        if self.is_single() {
            return None;
        }
        let to_average = self.by_cycle(|model| model.distance);
        let apart = self.apart();
        let series = vec![
            Series { name: "between two models".into(), tone: Tone::Series(5), points: apart },
            Series { name: "to their average".into(), tone: OUTER, points: to_average },
        ];
        lines(
            "distances",
            "How far the models are apart",
            "Euclidean distance of the weights at the end of each cycle, before they are averaged: \
             between two models (root mean square) and to the average (mean).",
            Lines {
                x: Axis::counting("cycle"),
                y: Axis::measuring("distance"),
                series,
                ..Lines::default()
            },
        )
    }

    /// The learning rate.
    pub fn rate(&self) -> Option<Figure> {
        let points = self.cycles.iter().map(|c| (c.cycle as f64, c.rate)).collect();
        let series = vec![Series { name: "rate".into(), tone: Tone::Series(5), points }];
        lines(
            "rate",
            "Learning rate",
            "In the last step of each cycle.",
            Lines {
                x: Axis::counting("cycle"),
                y: Axis::measuring("learning rate"),
                series,
                ..Lines::default()
            },
        )
    }

    /// Where the time went.
    pub fn time(&self) -> Option<Figure> {
        let model = if self.is_single() { "the model" } else { "each model" };
        let mut figure = time_figure(&[(model.to_owned(), "the judge".to_owned(), self.times())])?;
        if let Some(traffic) = self.traffic() {
            figure.caption = format!("{} {traffic}", figure.caption);
        }
        Some(figure)
    }

    /// What processes exchanged, and which share of the time that took; nothing, of a run in one
    /// process.
    fn traffic(&self) -> Option<String> {
        let exchanged = || self.cycles.iter().filter_map(|cycle| cycle.time.traffic);
        let (bytes, seconds) =
            exchanged().fold((0, 0.0), |(b, s), traffic| (b + traffic.bytes, s + traffic.seconds));
        let kept: u64 = exchanged().map(|traffic| traffic.kept_bytes).sum();
        let whole = self.cycles.last()?.time.elapsed;
        (bytes > 0 && whole > 0.0).then(|| {
            let (megabytes, share) = (bytes as f64 / 1e6, 100.0 * seconds / whole);
            let mut told = format!(
                "The leading process exchanged {megabytes:.1} MB with others in synchronizations, \
                 in {share:.2} % of the time."
            );
            if kept > 0 {
                let kept = kept as f64 / 1e6;
                told.push_str(&format!(" Another {kept:.1} MB came to it to be kept."));
            }
            told
        })
    }

    /// Seconds of a model in steps, waiting for data, synchronizing and the rest of the training;
    /// and of the judge, in statistics, evaluations and the rest.
    pub(crate) fn times(&self) -> Times {
        let models = || self.cycles.iter().flat_map(|cycle| &cycle.models);
        let count = self.started.num_models.max(1) as f64;
        let steps = models().map(|model| model.time.steps).sum::<f64>() / count;
        let data = models().map(|model| model.time.data).sum::<f64>() / count;
        let sync: f64 = self.cycles.iter().map(|cycle| cycle.time.synchronization).sum();
        let judge = |seconds: fn(&JudgeTime) -> f64| -> f64 {
            self.judged.iter().map(|judged| seconds(&judged.time)).sum()
        };
        let (statistics, evaluation) =
            (judge(|time| time.statistics), judge(|time| time.evaluation));
        let other = (judge(|time| time.seconds) - statistics - evaluation).max(0.0);
        let rest = (self.elapsed() - steps - data - sync).max(0.0);
        Times { model: [steps, data, sync, rest], judge: [statistics, evaluation, other] }
    }

    /// Seconds of training so far, earlier sessions included.
    pub(crate) fn elapsed(&self) -> f64 {
        self.cycles.last().map_or(0.0, |cycle| cycle.time.elapsed)
    }

    /// The levels that were judged, by cycle.
    fn levels(&self, value: fn(&Evaluation) -> f64) -> Vec<Series> {
        let by_cycle = |of: &dyn Fn(&Judged) -> Option<f64>| -> Vec<(f64, f64)> {
            let points = self.judged.iter();
            points.filter_map(|judged| Some((judged.cycle as f64, of(judged)?))).collect()
        };
        let inner = by_cycle(&|judged| {
            let count = judged.inner.len() as f64;
            (count > 0.0).then(|| judged.inner.iter().map(value).sum::<f64>() / count)
        });
        let outer = by_cycle(&|judged| judged.outer.as_ref().map(value));
        let mut levels = Vec::new();
        let single = self.is_single();
        let names = match single {
            true => ["model, running statistics", self.offers()],
            false => ["inner (mean), running statistics", "outer"],
        };
        for (name, tone, points) in [(names[0], INNER, inner), (names[1], OUTER, outer)] {
            if !points.is_empty() {
                levels.push(Series { name: name.to_owned(), tone, points });
            }
        }
        for (index, window) in self.started.windows.iter().enumerate() {
            let points = by_cycle(&|judged| {
                let of_window = judged.hwa.iter().find(|hwa| hwa.window == index)?;
                Some(value(&of_window.evaluation))
            });
            if !points.is_empty() {
                let name = window_name(single, window.length.map(|length| length.get()));
                levels.push(Series { name, tone: WINDOWS[index % WINDOWS.len()], points });
            }
        }
        levels
    }

    pub(crate) fn offers(&self) -> &str {
        match self.started.offers.as_str() {
            "" => "model",
            offers => offers,
        }
    }

    /// Training images by cycle, if that was asked for. They are evaluated with the first level,
    /// which is told where the result is another.
    fn train_curve(&self, level: Level) -> Option<Series> {
        let points: Vec<(f64, f64)> = self
            .judged
            .iter()
            .filter_map(|judged| Some((judged.cycle as f64, judged.train?.top1)))
            .collect();
        let name = match self.first_level() {
            first if first == level => "training".to_owned(),
            first => format!("training ({})", self.level_name(first)),
        };
        let series = Series { name, tone: Tone::Series(5), points };
        (!series.points.is_empty()).then_some(series)
    }

    /// What the final pass measured of every cycle on test, if it did.
    pub(crate) fn test_curve(&self, level: Level) -> Option<Series> {
        let best = self.summary.as_ref()?.best_on_test.as_ref()?;
        // Not the window that is best on test: nothing is chosen there.
        let of_level = best.curve.iter().filter(|point| point.1 == level.window());
        let points: Vec<(f64, f64)> = of_level.map(|p| (p.0 as f64, p.2)).collect();
        let series = Series { name: "test".to_owned(), tone: Tone::Series(0), points };
        (!series.points.is_empty()).then_some(series)
    }

    /// A mean over the models by cycle.
    pub(crate) fn by_cycle(&self, value: fn(&ModelReport) -> f64) -> Vec<(f64, f64)> {
        let mean = |models: &[ModelReport]| {
            models.iter().map(value).sum::<f64>() / models.len().max(1) as f64
        };
        self.cycles.iter().map(|c| (c.cycle as f64, mean(&c.models))).collect()
    }
}

/// What an offline average is called. With one model nothing is hierarchical.
pub(crate) fn window_name(single: bool, length: Option<usize>) -> String {
    match (single, length) {
        (_, None) => "average of all samples".to_owned(),
        (true, Some(length)) => format!("average, window {length}"),
        (false, Some(length)) => format!("HWA, window {length}"),
    }
}

/// Where the seconds of a run went.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Times {
    /// Of a model: steps, waiting for data, synchronizations, the rest.
    pub(crate) model: [f64; 4],
    /// Of the judge, beside it: statistics, evaluations, the rest.
    pub(crate) judge: [f64; 3],
}

/// Two bars for each run, one below the other: a model, and the judge, which works beside it. Each
/// has its name.
pub(crate) fn time_figure(runs: &[(String, String, Times)]) -> Option<Figure> {
    let whole = |times: &Times| -> f64 {
        times.model.iter().sum::<f64>().max(times.judge.iter().sum::<f64>())
    };
    let longest = runs.iter().map(|run| whole(&run.2)).fold(0.0, f64::max);
    if longest <= 0.0 {
        return None;
    }
    let (unit, seconds) = match longest {
        0.0..180.0 => ("seconds", 1.0),
        180.0..10_800.0 => ("minutes", 60.0),
        _ => ("hours", 3600.0),
    };
    let parts = [
        "steps",
        "waiting for data",
        "synchronization",
        "the rest",
        "statistics",
        "evaluation",
        "other judging",
    ];
    let mut bars: Vec<(String, Vec<f64>)> = Vec::new();
    for (name, judge, times) in runs {
        let bar = |model: [f64; 4], judge: [f64; 3]| {
            model.into_iter().chain(judge).map(|value| value / seconds).collect::<Vec<f64>>()
        };
        bars.push((name.clone(), bar(times.model, [0.0; 3])));
        if times.judge.iter().any(|value| *value > 0.0) {
            bars.push((judge.clone(), bar([0.0; 4], times.judge)));
        }
    }
    Some(Figure {
        name: "time".to_owned(),
        title: "Where the time went".to_owned(),
        caption:
            "A model, as a mean over all of them; its rest is waiting for the judge and saving. \
                  Below it the judge, which works at the same time."
                .to_owned(),
        chart: Chart::Bars(Bars {
            x: Axis::measuring(unit),
            parts: parts.map(str::to_owned).to_vec(),
            bars,
        }),
    })
}

/// A figure of lines; nothing, if there are none.
pub(crate) fn lines(name: &str, title: &str, caption: &str, lines: Lines) -> Option<Figure> {
    lines.series.iter().any(|series| !series.points.is_empty()).then(|| Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        chart: Chart::Lines(lines),
    })
}

/// An axis that leaves out the steep beginning where it would press the rest flat, and a caption
/// that says so.
pub(crate) fn later(y: Axis, series: &[Series], marks: &[Mark], caption: &str) -> (Axis, String) {
    let range = later_range(series, marks);
    let mut points = series.iter().flat_map(|series| &series.points);
    let caption = match points.any(|point| point.1 < range.start) {
        true => format!("{caption} The beginning is below the figure."),
        false => caption.to_owned(),
    };
    (y.within(range), caption)
}

/// From the lowest point of the later two thirds of every curve, where that is less than half of
/// the whole: there the curves differ by little, and the steep beginning would press them flat.
fn later_range(series: &[Series], marks: &[Mark]) -> Range<f64> {
    let points = || series.iter().flat_map(|s| &s.points).filter(|p| p.1.is_finite());
    let later = series.iter().flat_map(|series| {
        let xs = || series.points.iter().map(|point| point.0);
        let first = xs().fold(f64::INFINITY, f64::min);
        let last = xs().fold(f64::NEG_INFINITY, f64::max);
        // A short curve is all beginning.
        let cut = series.points.len() >= FEWEST_TO_CUT;
        let early = if cut { first + (last - first) / 3.0 } else { f64::NEG_INFINITY };
        series.points.iter().filter(move |point| point.0 > early && point.1.is_finite())
    });
    let later = later.chain(marks.iter().map(|mark| &mark.at));
    let low = later.map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let high = points().map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max);
    let lowest = points().map(|(_, y)| *y).fold(low, f64::min);
    let low = if high - low < (high - lowest) / 2.0 { low } else { lowest };
    let (low, high) = if low <= high { (low, high) } else { (0.0, 100.0) };
    let room = (0.06 * (high - low)).max(0.5);
    (low - room).max(0.0)..(high + room).min(100.5)
}

#[cfg(test)]
mod tests {
    use hwa_train::{CycleEnded, CycleTime, Traffic};

    use super::*;
    use crate::result::tests::two_windows;
    use crate::together::compared;

    fn series(points: &[(f64, f64)]) -> Vec<Series> {
        vec![Series { name: "a".into(), tone: OUTER, points: points.to_vec() }]
    }

    #[test]
    fn the_beginning_does_not_set_the_range() {
        let mut points =
            vec![(1.0, 10.0), (2.0, 60.0), (3.0, 95.0), (4.0, 95.0), (5.0, 96.0), (6.0, 96.0)];
        // Cycles 1 and 2 of 6 are the first third.
        assert_eq!(later_range(&series(&points), &[]), 94.5..96.5);
        // Where it goes on rising, nothing is cut off.
        let rising: Vec<(f64, f64)> =
            (1..=6).map(|x| (f64::from(x), 10.0 * f64::from(x))).collect();
        assert!(later_range(&series(&rising), &[]).start < 10.0);
        points.truncate(3);
        assert!(later_range(&series(&points), &[]).start < 10.0, "a short run is shown whole");
    }

    #[test]
    fn a_short_curve_beside_long_ones_is_not_cut_off_and_a_cut_is_told() {
        let long: Vec<(f64, f64)> =
            (1..=60).map(|x| (f64::from(x), if x < 5 { 10.0 } else { 95.0 })).collect();
        let (y, caption) = later(Axis::measuring(""), &series(&long), &[], "Accuracy.");
        assert_eq!(caption, "Accuracy. The beginning is below the figure.");
        assert!(y.range.unwrap().start > 90.0);
        let mut both = series(&long);
        both.extend(series(&[(1.0, 20.0), (2.0, 40.0)]));
        let (y, caption) = later(Axis::measuring(""), &both, &[], "Accuracy.");
        assert_eq!((caption.as_str(), y.range.unwrap().start < 10.0), ("Accuracy.", true));
    }

    #[test]
    fn the_chosen_window_is_drawn_and_the_chosen_cycle_marked() {
        use hwa_train::{BestOnTest, Summary};

        // The second window wins, in cycle 2 by its loss.
        let mut record = two_windows(&[
            [(80.0, 0.5), (90.0, 0.5)],
            [(81.0, 0.5), (90.0, 0.4)],
            [(82.0, 0.5), (85.0, 0.4)],
        ]);
        let chosen = record.choice();
        let curve = vec![(1, Some(0), 70.0), (2, Some(1), 75.0)];
        let best_on_test = Some(BestOnTest { curve, ..BestOnTest::default() });
        record.summary = Some(Summary { chosen, best_on_test, ..Summary::default() });
        let Chart::Lines(drawn) = record.generalisation().unwrap().chart else { panic!("lines") };
        assert_eq!(drawn.marks[0].at, (2.0, 90.0));
        assert_eq!(drawn.series[0].points, [(1.0, 90.0), (2.0, 90.0), (3.0, 85.0)]);
        assert_eq!(drawn.series[1].points, [(2.0, 75.0)]);
        let several = compared(&[record.clone(), record]);
        let Chart::Lines(drawn) = &several[0].chart else { panic!("lines") };
        assert_eq!(drawn.series[1].points, [(1.0, 90.0), (2.0, 90.0), (3.0, 85.0)]);
        assert_eq!(drawn.marks[1].at, (2.0, 90.0));
    }

    #[test]
    fn the_judge_is_beside_training_and_not_on_top_of_it() {
        let run = |model, judge| ("a".to_owned(), "a, judge".to_owned(), Times { model, judge });
        let runs = [run([60.0, 0.0, 30.0, 5.0], [6.0, 3.0, 0.0])];
        let bars = |runs: &[(String, String, Times)]| {
            let Chart::Bars(bars) = time_figure(runs).unwrap().chart else { panic!("bars") };
            (bars.x.label, bars.bars)
        };
        let (unit, found) = bars(&runs);
        assert_eq!(unit, "seconds", "as long as it takes seconds");
        assert_eq!(found[0], ("a".to_owned(), vec![60.0, 0.0, 30.0, 5.0, 0.0, 0.0, 0.0]));
        assert_eq!(found[1], ("a, judge".to_owned(), vec![0.0, 0.0, 0.0, 0.0, 6.0, 3.0, 0.0]));
        let long = [run([600.0, 0.0, 0.0, 0.0], [0.0; 3])];
        assert_eq!(bars(&long).0, "minutes");
        assert_eq!(bars(&long).1.len(), 1, "without a judge there is no bar of one");
        assert!(time_figure(&[]).is_none());
    }

    #[test]
    fn traffic_is_told_with_its_share_of_the_time() {
        let cycle = |elapsed, bytes, seconds| {
            let traffic = Some(Traffic { bytes, seconds, kept_bytes: bytes, ..Traffic::default() });
            let time = CycleTime { elapsed, traffic, ..CycleTime::default() };
            CycleEnded { time, ..CycleEnded::default() }
        };
        let mut record = Record::default();
        assert_eq!(record.traffic(), None);
        record.cycles = vec![cycle(10.0, 1_500_000, 0.2), cycle(20.0, 2_500_000, 0.1)];
        // 0.3 of 20 seconds.
        let told = "The leading process exchanged 4.0 MB with others in synchronizations, in \
                    1.50 % of the time. Another 4.0 MB came to it to be kept.";
        assert_eq!(record.traffic().as_deref(), Some(told));
        record.cycles[0].time.traffic = None;
        record.cycles[1].time.traffic = None;
        assert_eq!(record.traffic(), None, "in one process");
    }
}
