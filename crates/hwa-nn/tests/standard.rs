//! The two ways of running a network against each other: on the kernels, and on Burn's own
//! operations.
//!
//! Errors are relative to a tensor's largest value.

// Clippy's exception for tests does not reach the functions beside them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod noise;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Gradients, Tensor, TensorData};
use hwa_core::{Role, Weights};
use hwa_data::ImageShape;
use hwa_nn::layers::{Conv2dShape, Draw};
use hwa_nn::ops::{self, Convolution};
use hwa_nn::{
    BurnReplica, Features, Init, Layer, Mode, Model, ModelSpec, Network, Pass, Precision, Sequence,
    SgdConfig, Task, Windows, names,
};
use hwa_train::Replica;
use noise::{IMAGES, at, batch, fill, noise_f32, values};

/// One operation rounds a few times.
const ONE: f64 = 1e-5;

const SGD: SgdConfig = SgdConfig { momentum: 0.9, weight_decay: 0.0 };

fn largest(numbers: &[f32]) -> f64 {
    numbers.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(f64::from(x.abs())))
}

fn error(found: &[f32], expected: &[f32]) -> f64 {
    error_by(largest(expected), found, expected)
}

fn error_by(size: f64, found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let difference = |(f, e): (&f32, &f32)| f64::from((f - e).abs()) / size;
    // A NaN is larger than every bound.
    found.iter().zip(expected).map(difference).fold(0.0, |most, e| if e <= most { most } else { e })
}

fn to_vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// The gradients of all parameters, in their order.
struct Collect<'a> {
    gradients: &'a Gradients,
    found: Vec<Vec<f32>>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.extend(param.val().grad(self.gradients).map(to_vec));
    }
}

/// What an operation gives, the gradients of images and parameters, and what it saw.
fn outcome(
    shape: [usize; 4],
    layers: &Vec<Layer>,
    operation: impl Fn(&[Layer], Features) -> Features,
    mut pass: Pass,
) -> Vec<Vec<f32>> {
    let device = Device::flex().autodiff();
    let draw = |stream, shape: [usize; 4]| -> Tensor<4> {
        let numbers = noise_f32(stream, shape.iter().product(), 8.0, 1.0);
        Tensor::from_data(TensorData::new(numbers, shape), &device)
    };
    let images = draw(1, shape).require_grad();
    let y = operation(layers, Features::of(images.clone())).tensor(&mut pass);
    let gradients = (y.clone() * draw(2, y.dims())).sum().backward();
    let mut collect = Collect { gradients: &gradients, found: Vec::new() };
    layers.visit(&mut collect);
    let mut all = vec![to_vec(y), to_vec(images.grad(&gradients).unwrap())];
    all.append(&mut collect.found);
    let moved = names::export(&pass.move_statistics(layers.clone())).unwrap();
    all.extend(moved.iter().filter_map(|(_, tensor)| Some(tensor.as_f32()?.to_vec())));
    all
}

/// Compares an operation by itself, in every mode, on images of odd sizes.
fn check(name: &str, build: fn(Sequence) -> Sequence, run: fn(&[Layer], Features) -> Features) {
    let device = Device::flex().autodiff();
    for shape in [[2, 7, 5, 6], [1, 8, 9, 18], [3, 5, 5, 4]] {
        let init = &mut Init::new(1, 0, &device);
        let layers = build(Sequence::new(Draw::Uniform, init)).layers().unwrap();
        // Of an untouched batch norm's scale, another one after it would leave no gradient.
        let parameters = names::export(&layers).unwrap().only(Role::Parameter);
        let layers = names::load_parameters(&layers, &fill(&parameters, [-0.5, 0.5])).unwrap();
        for mode in [Mode::Train, Mode::Recalibrate, Mode::Evaluate] {
            let exact = Pass::new(mode).with_precision(Precision::Exact);
            let expected = outcome(shape, &layers, run, exact);
            let found = outcome(shape, &layers, run, Pass::new(mode).on_standard_operations());
            assert_eq!(found.len(), expected.len());
            for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let error = error(found, expected);
                assert!(error < ONE, "{name}, {shape:?}, {mode:?}, tensor {number}: {error:e}");
            }
        }
    }
}

fn nothing(layers: Sequence) -> Sequence {
    layers
}

#[test]
fn convolutions_are_the_same() {
    fn shape(kernel: usize, stride: usize, padding: usize, groups: usize) -> Conv2dShape {
        let form = Convolution { stride, padding, groups };
        Conv2dShape { input: 6, output: 6, kernel, form }
    }
    // From any number of channels to six, so that one list of layers serves all images.
    fn six(x: Features) -> Features {
        x.subsample(1, 6).channels(0..4).concat(&x.subsample(1, 2).channels(0..2), 1)
    }
    let run = |layers: &[Layer], x: Features| six(x).through(layers);
    check("3x3", |s| s.conv(shape(3, 1, 1, 1)), run);
    check("with bias", |s| s.conv_with_bias(shape(3, 1, 0, 1)), run);
    check("with stride", |s| s.conv_with_bias(shape(5, 2, 2, 1)), run);
    check("pointwise", |s| s.conv(shape(1, 1, 0, 1)), run);
    check("pointwise with stride", |s| s.conv(shape(1, 3, 0, 1)), run);
    check("depthwise", |s| s.conv(shape(3, 2, 1, 6)), run);
    check("in groups", |s| s.conv_with_bias(shape(3, 1, 1, 2)), run);
}

#[test]
fn batch_norms_are_the_same() {
    check("norm", |s| s.norm(4), |layers, x| x.channels(0..4).through(layers));
    let twice = |layers: &[Layer], x: Features| x.channels(0..4).through(layers);
    check("norms and activation", |s| s.norm(4).relu().norm(4).relu6(), twice);
}

#[test]
fn activations_and_sums_are_the_same() {
    check("relu", nothing, |_, x| x.relu());
    check("relu6", nothing, |_, x| x.relu6());
    check("sum", nothing, |_, x| x.relu6() + x);
    check("sum with itself", nothing, |_, x| x.clone() + x);
}

#[test]
fn pools_are_the_same() {
    const WINDOWS: [(usize, usize, usize); 5] =
        [(2, 2, 0), (3, 2, 1), (3, 1, 1), (5, 3, 2), (4, 1, 2)];
    fn each(x: &Features, pool: fn(&Features, Windows) -> Features, number: usize) -> Features {
        let (kernel, stride, padding) = WINDOWS[number];
        pool(x, Windows { kernel, stride, padding })
    }
    check("max 0", nothing, |_, x| each(&x, Features::max_pool, 0));
    check("max 1", nothing, |_, x| each(&x, Features::max_pool, 1));
    check("max 2", nothing, |_, x| each(&x, Features::max_pool, 2));
    check("max 3", nothing, |_, x| each(&x, Features::max_pool, 3));
    check("max 4", nothing, |_, x| each(&x, Features::max_pool, 4));
    check("mean 0", nothing, |_, x| each(&x, Features::average_pool, 0));
    check("mean 1", nothing, |_, x| each(&x, Features::average_pool, 1));
    check("mean 2", nothing, |_, x| each(&x, Features::average_pool, 2));
    check("mean 3", nothing, |_, x| each(&x, Features::average_pool, 3));
    check("mean 4", nothing, |_, x| each(&x, Features::average_pool, 4));
}

#[test]
fn rearranged_pixels_and_channels_are_the_same() {
    check("every second", nothing, |_, x| x.subsample(2, 4));
    check("every third and more channels", nothing, |_, x| x.subsample(3, 21));
    check("one more channel", nothing, |_, x| x.subsample(1, 19));
    check("slice", nothing, |_, x| x.channels(1..4));
    check("concat", nothing, |_, x| x.channels(0..3).concat(&x, 1));
    check("shuffle", nothing, |_, x| x.relu().concat(&x, 2));
    check("shuffle of parts", nothing, |_, x| x.channels(0..2).concat(&x.channels(0..4), 3));
}

#[test]
fn the_mean_of_an_image_is_the_same_from_scores_to_gradients() {
    #[derive(Module, Debug)]
    struct Mean {
        layers: Vec<Layer>,
    }
    impl Network for Mean {
        fn forward(&self, images: Tensor<4>, pass: &mut Pass) -> Tensor<2> {
            Features::of(images).through(&self.layers).global_average(pass)
        }
    }
    let images = ImageShape { height: 7, width: 9, channels: 3 };
    let task = Task { images, classes: 5 };
    let replica = || {
        let init = &mut Init::new(1, 0, &Device::flex());
        let shape = Conv2dShape::pointwise(3, 5);
        let layers = Sequence::new(Draw::Uniform, init).conv_with_bias(shape).layers().unwrap();
        BurnReplica::new(Mean { layers }, task, SGD).unwrap()
    };
    let mut batch = batch(IMAGES, 4, 9);
    batch.shape = images;
    batch.images.truncate(4 * images.len());
    let run = |mut replica: BurnReplica<Mean>| {
        replica.step(&batch, at(0.1, 0)).unwrap();
        replica.weights().unwrap()
    };
    assert_near(&run(replica().on_standard_operations()), &run(replica()), ONE, "mean");
}

#[test]
fn the_loss_is_the_same_however_it_is_used_and_in_double_precision() {
    let labels: Vec<u32> = (0..33).map(|i| i * 7 % 101).collect();
    let data = TensorData::new(noise_f32(1, 33 * 101, 8.0, 1.0), [101, 33]);
    // Read against the order in memory, and the loss counts three times, minus its square.
    let run = |pass: &Pass, dtype: DType| {
        let x = Tensor::<2>::from_data(data.clone(), &Device::flex().autodiff());
        let x = x.cast(dtype).require_grad();
        let loss = ops::cross_entropy(x.clone().transpose(), &labels, pass);
        assert_eq!((loss.dims(), loss.dtype()), ([1], dtype));
        let gradients = (loss.clone() * 3.0 - loss.clone() * loss.clone()).backward();
        (loss.into_scalar::<f64>(), to_vec(x.grad(&gradients).unwrap()))
    };
    let kernels = Pass::new(Mode::Train);
    let standard = Pass::new(Mode::Train).on_standard_operations();
    let (loss, gradient) = run(&kernels, DType::F32);
    for (pass, dtype) in [(&standard, DType::F32), (&kernels, DType::F64)] {
        let (expected, expected_gradient) = run(pass, dtype);
        assert!((loss / expected - 1.0).abs() < 1e-6, "{dtype:?}: {loss} against {expected}");
        let error = error(&gradient, &expected_gradient);
        assert!(error < 1e-6, "{dtype:?}: {error:e}");
    }
    // Two ways, not one of them twice: they round differently.
    assert_ne!(gradient, run(&standard, DType::F32).1);
    let x = Tensor::<2>::from_data(data.clone(), &Device::flex()).transpose();
    assert_eq!(ops::cross_entropy(x, &labels, &kernels).into_scalar::<f64>(), loss);
}

/// How a network was drawn that the golden numbers of PyTorch are for: its values keep away
/// from the kinks of activations, so that rounding does not decide who has a gradient.
#[derive(serde::Deserialize)]
struct Golden {
    shifts: [f64; 2],
    images: usize,
    size: usize,
    stream: u64,
}

/// A bias that a later batch norm takes away has no gradient but rounding, and is measured by
/// that of its layer's weights.
fn assert_near(found: &Weights, expected: &Weights, bound: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (name, tensor) in expected.iter() {
        let Some(numbers) = tensor.as_f32() else { continue };
        let weights = name.strip_suffix("bias").map(|layer| format!("{layer}weight"));
        let size = weights.map_or(0.0, |weights| largest(values(expected, &weights)));
        let error = error_by(largest(numbers).max(size), values(found, name), numbers);
        assert!(error < bound, "{what}, {name}: {error:e}");
    }
}

/// Scores, loss, gradients, statistics and re-estimated ones of a network of the zoo.
fn check_network(name: &str) {
    let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let golden = std::fs::read_to_string(path).unwrap();
    let Golden { shifts, images, size, stream } = serde_json::from_str(&golden).unwrap();
    let shape = ImageShape { height: size, width: size, channels: 3 };
    let task = Task { images: shape, classes: 10 };
    let replica = || {
        let spec: ModelSpec = name.parse().unwrap();
        let mut replica = BurnReplica::new(spec.blank(task).unwrap(), task, SGD).unwrap();
        replica.load(&fill(&replica.weights().unwrap(), shifts)).unwrap();
        replica
    };
    let kernels = &mut replica().with_precision(Precision::Exact);
    let standard = &mut replica().on_standard_operations();
    let batch = batch(stream, images, size);

    let scores = |replica: &BurnReplica<Model>, pass: Pass| {
        let pixels = TensorData::new(batch.images.clone(), [images, size, size, 3]);
        let (network, mut pass) = (replica.network(), pass);
        to_vec(match pass.mode() {
            Mode::Train => {
                network.forward(Tensor::from_data(pixels, &Device::flex().autodiff()), &mut pass)
            }
            _ => network.valid().forward(Tensor::from_data(pixels, &Device::flex()), &mut pass),
        })
    };
    let same_scores = |kernels: &BurnReplica<Model>, standard: &BurnReplica<Model>| {
        for mode in [Mode::Train, Mode::Recalibrate, Mode::Evaluate] {
            let expected = scores(kernels, Pass::new(mode).with_precision(Precision::Exact));
            let found = scores(standard, Pass::new(mode).on_standard_operations());
            let error = error(&found, &expected);
            assert!(error < SCORES, "{name}, scores, {mode:?}: {error:e}");
        }
    };
    same_scores(kernels, standard);

    // A step of rate zero moves statistics, and momentum from zero to the gradient.
    let losses = [&mut *kernels, standard].map(|r| r.step(&batch, at(0.0, 0)).unwrap().loss);
    assert!((losses[1] / losses[0] - 1.0).abs() < SCORES, "{name}: {losses:?}");
    let [expected, found] = [&*kernels, standard].map(|r| r.momentum().unwrap());
    assert_near(&found, &expected, GRADIENTS, &format!("{name}, gradients"));
    let [expected, found] = [&*kernels, standard].map(|r| r.state().unwrap().weights);
    assert_near(&found, &expected, SCORES, &format!("{name}, moved statistics"));
    // By the running statistics, which are no longer those that every layer begins with.
    same_scores(kernels, standard);
    let [expected, found] = [&mut *kernels, standard].map(|r| r.evaluate(&batch).unwrap());
    assert!((found.loss / expected.loss - 1.0).abs() < SCORES, "{name}, evaluated");

    let pooled = [kernels, standard].map(|replica| {
        let batches = (0..4).map(|i| Ok(noise::batch(IMAGES + i, 2 + i as usize, size)));
        replica.recalibrate(&mut { batches }, 0.0).unwrap();
        replica.state().unwrap().weights
    });
    assert_near(&pooled[1], &pooled[0], SCORES, &format!("{name}, pooled statistics"));
}

/// What two ways of rounding may make of scores and statistics.
const SCORES: f64 = 2e-5;

/// What they may make of gradients, which have gone through every layer twice.
const GRADIENTS: f64 = 2e-4;

#[test]
fn a_resnet20_is_the_same() {
    check_network("resnet20");
}

#[test]
fn a_resnet110_is_the_same() {
    check_network("resnet110");
}

#[test]
fn a_vgg16_is_the_same() {
    check_network("vgg16_cifar");
}

#[test]
fn a_mobilenet_v2_is_the_same() {
    check_network("mobilenet_v2_cifar");
}

#[test]
fn a_resnet18_is_the_same() {
    check_network("resnet18");
}

#[test]
fn a_resnet50_is_the_same() {
    check_network("resnet50");
}

#[test]
fn a_large_mobilenet_v2_is_the_same() {
    check_network("mobilenet_v2");
}

#[test]
fn a_shufflenet_v2_is_the_same() {
    check_network("shufflenet_v2_x1_0");
}

/// Another backend of Burn has none of our kernels.
#[cfg(feature = "ndarray")]
#[test]
fn a_replica_on_another_backend_trains_as_on_this_one() {
    use hwa_nn::ResNet;
    let images = ImageShape { height: 8, width: 8, channels: 3 };
    let replica = |device: &Device| {
        let network = ResNet::new(1, 3, 10, &mut Init::new(1, 0, device)).unwrap();
        BurnReplica::new(network, Task { images, classes: 10 }, SGD).unwrap()
    };
    let run = |mut replica: BurnReplica<ResNet>| {
        for step in 0..3 {
            replica.step(&batch(IMAGES + step, 6, 8), at(0.05, step)).unwrap();
        }
        let batches = (0..4).map(|i| Ok(batch(IMAGES + i, 4, 8)));
        replica.recalibrate(&mut { batches }, 0.0).unwrap();
        let tally = replica.evaluate(&batch(IMAGES, 10, 8)).unwrap();
        (replica.state().unwrap(), tally)
    };
    #[allow(deprecated)] // Burn's NdArray is on its way out, but it is another CPU backend.
    let (other, other_tally) = run(replica(&Device::ndarray()));
    let (here, tally) = run(replica(&Device::flex()));
    assert_near(&other.weights, &here.weights, 1e-3, "weights and statistics");
    assert_near(&other.momentum, &here.momentum, 1e-3, "momentum");
    assert!((other_tally.loss / tally.loss - 1.0).abs() < 1e-3);
}
