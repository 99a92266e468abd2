//! With H = 1 and no batch norm, online averaging of a network is the large-batch step.
//!
//! All models begin a step at the same weights, so the mean of their gradients is the
//! gradient over the union of their batches; SGD is linear in the gradient.

// Clippy's exception for tests does not reach the functions beside them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;
use std::sync::{Arc, Mutex};

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hwa_core::seed::{Purpose, Random};
use hwa_core::{Decay, Plan, Schedule, Weights};
use hwa_data::{
    Batch, Channel, ImageShape, InMemory, Normalise, Position, Subset, TrainingBatches, Transform,
};
use hwa_nn::layers::{Conv2d, Conv2dShape, Linear};
use hwa_nn::ops::Convolution;
use hwa_nn::{BurnReplica, Features, Init, Network, NnError, Pass, SgdConfig, Task};
use hwa_store::{RunDir, read_tensors};
use hwa_train::{
    Checkpoints, Evaluate, Event, Every, Identity, Interrupt, MomentumAtSync, Observer,
    OnLostReplica, Outcome, Replica, Run, SealedTest, Settings, Step,
};

const STEPS: u64 = 20;
const MODELS: usize = 2;
const IMAGES: ImageShape = ImageShape { height: 8, width: 8, channels: 3 };
const TASK: Task = Task { images: IMAGES, classes: 4 };
const SGD: SgdConfig = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };

/// Two convolutions with bias and a linear layer: nothing depends on the batch.
#[derive(Module, Debug)]
struct SmallNet {
    conv1: Conv2d,
    conv2: Conv2d,
    linear: Linear,
}

impl SmallNet {
    fn new(init: &mut Init) -> Result<Self, NnError> {
        let shape = |input, output, stride| {
            let form = Convolution { stride, padding: 1, groups: 1 };
            Conv2dShape { input, output, kernel: 3, form }
        };
        Ok(Self {
            conv1: Conv2d::new(shape(3, 8, 1), init)?.with_bias(),
            conv2: Conv2d::new(shape(8, 16, 2), init)?.with_bias(),
            linear: Linear::new(16, TASK.classes, init)?,
        })
    }
}

impl Network for SmallNet {
    fn forward(&self, images: Tensor<4>, pass: &mut Pass) -> Tensor<2> {
        let x = Features::of(images).conv(&self.conv1).relu().conv(&self.conv2).relu();
        self.linear.forward(x.global_average(pass))
    }
}

fn replica(number: u32) -> BurnReplica<SmallNet> {
    let network = SmallNet::new(&mut Init::new(3, number, &Device::flex())).unwrap();
    BurnReplica::new(network, TASK, SGD).unwrap()
}

/// 40 images of noise; a part of each that grows with its class is brighter.
fn images(number: u64) -> Subset {
    let mut random = Random::new(1, 0, Purpose::Augment, [number, 0]);
    let labels: Vec<u32> = (0..40).map(|i| i % 4).collect();
    let mut pixels = Vec::with_capacity(labels.len() * IMAGES.len());
    for &label in &labels {
        for place in 0..IMAGES.len() {
            let bright = if place < 48 * label as usize { 128.0 } else { 64.0 };
            pixels.push((bright + 100.0 * random.unit()) as u8);
        }
    }
    Subset::all(Arc::new(InMemory::new(IMAGES, TASK.classes, pixels, labels).unwrap()))
}

fn transform() -> Transform {
    let channels = vec![Channel { mean: 0.5, std: 0.2 }; 3];
    Transform::plain(Normalise::new(channels).unwrap())
}

fn settings() -> Settings {
    Settings {
        seed: 1,
        plan: Plan {
            num_models: NonZeroUsize::new(MODELS).unwrap(),
            max_steps: NonZeroU64::new(STEPS).unwrap(),
            sync_period: NonZeroU64::MIN,
            schedule: Schedule::new(0.1, Decay::Cosine { floor: 0.0 }, STEPS).unwrap(),
            windows: vec![],
        },
        // Divides the 40 images: a union of batches of two sizes would weigh them differently.
        batch: NonZeroUsize::new(8).unwrap(),
        init: hwa_train::Init::Shared,
        descent: hwa_train::Descent::Plain,
        candidates: hwa_train::Candidates::Averages,
        patience: None,
        evaluate: Evaluate {
            every: Every::Cycles(NonZeroUsize::new(100).unwrap()),
            tolerance: 0.01,
            augment: true,
            inner: false,
            train_images: None,
            test_curve: false,
        },
        checkpoints: Checkpoints {
            outer_every: NonZeroUsize::MIN,
            inner_cycles: vec![],
            inner_every: None,
            state_every: NonZeroU64::new(STEPS).unwrap(),
        },
        on_lost_replica: OnLostReplica::Stop,
    }
}

struct Nobody;

impl Observer for Nobody {
    fn observe(&mut self, _event: &Event) {}
}

fn train(path: &Path, settings: &Settings, momentum: MomentumAtSync) {
    let dir = RunDir::create(path).unwrap();
    let run = Run {
        settings,
        train: images(0),
        validation: images(1),
        test: SealedTest::new(images(2)),
        transform: transform(),
        build: &|number| Ok(Box::new(replica(number))),
        technique: &|_| Box::new(hwa_train::Averaging { momentum }),
        about: Default::default(),
        dir: &dir,
        identity: Identity {
            experiment: "large batch".into(),
            arithmetic: hwa_nn::arithmetic(),
            allow_other_arithmetic: false,
        },
        threads_per_model: 1,
        observer: &Mutex::new(Nobody),
        interrupt: Interrupt::default(),
    };
    assert!(matches!(run.train().unwrap(), Outcome::Finished(_)));
}

fn batches(settings: &Settings, replica: usize) -> impl Iterator<Item = Batch> {
    let from = Position { seed: settings.seed, replica: replica as u32, step: 0 };
    TrainingBatches::new(images(0), transform(), settings.batch, from).unwrap().map(Result::unwrap)
}

/// The largest difference between any weights, after any step, of a run with H = 1 and
/// one model that steps on the union of all models' batches.
fn difference_to_large_batch(momentum: MomentumAtSync) -> f32 {
    let settings = settings();
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &settings, momentum);
    let mut large = replica(0);
    let mut data: Vec<_> = (0..MODELS).map(|k| batches(&settings, k)).collect();
    let mut worst = 0.0f32;
    for step in 0..STEPS {
        let mut union = data[0].next().unwrap();
        for other in &mut data[1..] {
            let other = other.next().unwrap();
            union.images.extend(other.images);
            union.labels.extend(other.labels);
        }
        let position = Position { seed: settings.seed, replica: 0, step };
        let rate = settings.plan.schedule.rate(step);
        large.step(&union, Step { rate, position }).unwrap();
        let outer = format!("checkpoints/outer-{:06}.safetensors", step + 1);
        let (outer, _) = read_tensors(&folder.path().join(outer)).unwrap();
        worst = largest_difference(&outer, &large.weights().unwrap()).max(worst);
    }
    worst
}

fn largest_difference(left: &Weights, right: &Weights) -> f32 {
    left.ensure_same_layout(right).unwrap();
    let mut worst = 0.0;
    for (name, tensor) in right.iter() {
        let expected = tensor.as_f32().unwrap();
        let found = left.require(name).unwrap().as_f32().unwrap();
        for difference in found.iter().zip(expected).map(|(a, b)| (a - b).abs()) {
            assert!(difference.is_finite(), "{name}");
            worst = difference.max(worst);
        }
    }
    worst
}

#[test]
fn averaging_a_network_every_step_is_the_large_batch_step_unless_momentum_is_reset() {
    let found = [MomentumAtSync::Keep, MomentumAtSync::Average, MomentumAtSync::Reset]
        .map(difference_to_large_batch);
    assert!(found[0] < 1e-6, "kept: {:e}", found[0]);
    assert!(found[1] < 1e-6, "averaged: {:e}", found[1]);
    assert!(found[2] > 1e-2, "reset: {:e}", found[2]);
}
