//! The sum of outer weights that come one after the other and never leave.

use std::collections::BTreeMap;

use crate::levels::{HwaWeights, OuterWeights};
use crate::weights::{Role, Tensor, Values, Weights, WeightsError};

/// Sums in double precision, so twice as large as weights in single precision. Their mean has the
/// bits of that of all members.
#[derive(Debug, Clone)]
pub(crate) struct RunningSum {
    parameters: BTreeMap<String, Vec<f64>>,
    count: usize,
    /// What all members are like.
    latest: OuterWeights,
}

impl RunningSum {
    /// Of one member.
    pub(crate) fn of(first: OuterWeights) -> Self {
        let parameters = first.iter().filter(|(_, tensor)| tensor.role() == Role::Parameter);
        let wide = parameters.map(|(name, tensor)| (name.to_owned(), tensor.values().to_f64()));
        Self { parameters: wide.collect(), count: 1, latest: first }
    }

    /// With another one.
    pub(crate) fn with(mut self, member: OuterWeights) -> Result<Self, WeightsError> {
        self.latest.ensure_same_layout(&member)?;
        for (name, sums) in &mut self.parameters {
            let values = member.require(name)?.values().to_f64();
            sums.iter_mut().zip(values).for_each(|(sum, x)| *sum += x);
        }
        Ok(Self { count: self.count + 1, latest: member, ..self })
    }

    /// The mean.
    pub(crate) fn mean(&self) -> Result<HwaWeights, WeightsError> {
        let count = self.count as f64;
        let mut average = Weights::new();
        for (name, sums) in &self.parameters {
            let tensor = self.latest.require(name)?;
            let wide = sums.iter().map(|sum| sum / count).collect();
            let values = Values::rounded(tensor.values().value_type(), wide);
            average.insert(name, Tensor::new(tensor.role(), tensor.shape().to_vec(), values)?)?;
        }
        Ok(HwaWeights::of_mean(average))
    }
}
