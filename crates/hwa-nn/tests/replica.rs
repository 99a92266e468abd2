//! What the training loop relies on, of a replica over Burn: nothing moves that must
//! not, and everything repeats bit for bit.

// Clippy's exception for tests does not reach the functions beside them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod noise;

use burn::module::Module;
use burn::nn::{BatchNormConfig, Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use hwa_core::{Role, Values, Weights, WeightsError};
use hwa_data::{Batch, DataError, ImageShape};
use hwa_nn::layers::{self, BatchNorm};
use hwa_nn::{
    BurnReplica, Features, Init, Mode, Model, ModelSpec, Network, NnError, Origin, Pass, SgdConfig,
    Task,
};
use hwa_train::{Replica, ReplicaError, RunningStatistics, State};
use noise::{IMAGES, at, batch, fill, values};

const SGD: SgdConfig = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };
const SMALL: ImageShape = ImageShape { height: 8, width: 8, channels: 3 };
const TASK: Task = Task { images: SMALL, classes: 10 };

fn resnet8(replica: u32) -> BurnReplica<Model> {
    let spec: ModelSpec = "resnet8".parse().unwrap();
    spec.build(TASK, Origin { seed: 7, replica }, SGD).unwrap()
}

fn train(replica: &mut dyn Replica, steps: std::ops::Range<u64>) -> Vec<f64> {
    steps.map(|i| replica.step(&batch(IMAGES + i, 6, 8), at(0.05, i)).unwrap().loss).collect()
}

/// Runs `work` in a rayon pool of its own, as the training loop does.
fn in_a_pool<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

fn bits(weights: &Weights) -> Vec<(String, Vec<u64>)> {
    let of = |values: &Values| match values {
        Values::F32(v) => v.iter().map(|x| u64::from(x.to_bits())).collect(),
        Values::I64(v) => v.iter().map(|x| *x as u64).collect(),
        other => panic!("{other:?}"),
    };
    weights.iter().map(|(name, tensor)| (name.to_owned(), of(tensor.values()))).collect()
}

fn assert_same_bits(left: &State, right: &State) {
    assert_eq!(bits(&left.weights), bits(&right.weights));
    assert_eq!(bits(&left.momentum), bits(&right.momentum));
}

#[test]
fn training_lowers_the_loss_on_one_batch() {
    let mut replica = resnet8(0);
    let losses: Vec<f64> =
        (0..20).map(|i| replica.step(&batch(IMAGES, 16, 8), at(0.05, i)).unwrap().loss).collect();
    assert!(losses[19] < 0.5 * losses[0], "{losses:?}");
    let tally = replica.evaluate(&batch(IMAGES, 16, 8)).unwrap();
    assert_eq!(tally.images, 16);
}

/// Methods that look at gradients train as those that do not.
#[test]
fn a_step_is_its_gradient_and_its_descent_bit_for_bit() {
    let (mut whole, mut parts) = (resnet8(0), resnet8(0));
    for i in 0..4 {
        let (images, at) = (batch(IMAGES + i, 6, 8), at(0.05, i));
        let stepped = whole.step(&images, at).unwrap();
        let (stats, gradient) =
            parts.gradient(&images, at.position, RunningStatistics::Move).unwrap();
        parts.descend(&gradient, at.rate).unwrap();
        assert_eq!(stepped.loss.to_bits(), stats.loss.to_bits());
    }
    assert_same_bits(&whole.state().unwrap(), &parts.state().unwrap());
}

/// The second pass of SAM looks, and leaves no trace: no statistics, no counter, no momentum.
#[test]
fn a_gradient_that_keeps_statistics_changes_nothing() {
    let mut replica = resnet8(0);
    train(&mut replica, 0..2);
    let before = replica.state().unwrap();
    let (images, at) = (batch(IMAGES + 9, 6, 8), at(0.05, 2));
    let (_, kept) = replica.gradient(&images, at.position, RunningStatistics::Keep).unwrap();
    assert_same_bits(&before, &replica.state().unwrap());
    let (_, moved) = replica.gradient(&images, at.position, RunningStatistics::Move).unwrap();
    assert_eq!(bits(&kept), bits(&moved), "the gradient does not depend on them");
    let after = replica.state().unwrap();
    assert_eq!(bits(&before.momentum), bits(&after.momentum));
    assert_ne!(bits(&before.weights), bits(&after.weights), "now they have moved");
}

#[test]
fn equal_origins_give_equal_weights_and_other_replicas_others() {
    let (one, same, other) = (resnet8(0), resnet8(0), resnet8(1));
    assert_eq!(bits(&one.weights().unwrap()), bits(&same.weights().unwrap()));
    assert_ne!(bits(&one.weights().unwrap()), bits(&other.weights().unwrap()));
}

#[test]
fn initial_convolutions_have_he_variance() {
    // 64 x 64 x 3 x 3 weights of variance 2 / (64 * 9); the estimate's deviation is 0.7 %.
    let weights = resnet8(0).weights().unwrap();
    let values = values(&weights, "layer3.0.conv2.weight");
    let mean_square = values.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>() / 36_864.0;
    assert!((mean_square * 288.0 - 1.0).abs() < 0.03, "{mean_square}");
}

/// Replicas in threads of their own share nothing (Burn #5573 lost gradients in
/// concurrent backward passes).
#[test]
fn replicas_in_concurrent_threads_train_as_one_alone() {
    let run = |id| {
        in_a_pool(1, move || {
            let mut replica = resnet8(id);
            train(&mut replica, 0..4);
            replica.state().unwrap()
        })
    };
    let alone: Vec<State> = (0..4).map(run).collect();
    let together: Vec<State> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|id| scope.spawn(move || run(id))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (left, right) in alone.iter().zip(&together) {
        assert_same_bits(left, right);
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let run = |threads| {
        in_a_pool(threads, || {
            let mut replica = resnet8(0);
            train(&mut replica, 0..3);
            replica.state().unwrap()
        })
    };
    assert_same_bits(&run(1), &run(3));
}

#[test]
fn the_number_of_threads_does_not_change_a_bit_of_products_that_are_shared_out() {
    // Burn shares out a single product from 192^3 = 7.1 M multiply-adds on. Those of the
    // first stage's weight gradients have 16 * 9 * 64 * 1024 = 9.4 M.
    let images = ImageShape { height: 32, width: 32, channels: 3 };
    let run = |threads| {
        in_a_pool(threads, || {
            let spec: ModelSpec = "resnet8".parse().unwrap();
            let origin = Origin { seed: 7, replica: 0 };
            let mut replica = spec.build(Task { images, classes: 10 }, origin, SGD).unwrap();
            replica.step(&batch(IMAGES, 64, 32), at(0.05, 0)).unwrap();
            // Momentum was zero: now it is the gradient, with weight decay.
            replica.state().unwrap()
        })
    };
    assert_same_bits(&run(1), &run(3));
}

#[test]
fn a_restored_replica_goes_on_bit_for_bit() {
    let mut whole = resnet8(0);
    train(&mut whole, 0..3);
    let saved = whole.state().unwrap();
    let losses = train(&mut whole, 3..6);

    let mut resumed = resnet8(9);
    train(&mut resumed, 20..22);
    resumed.restore(&saved).unwrap();
    assert_same_bits(&resumed.state().unwrap(), &saved);
    assert_eq!(train(&mut resumed, 3..6), losses);
    assert_same_bits(&resumed.state().unwrap(), &whole.state().unwrap());
}

#[test]
fn a_replica_built_from_weights_has_them_and_no_momentum() {
    let mut trained = resnet8(0);
    train(&mut trained, 0..2);
    let spec: ModelSpec = "resnet8".parse().unwrap();
    let (whole, parameters) = (trained.state().unwrap().weights, trained.weights().unwrap());
    let built = spec.build_from(TASK, &whole, SGD).unwrap().state().unwrap();
    assert_eq!(bits(&built.weights), bits(&whole));
    let zero = |(_, tensor): (&str, &hwa_core::Tensor)| *tensor == tensor.zeros_like();
    assert!(built.momentum.iter().all(zero));
    // Parameters alone come with the statistics of a model that has seen nothing.
    let built = spec.build_from(TASK, &parameters, SGD).unwrap();
    assert_eq!(bits(&built.weights().unwrap()), bits(&parameters));
    let (found, new) = (built.state().unwrap().weights, resnet8(0).state().unwrap().weights);
    assert_eq!(bits(&found.only(Role::Statistic)), bits(&new.only(Role::Statistic)));
    let error = spec.build_from(Task { classes: 3, ..TASK }, &whole, SGD).unwrap_err();
    let expected = "the weights do not fit the network: `linear.bias` has shape [10], expected [3]";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn evaluation_moves_nothing() {
    let mut replica = resnet8(0);
    train(&mut replica, 0..2);
    let before = replica.state().unwrap();
    let first = replica.evaluate(&batch(IMAGES + 50, 9, 8)).unwrap();
    let second = replica.evaluate(&batch(IMAGES + 50, 9, 8)).unwrap();
    assert_eq!(first, second);
    assert_same_bits(&replica.state().unwrap(), &before);
}

#[test]
fn re_estimation_moves_statistics_and_nothing_else() {
    let mut replica = resnet8(0);
    train(&mut replica, 0..2);
    let before = replica.state().unwrap();
    let mut batches = (0..6).map(|i| Ok(batch(IMAGES + 60 + i, 6, 8)));
    let found = replica.recalibrate(&mut batches, 0.0).unwrap();
    assert_eq!(found.images, 36);
    assert!(found.relative_error.unwrap() > 0.0);
    let after = replica.state().unwrap();
    let parameters = |state: &State| bits(&state.weights.only(Role::Parameter));
    assert_eq!(parameters(&after), parameters(&before));
    assert_eq!(bits(&after.momentum), bits(&before.momentum));
    let statistics = |state: &State| bits(&state.weights.only(Role::Statistic));
    assert_ne!(statistics(&after), statistics(&before));
}

#[test]
fn averaged_weights_can_be_loaded_while_statistics_and_momentum_stay() {
    let mut replica = resnet8(0);
    train(&mut replica, 0..2);
    let before = replica.state().unwrap();
    let loaded = fill(&replica.weights().unwrap(), [0.0; 2]);
    replica.load(&loaded).unwrap();
    let after = replica.state().unwrap();
    assert_eq!(bits(&after.weights.only(Role::Parameter)), bits(&loaded));
    for role in [Role::Statistic, Role::Counter] {
        assert_eq!(bits(&after.weights.only(role)), bits(&before.weights.only(role)));
    }
    assert_eq!(bits(&after.momentum), bits(&before.momentum));
    // And the loaded weights are trained, not detached.
    train(&mut replica, 2..3);
    assert_ne!(bits(&replica.weights().unwrap()), bits(&loaded));
}

#[test]
fn re_estimation_stops_when_its_error_is_small_enough() {
    let run = |tolerance| {
        let mut replica = resnet8(0);
        let mut taken = 0;
        let mut batches = (0..40).map(|i| {
            taken += 1;
            Ok(batch(IMAGES + i, 8, 8))
        });
        let found = replica.recalibrate(&mut batches, tolerance).unwrap();
        (taken, found.images, found.relative_error.unwrap())
    };
    // However large the tolerance, four batches are looked at.
    assert_eq!(run(10.0).0, 4);
    let (taken, images, error) = run(0.05);
    assert!(4 < taken && taken < 40 && error <= 0.05, "{taken} {error}");
    assert_eq!(images, 8 * taken);
    assert_eq!(run(0.0).0, 40);
}

/// Batch norm over the images themselves, so that what it must find can be computed
/// directly.
#[derive(Module, Debug)]
struct FirstLayer {
    bn: BatchNorm,
    linear: layers::Linear,
}

impl FirstLayer {
    fn replica() -> BurnReplica<Self> {
        let mut init = Init::new(1, 0, &Device::flex());
        let bn = BatchNorm::new(3, &init).unwrap();
        let network = Self { bn, linear: layers::Linear::new(3, 10, &mut init).unwrap() };
        BurnReplica::new(network, TASK, SGD).unwrap()
    }
}

impl Network for FirstLayer {
    fn forward(&self, images: Tensor<4>, pass: &mut Pass) -> Tensor<2> {
        let x = Features::of(images).norm(&self.bn).relu();
        self.linear.forward(x.global_average(pass))
    }
}

/// Batch norm that is run in training only.
#[derive(Module, Debug)]
struct Skipping {
    inner: FirstLayer,
}

impl Network for Skipping {
    fn forward(&self, images: Tensor<4>, pass: &mut Pass) -> Tensor<2> {
        match pass.mode() {
            Mode::Train => self.inner.forward(images, pass),
            Mode::Recalibrate | Mode::Evaluate => {
                self.inner.linear.forward(Features::of(images).global_average(pass))
            }
        }
    }
}

#[test]
fn re_estimation_that_sees_no_layer_is_refused_and_changes_nothing() {
    let network = Skipping { inner: FirstLayer::replica().network().clone() };
    let mut replica = BurnReplica::new(network, TASK, SGD).unwrap();
    train(&mut replica, 0..2);
    let before = replica.state().unwrap();
    let mut batches = (0..6).map(|i| Ok(batch(IMAGES + i, 6, 8)));
    let error = replica.recalibrate(&mut batches, 0.1).unwrap_err().to_string();
    assert!(error.contains("`inner.bn.running_mean`"), "{error}");
    assert_same_bits(&replica.state().unwrap(), &before);
}

/// Images whose brightness is their class, in the order of `classes`.
fn by_class(classes: &[u32]) -> Batch {
    let noise = batch(IMAGES, classes.len(), 8);
    let pixels = noise.images.chunks(SMALL.len()).zip(classes);
    let images = pixels.flat_map(|(p, &c)| p.iter().map(move |x| x + 50.0 + c as f32)).collect();
    Batch { images, labels: classes.to_vec(), shape: SMALL }
}

#[test]
fn sorted_and_shuffled_batches_give_the_statistics_of_all_data() {
    let mixed: Vec<u32> = (0..40).map(|i| (i * 7) % 10).collect();
    let mut whole = by_class(&mixed);
    let statistics = |batches: Vec<Batch>| {
        let mut replica = FirstLayer::replica();
        replica.recalibrate(&mut batches.into_iter().map(Ok), 0.0).unwrap();
        let state = replica.state().unwrap().weights;
        let of = |name| values(&state, name).iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
        (of("bn.running_mean"), of("bn.running_var"))
    };
    let split = |batch: &Batch, sizes: &[usize]| -> Vec<Batch> {
        let mut start = 0;
        let part = |&size: &usize| {
            let (from, to) = (start, start + size);
            start = to;
            let images = batch.images[from * SMALL.len()..to * SMALL.len()].to_vec();
            Batch { images, labels: batch.labels[from..to].to_vec(), shape: SMALL }
        };
        sizes.iter().map(part).collect()
    };
    let shuffled = statistics(split(&whole, &[8, 8, 8, 8, 8]));
    let uneven = statistics(split(&whole, &[20, 3, 1, 9, 7]));

    let mut order: Vec<usize> = (0..40).collect();
    order.sort_by_key(|&i| whole.labels[i]);
    let rows: Vec<f32> = order
        .iter()
        .flat_map(|&i| whole.images[i * SMALL.len()..(i + 1) * SMALL.len()].to_vec())
        .collect();
    let direct = direct_statistics(&whole);
    whole.images = rows;
    let sorted = statistics(split(&whole, &[8, 8, 8, 8, 8]));

    for (mean, variance) in [shuffled, uneven, sorted] {
        for c in 0..3 {
            assert!((mean[c] / direct[c].0 - 1.0).abs() < 3e-7, "{} {:?}", mean[c], direct[c]);
            assert!(
                (variance[c] / direct[c].1 - 1.0).abs() < 3e-6,
                "{} {:?}",
                variance[c],
                direct[c]
            );
        }
    }
}

/// Mean and unbiased variance of each channel, over all values at once, in f64.
fn direct_statistics(batch: &Batch) -> Vec<(f64, f64)> {
    let channel = |c: usize| {
        let values: Vec<f64> =
            batch.images.iter().skip(c).step_by(3).map(|x| f64::from(*x)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        (mean, squares / (values.len() - 1) as f64)
    };
    (0..3).map(channel).collect()
}

/// A network of Burn's own layers.
#[derive(Module, Debug)]
struct Plain {
    hidden: Linear,
    output: Linear,
}

impl Network for Plain {
    fn forward(&self, images: Tensor<4>, _pass: &mut Pass) -> Tensor<2> {
        self.output.forward(self.hidden.forward(images.flatten(1, 3)).tanh())
    }
}

fn plain() -> BurnReplica<Plain> {
    let device = Device::flex();
    let network = Plain {
        hidden: LinearConfig::new(SMALL.len(), 12).init(&device),
        output: LinearConfig::new(12, 10).init(&device),
    };
    BurnReplica::new(network, TASK, SGD).unwrap()
}

#[test]
fn a_network_without_batch_norm_takes_no_batch_to_re_estimate() {
    let mut batches =
        std::iter::from_fn(|| -> Option<Result<Batch, DataError>> { panic!("a batch was taken") });
    let found = plain().recalibrate(&mut batches, 0.01).unwrap();
    assert_eq!((found.images, found.relative_error), (0, None));
}

#[test]
fn a_network_of_burns_own_layers_trains_and_restores() {
    let mut replica = plain();
    train(&mut replica, 0..2);
    let saved = replica.state().unwrap();
    let losses = train(&mut replica, 2..4);
    let mut other = plain();
    other.restore(&saved).unwrap();
    assert_eq!(train(&mut other, 2..4), losses);
    let names: Vec<String> = saved.weights.iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["hidden.bias", "hidden.weight", "output.bias", "output.weight"]);
}

#[test]
fn burns_own_batch_norm_is_refused_with_its_name() {
    #[derive(Module, Debug)]
    struct Foreign {
        norm: burn::nn::BatchNorm,
    }
    impl Network for Foreign {
        fn forward(&self, images: Tensor<4>, _pass: &mut Pass) -> Tensor<2> {
            images.flatten(1, 3)
        }
    }
    let network = Foreign { norm: BatchNormConfig::new(3).init(&Device::flex()) };
    let error = BurnReplica::new(network, TASK, SGD).unwrap_err();
    assert!(matches!(&error, NnError::ForeignStatistic { name } if name == "norm.running_mean"));
}

#[test]
fn a_cloned_layer_is_refused_with_both_names() {
    let network = plain().network().clone();
    let network = Twice { first: network.clone(), second: network };
    let error = BurnReplica::new(network, TASK, SGD).unwrap_err().to_string();
    assert!(
        error.contains("`second.hidden.weight` is a clone of `first.hidden.weight`"),
        "{error}"
    );
}

#[derive(Module, Debug)]
struct Twice {
    first: Plain,
    second: Plain,
}

impl Network for Twice {
    fn forward(&self, images: Tensor<4>, pass: &mut Pass) -> Tensor<2> {
        self.first.forward(images.clone(), pass) + self.second.forward(images, pass)
    }
}

#[test]
fn batches_that_do_not_fit_are_refused_and_change_nothing() {
    let mut replica = resnet8(0);
    let before = replica.state().unwrap();
    let good = batch(IMAGES, 4, 8);
    let grey = ImageShape { channels: 1, ..SMALL };
    let mut grey = Batch { images: vec![0.0; 4 * 64], labels: vec![0; 4], shape: grey };
    let mut label = good.clone();
    label.labels[2] = 10;
    let mut short = good.clone();
    short.images.pop();
    let cases = [
        (grey.clone(), "channels is 1, expected 3"),
        (batch(IMAGES, 4, 16), "image size is 16 x 16, expected 8 x 8"),
        (label, "label is 10, expected below 10"),
        (short, "number of pixel values is 767, expected 768"),
        (batch(IMAGES, 0, 8), "number of images is 0, expected at least 1"),
    ];
    for (bad, reason) in cases {
        let errors = [
            replica.step(&bad, at(0.1, 0)).unwrap_err(),
            replica.evaluate(&bad).unwrap_err(),
            replica.recalibrate(&mut [Ok(bad)].into_iter(), 0.1).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, ReplicaError::Batch { .. }), "{error}");
            assert!(error.to_string().ends_with(reason), "{error}");
        }
    }
    assert!(replica.recalibrate(&mut std::iter::empty(), 0.1).is_err());
    assert_same_bits(&replica.state().unwrap(), &before);

    // The same network for grey images takes them.
    grey.labels = vec![0, 1, 2, 3];
    let task = Task { images: grey.shape, classes: 4 };
    let spec: ModelSpec = "resnet8".parse().unwrap();
    let mut replica = spec.build(task, Origin { seed: 1, replica: 0 }, SGD).unwrap();
    assert!(replica.step(&grey, at(0.1, 0)).unwrap().loss.is_finite());
}

#[test]
fn weights_that_do_not_fit_are_refused_by_name_and_change_nothing() {
    let mut replica = resnet8(0);
    train(&mut replica, 0..1);
    let before = replica.state().unwrap();

    // A whole state is not a set of parameters.
    let error = replica.load(&before.weights).unwrap_err();
    assert!(error.to_string().contains("`bn1.num_batches_tracked`"), "{error}");
    let mut other = resnet8(0).state().unwrap();
    other.momentum = Weights::new();
    let error = replica.restore(&other).unwrap_err();
    let missing = WeightsError::Missing { name: "bn1.bias".to_owned() };
    assert!(matches!(error, ReplicaError::Weights(e) if e == missing));
    assert_same_bits(&replica.state().unwrap(), &before);
}

#[test]
fn a_loss_that_is_not_finite_is_told_not_raised() {
    let mut replica = resnet8(0);
    let mut bad = batch(IMAGES, 4, 8);
    bad.images[0] = f32::NAN;
    assert!(replica.step(&bad, at(0.1, 0)).unwrap().loss.is_nan());
    assert_eq!(replica.evaluate(&batch(IMAGES, 10, 8)).unwrap().top1, 0);
}
