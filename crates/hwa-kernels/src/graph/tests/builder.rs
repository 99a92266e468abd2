//! Graphs written down layer by layer, with parameters of noise.

use crate::conv::Form;
use crate::graph::{Graph, Node, Operation, Parameter, Windows};
use crate::read::Activation;
use crate::reference::{Reference, noise};
use crate::shape::Shape;
use crate::weights::Dense;

/// A graph with parameters.
pub(super) struct Case {
    pub(super) graph: Graph,
    pub(super) input: Shape,
    pub(super) parameters: Vec<Vec<f32>>,
}

/// Builds a graph; parameters are drawn as they are asked for.
pub(super) struct Builder {
    pub(super) case: Case,
    pub(super) shapes: Vec<Shape>,
}

impl Builder {
    pub(super) fn new(input: Shape) -> Self {
        let case = Case { graph: Graph::default(), input, parameters: Vec::new() };
        Self { case, shapes: vec![input] }
    }

    fn parameter(&mut self, len: usize, scale: f32, shift: f32) -> Parameter {
        let number = self.case.parameters.len();
        let numbers = noise(len, 100 + number as u64).into_iter().map(|x| scale * x + shift);
        self.case.parameters.push(numbers.collect());
        Parameter(number)
    }

    pub(super) fn node(&mut self, operation: Operation, shape: Shape) -> Node {
        self.shapes.push(shape);
        self.case.graph.add(operation)
    }

    pub(super) fn conv(
        &mut self,
        x: Node,
        outputs: usize,
        (k, stride): (usize, usize),
        bias: bool,
    ) -> Node {
        let from = self.shapes[x.0];
        let inputs = from.channels;
        self.grouped(x, outputs, (k, stride, 1), bias, inputs)
    }

    pub(super) fn grouped(
        &mut self,
        x: Node,
        outputs: usize,
        (k, stride, groups): (usize, usize, usize),
        bias: bool,
        inputs: usize,
    ) -> Node {
        let from = self.shapes[x.0];
        let inputs = inputs / groups;
        let scale = (3.0 / (inputs * k * k) as f32).sqrt();
        let weight = self.parameter(outputs * inputs * k * k, scale, 0.0);
        let bias = bias.then(|| self.parameter(outputs, 0.5, 0.0));
        let form = Form { outputs, kernel: [k, k], stride, padding: k / 2, groups };
        let shape = reference(form, from).output();
        self.node(Operation::Convolution { x, weight, bias, form }, shape)
    }

    pub(super) fn norm(&mut self, x: Node) -> Node {
        let shape = self.shapes[x.0];
        let weight = self.parameter(shape.channels, 0.25, 1.0);
        let bias = self.parameter(shape.channels, 0.25, 0.0);
        self.node(Operation::Norm { x, weight, bias, epsilon: 1e-5 }, shape)
    }

    pub(super) fn act(&mut self, x: Node, activation: Activation) -> Node {
        self.node(Operation::Activation { x, activation }, self.shapes[x.0])
    }

    pub(super) fn plus(&mut self, a: Node, b: Node) -> Node {
        self.node(Operation::Add { a, b }, self.shapes[a.0])
    }

    pub(super) fn subsample(&mut self, x: Node, channels: usize) -> Node {
        let from = self.shapes[x.0];
        let (height, width) = (from.height.div_ceil(2), from.width.div_ceil(2));
        let shape = Shape { height, width, channels, ..from };
        self.node(Operation::Subsample { x, stride: 2, channels }, shape)
    }

    pub(super) fn pool(&mut self, x: Node, windows: Windows, largest: bool) -> Node {
        let input = self.shapes[x.0];
        let Windows { kernel, stride, padding } = windows;
        let shape = crate::pool::Windows { kernel: [kernel; 2], stride, padding, input }.output();
        let operation = match largest {
            true => Operation::MaxPool { x, windows },
            false => Operation::AveragePool { x, windows },
        };
        self.node(operation, shape)
    }

    pub(super) fn slice(&mut self, x: Node, start: usize, end: usize) -> Node {
        let shape = Shape { channels: end - start, ..self.shapes[x.0] };
        self.node(Operation::Slice { x, start, end }, shape)
    }

    pub(super) fn concat(&mut self, a: Node, b: Node, groups: usize) -> Node {
        let channels = self.shapes[a.0].channels + self.shapes[b.0].channels;
        let shape = Shape { channels, ..self.shapes[a.0] };
        self.node(Operation::Concat { a, b, groups }, shape)
    }

    pub(super) fn average(&mut self, x: Node) -> Node {
        let shape = Shape { height: 1, width: 1, ..self.shapes[x.0] };
        self.node(Operation::GlobalAverage { x }, shape)
    }
}

pub(super) fn reference(form: Form, input: Shape) -> Reference {
    let Form { outputs, kernel, stride, padding, groups } = form;
    let dense = Dense { outputs, inputs: input.channels / groups, kernel };
    Reference { form: dense, stride, padding, groups, input }
}
