//! Batch-norm statistics, pooled over batches, with a measured error.
//!
//! Re-estimation walks over training batches and pools each channel's mean and
//! variance, weighted by size and with the variance between batch means included
//! (Chan, Golub and LeVeque's update). It can stop when the standard error,
//! measured from how much the batches disagree, is small enough.

/// Per-channel mean and variance of one batch-norm layer's input.
#[derive(Debug, Clone)]
pub struct Moments {
    batches: u64,
    count: f64,
    mean: Vec<f64>,
    /// Sum of squared deviations from the mean.
    squares: Vec<f64>,
    // How the batches differ: size-weighted sums of each batch's own mean and second
    // moment, taken about the first batch's mean so that large means cancel early.
    origin: Vec<f64>,
    spread: Vec<BatchSpread>,
    weight_squares: f64,
}

/// Size-weighted sums, over batches, of one channel's batch mean `m` and second
/// moment `q` about the origin, and of their squares.
#[derive(Debug, Clone, Copy, Default)]
struct BatchSpread {
    m: f64,
    mm: f64,
    q: f64,
    qq: f64,
}

impl Moments {
    /// No batch seen.
    pub fn new(channels: usize) -> Self {
        Self {
            batches: 0,
            count: 0.0,
            mean: vec![0.0; channels],
            squares: vec![0.0; channels],
            origin: vec![0.0; channels],
            spread: vec![BatchSpread::default(); channels],
            weight_squares: 0.0,
        }
    }

    /// Adds a batch: `count` values per channel with this mean and this biased
    /// (divided by `count`) variance.
    pub fn add(&mut self, count: u64, mean: &[f64], variance: &[f64]) -> Result<(), MomentsError> {
        for found in [mean.len(), variance.len()] {
            if found != self.mean.len() {
                return Err(MomentsError::Channels { expected: self.mean.len(), found });
            }
        }
        if count == 0 {
            return Err(MomentsError::EmptyBatch);
        }
        if self.batches == 0 {
            self.origin.copy_from_slice(mean);
        }
        let n = count as f64;
        let total = self.count + n;
        for c in 0..self.mean.len() {
            let delta = mean[c] - self.mean[c];
            self.mean[c] += delta * n / total;
            self.squares[c] += variance[c] * n + delta * delta * self.count * n / total;
            let m = mean[c] - self.origin[c];
            let q = variance[c] + m * m;
            let spread = &mut self.spread[c];
            spread.m += n * m;
            spread.mm += n * m * m;
            spread.q += n * q;
            spread.qq += n * q * q;
        }
        self.count = total;
        self.weight_squares += n * n;
        self.batches += 1;
        Ok(())
    }

    /// Batches seen.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// The pooled mean of each channel.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The pooled unbiased variance of each channel, as PyTorch keeps it.
    pub fn unbiased_variance(&self) -> Vec<f64> {
        let freedom = if self.count > 1.0 { self.count - 1.0 } else { 1.0 };
        self.squares.iter().map(|s| s / freedom).collect()
    }

    /// The relative standard error of the normalisation: the larger of the
    /// error of the mean in units of the standard deviation and the relative
    /// error of the standard deviation, as root mean square over the channels
    /// that vary. Unknown (`None`) before two batches.
    pub fn relative_error(&self) -> Option<f64> {
        if self.batches < 2 {
            return None;
        }
        // The variance of a weighted mean of the batches is their weighted variance
        // times sum(w^2) / (1 - sum(w^2)), with weights that add up to one.
        let concentration = self.weight_squares / (self.count * self.count);
        let scale = concentration / (1.0 - concentration);
        let (mut of_means, mut of_deviations, mut channels) = (0.0, 0.0, 0usize);
        for (c, s) in self.spread.iter().enumerate() {
            let variance = self.squares[c] / self.count;
            if variance <= 0.0 {
                continue;
            }
            channels += 1;
            let between = |sum: f64, squares: f64| {
                let mean = sum / self.count;
                (squares / self.count - mean * mean).max(0.0)
            };
            of_means += scale * between(s.m, s.mm) / variance;
            // d(sd)/sd = d(var) / (2 var)
            of_deviations += scale * between(s.q, s.qq) / (4.0 * variance * variance);
        }
        Some((of_means.max(of_deviations) / channels.max(1) as f64).sqrt())
    }
}

/// Why a batch could not be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MomentsError {
    /// The batch has another number of channels.
    #[error("the batch has {found} channels, expected {expected}")]
    Channels {
        /// The layer's channels.
        expected: usize,
        /// The batch's.
        found: usize,
    },
    /// The batch has no values.
    #[error("the batch is empty")]
    EmptyBatch,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seed::{Purpose, Random};

    fn of(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        (mean, squares / values.len() as f64)
    }

    #[test]
    fn batches_count_by_their_size_and_the_spread_of_means_is_kept() {
        // {0, 2} and {10}: mean 4, squared deviations 16 + 4 + 36 = 56, unbiased 56 / 2 = 28.
        // Averaging the batches equally would say mean 5.5, variance 0.5.
        let mut moments = Moments::new(1);
        moments.add(2, &[1.0], &[1.0]).unwrap();
        moments.add(1, &[10.0], &[0.0]).unwrap();
        assert_eq!(moments.mean(), [4.0]);
        assert_eq!(moments.unbiased_variance(), [28.0]);
    }

    #[test]
    fn the_stated_error_is_the_error_that_happens() {
        // 400 repetitions of 20 batches of 32 normal draws: mean 3, sd 2. The error of the mean
        // in units of sd is 1/sqrt(640) = 0.0395; that of the sd 1/sqrt(1280) = 0.028.
        let mut random = Random::new(1, 0, Purpose::Split, [0, 0]);
        let (mut stated, mut happened) = (0.0, 0.0);
        for _ in 0..400 {
            let mut moments = Moments::new(1);
            for _ in 0..20 {
                let batch: Vec<f64> = (0..32).map(|_| 3.0 + 2.0 * random.normal()).collect();
                let (mean, variance) = of(&batch);
                moments.add(32, &[mean], &[variance]).unwrap();
            }
            stated += moments.relative_error().unwrap().powi(2);
            happened += ((moments.mean()[0] - 3.0) / 2.0).powi(2);
        }
        let (stated, happened) = ((stated / 400.0f64).sqrt(), (happened / 400.0f64).sqrt());
        assert!((happened - 0.0395).abs() < 0.005, "{happened}");
        assert!((stated / happened - 1.0).abs() < 0.15, "{stated} against {happened}");
    }

    #[test]
    fn one_batch_has_no_known_error_and_constant_channels_have_none() {
        let mut moments = Moments::new(1);
        assert_eq!(moments.relative_error(), None);
        moments.add(4, &[1.0], &[0.0]).unwrap();
        assert_eq!(moments.relative_error(), None);
        moments.add(4, &[1.0], &[0.0]).unwrap();
        assert_eq!(moments.relative_error(), Some(0.0));
    }

    #[test]
    fn constant_channels_do_not_flatter_the_error() {
        let error = |channels: usize| {
            let mut moments = Moments::new(channels);
            for mean in [0.0, 1.0, 0.5] {
                let (mut means, mut variances) = (vec![0.0; channels], vec![0.0; channels]);
                (means[0], variances[0]) = (mean, 1.0);
                moments.add(4, &means, &variances).unwrap();
            }
            moments.relative_error().unwrap()
        };
        assert_eq!(error(1), error(64));
    }

    #[test]
    fn batches_that_do_not_fit_are_refused() {
        let mut moments = Moments::new(2);
        let error = moments.add(1, &[0.0], &[0.0, 0.0]).unwrap_err();
        assert_eq!(error.to_string(), "the batch has 1 channels, expected 2");
        assert_eq!(moments.add(0, &[0.0; 2], &[0.0; 2]), Err(MomentsError::EmptyBatch));
    }

    proptest! {
        #[test]
        fn pooling_equals_a_direct_computation_over_all_values(
            batches in prop::collection::vec(prop::collection::vec(-5.0f64..5.0, 1..20), 1..8),
            offset in -1e6f64..1e6
        ) {
            let batches: Vec<Vec<f64>> =
                batches.iter().map(|b| b.iter().map(|x| x + offset).collect()).collect();
            let mut moments = Moments::new(1);
            for batch in &batches {
                let (mean, variance) = of(batch);
                moments.add(batch.len() as u64, &[mean], &[variance]).unwrap();
            }
            let all: Vec<f64> = batches.concat();
            let (mean, variance) = of(&all);
            let unbiased = variance * all.len() as f64 / (all.len().max(2) - 1) as f64;
            prop_assert!((moments.mean()[0] - mean).abs() < 1e-7);
            prop_assert!((moments.unbiased_variance()[0] - unbiased).abs() < 1e-6);
        }
    }
}
