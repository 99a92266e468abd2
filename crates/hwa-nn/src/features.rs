//! Activations on their way through a network: recorded, then run as one operation.
//!
//! A model says what it computes, layer by layer. Nothing runs until the result is
//! asked for; then the whole network, from the images to there, runs as one operation
//! that is free to fuse what its layers do (see [`hwa_kernels::graph`]). On a backend
//! without our kernels, and for what they do not cover, the same model runs on Burn's own
//! operations.
//!
//! ```text
//! let x = Features::of(images).conv(&self.conv).norm(&self.bn).relu();
//! let scores = self.linear.forward(x.global_average(pass));
//! ```

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use burn::tensor::Tensor;
use hwa_kernels::graph::{Graph, Node, Operation, Parameter};
use hwa_kernels::simd::Level;
use hwa_kernels::{Form, Precision};

pub use hwa_kernels::graph::Windows;

use crate::error::NnError;
use crate::layers::{BatchNorm, Conv2d};
use crate::ops::Activation;
use crate::pass::Pass;
use crate::recording::{Norm, Recording};
use crate::sequence::Layer;

/// `[N, H, W, C]` activations that a network has yet to compute.
#[derive(Debug, Clone)]
pub struct Features {
    recording: Rc<RefCell<Recording>>,
    node: Node,
}

impl Features {
    /// The images that a network is given, `[N, H, W, C]`.
    pub fn of(images: Tensor<4>) -> Self {
        let recording = Recording::new(images);
        Self { recording: Rc::new(RefCell::new(recording)), node: Graph::INPUT }
    }

    /// Convolved.
    pub fn conv(&self, layer: &Conv2d) -> Self {
        let weight = layer.weight.val();
        let [outputs, _, height, width] = weight.dims();
        let form = layer.form();
        let form = Form {
            outputs,
            kernel: [height, width],
            stride: form.stride,
            padding: form.padding,
            groups: form.groups,
        };
        let weight = self.parameter(weight);
        let bias = layer.bias.as_ref().map(|bias| self.parameter(bias.val()));
        self.then(Operation::Convolution { x: self.node, weight, bias, form })
    }

    /// Normalised: by the batch or by the running statistics, as the pass that runs it says.
    pub fn norm(&self, layer: &BatchNorm) -> Self {
        let (weight, bias) = (self.parameter(layer.weight.val()), self.parameter(layer.bias.val()));
        self.recording.borrow_mut().norm(Norm {
            layer: layer.id(),
            momentum: layer.momentum(),
            running_mean: layer.running_mean.val(),
            running_variance: layer.running_var.val(),
        });
        self.then(Operation::Norm { x: self.node, weight, bias, epsilon: layer.epsilon() })
    }

    /// `max(x, 0)`.
    pub fn relu(&self) -> Self {
        self.activate(Activation::Relu)
    }

    /// `min(max(x, 0), 6)`.
    pub fn relu6(&self) -> Self {
        self.activate(Activation::Relu6)
    }

    /// Activated.
    pub fn activate(&self, activation: Activation) -> Self {
        self.then(Operation::Activation { x: self.node, activation })
    }

    /// The largest of each window.
    pub fn max_pool(&self, windows: Windows) -> Self {
        self.then(Operation::MaxPool { x: self.node, windows })
    }

    /// The mean of each window; padding counts, as zeros.
    pub fn average_pool(&self, windows: Windows) -> Self {
        self.then(Operation::AveragePool { x: self.node, windows })
    }

    /// Some of the channels.
    pub fn channels(&self, range: Range<usize>) -> Self {
        let Range { start, end } = range;
        self.then(Operation::Slice { x: self.node, start, end })
    }

    /// These channels and then those of `other`, shuffled: dealt in turn from `groups` equal
    /// groups. One group leaves them as they are.
    ///
    /// # Panics
    ///
    /// If the two are not branches of one network.
    pub fn concat(&self, other: &Self, groups: usize) -> Self {
        self.same_network(other);
        self.then(Operation::Concat { a: self.node, b: other.node, groups })
    }

    /// Every `stride`-th pixel, with zeros on both sides for new channels: the shortcut
    /// without parameters ("option A") of the ResNet paper.
    pub fn subsample(&self, stride: usize, channels: usize) -> Self {
        self.then(Operation::Subsample { x: self.node, stride, channels })
    }

    /// Through layers, one after the other.
    pub fn through(&self, layers: &[Layer]) -> Self {
        layers.iter().fold(self.clone(), |x, layer| match layer {
            Layer::Conv(conv) => x.conv(conv),
            Layer::Norm(norm) => x.norm(norm),
            Layer::Activate(layer) => x.activate(layer.activation),
            Layer::MaxPool(layer) => x.max_pool(layer.windows),
            Layer::Sequence(layers) => x.through(layers),
        })
    }

    /// The multiply-adds that it takes to run the network up to here, in its convolutions.
    ///
    /// Refused is a network that cannot run on images of this size.
    pub fn multiply_adds(&self) -> Result<u64, NnError> {
        let recording = self.recording.borrow();
        Ok(recording.plan(Level::chosen()?, Precision::default())?.multiply_adds())
    }

    /// Runs the network up to here and takes the mean over each image, `[N, C]`.
    pub fn global_average(&self, pass: &mut Pass) -> Tensor<2> {
        self.then(Operation::GlobalAverage { x: self.node }).tensor(pass).flatten(1, 3)
    }

    /// Runs the network up to here.
    ///
    /// # Panics
    ///
    /// If shapes do not fit, as Burn's own operations do, or if part of the network has
    /// already been run.
    pub fn tensor(&self, pass: &mut Pass) -> Tensor<4> {
        let recording = self.recording.borrow();
        assert!(recording.graph.last() == self.node, "the network goes on after what is to be run");
        recording.run(pass)
    }

    fn same_network(&self, other: &Self) {
        let same = Rc::ptr_eq(&self.recording, &other.recording);
        assert!(same, "the features belong to two networks");
    }

    fn then(&self, operation: Operation) -> Self {
        let node = self.recording.borrow_mut().graph.add(operation);
        Self { recording: self.recording.clone(), node }
    }

    fn parameter<const D: usize>(&self, tensor: Tensor<D>) -> Parameter {
        self.recording.borrow_mut().parameter(tensor)
    }
}

impl std::ops::Add for Features {
    type Output = Self;

    /// The sum of two branches.
    ///
    /// # Panics
    ///
    /// If they are not branches of one network.
    fn add(self, other: Self) -> Self {
        self.same_network(&other);
        self.then(Operation::Add { a: self.node, b: other.node })
    }
}
