//! A Burn module of one's own as a replica: a small convolutional network learns to
//! tell bright left halves from bright right halves.
//!
//! Run: `cargo run -p hwa-nn --example own_module`

#![allow(clippy::print_stdout)]

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use hwa_core::seed::{Purpose, Random};
use hwa_data::{Batch, ImageShape, Position};
use hwa_nn::{BurnReplica, Init, Network, Pass, SgdConfig, Task};
use hwa_train::{Replica, Step};

const IMAGES: ImageShape = ImageShape { height: 8, width: 8, channels: 1 };

#[derive(Module, Debug)]
struct SmallNet {
    conv: Conv2d,
    linear: Linear,
}

impl SmallNet {
    /// Burn's own generator is shared between threads, so models built side by side
    /// would differ: the beginning is drawn from `Init` instead.
    fn new(init: &mut Init) -> Self {
        let device = init.device().clone();
        let mut conv = Conv2dConfig::new([1, 4], [3, 3]).with_bias(false).init(&device);
        conv.weight = Param::from_tensor(init.normal([4, 1, 3, 3], 0.4));
        let mut linear = LinearConfig::new(4 * 6 * 6, 2).with_bias(false).init(&device);
        linear.weight = Param::from_tensor(init.uniform([4 * 6 * 6, 2], 1.0 / 12.0));
        Self { conv, linear }
    }
}

// All that makes a replica of it.
impl Network for SmallNet {
    fn forward(&self, images: Tensor<4>, _pass: &mut Pass) -> Tensor<2> {
        // Burn's layers want [N, C, H, W].
        let x = relu(self.conv.forward(images.permute([0, 3, 1, 2])));
        self.linear.forward(x.flatten(1, 3))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let network = SmallNet::new(&mut Init::new(1, 0, &Device::flex()));
    let task = Task { images: IMAGES, classes: 2 };
    let config = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };
    let mut replica = BurnReplica::new(network, task, config)?;

    for (name, tensor) in replica.weights()?.iter() {
        println!("{name:15} {:?}", tensor.shape());
    }
    for step in 0..20 {
        let position = Position { seed: 1, replica: 0, step };
        let loss = replica.step(&halves(step), Step { rate: 0.02, position })?.loss;
        println!("step {step:2}: loss {loss:.4}");
    }
    let tally = replica.evaluate(&halves(1000))?;
    println!("{} of {} unseen images right", tally.top1, tally.images);
    Ok(())
}

/// 32 noisy images, each with one bright half: class 0 left, class 1 right.
fn halves(number: u64) -> Batch {
    let mut random = Random::new(1, 0, Purpose::Augment, [number, 0]);
    let labels: Vec<u32> = (0..32).map(|_| random.below(2) as u32).collect();
    let mut images = Vec::with_capacity(labels.len() * IMAGES.len());
    for &label in &labels {
        for pixel in 0..IMAGES.len() {
            let right = pixel % IMAGES.width >= IMAGES.width / 2;
            let bright = if right == (label == 1) { 0.5 } else { -0.5 };
            images.push((bright + random.normal()) as f32);
        }
    }
    Batch { images, labels, shape: IMAGES }
}
