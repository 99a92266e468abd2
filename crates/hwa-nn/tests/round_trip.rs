//! Networks that PyTorch saved are read here, and the other way round.
//!
//! A small one is part of the repository. All of them at full size need a Python with
//! PyTorch and torchvision, and a few minutes:
//!
//! ```text
//! HWA_PYTHON=<python> cargo test --release -p hwa-nn --test round_trip -- --ignored
//! ```

// Clippy's exception for tests does not reach the functions beside them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)] // Other tests use the rest of it.
mod noise;

use std::path::{Path, PathBuf};
use std::process::Command;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use hwa_core::{Role, Tensor as NamedTensor, ValueType, Values, Weights};
use hwa_data::ImageShape;
use hwa_nn::{
    BurnReplica, Head, Mode, Model, ModelSpec, Network, Origin, Pass, Precision, SgdConfig, Task,
    names,
};
use hwa_store::{Metadata, read_checkpoint, read_tensors, write_tensors};
use noise::{IMAGES, batch, noise_f32};
use serde::Deserialize;

const SGD: SgdConfig = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };
const ORIGIN: Origin = Origin { seed: 1, replica: 0 };

/// What two ways of rounding may make of scores, relative to the largest.
const SCORES: f64 = 1e-4;

/// Files that are read here; of these, safetensors are written, too.
const SUFFIXES: [&str; 2] = ["safetensors", "pt"];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A replica with the weights of a file that may come from anywhere.
fn read(spec: ModelSpec, task: Task, path: &Path) -> BurnReplica<Model> {
    let found = read_checkpoint(path).unwrap().weights;
    let adapted = spec.adapt(found, task, ORIGIN, Head::Kept).unwrap();
    assert!(adapted.fresh.is_empty());
    spec.build_from(task, &adapted.weights, SGD).unwrap()
}

/// Of two images, as `evaluated` in the script.
fn scores(replica: &BurnReplica<Model>) -> Vec<f64> {
    let size = replica.task().images.height;
    let images = TensorData::new(batch(IMAGES, 2, size).images, [2, size, size, 3]);
    let mut pass = Pass::new(Mode::Evaluate).with_precision(Precision::Exact);
    let images = Tensor::from_data(images, &Device::flex());
    let scores = replica.network().valid().forward(images, &mut pass);
    scores.into_data().iter::<f64>().collect()
}

fn error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let differences = found.iter().zip(expected).map(|(f, e)| (f - e).abs());
    differences.fold(0.0, f64::max) / expected.iter().fold(0.0, |most, e| e.abs().max(most))
}

#[test]
fn a_network_that_pytorch_saved_in_half_precision_gives_its_scores() {
    #[derive(Deserialize)]
    struct Golden {
        size: usize,
        scores: Vec<f64>,
        torch_error: f64,
    }
    let text = std::fs::read_to_string(golden().join("resnet8_f16.json")).unwrap();
    let Golden { size, scores: expected, torch_error } = serde_json::from_str(&text).unwrap();
    let path = golden().join("resnet8_f16.safetensors");
    let (found, _) = read_tensors(&path).unwrap();
    assert_eq!(found.require("conv1.weight").unwrap().values().value_type(), ValueType::F16);

    let images = ImageShape { height: size, width: size, channels: 3 };
    let replica = read("resnet8".parse().unwrap(), Task { images, classes: 10 }, &path);
    let weights = names::export(replica.network()).unwrap();
    let counter = weights.require("layer3.0.bn2.num_batches_tracked").unwrap();
    assert_eq!(counter.values(), &Values::I64(vec![7]));
    // Both sides compute in single precision: twice PyTorch's own error, or two last places.
    let (error, bound) = (error(&scores(&replica), &expected), (2.0 * torch_error).max(2.4e-7));
    assert!(error <= bound, "{error:e}, bound {bound:e}");
}

/// What PyTorch makes of two images, with the weights of a file that it saves or loads.
fn pytorch(what: &str, spec: ModelSpec, path: &Path) -> Vec<f64> {
    let python = std::env::var("HWA_PYTHON").expect("HWA_PYTHON names a Python with PyTorch");
    let task = spec.usual_task();
    let mut command = Command::new(python);
    command.arg("-B").arg(golden().join("round_trip.py")).args([what, &spec.to_string()]);
    command.args([task.classes, task.images.height].map(|number| number.to_string())).arg(path);
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{spec}: {}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Initial weights, and statistics that are not those that every layer begins with.
fn trained_looking(spec: ModelSpec) -> Weights {
    let network = spec.network(spec.usual_task(), ORIGIN).unwrap();
    let mut weights = Weights::new();
    for (stream, (name, tensor)) in names::export(&network).unwrap().into_iter().enumerate() {
        let (stream, count) = (3000 + stream as u64, tensor.values().len());
        let values = match tensor.role() {
            Role::Parameter => tensor.values().clone(),
            Role::Counter => Values::I64(vec![7]),
            Role::Statistic if name.ends_with("running_var") => {
                Values::F32(noise_f32(stream, count, 0.5, 1.0))
            }
            Role::Statistic => Values::F32(noise_f32(stream, count, 0.2, 0.0)),
        };
        let tensor = NamedTensor::new(tensor.role(), tensor.shape().to_vec(), values).unwrap();
        weights.insert(name, tensor).unwrap();
    }
    weights
}

#[test]
#[ignore = "needs a Python with PyTorch in HWA_PYTHON, and minutes"]
fn every_network_goes_to_pytorch_and_gives_the_same_scores_there() {
    let folder = tempfile::tempdir().unwrap();
    for spec in ModelSpec::all() {
        let weights = trained_looking(spec);
        let here = scores(&spec.build_from(spec.usual_task(), &weights, SGD).unwrap());
        let path = folder.path().join("weights.safetensors");
        write_tensors(&path, &weights, &Metadata::new()).unwrap();
        let error = error(&pytorch("load", spec, &path), &here);
        assert!(error < SCORES, "{spec}: {error:e}");
    }
}

#[test]
#[ignore = "needs a Python with PyTorch in HWA_PYTHON, and minutes"]
fn every_network_comes_from_pytorch_and_gives_the_same_scores_here() {
    let folder = tempfile::tempdir().unwrap();
    for (spec, suffix) in
        ModelSpec::all().into_iter().flat_map(|spec| SUFFIXES.map(|suffix| (spec, suffix)))
    {
        let path = folder.path().join(format!("weights.{suffix}"));
        let there = pytorch("save", spec, &path);
        let error = error(&scores(&read(spec, spec.usual_task(), &path)), &there);
        assert!(error < SCORES, "{spec}, {suffix}: {error:e}");
    }
}
