//! The convergence condition where everything is known: parabolas.
//!
//! An image is a pair (a, c), its loss is a (w - c)² / 2. So R is a parabola with L = mean of a,
//! the gradient of a batch is the mean of a (w - c), and what is estimated from a sample can be
//! averaged over all samples there are. With several weights, the label tells an image's own.
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use hwa_core::{Tensor, Weights};
use hwa_data::{Batch, DataError, ImageShape, Position};
use hwa_study::{Gradients, Probe, StudyError};
use hwa_train::{Recalibration, Replica, ReplicaError, RunningStatistics, State, StepStats, Tally};
use proptest::prelude::*;

type Image = (f32, f32);

#[derive(Default)]
struct Parabola {
    w: Vec<f32>,
}

fn at(w: f32) -> Weights {
    at_all(&[w])
}

fn at_all(w: &[f32]) -> Weights {
    let mut weights = Weights::new();
    weights.insert("w", Tensor::parameter(vec![w.len()], w.to_vec()).unwrap()).unwrap();
    weights
}

fn refused<T>() -> Result<T, ReplicaError> {
    Err(ReplicaError::Framework { operation: "this", reason: "a probe does not ask it".to_owned() })
}

impl Replica for Parabola {
    fn load(&mut self, weights: &Weights) -> Result<(), ReplicaError> {
        self.w = weights.require("w")?.as_f32().unwrap().to_vec();
        Ok(())
    }

    fn gradient(
        &mut self,
        batch: &Batch,
        _at: Position,
        statistics: RunningStatistics,
    ) -> Result<(StepStats, Weights), ReplicaError> {
        assert_eq!(statistics, RunningStatistics::Keep, "a look changes nothing");
        let (mut loss, mut pulls) = (0.0, vec![0.0; self.w.len()]);
        for (image, label) in batch.images.chunks(2).zip(&batch.labels) {
            let own = *label as usize;
            let (a, far) = (image[0], self.w[own] - image[1]);
            loss += f64::from(a * far * far / 2.0);
            pulls[own] += f64::from(a) * f64::from(far);
        }
        let count = batch.len() as f64;
        let pulls: Vec<f32> = pulls.iter().map(|pull| (pull / count) as f32).collect();
        Ok((StepStats { loss: loss / count }, at_all(&pulls)))
    }

    fn weights(&self) -> Result<Weights, ReplicaError> {
        refused()
    }
    fn descend(&mut self, _: &Weights, _: f64) -> Result<(), ReplicaError> {
        refused()
    }
    fn momentum(&self) -> Result<Weights, ReplicaError> {
        refused()
    }
    fn load_momentum(&mut self, _: &Weights) -> Result<(), ReplicaError> {
        refused()
    }
    fn recalibrate(
        &mut self,
        _: &mut dyn Iterator<Item = Result<Batch, DataError>>,
        _: f64,
    ) -> Result<Recalibration, ReplicaError> {
        refused()
    }
    fn evaluate(&mut self, _: &Batch) -> Result<Tally, ReplicaError> {
        refused()
    }
    fn state(&self) -> Result<State, ReplicaError> {
        refused()
    }
    fn restore(&mut self, _: &State) -> Result<(), ReplicaError> {
        refused()
    }
}

fn batches(images: &[Image], size: usize) -> Vec<Batch> {
    let shape = ImageShape { height: 1, width: 2, channels: 1 };
    let batch = |images: &[Image]| Batch {
        images: images.iter().flat_map(|(a, c)| [*a, *c]).collect(),
        labels: vec![0; images.len()],
        shape,
    };
    images.chunks(size).map(batch).collect()
}

const RATE: f64 = 0.1;

fn measure(images: &[Image], size: usize, population: usize, w: f32) -> Gradients {
    measure_batches(&batches(images, size), Some(population), &at(w))
}

fn measure_batches(batches: &[Batch], population: Option<usize>, weights: &Weights) -> Gradients {
    let steps = NonZeroUsize::new(2).unwrap();
    let probe = Probe { batches, population, rate: RATE, steps, seed: 1 };
    let mut asked = 0;
    let mut watch = || {
        asked += 1;
        ControlFlow::Continue(())
    };
    let measured = probe.measure(&mut Parabola::default(), weights, &mut watch).unwrap().unwrap();
    assert!(asked <= probe.gradients(), "{asked}");
    measured
}

/// The derivative of R, and R, over some images.
fn risk(images: &[Image], w: f64) -> (f64, f64) {
    let count = images.len() as f64;
    let of = |(a, c): &Image| (f64::from(*a), w - f64::from(*c));
    let slope = images.iter().map(of).map(|(a, far)| a * far).sum::<f64>() / count;
    let value = images.iter().map(of).map(|(a, far)| a * far * far / 2.0).sum::<f64>() / count;
    (slope, value)
}

/// All ways to put the numbers below `count` in order.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let shorter = orders(count - 1);
    let insert = |order: &Vec<usize>, place| {
        let mut order = order.clone();
        order.insert(place, count - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..count).map(move |place| insert(order, place))).collect()
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-5 * (1.0 + a.abs().max(b.abs()))
}

const IMAGES: [Image; 6] =
    [(1.0, 0.0), (2.0, 1.0), (0.5, -3.0), (3.0, 2.0), (1.5, 0.5), (1.0, 4.0)];

/// The noise of a batch of two of six images, over all of them that there are.
fn noise(images: &[Image], w: f64) -> f64 {
    let (whole, _) = risk(images, w);
    let pairs: Vec<f64> = (0..images.len())
        .flat_map(|i| (0..i).map(move |j| (i, j)))
        .map(|(i, j)| (risk(&[images[i], images[j]], w).0 - whole).powi(2))
        .collect();
    pairs.iter().sum::<f64>() / pairs.len() as f64
}

#[test]
fn with_all_images_risk_norm_and_lipschitz_constant_are_exact() {
    let measured = measure(&IMAGES, 2, 6, 2.0);
    // 1·2, 2·1, 0.5·5, 3·0, 1.5·1.5, 1·-2: their mean is 6.75 / 6; L is the mean of a, 1.5.
    let (slope, value) = risk(&IMAGES, 2.0);
    assert!(near(slope, 1.125));
    assert!(near(measured.squared_norm, 1.125 * 1.125), "nothing is corrected");
    assert!(near(measured.risk, value));
    assert!((measured.lipschitz - 1.5).abs() < 1e-4, "{}", measured.lipschitz);
    assert!((measured.curvature - 1.5).abs() < 1e-4, "one weight turns along itself");
    assert_eq!((measured.images, measured.batch, measured.steps), (6, 2, 2));
    // The batches' gradients are 2, 1.25 and 0.125: their mean squared distance to 1.125.
    let by_hand = (0.875f64.powi(2) + 0.125f64.powi(2) + 1.0) / 3.0;
    assert!(near(measured.noise, by_hand), "{}", measured.noise);
}

#[test]
fn over_all_orders_of_the_images_noise_has_no_bias() {
    let orders = orders(6);
    let in_order = |order: &Vec<usize>| order.iter().map(|i| IMAGES[*i]).collect::<Vec<_>>();
    let (slope, _) = risk(&IMAGES, 2.0);
    // All six images, and samples of four.
    for (sample, size) in [(6, 2), (4, 2)] {
        let (mut square, mut spread) = (0.0, 0.0);
        for order in &orders {
            let measured = measure(&in_order(order)[..sample], size, 6, 2.0);
            square += measured.squared_norm / orders.len() as f64;
            spread += measured.noise / orders.len() as f64;
        }
        assert!(near(spread, noise(&IMAGES, 2.0)), "{sample}: {spread}");
        assert!(near(square, slope * slope), "{sample}: {square}, not {}", slope * slope);
    }
}

/// Each image pulls a weight of its own, so that a step bends the loss of its own batch alone:
/// by a / N of all images, whatever else is in the sample.
#[test]
fn along_a_step_the_gradient_of_all_images_bends_and_not_that_of_the_sample() {
    let weights = at_all(&[2.0; 6]);
    let mut all = batches(&IMAGES, 2);
    for (number, batch) in all.iter_mut().enumerate() {
        batch.labels = vec![2 * number as u32, 2 * number as u32 + 1];
    }
    // The gradients a (w - c) of the first two batches are 2, 2 and 2.5, 0.
    let slope =
        |a: [f64; 2], g: [f64; 2]| (a[0] * g[0]).hypot(a[1] * g[1]) / g[0].hypot(g[1]) / 6.0;
    let [first, second] = [slope([1.0, 2.0], [2.0, 2.0]), slope([0.5, 3.0], [2.5, 0.0])];
    let of_all = measure_batches(&all, Some(6), &weights).lipschitz;
    assert!((of_all - (first + second) / 2.0).abs() < 1e-4, "{of_all}");
    let of_sample = measure_batches(&all[..2], Some(6), &weights).lipschitz;
    assert!((of_sample - of_all).abs() < 1e-4, "{of_sample}, not {of_all}");
    // Of images without end, a batch is no part that counts: the others do not bend at all.
    let without_end = measure_batches(&all, None, &weights).lipschitz;
    assert!(without_end < 1e-4, "{without_end}");
}

/// Every second image pulls the first of two weights, the others the second: a step along one of
/// them bends its own batch for sure. By the plain mean of a sample of three, L is 0.9. All bend
/// upwards, so that nothing cancels, and L has no other bias.
#[test]
fn over_all_samples_the_weight_of_a_steps_own_batch_makes_no_bias() {
    let mean = |sample: usize| {
        let all = orders(6).into_iter().map(|order| {
            let images: Vec<Image> = order[..sample].iter().map(|i| IMAGES[*i]).collect();
            let mut batches = batches(&images, 1);
            for (batch, image) in batches.iter_mut().zip(&order) {
                batch.labels = vec![*image as u32 % 2];
            }
            measure_batches(&batches, Some(6), &at_all(&[-5.0, 6.0])).lipschitz
        });
        all.sum::<f64>() / 720.0
    };
    let (of_all, of_sample) = (mean(6), mean(3));
    assert!((of_all - 0.75).abs() < 1e-4, "half of the images bend, by 1.5 in the mean: {of_all}");
    assert!((of_sample - 0.75).abs() < 1e-4, "{of_sample}");
}

/// Images that bend by 3, -1, -1 and 3, by 1 in the mean. Of a sample of two, the step's own
/// weighs a quarter: 3 and 3 make 3, 3 and -1 make 0, -1 and 3 make 2, -1 and -1 make -1. Of 12
/// pairs these are 2, 4, 4 and 2: (6 + 0 + 8 - 2) / 12 = 1, and (6 + 0 + 8 + 2) / 12 = 4/3 of
/// their sizes.
#[test]
fn where_images_partly_cancel_the_lipschitz_constant_of_a_sample_is_too_large_the_curvature_not() {
    let images = [(3.0, 0.0), (-1.0, 1.0), (-1.0, -3.0), (3.0, 4.0)];
    let mean = |sample: usize| {
        let all = orders(4).into_iter().map(|order| {
            let some: Vec<Image> = order[..sample].iter().map(|i| images[*i]).collect();
            let measured = measure(&some, 1, 4, 2.0);
            [measured.lipschitz / 24.0, measured.curvature / 24.0]
        });
        all.fold([0.0; 2], |[l, c], [more_l, more_c]| [l + more_l, c + more_c])
    };
    for (sample, expected) in [(4, [1.0, 1.0]), (2, [4.0 / 3.0, 1.0])] {
        let found = mean(sample);
        assert!((found[0] - expected[0]).abs() < 1e-4, "{sample}: {found:?}");
        assert!((found[1] - expected[1]).abs() < 1e-4, "{sample}: {found:?}");
    }
}

#[test]
fn the_error_of_the_lipschitz_constant_is_part_of_that_of_the_condition() {
    // Noise 3 and squared norm 1, exactly: the difference falls by (3 + 1) / 2 of L, so an error
    // of 0.1 makes 0.2. At rate 0.5 with L = 1 both sides are 1.5: the border.
    let exact = Gradients {
        squared_norm: 1.0,
        noise: 3.0,
        lipschitz: 1.0,
        lipschitz_error: Some(0.1),
        ..measure(&IMAGES, 2, 6, 2.0)
    };
    assert!(near(exact.condition(0.5).error.unwrap(), 0.2));
    // Right - left is 1/rate - 2: 0.5 apart is more than two errors, 0.3 is not.
    let holds = |apart: f64| exact.condition(1.0 / (2.0 + apart)).holds();
    assert_eq!([0.5, 0.3, -0.3, -0.5].map(holds), [Some(true), None, None, Some(false)]);
    // With what a sample leaves open: at rate 0.5, 1.5² · 0.04 - 2 · 1.5 · 0.5 · 0.01 + 0.25 · 0.16.
    let sample = Gradients { covariance: Some([[0.04, 0.01], [0.01, 0.16]]), ..exact };
    let variance = 0.09 - 0.015 + 0.04 + 0.04;
    assert!(near(sample.condition(0.5).error.unwrap(), f64::sqrt(variance)));
    // One step tells none.
    let one = Gradients { lipschitz_error: None, ..exact };
    assert_eq!((one.condition(0.5).error, one.condition(1e-9).holds()), (None, None));
}

#[test]
fn the_spread_over_steps_is_the_error_of_their_mean() {
    // As above, each image pulls a weight of its own: two steps bend by `first` and `second`.
    let mut all = batches(&IMAGES, 2);
    for (number, batch) in all.iter_mut().enumerate() {
        batch.labels = vec![2 * number as u32, 2 * number as u32 + 1];
    }
    let measured = measure_batches(&all, Some(6), &at_all(&[2.0; 6]));
    // The gradients a (w - c) are 2, 2 and 2.5, 0, with a of 1, 2 and 0.5, 3: lengths of the
    // changes are √20 / √8 / 6 and 0.5 / 6; along the steps they are 12 / 8 / 6 and 0.5 / 6.
    let [first, second] = [2.5f64.sqrt() / 6.0, 0.5 / 6.0];
    let [along, also] = [1.5 / 6.0, 0.5 / 6.0];
    assert!((measured.lipschitz_error.unwrap() - (first - second) / 2.0).abs() < 1e-4);
    assert!((measured.curvature - (along + also) / 2.0).abs() < 1e-4, "{}", measured.curvature);
    assert!((measured.curvature_error.unwrap() - (along - also) / 2.0).abs() < 1e-4);
}

/// R = (10 x² + y²) / 2 in all batches, so that no noise hides the bound. At (1, 3) the gradient
/// is (10, 3): |g|² = 109, L = |Hg| / |g| = √(10009 / 109), the curvature 1009 / 109.
#[test]
fn beside_eigenvectors_the_bound_is_above_the_change_and_with_the_curvature_it_is_the_change() {
    let mut all = batches(&[(20.0, 0.0), (2.0, 0.0), (20.0, 0.0), (2.0, 0.0)], 2);
    all.iter_mut().for_each(|batch| batch.labels = vec![0, 1]);
    let risk = |[x, y]: [f64; 2]| (10.0 * x * x + y * y) / 2.0;
    let measured = measure_batches(&all, Some(4), &at_all(&[1.0, 3.0]));
    assert!(near(measured.squared_norm, 109.0) && measured.noise < 1e-9);
    assert!((measured.lipschitz - (10009f64 / 109.0).sqrt()).abs() < 1e-3);
    assert!((measured.curvature - 1009.0 / 109.0).abs() < 1e-3);
    for rate in [0.01, 0.05, 0.1, 0.3] {
        let bound = |lipschitz: f64| {
            let condition = Gradients { lipschitz, ..measured }.condition(rate);
            rate * rate * (condition.left - condition.right)
        };
        let change = risk([1.0 - 10.0 * rate, 3.0 - 3.0 * rate]) - risk([1.0, 3.0]);
        if rate == 0.05 {
            // (10 · 0.5² + 2.85²) / 2 - 9.5, and -0.05 · 109 + 0.00125 · 109 L.
            assert!(near(change, -4.18875) && (bound(measured.lipschitz) + 4.14438).abs() < 1e-3);
        }
        assert!(bound(measured.lipschitz) > change, "{rate}");
        assert!((bound(measured.curvature) - change).abs() < 1e-3 * change.abs(), "{rate}");
    }
}

#[test]
fn the_jackknife_follows_the_hand_computed_trace() {
    // Gradients 1, 2, 6 of images without end, in batches of one. The squared norm is the mean
    // product of two of them, 20/3; without each it is 12, 6, 2. The noise is their variance, 7;
    // without each it is 8, 12.5, 0.5.
    let images = [(1.0, -1.0), (1.0, -2.0), (1.0, -6.0)];
    let measured = measure_batches(&batches(&images, 1), None, &at(0.0));
    assert!(near(measured.squared_norm, 20.0 / 3.0) && near(measured.noise, 7.0));
    let norm =
        2.0 / 3.0 * ((16.0f64 / 3.0).powi(2) + (2.0f64 / 3.0).powi(2) + (14.0f64 / 3.0).powi(2));
    let noise = 2.0 / 3.0 * (1.0 + 5.5f64.powi(2) + 6.5f64.powi(2));
    let both = 2.0 / 3.0 * (16.0 / 3.0 - 5.5 * 2.0 / 3.0 + 6.5 * 14.0 / 3.0);
    let [[a, b], [c, d]] = measured.covariance.unwrap();
    assert!(near(a, norm) && near(b, both) && near(c, both) && near(d, noise), "{a} {b} {c} {d}");
    assert!(near(measured.squared_norm_error().unwrap(), norm.sqrt()));
    assert!(near(measured.noise_error().unwrap(), noise.sqrt()));
    // L = 1, rate 0.1: left is noise / 2, right 9.5 times the norm.
    let condition = measured.condition(RATE);
    let error = (9.5 * 9.5 * norm - 9.5 * both + 0.25 * noise).sqrt();
    assert!((condition.error.unwrap() / error - 1.0).abs() < 1e-3, "{condition:?}, not {error}");
    // Of six images half are seen, and the noise is 5/6 of what it was.
    let half = measure(&images, 1, 6, 0.0).covariance.unwrap()[1][1];
    assert!(near(half, noise * 25.0 / 36.0 / 2.0), "{half}");
}

#[test]
fn the_standard_error_is_how_far_samples_are_off() {
    // All samples of five of ten images, in batches of one.
    let images: Vec<Image> = (0..10).map(|i| (1.0, (i * i % 11) as f32 / 4.0)).collect();
    let samples = (0u32..1024).filter(|chosen| chosen.count_ones() == 5);
    let (mut squares, mut told) = (0.0, 0.0);
    let (slope, _) = risk(&images, 4.0);
    for chosen in samples {
        let some: Vec<Image> =
            (0..10).filter(|i| chosen >> i & 1 == 1).map(|i| images[i]).collect();
        let measured = measure(&some, 1, 10, 4.0);
        squares += (measured.squared_norm - slope * slope).powi(2);
        told += measured.covariance.unwrap()[0][0];
    }
    assert!((0.8..1.25).contains(&(told / squares)), "{told} {squares}");
}

#[test]
fn what_a_sample_cannot_tell_is_unclear() {
    let at_rate = |measured: Gradients, rate| measured.condition(rate).holds();
    // All images and equal steps: yes or no. L is 1.5, the noise 0.59, the squared norm 1.27.
    let all = measure(&IMAGES, 2, 6, 2.0);
    assert_eq!(all.covariance, Some([[0.0; 2]; 2]));
    assert_eq!(
        [0.1, 0.9, 0.93, 3.0].map(|rate| at_rate(all, rate)),
        [true, true, false, false].map(Some)
    );
    // A sample leaves open what is near.
    let sample = Gradients { covariance: Some([[0.01, 0.0], [0.0, 0.01]]), ..all };
    assert_eq!(
        [0.1, 0.9, 0.93, 3.0].map(|rate| at_rate(sample, rate)),
        [Some(true), None, None, Some(false)]
    );
    // Two batches of a sample do not tell how far they are off.
    let two = measure(&IMAGES[..4], 2, 6, 2.0);
    assert_eq!((two.covariance, at_rate(two, 1e-9)), (None, None));
}

#[test]
fn a_smaller_last_batch_counts_by_its_images() {
    // Six images as 4 + 2: by all orders the noise of a batch of four.
    let orders = orders(6);
    let mut spread = 0.0;
    for order in &orders {
        let images: Vec<Image> = order.iter().map(|i| IMAGES[*i]).collect();
        let measured = measure(&images, 4, 6, 2.0);
        assert!(near(measured.squared_norm, 1.125 * 1.125), "the full gradient is that of all");
        assert_eq!((measured.batch, measured.steps), (4, 1), "steps are those of full batches");
        spread += measured.noise / orders.len() as f64;
    }
    // A batch of four is off by half of what the other two are off by: ((6 - 4) / 4)².
    assert!(near(spread, noise(&IMAGES, 2.0) / 4.0), "{spread}");
}

#[test]
fn a_first_batch_that_lacks_an_image_is_no_step() {
    // As where an image cannot be read.
    let mut batches = batches(&IMAGES, 2);
    let whole = measure_batches(&batches, Some(6), &at(2.0));
    assert_eq!(whole.steps, 2);
    batches[0].images.truncate(2);
    batches[0].labels.truncate(1);
    let measured = measure_batches(&batches, Some(6), &at(2.0));
    assert_eq!((measured.batch, measured.steps, measured.images), (2, 2, 5));
    assert!(measured.lipschitz > 0.0);
}

#[test]
fn equal_images_have_no_noise() {
    let measured = measure(&[(2.0, 1.0); 8], 2, 8, 3.0);
    assert!(measured.noise.abs() < 1e-12 && near(measured.squared_norm, 16.0));
    let condition = measured.condition(RATE);
    assert!(condition.left.abs() < 1e-9 && near(condition.right, 9.0 * 16.0));
    assert_eq!(condition.holds(), Some(true));
    // At the bottom nothing moves, and there is nothing to gain or to lose.
    let bottom = measure(&[(2.0, 1.0); 8], 2, 8, 1.0);
    assert_eq!((bottom.lipschitz, bottom.steps), (0.0, 0));
}

#[test]
fn the_work_can_be_ended() {
    let batches = batches(&IMAGES, 2);
    let steps = NonZeroUsize::new(2).unwrap();
    // A sample takes another pass, for the jackknife.
    for (population, gradients) in [(Some(6), 3 + 2 * 4), (Some(12), 6 + 2 * 4), (None, 14)] {
        let probe = Probe { batches: &batches, population, rate: RATE, steps, seed: 1 };
        assert_eq!(probe.gradients(), gradients);
        for last in 0..gradients {
            let mut left = last;
            let mut watch = || match left.checked_sub(1) {
                Some(less) => {
                    left = less;
                    ControlFlow::Continue(())
                }
                None => ControlFlow::Break(()),
            };
            let ended = probe.measure(&mut Parabola::default(), &at(2.0), &mut watch).unwrap();
            assert_eq!(ended, None, "after {last}");
        }
    }
}

#[test]
fn what_cannot_be_measured_says_why() {
    let batches = batches(&IMAGES, 2);
    let steps = NonZeroUsize::MIN;
    let population = Some(6);
    let probe = Probe { batches: &batches, population, rate: RATE, steps, seed: 1 };
    let error = |probe: Probe<'_>, w: f32| {
        let mut watch = || ControlFlow::Continue(());
        probe.measure(&mut Parabola::default(), &at(w), &mut watch).unwrap_err()
    };
    let one = Probe { batches: &batches[..1], ..probe };
    assert!(matches!(error(one, 2.0), StudyError::TooFewBatches { found: 1 }));
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(error(Probe { rate, ..probe }, 2.0), StudyError::Rate { .. }), "{rate}");
    }
    for w in [f32::NAN, f32::INFINITY] {
        assert!(matches!(error(probe, w), StudyError::Diverged { tensor } if tensor == "w"), "{w}");
    }
    // Finite weights whose gradient is not, and a step that leads nowhere.
    assert!(matches!(error(probe, f32::MAX), StudyError::NotFinite));
    assert!(matches!(error(Probe { rate: 1e60, ..probe }, 2.0), StudyError::NotFinite));
}

proptest! {
    /// On a parabola of one weight, where every step is an eigenvector, the bound is an equality:
    /// the condition tells the sign of the expected change of the risk, and η² times the
    /// difference of its sides is that change.
    #[test]
    fn the_condition_predicts_what_a_step_does_to_the_risk(
        images in proptest::collection::vec((0.1f32..2.0, -2.0f32..2.0), 6),
        w in -3.0f32..3.0,
        rate in 0.01..3.0,
    ) {
        // The noise of all pairs, in place of that of three: the mean over all partitions.
        let all: Vec<Gradients> = orders(6)
            .iter()
            .map(|order| order.iter().map(|i| images[*i]).collect::<Vec<_>>())
            .map(|images| measure(&images, 2, 6, w))
            .collect();
        let mean = all.iter().map(|m| m.noise).sum::<f64>() / all.len() as f64;
        let measured = Gradients { noise: mean, ..all[0] };
        let condition = measured.condition(rate);
        let here = risk(&images, f64::from(w)).1;
        let mut change = 0.0;
        for i in 0..6 {
            for j in 0..i {
                let slope = risk(&[images[i], images[j]], f64::from(w)).0;
                change += (risk(&images, f64::from(w) - rate * slope).1 - here) / 15.0;
            }
        }
        let predicted = rate * rate * (condition.left - condition.right);
        let size = rate * rate * (condition.left.abs() + condition.right.abs());
        prop_assert!((predicted - change).abs() <= 2e-3 * size + 1e-6, "{} {}", predicted, change);
        if change.abs() > 4e-3 * size + 2e-6 {
            prop_assert_eq!(condition.holds(), Some(change < 0.0));
        }
    }
}
