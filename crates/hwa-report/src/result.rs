//! What a run's result is: the level of weights and the cycle that validation chose.
//!
//! There is one rule for all figures, that of training ([`Selection`]): the highest accuracy,
//! then the lowest loss, then the earliest.

use hwa_core::{Choice, Score, Selection};
use hwa_train::{Evaluation, Judged};

use crate::figures::window_name;
use crate::record::Record;

/// Which weights of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// One of the models.
    Model(usize),
    /// The outer weights.
    Outer,
    /// The average over one of the windows.
    Window(usize),
}

impl Level {
    /// What the judge measured of it.
    pub fn of(self, judged: &Judged) -> Option<&Evaluation> {
        match self {
            Self::Model(model) => judged.inner.get(model),
            Self::Outer => judged.outer.as_ref(),
            Self::Window(window) => {
                judged.hwa.iter().find(|hwa| hwa.window == window).map(|hwa| &hwa.evaluation)
            }
        }
    }

    /// Its window, if it is one.
    pub fn window(self) -> Option<usize> {
        match self {
            Self::Window(window) => Some(window),
            Self::Model(_) | Self::Outer => None,
        }
    }
}

impl Record {
    /// What validation chose; of a run that is not finished, what it has chosen so far.
    pub fn choice(&self) -> Option<Choice> {
        let ended = self.summary.as_ref().and_then(|summary| summary.chosen);
        ended.or_else(|| self.judged.iter().rev().find_map(|judged| judged.chosen))
    }

    /// The level that the choice is of. Before there is one, the first that could be chosen.
    pub fn result_level(&self) -> Level {
        match self.choice() {
            Some(Choice { model: Some(model), .. }) => Level::Model(model),
            Some(Choice { window: Some(window), .. }) => Level::Window(window),
            Some(_) => Level::Outer,
            None => self.first_level(),
        }
    }

    /// The level that is evaluated on training images too: the first window or, without windows,
    /// the outer weights.
    pub(crate) fn first_level(&self) -> Level {
        if self.started.windows.is_empty() { Level::Outer } else { Level::Window(0) }
    }

    /// Whether the result is outer weights.
    pub(crate) fn is_outer(&self) -> bool {
        self.result_level() == Level::Outer
    }

    /// The cycle that validation chooses for a level.
    pub fn best_cycle(&self, level: Level) -> Option<usize> {
        let mut selection = Selection::new(None);
        for judged in &self.judged {
            let Some(evaluation) = level.of(judged) else { continue };
            let (accuracy, loss) = (evaluation.top1 / 100.0, evaluation.loss);
            let score = Score { accuracy, loss };
            let window = level.window();
            selection.consider(Choice { cycle: judged.cycle, window, model: None, score });
        }
        selection.best().map(|choice| choice.cycle)
    }

    /// The result by cycle: what runs are compared by.
    pub fn result(&self, value: fn(&Evaluation) -> f64) -> Vec<(f64, f64)> {
        self.of_level(self.result_level(), value)
    }

    /// A level by cycle.
    pub(crate) fn of_level(&self, level: Level, value: fn(&Evaluation) -> f64) -> Vec<(f64, f64)> {
        let judged = self.judged.iter();
        judged.filter_map(|j| Some((j.cycle as f64, value(level.of(j)?)))).collect()
    }

    /// A level in words.
    pub(crate) fn level_name(&self, level: Level) -> String {
        let single = self.is_single();
        match level {
            Level::Model(model) => format!("model {model}"),
            Level::Outer if single => self.offers().to_owned(),
            Level::Outer => "outer".to_owned(),
            Level::Window(window) => {
                let spec = self.started.windows.get(window);
                window_name(single, spec.and_then(|spec| spec.length).map(|length| length.get()))
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hwa_core::WindowSpec;
    use hwa_train::WindowEvaluation;

    use super::*;

    /// Two windows by cycle: accuracies and losses of both.
    pub(crate) fn two_windows(cycles: &[[(f64, f64); 2]]) -> Record {
        let mut record = Record::default();
        record.started.num_models = 2;
        record.started.windows =
            [3, 10].map(|length: usize| WindowSpec::sliding(length.try_into().unwrap())).to_vec();
        let mut selection = Selection::new(None);
        for (index, windows) in cycles.iter().enumerate() {
            let cycle = index + 1;
            let mut judged = Judged { cycle, ..Judged::default() };
            for (window, (top1, loss)) in windows.iter().copied().enumerate() {
                let evaluation = Evaluation { top1, loss, ..Evaluation::default() };
                let score = Score { accuracy: top1 / 100.0, loss };
                selection.consider(Choice { cycle, window: Some(window), model: None, score });
                judged.hwa.push(WindowEvaluation { window, evaluation, ..Default::default() });
            }
            judged.outer = Some(Evaluation { top1: 50.0, ..Evaluation::default() });
            judged.chosen = selection.best().copied();
            record.judged.push(judged);
        }
        record
    }

    #[test]
    fn ties_go_to_the_lower_loss_everywhere() {
        // Equal accuracy in cycles 1, 2 and 3; the loss is lowest in 2.
        let cycle = |loss| [(90.0, loss), (80.0, 1.0)];
        let record = two_windows(&[cycle(0.5), cycle(0.3), cycle(0.4)]);
        assert_eq!(record.choice().unwrap().cycle, 2);
        assert_eq!(record.best_cycle(Level::Window(0)), Some(2));
        // All of the other are the same: the earliest.
        assert_eq!(record.best_cycle(Level::Window(1)), Some(1));
        assert_eq!(record.best_cycle(Level::Model(0)), None);
    }

    #[test]
    fn the_result_is_the_level_that_was_chosen_not_the_first_or_the_last() {
        let first = two_windows(&[[(90.0, 0.1), (80.0, 0.1)]]);
        assert_eq!(first.result(|e| e.top1), [(1.0, 90.0)]);
        assert_eq!(first.level_name(first.result_level()), "HWA, window 3");
        let last = two_windows(&[[(80.0, 0.1), (90.0, 0.1)]]);
        assert_eq!(last.result(|e| e.top1), [(1.0, 90.0)]);
        assert_eq!(last.result_level(), Level::Window(1));
        assert_eq!(two_windows(&[]).result_level(), Level::Window(0), "nothing chosen yet");
        assert_eq!(Record::default().result_level(), Level::Outer);
    }
}
