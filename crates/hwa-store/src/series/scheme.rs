//! How members become one: the mean, a weighted mean, a moving average.

use hwa_core::ValueType;

use super::arithmetic::{self, Share};
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
        if let Self::Mean = self {
            return match before {
                0 => arithmetic::begin(value_type, sums, pieces),
                _ => arithmetic::add(value_type, sums, pieces),
            };
        }
        for (number, piece) in (before..).zip(pieces) {
            let share = self.share(number);
            match number {
                0 => {
                    arithmetic::begin(value_type, sums, &[*piece]);
                    sums.iter_mut().for_each(|sum| *sum *= share.take);
                }
                _ => arithmetic::blend(value_type, sums, piece, share),
            }
        }
    }

    /// How a member enters what was before it.
    fn share(&self, member: usize) -> Share {
        match self {
            Self::Weighted(weights) => Share { keep: 1.0, take: weights[member] },
            Self::Moving { decay } if member > 0 => Share { keep: *decay, take: 1.0 - decay },
            Self::Moving { .. } | Self::Mean => Share { keep: 1.0, take: 1.0 },
        }
    }
}
