//! Where the time of a run goes, step by step.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::plan::{Action, Program, Step};

/// Collects the times of steps.
#[derive(Debug, Default)]
pub(super) struct Clock(Option<Mutex<Vec<Times>>>);

/// The time that a step has taken, over all runs.
#[derive(Debug, Clone)]
pub struct Times {
    /// What the step does.
    pub step: String,
    /// The multiply-adds of a run forward.
    pub multiply_adds: u64,
    /// Numbers of the tensor that it makes.
    pub numbers: usize,
    /// Forward.
    pub forward: Duration,
    /// Backward.
    pub backward: Duration,
}

/// Which way a step is run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Forward,
    Backward,
}

impl Clock {
    /// Does the work of a step by number.
    pub(super) fn time<R>(&self, number: usize, way: Way, work: impl FnOnce() -> R) -> R {
        let Some(times) = &self.0 else { return work() };
        let start = Instant::now();
        let result = work();
        let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
        let time = match way {
            Way::Forward => &mut times[number].forward,
            Way::Backward => &mut times[number].backward,
        };
        *time += start.elapsed();
        result
    }
}

impl Program {
    /// The same, with a clock at every step.
    pub fn timed(mut self) -> Self {
        let times = self.steps.iter().map(|step| Times {
            step: self.describe(step),
            multiply_adds: step.multiply_adds(),
            numbers: self.kept[step.slot.0].shape.len(),
            forward: Duration::ZERO,
            backward: Duration::ZERO,
        });
        self.clock = Clock(Some(Mutex::new(times.collect())));
        self
    }

    /// What the steps have taken since the last time this was asked; nothing unless
    /// [`timed`](Self::timed).
    pub fn take_times(&self) -> Vec<Times> {
        let Some(times) = &self.clock.0 else { return Vec::new() };
        let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = times.clone();
        for time in times.iter_mut() {
            (time.forward, time.backward) = (Duration::ZERO, Duration::ZERO);
        }
        taken
    }

    fn describe(&self, step: &Step) -> String {
        let to = self.kept[step.slot.0].shape;
        let from = step.action.views().first().map_or(to, |view| self.shape(*view));
        let (rows, columns) = (to.height, to.width);
        format!("{} {} to {} at {rows}x{columns}", step.action, from.channels, to.channels)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Convolution { convolution, .. } => convolution.fmt(f),
            Self::Combine { b: Some(_), .. } => f.write_str("sum"),
            Self::Combine { b: None, .. } => f.write_str("copy"),
            Self::Subsample { stride, .. } => write!(f, "subsample /{stride}"),
            Self::MaxPool { windows, .. } => write!(f, "max pool /{}", windows.stride),
            Self::AveragePool { windows, .. } => write!(f, "average pool /{}", windows.stride),
            Self::Slice { .. } => f.write_str("slice"),
            Self::Concat { .. } => f.write_str("concat"),
            Self::GlobalAverage { .. } => f.write_str("global average"),
        }
    }
}
