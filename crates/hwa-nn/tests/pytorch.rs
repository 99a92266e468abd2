//! What this crate computes against what PyTorch computes.
//!
//! The bound for an error is, unless a test says otherwise, twice the error of
//! PyTorch's own single precision; both against PyTorch in double precision and
//! relative to a tensor's largest value.

// Clippy's exception for tests does not reach the functions beside them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod noise;

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use hwa_core::{Decay, Role, Schedule, ValueType};
use hwa_data::{Batch, DataError, ImageShape};
use hwa_nn::layers::BatchNorm;
use hwa_nn::ops::{self, Activation};
use hwa_nn::{BurnReplica, Init, Mode, Network, Pass, ResNet, Sgd, SgdConfig, Task, names};
use hwa_train::Replica;
use noise::{IMAGES, batch, fill, noise, noise_f32, values};
use serde::Deserialize;
use serde::de::DeserializeOwned;

type ByName<T> = BTreeMap<String, T>;

/// Two units in the last place of single precision: a floor for bounds that are
/// multiples of an error that may happen to be zero.
const LAST_PLACES: f64 = 2.4e-7;

/// Reads a golden file.
fn read<T: DeserializeOwned>(name: &str) -> T {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The largest difference, relative to the largest reference value.
fn relative_error(found: impl IntoIterator<Item = impl Into<f64>>, reference: &[f64]) -> f64 {
    let found: Vec<f64> = found.into_iter().map(Into::into).collect();
    assert_eq!(found.len(), reference.len());
    let largest = reference.iter().fold(0.0, |m: f64, r| m.max(r.abs()));
    let differences = found.iter().zip(reference).map(|(f, r)| (f - r).abs());
    let largest_difference = differences.fold(0.0, |m, d| if d > m || d.is_nan() { d } else { m });
    largest_difference / largest
}

const PLAIN: SgdConfig = SgdConfig { momentum: 0.9, weight_decay: 0.0 };

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn to_vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// A ResNet of depth `6 * blocks + 2` for 16 x 16 images, with the script's weights.
fn filled(blocks: usize) -> BurnReplica<ResNet> {
    let images = ImageShape { height: 16, width: 16, channels: 3 };
    let task = Task { images, classes: 10 };
    let network = ResNet::new(blocks, 3, 10, &mut Init::new(1, 0, &Device::flex())).unwrap();
    let mut replica = BurnReplica::new(network, task, PLAIN).unwrap();
    replica.load(&fill(&replica.weights().unwrap())).unwrap();
    replica
}

#[test]
fn the_state_dict_has_pytorchs_names_shapes_and_types() {
    #[derive(Deserialize)]
    struct Golden {
        tensors: ByName<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        shape: Vec<usize>,
        r#type: String,
    }
    let golden: Golden = read("state_dict.json");
    let found = filled(3).state().unwrap().weights;
    let names: Vec<&str> = found.iter().map(|(name, _)| name).collect();
    let expected: Vec<&str> = golden.tensors.keys().map(String::as_str).collect();
    assert_eq!(names, expected);
    for (name, expected) in &golden.tensors {
        let tensor = found.require(name).unwrap();
        assert_eq!(tensor.shape(), expected.shape, "{name}");
        let value_type = match expected.r#type.as_str() {
            "int64" => ValueType::I64,
            "float32" => ValueType::F32,
            other => panic!("{other}"),
        };
        assert_eq!(tensor.values().value_type(), value_type, "{name}");
        assert_eq!(tensor.role(), Role::infer(name, value_type), "{name}");
    }
}

#[derive(Module, Debug)]
struct TwoTensors {
    a: Param<Tensor<2>>,
    b: Param<Tensor<1>>,
}

#[test]
fn sgd_follows_pytorchs_trace() {
    #[derive(Deserialize)]
    struct Golden {
        trace: Vec<Step>,
    }
    #[derive(Deserialize)]
    struct Step {
        weights: ByName<Vec<f64>>,
        momentum: ByName<Vec<f64>>,
    }
    let golden: Golden = read("sgd.json");
    let device = Device::flex().autodiff();
    let mut module = TwoTensors {
        a: Param::from_tensor(tensor(noise_f32(0, 6, 1.0, 0.0), [3, 2], &device)),
        b: Param::from_tensor(tensor(noise_f32(1, 5, 1.0, 0.0), [5], &device)),
    };
    let mut sgd = Sgd::new(SgdConfig { momentum: 0.9, weight_decay: 5e-4 });
    for (number, expected) in golden.trace.iter().enumerate() {
        let stream = 100 + 10 * number as u64;
        // The gradient of sum(a * g) is g.
        let a = module.a.val() * tensor(noise_f32(stream, 6, 1.0, 0.0), [3, 2], &device);
        let b = module.b.val() * tensor(noise_f32(stream + 1, 5, 1.0, 0.0), [5], &device);
        let gradients = (a.sum() + b.sum()).backward();
        module = sgd.step(module, gradients, 0.1 / (number + 1) as f64);
        let weights = names::export(&module).unwrap();
        let momentum = sgd.momentum(&module).unwrap();
        for name in ["a", "b"] {
            for (found, expected) in
                [(&weights, &expected.weights), (&momentum, &expected.momentum)]
            {
                let error = relative_error(values(found, name).iter().copied(), &expected[name]);
                assert!(error < 4.0 * LAST_PLACES, "{name} after step {number}: {error:e}");
            }
        }
    }
}

#[test]
fn the_cosine_schedule_is_pytorchs() {
    #[derive(Deserialize)]
    struct Golden {
        peak: f64,
        floor: f64,
        rates: Vec<f64>,
    }
    let golden: Golden = read("cosine.json");
    let decay = Decay::Cosine { floor: golden.floor };
    let schedule = Schedule::new(golden.peak, decay, golden.rates.len() as u64).unwrap();
    for (step, expected) in golden.rates.iter().enumerate() {
        // PyTorch multiplies its way from rate to rate, so its own rounding adds up.
        let found = schedule.rate(step as u64);
        assert!((found / expected - 1.0).abs() < 1e-12, "step {step}: {found} against {expected}");
    }
}

#[test]
fn cross_entropy_and_its_gradient_are_pytorchs() {
    #[derive(Deserialize)]
    struct Golden {
        classes: usize,
        labels: Vec<i64>,
        loss: f64,
        gradient: Vec<f64>,
    }
    let golden: Golden = read("cross_entropy.json");
    let device = Device::flex().autodiff();
    let shape = [golden.labels.len(), golden.classes];
    let scores = noise_f32(0, shape[0] * shape[1], 8.0, 0.0);
    let scores = tensor(scores, shape, &device).require_grad();
    let labels = TensorData::new(golden.labels.clone(), [shape[0]]);
    let loss = ops::cross_entropy(scores.clone(), Tensor::<1, Int>::from_data(labels, &device));
    let gradient = scores.grad(&loss.backward()).unwrap();
    assert!((loss.into_scalar::<f64>() / golden.loss - 1.0).abs() < LAST_PLACES);
    let error = relative_error(to_vec(gradient), &golden.gradient);
    assert!(error < 2.0 * LAST_PLACES, "{error:e}");
}

#[test]
fn batch_norm_with_residual_and_relu_is_pytorchs_even_with_large_means() {
    #[derive(Deserialize)]
    struct Golden {
        sizes: Vec<usize>,
        runs: Vec<ByName<Checked>>,
    }
    #[derive(Deserialize)]
    struct Checked {
        values: Vec<f64>,
        torch_error: f64,
    }
    let golden: Golden = read("batch_norm.json");
    // How the mean of one batch is rounded is luck: PyTorch's worst over the batches counts.
    let check = |run: &ByName<Checked>, name: &str, found: Vec<f32>| {
        let errors = golden.runs.iter().filter_map(|run| run.get(name)).map(|c| c.torch_error);
        let bound = 2.0 * errors.fold(0.0, f64::max) + LAST_PLACES;
        let error = relative_error(found, &run[name].values);
        assert!(error <= bound, "{name}: {error:e}, bound {bound:e}");
    };
    let device = Device::flex().autodiff();
    let nhwc = |stream, images: usize, mean| {
        tensor(noise_f32(stream, images * 48, 1.0, mean), [images, 4, 4, 3], &device)
    };
    let mut layer = BatchNorm::new(3, &Init::new(0, 0, &device)).unwrap();
    layer.weight = Param::from_tensor(tensor(noise_f32(0, 3, 0.5, 1.0), [3], &device));
    layer.bias = Param::from_tensor(tensor(noise_f32(1, 3, 0.5, 0.0), [3], &device));
    for (number, (&images, run)) in golden.sizes.iter().zip(&golden.runs).enumerate() {
        let stream = number as u64;
        let x = nhwc(10 + stream, images, 100.0 * (1 + number) as f64).require_grad();
        let residual = nhwc(20 + stream, images, 0.0).require_grad();
        let mut pass = Pass::new(Mode::Train);
        let y = layer.forward_add(x.clone(), residual.clone(), Activation::Relu, &mut pass);
        let gradients = (y.clone() * nhwc(30 + stream, images, 0.0)).sum().backward();
        check(run, "output", to_vec(y));
        check(run, "x_gradient", to_vec(x.grad(&gradients).unwrap()));
        check(run, "residual_gradient", to_vec(residual.grad(&gradients).unwrap()));
        check(run, "weight_gradient", to_vec(layer.weight.grad(&gradients).unwrap()));
        check(run, "bias_gradient", to_vec(layer.bias.grad(&gradients).unwrap()));
        layer = pass.move_statistics(layer);
        check(run, "running_mean", to_vec(layer.running_mean.val()));
        check(run, "running_var", to_vec(layer.running_var.val()));
        let batches: i64 = layer.num_batches_tracked.val().into_scalar();
        assert_eq!(batches, 1 + number as i64);
    }
    let mut pass = Pass::new(Mode::Evaluate);
    let y = layer.forward(nhwc(10, 6, 100.0), Activation::None, &mut pass);
    check(&golden.runs[golden.sizes.len()], "evaluated", to_vec(y));
}

#[derive(Deserialize)]
struct ResNet20 {
    images: u64,
    loss: f64,
    scores: Vec<f64>,
    evaluated: Vec<f64>,
    gradients: ByName<Gradient>,
    statistics: ByName<Vec<f64>>,
    torch_loss_error: f64,
    torch_scores_error: f64,
    torch_evaluated_error: f64,
    torch_statistics_errors: ByName<f64>,
}

/// Some elements of a gradient, and signed sums over all of them.
#[derive(Deserialize)]
struct Gradient {
    shape: Vec<usize>,
    largest: f64,
    norm: f64,
    samples: Vec<f64>,
    projections: Vec<f64>,
    torch_error: f64,
    torch_projection_errors: Vec<f64>,
}

#[test]
fn a_resnet20_scores_and_moves_its_statistics_as_pytorchs_does() {
    let golden: ResNet20 = read("resnet20.json");
    let mut replica = filled(3);
    let batch = batch(golden.images, 8, 16);
    let device = Device::flex();
    let images = tensor(batch.images.clone(), [8, 16, 16, 3], &device);

    let mut pass = Pass::new(Mode::Recalibrate);
    let scores = to_vec(replica.network().valid().forward(images.clone(), &mut pass));
    let error = relative_error(scores, &golden.scores);
    assert!(error <= 2.0 * golden.torch_scores_error + LAST_PLACES, "scores: {error:e}");

    // A step of rate zero moves nothing but the statistics.
    let loss = replica.step(&batch, 0.0).unwrap().loss;
    let error = (loss / golden.loss - 1.0).abs();
    assert!(error <= 2.0 * golden.torch_loss_error + LAST_PLACES, "loss: {error:e}");
    let state = replica.state().unwrap().weights;
    for (name, expected) in &golden.statistics {
        let error = relative_error(values(&state, name).iter().copied(), expected);
        let bound = 2.0 * golden.torch_statistics_errors[name] + LAST_PLACES;
        assert!(error <= bound, "{name}: {error:e}, bound {bound:e}");
    }

    let mut pass = Pass::new(Mode::Evaluate);
    let scores = to_vec(replica.network().valid().forward(images, &mut pass));
    let error = relative_error(scores, &golden.evaluated);
    assert!(error <= 2.0 * golden.torch_evaluated_error + LAST_PLACES, "evaluated: {error:e}");
}

/// The error of one tensor is luck, as is PyTorch's; over all tensors the root mean
/// square may be twice PyTorch's, and no tensor may have twice PyTorch's worst.
#[test]
fn the_gradients_of_a_resnet20_are_as_exact_as_pytorchs() {
    let golden: ResNet20 = read("resnet20.json");
    let mut replica = filled(3);
    replica.step(&batch(golden.images, 8, 16), 0.0).unwrap();
    // Momentum was zero and there is no weight decay, so now it is the gradient.
    let gradients = replica.momentum().unwrap();
    assert_eq!(gradients.len(), golden.gradients.len());
    let (mut elements, mut sums) = (Errors::default(), Errors::default());
    for (name, expected) in &golden.gradients {
        let found = gradients.require(name).unwrap();
        assert_eq!(found.shape(), expected.shape, "{name}");
        let found = found.as_f32().unwrap();
        let at = |i: usize| f64::from(found[i * found.len() / expected.samples.len()]);
        let differences = expected.samples.iter().enumerate().map(|(i, s)| (at(i) - s).abs());
        elements.push(differences.fold(0.0, f64::max) / expected.largest, expected.torch_error);
        for (number, projection) in expected.projections.iter().enumerate() {
            let signs = noise(2000 + number as u64, found.len());
            let sum: f64 = found.iter().zip(signs).map(|(f, s)| f64::from(*f) * s.signum()).sum();
            let error = (sum - projection).abs() / expected.norm;
            sums.push(error, expected.torch_projection_errors[number].abs());
        }
    }
    elements.check("elements");
    sums.check("signed sums");
}

/// Errors found here beside PyTorch's.
#[derive(Default)]
struct Errors(Vec<(f64, f64)>);

impl Errors {
    fn push(&mut self, ours: f64, torch: f64) {
        self.0.push((ours, torch));
    }

    fn check(&self, what: &str) {
        let worst = |of: fn(&(f64, f64)) -> f64| self.0.iter().map(of).fold(0.0, f64::max);
        let square = |of: fn(&(f64, f64)) -> f64| self.0.iter().map(|e| of(e).powi(2)).sum::<f64>();
        let (ours, torch) = (worst(|e| e.0), worst(|e| e.1));
        assert!(ours <= 2.0 * torch, "{what}, worst: {ours:e} against {torch:e}");
        let (ours, torch) = (square(|e| e.0).sqrt(), square(|e| e.1).sqrt());
        assert!(ours <= 2.0 * torch, "{what}, all: {ours:e} against {torch:e}");
    }
}

#[test]
fn re_estimation_pools_over_batches_of_different_sizes() {
    #[derive(Deserialize)]
    struct Golden {
        sizes: Vec<usize>,
        layers: ByName<Layer>,
    }
    #[derive(Deserialize)]
    struct Layer {
        mean: Vec<f64>,
        variance: Vec<f64>,
    }
    let golden: Golden = read("pooled.json");
    let mut replica = filled(1);
    let sizes = golden.sizes.iter().enumerate();
    let mut batches = sizes.map(|(i, &n)| Ok::<Batch, DataError>(batch(IMAGES + i as u64, n, 16)));
    let found = replica.recalibrate(&mut batches, 0.0).unwrap();
    assert_eq!(found.images, 16);
    let state = replica.state().unwrap().weights;
    for (name, expected) in &golden.layers {
        // The mean is judged in units of the deviation: it may be near zero.
        let mean = values(&state, &format!("{name}.running_mean"));
        for (c, (found, expected_mean)) in mean.iter().zip(&expected.mean).enumerate() {
            let error = (f64::from(*found) - expected_mean).abs() / expected.variance[c].sqrt();
            assert!(error < 2e-6, "mean of {name}, channel {c}: {error:e}");
        }
        let variance = values(&state, &format!("{name}.running_var"));
        let error = relative_error(variance.iter().copied(), &expected.variance);
        assert!(error < 2e-6, "variance of {name}: {error:e}");
        let batches = state.require(&format!("{name}.num_batches_tracked")).unwrap();
        assert_eq!(*batches.values(), hwa_core::Values::I64(vec![3]));
    }
}
