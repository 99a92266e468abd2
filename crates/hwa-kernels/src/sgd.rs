//! The step of stochastic gradient descent with momentum and weight decay, in one pass.
//!
//! In the order of PyTorch's `SGD`, without dampening and Nesterov's variant:
//!
//! ```text
//! g = gradient + decay * w      grad.add(param, alpha=weight_decay)
//! m = momentum * m + g          buf.mul_(momentum).add_(grad)
//! w = w - rate * m              param.add_(buf, alpha=-lr)
//! ```
//!
//! There an addition with `alpha` is one fused operation, and the momentum is rounded
//! before the gradient is added; so it is here, on CPUs that can fuse.

use crate::parallel;
use crate::simd::{GROUP, Kernel, Level, Simd};
use crate::span::{Span, SpanMut};

/// Numbers that are worth a part of their own.
const PART: usize = 16 * 1024;

/// The numbers of a step.
#[derive(Debug, Clone, Copy)]
pub struct Sgd {
    /// The vectors to use.
    pub level: Level,
    /// How far to go.
    pub rate: f32,
    /// How much of the last step's direction is kept.
    pub momentum: f32,
    /// How much of the weights is added to their gradient.
    pub decay: f32,
}

/// Weights and what belongs to them, all of the same length.
struct Share<'a> {
    weights: &'a mut [f32],
    momenta: &'a mut [f32],
    gradients: &'a [f32],
}

impl Sgd {
    /// Moves weights and their momenta in place. The momenta of the first step are zero.
    ///
    /// # Panics
    ///
    /// If the slices differ in length.
    pub fn step(&self, weights: &mut [f32], momenta: &mut [f32], gradients: &[f32]) {
        assert_eq!((momenta.len(), gradients.len()), (weights.len(), weights.len()));
        // Whole groups, so that no part but the last has numbers left over.
        let groups = weights.len() / GROUP;
        let mut lens: Vec<usize> = parallel::ranges(groups, weights.len() / PART)
            .into_iter()
            .map(|part| part.len() * GROUP)
            .collect();
        lens.push(weights.len() % GROUP);
        let mut rest = gradients;
        let mut shares = Vec::new();
        let pieces = parallel::split(weights, lens.iter().copied());
        for (weights, momenta) in pieces.into_iter().zip(parallel::split(momenta, lens)) {
            let (gradients, after) = rest.split_at(weights.len());
            rest = after;
            shares.push(Share { weights, momenta, gradients });
        }
        parallel::map(shares, |share| self.share(share));
    }

    fn share(&self, share: Share<'_>) {
        let len = share.weights.len();
        if len.is_multiple_of(GROUP) {
            return self.run(share);
        }
        // Less than a group: with zeros after it, it runs through the same instructions.
        let (mut weights, mut momenta, mut gradients) = ([0.0; GROUP], [0.0; GROUP], [0.0; GROUP]);
        weights[..len].copy_from_slice(share.weights);
        momenta[..len].copy_from_slice(share.momenta);
        gradients[..len].copy_from_slice(share.gradients);
        self.run(Share { weights: &mut weights, momenta: &mut momenta, gradients: &gradients });
        share.weights.copy_from_slice(&weights[..len]);
        share.momenta.copy_from_slice(&momenta[..len]);
    }

    fn run(&self, share: Share<'_>) {
        self.level.run(Step {
            sgd: *self,
            len: share.weights.len(),
            weights: SpanMut::new(share.weights),
            momenta: SpanMut::new(share.momenta),
            gradients: Span::new(share.gradients),
        });
    }
}

/// The step of `len` weights, in whole groups.
struct Step<'a> {
    sgd: Sgd,
    len: usize,
    weights: SpanMut<'a>,
    momenta: SpanMut<'a>,
    gradients: Span<'a>,
}

impl Kernel for Step<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Sgd { rate, momentum, decay, .. } = self.sgd;
        let (back, momentum, decay) = (S::splat(-rate), S::splat(momentum), S::splat(decay));
        for i in (0..self.len).step_by(S::LANES) {
            // SAFETY: the spans hold `len` numbers.
            unsafe {
                let weight: S = self.weights.read().vector(i);
                let gradient = weight.mul_add(decay, self.gradients.vector(i));
                let moved = self.momenta.read().vector::<S>(i).mul(momentum).add(gradient);
                self.momenta.put(i, moved);
                self.weights.put(i, moved.mul_add(back, weight));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expected::assert_threads_change_nothing;
    use crate::reference::{noise, to_f64};
    use proptest::prelude::*;

    #[test]
    fn two_steps_follow_the_hand_computed_trace() {
        // w = 1, gradient 1/2 each time, rate 1/4, momentum 1/2, decay 1/4:
        // g = 1/2 + 1/4 * 1 = 3/4,     m = 3/4,                w = 1 - 1/4 * 3/4 = 13/16
        // g = 1/2 + 13/64 = 45/64,     m = 3/8 + 45/64 = 69/64,  w = 13/16 - 69/256 = 139/256
        for level in Level::available() {
            let sgd = Sgd { level, rate: 0.25, momentum: 0.5, decay: 0.25 };
            let (mut w, mut m) = ([1.0], [0.0]);
            sgd.step(&mut w, &mut m, &[0.5]);
            assert_eq!((w, m), ([13.0 / 16.0], [3.0 / 4.0]), "{level}");
            sgd.step(&mut w, &mut m, &[0.5]);
            assert_eq!((w, m), ([139.0 / 256.0], [69.0 / 64.0]), "{level}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_step_is_that_of_the_formula(
            len in prop_oneof![0..200usize, 30_000..70_000usize],
            (rate, momentum, decay) in (0.0..1f32, 0.0..1f32, 0.0..0.1f32),
        ) {
            let (w, m, g) = (noise(len, 1), noise(len, 2), noise(len, 3));
            let (w64, m64, g64) = (to_f64(&w), to_f64(&m), to_f64(&g));
            let [by_rate, by_momentum, by_decay] = [rate, momentum, decay].map(f64::from);
            let moved: Vec<f64> = (0..len)
                .map(|i| by_momentum * m64[i] + (g64[i] + by_decay * w64[i]))
                .collect();
            let stepped: Vec<f64> = (0..len).map(|i| w64[i] - by_rate * moved[i]).collect();
            for level in Level::available() {
                let (mut w, mut m) = (w.clone(), m.clone());
                Sgd { level, rate, momentum, decay }.step(&mut w, &mut m, &g);
                // A few roundings of numbers up to four.
                let close = |found: &[f32], expected: &[f64]| {
                    found.iter().zip(expected).all(|(f, e)| (f64::from(*f) - e).abs() < 1e-6)
                };
                prop_assert!(close(&m, &moved) && close(&w, &stepped), "{}", level);
            }
        }

        #[test]
        fn where_a_weight_lies_changes_no_bit(len in 1..100usize) {
            for level in Level::available() {
                let sgd = Sgd { level, rate: 0.1, momentum: 0.9, decay: 5e-4 };
                let g = noise(len, 3);
                let (mut w, mut m) = (noise(len, 1), noise(len, 2));
                let (mut last, mut last_m) = ([w[len - 1]], [m[len - 1]]);
                sgd.step(&mut w, &mut m, &g);
                sgd.step(&mut last, &mut last_m, &g[len - 1..]);
                prop_assert_eq!((last[0], last_m[0]), (w[len - 1], m[len - 1]), "{}", level);
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let sgd = Sgd { level: Level::best(), rate: 0.1, momentum: 0.9, decay: 5e-4 };
        let g = noise(100_003, 3);
        assert_threads_change_nothing(|| {
            let (mut w, mut m) = (noise(g.len(), 1), noise(g.len(), 2));
            sgd.step(&mut w, &mut m, &g);
            (w, m)
        });
    }
}
