//! What happens in a run, for whoever watches it and for `events.jsonl`.
//!
//! Libraries never print: they emit events. Whatever depends on the clock is
//! under the key `time`, so that two runs can be compared without it.
//!
//! Logs outlive the program that wrote them. The first event says by which format
//! it was written. Reading passes over fields and events that it does not know,
//! and fills in what is missing, so fields can be added without a new format.

use std::sync::{Mutex, PoisonError};

use hwa_core::{Choice, WindowSpec};
use serde::{Deserialize, Serialize};

use crate::disk::DiskUse;
use crate::replica::{Recalibration, Tally};
use crate::usage::Usage;

/// The format of `events.jsonl`. It changes when a field changes its meaning.
pub const EVENTS_FORMAT: u32 = 1;

/// Hears what happens.
pub trait Observer: Send {
    /// Called for each event, from whichever thread it happens in.
    fn observe(&mut self, event: &Event);
}

/// Tells an observer, whatever became of the thread that told it last.
pub(crate) fn announce(observer: &Mutex<dyn Observer>, event: &Event) {
    observer.lock().unwrap_or_else(PoisonError::into_inner).observe(event);
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A run began.
    Started(Started),
    /// A run goes on from a saved state. Shown, not recorded: a resumed run
    /// records what the uninterrupted one would.
    Resumed {
        /// The steps that each model has done.
        #[serde(default)]
        steps: Vec<u64>,
    },
    /// A model made a step. Shown, not recorded.
    Stepped(Stepped),
    /// The models were averaged.
    CycleEnded(CycleEnded),
    /// The judge has looked at a cycle.
    Judged(Box<Judged>),
    /// A model failed, or was left out, and the others went on without it.
    ReplicaLost {
        /// The model.
        #[serde(default)]
        replica: usize,
        /// Its steps so far, if they are known.
        #[serde(default)]
        step: Option<u64>,
        /// Why.
        #[serde(default)]
        reason: String,
    },
    /// The run stopped because a loss or weights are not finite; it would again.
    Diverged {
        /// The steps of the model so far.
        #[serde(default)]
        step: u64,
        /// What is not finite, and what may help.
        #[serde(default)]
        reason: String,
    },
    /// The averaged curve had stopped getting better.
    StoppedEarly {
        /// The last cycle.
        #[serde(default)]
        cycle: usize,
    },
    /// The run was interrupted and can be resumed. Shown, not recorded.
    Interrupted {
        /// The steps that each model has done.
        #[serde(default)]
        steps: Vec<u64>,
    },
    /// The final pass has measured another cycle on test, for its curve. Shown, not recorded.
    Measured {
        /// Cycles so far.
        #[serde(default)]
        done: usize,
        /// Of so many.
        #[serde(default)]
        total: usize,
    },
    /// The final pass is over.
    Finished(Box<Summary>),
    /// Something that only a later version knows. Read, never recorded.
    #[serde(other)]
    Unknown,
}

/// A run's beginning.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Started {
    /// [`EVENTS_FORMAT`] of the program that wrote the log; 0 if it did not say.
    pub format: u32,
    /// Models trained in parallel.
    pub num_models: usize,
    /// Steps of each.
    pub max_steps: u64,
    /// Steps between synchronizations.
    pub sync_period: u64,
    /// Steps of an epoch.
    pub steps_per_epoch: u64,
    /// Cycles.
    pub num_cycles: usize,
    /// The windows tried.
    pub windows: Vec<WindowSpec>,
    /// Parameters of one model.
    pub parameters: usize,
    /// What the weights that one model is judged by are called.
    pub offers: String,
    /// Training, validation and test images.
    pub images: [usize; 3],
    /// About how many bytes it will take on disk.
    pub disk: DiskUse,
}

/// A model's step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stepped {
    /// The model.
    pub replica: usize,
    /// Its steps so far.
    pub step: u64,
    /// The batch's loss before the step.
    #[serde(with = "hwa_core::float")]
    pub loss: f64,
    /// The step's rate.
    pub rate: f64,
    /// The batch's images.
    pub images: usize,
}

/// The end of a cycle.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CycleEnded {
    /// The cycle, from 1.
    pub cycle: usize,
    /// Steps of each model so far.
    pub step: u64,
    /// The rate of the cycle's last step.
    pub rate: f64,
    /// What each model reports.
    pub models: Vec<ModelReport>,
    /// What depends on the clock.
    pub time: CycleTime,
}

/// What a model reports of a cycle.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelReport {
    /// Mean training loss over the cycle's steps.
    #[serde(with = "hwa_core::float")]
    pub loss: f64,
    /// The loss of its first step: that of the outer weights.
    #[serde(with = "hwa_core::float")]
    pub first_loss: f64,
    /// The loss of its last step.
    #[serde(with = "hwa_core::float")]
    pub last_loss: f64,
    /// Euclidean distance of the inner weights to their average.
    #[serde(with = "hwa_core::float")]
    pub distance: f64,
    /// What depends on the clock.
    pub time: ModelTime,
}

/// Where a model's time went in a cycle.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelTime {
    /// Seconds in steps.
    pub steps: f64,
    /// Seconds waiting for data.
    pub data: f64,
    /// Images trained on per second of the two.
    pub images_per_second: f64,
}

/// When a cycle ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CycleTime {
    /// Seconds of training since the run began, earlier sessions included.
    pub elapsed: f64,
    /// Seconds in the synchronization, waiting for other models included.
    pub synchronization: f64,
    /// What was exchanged with other processes, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
}

/// What the leading process exchanged with others since the cycle before. What goes round before
/// the first cycle, such as a state to go on from, is in none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Bytes sent and received in the synchronization.
    pub bytes: u64,
    /// Seconds that it took once all models had come.
    pub seconds: f64,
    /// Bytes of states and inner weights that came to be kept.
    pub kept_bytes: u64,
    /// Seconds that they took.
    pub kept_seconds: f64,
}

/// What the judge says of a cycle.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Judged {
    /// The cycle.
    pub cycle: usize,
    /// The inner weights of each model, with their own statistics, if requested.
    pub inner: Vec<Evaluation>,
    /// The outer weights, unless the result is one of the models.
    pub outer: Option<Evaluation>,
    /// The HWA weights of each window that has members.
    pub hwa: Vec<WindowEvaluation>,
    /// The HWA weights of the first window on training images, or the outer weights if there is
    /// no window; if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<Evaluation>,
    /// The best so far, on validation.
    pub chosen: Option<Choice>,
    /// What depends on the clock.
    pub time: JudgeTime,
}

/// What judging took.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JudgeTime {
    /// Seconds of the judge for this cycle.
    pub seconds: f64,
    /// Of them, re-estimating statistics.
    pub statistics: f64,
    /// Of them, evaluating.
    pub evaluation: f64,
}

/// Some weights on some data.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evaluation {
    /// Top-1 accuracy in percent.
    pub top1: f64,
    /// Top-5 accuracy in percent.
    pub top5: f64,
    /// Mean cross entropy.
    #[serde(with = "hwa_core::float")]
    pub loss: f64,
    /// Images evaluated.
    pub images: u64,
    /// How the batch-norm statistics were re-estimated, if they were.
    pub recalibration: Option<Recalibration>,
}

impl Evaluation {
    /// Percentages and means of a tally.
    pub fn new(tally: &Tally, recalibration: Option<Recalibration>) -> Self {
        let images = tally.images.max(1) as f64;
        Self {
            top1: 100.0 * tally.top1 as f64 / images,
            top5: 100.0 * tally.top5 as f64 / images,
            loss: tally.loss / images,
            images: tally.images,
            recalibration,
        }
    }
}

/// HWA weights of one window on some data.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowEvaluation {
    /// Which of the plan's windows.
    pub window: usize,
    /// Its length in cycles; `None` for all since its first cycle.
    pub length: Option<usize>,
    /// How many outer weights it held.
    pub members: usize,
    /// How good their mean is.
    pub evaluation: Evaluation,
}

/// The final figures of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// The last cycle.
    pub last_cycle: usize,
    /// What validation chose.
    pub chosen: Option<Choice>,
    /// The length of the chosen window, if it has one.
    pub chosen_length: Option<usize>,
    /// The figures on validation.
    pub validation: Levels,
    /// The figures on test, read once, after the choice.
    pub test: Levels,
    /// Where several windows were tried, what each is worth.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowSummary>,
    /// Where there are windows over averages of several models, what the averages alone are worth:
    /// the result of online averaging, which trains the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub online: Option<OnlineSummary>,
    /// The best cycle on test, the paper's way, if a test curve was asked for.
    pub best_on_test: Option<BestOnTest>,
    /// What depends on the clock.
    pub time: SummaryTime,
}

/// One of several windows, at the cycle that validation chooses for it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowSummary {
    /// Which of the plan's windows.
    pub window: usize,
    /// Its length, if it has one.
    pub length: Option<usize>,
    /// The cycle.
    pub cycle: usize,
    /// The figures on validation.
    pub validation: Evaluation,
    /// The figures on test.
    pub test: Evaluation,
}

/// Outer weights alone, at the cycle that validation chooses for them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OnlineSummary {
    /// The cycle.
    pub cycle: usize,
    /// The figures on validation.
    pub validation: Evaluation,
    /// The figures on test.
    pub test: Evaluation,
}

/// The three levels on one split; what a method does not have is `None`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Levels {
    /// Each model's inner weights at the end of the last cycle, before its
    /// synchronization, with their own running statistics.
    pub inner: Vec<Evaluation>,
    /// The outer weights of the last cycle.
    pub outer: Option<Evaluation>,
    /// The offline average of the chosen cycle.
    pub hwa: Option<Evaluation>,
    /// The chosen weights, of whichever level the method's result is.
    pub chosen: Option<Evaluation>,
}

impl Levels {
    /// Mean top-1 over the models' inner weights, in percent.
    pub fn inner_top1(&self) -> Option<f64> {
        let count = self.inner.len() as f64;
        (count > 0.0).then(|| self.inner.iter().map(|e| e.top1).sum::<f64>() / count)
    }
}

/// The best cycle on test: not a choice, only the paper's figure.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BestOnTest {
    /// The cycle.
    pub cycle: usize,
    /// The window.
    pub window: Option<usize>,
    /// The figures.
    pub evaluation: Evaluation,
    /// Cycle, window and top-1 of every point.
    pub curve: Vec<(usize, Option<usize>, f64)>,
}

/// What a run took.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SummaryTime {
    /// Seconds of training, earlier sessions included.
    pub seconds: f64,
    /// Seconds of the judge, beside training, earlier sessions included.
    pub judge: f64,
    /// What training, judging and the final pass used of the machine, earlier sessions included.
    #[serde(flatten)]
    pub usage: Usage,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Event {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn what_a_reader_does_not_know_is_passed_over() {
        let line = r#"{"event":"stopped_early","cycle":3,"mood":{"of":["the","day"]}}"#;
        assert_eq!(read(line), Event::StoppedEarly { cycle: 3 });
        assert_eq!(read(r#"{"event":"weather","cycle":3}"#), Event::Unknown);
    }

    #[test]
    fn what_a_writer_did_not_say_is_filled_in() {
        let judged = Judged { cycle: 2, ..Judged::default() };
        assert_eq!(read(r#"{"event":"judged","cycle":2}"#), Event::Judged(Box::new(judged)));
        // As the first version wrote it: without a format, with another account of the disk.
        let line = r#"{"event":"started","num_models":2,"checkpoint_bytes":9,
            "windows":[{"length":5}]}"#;
        let Event::Started(started) = read(line) else { panic!("started") };
        assert_eq!((started.format, started.num_models), (0, 2));
        assert_eq!(started.disk, DiskUse::default());
        assert_eq!(started.windows[0].stride.get(), 1);
        for name in ["started", "resumed", "stepped", "cycle_ended", "judged"] {
            assert_ne!(read(&format!(r#"{{"event":"{name}"}}"#)), Event::Unknown);
        }
        for name in ["stopped_early", "interrupted", "measured", "finished", "replica_lost"] {
            assert_ne!(read(&format!(r#"{{"event":"{name}"}}"#)), Event::Unknown);
        }
    }
}
