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

mod noise;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use hwa_core::{Decay, Role, Schedule, ValueType, Weights};
use hwa_data::{Batch, DataError, ImageShape};
use hwa_kernels::simd::Level;
use hwa_nn::layers::{BatchNorm, Conv2d, Conv2dShape, Draw, Linear};
use hwa_nn::ops::{self, Activation, Convolution};
use hwa_nn::{
    BurnReplica, Features, Init, Mode, Model, ModelSpec, Network, Pass, Precision, Sgd, SgdConfig,
    Task, names,
};
use hwa_train::Replica;
use noise::{IMAGES, at, batch, fill, noise, noise_f32, values};
use serde::Deserialize;
use serde::de::DeserializeOwned;

type ByName<T> = BTreeMap<String, T>;

/// Two units in the last place of single precision: a floor for bounds that are
/// multiples of an error that may happen to be zero.
const LAST_PLACES: f64 = 2.4e-7;

/// How many times PyTorch's own error is allowed.
const TIMES: f64 = 2.0;

/// How many times with Winograd's transforms, which give digits for speed.
const FAST_TIMES: f64 = 6.0;

/// How many times with Burn's own operations.
const STANDARD_TIMES: f64 = 3.0;

fn bound(times: f64, torch_error: f64) -> f64 {
    (times * torch_error).max(LAST_PLACES)
}

/// Values in double precision, and the error of PyTorch's single precision.
#[derive(Deserialize)]
struct Checked {
    values: Vec<f64>,
    torch_error: f64,
}

/// The largest of some sizes; a NaN counts as larger than anything, where `f64::max`
/// would drop it.
fn largest(sizes: impl IntoIterator<Item = f64>) -> f64 {
    sizes.into_iter().fold(0.0, |most, size| if most.is_nan() || most > size { most } else { size })
}

#[test]
fn a_nan_is_the_largest_error_wherever_it_stands() {
    for sizes in [[f64::NAN, 1.0, 2.0], [1.0, f64::NAN, 2.0], [1.0, 2.0, f64::NAN]] {
        assert!(largest(sizes).is_nan());
    }
    assert_eq!(largest([1.0, 3.0, 2.0]), 3.0);
    assert!(relative_error([f64::NAN, 1.0], &[1.0, 1.0]).is_nan());
}

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
    let differences = found.iter().zip(reference).map(|(f, r)| (f - r).abs());
    largest(differences) / largest(reference.iter().map(|r| r.abs()))
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

/// A number, or the name of what is none.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Finite(f64),
    Named(String),
}

impl Value {
    fn get(&self) -> f64 {
        match self {
            Self::Finite(value) => *value,
            Self::Named(name) => name.parse().unwrap(),
        }
    }
}

/// Infinities and NaN in the same places; of the rest, the relative error.
fn error_of_numbers(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let is_same = |(f, e): (&f64, &f64)| f == e || f.is_nan() && e.is_nan();
    let pairs = || found.iter().zip(expected);
    if !pairs().filter(|(_, e)| !e.is_finite()).all(is_same) {
        return f64::INFINITY;
    }
    let (found, expected): (Vec<f64>, Vec<f64>) = pairs().filter(|(_, e)| e.is_finite()).unzip();
    if expected.is_empty() { 0.0 } else { relative_error(found, &expected) }
}

#[test]
fn cross_entropy_and_its_gradient_are_pytorchs_whatever_the_scores() {
    #[derive(Deserialize)]
    struct Golden {
        labels: Vec<u32>,
        cases: ByName<Case>,
    }
    #[derive(Deserialize)]
    struct Case {
        scores: Vec<Value>,
        loss: Value,
        gradient: Vec<Value>,
    }
    let golden: Golden = read("cross_entropy.json");
    let device = Device::flex().autodiff();
    let images = golden.labels.len();
    for (name, case) in golden.cases {
        for way in [Way::Kernels(Precision::default()), Way::Standard] {
            let scores: Vec<f32> = case.scores.iter().map(|score| score.get() as f32).collect();
            let shape = [images, scores.len() / images];
            let scores = tensor(scores, shape, &device).require_grad();
            let pass = way.pass(Mode::Train);
            let loss = ops::cross_entropy(scores.clone(), &golden.labels, &pass);
            let gradient = to_vec(scores.grad(&loss.backward()).unwrap());
            let error = error_of_numbers(&[loss.into_scalar::<f64>()], &[case.loss.get()]);
            assert!(error < LAST_PLACES, "loss, {name}, {way:?}: {error:e}");
            let gradient: Vec<f64> = gradient.into_iter().map(f64::from).collect();
            let expected: Vec<f64> = case.gradient.iter().map(Value::get).collect();
            let error = error_of_numbers(&gradient, &expected);
            assert!(error < 2.0 * LAST_PLACES, "gradient, {name}, {way:?}: {error:e}");
        }
    }
}

#[derive(Deserialize)]
struct ConvolutionCase {
    name: String,
    size: [usize; 2],
    channels: [usize; 2],
    kernel: usize,
    stride: usize,
    padding: usize,
    groups: usize,
    tensors: ByName<Checked>,
}

/// A way of running a network.
#[derive(Debug, Clone, Copy)]
enum Way {
    Kernels(Precision),
    Standard,
}

const WAYS: [Way; 3] =
    [Way::Kernels(Precision::Exact), Way::Kernels(Precision::Fast), Way::Standard];

/// Burn's own operations have no level of vectors: with the best is enough.
fn ways() -> impl Iterator<Item = Way> {
    let is_best = Level::chosen() == Ok(Level::best());
    WAYS.into_iter().filter(move |way| is_best || matches!(way, Way::Kernels(_)))
}

/// Whether the kernels multiply and add with one rounding: at every level but the portable one.
fn is_fused() -> bool {
    Level::chosen().unwrap() != Level::PORTABLE
}

impl Way {
    fn pass(self, mode: Mode) -> Pass {
        match self {
            Self::Kernels(precision) => Pass::new(mode).with_precision(precision),
            Self::Standard => Pass::new(mode).on_standard_operations(),
        }
    }

    fn replica(self, replica: BurnReplica<Model>) -> BurnReplica<Model> {
        match self {
            Self::Kernels(precision) => replica.with_precision(precision),
            Self::Standard => replica.on_standard_operations(),
        }
    }

    /// How many times PyTorch's error it may make.
    fn times(self) -> f64 {
        // Twice as many roundings, of which some undo others.
        let unfused = if is_fused() { 1.0 } else { 2f64.sqrt() };
        match self {
            Self::Kernels(Precision::Fast) => FAST_TIMES * unfused,
            Self::Kernels(Precision::Exact) => TIMES * unfused,
            Self::Standard => STANDARD_TIMES,
        }
    }
}

impl ConvolutionCase {
    /// Output and gradients, for the noise that the script takes for its case `number`.
    fn run(&self, number: usize, way: Way) -> [(&'static str, Vec<f32>); 4] {
        let device = Device::flex().autodiff();
        let stream = |i: u64| 10 * number as u64 + i;
        let draw = |i, shape: [usize; 4]| {
            tensor(noise_f32(stream(i), shape.iter().product(), 1.0, 0.0), shape, &device)
        };
        let ([height, width], [input, output]) = (self.size, self.channels);
        let x = draw(0, [2, height, width, input]).require_grad();
        let shape = [output, input / self.groups, self.kernel, self.kernel];
        let weight = draw(1, shape);
        let bias = tensor(noise_f32(stream(2), output, 1.0, 0.0), [output], &device);
        let form = Convolution { stride: self.stride, padding: self.padding, groups: self.groups };
        let shape = Conv2dShape { input, output, kernel: self.kernel, form };
        let mut layer = Conv2d::new(shape, &mut Init::new(0, 0, &device)).unwrap();
        layer.weight = Param::from_tensor(weight);
        layer.bias = Some(Param::from_tensor(bias));
        let (weight, bias) = (layer.weight.val(), layer.bias.as_ref().unwrap().val());
        let y = Features::of(x.clone()).conv(&layer).tensor(&mut way.pass(Mode::Train));
        let gradients = (y.clone() * draw(3, y.dims())).sum().backward();
        [
            ("output", to_vec(y)),
            ("x_gradient", to_vec(x.grad(&gradients).unwrap())),
            ("weight_gradient", to_vec(weight.grad(&gradients).unwrap())),
            ("bias_gradient", to_vec(bias.grad(&gradients).unwrap())),
        ]
    }
}

#[test]
fn convolutions_of_all_forms_and_their_gradients_are_pytorchs() {
    #[derive(Deserialize)]
    struct Golden {
        cases: Vec<ConvolutionCase>,
    }
    let golden: Golden = read("convolutions.json");
    for (number, case) in golden.cases.iter().enumerate() {
        for way in ways() {
            for (tensor, found) in case.run(number, way) {
                // The error of one small tensor is luck: PyTorch's worst over the cases counts.
                let errors = golden.cases.iter().map(|case| case.tensors[tensor].torch_error);
                let error = relative_error(found, &case.tensors[tensor].values);
                let (bound, name) = (bound(way.times(), largest(errors)), &case.name);
                assert!(error <= bound, "{tensor} of {name}, {way:?}: {error:e}, bound {bound:e}");
            }
        }
    }
}

/// A layer whose initial values are uniform.
#[derive(Deserialize)]
struct Uniform {
    input: usize,
    output: usize,
    bound: f64,
}

/// A convolution whose initial weights are normal, or uniform within a bound.
#[derive(Deserialize)]
struct Drawn<T> {
    input: usize,
    output: usize,
    kernel: usize,
    groups: usize,
    #[serde(flatten)]
    spread: T,
}

#[derive(Deserialize)]
struct Deviation {
    deviation: f64,
}

#[derive(Deserialize)]
struct Bound {
    bound: f64,
}

impl<T> Drawn<T> {
    fn shape(&self) -> Conv2dShape {
        let form = Convolution { stride: 1, padding: 1, groups: self.groups };
        Conv2dShape { input: self.input, output: self.output, kernel: self.kernel, form }
    }
}

fn in_units(values: Vec<f32>, unit: f64) -> Vec<f64> {
    values.into_iter().map(|value| f64::from(value) / unit).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn mean_square(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64
}

/// Checks values that are uniform in `[-1, 1)`, and so have variance 1 / 3: the limits are
/// five deviations of what is estimated. Draws come as near to both ends as `reach`.
fn check_uniform(values: &[f64], reach: f64) {
    let root = (values.len() as f64).sqrt();
    // The deviation of a square is sqrt(1 / 5 - 1 / 9).
    let (of_mean, of_square) = (5.0 * 0.578 / root, 5.0 * 0.299 / root);
    assert!(mean(values).abs() < of_mean, "{}", mean(values));
    assert!((mean_square(values) - 1.0 / 3.0).abs() < of_square, "{}", mean_square(values));
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(reach < high && high <= 1.0, "{high}");
    assert!(-1.0 <= low && low < -reach, "{low}");
}

#[test]
fn initial_values_come_from_pytorchs_ranges_and_use_them() {
    #[derive(Deserialize)]
    struct Golden {
        linear: Uniform,
        conv: Drawn<Deviation>,
        default_conv: Drawn<Bound>,
    }
    let golden: Golden = read("initial.json");
    let init = &mut Init::new(1, 0, &Device::flex());

    // The outer 0.2 % at each end are missed by 6,400 draws with probability 0.2 %, the
    // outer 10 % by 64 with 8 %; the seed is fixed.
    let Uniform { input, output, bound } = golden.linear;
    let linear = Linear::new(input, output, init).unwrap();
    assert_eq!(linear.weight.dims(), [100, 64]);
    check_uniform(&in_units(to_vec(linear.weight.val()), bound), 0.998);
    check_uniform(&in_units(to_vec(linear.bias.val()), bound), 0.9);

    let Drawn { spread: Bound { bound }, .. } = golden.default_conv;
    let conv = Conv2d::drawn(Draw::Uniform, golden.default_conv.shape(), init).unwrap();
    let conv = conv.with_bias_drawn(Draw::Uniform, init);
    assert_eq!(conv.weight.dims(), [64, 8, 5, 5]);
    check_uniform(&in_units(to_vec(conv.weight.val()), bound), 0.998);
    check_uniform(&in_units(to_vec(conv.bias.unwrap().val()), bound), 0.9);

    // Normal in units of its deviation: of 3,456 weights the mean's deviation is 0.017, the
    // mean square's 0.024, and 4.6 % lie outside of two.
    let Drawn { output, spread: Deviation { deviation }, .. } = golden.conv;
    let conv = Conv2d::drawn(Draw::He, golden.conv.shape(), init).unwrap();
    let conv = conv.with_bias_drawn(Draw::He, init);
    assert_eq!(to_vec(conv.bias.unwrap().val()), vec![0.0; output]);
    let weight = in_units(to_vec(conv.weight.val()), deviation);
    assert_eq!(weight.len(), 3_456);
    assert!(mean(&weight).abs() < 0.085, "{}", mean(&weight));
    assert!((mean_square(&weight) - 1.0).abs() < 0.12, "{}", mean_square(&weight));
    let outside = weight.iter().filter(|w| w.abs() > 2.0).count() as f64 / 3_456.0;
    assert!((outside - 0.0455).abs() < 0.018, "{outside}");

    // MobileNet's: of 6,400 weights the mean's deviation is 0.0125, the mean square's 0.018.
    let linear = Linear::normal(64, 100, 0.01, init).unwrap();
    assert_eq!(to_vec(linear.bias.val()), [0.0; 100]);
    let weight = in_units(to_vec(linear.weight.val()), 0.01);
    assert!(mean(&weight).abs() < 0.063, "{}", mean(&weight));
    assert!((mean_square(&weight) - 1.0).abs() < 0.09, "{}", mean_square(&weight));
}

#[derive(Deserialize)]
struct BatchNormCase {
    activation: String,
    /// The scale of the residual, 0 if there is none.
    residual: f64,
    sizes: Vec<usize>,
    runs: Vec<ByName<Checked>>,
}

impl BatchNormCase {
    fn check(&self, run: usize, name: &str, found: Vec<f32>) {
        // How the mean of one batch is rounded is luck: PyTorch's worst over the batches counts.
        let errors = self.runs.iter().filter_map(|run| run.get(name)).map(|c| c.torch_error);
        let bound = bound(TIMES, largest(errors));
        let error = relative_error(found, &self.runs[run][name].values);
        assert!(error <= bound, "{name} with {}: {error:e}, bound {bound:e}", self.activation);
    }

    /// Of images `[N, 4, 4, 6]`: what is normalised, then the residual.
    fn forward(&self, layer: &BatchNorm, images: Tensor<4>, pass: &mut Pass) -> Tensor<4> {
        let activation = match self.activation.as_str() {
            "none" => Activation::None,
            "relu" => Activation::Relu,
            "relu6" => Activation::Relu6,
            other => panic!("{other}"),
        };
        let images = Features::of(images);
        let (x, residual) = (images.channels(0..3).norm(layer), images.channels(3..6));
        let y = if self.residual == 0.0 { x } else { x + residual };
        y.activate(activation).tensor(pass)
    }

    /// Trains on the script's batches, then evaluates on the first.
    fn run(&self, way: Way) {
        let device = Device::flex().autodiff();
        let nhwc = |stream, images: usize, scale, mean| {
            tensor(noise_f32(stream, images * 48, scale, mean), [images, 4, 4, 3], &device)
        };
        let mut layer = BatchNorm::new(3, &Init::new(0, 0, &device)).unwrap();
        layer.weight = Param::from_tensor(tensor(noise_f32(0, 3, 0.5, 1.0), [3], &device));
        layer.bias = Param::from_tensor(tensor(noise_f32(1, 3, 0.5, 0.0), [3], &device));
        for (number, &images) in self.sizes.iter().enumerate() {
            let stream = number as u64;
            let mean = 100.0 * (1 + number) as f64;
            let x = nhwc(10 + stream, images, 1.0, mean).require_grad();
            let residual = nhwc(20 + stream, images, self.residual, 0.0).require_grad();
            let mut pass = way.pass(Mode::Train);
            let both = Tensor::cat(vec![x.clone(), residual.clone()], 3);
            let y = self.forward(&layer, both, &mut pass);
            let gradients = (y.clone() * nhwc(30 + stream, images, 1.0, 0.0)).sum().backward();
            let check = |name, found| self.check(number, name, found);
            check("output", to_vec(y));
            check("x_gradient", to_vec(x.grad(&gradients).unwrap()));
            if self.residual != 0.0 {
                check("residual_gradient", to_vec(residual.grad(&gradients).unwrap()));
            }
            check("weight_gradient", to_vec(layer.weight.grad(&gradients).unwrap()));
            check("bias_gradient", to_vec(layer.bias.grad(&gradients).unwrap()));
            layer = pass.move_statistics(layer);
            check("running_mean", to_vec(layer.running_mean.val()));
            check("running_var", to_vec(layer.running_var.val()));
            let batches: i64 = layer.num_batches_tracked.val().into_scalar();
            assert_eq!(batches, 1 + number as i64);
        }
        let (x, residual) = (nhwc(10, 6, 1.0, 100.0), nhwc(20, 6, self.residual, 0.0));
        let both = Tensor::cat(vec![x, residual], 3);
        let y = self.forward(&layer, both, &mut way.pass(Mode::Evaluate));
        self.check(self.sizes.len(), "evaluated", to_vec(y));
    }
}

#[test]
fn batch_norm_with_every_activation_is_pytorchs_even_with_large_means() {
    #[derive(Deserialize)]
    struct Golden {
        cases: Vec<BatchNormCase>,
    }
    let golden: Golden = read("batch_norm.json");
    assert_eq!(golden.cases.len(), 3);
    for case in &golden.cases {
        ways().for_each(|way| case.run(way));
    }
}

/// A network of PyTorch: its tensors, and one training step of it.
#[derive(Deserialize)]
struct Golden {
    shifts: [f64; 2],
    images: usize,
    size: usize,
    stream: u64,
    loss: f64,
    scores: Vec<f64>,
    evaluated: Vec<f64>,
    torch_loss_error: f64,
    torch_scores_error: f64,
    torch_evaluated_error: f64,
    gradients: ByName<Gradient>,
    statistics: ByName<Statistic>,
}

/// Some elements of a gradient, and signed sums over all of them.
#[derive(Deserialize)]
struct Gradient {
    largest: f64,
    norm: f64,
    samples: Vec<f64>,
    projections: Vec<f64>,
    /// Over the samples, as ours.
    torch_error: f64,
    torch_projection_errors: Vec<f64>,
}

/// Some elements of a running statistic.
#[derive(Deserialize)]
struct Statistic {
    samples: Vec<f64>,
    torch_error: f64,
}

/// So many elements, evenly spread, as `sampled` in the script.
fn sampled(values: &[f32], count: usize) -> impl Iterator<Item = f64> {
    (0..count).map(move |i| f64::from(values[i * values.len() / count]))
}

/// A network of the zoo beside PyTorch's, with so many times its error.
struct Case<'a> {
    golden: &'a Golden,
    way: Way,
}

impl Case<'_> {
    fn batch(&self) -> Batch {
        batch(self.golden.stream, self.golden.images, self.golden.size)
    }

    /// Scores by the batch's statistics or by the running ones.
    fn check_scores(&self, replica: &BurnReplica<Model>, mode: Mode) {
        let Golden { images, size, .. } = *self.golden;
        let images = tensor(self.batch().images, [images, size, size, 3], &Device::flex());
        let mut pass = self.way.pass(mode);
        let scores = to_vec(replica.network().valid().forward(images, &mut pass));
        let (expected, torch) = match mode {
            Mode::Evaluate => (&self.golden.evaluated, self.golden.torch_evaluated_error),
            _ => (&self.golden.scores, self.golden.torch_scores_error),
        };
        self.check_error(&format!("scores, {mode:?}"), relative_error(scores, expected), torch);
    }

    /// A step of rate zero moves nothing but the statistics; and momentum, which was zero and
    /// now is the gradient, as there is no weight decay.
    fn check_step(&self, replica: &mut BurnReplica<Model>) {
        let loss = replica.step(&self.batch(), at(0.0, 0)).unwrap().loss;
        let error = (loss / self.golden.loss - 1.0).abs();
        // A single number may be right by luck: it follows the scores.
        let torch = self.golden.torch_loss_error.max(self.golden.torch_scores_error);
        self.check_error("loss", error, torch);
        self.check_statistics(&names::export(replica.network()).unwrap());
        self.check_gradients(&replica.momentum().unwrap());
    }

    fn check_statistics(&self, found: &Weights) {
        let mut errors = Errors::default();
        for (name, expected) in &self.golden.statistics {
            let found = sampled(values(found, name), expected.samples.len());
            errors.push(relative_error(found, &expected.samples), expected.torch_error);
        }
        self.check_errors("statistics", &errors);
    }

    fn check_gradients(&self, found: &Weights) {
        assert_eq!(found.len(), self.golden.gradients.len());
        let (mut elements, mut sums) = (Errors::default(), Errors::default());
        for (name, expected) in &self.golden.gradients {
            let found = values(found, name);
            let pairs = sampled(found, expected.samples.len()).zip(&expected.samples);
            let difference = largest(pairs.map(|(found, sample)| (found - sample).abs()));
            elements.push(difference / expected.largest, expected.torch_error);
            for (number, projection) in expected.projections.iter().enumerate() {
                let signs = noise(2000 + number as u64, found.len());
                let signed = found.iter().zip(signs).map(|(f, s)| f64::from(*f) * s.signum());
                let error = (signed.sum::<f64>() - projection).abs() / expected.norm;
                sums.push(error, expected.torch_projection_errors[number]);
            }
        }
        self.check_errors("elements of gradients", &elements);
        self.check_errors("signed sums of gradients", &sums);
    }

    /// The error of one tensor is luck, as is PyTorch's: the worst of all and their root mean
    /// square count.
    fn check_errors(&self, what: &str, Errors { ours, torch }: &Errors) {
        let worst = |errors: &[f64]| largest(errors.iter().copied());
        self.check_error(&format!("{what}, worst"), worst(ours), worst(torch));
        let usual = |errors: &[f64]| mean_square(errors).sqrt();
        self.check_error(&format!("{what}, all"), usual(ours), usual(torch));
    }

    fn check_error(&self, what: &str, ours: f64, torch: f64) {
        let (way, bound) = (self.way, bound(self.way.times(), torch));
        assert!(ours <= bound, "{what}, {way:?}: {ours:e}, bound {bound:e}");
    }
}

/// Errors found here beside PyTorch's, tensor by tensor.
#[derive(Default)]
struct Errors {
    ours: Vec<f64>,
    torch: Vec<f64>,
}

impl Errors {
    fn push(&mut self, ours: f64, torch: f64) {
        self.ours.push(ours);
        self.torch.push(torch);
    }
}

/// Everything that one step computes, against the golden file of a network.
fn check_network(name: &str) {
    let golden: Golden = read(&format!("{name}.json"));
    let filled = Filled::new(name, golden.size, golden.shifts);
    for way in ways() {
        let case = Case { golden: &golden, way };
        let mut replica = way.replica(filled.replica());
        case.check_scores(&replica, Mode::Recalibrate);
        case.check_step(&mut replica);
        case.check_scores(&replica, Mode::Evaluate);
    }
}

/// A tensor of a state dict: its name, shape and type.
type Entry = (String, Vec<usize>, String);

#[test]
fn every_network_has_the_tensors_of_pytorchs_state_dict() {
    #[derive(Deserialize)]
    struct Golden {
        networks: ByName<Vec<Entry>>,
    }
    let golden: Golden = read("state_dicts.json");
    let names: BTreeSet<String> = ModelSpec::all().iter().map(ModelSpec::to_string).collect();
    assert_eq!(golden.networks.keys().cloned().collect::<BTreeSet<_>>(), names);
    for (network_name, mut expected) in golden.networks {
        let spec: ModelSpec = network_name.parse().unwrap();
        let task = Task { classes: 10, ..spec.usual_task() };
        let network = spec.blank(task).unwrap();
        let found = names::export(&network).unwrap();
        // Methods that look at layers need the order: a batch norm behind its convolution.
        let sgd = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };
        let in_order = BurnReplica::new(network, task, sgd).unwrap().parameters().unwrap();
        let is_parameter =
            |(name, _, _): &&Entry| found.get(name).unwrap().role() == Role::Parameter;
        let expected_order: Vec<&String> =
            expected.iter().filter(is_parameter).map(|(name, _, _)| name).collect();
        assert_eq!(in_order.iter().collect::<Vec<_>>(), expected_order, "{network_name}");
        let entry = |(name, tensor): (&str, &hwa_core::Tensor)| {
            let value_type = tensor.values().value_type();
            assert_eq!(tensor.role(), Role::infer(name, value_type), "{name}");
            let value_type = match value_type {
                ValueType::I64 => "int64",
                ValueType::F32 => "float32",
                other => panic!("{other:?}"),
            };
            (name.to_owned(), tensor.shape().to_vec(), value_type.to_owned())
        };
        let found: Vec<Entry> = found.iter().map(entry).collect();
        // There in the order of the layers, here in that of the names.
        expected.sort();
        assert_eq!(found, expected, "{network_name}");
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

#[test]
fn a_resnet20_is_pytorchs() {
    check_network("resnet20");
}

#[test]
fn a_resnet110_is_pytorchs() {
    check_network("resnet110");
}

#[test]
fn a_vgg16_is_pytorchs() {
    check_network("vgg16_cifar");
}

#[test]
fn a_mobilenet_v2_for_small_images_is_torchvisions_with_two_strides_less() {
    check_network("mobilenet_v2_cifar");
}

#[test]
fn a_resnet18_is_torchvisions() {
    check_network("resnet18");
}

#[test]
fn a_resnet50_is_torchvisions() {
    check_network("resnet50");
}

#[test]
fn a_vgg16_bn_is_torchvisions() {
    check_network("vgg16_bn");
}

#[test]
fn a_mobilenet_v2_is_torchvisions() {
    check_network("mobilenet_v2");
}

#[test]
fn a_shufflenet_v2_is_torchvisions() {
    check_network("shufflenet_v2_x1_0");
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
    let mut replica = Filled::new("resnet8", 16, [0.0; 2]).replica();
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
