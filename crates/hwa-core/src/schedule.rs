//! Learning-rate schedules: the rate of every step, known before training.
//!
//! A schedule is a function of the step number alone, over the whole budget. It
//! has no state, so nothing can be lost, doubled or restored into the wrong
//! scheduler when a run is resumed.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

/// How the rate falls from its peak.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Decay {
    /// It does not.
    Constant,
    /// Half a cosine from the peak to `floor` over the whole budget.
    Cosine {
        /// The rate that the last step approaches.
        floor: f64,
    },
    /// A straight line from the peak to `floor` over the whole budget.
    Linear {
        /// The rate that the last step approaches.
        floor: f64,
    },
    /// Times `factor` at each milestone.
    Step {
        /// What the rate is multiplied with.
        factor: f64,
        /// Steps at which that happens, in ascending order.
        milestones: Vec<u64>,
    },
    /// A saw-tooth: from the peak to `floor` in every period, then up again.
    Cyclical {
        /// The rate at the end of a period.
        floor: f64,
        /// Steps per period.
        period: u64,
    },
    /// Half a cosine from the peak to `floor`, and again; each time `factor` times as long.
    Restarts {
        /// The rate that each of them approaches.
        floor: f64,
        /// Steps of the first.
        period: u64,
        /// How much longer the next one is; 1 for equal ones.
        factor: u64,
        /// Where the last one ends, however short that makes it; without, the budget cuts it off.
        #[serde(default)]
        end: Option<u64>,
    },
    /// The two stages of SWA: the peak for the first half of stage I, then a
    /// line down to `rate`, then stage II.
    TwoStage {
        /// The first step of stage II.
        start: u64,
        /// The (highest) rate of stage II.
        rate: f64,
        /// The saw-tooth of stage II, as `(floor, period)`; constant without.
        cycle: Option<(f64, u64)>,
    },
}

/// How often the rate changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Granularity {
    /// At every step.
    Step,
    /// At the first step of every epoch.
    Epoch {
        /// The length of an epoch.
        steps: u64,
    },
}

/// The learning rate as a function of the step.
///
/// ```
/// use hwa_core::{Decay, Schedule};
///
/// let schedule = Schedule::new(0.1, Decay::Cosine { floor: 0.0 }, 100)?;
/// assert_eq!(schedule.rate(0), 0.1);
/// assert!((schedule.rate(50) - 0.05).abs() < 1e-12);
/// # Ok::<_, hwa_core::ScheduleError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    peak: f64,
    decay: Decay,
    total: u64,
    warmup: u64,
    granularity: Granularity,
}

impl Schedule {
    /// A schedule over `total` steps that starts at `peak`.
    pub fn new(peak: f64, decay: Decay, total: u64) -> Result<Self, ScheduleError> {
        let positive = |key, found: f64| {
            let fine = found.is_finite() && found > 0.0;
            if fine { Ok(()) } else { Err(ScheduleError::NotPositive { key, found }) }
        };
        let floor = |key, found: f64, rate: f64| match found {
            _ if !(found.is_finite() && found >= 0.0) => {
                Err(ScheduleError::Negative { key, found })
            }
            // A rate that is to fall would rise.
            _ if found > rate => Err(ScheduleError::FloorAbove { key, found, rate }),
            _ => Ok(()),
        };
        positive("rate", peak)?;
        match &decay {
            Decay::Constant => {}
            Decay::Cosine { floor: low } | Decay::Linear { floor: low } => {
                floor("floor", *low, peak)?;
            }
            Decay::Step { factor, milestones } => {
                positive("factor", *factor)?;
                if !milestones.is_sorted() {
                    return Err(ScheduleError::MilestonesUnsorted);
                }
            }
            Decay::Cyclical { floor: low, period } => {
                floor("floor", *low, peak)?;
                nonzero("period", *period)?;
            }
            Decay::Restarts { floor: low, period, factor, .. } => {
                floor("floor", *low, peak)?;
                nonzero("period", *period)?;
                nonzero("lengthening", *factor)?;
            }
            Decay::TwoStage { rate, cycle, .. } => {
                positive("swa.rate", *rate)?;
                floor("swa.rate", *rate, peak)?;
                if let Some((low, period)) = cycle {
                    floor("swa.floor", *low, *rate)?;
                    nonzero("swa.period", *period)?;
                }
            }
        }
        Ok(Self { peak, decay, total, warmup: 0, granularity: Granularity::Step })
    }

    /// Multiplies the first `steps` rates with a ramp from 1/`steps` to 1.
    pub fn with_warmup(mut self, steps: u64) -> Self {
        self.warmup = steps;
        self
    }

    /// Changes the rate at every step or at every epoch.
    pub fn with_granularity(mut self, granularity: Granularity) -> Result<Self, ScheduleError> {
        if let Granularity::Epoch { steps } = granularity {
            nonzero("epoch", steps)?;
        }
        self.granularity = granularity;
        Ok(self)
    }

    /// The rate of a step, counted from 0.
    pub fn rate(&self, step: u64) -> f64 {
        // The steps over which the rate stays what it is.
        let stretch = match self.granularity {
            Granularity::Step => 1,
            Granularity::Epoch { steps } => steps,
        };
        let step = step - step % stretch;
        let ramp = ((step + stretch) as f64 / self.warmup.max(1) as f64).min(1.0);
        ramp * self.decayed(step)
    }

    fn decayed(&self, step: u64) -> f64 {
        let done = if self.total == 0 { 0.0 } else { step as f64 / self.total as f64 };
        let peak = self.peak;
        match &self.decay {
            Decay::Constant => peak,
            Decay::Cosine { floor } => floor + (peak - floor) * 0.5 * (1.0 + (PI * done).cos()),
            Decay::Linear { floor } => line(peak, *floor, done),
            Decay::Step { factor, milestones } => {
                let passed = milestones.iter().filter(|at| **at <= step).count();
                peak * factor.powi(passed as i32)
            }
            Decay::Cyclical { floor, period } => saw_tooth(peak, *floor, step, *period),
            Decay::Restarts { floor, period, factor, end } => {
                let (done, length) = since_restart(step, *period, *factor);
                let room = end.map_or(length, |end| end.saturating_sub(step - done).max(1));
                let length = length.min(room);
                let done = (done as f64 / length as f64).min(1.0);
                floor + (peak - floor) * 0.5 * (1.0 + (PI * done).cos())
            }
            Decay::TwoStage { start, rate, cycle } if step >= *start => match cycle {
                None => *rate,
                Some((floor, period)) => saw_tooth(*rate, *floor, step - start, *period),
            },
            Decay::TwoStage { start, rate, .. } => {
                let share = step as f64 / *start as f64;
                line(peak, *rate, ((share - 0.5) / 0.5).max(0.0))
            }
        }
    }
}

fn nonzero(key: &'static str, found: u64) -> Result<(), ScheduleError> {
    if found == 0 { Err(ScheduleError::Zero { key }) } else { Ok(()) }
}

fn line(from: f64, to: f64, share: f64) -> f64 {
    from + (to - from) * share
}

/// The steps since the last restart, and the length of that stretch.
fn since_restart(mut step: u64, period: u64, factor: u64) -> (u64, u64) {
    if factor == 1 {
        return (step % period, period);
    }
    let mut length = period;
    while step >= length {
        step -= length;
        length = length.saturating_mul(factor);
    }
    (step, length)
}

/// The last step of a period has exactly the floor: that is where samples are taken.
fn saw_tooth(high: f64, low: f64, step: u64, period: u64) -> f64 {
    if period == 1 {
        return low;
    }
    line(high, low, (step % period) as f64 / (period - 1) as f64)
}

/// Why a schedule is impossible.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// A rate or factor is not above zero.
    #[error("`{key}` must be a finite number above 0, found {found}")]
    NotPositive {
        /// The setting.
        key: &'static str,
        /// Its value.
        found: f64,
    },
    /// A floor is below zero.
    #[error("`{key}` must be at least 0, found {found}")]
    Negative {
        /// The setting.
        key: &'static str,
        /// Its value.
        found: f64,
    },
    /// A rate would rise to its floor.
    #[error("`{key}` must be at most the rate ({rate}) that falls to it, found {found}")]
    FloorAbove {
        /// The setting.
        key: &'static str,
        /// Its value.
        found: f64,
        /// The rate.
        rate: f64,
    },
    /// A length is zero.
    #[error("`{key}` must be at least one step")]
    Zero {
        /// The setting.
        key: &'static str,
    },
    /// Milestones must ascend.
    #[error("`milestones` must be in ascending order")]
    MilestonesUnsorted,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rates(schedule: &Schedule, steps: &[u64]) -> Vec<f64> {
        steps.iter().map(|s| (schedule.rate(*s) * 1e9).round() / 1e9).collect()
    }

    #[test]
    fn cosine_and_linear_fall_over_the_whole_budget() {
        let cosine = Schedule::new(0.1, Decay::Cosine { floor: 0.0 }, 4).unwrap();
        // 0.05 (1 + cos(pi t/4)): cos = 1, 0.7071.., 0, -0.7071..
        assert_eq!(rates(&cosine, &[0, 1, 2, 3]), [0.1, 0.085355339, 0.05, 0.014644661]);
        let linear = Schedule::new(0.1, Decay::Linear { floor: 0.02 }, 4).unwrap();
        assert_eq!(rates(&linear, &[0, 1, 2, 3]), [0.1, 0.08, 0.06, 0.04]);
    }

    #[test]
    fn steps_and_saw_teeth_follow_their_definition() {
        let decay = Decay::Step { factor: 0.1, milestones: vec![2, 3] };
        let step = Schedule::new(1.0, decay, 10).unwrap();
        assert_eq!(rates(&step, &[0, 1, 2, 3, 9]), [1.0, 1.0, 0.1, 0.01, 0.01]);
        let saw = Schedule::new(0.5, Decay::Cyclical { floor: 0.1, period: 3 }, 9).unwrap();
        assert_eq!(rates(&saw, &[0, 1, 2, 3, 5]), [0.5, 0.3, 0.1, 0.5, 0.1]);
    }

    #[test]
    fn the_last_cosine_ends_with_the_budget_if_it_is_told_where_that_is() {
        let restarts = |end| {
            let decay = Decay::Restarts { floor: 0.0, period: 2, factor: 2, end };
            Schedule::new(1.0, decay, 8).unwrap()
        };
        // Cosines of 2 and 4 steps, and 2 steps of the next one: of 8, or all that it has.
        assert_eq!(
            rates(&restarts(None), &[0, 1, 2, 4, 6, 7]),
            [1., 0.5, 1., 0.5, 1., 0.961939766]
        );
        assert_eq!(rates(&restarts(Some(8)), &[0, 1, 2, 4, 6, 7]), [1., 0.5, 1., 0.5, 1., 0.5]);
        // Behind the end there is nothing to fall to.
        assert_eq!(rates(&restarts(Some(8)), &[8, 9]), [0., 0.]);
    }

    #[test]
    fn swa_holds_falls_and_holds_again() {
        let decay = Decay::TwoStage { start: 8, rate: 0.05, cycle: None };
        let swa = Schedule::new(0.1, decay, 10).unwrap();
        // flat for 4 steps, then a line from 0.1 at step 4 to 0.05 at step 8
        assert_eq!(rates(&swa, &[0, 4, 6, 8, 9]), [0.1, 0.1, 0.075, 0.05, 0.05]);
        let decay = Decay::TwoStage { start: 8, rate: 0.05, cycle: Some((0.01, 2)) };
        let cyclical = Schedule::new(0.1, decay, 12).unwrap();
        assert_eq!(rates(&cyclical, &[8, 9, 10, 11]), [0.05, 0.01, 0.05, 0.01]);
    }

    #[test]
    fn a_rate_per_epoch_changes_at_the_epochs_first_step() {
        let schedule = Schedule::new(0.1, Decay::Linear { floor: 0.0 }, 4)
            .and_then(|s| s.with_granularity(Granularity::Epoch { steps: 2 }))
            .unwrap();
        assert_eq!(rates(&schedule, &[0, 1, 2, 3]), [0.1, 0.1, 0.05, 0.05]);
    }

    #[test]
    fn warm_up_ramps_to_the_schedule() {
        let schedule = Schedule::new(1.0, Decay::Constant, 10).unwrap().with_warmup(4);
        assert_eq!(rates(&schedule, &[0, 1, 2, 3, 4]), [0.25, 0.5, 0.75, 1.0, 1.0]);
        // Two epochs of warm-up, per epoch: half the rate in the first, all of it in the second.
        let schedule = schedule.with_granularity(Granularity::Epoch { steps: 2 }).unwrap();
        assert_eq!(rates(&schedule, &[0, 1, 2, 3, 4]), [0.5, 0.5, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn impossible_schedules_are_refused() {
        let error = |rate, decay| Schedule::new(rate, decay, 9).unwrap_err().to_string();
        assert_eq!(error(0.0, Decay::Constant), "`rate` must be a finite number above 0, found 0");
        assert_eq!(
            error(f64::NAN, Decay::Constant),
            "`rate` must be a finite number above 0, found NaN"
        );
        let low = Decay::Cosine { floor: -1.0 };
        assert_eq!(error(1.0, low), "`floor` must be at least 0, found -1");
        let still = Decay::Cyclical { floor: 0.0, period: 0 };
        assert_eq!(error(1.0, still), "`period` must be at least one step");
    }

    proptest! {
        #[test]
        fn decays_stay_between_floor_and_peak(
            total in 1u64..500, share in 0.0f64..1.0, peak in 0.01f64..1.0, period in 1u64..40
        ) {
            let floor = peak * share;
            let step = |t: u64| t % total;
            for decay in [
                Decay::Cosine { floor },
                Decay::Linear { floor },
                Decay::Cyclical { floor, period },
            ] {
                let schedule = Schedule::new(peak, decay, total).unwrap();
                for t in 0..50 {
                    let rate = schedule.rate(step(t * 13));
                    prop_assert!(rate <= peak * (1.0 + 1e-12) && rate >= floor * (1.0 - 1e-12));
                }
            }
        }
    }
}
