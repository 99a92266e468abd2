//! A recorded network on Burn's standard operations: for every backend, and for what
//! the kernels do not cover.
//!
//! Operation by operation, as the graph has them, and differentiable because they are.
//! The layout is `[N, C, H, W]` in between, as Burn's operations want it. What does not
//! fit together was found when the graph was planned.

use burn::tensor::activation::relu;
use burn::tensor::module::{avg_pool2d, conv2d, max_pool2d};
use burn::tensor::ops::{AvgPoolOptions, ConvOptions, MaxPoolOptions};
use burn::tensor::{Tensor, s};
use hwa_kernels::graph::{Graph, Node, Operation, Parameter, Windows};
use hwa_kernels::{Activation, Form, Moments};

/// Where ReLU6 ends.
const SIX: f64 = 6.0;

/// A network, apart from its images.
pub(crate) struct Standard<'a> {
    pub graph: &'a Graph,
    /// Flattened.
    pub parameters: &'a [Tensor<1>],
    /// The statistics that each batch norm normalises by; without, those of the batch.
    pub given: Option<Vec<Statistics>>,
}

/// Mean and variance of each channel.
pub(crate) struct Statistics {
    pub mean: Tensor<1>,
    /// Of a batch, divided by the number of values.
    pub variance: Tensor<1>,
}

impl Statistics {
    /// As numbers.
    pub(crate) fn moments(&self) -> Moments {
        let numbers = |tensor: &Tensor<1>| tensor.to_data().iter::<f64>().collect();
        Moments { mean: numbers(&self.mean), variance: numbers(&self.variance) }
    }
}

impl Standard<'_> {
    /// Runs on `[N, H, W, C]`; gives what the batch norms saw, too, and in how many values:
    /// nothing if it was given.
    pub(crate) fn run(&self, images: Tensor<4>) -> (Tensor<4>, Vec<(Moments, usize)>) {
        let mut run = Run::new(self);
        run.keep(images.permute([0, 3, 1, 2]));
        for operation in &self.graph.operations()[1..] {
            let result = run.act(operation);
            run.keep(result);
        }
        let output = run.read(self.graph.last()).permute([0, 2, 3, 1]);
        // Only now: a device that runs ahead is not kept waiting in between.
        let seen = run.seen.iter().map(|(statistics, count)| (statistics.moments(), *count));
        (output, seen.collect())
    }
}

/// A network on its way.
struct Run<'a> {
    network: &'a Standard<'a>,
    /// Of each node so far, its tensor for each operation that has yet to read it. The last
    /// reader has it for itself, and it is gone afterwards.
    kept: Vec<Vec<Tensor<4>>>,
    /// How many operations read each node.
    readers: Vec<usize>,
    /// Batch norms so far.
    norms: usize,
    seen: Vec<(Statistics, usize)>,
}

impl<'a> Run<'a> {
    fn new(network: &'a Standard<'a>) -> Self {
        let operations = network.graph.operations();
        let mut readers = vec![0; operations.len()];
        for node in operations.iter().flat_map(Operation::inputs) {
            readers[node.index()] += 1;
        }
        readers[network.graph.last().index()] += 1;
        Self { network, kept: Vec::new(), readers, norms: 0, seen: Vec::new() }
    }

    fn keep(&mut self, result: Tensor<4>) {
        let readers = self.readers[self.kept.len()];
        self.kept.push(vec![result; readers]);
    }

    fn read(&mut self, node: Node) -> Tensor<4> {
        self.kept[node.index()].swap_remove(0)
    }

    fn parameter(&self, Parameter(number): Parameter) -> Tensor<1> {
        self.network.parameters[number].clone()
    }

    fn act(&mut self, operation: &Operation) -> Tensor<4> {
        match *operation {
            Operation::Input => self.read(Graph::INPUT),
            Operation::Convolution { x, weight, bias, form } => {
                let bias = bias.map(|bias| self.parameter(bias));
                convolve(self.read(x), self.parameter(weight), bias, form)
            }
            Operation::Norm { x, weight, bias, epsilon } => {
                let affine = (self.parameter(weight), self.parameter(bias));
                let x = self.read(x);
                self.normalise(x, affine, epsilon)
            }
            Operation::Activation { x, activation } => activate(self.read(x), activation),
            Operation::Add { a, b } => self.read(a) + self.read(b),
            Operation::Subsample { x, stride, channels } => {
                subsample(self.read(x), stride.max(1), channels)
            }
            Operation::MaxPool { x, windows: Windows { kernel, stride, padding } } => {
                let options = MaxPoolOptions::new([kernel; 2]).with_stride([stride; 2]);
                max_pool2d(self.read(x), options.with_padding([padding; 2]))
            }
            Operation::AveragePool { x, windows: Windows { kernel, stride, padding } } => {
                let options = AvgPoolOptions::new([kernel; 2]).with_stride([stride; 2]);
                let options = options.with_padding([padding; 2]).with_count_include_pad(true);
                avg_pool2d(self.read(x), options)
            }
            Operation::Slice { x, start, end } => self.read(x).slice(s![.., start..end]),
            Operation::Concat { a, b, groups } => {
                shuffle(Tensor::cat(vec![self.read(a), self.read(b)], 1), groups)
            }
            Operation::GlobalAverage { x } => self.read(x).mean_dim(3).mean_dim(2),
        }
    }

    fn normalise(
        &mut self,
        x: Tensor<4>,
        (weight, bias): (Tensor<1>, Tensor<1>),
        epsilon: f64,
    ) -> Tensor<4> {
        let [images, channels, height, width] = x.dims();
        let along_channels = |numbers: Tensor<1>| numbers.reshape([1, channels, 1, 1]);
        let given = self.network.given.as_ref().map(|given| &given[self.norms]);
        self.norms += 1;
        let (centred, variance) = match given {
            Some(Statistics { mean, variance }) => {
                (x - along_channels(mean.clone()), along_channels(variance.clone()))
            }
            None => {
                // The mean first, then the variance about it: the mean of squares minus the
                // squared mean has no digits left where the mean is large.
                let mean = channel_mean(x.clone());
                let centred = x - mean.clone();
                let variance = channel_mean(centred.clone() * centred.clone());
                let flat = |numbers: Tensor<4>| numbers.detach().reshape([channels]);
                let statistics = Statistics { mean: flat(mean), variance: flat(variance.clone()) };
                self.seen.push((statistics, images * height * width));
                (centred, variance)
            }
        };
        let scale = along_channels(weight) / (variance + epsilon).sqrt();
        centred * scale + along_channels(bias)
    }
}

fn convolve(x: Tensor<4>, weight: Tensor<1>, bias: Option<Tensor<1>>, form: Form) -> Tensor<4> {
    let Form { outputs, kernel: [height, width], stride, padding, groups } = form;
    let [_, inputs, _, _] = x.dims();
    let weight = weight.reshape([outputs, inputs / groups, height, width]);
    let options = ConvOptions::new([stride; 2], [padding; 2], [1; 2], groups);
    conv2d(x, weight, bias, options)
}

fn activate(x: Tensor<4>, activation: Activation) -> Tensor<4> {
    match activation {
        Activation::None => x,
        Activation::Relu => relu(x),
        Activation::Relu6 => relu(x).clamp_max(SIX),
    }
}

/// Every `stride`-th pixel, with zeros before and after the channels.
fn subsample(x: Tensor<4>, stride: usize, channels: usize) -> Tensor<4> {
    let x = if stride == 1 { x } else { x.slice(s![.., .., ..;stride, ..;stride]) };
    let [images, there, height, width] = x.dims();
    let more = channels.saturating_sub(there);
    let device = x.device();
    let zeros = |channels| Tensor::zeros([images, channels, height, width], (&device, x.dtype()));
    match (more / 2, more - more / 2) {
        (_, 0) => x,
        (0, after) => Tensor::cat(vec![x.clone(), zeros(after)], 1),
        (before, after) => Tensor::cat(vec![zeros(before), x.clone(), zeros(after)], 1),
    }
}

/// Deals the channels in turn from equal groups.
fn shuffle(x: Tensor<4>, groups: usize) -> Tensor<4> {
    if groups == 1 {
        return x;
    }
    let [images, channels, height, width] = x.dims();
    let grouped = x.reshape([images, groups, channels / groups, height, width]);
    grouped.swap_dims(1, 2).reshape([images, channels, height, width])
}

/// The mean over all but the channels, as `[1, C, 1, 1]`.
fn channel_mean(x: Tensor<4>) -> Tensor<4> {
    // Dimension by dimension: a tree of short sums rounds far less than one long one.
    x.mean_dim(3).mean_dim(2).mean_dim(0)
}
