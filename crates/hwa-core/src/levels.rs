//! The three levels of the hierarchy, as types.
//!
//! Inner weights are what an optimizer moves, outer weights are their mean over
//! the models, HWA weights the mean of outer weights over a window. Each is a
//! type of its own, so that inner weights cannot enter a window and training
//! cannot go on from an average that it must not see.

use std::ops::Deref;
use std::sync::Arc;

use crate::mean::{Statistics, mean};
use crate::weights::{Weights, WeightsError};

/// W^k: the weights of one model, as its optimizer left them.
#[derive(Debug, Clone)]
pub struct InnerWeights(Weights);

impl InnerWeights {
    /// Marks the parameters of a model as inner weights.
    pub fn new(weights: Weights) -> Self {
        Self(weights)
    }
}

/// W̄: the mean over the models at the end of a cycle. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OuterWeights(Arc<Weights>);

impl OuterWeights {
    /// The mean of the models' inner weights, in the order of the models.
    pub fn average(models: &[&InnerWeights]) -> Result<Self, WeightsError> {
        let members: Vec<&Weights> = models.iter().map(|m| &m.0).collect();
        Ok(Self(Arc::new(mean(&members, Statistics::Omit)?)))
    }

    /// Outer weights read back from a checkpoint.
    pub fn from_checkpoint(weights: Weights) -> Self {
        Self(Arc::new(weights))
    }
}

/// W̿: the mean of outer weights over a window. Their batch-norm statistics have
/// to be re-estimated before they are used.
#[derive(Debug, Clone)]
pub struct HwaWeights(Arc<Weights>);

impl HwaWeights {
    /// The mean of outer weights, oldest first.
    pub fn average(members: &[&OuterWeights]) -> Result<Self, WeightsError> {
        let members: Vec<&Weights> = members.iter().map(|m| m.0.as_ref()).collect();
        Ok(Self(Arc::new(mean(&members, Statistics::Omit)?)))
    }

    /// What is the mean of outer weights already.
    pub(crate) fn of_mean(mean: Weights) -> Self {
        Self(Arc::new(mean))
    }
}

macro_rules! deref_to_weights {
    ($($level:ty),*) => {$(
        impl Deref for $level {
            type Target = Weights;

            fn deref(&self) -> &Weights {
                &self.0
            }
        }
    )*};
}

deref_to_weights!(InnerWeights, OuterWeights, HwaWeights);
