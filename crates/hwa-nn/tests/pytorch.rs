//! What this crate computes against what PyTorch computes.
//!
//! The bound for an error is, unless a test says otherwise, a multiple of the error
//! of PyTorch's own single precision; both against PyTorch in double precision and
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
use hwa_nn::layers::{BatchNorm, Conv2d, Conv2dShape, Linear};
use hwa_nn::ops::{self, Activation, Convolution};
use hwa_nn::{
    BurnReplica, Init, Mode, Network, Pass, Precision, ResNet, Sgd, SgdConfig, Task, names,
};
use hwa_train::Replica;
use noise::{IMAGES, batch, fill, noise, noise_f32, values};
use serde::Deserialize;
use serde::de::DeserializeOwned;

type ByName<T> = BTreeMap<String, T>;

/// Two units in the last place of single precision: a floor for bounds that are
/// multiples of an error that may happen to be zero.
const LAST_PLACES: f64 = 2.4e-7;

/// How many times PyTorch's own error is allowed.
const TIMES: f64 = 2.0;

/// How many times with Winograd's transforms, which give digits for speed.
const FAST_TIMES: f64 = 10.0;

fn bound(times: f64, torch_error: f64) -> f64 {
    times * torch_error + LAST_PLACES
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

/// A ResNet of depth `6 * blocks + 2` for square images, with the script's weights.
fn filled(blocks: usize, size: usize) -> BurnReplica<ResNet> {
    let images = ImageShape { height: size, width: size, channels: 3 };
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
    let found = filled(3, 16).state().unwrap().weights;
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
fn cross_entropy_and_its_gradient_are_pytorchs_however_large_or_equal_the_scores() {
    #[derive(Deserialize)]
    struct Golden {
        labels: Vec<i64>,
        cases: ByName<Case>,
    }
    #[derive(Deserialize)]
    struct Case {
        scores: Vec<f32>,
        loss: f64,
        gradient: Vec<f64>,
    }
    let golden: Golden = read("cross_entropy.json");
    let device = Device::flex().autodiff();
    let images = golden.labels.len();
    for (name, case) in golden.cases {
        let classes = case.scores.len() / images;
        let scores = tensor(case.scores, [images, classes], &device).require_grad();
        let labels = TensorData::new(golden.labels.clone(), [images]);
        let loss = ops::cross_entropy(scores.clone(), Tensor::<1, Int>::from_data(labels, &device));
        let gradient = scores.grad(&loss.backward()).unwrap();
        let error = (loss.into_scalar::<f64>() / case.loss - 1.0).abs();
        assert!(error < LAST_PLACES, "loss of {name} scores: {error:e}");
        let error = relative_error(to_vec(gradient), &case.gradient);
        assert!(error < 2.0 * LAST_PLACES, "gradient of {name} scores: {error:e}");
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

impl ConvolutionCase {
    /// Output and gradients, for the noise that the script takes for its case `number`.
    fn run(&self, number: usize) -> [(&'static str, Vec<f32>); 4] {
        let device = Device::flex().autodiff();
        let stream = |i: u64| 10 * number as u64 + i;
        let draw = |i, shape: [usize; 4]| {
            tensor(noise_f32(stream(i), shape.iter().product(), 1.0, 0.0), shape, &device)
        };
        let ([height, width], [input, output]) = (self.size, self.channels);
        let x = draw(0, [2, height, width, input]).require_grad();
        let shape = [output, input / self.groups, self.kernel, self.kernel];
        let weight = draw(1, shape).require_grad();
        let bias = noise_f32(stream(2), output, 1.0, 0.0);
        let bias = tensor(bias, [output], &device).require_grad();
        let form = Convolution { stride: self.stride, padding: self.padding, groups: self.groups };
        let y = ops::conv2d(x.clone(), weight.clone(), Some(bias.clone()), form);
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
        for (tensor, found) in case.run(number) {
            // The error of one small tensor is luck: PyTorch's worst over the cases counts.
            let torch = largest(golden.cases.iter().map(|case| case.tensors[tensor].torch_error));
            let error = relative_error(found, &case.tensors[tensor].values);
            let bound = bound(TIMES, torch);
            assert!(error <= bound, "{tensor} of {}: {error:e}, bound {bound:e}", case.name);
        }
    }
}

#[test]
fn initial_values_come_from_pytorchs_ranges_and_use_them() {
    #[derive(Deserialize)]
    struct Golden {
        linear: Uniform,
        conv: Normal,
    }
    #[derive(Deserialize)]
    struct Uniform {
        input: usize,
        output: usize,
        bound: f64,
    }
    #[derive(Deserialize)]
    struct Normal {
        input: usize,
        output: usize,
        kernel: usize,
        groups: usize,
        deviation: f64,
    }
    let Golden { linear: uniform, conv: normal } = read("initial.json");
    let mut init = Init::new(1, 0, &Device::flex());
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let in_units = |values: Vec<f32>, unit: f64| -> Vec<f64> {
        values.into_iter().map(|value| f64::from(value) / unit).collect()
    };
    let squares = |values: &[f64]| values.iter().map(|v| v * v).collect::<Vec<f64>>();

    // Uniform in units of its bound has variance 1 / 3. Limits are five deviations of
    // what is estimated: of 6,400 weights the mean's is 0.0072, the mean square's 0.0037.
    let linear = Linear::new(uniform.input, uniform.output, &mut init).unwrap();
    let weight = in_units(to_vec(linear.weight.val()), uniform.bound);
    assert_eq!(weight.len(), 6_400);
    assert!(mean(&weight).abs() < 0.036, "{}", mean(&weight));
    assert!((mean(&squares(&weight)) - 1.0 / 3.0).abs() < 0.019, "{}", mean(&squares(&weight)));
    // The outer 0.2 % at each end are missed by 6,400 draws with probability 0.2 %, the
    // outer 10 % by 100 with 0.5 %; the seed is fixed.
    let bias = in_units(to_vec(linear.bias.val()), uniform.bound);
    for (values, reach) in [(weight, 0.998), (bias, 0.9)] {
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(reach < high && high <= 1.0, "{high}");
        assert!(-1.0 <= low && low < -reach, "{low}");
    }

    // Normal in units of its deviation: of 3,456 weights the mean's deviation is 0.017, the
    // mean square's 0.024, and 4.6 % lie outside of two.
    let form = Convolution { stride: 1, padding: 1, groups: normal.groups };
    let Normal { input, output, kernel, .. } = normal;
    let conv = Conv2d::new(Conv2dShape { input, output, kernel, form }, &mut init).unwrap();
    let conv = conv.with_bias();
    assert_eq!(to_vec(conv.bias.unwrap().val()), vec![0.0; output]);
    let weight = in_units(to_vec(conv.weight.val()), normal.deviation);
    assert_eq!(weight.len(), 3_456);
    assert!(mean(&weight).abs() < 0.085, "{}", mean(&weight));
    assert!((mean(&squares(&weight)) - 1.0).abs() < 0.12, "{}", mean(&squares(&weight)));
    let outside = weight.iter().filter(|w| w.abs() > 2.0).count() as f64 / 3_456.0;
    assert!((outside - 0.0455).abs() < 0.018, "{outside}");
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

    fn forward(
        &self,
        layer: &BatchNorm,
        x: Tensor<4>,
        residual: Tensor<4>,
        pass: &mut Pass,
    ) -> Tensor<4> {
        let activation = match self.activation.as_str() {
            "none" => Activation::None,
            "relu" => Activation::Relu,
            "relu6" => Activation::Relu6,
            other => panic!("{other}"),
        };
        match self.residual {
            0.0 => layer.forward(x, activation, pass),
            _ => layer.forward_add(x, residual, activation, pass),
        }
    }

    /// Trains on the script's batches, then evaluates on the first.
    fn run(&self) {
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
            let mut pass = Pass::new(Mode::Train);
            let y = self.forward(&layer, x.clone(), residual.clone(), &mut pass);
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
        let y = self.forward(&layer, x, residual, &mut Pass::new(Mode::Evaluate));
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
    golden.cases.iter().for_each(BatchNormCase::run);
}

#[derive(Deserialize)]
struct ResNet20 {
    images: usize,
    size: usize,
    stream: u64,
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
    /// Over the samples, as ours.
    torch_error: f64,
    torch_projection_errors: Vec<f64>,
}

impl ResNet20 {
    fn batch(&self) -> Batch {
        batch(self.stream, self.images, self.size)
    }

    fn check_forward(&self, precision: Precision, times: f64) {
        let mut replica = filled(3, self.size).with_precision(precision);
        let batch = self.batch();
        let shape = [self.images, self.size, self.size, 3];
        let images = tensor(batch.images.clone(), shape, &Device::flex());
        let check = |what: &str, error: f64, torch: f64| {
            let bound = bound(times, torch);
            assert!(error <= bound, "{what}: {error:e}, bound {bound:e}");
        };

        let mut pass = Pass::new(Mode::Recalibrate).with_precision(precision);
        let scores = to_vec(replica.network().valid().forward(images.clone(), &mut pass));
        check("scores", relative_error(scores, &self.scores), self.torch_scores_error);

        // A step of rate zero moves nothing but the statistics.
        let loss = replica.step(&batch, 0.0).unwrap().loss;
        check("loss", (loss / self.loss - 1.0).abs(), self.torch_loss_error);
        let state = replica.state().unwrap().weights;
        for (name, expected) in &self.statistics {
            let error = relative_error(values(&state, name).iter().copied(), expected);
            check(name, error, self.torch_statistics_errors[name]);
        }

        let mut pass = Pass::new(Mode::Evaluate).with_precision(precision);
        let scores = to_vec(replica.network().valid().forward(images, &mut pass));
        check("evaluated", relative_error(scores, &self.evaluated), self.torch_evaluated_error);
    }

    /// The error of one tensor is luck, as is PyTorch's; over all tensors the root mean
    /// square may be `times` PyTorch's, and no tensor may have `times` PyTorch's worst.
    fn check_gradients(&self, precision: Precision, times: f64) {
        let mut replica = filled(3, self.size).with_precision(precision);
        replica.step(&self.batch(), 0.0).unwrap();
        // Momentum was zero and there is no weight decay, so now it is the gradient.
        let gradients = replica.momentum().unwrap();
        assert_eq!(gradients.len(), self.gradients.len());
        let (mut elements, mut sums) = (Errors::default(), Errors::default());
        for (name, expected) in &self.gradients {
            let found = gradients.require(name).unwrap();
            assert_eq!(found.shape(), expected.shape, "{name}");
            let found = found.as_f32().unwrap();
            let at = |i: usize| f64::from(found[i * found.len() / expected.samples.len()]);
            let differences = expected.samples.iter().enumerate().map(|(i, s)| (at(i) - s).abs());
            elements.push(largest(differences) / expected.largest, expected.torch_error);
            for (number, projection) in expected.projections.iter().enumerate() {
                let signs = noise(2000 + number as u64, found.len());
                let signed = found.iter().zip(signs).map(|(f, s)| f64::from(*f) * s.signum());
                let error = (signed.sum::<f64>() - projection).abs() / expected.norm;
                sums.push(error, expected.torch_projection_errors[number].abs());
            }
        }
        elements.check("elements", times);
        sums.check("signed sums", times);
    }
}

#[test]
fn a_resnet20_scores_and_moves_its_statistics_as_pytorchs_does() {
    let golden = read::<ResNet20>("resnet20.json");
    golden.check_forward(Precision::Exact, TIMES);
    golden.check_forward(Precision::Fast, FAST_TIMES);
}

#[test]
fn the_gradients_of_a_resnet20_are_as_exact_as_pytorchs() {
    let golden = read::<ResNet20>("resnet20.json");
    golden.check_gradients(Precision::Exact, TIMES);
    golden.check_gradients(Precision::Fast, FAST_TIMES);
}

/// Errors found here beside PyTorch's.
#[derive(Default)]
struct Errors(Vec<(f64, f64)>);

impl Errors {
    fn push(&mut self, ours: f64, torch: f64) {
        self.0.push((ours, torch));
    }

    fn check(&self, what: &str, times: f64) {
        let worst = |of: fn(&(f64, f64)) -> f64| largest(self.0.iter().map(of));
        let square = |of: fn(&(f64, f64)) -> f64| self.0.iter().map(|e| of(e).powi(2)).sum::<f64>();
        let (ours, torch) = (worst(|e| e.0), worst(|e| e.1));
        assert!(ours <= times * torch, "{what}, worst: {ours:e} against {torch:e}");
        let (ours, torch) = (square(|e| e.0).sqrt(), square(|e| e.1).sqrt());
        assert!(ours <= times * torch, "{what}, all: {ours:e} against {torch:e}");
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
    let mut replica = filled(1, 16);
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
