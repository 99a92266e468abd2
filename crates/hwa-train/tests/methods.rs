//! What methods do in a step and at the end of a cycle: against PyTorch, and by hand.
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
    Averaging, Candidates, Descent, Ema, Grafting, Interrupt, Lookahead, Outcome, RePr,
    Recalibration, Replica, ReplicaError, RunningStatistics, Stage, State, Step, StepStats, Tally,
    Technique, ThreadGroup,
};
use serde::Deserialize;
use toy::{Fault, SIZE, Toy, bits, images, settings, train_by, transform};

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

/// The script's point, with SGD as PyTorch does it; `moves` counts what moves statistics.
struct Point {
    w: Vec<f32>,
    momentum: Vec<f32>,
    moves: usize,
}

impl Replica for Point {
    fn weights(&self) -> Result<Weights, ReplicaError> {
        Ok(named("w", &[4], &self.w))
    }

    fn load(&mut self, weights: &Weights) -> Result<(), ReplicaError> {
        self.w = values(weights, "w");
        Ok(())
    }

    fn gradient(
        &mut self,
        batch: &Batch,
        _at: Position,
        statistics: RunningStatistics,
    ) -> Result<(StepStats, Weights), ReplicaError> {
        self.moves += usize::from(statistics == RunningStatistics::Move);
        let pull = |(w, x): (&f32, &f32)| {
            let away = w - x;
            away + 0.08 * away * away * away
        };
        let gradient: Vec<f32> = self.w.iter().zip(&batch.images).map(pull).collect();
        Ok((StepStats { loss: 0.0 }, named("w", &[4], &gradient)))
    }

    fn descend(&mut self, gradient: &Weights, rate: f64) -> Result<(), ReplicaError> {
        for (i, pull) in values(gradient, "w").into_iter().enumerate() {
            self.momentum[i] = 0.9 * self.momentum[i] + pull + 5e-4 * self.w[i];
            self.w[i] -= rate as f32 * self.momentum[i];
        }
        Ok(())
    }

    fn momentum(&self) -> Result<Weights, ReplicaError> {
        Ok(named("w", &[4], &self.momentum))
    }

    fn load_momentum(&mut self, momentum: &Weights) -> Result<(), ReplicaError> {
        self.momentum = values(momentum, "w");
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

/// What a technique offers after every step, and how often statistics moved.
fn offered(mut technique: Box<dyn Technique>, descent: Descent) -> (Vec<Weights>, usize) {
    let mut model = Point { w: vec![1.0, 2.0, 3.0, 4.0], momentum: vec![0.0; 4], moves: 0 };
    technique.begin(&model).unwrap();
    let mut trace = Vec::new();
    for (step, target) in golden().targets.iter().enumerate() {
        technique.step(&mut model, &batch(target), at(step), descent).unwrap();
        trace.push(technique.offered(&model).unwrap());
    }
    (trace, model.moves)
}

fn assert_near(found: &[Weights], method: &str) {
    let expected = &golden().methods[method];
    assert_eq!(found.len(), expected.len());
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (found, expected) in values(found, "w").into_iter().zip(expected) {
            // PyTorch's are in double precision.
            let error = (f64::from(found) - expected).abs();
            assert!(error < 2e-6, "{method}, step {step}: {found} and {expected}");
        }
    }
}

#[test]
fn methods_are_pytorchs() {
    let sam = Descent::SharpnessAware { rho: 0.05 };
    let period = NonZeroU64::new(5).unwrap();
    let averaging = || Box::new(Averaging::default());
    assert_near(&offered(averaging(), Descent::Plain).0, "plain");
    assert_near(&offered(averaging(), sam).0, "sam");
    assert_near(&offered(Box::new(Lookahead::new(period, 0.8)), Descent::Plain).0, "lookahead");
    assert_near(&offered(Box::new(Ema::new(0.9)), Descent::Plain).0, "ema");
}

#[test]
fn the_plain_mean_of_samples_is_pytorchs_swa() {
    let (trace, _) = offered(Box::new(Averaging::default()), Descent::Plain);
    let samples: Vec<&Weights> = trace.iter().skip(4).step_by(5).collect();
    let expected = &golden().methods["swa"];
    for (number, _) in samples.iter().enumerate() {
        let found = mean(&samples[..=number], Statistics::Omit).unwrap();
        let expected = &expected[5 * number + 4];
        for (found, expected) in values(&found, "w").into_iter().zip(expected) {
            assert!((f64::from(found) - expected).abs() < 2e-6);
        }
    }
}

#[test]
fn schedules_are_pytorchs() {
    let restarts = |period, factor| Decay::Restarts { floor: 0.0, period, factor };
    let milestones = vec![6, 13];
    for (name, decay) in [
        ("cosine", Decay::Cosine { floor: 0.0 }),
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
    let (_, moves) = offered(Box::new(Averaging::default()), sam);
    assert_eq!(moves, golden().targets.len());
    // A gradient of zero has no direction to go in, and is no reason for NaN.
    let mut model = Point { w: vec![0.0; 4], momentum: vec![0.0; 4], moves: 0 };
    sam.step(&mut model, &batch(&[0.0; 4]), at(0)).unwrap();
    assert_eq!(model.w, [0.0; 4]);
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
    assert_eq!((summary.test.inner.len(), summary.test.outer), (3, None));
    let best = summary.validation.chosen.unwrap();
    // The last cycle was judged as well.
    assert!(summary.validation.inner.iter().all(|model| model.top1 <= best.top1));
}

/// Four filters of two weights each, with a batch norm and a last layer; the gradient is one
/// everywhere.
struct Filters {
    weights: Weights,
    momentum: Weights,
}

impl Filters {
    fn new(filters: [f32; 8]) -> Self {
        let tensors = |values: [&[f32]; 4]| {
            let mut weights = Weights::new();
            let shapes: [&[usize]; 4] = [&[4, 1, 1, 2], &[4], &[4], &[4, 4]];
            for ((name, shape), values) in Self::NAMES.into_iter().zip(shapes).zip(values) {
                let tensor = Tensor::parameter(shape.to_vec(), values.to_vec()).unwrap();
                weights.insert(name, tensor).unwrap();
            }
            weights
        };
        Self {
            weights: tensors([&filters, &[1.0; 4], &[0.5; 4], &[0.25; 16]]),
            momentum: tensors([&[0.0; 8], &[0.0; 4], &[0.0; 4], &[0.0; 16]]),
        }
    }

    const NAMES: [&str; 4] = ["z.conv.weight", "y.bn.weight", "x.bn.bias", "a.fc.weight"];

    fn of(&self, name: &str) -> Vec<f32> {
        values(&self.weights, name)
    }
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
        Ok(Self::NAMES.map(str::to_owned).to_vec())
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

#[test]
fn filters_that_overlap_are_dropped_for_a_while_and_come_back() {
    // The first two are nearly parallel, the others less so with any. A gradient of one at a
    // rate of almost nothing leaves that as it is.
    let step =
        |number: u64| Step { rate: 1e-6, position: Position { seed: 1, replica: 0, step: number } };
    let mut model = Filters::new([3.0, 0.0, 3.0, 0.1, 0.0, 2.0, 1.0, -1.0]);
    let mut repr = RePr::new(0.5, vec![Stage { drop: 2, revive: 5 }]);
    let images = batch(&[0.0]);
    for number in 0..2 {
        repr.step(&mut model, &images, step(number), Descent::Plain).unwrap();
    }
    // Overlaps: about (1 + 0 + 0.7) / 4, (1 + 0.03 + 0.68) / 4, (0 + 0.03 + 0.71) / 4 and
    // (0.71 + 0.68 + 0.71) / 4: the last, and one of the first two.
    let dropped = |model: &Filters| {
        let filters = model.of("z.conv.weight");
        (0..4).filter(|f| filters[2 * f] == 0.0 && filters[2 * f + 1] == 0.0).collect::<Vec<_>>()
    };
    let gone = dropped(&model);
    assert_eq!((gone.len(), gone[1]), (2, 3), "{gone:?}");
    for number in 2..4 {
        repr.step(&mut model, &images, step(number), Descent::Plain).unwrap();
        assert_eq!(dropped(&model), gone);
        for f in 0..4 {
            let silent = gone.contains(&f);
            assert_eq!(model.of("y.bn.weight")[f] == 0.0, silent);
            assert_eq!(model.of("x.bn.bias")[f] == 0.0, silent);
            assert_eq!(values(&model.momentum, "y.bn.weight")[f] == 0.0, silent);
        }
        assert!(model.of("a.fc.weight").iter().all(|w| *w != 0.0), "the last layer is no filter");
    }
    repr.step(&mut model, &images, step(4), Descent::Plain).unwrap();
    assert!(dropped(&model).is_empty() && repr.state().unwrap().is_empty());
    for f in gone {
        assert_eq!((model.of("y.bn.weight")[f], model.of("x.bn.bias")[f]), (1.0, 0.0));
    }
    // The average of one model is that model.
    let outer = OuterWeights::from_checkpoint(repr.offered(&model).unwrap());
    let mut alone = ThreadGroup::new(1, Interrupt::new()).member(0);
    let before = model.weights.clone();
    repr.go_on(&mut model, &outer, &mut alone).unwrap();
    assert_eq!(model.weights, before);
}
