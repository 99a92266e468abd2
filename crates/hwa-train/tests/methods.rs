//! What methods do in a step and at the end of a cycle: against PyTorch and a published package
//! around it, and by hand.
//!
//! `golden/make_methods.py` made the numbers.

#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod toy;

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Mutex;

use hwa_core::{Decay, OuterWeights, Schedule, Statistics, Tensor, Weights, mean};
use hwa_data::{Batch, DataError, ImageShape, Position, TrainingBatches};
use hwa_train::{
    Averaging, BuildTechnique, Candidates, Descent, Ema, Grafting, Interrupt, Lookahead, Method,
    MomentumAtSync, Outcome, RePr, Recalibration, Replica, ReplicaError, RunningStatistics,
    Settings, Stage, State, Step, StepStats, Tally, Technique, ThreadGroup,
};
use serde::Deserialize;
use toy::{Fault, SIZE, Toy, bits, images, of_written, outer, settings, train_by, transform};

const RATE: f64 = 0.05;

#[derive(Deserialize)]
struct Golden {
    targets: Vec<Vec<f32>>,
    methods: BTreeMap<String, Vec<Vec<f64>>>,
    rates: BTreeMap<String, Vec<f64>>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden/methods.json")).unwrap()
}

fn named(name: &str, shape: &[usize], values: &[f32]) -> Weights {
    let mut weights = Weights::new();
    weights.insert(name, Tensor::parameter(shape.to_vec(), values.to_vec()).unwrap()).unwrap();
    weights
}

fn values(weights: &Weights, name: &str) -> Vec<f32> {
    weights.get(name).unwrap().as_f32().unwrap().to_vec()
}

/// The script's points, with SGD as PyTorch does it.
struct Point {
    x: Vec<f32>,
    momentum: Vec<f32>,
    bend: f32,
    kept: f32,
    decay: f32,
    /// Where the weights were whenever statistics moved.
    moved_at: Vec<Vec<f32>>,
}

/// How many of the values are the tensor `w`; the rest is `u`.
const FIRST: usize = 4;

impl Point {
    fn new(x: &[f32]) -> Self {
        let (x, momentum) = (x.to_vec(), vec![0.0; x.len()]);
        Self { x, momentum, bend: 0.08, kept: 0.9, decay: 5e-4, moved_at: Vec::new() }
    }

    /// A loss of half the square, and neither momentum nor decay: for traces by hand.
    fn simple(x: f32) -> Self {
        Self { bend: 0.0, kept: 0.0, decay: 0.0, ..Self::new(&[x]) }
    }
}

fn split(x: &[f32]) -> Weights {
    let (w, u) = x.split_at(FIRST.min(x.len()));
    let mut weights = named("w", &[w.len()], w);
    if !u.is_empty() {
        weights.insert("u", Tensor::parameter(vec![u.len()], u.to_vec()).unwrap()).unwrap();
    }
    weights
}

fn joined(weights: &Weights) -> Vec<f32> {
    let mut x = values(weights, "w");
    if weights.get("u").is_some() {
        x.extend(values(weights, "u"));
    }
    x
}

impl Replica for Point {
    fn weights(&self) -> Result<Weights, ReplicaError> {
        Ok(split(&self.x))
    }

    fn load(&mut self, weights: &Weights) -> Result<(), ReplicaError> {
        self.x = joined(weights);
        Ok(())
    }

    fn gradient(
        &mut self,
        batch: &Batch,
        _at: Position,
        statistics: RunningStatistics,
    ) -> Result<(StepStats, Weights), ReplicaError> {
        if statistics == RunningStatistics::Move {
            self.moved_at.push(self.x.clone());
        }
        let pull = |(i, (x, target)): (usize, (&f32, &f32))| {
            let away = x - target;
            let factor = if i < FIRST { 1.0 } else { 0.2 };
            factor * (away + self.bend * away * away * away)
        };
        let gradient: Vec<f32> = self.x.iter().zip(&batch.images).enumerate().map(pull).collect();
        Ok((StepStats { loss: 0.0 }, split(&gradient)))
    }

    fn descend(&mut self, gradient: &Weights, rate: f64) -> Result<(), ReplicaError> {
        for (i, pull) in joined(gradient).into_iter().enumerate() {
            self.momentum[i] = self.kept * self.momentum[i] + pull + self.decay * self.x[i];
            self.x[i] -= rate as f32 * self.momentum[i];
        }
        Ok(())
    }

    fn momentum(&self) -> Result<Weights, ReplicaError> {
        Ok(split(&self.momentum))
    }

    fn load_momentum(&mut self, momentum: &Weights) -> Result<(), ReplicaError> {
        self.momentum = joined(momentum);
        Ok(())
    }

    fn recalibrate(
        &mut self,
        _batches: &mut dyn Iterator<Item = Result<Batch, DataError>>,
        _tolerance: f64,
    ) -> Result<Recalibration, ReplicaError> {
        Ok(Recalibration::default())
    }

    fn evaluate(&mut self, _batch: &Batch) -> Result<Tally, ReplicaError> {
        Ok(Tally::default())
    }

    fn state(&self) -> Result<State, ReplicaError> {
        Ok(State { weights: self.weights()?, momentum: self.momentum()? })
    }

    fn restore(&mut self, state: &State) -> Result<(), ReplicaError> {
        self.load(&state.weights)?;
        self.load_momentum(&state.momentum)
    }
}

fn at(step: usize) -> Step {
    Step { rate: RATE, position: Position { seed: 1, replica: 0, step: step as u64 } }
}

fn batch(images: &[f32]) -> Batch {
    let shape = ImageShape { height: 1, width: images.len(), channels: 1 };
    Batch { images: images.to_vec(), labels: vec![0], shape }
}

/// What a technique offers after every step, and where statistics moved.
fn offered(mut technique: Box<dyn Technique>, descent: Descent) -> (Vec<Weights>, Vec<Vec<f32>>) {
    let mut model = Point::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    technique.begin(&model).unwrap();
    let mut trace = Vec::new();
    for (step, target) in golden().targets.iter().enumerate() {
        technique.step(&mut model, &batch(target), at(step), descent).unwrap();
        trace.push(technique.offered(&model).unwrap());
    }
    (trace, model.moved_at)
}

fn assert_near(found: &[Weights], method: &str) {
    let expected = &golden().methods[method];
    assert_eq!(found.len(), expected.len());
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (found, expected) in joined(found).into_iter().zip(expected) {
            // Those are in double precision.
            let error = (f64::from(found) - expected).abs();
            assert!(error < 2e-6, "{method}, step {step}: {found} and {expected}");
        }
    }
}

#[test]
fn methods_are_those_of_published_implementations() {
    let sam = Descent::SharpnessAware { rho: 0.05 };
    let period = NonZeroU64::new(5).unwrap();
    let averaging = || Box::new(Averaging::default());
    assert_near(&offered(averaging(), Descent::Plain).0, "plain");
    assert_near(&offered(averaging(), sam).0, "sam");
    assert_near(&offered(Box::new(Lookahead::new(period, 0.8)), Descent::Plain).0, "lookahead");
    assert_near(&offered(Box::new(Ema::new(0.9)), Descent::Plain).0, "ema");
}

/// Half the square of x, from 1, at a rate of 0.1: everything on the back of an envelope.
#[test]
fn traces_by_hand() {
    let trace = |technique: &mut dyn Technique, descent: Descent, from: f32| {
        let mut model = Point::simple(from);
        technique.begin(&model).unwrap();
        let mut trace = Vec::new();
        for step in 0..4 {
            let at = Step { rate: 0.1, ..at(step) };
            technique.step(&mut model, &batch(&[0.0]), at, descent).unwrap();
            trace.push(joined(&technique.offered(&model).unwrap())[0]);
        }
        trace
    };
    let near = |found: Vec<f32>, expected: [f32; 4]| {
        let error = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(error < 1e-6, "{found:?} and {expected:?}");
    };
    let plain = Descent::Plain;
    near(trace(&mut Averaging::default(), plain, 1.0), [0.9, 0.81, 0.729, 0.6561]);
    // The gradient is taken 0.05 further out: 3 - 0.1 * 3.05, ...
    let sam = Descent::SharpnessAware { rho: 0.05 };
    near(trace(&mut Averaging::default(), sam, 3.0), [2.695, 2.4205, 2.17345, 1.951105]);
    // After two steps half way back: 1 + 0.5 * (0.81 - 1); then again from there.
    let two = NonZeroU64::new(2).unwrap();
    near(trace(&mut Lookahead::new(two, 0.5), plain, 1.0), [1.0, 0.905, 0.905, 0.819025]);
    // Weights 1; 1/2, 1; 1/4, 1/2, 1; ... of 0.9, 0.81, 0.729 and 0.6561
    let ema = [0.9, (0.45 + 0.81) / 1.5, (0.225 + 0.405 + 0.729) / 1.75, 1.3356 / 1.875];
    near(trace(&mut Ema::new(0.5), plain, 1.0), ema);
}

#[test]
fn the_plain_mean_of_samples_is_pytorchs_swa() {
    let (trace, _) = offered(Box::new(Averaging::default()), Descent::Plain);
    let samples: Vec<&Weights> = trace.iter().skip(4).step_by(5).collect();
    let expected = &golden().methods["swa"];
    for (number, _) in samples.iter().enumerate() {
        let found = mean(&samples[..=number], Statistics::Omit).unwrap();
        let expected = &expected[5 * number + 4];
        for (found, expected) in joined(&found).into_iter().zip(expected) {
            assert!((f64::from(found) - expected).abs() < 2e-6);
        }
    }
}

#[test]
fn schedules_are_pytorchs() {
    let restarts = |period, factor| Decay::Restarts { floor: 0.0, period, factor, end: None };
    let milestones = vec![6, 13];
    for (name, decay) in [
        ("cosine", Decay::Cosine { floor: 0.0 }),
        ("linear", Decay::Linear { floor: 0.0 }),
        ("restarts", restarts(3, 2)),
        ("equal_restarts", restarts(7, 1)),
        ("step", Decay::Step { factor: 0.1, milestones }),
    ] {
        let schedule = Schedule::new(RATE, decay, 24).unwrap();
        for (step, expected) in golden().rates[name].iter().enumerate() {
            let found = schedule.rate(step as u64);
            assert!((found - expected).abs() < 1e-12, "{name}, {step}: {found} and {expected}");
        }
    }
}

#[test]
fn the_second_pass_of_sam_leaves_statistics_alone() {
    let sam = Descent::SharpnessAware { rho: 0.05 };
    let (trace, moved_at) = offered(Box::new(Averaging::default()), sam);
    // Once in each step, where the weights were before it: not at the point nearby.
    let before = [vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]].into_iter().chain(trace.iter().map(joined));
    let before: Vec<Vec<f32>> = before.take(golden().targets.len()).collect();
    assert_eq!(moved_at, before);
    // A gradient of zero has no direction to go in, and is no reason for NaN.
    let mut model = Point::new(&[0.0; 4]);
    sam.step(&mut model, &batch(&[0.0; 4]), at(0)).unwrap();
    assert_eq!(model.x, [0.0; 4]);
}

#[test]
fn every_method_trains_by_the_technique_of_its_name() {
    let stages = vec![Stage { drop: 5, revive: 9 }, Stage { drop: 14, revive: 18 }];
    let period = NonZeroU64::new(4).unwrap();
    let weights = |settings: &Settings, technique: &BuildTechnique<'_>| {
        let folder = tempfile::tempdir().unwrap();
        let faults = |_| Some(Fault::Bent);
        train_by(folder.path(), settings, technique, &faults, &Mutex::default()).unwrap();
        (1..=5).map(|cycle| outer(folder.path(), cycle)).collect::<Vec<_>>()
    };
    for method in Method::ALL {
        let (settings, by_name) = of_written(method);
        let by_hand = |i: usize| -> Box<dyn Technique> {
            match method {
                Method::Ema => Box::new(Ema::new(0.5)),
                Method::Lookahead => Box::new(Lookahead::new(period, 0.5)),
                Method::Fg => Box::new(Grafting::new(0.3, 50.0, i, 3)),
                Method::Repr => Box::new(RePr::new(0.5, stages.clone())),
                Method::Online | Method::Hwa => {
                    Box::new(Averaging { momentum: MomentumAtSync::Average })
                }
                Method::Sgd | Method::Swa | Method::Lawa | Method::Sam | Method::Sgdr => {
                    Box::new(Averaging::default())
                }
            }
        };
        let found = weights(&settings, &*by_name);
        assert_eq!(found, weights(&settings, &by_hand), "{method:?}");
        // Where it is another technique than that of most, it is seen in the weights.
        let is_usual = found == weights(&settings, &|_| Box::new(Averaging::default()));
        let usual = [Method::Sgd, Method::Swa, Method::Lawa, Method::Sam, Method::Sgdr];
        assert_eq!(is_usual, usual.contains(&method), "{method:?}");
    }
}

/// Grafting, written out: every network one after the other.
fn grafted_sequentially(models: usize) -> Vec<Vec<Vec<f32>>> {
    let settings = settings();
    let mut toys: Vec<Toy> = (0..models).map(|_| Toy::new(0, Some(Fault::Bent))).collect();
    let mut data: Vec<_> = (0..models)
        .map(|k| {
            let from = Position { seed: settings.seed, replica: k as u32, step: 0 };
            TrainingBatches::new(images(0), transform(), settings.batch, from).unwrap()
        })
        .collect();
    let mut cycles = Vec::new();
    for step in 0..settings.plan.max_steps.get() {
        for (k, (toy, data)) in toys.iter_mut().zip(&mut data).enumerate() {
            let behind = (models - 1 - k) as f64 / models as f64;
            let factor = (1.0 + (std::f64::consts::PI * behind).cos()) / 2.0;
            let rate = settings.plan.schedule.rate(step) * factor;
            let position = Position { seed: settings.seed, replica: k as u32, step };
            toy.step(&data.next().unwrap().unwrap(), Step { rate, position }).unwrap();
        }
        let last = step + 1 == settings.plan.max_steps.get();
        if last || (step + 1) % settings.plan.sync_period.get() == 0 {
            let points: Vec<Vec<f32>> = toys.iter().map(|toy| toy.point().to_vec()).collect();
            for (k, toy) in toys.iter_mut().enumerate() {
                let (own, other) = (&points[k], &points[(k + models - 1) % models]);
                let gain = entropy(own) - entropy(other);
                let alpha = 0.4 / std::f64::consts::PI * (500.0 * gain).atan() + 0.5;
                let mix = |(a, b): (&f32, &f32)| {
                    (alpha * f64::from(*a) + (1.0 - alpha) * f64::from(*b)) as f32
                };
                let mixed: Vec<f32> = own.iter().zip(other).map(mix).collect();
                toy.load(&named("w", &[SIZE], &mixed)).unwrap();
            }
            cycles.push(points);
        }
    }
    cycles
}

fn entropy(values: &[f32]) -> f64 {
    let (low, high) = values.iter().fold((f32::MAX, f32::MIN), |(l, h), x| (l.min(*x), h.max(*x)));
    let (low, high) = (f64::from(low), f64::from(high));
    let mut counts = BTreeMap::new();
    for value in values {
        let bin = ((f64::from(*value) - low) / (high - low) * 10.0) as usize;
        *counts.entry(bin.min(9)).or_insert(0.0) += 1.0 / values.len() as f64;
    }
    -counts.values().map(|p: &f64| p * p.ln()).sum::<f64>()
}

#[test]
fn networks_that_graft_in_threads_equal_a_sequential_run() {
    let mut settings = settings();
    settings.plan.num_models = NonZeroUsize::new(3).unwrap();
    settings.plan.windows.clear();
    settings.candidates = Candidates::Models;
    let folder = tempfile::tempdir().unwrap();
    let technique = |i| Box::new(Grafting::new(0.4, 500.0, i, 3)) as Box<dyn Technique>;
    let faults = |_| Some(Fault::Bent);
    let outcome = train_by(folder.path(), &settings, &technique, &faults, &Mutex::default());
    let Outcome::Finished(summary) = outcome.unwrap() else { panic!("not interrupted") };
    let cycles = grafted_sequentially(3);
    let chosen = summary.chosen.unwrap();
    let model = chosen.model.unwrap();
    let found = bits(&folder.path().join("best.safetensors"), "w");
    let expected: Vec<u32> = cycles[chosen.cycle - 1][model].iter().map(|x| x.to_bits()).collect();
    assert_eq!(found, expected, "the best network as it was before the grafting");
    // Every network in every cycle, by their averages.
    assert_eq!(cycles.len(), 5);
    for (number, points) in cycles.iter().enumerate() {
        let points: Vec<Weights> = points.iter().map(|p| named("w", &[SIZE], p)).collect();
        let points: Vec<&Weights> = points.iter().collect();
        let average = values(&mean(&points, Statistics::Omit).unwrap(), "w");
        let expected: Vec<u32> = average.iter().map(|x| x.to_bits()).collect();
        assert_eq!(outer(folder.path(), number + 1), expected, "cycle {}", number + 1);
    }
    assert_eq!((summary.test.inner.len(), summary.test.outer), (3, None));
    let best = summary.validation.chosen.unwrap();
    // The last cycle was judged as well.
    assert!(summary.validation.inner.iter().all(|model| model.top1 <= best.top1));
}

/// Three convolutions, of 2, 4 and 2 filters; a batch norm behind the second; a last layer. The
/// gradient is one everywhere.
struct Filters {
    weights: Weights,
    momentum: Weights,
}

impl Filters {
    /// Not in the order of the names.
    const TENSORS: [(&str, &[usize]); 6] = [
        ("stem.weight", &[2, 1, 1, 2]),
        ("conv.weight", &[4, 2, 1, 2]),
        ("bn.weight", &[4]),
        ("bn.bias", &[4]),
        ("again.weight", &[2, 4, 1, 1]),
        ("a.fc.weight", &[4, 4]),
    ];

    fn new() -> Self {
        let filled = |value: fn(&str, usize) -> f32| {
            let mut weights = Weights::new();
            for (name, shape) in Self::TENSORS {
                let count = shape.iter().product();
                let values = (0..count).map(|i| value(name, i)).collect();
                weights.insert(name, Tensor::parameter(shape.to_vec(), values).unwrap()).unwrap();
            }
            weights
        };
        // The second convolution's first two filters are nearly parallel, the others less so
        // with any. The stem's are the same, the third convolution's orthogonal.
        const CONV: [f32; 16] = [3., 0., 0., 0., 3., 0.1, 0., 0., 0., 2., 0., 0., 1., -1., 0., 0.];
        let value = |name: &str, i: usize| match name {
            "conv.weight" => CONV[i],
            "again.weight" => [1., 0., 0., 0., 0., 1., 0., 0.][i],
            "bn.weight" => 1.0 + i as f32,
            _ => 0.5,
        };
        Self { weights: filled(value), momentum: filled(|_, _| 0.0) }
    }

    fn of(&self, name: &str) -> Vec<f32> {
        values(&self.weights, name)
    }

    fn dropped(&self, name: &str) -> Vec<usize> {
        silent(&self.weights, name)
    }
}

/// The filters that are zero.
fn silent(weights: &Weights, name: &str) -> Vec<usize> {
    let filters = values(weights, name);
    let length = filters.len() / weights.get(name).unwrap().shape()[0];
    let zero = |(_, filter): &(usize, &[f32])| filter.iter().all(|w| *w == 0.0);
    filters.chunks(length).enumerate().filter(zero).map(|(f, _)| f).collect()
}

impl Replica for Filters {
    fn weights(&self) -> Result<Weights, ReplicaError> {
        Ok(self.weights.clone())
    }

    fn load(&mut self, weights: &Weights) -> Result<(), ReplicaError> {
        self.weights = weights.clone();
        Ok(())
    }

    fn gradient(
        &mut self,
        _batch: &Batch,
        _at: Position,
        _statistics: RunningStatistics,
    ) -> Result<(StepStats, Weights), ReplicaError> {
        Ok((StepStats { loss: 1.0 }, self.weights.combined(&self.weights, |_, _| 1.0)?))
    }

    fn descend(&mut self, gradient: &Weights, rate: f64) -> Result<(), ReplicaError> {
        self.momentum = self.momentum.combined(gradient, |m, g| 0.9 * m + g)?;
        self.weights = self.weights.combined(&self.momentum, |w, m| w - rate * m)?;
        Ok(())
    }

    /// In the order of the network, which is not that of the names.
    fn parameters(&self) -> Result<Vec<String>, ReplicaError> {
        Ok(Self::TENSORS.map(|(name, _)| name.to_owned()).to_vec())
    }

    fn momentum(&self) -> Result<Weights, ReplicaError> {
        Ok(self.momentum.clone())
    }

    fn load_momentum(&mut self, momentum: &Weights) -> Result<(), ReplicaError> {
        self.momentum = momentum.clone();
        Ok(())
    }

    fn recalibrate(
        &mut self,
        _batches: &mut dyn Iterator<Item = Result<Batch, DataError>>,
        _tolerance: f64,
    ) -> Result<Recalibration, ReplicaError> {
        Ok(Recalibration::default())
    }

    fn evaluate(&mut self, _batch: &Batch) -> Result<Tally, ReplicaError> {
        Ok(Tally::default())
    }

    fn state(&self) -> Result<State, ReplicaError> {
        Ok(State { weights: self.weights()?, momentum: self.momentum()? })
    }

    fn restore(&mut self, state: &State) -> Result<(), ReplicaError> {
        self.load(&state.weights)?;
        self.load_momentum(&state.momentum)
    }
}

/// At a rate of almost nothing filters stay as they are.
fn slowly(number: u64) -> Step {
    Step { rate: 1e-6, position: Position { seed: 1, replica: 0, step: number } }
}

#[test]
fn filters_that_overlap_are_dropped_for_a_while_and_come_back() {
    let mut model = Filters::new();
    // A third of the six that are ranked.
    let mut repr = RePr::new(0.34, vec![Stage { drop: 2, revive: 5 }]);
    let images = batch(&[0.0]);
    for number in 0..2 {
        assert!(repr.state().unwrap().is_empty());
        repr.step(&mut model, &images, slowly(number), Descent::Plain).unwrap();
    }
    // Overlaps: about (1 + 0 + 0.7) / 4, (1 + 0.03 + 0.68) / 4, (0 + 0.03 + 0.71) / 4 and
    // (0.71 + 0.68 + 0.71) / 4: the last, and one of the first two. Those of the stem overlap
    // more, and are not looked at; those of the third convolution do not at all.
    let gone = model.dropped("conv.weight");
    assert_eq!((gone.len(), gone[1]), (2, 3), "{gone:?}");
    for number in 2..4 {
        repr.step(&mut model, &images, slowly(number), Descent::Plain).unwrap();
        for name in ["conv.weight", "bn.weight", "bn.bias"] {
            assert_eq!(model.dropped(name), gone, "{name}");
            assert_eq!(silent(&model.momentum, name), gone, "the momentum of {name}");
        }
        for name in ["stem.weight", "again.weight", "a.fc.weight"] {
            assert!(model.dropped(name).is_empty(), "{name}");
        }
    }
    let kept: Vec<usize> = (0..4).filter(|f| !gone.contains(f)).collect();
    repr.step(&mut model, &images, slowly(4), Descent::Plain).unwrap();
    assert!(model.dropped("conv.weight").is_empty() && repr.state().unwrap().is_empty());
    let filters = model.of("conv.weight");
    let filter = |f: usize| &filters[4 * f..4 * f + 4];
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let length = |f: usize| dot(filter(f), filter(f)).sqrt();
    let mean = (length(kept[0]) + length(kept[1])) / 2.0;
    for (number, new) in gone.iter().enumerate() {
        for other in kept.iter().chain(&gone[..number]) {
            assert!(dot(filter(*new), filter(*other)).abs() < 1e-5, "{new} and {other}");
        }
        assert!((length(*new) - mean).abs() < 1e-5);
        for name in ["bn.weight", "bn.bias"] {
            let values = model.of(name);
            let mean = (values[kept[0]] + values[kept[1]]) / 2.0;
            assert!((values[*new] - mean).abs() < 1e-6, "{name} is that of those that stayed");
        }
    }
    // The average of one model is that model.
    let outer = OuterWeights::from_checkpoint(repr.offered(&model).unwrap());
    let mut alone = ThreadGroup::new(1, Interrupt::new()).member(0);
    let before = model.weights.clone();
    repr.go_on(&mut model, &outer, &mut alone).unwrap();
    assert_eq!(model.weights, before);
}

#[test]
fn a_layer_loses_at_most_half_of_its_filters() {
    let mut model = Filters::new();
    let mut repr = RePr::new(0.5, vec![Stage { drop: 1, revive: 9 }]);
    repr.step(&mut model, &batch(&[0.0]), slowly(0), Descent::Plain).unwrap();
    // Three of six: the third convolution has to give one, although its do not overlap.
    let counts = ["stem.weight", "conv.weight", "again.weight"].map(|n| model.dropped(n).len());
    assert_eq!(counts, [0, 2, 1]);
}
