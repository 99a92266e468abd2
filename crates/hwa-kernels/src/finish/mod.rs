//! What happens to a kernel's results while they are still in the cache.
//!
//! Forward, the statistics of a batch are gathered. Backward, the gradient that flows
//! around a block is added, the activation's gate is applied, and the sums are
//! gathered that the batch norm before it needs.
//!
//! Sums run in `f32` over a hundred pixels and in `f64` from there, about a
//! value near the mean: a large mean costs no digits.

mod block;
mod ending;
mod finisher;

use crate::read::Activation;
pub(crate) use ending::{Ending, Gathered, Made, Makes, Plain};
pub(crate) use finisher::{Finisher, Place};

/// What to do with results, in this order.
#[derive(Debug, Clone, Copy)]
pub struct Finish<'a> {
    /// Is added.
    pub skip: Option<&'a [f32]>,
    /// Zeroes what an activation did not let through.
    pub gate: Gate<'a>,
    /// Are gathered.
    pub sums: Sums<'a>,
}

/// Where an activation let values through.
#[derive(Debug, Clone, Copy)]
pub enum Gate<'a> {
    /// Everywhere.
    Open,
    /// Where this, what the activation gave, is within its bounds.
    Output(&'a [f32], Activation),
    /// Where `scale * x + shift`, what the activation was given, is within its bounds.
    Input {
        /// The stored tensor.
        x: &'a [f32],
        /// Scale, then shift, of each padded channel.
        coefficients: &'a [f32],
        /// The activation.
        activation: Activation,
    },
}

/// What is summed over the pixels of each channel.
#[derive(Debug, Clone, Copy)]
pub enum Sums<'a> {
    /// Nothing.
    None,
    /// The results and their squares, about a value near the mean.
    Moments,
    /// The results, and their products with `x - mean`.
    Products {
        /// A tensor of the same shape.
        x: &'a [f32],
        /// Of each padded channel.
        mean: &'a [f32],
    },
}

impl Finish<'_> {
    /// Nothing at all.
    pub const NOTHING: Self = Self { skip: None, gate: Gate::Open, sums: Sums::None };

    /// Gathers moments.
    pub const MOMENTS: Self = Self { skip: None, gate: Gate::Open, sums: Sums::Moments };
}

/// Sums over some of the pixels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// The pixels.
    pub count: usize,
    /// Per padded channel: what the moments are about; of products, nothing.
    about: Vec<f32>,
    /// Per padded channel: of the results, less `about`.
    first: Vec<f64>,
    /// Per padded channel: of the squares, or the products.
    second: Vec<f64>,
}

impl Totals {
    /// The mean and the variance, divided by the number of pixels, of each padded channel.
    pub fn moments(parts: &[Self]) -> (Vec<f64>, Vec<f64>) {
        let width = parts.iter().map(|part| part.first.len()).max().unwrap_or(0);
        let (mut mean, mut squares) = (vec![0.0_f64; width], vec![0.0; width]);
        let mut count = 0.0;
        for part in parts.iter().filter(|part| part.count > 0) {
            let n = part.count as f64;
            for c in 0..width {
                let excess = part.first[c] / n;
                let part_mean = f64::from(part.about[c]) + excess;
                if !(mean[c].is_finite() && part_mean.is_finite()) {
                    // Infinity and infinity are one, and their distance is not a number.
                    mean[c] = (mean[c] * count + part_mean * n) / (count + n);
                    squares[c] = f64::NAN;
                    continue;
                }
                // A sum of squares cannot be negative but for rounding; a NaN stays one.
                let part_squares = part.second[c] - excess * part.first[c];
                let part_squares = if part_squares < 0.0 { 0.0 } else { part_squares };
                let apart = part_mean - mean[c];
                mean[c] += apart * n / (count + n);
                squares[c] += part_squares + apart * apart * count * n / (count + n);
            }
            count += n;
        }
        squares.iter_mut().for_each(|s| *s /= f64::max(count, 1.0));
        (mean, squares)
    }

    /// The sums of the results and of the products of each padded channel.
    pub fn products(parts: &[Self]) -> (Vec<f64>, Vec<f64>) {
        let width = parts.iter().map(|part| part.first.len()).max().unwrap_or(0);
        let total = |of: fn(&Self) -> &Vec<f64>| {
            let mut total = vec![0.0; width];
            for part in parts.iter().filter(|part| part.count > 0) {
                total.iter_mut().zip(of(part)).for_each(|(t, p)| *t += p);
            }
            total
        };
        (total(|part| &part.first), total(|part| &part.second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Level;

    fn moments_of(parts: &[[f32; 3]]) -> (f64, f64) {
        let totals = |pixels: &[f32; 3]| {
            let mut results: Vec<f32> = pixels.iter().flat_map(|x| [*x; 16]).collect();
            let mut finisher = Finisher::new(Level::best(), Finish::MOMENTS, 16);
            finisher.run(0, &mut results);
            finisher.totals()
        };
        let (mean, variance) = Totals::moments(&parts.iter().map(totals).collect::<Vec<_>>());
        (mean[0], variance[0])
    }

    #[test]
    fn moments_are_those_of_all_parts() {
        assert_eq!(moments_of(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), (3.5, 35.0 / 12.0));
    }

    #[test]
    fn the_mean_of_infinity_is_infinite_wherever_it_stands() {
        let (finite, first) = ([1.0, 2.0, 3.0], [f32::INFINITY, 1.0, 2.0]);
        for parts in [[first, finite], [finite, first], [finite, [1.0, f32::INFINITY, 2.0]]] {
            let (mean, variance) = moments_of(&parts);
            assert_eq!(mean, f64::INFINITY);
            assert!(variance.is_nan());
        }
        let (mean, _) = moments_of(&[finite, [f32::NAN, 0.0, 0.0], first]);
        assert!(mean.is_nan());
    }
}
