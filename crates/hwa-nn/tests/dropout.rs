//! What the training loop relies on, of a replica with dropout: masks belong to a step of a
//! model, not to a moment or a thread.

// Clippy's exception for tests does not reach the functions beside them.
#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code)] // Other tests use the rest of it.
mod noise;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hwa_data::{ImageShape, Position};
use hwa_nn::layers::{BatchNorm, Conv2d, Conv2dShape, Dropout, Linear};
use hwa_nn::{BurnReplica, Features, Init, Network, NnError, Pass, SgdConfig, Task};
use hwa_train::{Replica, State, Step};
use noise::{IMAGES, batch};

const SGD: SgdConfig = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };
const SMALL: ImageShape = ImageShape { height: 8, width: 8, channels: 3 };
const TASK: Task = Task { images: SMALL, classes: 10 };

/// A convolution, and two linear layers with dropout before each.
#[derive(Module, Debug)]
struct Dropping {
    conv: Conv2d,
    bn: BatchNorm,
    first: Dropout,
    hidden: Linear,
    second: Dropout,
    output: Linear,
}

impl Dropping {
    fn new(init: &mut Init) -> Result<Self, NnError> {
        Ok(Self {
            conv: Conv2d::new(Conv2dShape::square(3, 3, 16), init)?,
            bn: BatchNorm::new(16, init)?,
            first: Dropout::new(0.2)?,
            hidden: Linear::new(16, 24, init)?,
            second: Dropout::new(0.5)?,
            output: Linear::new(24, 10, init)?,
        })
    }
}

impl Network for Dropping {
    fn forward(&self, images: Tensor<4>, pass: &mut Pass) -> Tensor<2> {
        let x = Features::of(images).conv(&self.conv).norm(&self.bn).relu();
        let x = x.global_average(pass);
        let x = self.hidden.forward(self.first.forward(x, pass));
        self.output.forward(self.second.forward(x, pass))
    }
}

/// Every replica begins with the same weights.
fn replica() -> BurnReplica<Dropping> {
    let network = Dropping::new(&mut Init::new(3, 0, &Device::flex())).unwrap();
    BurnReplica::new(network, TASK, SGD).unwrap()
}

/// Trains as one of a run's models.
fn train(replica: &mut dyn Replica, model: u32, steps: std::ops::Range<u64>) -> Vec<f64> {
    let one = |step| {
        let position = Position { seed: 1, replica: model, step };
        let at = Step { rate: 0.05, position };
        replica.step(&batch(IMAGES + step, 6, 8), at).unwrap().loss
    };
    steps.map(one).collect()
}

fn trained(model: u32, threads: usize) -> State {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut replica = replica();
        train(&mut replica, model, 0..3);
        replica.state().unwrap()
    })
}

#[test]
fn a_restored_replica_leaves_out_what_the_uninterrupted_one_does() {
    let mut whole = replica();
    train(&mut whole, 1, 0..3);
    let saved = whole.state().unwrap();
    let losses = train(&mut whole, 1, 3..6);

    let mut resumed = replica();
    resumed.restore(&saved).unwrap();
    assert_eq!(train(&mut resumed, 1, 3..6), losses);
    assert_eq!(resumed.state().unwrap(), whole.state().unwrap());
}

#[test]
fn models_that_begin_alike_leave_out_differently_and_threads_do_not_matter() {
    assert_eq!(trained(1, 1), trained(1, 3));
    assert_ne!(trained(1, 1).weights, trained(0, 1).weights);
}

#[test]
fn a_step_at_the_same_place_has_the_same_loss_and_at_another_one_not() {
    let loss = |step| {
        let position = Position { seed: 1, replica: 0, step };
        replica().step(&batch(IMAGES, 6, 8), Step { rate: 0.0, position }).unwrap().loss
    };
    assert_eq!(loss(4), loss(4));
    assert_ne!(loss(4), loss(5));
}

#[test]
fn looking_at_a_replica_changes_no_mask() {
    let mut looked_at = replica();
    train(&mut looked_at, 0, 0..2);
    let mut batches = (0..4).map(|i| Ok(batch(IMAGES + i, 6, 8)));
    let before = looked_at.state().unwrap();
    looked_at.evaluate(&batch(IMAGES, 6, 8)).unwrap();
    looked_at.recalibrate(&mut batches, 0.0).unwrap();
    looked_at.restore(&before).unwrap();
    let mut other = replica();
    train(&mut other, 0, 0..2);
    assert_eq!(train(&mut looked_at, 0, 2..4), train(&mut other, 0, 2..4));
    assert_eq!(looked_at.state().unwrap(), other.state().unwrap());
}

#[test]
fn without_dropout_the_place_of_a_step_does_not_matter() {
    let loss = |step| {
        let position = Position { seed: 1, replica: 0, step };
        let at = Step { rate: 0.0, position };
        replica().without_dropout().step(&batch(IMAGES, 6, 8), at).unwrap().loss
    };
    assert_eq!(loss(4), loss(5));
}
