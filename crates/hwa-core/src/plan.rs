//! The plan of a run: K models, T steps, a synchronization every H of them.
//!
//! One clock counts everything: optimizer steps of one model. Cycles, epochs,
//! rates and state files are functions of it, so no two counters can disagree.
//! Cycles are numbered from 1.

use std::num::{NonZeroU64, NonZeroUsize};

use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;
use crate::window::WindowSpec;

/// What is going to happen, fixed before the first step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The paper's K: models that train in parallel.
    pub num_models: NonZeroUsize,
    /// The paper's T: steps of each model.
    pub max_steps: NonZeroU64,
    /// The paper's H: steps between synchronizations.
    pub sync_period: NonZeroU64,
    /// The rate of every step.
    pub schedule: Schedule,
    /// The windows that offline averaging tries; none for a purely online method.
    pub windows: Vec<WindowSpec>,
}

impl Plan {
    /// All cycles, in order. The last one is shorter if H does not divide T.
    pub fn cycles(&self) -> impl Iterator<Item = Cycle> + use<> {
        self.cycles_after(0)
    }

    /// The cycles that are not over after `done` steps, starting with the one
    /// that step `done` ends or lies in: its synchronization is still to come.
    pub fn cycles_after(&self, done: u64) -> impl Iterator<Item = Cycle> + use<> {
        let (period, total) = (self.sync_period.get(), self.max_steps.get());
        let first = done.min(total).saturating_sub(1) / period;
        (first..total.div_ceil(period)).map(move |index| Cycle::new(index, period, total))
    }

    /// The cycle of this number, if there is one.
    pub fn cycle(&self, number: usize) -> Option<Cycle> {
        let index = number.checked_sub(1).filter(|_| number <= self.num_cycles())?;
        Some(Cycle::new(index as u64, self.sync_period.get(), self.max_steps.get()))
    }

    /// The number of cycles.
    pub fn num_cycles(&self) -> usize {
        self.max_steps.get().div_ceil(self.sync_period.get()) as usize
    }

    /// The oldest cycle whose outer weights the windows of `cycle` can hold.
    pub fn oldest_member(&self, cycle: usize) -> usize {
        self.windows.iter().map(|w| w.oldest(cycle)).min().unwrap_or(cycle)
    }
}

/// One synchronization cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// From 1.
    pub number: usize,
    /// Steps done before the cycle.
    pub start: u64,
    /// Steps done when its synchronization comes.
    pub end: u64,
}

impl Cycle {
    fn new(index: u64, period: u64, total: u64) -> Self {
        let start = index * period;
        // The last cycle may end beyond what a number can hold.
        Self { number: index as usize + 1, start, end: start.saturating_add(period).min(total) }
    }
}

/// The paper's I as a user gives it: cycles, or a share of the budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WindowLength {
    /// So many cycles.
    Cycles(NonZeroUsize),
    /// This share of all cycles, above 0 and up to 1.
    Share(f64),
}

impl WindowLength {
    /// The length in cycles, for a run of `num_cycles`: at least one.
    pub fn resolve(self, num_cycles: usize) -> NonZeroUsize {
        match self {
            Self::Cycles(cycles) => cycles,
            Self::Share(share) => {
                let cycles = (share * num_cycles as f64).round() as usize;
                NonZeroUsize::new(cycles).unwrap_or(NonZeroUsize::MIN)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schedule::Decay;

    fn plan(max_steps: u64, sync_period: u64) -> Plan {
        Plan {
            num_models: NonZeroUsize::MIN,
            max_steps: NonZeroU64::new(max_steps).unwrap(),
            sync_period: NonZeroU64::new(sync_period).unwrap(),
            schedule: Schedule::new(0.1, Decay::Constant, max_steps).unwrap(),
            windows: Vec::new(),
        }
    }

    fn ends(plan: &Plan, done: u64) -> Vec<(usize, u64, u64)> {
        plan.cycles_after(done).map(|c| (c.number, c.start, c.end)).collect()
    }

    #[test]
    fn the_last_cycle_is_shorter_when_h_does_not_divide_t() {
        assert_eq!(ends(&plan(10, 4), 0), [(1, 0, 4), (2, 4, 8), (3, 8, 10)]);
        assert_eq!(ends(&plan(8, 4), 0), [(1, 0, 4), (2, 4, 8)]);
    }

    #[test]
    fn h_of_one_and_h_of_t_are_cycles_like_any_other() {
        assert_eq!(ends(&plan(3, 1), 0), [(1, 0, 1), (2, 1, 2), (3, 2, 3)]);
        assert_eq!(ends(&plan(3, 3), 0), [(1, 0, 3)]);
        assert_eq!(ends(&plan(3, 99), 0), [(1, 0, 3)]);
    }

    #[test]
    fn a_step_at_a_cycles_end_still_awaits_its_synchronization() {
        let plan = plan(10, 4);
        assert_eq!(ends(&plan, 3)[0], (1, 0, 4));
        assert_eq!(ends(&plan, 4)[0], (1, 0, 4));
        assert_eq!(ends(&plan, 5)[0], (2, 4, 8));
        assert_eq!(ends(&plan, 10), [(3, 8, 10)]);
    }

    #[test]
    fn a_share_of_the_budget_is_at_least_one_cycle() {
        assert_eq!(WindowLength::Share(0.1).resolve(200).get(), 20);
        assert_eq!(WindowLength::Share(0.01).resolve(10).get(), 1);
    }

    proptest! {
        #[test]
        fn cycles_cover_every_step_once(total in 1u64..300, period in 1u64..400, done in 0u64..300) {
            let plan = plan(total, period);
            let mut at = 0;
            for (i, cycle) in plan.cycles().enumerate() {
                prop_assert_eq!((cycle.number, cycle.start), (i + 1, at));
                prop_assert!(cycle.end > cycle.start);
                prop_assert_eq!(plan.cycle(i + 1), Some(cycle));
                at = cycle.end;
            }
            prop_assert_eq!((at, plan.cycles().count()), (total, plan.num_cycles()));
            prop_assert_eq!((plan.cycle(0), plan.cycle(plan.num_cycles() + 1)), (None, None));
            let done = done.min(total);
            let first = plan.cycles_after(done).next().unwrap();
            prop_assert!(first.start <= done && done <= first.end);
        }
    }
}
