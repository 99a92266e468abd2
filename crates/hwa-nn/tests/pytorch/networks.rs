//! Networks of the zoo: scores, a step's loss and gradients, and running statistics.

use burn::module::Module;
use burn::tensor::Device;
use hwa_core::Weights;
use hwa_data::Batch;
use hwa_nn::{BurnReplica, Mode, Model, Network, names};
use hwa_train::Replica;
use serde::Deserialize;

use crate::bounds::{bound, largest, mean_square, relative_error};
use crate::noise::{at, batch, noise, values};
use crate::ways::{Way, ways};
use crate::{ByName, Filled, read, tensor, to_vec};

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
