//! What a run is going to take on disk, told before it begins.

use hwa_core::{Plan, Weights};
use serde::{Deserialize, Serialize};

use crate::replica::State;
use crate::settings::{Checkpoints, Settings};

/// States that are on disk at once: two that are kept, and the one being saved.
const STATES: u64 = 3;

/// About how many bytes a run takes on disk while it runs, by what they are for.
/// Tensors are counted; headers, events and reports are small beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskUse {
    /// Outer weights: those that are kept, and those that a window needs meanwhile.
    pub outer: u64,
    /// Inner weights.
    pub inner: u64,
    /// States that a resumed run goes on from.
    pub states: u64,
    /// The chosen weights.
    pub best: u64,
}

impl DiskUse {
    /// All of it.
    pub fn total(&self) -> u64 {
        [self.inner, self.states, self.best].into_iter().fold(self.outer, u64::saturating_add)
    }

    /// Of a run with these settings, whose models are as large as `model`.
    pub(crate) fn expected(settings: &Settings, parameters: &Weights, model: &State) -> Self {
        let bytes = |weights: &Weights| weights.num_bytes() as u64;
        let sizes = [parameters, &model.weights, &model.momentum].map(bytes);
        Self::of_sizes(settings, sizes)
    }

    /// About that of a run with these settings, whose models have so many parameters in single
    /// precision; batch-norm statistics are not counted.
    pub fn estimated(settings: &Settings, parameters: u64) -> Self {
        Self::of_sizes(settings, [parameters.saturating_mul(4); 3])
    }

    fn of_sizes(settings: &Settings, [parameters, complete, momentum]: [u64; 3]) -> Self {
        let Settings { plan, checkpoints, .. } = settings;
        let models = plan.num_models.get() as u64;
        let judged_later = if settings.judges_models() { complete } else { 0 };
        let outer = outer_kept(plan, checkpoints).saturating_add(outer_passing(plan, checkpoints));
        let inner = inner_saved(plan, checkpoints).saturating_mul(models);
        Self {
            outer: outer.saturating_mul(parameters),
            inner: inner.saturating_mul(parameters),
            states: STATES * models * (complete + momentum + judged_later),
            best: complete,
        }
    }
}

/// Cycles whose outer weights are kept. Counted without going through them: a run
/// may have any number of cycles.
fn outer_kept(plan: &Plan, checkpoints: &Checkpoints) -> u64 {
    let (cycles, every) = (plan.num_cycles() as u64, checkpoints.outer_every.get() as u64);
    cycles.div_ceil(every) // multiples, and the last one
}

/// Cycles whose outer weights are there only because the windows of a state need
/// them: the longest window, and the cycles since the older of two states.
fn outer_passing(plan: &Plan, checkpoints: &Checkpoints) -> u64 {
    let cycles = plan.num_cycles();
    let longest = plan.windows.iter().map(|w| cycles + 1 - w.oldest(cycles).min(cycles)).max();
    let since = checkpoints.state_every.get().div_ceil(plan.sync_period.get());
    let there = (longest.unwrap_or(1) as u64).saturating_add(since.saturating_mul(2));
    let there = there.min(cycles as u64);
    there - there / checkpoints.outer_every.get() as u64
}

/// Steps after which one model's inner weights are saved.
fn inner_saved(plan: &Plan, checkpoints: &Checkpoints) -> u64 {
    let mut cycles = checkpoints.inner_cycles.clone();
    cycles.sort_unstable();
    cycles.dedup();
    let saved = cycles.into_iter().filter_map(|number| plan.cycle(number)).map(|cycle| {
        let Some(every) = checkpoints.inner_every else { return 1 };
        let every = every.get();
        cycle.end / every - cycle.start / every + u64::from(!cycle.end.is_multiple_of(every))
    });
    saved.sum()
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU64, NonZeroUsize};

    use hwa_core::{Decay, Schedule, WindowSpec};
    use proptest::prelude::*;

    use super::*;

    fn plan(max_steps: u64, sync_period: u64) -> Plan {
        Plan {
            num_models: NonZeroUsize::MIN,
            max_steps: NonZeroU64::new(max_steps).unwrap(),
            sync_period: NonZeroU64::new(sync_period).unwrap(),
            schedule: Schedule::new(0.1, Decay::Constant, max_steps).unwrap(),
            windows: vec![WindowSpec::sliding(NonZeroUsize::new(3).unwrap())],
        }
    }

    fn checkpoints(outer_every: usize, inner_every: Option<u64>) -> Checkpoints {
        Checkpoints {
            outer_every: NonZeroUsize::new(outer_every).unwrap(),
            inner_cycles: vec![1, 3, 3, 1000],
            inner_every: inner_every.and_then(NonZeroU64::new),
            state_every: NonZeroU64::MIN,
        }
    }

    #[test]
    fn a_run_of_any_length_is_counted_at_once() {
        // 10^15 cycles, every 10^6th kept.
        let (plan, checkpoints) = (plan(1_000_000_000_000_000, 1), checkpoints(1_000_000, None));
        assert_eq!(outer_kept(&plan, &checkpoints), 1_000_000_000);
        // A window of 3, and a state every step: 3 + 2 files come and go.
        assert_eq!(outer_passing(&plan, &checkpoints), 5);
    }

    #[test]
    fn what_is_kept_anyway_does_not_count_twice() {
        assert_eq!(outer_passing(&plan(100, 1), &checkpoints(1, None)), 0);
    }

    proptest! {
        #[test]
        fn counting_agrees_with_going_through_all_steps(
            steps in 1u64..200, period in 1u64..50, every in 1usize..20, inner in 0u64..20
        ) {
            let (plan, checkpoints) = (plan(steps, period), checkpoints(every, Some(inner)));
            let kept = (1..=plan.num_cycles()).filter(|c| checkpoints.keeps(*c, &plan)).count();
            prop_assert_eq!(outer_kept(&plan, &checkpoints), kept as u64);
            let saved: usize = plan
                .cycles()
                .map(|c| (c.start + 1..=c.end).filter(|s| checkpoints.wants_inner(&c, *s)).count())
                .sum();
            prop_assert_eq!(inner_saved(&plan, &checkpoints), saved as u64);
        }
    }
}
