//! A network as a graph, run as one operation.
//!
//! A model records what it computes, node by node and as plainly as it is written in
//! its paper. [`Program`] turns that into steps: batch norms, biases and activations
//! become part of how the next step reads (a `View`), sums and the activations
//! after them become one pass, and what a step needs of its results is gathered while
//! they are in the cache. Backward, gradients that only pass through a sum are not
//! copied, and buffers are handed on as soon as they are free.
//!
//! ```text
//! Graph     what is computed       Input, Convolution, Norm, Activation, Add, ...
//! Program   in which steps         plan.rs
//! Tape      what a run remembers   forward.rs, backward.rs
//! Times     where the time went    profile.rs
//! ```

mod backward;
mod forward;
mod plan;
mod profile;
#[cfg(test)]
mod tests;

pub use backward::Gradients;
pub use forward::{Forward, Statistics, Tape};
pub use plan::{Limit, Program, ProgramError};
pub use profile::Times;

use crate::conv::Form;
use crate::read::Activation;

/// A tensor in a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(pub(crate) usize);

impl Node {
    /// Its place among the operations of its graph.
    pub fn index(self) -> usize {
        self.0
    }
}

/// A parameter: its place among those that a run is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parameter(pub usize);

/// Windows that move over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Windows {
    /// Rows and columns of a window.
    pub kernel: usize,
    /// Pixels from one window to the next.
    pub stride: usize,
    /// Pixels on each side that are not there.
    pub padding: usize,
}

/// What a node computes.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// The images that a run is given.
    Input,
    /// A convolution; weights are `[outputs, inputs / groups, height, width]`.
    Convolution {
        /// What is convolved.
        x: Node,
        /// The weights.
        weight: Parameter,
        /// Added to each output channel.
        bias: Option<Parameter>,
        /// How it moves.
        form: Form,
    },
    /// Batch norm, by the batch's statistics or given ones, as the run says.
    Norm {
        /// What is normalised.
        x: Node,
        /// The scale of each channel.
        weight: Parameter,
        /// The shift of each channel.
        bias: Parameter,
        /// Added to the variance.
        epsilon: f64,
    },
    /// An activation.
    Activation {
        /// What is activated.
        x: Node,
        /// Which.
        activation: Activation,
    },
    /// The sum of two tensors of one shape.
    Add {
        /// One.
        a: Node,
        /// The other.
        b: Node,
    },
    /// Every `stride`-th pixel, with zeros before and after the channels to make them `channels`.
    Subsample {
        /// What is sampled.
        x: Node,
        /// Pixels from one sample to the next.
        stride: usize,
        /// The channels that result.
        channels: usize,
    },
    /// The largest of each window; padding is smaller than everything.
    MaxPool {
        /// Of what.
        x: Node,
        /// The windows.
        windows: Windows,
    },
    /// The mean of each window; padding counts, as zeros.
    AveragePool {
        /// Of what.
        x: Node,
        /// The windows.
        windows: Windows,
    },
    /// Some of the channels.
    Slice {
        /// Of what.
        x: Node,
        /// The first.
        start: usize,
        /// The one after the last.
        end: usize,
    },
    /// The channels of two tensors one after the other, then those of `groups` equal groups
    /// dealt in turn.
    Concat {
        /// The first.
        a: Node,
        /// The second.
        b: Node,
        /// One leaves the channels as they are.
        groups: usize,
    },
    /// The mean over each image.
    GlobalAverage {
        /// Of what.
        x: Node,
    },
}

impl Operation {
    /// What it reads.
    pub fn inputs(&self) -> Vec<Node> {
        match *self {
            Self::Input => vec![],
            Self::Add { a, b } | Self::Concat { a, b, .. } => vec![a, b],
            Self::Convolution { x, .. }
            | Self::Norm { x, .. }
            | Self::Activation { x, .. }
            | Self::Subsample { x, .. }
            | Self::MaxPool { x, .. }
            | Self::AveragePool { x, .. }
            | Self::Slice { x, .. }
            | Self::GlobalAverage { x } => vec![x],
        }
    }
}

/// What a network computes, from its input to its last node.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub(crate) operations: Vec<Operation>,
}

impl Default for Graph {
    fn default() -> Self {
        Self { operations: vec![Operation::Input] }
    }
}

impl Graph {
    /// The images.
    pub const INPUT: Node = Node(0);

    /// What is computed, in order: the operation of each node.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// What was added last, which is what a program gives.
    pub fn last(&self) -> Node {
        Node(self.operations.len() - 1)
    }

    /// Adds an operation on nodes of this graph.
    pub fn add(&mut self, operation: Operation) -> Node {
        self.operations.push(operation);
        Node(self.operations.len() - 1)
    }
}
