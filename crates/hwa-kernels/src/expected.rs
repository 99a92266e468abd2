//! What every kernel is to read, to finish and to keep, in plain loops.

use std::ops::Deref;

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
            coefficients: coarse(per_channel(shape.channels, 4, seed + 200)),
        }
    }

    /// Stored, normalised, or the gradient of a normalised tensor.
    pub(crate) fn kind(&self, kind: usize) -> Source<'_> {
        let Self { x, gradient, coefficients, .. } = self;
        match kind {
            0 => Source::Stored(x),
            1 => {
                let coefficients = &coefficients[..2 * self.shape.stride()];
                Source::Normalised { x, coefficients, activation: Activation::Relu }
            }
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
            _ => f64::from(self.gradient[i]) * at(i, 0) + (x[i] - at(i, 3)) * at(i, 1) + at(i, 2),
        };
        (0..x.len()).map(value).collect()
    }
}

/// Checks that `run` gives finished results: those it gives with nothing to finish, and
/// skips, gates and sums of them.
pub(crate) fn assert_finishes<Y: Deref<Target = [f32]>>(
    shape: Shape,
    run: impl Fn(Finish<'_>) -> (Y, Vec<Totals>),
) {
    let plain = run(Finish::NOTHING).0;
    let (skip, gate, x) = (images(shape, 91), images(shape, 92), images(shape, 93));
    let mean = per_channel(shape.channels, 1, 94);
    let sums = Sums::Products { x: &x, mean: &mean };
    let relu = Activation::Relu;
    let found = run(Finish { skip: Some(&skip), gate: Gate::Output(&gate, relu), sums });
    let expected = |i: usize| if gate[i] <= 0.0 { 0.0 } else { plain[i] + skip[i] };
    assert_products((shape, &x, &mean), (0..plain.len()).map(expected).collect(), found);

    let coefficients = per_channel(shape.channels, 2, 95);
    let found = run(Finish {
        skip: None,
        gate: Gate::Input { x: &x, coefficients: &coefficients, activation: relu },
        sums,
    });
    let width = shape.stride();
    // The sign of a value that rounds once here and twice on some CPUs is the same but at zero.
    let open =
        |i: usize| x[i].mul_add(coefficients[i % width], coefficients[width + i % width]) > 0.0;
    let expected = |i: usize| if open(i) { plain[i] } else { 0.0 };
    assert_products((shape, &x, &mean), (0..plain.len()).map(expected).collect(), found);

    let (found, totals) = run(Finish::MOMENTS);
    assert_eq!(found[..], plain[..]);
    assert_moments(shape, &plain, &totals);
}

fn assert_moments(shape: Shape, plain: &[f32], totals: &[Totals]) {
    let (width, n) = (shape.stride(), shape.pixels() as f64);
    let (mut mean, mut variance) = (vec![0.0; width], vec![0.0; width]);
    let values = to_f64(plain);
    for (i, value) in values.iter().enumerate() {
        mean[i % width] += value / n;
    }
    for (i, value) in values.iter().enumerate() {
        variance[i % width] += (value - mean[i % width]).powi(2) / n;
    }
    let (found_mean, found_variance) = Totals::moments(totals);
    assert!(error(&as_f32(found_mean), &mean) < 1e-5);
    assert!(error(&as_f32(found_variance), &variance) < 1e-5);
    assert_eq!(totals.iter().map(|part| part.count).sum::<usize>(), shape.pixels());
}

fn as_f32(numbers: Vec<f64>) -> Vec<f32> {
    numbers.into_iter().map(|x| x as f32).collect()
}

fn assert_products(
    (shape, x, mean): (Shape, &[f32], &[f32]),
    expected: Vec<f32>,
    (found, totals): (impl Deref<Target = [f32]>, Vec<Totals>),
) {
    assert_eq!(found[..], expected);
    let (mut sums, mut products) = (vec![0.0; shape.stride()], vec![0.0; shape.stride()]);
    for (i, value) in to_f64(&expected).into_iter().enumerate() {
        let c = i % shape.stride();
        sums[c] += value;
        products[c] += value * f64::from(x[i] - mean[c]);
    }
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
