//! What this crate computes against what PyTorch computes.
//!
//! The bound for an error is, unless a test says otherwise, a multiple of the error
//! of PyTorch's own single precision; both against PyTorch in double precision and
//! relative to a tensor's largest value.
//!
//! The tests run with the best vectors of the CPU; one of them runs all others again with
//! every other level.

// Clippy's exception for tests does not reach the functions beside them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod batch_norm;
mod bounds;
mod convolutions;
mod cross_entropy;
mod initial;
mod networks;
#[path = "../noise/mod.rs"]
mod noise;
mod state_dicts;
mod training;
mod ways;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use burn::tensor::{Device, Tensor, TensorData};
use hwa_core::Weights;
use hwa_data::ImageShape;
use hwa_kernels::simd::Level;
use hwa_nn::{BurnReplica, Model, ModelSpec, SgdConfig, Task, names};
use serde::de::DeserializeOwned;

use noise::fill;

type ByName<T> = BTreeMap<String, T>;

/// Reads a golden file.
fn read<T: DeserializeOwned>(name: &str) -> T {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

const PLAIN: SgdConfig = SgdConfig { momentum: 0.9, weight_decay: 0.0 };

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn to_vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// A network of the zoo for square images, with the script's weights and without dropout, as
/// there.
struct Filled {
    spec: ModelSpec,
    task: Task,
    weights: Weights,
}

impl Filled {
    fn new(name: &str, size: usize, shifts: [f64; 2]) -> Self {
        let spec: ModelSpec = name.parse().unwrap();
        let images = ImageShape { height: size, width: size, channels: 3 };
        let task = Task { images, classes: 10 };
        let layout = names::export_parameters(&spec.blank(task).unwrap()).unwrap();
        Self { spec, task, weights: fill(&layout, shifts) }
    }

    fn replica(&self) -> BurnReplica<Model> {
        let replica = self.spec.build_from(self.task, &self.weights, PLAIN);
        replica.unwrap().without_dropout()
    }
}

/// In processes of their own: a process chooses its level once.
#[test]
fn every_level_of_vectors_is_as_near_to_pytorch() {
    let here = Level::chosen().unwrap();
    for level in Level::available().into_iter().filter(|level| *level != here) {
        let mut tests = Command::new(std::env::current_exe().unwrap());
        tests.env("HWA_SIMD", level.to_string()).args(["--skip", "every_level_of_vectors"]);
        // Its convolutions are those of the other VGG-16; and its linear layers, which take long,
        // are Burn's.
        tests.args(["--skip", "a_vgg16_bn"]);
        let ran = tests.output().unwrap();
        let told = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{level}: {told}");
        assert!(told.contains("a_resnet20_is_pytorchs ... ok"), "{level}: {told}");
    }
}
