//! Slide-window averaging of outer weights: the offline half of HWA.
//!
//! After cycle `e` the HWA weights are the mean of the outer weights of cycles
//! `e-I+1 ..= e` whose number is a multiple of the stride. Before the window is
//! full they are the mean of the members there are. Sums run afresh for every
//! window, oldest first: nothing drifts. A window without a length that opens
//! at a given cycle is stochastic weight averaging (SWA): no member ever leaves it,
//! so that the sum of all is enough, which is the same sum.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use crate::levels::{HwaWeights, OuterWeights};
use crate::running_sum::RunningSum;
use crate::weights::WeightsError;

/// Which cycles a window covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowSpec {
    /// The paper's I, in cycles; without it, every cycle since `first_cycle`.
    pub length: Option<NonZeroUsize>,
    /// Members are the cycles whose number is a multiple of this.
    pub stride: NonZeroUsize,
    /// No cycle before this one becomes a member.
    pub first_cycle: usize,
}

impl Default for WindowSpec {
    /// Every cycle, from the first.
    fn default() -> Self {
        Self::everything_from(1)
    }
}

impl WindowSpec {
    /// A window of the last `length` cycles.
    pub fn sliding(length: NonZeroUsize) -> Self {
        Self { length: Some(length), stride: NonZeroUsize::MIN, first_cycle: 1 }
    }

    /// Every cycle from `first_cycle` on: the plain mean of SWA's second stage.
    pub fn everything_from(first_cycle: usize) -> Self {
        Self { length: None, stride: NonZeroUsize::MIN, first_cycle }
    }

    /// The oldest cycle that the window of cycle `cycle` can hold.
    pub fn oldest(&self, cycle: usize) -> usize {
        let slid = self.length.map_or(1, |length| cycle.saturating_sub(length.get() - 1));
        slid.max(self.first_cycle).max(1)
    }

    /// Whether a cycle may be a member of windows at all.
    pub fn admits(&self, cycle: usize) -> bool {
        cycle >= self.first_cycle && cycle.is_multiple_of(self.stride.get())
    }

    /// How many cycles the window of cycle `cycle` holds.
    pub fn num_members(&self, cycle: usize) -> usize {
        (self.oldest(cycle)..=cycle).filter(|member| self.admits(*member)).count()
    }
}

/// The outer weights a window covers, and their mean.
///
/// ```
/// use std::num::NonZeroUsize;
/// use hwa_core::{OuterWeights, SlideWindow, Tensor, Weights, WeightsError, WindowSpec};
///
/// let outer = |x: f32| {
///     let mut weights = Weights::new();
///     weights.insert("w", Tensor::parameter(vec![], vec![x])?)?;
///     Ok::<_, WeightsError>(OuterWeights::from_checkpoint(weights))
/// };
/// let two = NonZeroUsize::MIN.saturating_add(1);
/// let mut window = SlideWindow::new(WindowSpec::sliding(two));
/// assert!(window.mean()?.is_none()); // no average before its first member
/// for (cycle, x) in [(1, 1.0), (2, 3.0), (3, 7.0)] {
///     window.push(cycle, outer(x)?);
/// }
/// let hwa = window.mean()?.ok_or(WeightsError::Empty)?;
/// assert_eq!(hwa.require("w")?.as_f32(), Some(&[5.0][..])); // (3 + 7) / 2
/// # Ok::<_, WeightsError>(())
/// ```
#[derive(Debug, Clone)]
pub struct SlideWindow {
    spec: WindowSpec,
    members: Members,
}

/// What is remembered of the members.
#[derive(Debug, Clone)]
enum Members {
    /// All of them: one after the other leaves.
    Leaving(VecDeque<(usize, OuterWeights)>),
    /// Their cycles and the sum of all, if there are some and they fit together.
    Staying { cycles: Vec<usize>, sum: Result<Option<RunningSum>, WeightsError> },
}

impl SlideWindow {
    /// An empty window.
    pub fn new(spec: WindowSpec) -> Self {
        let members = match spec.length {
            Some(_) => Members::Leaving(VecDeque::new()),
            None => Members::Staying { cycles: Vec::new(), sum: Ok(None) },
        };
        Self { spec, members }
    }

    /// Slides the window to `cycle`, whose outer weights enter if the stride admits them.
    pub fn push(&mut self, cycle: usize, outer: OuterWeights) {
        let admitted = self.spec.admits(cycle);
        match &mut self.members {
            Members::Leaving(members) => {
                let oldest = self.spec.oldest(cycle);
                while members.front().is_some_and(|(member, _)| *member < oldest) {
                    members.pop_front();
                }
                if admitted {
                    members.push_back((cycle, outer));
                }
            }
            Members::Staying { cycles, sum } if admitted => {
                cycles.push(cycle);
                if let Ok(all) = sum {
                    *sum = match all.take() {
                        None => Ok(Some(RunningSum::of(outer))),
                        Some(all) => all.with(outer).map(Some),
                    };
                }
            }
            Members::Staying { .. } => {}
        }
    }

    /// The HWA weights: the mean of the members, if there is one yet.
    pub fn mean(&self) -> Result<Option<HwaWeights>, WeightsError> {
        match &self.members {
            Members::Leaving(members) if members.is_empty() => Ok(None),
            Members::Leaving(members) => {
                let members: Vec<&OuterWeights> = members.iter().map(|(_, outer)| outer).collect();
                HwaWeights::average(&members).map(Some)
            }
            Members::Staying { sum, .. } => {
                sum.as_ref().map_err(Clone::clone)?.as_ref().map(RunningSum::mean).transpose()
            }
        }
    }

    /// The cycles that are members, oldest first.
    pub fn cycles(&self) -> impl Iterator<Item = usize> {
        let (leaving, staying) = match &self.members {
            Members::Leaving(members) => (Some(members), None),
            Members::Staying { cycles, .. } => (None, Some(cycles)),
        };
        let leaving = leaving.into_iter().flatten().map(|(cycle, _)| *cycle);
        leaving.chain(staying.into_iter().flatten().copied())
    }

    /// Which cycles the window covers.
    pub fn spec(&self) -> &WindowSpec {
        &self.spec
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::weights::{Role, Tensor, Values, Weights};

    fn outer(x: f32) -> OuterWeights {
        let mut weights = Weights::new();
        weights.insert("w", Tensor::parameter(vec![], vec![x]).unwrap()).unwrap();
        OuterWeights::from_checkpoint(weights)
    }

    fn spec(length: usize, stride: usize) -> WindowSpec {
        WindowSpec {
            length: NonZeroUsize::new(length),
            stride: NonZeroUsize::new(stride).unwrap(),
            first_cycle: 1,
        }
    }

    #[test]
    fn the_oldest_of_the_last_number_that_there_is() {
        assert_eq!(spec(3, 1).oldest(usize::MAX), usize::MAX - 2);
        assert_eq!([spec(3, 1).oldest(0), spec(3, 1).oldest(3), spec(3, 1).oldest(4)], [1, 1, 2]);
    }

    /// Parameters alone.
    fn assert_parameters_alone(mean: &Weights) {
        assert_eq!(mean.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["h", "w"]);
    }

    fn trace(spec: WindowSpec, outer_weights: &[f32]) -> Vec<Option<f32>> {
        let mut window = SlideWindow::new(spec);
        let mut trace = Vec::new();
        for (i, x) in outer_weights.iter().enumerate() {
            window.push(i + 1, outer(*x));
            let mean = window.mean().unwrap();
            trace.push(mean.map(|hwa| hwa.get("w").unwrap().as_f32().unwrap()[0]));
        }
        trace
    }

    #[test]
    fn a_window_of_two_follows_the_hand_computed_trace() {
        // outer weights 1, 3, 7 -> mean of the last two: 1, 2, 5
        assert_eq!(trace(spec(2, 1), &[1.0, 3.0, 7.0]), [Some(1.0), Some(2.0), Some(5.0)]);
    }

    #[test]
    fn a_window_that_is_not_full_divides_by_its_members() {
        // I = 20, three members: 3/1, (3+5)/2, (3+5+10)/3; never divided by 20
        assert_eq!(trace(spec(20, 1), &[3.0, 5.0, 10.0]), [Some(3.0), Some(4.0), Some(6.0)]);
    }

    #[test]
    fn a_window_of_one_is_the_outer_weights() {
        assert_eq!(trace(spec(1, 1), &[1.0, 3.0]), [Some(1.0), Some(3.0)]);
    }

    #[test]
    fn with_stride_two_only_even_cycles_are_members() {
        // I = 4, s = 2: cycle 1 has no member; 2: {2}; 3: {2}; 4: {2,4}; 5: {2,4}; 6: {4,6}
        let found = trace(spec(4, 2), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(found, [None, Some(2.0), Some(2.0), Some(3.0), Some(3.0), Some(5.0)]);
    }

    #[test]
    fn a_stride_longer_than_the_window_leaves_gaps() {
        // I = 1, s = 2: only even cycles have HWA weights at all
        assert_eq!(trace(spec(1, 2), &[1.0, 2.0, 3.0, 4.0]), [None, Some(2.0), None, Some(4.0)]);
    }

    #[test]
    fn without_a_length_every_sample_since_the_first_counts() {
        // SWA from cycle 3: 5, (5+7)/2, (5+7+12)/3
        let found = trace(WindowSpec::everything_from(3), &[1.0, 2.0, 5.0, 7.0, 12.0]);
        assert_eq!(found, [None, None, Some(5.0), Some(6.0), Some(8.0)]);
    }

    #[test]
    fn a_member_that_does_not_fit_is_an_error_whether_members_leave_or_not() {
        for spec in [spec(5, 1), WindowSpec::everything_from(1)] {
            let mut window = SlideWindow::new(spec);
            window.push(1, outer(1.0));
            let mut other = Weights::new();
            other.insert("u", Tensor::parameter(vec![], vec![1.0]).unwrap()).unwrap();
            window.push(2, OuterWeights::from_checkpoint(other));
            let missing = WeightsError::Missing { name: "w".to_owned() };
            assert_eq!(window.mean().unwrap_err(), missing);
            window.push(3, outer(1.0));
            assert!(window.mean().is_err());
        }
    }

    proptest! {
        #[test]
        fn a_window_that_only_grows_has_the_bits_of_the_mean_of_its_members(
            members in prop::collection::vec(prop::num::f32::ANY, 1..20),
            halves in prop::collection::vec(prop::num::u16::ANY, 20),
        ) {
            let weights = |number: usize| {
                let mut weights = Weights::new();
                let half = Values::F16(vec![half::f16::from_bits(halves[number]), half::f16::ONE]);
                let half = Tensor::new(Role::Parameter, vec![2], half).unwrap();
                weights.insert("h", half).unwrap();
                let single = Tensor::parameter(vec![1], vec![members[number]]).unwrap();
                weights.insert("w", single).unwrap();
                let statistic = Values::F32(vec![members[number]]);
                let statistic = Tensor::new(Role::Statistic, vec![1], statistic).unwrap();
                weights.insert("running_mean", statistic).unwrap();
                OuterWeights::from_checkpoint(weights)
            };
            let bits = |mean: &Weights| -> Vec<u64> {
                assert_parameters_alone(mean);
                let values = mean.iter().flat_map(|(_, tensor)| tensor.values().to_f64());
                // One NaN is as good as another.
                values.map(|x| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }).collect()
            };
            let mut window = SlideWindow::new(WindowSpec::everything_from(1));
            let mut all = Vec::new();
            for number in 0..members.len() {
                window.push(number + 1, weights(number));
                all.push(weights(number));
                let found = window.mean().unwrap().unwrap();
                let expected = HwaWeights::average(&all.iter().collect::<Vec<_>>()).unwrap();
                prop_assert_eq!(bits(&found), bits(&expected));
            }
        }

        #[test]
        fn members_are_the_multiples_of_the_stride_in_the_window(
            length in 1usize..12, stride in 1usize..5, cycles in 1usize..40
        ) {
            let mut window = SlideWindow::new(spec(length, stride));
            for cycle in 1..=cycles {
                window.push(cycle, outer(cycle as f32));
                let low = (cycle + 1).saturating_sub(length).max(1);
                let expected: Vec<usize> = (low..=cycle).filter(|c| c % stride == 0).collect();
                prop_assert_eq!(window.cycles().collect::<Vec<_>>(), expected);
            }
        }
    }
}
