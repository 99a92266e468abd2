//! What was found, for people and for scripts.

use std::path::{Path, PathBuf};

use hwa_core::search::{Candidate, Ended};
use serde_json::{Value, json};

use crate::scoring::{Goal, Measured};
use crate::table::{aligned, digits};

/// A window with all that is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// What it is called, if it is one of the usual ones.
    pub(crate) name: Option<String>,
    pub(crate) window: Candidate,
    /// The files of its members.
    pub(crate) members: Vec<PathBuf>,
    /// What it was worth before the shortlist, if there was one.
    pub(crate) screened: Option<Measured>,
    pub(crate) validation: Measured,
    pub(crate) test: Option<Measured>,
}

impl Line {
    fn json(&self) -> Value {
        let Candidate { at, length, stride } = self.window;
        json!({
            "name": self.name, "at": at, "length": length, "stride": stride,
            "members": self.members.iter().map(|path| lossy(path)).collect::<Vec<_>>(),
            "screened": self.screened,
            "validation": self.validation, "test": self.test,
        })
    }

    /// The files that are averaged, in a line.
    fn files(&self) -> String {
        let stem = |path: &PathBuf| path.display().to_string();
        match self.members.as_slice() {
            [] => String::new(),
            [only] => stem(only),
            [first, .., last] => {
                format!("{} checkpoints, {} to {}", self.members.len(), stem(first), stem(last))
            }
        }
    }

    fn cells(&self) -> Vec<String> {
        let Candidate { at, length, stride } = self.window;
        let members = self.members.len();
        [at, length.get(), stride.get(), members].map(|number| number.to_string()).to_vec()
    }
}

/// What a search answers.
pub(crate) struct Answer {
    pub(crate) folder: PathBuf,
    pub(crate) winner: Line,
    /// The default first.
    pub(crate) usual: Vec<Line>,
    /// The best ten.
    pub(crate) best: Vec<Line>,
    /// What the number is called, and whether it should be high.
    pub(crate) unit: &'static str,
    pub(crate) goal: Goal,
    pub(crate) ended: Ended,
    pub(crate) evaluations: usize,
    pub(crate) seconds: f64,
    /// Why test was not read, if it was not.
    pub(crate) untested: Option<String>,
    /// Whether test had been read for another window before this one was chosen.
    pub(crate) read_before: bool,
    /// Whose batch-norm statistics the scores are with.
    pub(crate) statistics: &'static str,
    /// How many scores are by another version of what scores.
    pub(crate) older: usize,
    pub(crate) left_out: Vec<String>,
}

impl Answer {
    /// The weights that were found.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join("winner.safetensors")
    }

    /// For scripts.
    pub(crate) fn json(&self) -> Value {
        let lines = |lines: &[Line]| lines.iter().map(Line::json).collect::<Vec<Value>>();
        let ended = match self.ended {
            Ended::Converged => "converged",
            Ended::Budget => "max_evals",
            Ended::Stopped => "max_time",
        };
        json!({
            "out": lossy(&self.folder), "file": lossy(&self.file()), "winner": self.winner.json(),
            "usual": lines(&self.usual), "best": lines(&self.best),
            "gain": { "validation": self.gain(|l| Some(l.validation)), "test": self.gain(|l| l.test) },
            "goal": self.goal.word(), "ended": ended, "evaluations": self.evaluations,
            "seconds": self.seconds, "untested": self.untested,
            "test_read_before": self.read_before, "statistics": self.statistics,
            "scores_of_other_versions": self.older, "left_out": self.left_out,
        })
    }

    /// Of the usual windows the one that validation would choose; among equals the first.
    pub(crate) fn best_usual(&self) -> Option<&Line> {
        let better = |line: &Line, than: &Line| {
            self.difference(line.validation.score, than.validation.score) > 0.0
        };
        let numbers = self.usual.iter().filter(|line| line.validation.score.is_finite());
        numbers.reduce(|best, line| if better(line, best) { line } else { best })
    }

    /// By how much the found window is better than what one would have taken without a search.
    fn gain(&self, of: impl Fn(&Line) -> Option<Measured>) -> Option<f64> {
        let (found, usual) = (of(&self.winner)?.score, of(self.best_usual()?)?.score);
        Some(self.difference(found, usual))
    }

    fn difference(&self, score: f64, other: f64) -> f64 {
        match self.goal {
            Goal::High => score - other,
            Goal::Low => other - score,
        }
    }

    /// How closely the windows of the map were looked at, if that was not as a result is.
    pub(crate) fn screened(&self) -> &'static str {
        let screened = self.usual.iter().any(|line| line.screened.is_some());
        if screened { ", screened" } else { "" }
    }

    /// Digits that tell scores apart.
    pub(crate) fn digits(&self) -> usize {
        if self.winner.validation.loss.is_some() {
            return 2;
        }
        digits(self.best.iter().map(|line| line.validation.score))
    }

    /// The best ten, as a table.
    pub(crate) fn table(&self) -> String {
        let screened = self.best.iter().any(|line| line.screened.is_some());
        let with_loss = self.best.iter().any(|line| line.validation.loss.is_some());
        let mut head = ["e", "I", "s", "members"].map(str::to_owned).to_vec();
        head.extend(screened.then(|| "screened".to_owned()));
        head.push(format!("validation {}", self.unit));
        head.extend(with_loss.then(|| "loss".to_owned()));
        head.push(String::new());
        let digits = self.digits();
        let rows = self.best.iter().map(|line| {
            let mut row = line.cells();
            let number = |measured: Measured| format!("{:.digits$}", measured.score);
            row.extend(screened.then(|| line.screened.map_or("-".to_owned(), number)));
            row.push(number(line.validation));
            let loss = || line.validation.loss.map_or("-".to_owned(), |loss| format!("{loss:.4}"));
            row.extend(with_loss.then(loss));
            row.push(line.name.clone().unwrap_or_default());
            row
        });
        aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
    }

    /// The found window beside the usual ones, as a table.
    pub(crate) fn comparison(&self) -> String {
        let digits = self.digits();
        let mut head = ["", "e", "I", "s", "members"].map(str::to_owned).to_vec();
        head.push(format!("validation {}", self.unit));
        head.extend(self.winner.test.map(|_| format!("test {}", self.unit)));
        let row = |name: &str, line: &Line| {
            let mut row = vec![name.to_owned()];
            row.extend(line.cells());
            let scores = [Some(line.validation), line.test].into_iter().flatten();
            row.extend(scores.map(|measured| format!("{:.digits$}", measured.score)));
            row
        };
        let mut rows = vec![head, row("found", &self.winner)];
        rows.extend(self.usual.iter().map(|line| row(line.name.as_deref().unwrap_or(""), line)));
        aligned(&rows)
    }

    /// Which files the winner is the average of.
    pub(crate) fn members(&self) -> String {
        format!("found: {}", self.winner.files())
    }

    /// What it comes to, in a sentence or two.
    pub(crate) fn sentence(&self) -> String {
        let Some(usual) = self.best_usual() else {
            return "none of the usual windows scored a finite number".to_owned();
        };
        let name = |line: &Line| line.name.clone().unwrap_or("the default".to_owned());
        if let Some(same) = self.usual.iter().find(|line| line.window == self.winner.window) {
            return format!("no window was found that is better than {}", name(same));
        }
        let name = name(usual);
        let digits = self.digits();
        // The difference as it is: where a low score is good, a good one is below zero.
        let sign = if self.goal == Goal::Low { -1.0 } else { 1.0 };
        let shown = |gain: Option<f64>| gain.map(|gain| format!("{:+.digits$}", sign * gain));
        let validation = shown(self.gain(|line| Some(line.validation))).unwrap_or_default();
        let count = self.evaluations;
        let chosen =
            format!("beside {name}: {validation} on validation, the best of {count} evaluations");
        match (shown(self.gain(|line| line.test)), &self.untested) {
            (Some(test), _) => {
                let error = self.winner.test.and_then(standard_error);
                let error = error.map_or(String::new(), |error| {
                    format!(" (the standard error of an accuracy is {error:.2} there)")
                });
                let chose = match self.read_before {
                    true => "which was read before, for another window",
                    false => "which chose nothing",
                };
                format!("{chosen}; {test} on test, {chose}{error}")
            }
            (None, Some(why)) => format!("{chosen}; not tested: {why}"),
            (None, None) => chosen,
        }
    }
}

/// For JSON, which is text.
fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Of an accuracy in percent.
fn standard_error(measured: Measured) -> Option<f64> {
    let (share, images) = (measured.score / 100.0, measured.images? as f64);
    Some(100.0 * (share * (1.0 - share) / images).sqrt()).filter(|error| error.is_finite())
}

/// The files at these places.
pub(crate) fn files<'a>(paths: impl Iterator<Item = &'a Path>, places: &[usize]) -> Vec<PathBuf> {
    let paths: Vec<&Path> = paths.collect();
    places.iter().filter_map(|place| paths.get(*place)).map(|path| path.to_path_buf()).collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn measured(score: f64, images: Option<u64>) -> Measured {
        Measured { score, loss: images.map(|_| 1.5), images }
    }

    fn line(
        name: Option<&str>,
        at: usize,
        scores: (f64, Option<f64>),
        images: Option<u64>,
    ) -> Line {
        let length = NonZeroUsize::MIN;
        Line {
            name: name.map(str::to_owned),
            window: Candidate { at, length, stride: length },
            members: vec!["a.pt".into()],
            screened: None,
            validation: measured(scores.0, images),
            test: scores.1.map(|score| measured(score, images)),
        }
    }

    fn answer(goal: Goal, winner: Line, default: Line) -> Answer {
        Answer {
            folder: "found".into(),
            best: vec![winner.clone()],
            winner,
            usual: vec![default],
            unit: "score",
            goal,
            ended: Ended::Budget,
            evaluations: 7,
            seconds: 1.0,
            untested: None,
            read_before: false,
            statistics: "none",
            older: 0,
            left_out: Vec::new(),
        }
    }

    #[test]
    fn a_gain_is_what_is_better_whether_high_or_low_is_good() {
        let found = line(None, 3, (0.5, Some(0.75)), None);
        let default = line(Some("the last 20"), 9, (1.0, Some(0.5)), None);
        let low = answer(Goal::Low, found.clone(), default.clone());
        assert_eq!(low.json()["gain"], json!({ "validation": 0.5, "test": -0.25 }));
        assert_eq!(
            low.sentence(),
            "beside the last 20: -0.5000 on validation, the best of 7 evaluations; +0.2500 on \
             test, which chose nothing"
        );
        let again = Answer { read_before: true, ..low };
        assert!(again.sentence().ends_with("on test, which was read before, for another window"));
        assert_eq!(again.json()["test_read_before"], true);
        let high = answer(Goal::High, found, default.clone());
        assert_eq!(high.json()["gain"]["validation"], -0.5);
        // What is no number is nothing to be compared with.
        let none = line(Some("the mean of all"), 9, (f64::NAN, Some(0.5)), None);
        let high = Answer { usual: vec![none, default.clone()], ..high };
        assert_eq!(high.json()["gain"]["validation"], -0.5);
        // What validation would have chosen anyway is what a search has to be compared with.
        let closer = line(Some("the mean of all"), 9, (0.625, Some(0.5)), None);
        let low = Answer { goal: Goal::Low, usual: vec![default, closer], ..high };
        assert_eq!(low.json()["gain"], json!({ "validation": 0.125, "test": -0.25 }));
        assert!(
            low.sentence().starts_with("beside the mean of all: -0.1250"),
            "{}",
            low.sentence()
        );
    }

    #[test]
    fn accuracies_come_with_their_standard_error_and_a_default_that_wins_is_said() {
        // 50 % of 2,500 images: the square root of 0.25 / 2,500 is 0.01.
        let found = line(None, 3, (52.0, Some(50.0)), Some(2500));
        let default = line(Some("the run's choice"), 9, (51.5, Some(49.5)), Some(2500));
        let answer = answer(Goal::High, found, default.clone());
        let told = answer.sentence();
        assert!(told.contains("+0.50 on test") && told.contains("is 1.00 there"), "{told}");
        let same = Answer { winner: default, ..answer };
        assert_eq!(same.sentence(), "no window was found that is better than the run's choice");
        assert_eq!(same.members(), "found: a.pt");
    }
}
