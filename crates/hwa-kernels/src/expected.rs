//! What every kernel is to read, to finish and to keep, in plain loops.

use std::ops::Deref;

use crate::conv::Layout;
use crate::finish::{Finish, Gate, Sums, Totals};
use crate::read::{Activation, Source};
use crate::reference::{Reference, error, error_among, images, noise, per_channel, to_f64};
use crate::shape::Shape;
use crate::simd::{GROUP, Level};

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

    /// The same, stored as a layout says; what is to spare is not a number.
    pub(crate) fn laid_out(mut self, layout: Layout) -> Self {
        let Shape { channels, .. } = self.shape;
        if layout == Layout::Dense {
            for numbers in [&mut self.x, &mut self.gradient] {
                let pixels = numbers.chunks(self.shape.stride());
                let dense = pixels.flat_map(|pixel| pixel[..channels].to_vec());
                *numbers = dense.chain([f32::NAN; GROUP]).collect();
            }
        }
        self
    }
}

/// A convolution to check, and what it reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    pub reference: Reference,
    /// Of the images and of the gradient: see [`Sources::kind`].
    pub kinds: [usize; 2],
    /// Of the images. Without padding they get no gradient.
    pub layout: Layout,
}

/// Where a convolution is to put its results and its gradients.
pub(crate) struct Places<'a> {
    pub y: &'a mut [f32],
    pub dx: Option<(&'a mut [f32], Finish<'static>)>,
    pub dw: &'a mut [f32],
}

impl Trial {
    /// Checks what `run` computes of the images, the gradient and the weights on every level. An
    /// error is relative to the largest result if nothing cancelled.
    pub(crate) fn check(
        &self,
        tolerance: f64,
        run: impl Fn(Level, [Source<'_>; 2], &[f32], Places<'_>),
    ) {
        let Self { reference, kinds, layout } = self;
        let (input, output) = (reference.input, reference.output());
        let (x, g) = (Sources::new(input, 1), Sources::new(output, 2));
        let w = coarse(noise(reference.form.len(), 3));
        let of = |x: &[f64], g: &[f64], w: &[f64]| {
            let gradients = [reference.input_gradient(g, w), reference.weight_gradient(x, g)];
            (reference.forward(x, w), gradients)
        };
        let (x64, g64, w64) = (x.values(kinds[0]), g.values(kinds[1]), to_f64(&w));
        let (y64, [dx64, dw64]) = of(&x64, &g64, &w64);
        let sizes = |x: &[f64]| -> Vec<f64> { x.iter().map(|x| x.abs()).collect() };
        let (y_sizes, [dx_sizes, dw_sizes]) = of(&sizes(&x64), &sizes(&g64), &sizes(&w64));
        let x = x.laid_out(*layout);
        for level in Level::available() {
            let mut y = vec![f32::NAN; output.len()];
            let (mut dx, mut dw) = (vec![f32::NAN; input.len()], vec![f32::NAN; w.len()]);
            let wanted = *layout == Layout::Padded;
            let place = wanted.then_some((&mut dx[..], Finish::NOTHING));
            let places = Places { y: &mut y, dx: place, dw: &mut dw };
            run(level, [x.kind(kinds[0]), g.kind(kinds[1])], &w, places);
            let e = error_among(&y, &y64, &y_sizes);
            assert!(e < tolerance, "{level} forward: {e:e}");
            let e = if wanted { error_among(&dx, &dx64, &dx_sizes) } else { 0.0 };
            assert!(e < tolerance, "{level} input gradient: {e:e}");
            let e = error_among(&dw, &dw64, &dw_sizes);
            assert!(e < tolerance, "{level} weight gradient: {e:e}");
        }
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
