//! Prefix sums over a series of weights: the mean of any stretch of it by one subtraction.
//!
//! They rank windows and produce no result: a difference of sums is rounded otherwise than the
//! sum that [`mean()`](crate::mean()) defines.

use std::ops::Range;

use crate::weights::{Role, Tensor, Values, Weights, WeightsError};

/// The sums of the first weights of a series, in `f64`. Statistics and counters are left out.
///
/// ```
/// use hwa_core::{PrefixSums, Tensor, Weights, WeightsError};
///
/// let mut sums = PrefixSums::default();
/// for x in [1.0, 3.0, 7.0] {
///     let mut weights = Weights::new();
///     weights.insert("w", Tensor::parameter(vec![1], vec![x])?)?;
///     sums.push(&weights)?;
/// }
/// let mean = sums.mean(1..3)?.ok_or(WeightsError::Empty)?;
/// assert_eq!(mean.require("w")?.as_f32(), Some(&[5.0][..])); // (3 + 7) / 2
/// # Ok::<_, WeightsError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct PrefixSums {
    /// The first weights: names, shapes and types.
    layout: Option<Weights>,
    /// Element by element, tensors in the order of their names.
    sums: Vec<Vec<f64>>,
}

impl PrefixSums {
    /// The bytes that the sums of so many weights with so many parameters take.
    pub fn num_bytes(count: usize, parameters: usize) -> usize {
        count.saturating_mul(parameters).saturating_mul(size_of::<f64>())
    }

    /// How many weights were added.
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Whether none were.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Adds the next weights.
    pub fn push(&mut self, weights: &Weights) -> Result<(), WeightsError> {
        let weights = weights.only(Role::Parameter);
        let layout = self.layout.get_or_insert_with(|| weights.clone());
        layout.ensure_same_layout(&weights)?;
        let mut sums: Vec<f64> = Vec::with_capacity(weights.num_elements());
        for (_, tensor) in weights.iter() {
            sums.extend(tensor.values().to_f64());
        }
        if let Some(before) = self.sums.last() {
            sums.iter_mut().zip(before).for_each(|(sum, before)| *sum += before);
        }
        self.sums.push(sums);
        Ok(())
    }

    /// The mean of a stretch, but for the last bits; none if it is empty or not all there.
    pub fn mean(&self, stretch: Range<usize>) -> Result<Option<Weights>, WeightsError> {
        let newest = stretch.end.checked_sub(1).and_then(|newest| self.sums.get(newest));
        let (Some(layout), Some(newest)) = (&self.layout, newest) else { return Ok(None) };
        if stretch.is_empty() {
            return Ok(None);
        }
        let before = stretch.start.checked_sub(1).map(|before| &self.sums[before]);
        let count = stretch.len() as f64;
        let value = |at: usize| (newest[at] - before.map_or(0.0, |before| before[at])) / count;
        let (mut mean, mut start) = (Weights::new(), 0);
        for (name, tensor) in layout.iter() {
            let end = start + tensor.values().len();
            let wide = (start..end).map(value).collect();
            let values = Values::rounded(tensor.values().value_type(), wide);
            mean.insert(name, Tensor::new(tensor.role(), tensor.shape().to_vec(), values)?)?;
            start = end;
        }
        Ok(Some(mean))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mean::{Statistics, mean};

    fn weights(values: &[f32]) -> Weights {
        let mut weights = Weights::new();
        for (name, values) in [("b", &values[..1]), ("a", &values[1..])] {
            let tensor = Tensor::parameter(vec![values.len()], values.to_vec()).unwrap();
            weights.insert(name, tensor).unwrap();
        }
        let count = Tensor::new(Role::Counter, vec![1], Values::I64(vec![7])).unwrap();
        weights.insert("count", count).unwrap();
        weights
    }

    #[test]
    fn stretches_that_are_not_there_have_no_mean() {
        let mut sums = PrefixSums::default();
        assert!(sums.is_empty() && sums.mean(0..1).unwrap().is_none());
        sums.push(&weights(&[1.0, 2.0])).unwrap();
        assert_eq!(sums.len(), 1);
        assert!(sums.mean(0..2).unwrap().is_none());
        assert!(sums.mean(0..0).unwrap().is_none());
        assert_eq!(sums.mean(0..1).unwrap().unwrap(), weights(&[1.0, 2.0]).only(Role::Parameter));
        assert!(sums.push(&weights(&[1.0, 2.0, 3.0])).is_err());
    }

    proptest! {
        #[test]
        fn they_differ_from_the_mean_by_no_more_than_rounding(
            members in prop::collection::vec(prop::collection::vec(-4.0f32..4.0, 3), 1..30),
            ends in (0usize..30, 0usize..30)
        ) {
            let all: Vec<Weights> = members.iter().map(|values| weights(values)).collect();
            let mut sums = PrefixSums::default();
            all.iter().for_each(|weights| sums.push(weights).unwrap());
            let (first, last) = (ends.0.min(ends.1) % all.len(), ends.0.max(ends.1) % all.len());
            prop_assume!(first <= last);
            let found = sums.mean(first..last + 1).unwrap().unwrap();
            let exact: Vec<&Weights> = all[first..=last].iter().collect();
            let exact = mean(&exact, Statistics::Omit).unwrap().only(Role::Parameter);
            for ((_, found), (_, exact)) in found.iter().zip(exact.iter()) {
                for (found, exact) in found.values().to_f64().iter().zip(exact.values().to_f64()) {
                    prop_assert!((found - exact).abs() <= 4.0 * f64::from(f32::EPSILON));
                }
            }
        }
    }
}
