//! How members become one: the mean, a weighted mean, a moving average.

use hwa_core::ValueType;

use super::arithmetic::{self, GROUP, Share};
use super::error::SeriesError;

/// How members are averaged, oldest first. All of it is computed in `f64` and rounded once.
#[derive(Debug, Clone, PartialEq)]
pub enum Scheme {
    /// The mean, bit for bit that of [`hwa_core::mean()`].
    Mean,
    /// The sum of the members times their weights, divided by the sum of the weights.
    Weighted(Vec<f64>),
    /// `decay` times what was before plus `1 - decay` times each next member, from the first on.
    Moving {
        /// How much is kept, from 0 to below 1.
        decay: f64,
    },
}

impl Scheme {
    /// Checks that so many members can be averaged by it.
    pub(crate) fn check(&self, members: usize) -> Result<(), SeriesError> {
        match self {
            Self::Mean => Ok(()),
            Self::Moving { decay } if (0.0..1.0).contains(decay) => Ok(()),
            Self::Moving { decay } => Err(SeriesError::BadDecay { found: *decay }),
            Self::Weighted(weights) if weights.len() != members => {
                let (expected, found) = (members, weights.len());
                Err(SeriesError::WeightCount { expected, found })
            }
            Self::Weighted(weights) => {
                let sum: f64 = weights.iter().sum();
                match weights.iter().all(|w| w.is_finite()) && sum.is_finite() && sum > 0.0 {
                    true => Ok(()),
                    false => Err(SeriesError::BadWeights { found: weights.clone() }),
                }
            }
        }
    }

    /// What the sums of so many members are divided by.
    pub(crate) fn divisor(&self, members: usize) -> f64 {
        match self {
            Self::Mean => members as f64,
            Self::Weighted(weights) => weights.iter().sum(),
            Self::Moving { .. } => 1.0,
        }
    }

    /// Takes pieces of members into the sums, of which `before` are in them.
    pub(crate) fn take(
        &self,
        value_type: ValueType,
        sums: &mut [f64],
        pieces: &[&[u8]],
        before: usize,
    ) {
        let (first, rest) = match (before, pieces.split_first()) {
            (0, Some((first, rest))) => (Some(*first), rest),
            _ => (None, pieces),
        };
        if let Some(first) = first {
            arithmetic::begin(value_type, sums, first);
            if let Self::Weighted(weights) = self {
                sums.iter_mut().for_each(|sum| *sum *= weights[0]);
            }
        }
        let before = before + usize::from(first.is_some());
        match self {
            Self::Mean => arithmetic::add(value_type, sums, rest),
            Self::Weighted(weights) => {
                for (piece, weight) in rest.iter().zip(&weights[before..]) {
                    let share = Share { keep: 1.0, take: *weight };
                    arithmetic::blend(value_type, sums, piece, share);
                }
            }
            Self::Moving { decay } => {
                let share = Share { keep: *decay, take: 1.0 - decay };
                for piece in rest {
                    arithmetic::blend(value_type, sums, piece, share);
                }
            }
        }
    }

    /// Members that are read before they are taken: one starts the sums, and then groups.
    pub(crate) fn group(before: usize) -> usize {
        if before == 0 { GROUP + 1 } else { GROUP }
    }
}
