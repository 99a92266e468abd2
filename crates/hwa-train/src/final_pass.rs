//! The final pass: the only place in a run where the test split is read.
//!
//! It comes after the choice, and it needs the choice: a [`SealedTest`] opens
//! only for a [`FinalChoice`], and only the end of training makes one.

use std::path::Path;
use std::sync::Mutex;

use hwa_core::{Choice, Selection, SlideWindow, Weights};
use hwa_data::Subset;
use hwa_store::{CheckpointStore, read_tensors};

use crate::error::TrainError;
use crate::event::{
    BestOnTest, Evaluation, Event, Levels, Observer, OnlineSummary, Summary, SummaryTime,
    WindowSummary, announce,
};
use crate::judge::{JudgeState, kind};
use crate::leader::{Closing, LastCycle};
use crate::measure::Bench;
use crate::replica::Replica;
use crate::settings::{Candidates, Settings};

/// The test split, which nothing can read before the choice is fixed.
#[derive(Clone)]
pub struct SealedTest(Subset);

impl SealedTest {
    /// Seals a split.
    pub fn new(test: Subset) -> Self {
        Self(test)
    }

    /// How many images it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn open(&self, _choice: &FinalChoice) -> &Subset {
        &self.0
    }
}

/// Proof that validation has chosen and will not choose again.
struct FinalChoice(JudgeState);

/// What the final pass works with.
pub(crate) struct FinalPass<'a> {
    pub(crate) bench: Bench<'a>,
    pub(crate) replica: Box<dyn Replica>,
    pub(crate) validation: &'a Subset,
    pub(crate) test: &'a SealedTest,
    pub(crate) best: &'a Path,
    pub(crate) checkpoints: &'a CheckpointStore,
    pub(crate) observer: &'a Mutex<dyn Observer>,
}

impl FinalPass<'_> {
    /// Measures the last inner and outer weights and the chosen ones, on
    /// validation and on test.
    pub(crate) fn run(mut self, closing: &Closing) -> Result<Summary, TrainError> {
        let choice = FinalChoice(closing.judge.clone());
        let validation = self.validation.clone();
        let test = self.test.open(&choice).clone();
        let chosen = choice.0.selection.best().copied();
        let mut on_validation = Levels::default();
        let mut on_test = Levels::default();
        if let Some(last) = &closing.last {
            self.last_cycle(last, [(&validation, &mut on_validation), (&test, &mut on_test)])?;
        }
        if let Some(chosen) = chosen {
            let best = self.best_weights(&chosen)?;
            for (split, levels) in [(&validation, &mut on_validation), (&test, &mut on_test)] {
                let evaluation = self.complete(&best, split)?;
                levels.chosen = Some(evaluation);
                levels.hwa = chosen.window.map(|_| evaluation);
            }
        }
        let each_window = self.each_window(&choice.0, [&validation, &test])?;
        let online = self.outer_alone(&choice.0, [&validation, &test])?;
        let windows = &self.bench.settings.plan.windows;
        let length = chosen.and_then(|c| windows.get(c.window?)?.length).map(|l| l.get());
        Ok(Summary {
            windows: each_window,
            online,
            last_cycle: closing.last.as_ref().map_or(0, |last| last.cycle),
            chosen,
            chosen_length: length,
            validation: on_validation,
            test: on_test,
            best_on_test: match self.bench.settings.evaluate.test_curve {
                true => self.test_curve(&test)?,
                false => None,
            },
            time: SummaryTime {
                seconds: closing.seconds,
                judge: closing.judge_seconds,
                usage: closing.usage(),
            },
        })
    }

    /// Where several windows were tried: each at the cycle that validation chooses for it. Only
    /// if all outer weights are kept: which of the others are still there depends on when states
    /// were saved.
    fn each_window(
        &mut self,
        judge: &JudgeState,
        [validation, test]: [&Subset; 2],
    ) -> Result<Vec<WindowSummary>, TrainError> {
        let Settings { plan, checkpoints, .. } = self.bench.settings;
        let mut windows = Vec::new();
        if judge.windows.len() < 2 || checkpoints.outer_every.get() > 1 {
            return Ok(windows);
        }
        for (window, spec) in plan.windows.iter().copied().enumerate() {
            let Some(choice) = judge.windows.get(window).and_then(Selection::best) else {
                continue;
            };
            let mut members = SlideWindow::new(spec);
            for cycle in self.checkpoints.outer_cycles()? {
                if (spec.oldest(choice.cycle)..=choice.cycle).contains(&cycle) {
                    members.push(cycle, self.checkpoints.load_outer(cycle)?);
                }
            }
            let Some(mean) = members.mean()? else { continue };
            let [validation, test] = self.averaged(&mean, [validation, test])?;
            let (length, cycle) = (spec.length.map(|length| length.get()), choice.cycle);
            windows.push(WindowSummary { window, length, cycle, validation, test });
        }
        Ok(windows)
    }

    /// The outer weights at the cycle that validation chooses for them, where windows are the
    /// result; like each window, only if all of them are kept.
    fn outer_alone(
        &mut self,
        judge: &JudgeState,
        splits: [&Subset; 2],
    ) -> Result<Option<OnlineSummary>, TrainError> {
        let all = self.bench.settings.checkpoints.outer_every.get() == 1;
        let best = judge.outer.as_ref().and_then(Selection::best).filter(|_| all);
        let Some(cycle) = best.map(|choice| choice.cycle) else { return Ok(None) };
        let outer = self.checkpoints.load_outer(cycle)?;
        let [validation, test] = self.averaged(&outer, splits)?;
        Ok(Some(OnlineSummary { cycle, validation, test }))
    }

    fn last_cycle(
        &mut self,
        last: &LastCycle,
        splits: [(&Subset, &mut Levels); 2],
    ) -> Result<(), TrainError> {
        let Settings { plan, candidates, .. } = self.bench.settings;
        let averaged = plan.num_models.get() > 1 && *candidates == Candidates::Averages;
        for (split, levels) in splits {
            for model in &last.inner {
                levels.inner.push(self.complete(model, split)?);
            }
            if averaged {
                let [outer] = self.averaged(&last.outer, [split])?;
                levels.outer = Some(outer);
            }
        }
        Ok(())
    }

    /// The saved weights, which must be the chosen ones: a run that went on with
    /// other arithmetic may have chosen otherwise than the file remembers.
    fn best_weights(&self, chosen: &Choice) -> Result<Weights, TrainError> {
        let (best, metadata) = read_tensors(self.best)?;
        let same_kind = metadata.get("kind").is_some_and(|found| found == kind(chosen));
        if !same_kind || metadata.get("cycle") != Some(&chosen.cycle.into()) {
            let reason = "it does not hold the weights of the chosen cycle";
            return Err(TrainError::BadState { path: self.best.to_owned(), reason });
        }
        Ok(best)
    }

    /// A model that has its statistics.
    fn complete(&mut self, model: &Weights, split: &Subset) -> Result<Evaluation, TrainError> {
        let replica = self.replica.as_mut();
        self.bench.evaluate_model(replica, model, split).map_err(TrainError::Final)
    }

    /// Averaged weights, whose statistics have to be re-estimated.
    fn averaged<const N: usize>(
        &mut self,
        weights: &Weights,
        splits: [&Subset; N],
    ) -> Result<[Evaluation; N], TrainError> {
        let (bench, replica) = (&self.bench, self.replica.as_mut());
        let recalibration = bench.prepare(replica, weights).map_err(TrainError::Final)?;
        let mut evaluations = [Evaluation::default(); N];
        for (evaluation, split) in evaluations.iter_mut().zip(splits) {
            let measured = bench.evaluate(replica, split, Some(recalibration));
            *evaluation = measured.map_err(TrainError::Final)?;
        }
        Ok(evaluations)
    }

    /// The paper's way: every stored cycle on test, and the best of them.
    fn test_curve(&mut self, test: &Subset) -> Result<Option<BestOnTest>, TrainError> {
        let mut windows: Vec<SlideWindow> =
            self.bench.settings.plan.windows.iter().copied().map(SlideWindow::new).collect();
        let mut curve = Vec::new();
        let mut best: Option<(usize, Option<usize>, Evaluation)> = None;
        let cycles = self.checkpoints.outer_cycles()?;
        let total = cycles.len();
        for (index, cycle) in cycles.into_iter().enumerate() {
            let outer = self.checkpoints.load_outer(cycle)?;
            let mut points = Vec::new();
            if windows.is_empty() {
                points.push((None, self.averaged(&outer, [test])?));
            }
            for (index, window) in windows.iter_mut().enumerate() {
                window.push(cycle, outer.clone());
                if let Some(mean) = window.mean()? {
                    points.push((Some(index), self.averaged(&mean, [test])?));
                }
            }
            for (window, [evaluation]) in points {
                curve.push((cycle, window, evaluation.top1));
                if best.as_ref().is_none_or(|(_, _, b)| evaluation.top1 > b.top1) {
                    best = Some((cycle, window, evaluation));
                }
            }
            announce(self.observer, &Event::Measured { done: index + 1, total });
        }
        Ok(best.map(|(cycle, window, evaluation)| BestOnTest { cycle, window, evaluation, curve }))
    }
}
