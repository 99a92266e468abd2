//! Random numbers, derived from `(seed, replica, purpose, coordinates)`.
//!
//! Every random choice has an address instead of a place in a shared stream:
//! the flip of image 17 in epoch 3 of model 1 is the same whether it is drawn
//! first or last, in this thread or another, before or after a resume. The
//! address is the key of a ChaCha8 stream, whose output is specified; shuffling
//! is written out here, because libraries reserve the right to change theirs.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng};

/// What a random number is drawn for. The discriminants are part of the stream:
/// existing ones never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Initial weights.
    Init = 1,
    /// The sampling order of an epoch.
    Order = 2,
    /// The augmentation of one image.
    Augment = 3,
    /// The images that re-estimate batch-norm statistics.
    Recalibrate = 4,
    /// Splits and subsets of a data set.
    Split = 5,
    /// What a layer leaves out in one step.
    Dropout = 6,
    /// Filters that come back after they were dropped.
    Revive = 7,
    /// What a method of one's own draws.
    Method = 8,
    /// A direction to look along on the loss surface.
    Direction = 9,
}

/// A stream of random numbers at one address.
#[derive(Debug, Clone)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// The stream for `purpose` in `replica`, at up to two coordinates such as
    /// `[epoch, position]`.
    pub fn new(seed: u64, replica: u32, purpose: Purpose, coordinates: [u64; 2]) -> Self {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..12].copy_from_slice(&replica.to_le_bytes());
        key[12..16].copy_from_slice(&(purpose as u32).to_le_bytes());
        key[16..24].copy_from_slice(&coordinates[0].to_le_bytes());
        key[24..].copy_from_slice(&coordinates[1].to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, without bias; zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Lemire's multiply-and-shift; the rejected zone makes it exact.
        let zone = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let wide = u128::from(self.bits()) * u128::from(bound);
            if wide as u64 >= zone {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A number in `[0, 1)`, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A draw from the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(seed: u64, replica: u32, purpose: Purpose, at: [u64; 2]) -> [u64; 4] {
        let mut random = Random::new(seed, replica, purpose, at);
        std::array::from_fn(|_| random.bits())
    }

    #[test]
    fn every_part_of_the_address_matters() {
        let base = stream(1, 0, Purpose::Order, [0, 0]);
        assert_eq!(base, stream(1, 0, Purpose::Order, [0, 0]));
        for other in [
            stream(2, 0, Purpose::Order, [0, 0]),
            stream(1, 1, Purpose::Order, [0, 0]),
            stream(1, 0, Purpose::Augment, [0, 0]),
            stream(1, 0, Purpose::Order, [1, 0]),
            stream(1, 0, Purpose::Order, [0, 1]),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn the_stream_never_changes_between_versions() {
        // Written down from the first version: a change here changes every user's runs.
        let mut random = Random::new(1, 2, Purpose::Order, [3, 4]);
        let mut order: Vec<u8> = (0..8).collect();
        random.shuffle(&mut order);
        assert_eq!(order, [5, 1, 3, 6, 2, 0, 4, 7]);
        assert_eq!(random.below(1000), 980);
    }

    #[test]
    fn numbers_below_a_bound_are_uniform() {
        let mut random = Random::new(7, 0, Purpose::Split, [0, 0]);
        let mut counts = [0u32; 6];
        for _ in 0..60_000 {
            counts[random.below(6) as usize] += 1;
        }
        // Each count is binomial with mean 10,000 and standard deviation 91.
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 500), "{counts:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn normal_draws_have_mean_zero_and_variance_one() {
        let mut random = Random::new(7, 0, Purpose::Init, [0, 0]);
        let draws: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.04, "{mean} {variance}");
    }
}
