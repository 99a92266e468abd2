//! The judge: window, statistics, evaluation and choice, beside training.
//!
//! It works in its own thread, on a replica of its own. The verdict on cycle e is
//! asked for at the end of cycle e+1, always, waiting if it must: the outcome of a
//! run does not depend on how fast the judge is. What is still out when a state
//! is saved is part of that state, and is judged again after a resume. So an
//! interrupt can end a judgement before its next batch.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hwa_core::{Choice, Cycle, OuterWeights, Score, Selection, SlideWindow, Weights};
use hwa_data::Subset;
use hwa_store::{Metadata, write_tensors};
use serde::{Deserialize, Serialize};

use crate::collective::{CollectiveError, Interrupt, Verdict};
use crate::error::TrainError;
use crate::event::{Evaluation, Event, JudgeTime, Judged, Observer, WindowEvaluation, announce};
use crate::measure::Bench;
use crate::replica::{Recalibration, Replica, ReplicaError};
use crate::settings::{Candidates, Every, JUDGE_SHARE, Settings};

/// How often the leading model looks for an interrupt or a failure while it waits.
const PATROL: Duration = Duration::from_millis(50);

/// What the judge remembers between cycles, apart from the window's members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JudgeState {
    pub(crate) selection: Selection,
    /// The best of each window, in the order of the plan's; states did not always have it.
    #[serde(default)]
    pub(crate) windows: Vec<Selection>,
    /// The best of the outer weights of several models, where windows choose among themselves;
    /// states did not always have it, and what was judged before is not known.
    #[serde(default)]
    pub(crate) outer: Option<Selection>,
    /// The next cycle to look at.
    pub(crate) next_due: usize,
}

impl JudgeState {
    pub(crate) fn new(settings: &Settings) -> Self {
        let next_due = match settings.evaluate.every {
            Every::Auto => 1,
            Every::Cycles(n) => n.get(),
        };
        let windows = settings.plan.windows.iter().map(|_| Selection::new(None)).collect();
        let apart = settings.plan.num_models.get() > 1 && !settings.plan.windows.is_empty();
        let outer = apart.then(|| Selection::new(None));
        Self { selection: Selection::new(settings.patience), windows, outer, next_due }
    }
}

/// A cycle to be judged.
pub(crate) struct Case {
    pub(crate) cycle: Cycle,
    pub(crate) outer: OuterWeights,
    /// The models before the synchronization, if inner weights are judged.
    pub(crate) inner: Vec<Arc<Weights>>,
}

/// What the judge answers.
pub(crate) struct Answer {
    pub(crate) judged: Option<Judged>,
    pub(crate) verdict: Verdict,
    pub(crate) state: JudgeState,
    pub(crate) seconds: f64,
}

/// The judge as the leading model sees it: at most one case is out.
pub(crate) struct JudgeDesk<'a> {
    cases: SyncSender<Case>,
    answers: Receiver<Answer>,
    out: Option<usize>,
    /// The answer that has come and was not taken: until then it counts as out.
    answer: Option<Answer>,
    interrupt: &'a Interrupt,
    dismissed: &'a AtomicBool,
}

impl JudgeDesk<'_> {
    /// The cycle whose verdict is still out, or was not taken.
    pub(crate) fn pending(&self) -> Option<usize> {
        self.out
    }

    /// Hands in a case; nothing may be out.
    pub(crate) fn hand_in(&mut self, case: Case) {
        let cycle = case.cycle.number;
        // If the judge is gone, the next wait for its answer says so.
        let _ = self.cases.send(case);
        self.out = Some(cycle);
    }

    /// Waits for the answer that is out, if one is. An interrupt ends the wait.
    pub(crate) fn wait(
        &mut self,
        check: impl Fn() -> Result<(), CollectiveError>,
    ) -> Result<(), CollectiveError> {
        while self.out.is_some() && self.answer.is_none() {
            let received = self.answers.recv_timeout(PATROL);
            // First: an interrupted judge leaves without an answer.
            if self.interrupt.is_requested() {
                return Err(CollectiveError::Interrupted);
            }
            match received {
                Ok(answer) => self.answer = Some(answer),
                Err(RecvTimeoutError::Timeout) => check()?,
                // The judge failed; its own error tells more.
                Err(RecvTimeoutError::Disconnected) => return Err(CollectiveError::Aborted),
            }
        }
        Ok(())
    }

    /// The verdict that was waited for and was not taken.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        self.answer.as_ref().map(|answer| answer.verdict)
    }

    /// Takes the answer that was waited for, if there was one to wait for.
    pub(crate) fn take(&mut self) -> Option<Answer> {
        let answer = self.answer.take();
        if answer.is_some() {
            self.out = None;
        }
        answer
    }
}

impl Drop for JudgeDesk<'_> {
    /// Nobody waits for the answer any more: let the judge go at once.
    fn drop(&mut self) {
        self.dismissed.store(true, Ordering::Release);
    }
}

/// The judge's side of the desk.
pub(crate) struct JudgeSeat {
    cases: Receiver<Case>,
    answers: SyncSender<Answer>,
}

/// A desk between the leading model and the judge.
pub(crate) fn desk<'a>(
    interrupt: &'a Interrupt,
    dismissed: &'a AtomicBool,
) -> (JudgeDesk<'a>, JudgeSeat) {
    let (cases, inbox) = sync_channel(1);
    let (outbox, answers) = sync_channel(1);
    let desk = JudgeDesk { cases, answers, out: None, answer: None, interrupt, dismissed };
    (desk, JudgeSeat { cases: inbox, answers: outbox })
}

impl JudgeSeat {
    /// Judges case after case until nobody asks any more.
    pub(crate) fn judge_all(self, mut judge: Judge<'_>) -> Result<(), TrainError> {
        while let Ok(case) = self.cases.recv() {
            let answer = judge.judge(&case);
            // Nobody waits for the answer any more, which may be half of one.
            if (judge.bench.cancelled)() {
                break;
            }
            let answer = answer?;
            if self.answers.send(answer).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Window, statistics, evaluation and choice.
pub(crate) struct Judge<'a> {
    pub(crate) bench: Bench<'a>,
    pub(crate) validation: &'a Subset,
    /// Training images that the result is evaluated on too.
    pub(crate) train_sample: Option<Subset>,
    /// What the present case has taken.
    pub(crate) spent: JudgeTime,
    pub(crate) replica: Box<dyn Replica>,
    pub(crate) windows: Vec<SlideWindow>,
    pub(crate) state: JudgeState,
    pub(crate) best_path: std::path::PathBuf,
    pub(crate) about: &'a Metadata,
    pub(crate) observer: &'a Mutex<dyn Observer>,
}

impl Judge<'_> {
    /// Lets outer weights into the windows.
    pub(crate) fn push(&mut self, cycle: usize, outer: &OuterWeights) {
        for window in &mut self.windows {
            window.push(cycle, outer.clone());
        }
    }

    fn judge(&mut self, case: &Case) -> Result<Answer, TrainError> {
        let began = Instant::now();
        let cycle = case.cycle.number;
        self.push(cycle, &case.outer);
        let last = cycle == self.bench.settings.plan.num_cycles();
        let mut judged = None;
        if last || cycle >= self.state.next_due {
            let mut result = self.look_at(case)?;
            if (self.bench.cancelled)() {
                return Err(CollectiveError::Aborted.into());
            }
            let spent = std::mem::take(&mut self.spent);
            result.time = JudgeTime { seconds: began.elapsed().as_secs_f64(), ..spent };
            announce(self.observer, &Event::Judged(Box::new(result.clone())));
            judged = Some(result);
        }
        // Cycles that were not looked at can neither be better nor use up patience.
        let stop = judged.is_some() && self.state.selection.should_stop(cycle);
        Ok(Answer {
            judged,
            verdict: if stop { Verdict::Stop } else { Verdict::Continue },
            state: self.state.clone(),
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    fn look_at(&mut self, case: &Case) -> Result<Judged, TrainError> {
        let cycle = case.cycle.number;
        let failed = |source| TrainError::Judge { cycle, source };
        let mut work = 0;
        let mut inner = Vec::new();
        for (number, model) in case.inner.iter().enumerate() {
            let began = Instant::now();
            let replica = self.replica.as_mut();
            let evaluation =
                self.bench.evaluate_model(replica, model, self.validation).map_err(failed)?;
            self.spent.evaluation += began.elapsed().as_secs_f64();
            work += evaluation.images;
            inner.push(evaluation);
            if self.bench.settings.candidates == Candidates::Models {
                self.consider(cycle, Member::Model(number), &evaluation)?;
            }
        }
        if self.bench.settings.candidates == Candidates::Models {
            self.state.next_due = self.next_due(&case.cycle, work);
            let chosen = self.state.selection.best().copied();
            return Ok(Judged { cycle, inner, chosen, ..Judged::default() });
        }
        let outer = self.measure(&case.outer).map_err(failed)?;
        work += passes(&outer);
        let mut train = None;
        if self.windows.is_empty() {
            self.consider(cycle, Member::Outer, &outer)?;
            train = self.on_training_images().map_err(failed)?;
        }
        if let Some(best) = &mut self.state.outer {
            best.consider(Choice { cycle, window: None, model: None, score: score(&outer) });
        }
        let mut hwa = Vec::new();
        // Windows that hold the same cycles have the same mean: measured once.
        let mut loaded = vec![cycle];
        let mut measured = HashMap::from([(loaded.clone(), outer)]);
        for index in 0..self.windows.len() {
            let cycles: Vec<usize> = self.windows[index].cycles().collect();
            let Some(mean) = self.windows[index].mean()? else { continue };
            let evaluation = match measured.get(&cycles) {
                Some(evaluation) => *evaluation,
                None => {
                    let evaluation = self.measure(&mean).map_err(failed)?;
                    work += passes(&evaluation);
                    loaded.clone_from(&cycles);
                    measured.insert(cycles.clone(), evaluation);
                    evaluation
                }
            };
            if index == 0 {
                // The first that is measured is still loaded.
                train = self.on_training_images().map_err(failed)?;
            }
            if let Some(best) = self.state.windows.get_mut(index) {
                let (window, score) = (Some(index), score(&evaluation));
                best.consider(Choice { cycle, window, model: None, score });
            }
            if self.is_better(&evaluation) {
                if loaded != cycles {
                    self.prepare(&mean).map_err(failed)?;
                    loaded.clone_from(&cycles);
                }
                self.consider(cycle, Member::Window(index), &evaluation)?;
            }
            let length = self.windows[index].spec().length.map(|l| l.get());
            hwa.push(WindowEvaluation { window: index, length, members: cycles.len(), evaluation });
        }
        work += train.map_or(0, |train| train.images);
        self.state.next_due = self.next_due(&case.cycle, work);
        let chosen = self.state.selection.best().copied();
        let time = JudgeTime::default();
        Ok(Judged { cycle, inner, outer: Some(outer), hwa, train, chosen, time })
    }

    fn measure(&mut self, weights: &Weights) -> Result<Evaluation, ReplicaError> {
        let recalibration = self.prepare(weights)?;
        let began = Instant::now();
        let replica = self.replica.as_mut();
        let evaluation = self.bench.evaluate(replica, self.validation, Some(recalibration));
        self.spent.evaluation += began.elapsed().as_secs_f64();
        evaluation
    }

    fn prepare(&mut self, weights: &Weights) -> Result<Recalibration, ReplicaError> {
        let began = Instant::now();
        let recalibration = self.bench.prepare(self.replica.as_mut(), weights);
        self.spent.statistics += began.elapsed().as_secs_f64();
        recalibration
    }

    /// What the replica holds, on training images, if that is asked for.
    fn on_training_images(&mut self) -> Result<Option<Evaluation>, ReplicaError> {
        let Some(sample) = &self.train_sample else { return Ok(None) };
        let began = Instant::now();
        let evaluation = self.bench.evaluate(self.replica.as_mut(), sample, None)?;
        self.spent.evaluation += began.elapsed().as_secs_f64();
        Ok(Some(evaluation))
    }

    fn is_better(&self, evaluation: &Evaluation) -> bool {
        let score = score(evaluation);
        self.state.selection.best().is_none_or(|best| score.beats(&best.score))
    }

    /// Considers what the replica holds now, and saves it if it is the best so far.
    fn consider(
        &mut self,
        cycle: usize,
        member: Member,
        evaluation: &Evaluation,
    ) -> Result<(), TrainError> {
        let (window, model) = match member {
            Member::Outer => (None, None),
            Member::Window(window) => (Some(window), None),
            Member::Model(model) => (None, Some(model)),
        };
        let choice = Choice { cycle, window, model, score: score(evaluation) };
        if (self.bench.cancelled)() || !self.state.selection.consider(choice) {
            return Ok(());
        }
        let state = self.replica.state().map_err(|source| TrainError::Judge { cycle, source })?;
        let members: Option<Vec<usize>> = window.map(|w| self.windows[w].cycles().collect());
        let statistics = if model.is_some() { "running" } else { "re-estimated" };
        let mut metadata = self.about.clone();
        metadata.extend([
            ("cycle".to_owned(), cycle.into()),
            ("kind".to_owned(), kind(&choice).into()),
            ("members".to_owned(), members.into()),
            ("statistics".to_owned(), statistics.into()),
        ]);
        if let Some(model) = model {
            metadata.insert("replica".to_owned(), model.into());
        }
        Ok(write_tensors(&self.best_path, &state.weights, &metadata)?)
    }

    /// When to look again. Work is counted in images that pass forward; a training
    /// step costs three of them for each image, as if SAM's were plain: methods that make the
    /// same steps are looked at in the same cycles.
    fn next_due(&self, cycle: &Cycle, work: u64) -> usize {
        let settings = self.bench.settings;
        match settings.evaluate.every {
            Every::Cycles(n) => (cycle.number / n.get() + 1) * n.get(),
            Every::Auto => {
                let images = settings.plan.num_models.get().saturating_mul(settings.batch.get());
                let steps = settings.plan.sync_period.get();
                let training = (images as u64).saturating_mul(3).saturating_mul(steps);
                let pause = work as f64 / (JUDGE_SHARE * training as f64);
                cycle.number + (pause.ceil() as usize).max(1)
            }
        }
    }
}

/// Whose weights are considered.
#[derive(Debug, Clone, Copy)]
enum Member {
    Outer,
    Window(usize),
    Model(usize),
}

/// What chosen weights are called in their file.
pub(crate) fn kind(choice: &Choice) -> &'static str {
    match (choice.window, choice.model) {
        (Some(_), _) => "hwa",
        (None, Some(_)) => "inner",
        (None, None) => "outer",
    }
}

fn passes(evaluation: &Evaluation) -> u64 {
    evaluation.images + evaluation.recalibration.map_or(0, |r| r.images)
}

fn score(evaluation: &Evaluation) -> Score {
    Score { accuracy: evaluation.top1 / 100.0, loss: evaluation.loss }
}
