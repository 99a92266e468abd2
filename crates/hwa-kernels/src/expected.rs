//! What every kernel is to read, to finish and to keep, in plain loops.

use crate::finish::{Finish, Gate, Sums, Totals};
use crate::read::{Activation, Source};
use crate::reference::{error, images, per_channel, to_f64};
use crate::shape::Shape;

/// Numbers rounded to sixteenths. Their products and the sums of a few are exact, so that
/// values which happen to cancel leave no large relative error.
pub(crate) fn coarse(mut numbers: Vec<f32>) -> Vec<f32> {
    numbers.iter_mut().for_each(|x| *x = (*x * 16.0).round() / 16.0);
    numbers
}

/// Tensors to make every kind of source from.
#[derive(Debug)]
pub(crate) struct Sources {
    shape: Shape,
    x: Vec<f32>,
    gradient: Vec<f32>,
    coefficients: Vec<f32>,
}

impl Sources {
    pub(crate) fn new(shape: Shape, seed: u64) -> Self {
        Self {
            shape,
            x: coarse(images(shape, seed)),
            gradient: coarse(images(shape, seed + 100)),
            coefficients: coarse(per_channel(shape.channels, 3, seed + 200)),
        }
    }

    /// Stored, normalised, or the gradient of a normalised tensor.
    pub(crate) fn kind(&self, kind: usize) -> Source<'_> {
        let Self { x, gradient, coefficients, .. } = self;
        match kind {
            0 => Source::Stored(x),
            1 => Source::Normalised { x, coefficients, activation: Activation::Relu },
            _ => Source::Gradient { gradient, x, coefficients },
        }
    }

    /// What a source of this kind holds.
    pub(crate) fn values(&self, kind: usize) -> Vec<f64> {
        let (width, x) = (self.shape.stride(), to_f64(&self.x));
        let at = |i: usize, part: usize| f64::from(self.coefficients[part * width + i % width]);
        let value = |i: usize| match kind {
            0 => x[i],
            1 => (x[i] * at(i, 0) + at(i, 1)).max(0.0),
            _ => f64::from(self.gradient[i]) * at(i, 0) + x[i] * at(i, 1) + at(i, 2),
        };
        (0..x.len()).map(value).collect()
    }
}

/// Checks that `run` gives finished results: those it gives with nothing to finish, and
/// a skip, a gate and sums of them.
pub(crate) fn assert_finishes(shape: Shape, run: impl Fn(Finish<'_>) -> (Vec<f32>, Vec<Totals>)) {
    let plain = run(Finish::NOTHING).0;
    let (skip, gate, x) = (images(shape, 91), images(shape, 92), images(shape, 93));
    let mean = per_channel(shape.channels, 1, 94);
    let (found, totals) = run(Finish {
        skip: Some(&skip),
        gate: Gate::Output(&gate, Activation::Relu),
        sums: Sums::Products { x: &x, mean: &mean },
    });
    let expected: Vec<f32> =
        (0..plain.len()).map(|i| if gate[i] <= 0.0 { 0.0 } else { plain[i] + skip[i] }).collect();
    assert_eq!(found, expected);
    let (mut sums, mut products) = (vec![0.0; shape.stride()], vec![0.0; shape.stride()]);
    for (i, value) in to_f64(&expected).into_iter().enumerate() {
        let c = i % shape.stride();
        sums[c] += value;
        products[c] += value * f64::from(x[i] - mean[c]);
    }
    let as_f32 = |x: Vec<f64>| x.into_iter().map(|x| x as f32).collect::<Vec<_>>();
    let (found_sums, found_products) = Totals::products(&totals);
    assert!(error(&as_f32(found_sums), &sums) < 1e-5);
    assert!(error(&as_f32(found_products), &products) < 1e-5);
    assert_eq!(totals.iter().map(|part| part.count).sum::<usize>(), shape.pixels());
}

/// Checks that `run` gives the same on one thread and on three.
pub(crate) fn assert_threads_change_nothing<R: PartialEq + Send>(run: impl Fn() -> R + Sync) {
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(&run)
    };
    assert!(on(1) == on(3));
}
