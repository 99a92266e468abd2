//! Graphs against the same graphs in `f64`, node by node and in plain loops.

use super::*;
use crate::conv::Precision;
use crate::memory::Pool;
use crate::norm::Moments;
use crate::reference::{Reference, error, noise, to_f64};
use crate::shape::Shape;
use crate::simd::Level;
use crate::weights::Dense;

/// A graph with parameters, and what it gives in `f64`.
struct Case {
    graph: Graph,
    input: Shape,
    parameters: Vec<Vec<f32>>,
}

/// Builds a graph; parameters are drawn as they are asked for.
struct Builder {
    case: Case,
    shapes: Vec<Shape>,
}

impl Builder {
    fn new(input: Shape) -> Self {
        let case = Case { graph: Graph::default(), input, parameters: Vec::new() };
        Self { case, shapes: vec![input] }
    }

    fn parameter(&mut self, len: usize, scale: f32, shift: f32) -> Parameter {
        let number = self.case.parameters.len();
        let numbers = noise(len, 100 + number as u64).into_iter().map(|x| scale * x + shift);
        self.case.parameters.push(numbers.collect());
        Parameter(number)
    }

    fn node(&mut self, operation: Operation, shape: Shape) -> Node {
        self.shapes.push(shape);
        self.case.graph.add(operation)
    }

    fn conv(&mut self, x: Node, outputs: usize, (k, stride): (usize, usize), bias: bool) -> Node {
        let from = self.shapes[x.0];
        let inputs = from.channels;
        self.grouped(x, outputs, (k, stride, 1), bias, inputs)
    }

    fn grouped(
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

    fn norm(&mut self, x: Node) -> Node {
        let shape = self.shapes[x.0];
        let weight = self.parameter(shape.channels, 0.25, 1.0);
        let bias = self.parameter(shape.channels, 0.25, 0.0);
        self.node(Operation::Norm { x, weight, bias, epsilon: 1e-5 }, shape)
    }

    fn act(&mut self, x: Node, activation: Activation) -> Node {
        self.node(Operation::Activation { x, activation }, self.shapes[x.0])
    }

    fn plus(&mut self, a: Node, b: Node) -> Node {
        self.node(Operation::Add { a, b }, self.shapes[a.0])
    }

    fn subsample(&mut self, x: Node, channels: usize) -> Node {
        let from = self.shapes[x.0];
        let (height, width) = (from.height.div_ceil(2), from.width.div_ceil(2));
        let shape = Shape { height, width, channels, ..from };
        self.node(Operation::Subsample { x, stride: 2, channels }, shape)
    }

    fn pool(&mut self, x: Node, windows: Windows, largest: bool) -> Node {
        let input = self.shapes[x.0];
        let Windows { kernel, stride, padding } = windows;
        let shape = crate::pool::Windows { kernel: [kernel; 2], stride, padding, input }.output();
        let operation = match largest {
            true => Operation::MaxPool { x, windows },
            false => Operation::AveragePool { x, windows },
        };
        self.node(operation, shape)
    }

    fn slice(&mut self, x: Node, start: usize, end: usize) -> Node {
        let shape = Shape { channels: end - start, ..self.shapes[x.0] };
        self.node(Operation::Slice { x, start, end }, shape)
    }

    fn concat(&mut self, a: Node, b: Node, groups: usize) -> Node {
        let channels = self.shapes[a.0].channels + self.shapes[b.0].channels;
        let shape = Shape { channels, ..self.shapes[a.0] };
        self.node(Operation::Concat { a, b, groups }, shape)
    }

    fn average(&mut self, x: Node) -> Node {
        let shape = Shape { height: 1, width: 1, ..self.shapes[x.0] };
        self.node(Operation::GlobalAverage { x }, shape)
    }
}

fn reference(form: Form, input: Shape) -> Reference {
    let Form { outputs, kernel, stride, padding, groups } = form;
    let dense = Dense { outputs, inputs: input.channels / groups, kernel };
    Reference { form: dense, stride, padding, groups, input }
}

/// What a graph gives in `f64`, and the gradients of parameters for a gradient of its output.
struct Exact<'a> {
    case: &'a Case,
    shapes: &'a [Shape],
    given: Option<&'a [Moments]>,
}

impl Exact<'_> {
    fn padded(&self, dense: &[f32], shape: Shape) -> Vec<f64> {
        let mut all = vec![0.0; shape.len()];
        for (to, from) in all.chunks_mut(shape.stride()).zip(dense.chunks(shape.channels)) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = f64::from(*from));
        }
        all
    }

    fn dense(&self, padded: &[f64], shape: Shape) -> Vec<f64> {
        let pixels = padded.chunks(shape.stride());
        pixels.flat_map(|pixel| pixel[..shape.channels].to_vec()).collect()
    }

    fn moments(&self, x: &[f64], shape: Shape, number: usize) -> Moments {
        if let Some(given) = self.given {
            return given[number].clone();
        }
        let n = shape.pixels() as f64;
        let of = |c: usize| x.iter().skip(c).step_by(shape.stride());
        let mean: Vec<f64> = (0..shape.channels).map(|c| of(c).sum::<f64>() / n).collect();
        let variance = (0..shape.channels)
            .map(|c| of(c).map(|x| (x - mean[c]).powi(2)).sum::<f64>() / n)
            .collect();
        Moments { mean, variance }
    }

    /// Of a slice or concatenation: a node, a number in it, and the number it becomes.
    fn moved(&self, i: usize) -> Vec<(Node, usize, usize)> {
        let to = self.shapes[i];
        let mut moves = Vec::new();
        for (pixel, c) in (0..to.pixels() * to.channels).map(|j| (j / to.channels, j % to.channels))
        {
            let (x, channel) = match self.case.graph.operations[i] {
                Operation::Slice { x, start, .. } => (x, start + c),
                Operation::Concat { a, b, groups } => {
                    let origin = c % groups * (to.channels / groups) + c / groups;
                    let first = self.shapes[a.0].channels;
                    if origin < first { (a, origin) } else { (b, origin - first) }
                }
                _ => continue,
            };
            let from = pixel * self.shapes[x.0].stride() + channel;
            moves.push((x, from, pixel * to.stride() + c));
        }
        moves
    }

    fn run(&self, images: &[f32], gradient: &[f32]) -> (Vec<f64>, Vec<Vec<f64>>, Vec<f64>) {
        let parameters: Vec<Vec<f64>> = self.case.parameters.iter().map(|p| to_f64(p)).collect();
        let mut values: Vec<Vec<f64>> = Vec::new();
        let mut seen = Vec::new();
        for (i, operation) in self.case.graph.operations.iter().enumerate() {
            let shape = self.shapes[i];
            let stride = shape.stride();
            let value = match *operation {
                Operation::Input => self.padded(images, shape),
                Operation::Convolution { x, weight, bias, form } => {
                    let conv = reference(form, self.shapes[x.0]);
                    let mut y = conv.forward(&values[x.0], &parameters[weight.0]);
                    for (pixel, bias) in
                        y.chunks_mut(stride).zip(std::iter::repeat(bias.map(|b| &parameters[b.0])))
                    {
                        let bias = bias.into_iter().flatten();
                        pixel.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
                    }
                    y
                }
                Operation::Norm { x, weight, bias, epsilon } => {
                    let moments = self.moments(&values[x.0], shape, seen.len());
                    let mut y = vec![0.0; shape.len()];
                    for j in (0..y.len()).filter(|j| j % stride < shape.channels) {
                        let c = j % stride;
                        let centred = values[x.0][j] - moments.mean[c];
                        let deviation = (moments.variance[c] + epsilon).sqrt();
                        y[j] =
                            centred / deviation * parameters[weight.0][c] + parameters[bias.0][c];
                    }
                    seen.push(moments);
                    y
                }
                Operation::Activation { x, activation } => {
                    let [low, high] = activation.bounds().map(f64::from);
                    values[x.0].iter().map(|x| x.max(low).min(high)).collect()
                }
                Operation::Add { a, b } => {
                    values[a.0].iter().zip(&values[b.0]).map(|(a, b)| a + b).collect()
                }
                Operation::Subsample { x, stride: step, channels } => {
                    let mut y = vec![0.0; shape.len()];
                    for (from, to) in sampled(self.shapes[x.0], shape, step, channels) {
                        y[to] = values[x.0][from];
                    }
                    y
                }
                Operation::MaxPool { x, windows } => {
                    let mut y = vec![0.0; shape.len()];
                    for (o, window) in windowed(self.shapes[x.0], shape, windows) {
                        y[o] = window.iter().map(|&i| values[x.0][i]).fold(f64::MIN, f64::max);
                    }
                    y
                }
                Operation::AveragePool { x, windows } => {
                    let mut y = vec![0.0; shape.len()];
                    for (o, window) in windowed(self.shapes[x.0], shape, windows) {
                        let sum: f64 = window.iter().map(|&i| values[x.0][i]).sum();
                        y[o] = sum / windows.kernel.pow(2) as f64;
                    }
                    y
                }
                Operation::Slice { .. } | Operation::Concat { .. } => {
                    let mut y = vec![0.0; shape.len()];
                    for (x, from, to) in self.moved(i) {
                        y[to] = values[x.0][from];
                    }
                    y
                }
                Operation::GlobalAverage { x } => {
                    let from = self.shapes[x.0];
                    let pixels = from.height * from.width;
                    let mut y = vec![0.0; shape.len()];
                    for (j, x) in values[x.0].iter().enumerate() {
                        let (pixel, c) = (j / stride, j % stride);
                        y[pixel / pixels * stride + c] += x / pixels as f64;
                    }
                    y
                }
            };
            values.push(value);
        }
        let last = values.len() - 1;
        let output = self.dense(&values[last], self.shapes[last]);
        let (found, images) = self.back(&values, &seen, &parameters, gradient);
        (output, found, images)
    }

    fn back(
        &self,
        values: &[Vec<f64>],
        seen: &[Moments],
        parameters: &[Vec<f64>],
        gradient: &[f32],
    ) -> (Vec<Vec<f64>>, Vec<f64>) {
        let mut found: Vec<Vec<f64>> = parameters.iter().map(|p| vec![0.0; p.len()]).collect();
        let mut grads: Vec<Vec<f64>> = values.iter().map(|v| vec![0.0; v.len()]).collect();
        let last = values.len() - 1;
        grads[last] = self.padded(gradient, self.shapes[last]);
        let mut norm = seen.len();
        let add = |to: &mut Vec<f64>, from: &[f64]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        };
        for (i, operation) in self.case.graph.operations.iter().enumerate().rev() {
            let (shape, g) = (self.shapes[i], grads[i].clone());
            let stride = shape.stride();
            match *operation {
                Operation::Input => {}
                Operation::Convolution { x, weight, bias, form } => {
                    let conv = reference(form, self.shapes[x.0]);
                    add(&mut grads[x.0], &conv.input_gradient(&g, &parameters[weight.0]));
                    add(&mut found[weight.0], &conv.weight_gradient(&values[x.0], &g));
                    if let Some(bias) = bias {
                        g.chunks(stride).for_each(|pixel| add(&mut found[bias.0], pixel));
                    }
                }
                Operation::Norm { x, weight, bias, epsilon } => {
                    norm -= 1;
                    let n = shape.pixels() as f64;
                    for c in 0..shape.channels {
                        let deviation = (seen[norm].variance[c] + epsilon).sqrt();
                        let at = |j: usize| (values[x.0][j] - seen[norm].mean[c]) / deviation;
                        let of = (c..g.len()).step_by(stride);
                        let sum: f64 = of.clone().map(|j| g[j]).sum();
                        let product: f64 = of.clone().map(|j| g[j] * at(j)).sum();
                        found[weight.0][c] += product;
                        found[bias.0][c] += sum;
                        for j in of {
                            let own = match self.given {
                                Some(_) => g[j],
                                None => g[j] - sum / n - at(j) * product / n,
                            };
                            grads[x.0][j] += parameters[weight.0][c] / deviation * own;
                        }
                    }
                }
                Operation::Activation { x, activation } => {
                    let [low, high] = activation.bounds().map(f64::from);
                    for j in 0..g.len() {
                        let v = values[x.0][j];
                        if !(v <= low || v >= high) {
                            grads[x.0][j] += g[j];
                        }
                    }
                }
                Operation::Add { a, b } => {
                    add(&mut grads[a.0], &g);
                    add(&mut grads[b.0], &g);
                }
                Operation::Subsample { x, stride: step, channels } => {
                    for (from, to) in sampled(self.shapes[x.0], shape, step, channels) {
                        grads[x.0][from] += g[to];
                    }
                }
                Operation::MaxPool { x, windows } => {
                    for (o, window) in windowed(self.shapes[x.0], shape, windows) {
                        let largest =
                            window.iter().copied().find(|&j| values[x.0][j] == values[i][o]);
                        grads[x.0][largest.unwrap()] += g[o];
                    }
                }
                Operation::AveragePool { x, windows } => {
                    for (o, window) in windowed(self.shapes[x.0], shape, windows) {
                        let share = g[o] / windows.kernel.pow(2) as f64;
                        window.into_iter().for_each(|j| grads[x.0][j] += share);
                    }
                }
                Operation::Slice { .. } | Operation::Concat { .. } => {
                    for (x, from, to) in self.moved(i) {
                        grads[x.0][from] += g[to];
                    }
                }
                Operation::GlobalAverage { x } => {
                    let from = self.shapes[x.0];
                    let pixels = from.height * from.width;
                    for (j, to) in grads[x.0].iter_mut().enumerate() {
                        let (pixel, c) = (j / stride, j % stride);
                        *to += g[pixel / pixels * stride + c] / pixels as f64;
                    }
                }
            }
        }
        let images = self.dense(&grads[0], self.shapes[0]);
        (found, images)
    }
}

/// Pairs of numbers of the input and the output of a subsampling.
fn sampled(from: Shape, to: Shape, step: usize, channels: usize) -> Vec<(usize, usize)> {
    let before = (channels - from.channels) / 2;
    let mut pairs = Vec::new();
    for n in 0..to.images {
        for (y, x) in (0..to.height * to.width).map(|i| (i / to.width, i % to.width)) {
            for c in 0..from.channels {
                let source = (n * from.height + y * step) * from.width + x * step;
                let result = (n * to.height + y) * to.width + x;
                pairs.push((source * from.stride() + c, result * to.stride() + before + c));
            }
        }
    }
    pairs
}

/// Every number of the output, and those of the input in its window.
fn windowed(from: Shape, to: Shape, windows: Windows) -> Vec<(usize, Vec<usize>)> {
    let Windows { kernel, stride, padding } = windows;
    let mut all = Vec::new();
    for j in 0..to.pixels() * to.channels {
        let (pixel, c) = (j / to.channels, j % to.channels);
        let (row, x) = (pixel / to.width, pixel % to.width);
        let (n, y) = (row / to.height, row % to.height);
        let mut window = Vec::new();
        for (ky, kx) in (0..kernel * kernel).map(|k| (k / kernel, k % kernel)) {
            let (iy, ix) = (y * stride + ky, x * stride + kx);
            if iy >= padding
                && ix >= padding
                && iy < from.height + padding
                && ix < from.width + padding
            {
                let pixel = (n * from.height + iy - padding) * from.width + ix - padding;
                window.push(pixel * from.stride() + c);
            }
        }
        all.push((pixel * to.stride() + c, window));
    }
    all
}

fn check(builder: &Builder, name: &str) {
    let Builder { case, shapes } = builder;
    let output = *shapes.last().unwrap();
    let images = noise(case.input.pixels() * case.input.channels, 1);
    let gradient = noise(output.pixels() * output.channels, 2);
    let parameters: Vec<&[f32]> = case.parameters.iter().map(|p| &p[..]).collect();
    let norms = case
        .graph
        .operations
        .iter()
        .zip(shapes)
        .filter(|(o, _)| matches!(o, Operation::Norm { .. }));
    let given: Vec<Moments> = norms
        .enumerate()
        .map(|(i, (_, shape))| {
            let spread = to_f64(&noise(shape.channels, 50 + i as u64));
            let mean = to_f64(&noise(shape.channels, 70 + i as u64));
            Moments { mean, variance: spread.iter().map(|s| 1.0 + 0.5 * s).collect() }
        })
        .collect();
    for given in [None, Some(&given[..])] {
        let (expected, expected_gradients, expected_images) =
            Exact { case, shapes, given }.run(&images, &gradient);
        for level in Level::available() {
            for precision in [Precision::Exact, Precision::Fast] {
                let program =
                    Program::with_image_gradient(&case.graph, case.input, (level, precision))
                        .unwrap();
                assert_eq!(program.output(), output);
                let statistics = given.map_or(Statistics::Batch, Statistics::Given);
                let pool = Pool::default();
                let found = program.forward(&pool, &images, &parameters, statistics, true);
                let bound = if precision == Precision::Exact { 2e-5 } else { 3e-4 };
                let e = error(&found.output, &expected);
                assert!(e < bound, "{name} {level} {precision:?}: {e:e}");
                let again = program.forward(&pool, &images, &parameters, statistics, false);
                assert_eq!(again.output, found.output);
                let gradients = program.backward(found.tape.unwrap(), &parameters, &gradient);
                let mut rest = &gradients.parameters[..];
                let all = expected_gradients.iter().map(|expected| {
                    let (found, after) = rest.split_at(expected.len());
                    rest = after;
                    (found, expected)
                });
                // Biases before a batch norm have a gradient of zero.
                let largest =
                    expected_gradients.iter().flatten().fold(0.0, |m: f64, x| m.max(x.abs()));
                for (i, (found, expected)) in all.enumerate() {
                    if expected.iter().all(|x| x.abs() < 1e-9 * largest) {
                        assert!(found.iter().all(|x| f64::from(x.abs()) < 1e-5 * largest));
                        continue;
                    }
                    let e = error(found, expected);
                    assert!(e < bound, "{name} {level} {precision:?} parameter {i}: {e:e}");
                }
                let e = error(&gradients.images.unwrap(), &expected_images);
                assert!(e < bound, "{name} {level} {precision:?} images: {e:e}");
            }
        }
    }
}

const IMAGES: Shape = Shape { images: 3, height: 8, width: 6, channels: 3 };

#[test]
fn a_residual_network_has_the_gradients_of_its_graph() {
    let mut b = Builder::new(IMAGES);
    let x = b.conv(Graph::INPUT, 8, (3, 1), false);
    let x = b.norm(x);
    let mut x = b.act(x, Activation::Relu);
    for (channels, stride) in [(8, 1), (20, 2), (20, 1)] {
        let y = b.conv(x, channels, (3, stride), false);
        let y = b.norm(y);
        let y = b.act(y, Activation::Relu);
        let y = b.conv(y, channels, (3, 1), false);
        let y = b.norm(y);
        let shortcut = if stride == 1 { x } else { b.subsample(x, channels) };
        let y = b.plus(y, shortcut);
        x = b.act(y, Activation::Relu);
    }
    b.average(x);
    check(&b, "residual");
}

#[test]
fn a_parameter_used_twice_gets_the_gradients_of_both() {
    let mut b = Builder::new(IMAGES);
    let x = b.conv(Graph::INPUT, 8, (3, 1), false);
    let first = b.conv(x, 8, (3, 1), false);
    let Operation::Convolution { weight, bias, form, .. } = b.case.graph.operations[first.0] else {
        unreachable!("the last operation is the convolution")
    };
    let x = b.norm(first);
    let x = b.act(x, Activation::Relu);
    let shape = b.shapes[x.0];
    let x = b.node(Operation::Convolution { x, weight, bias, form }, shape);
    b.average(x);
    check(&b, "used twice");
}

#[test]
fn a_shortcut_with_a_norm_of_its_own_gets_its_sums() {
    let mut b = Builder::new(IMAGES);
    let x = b.conv(Graph::INPUT, 8, (3, 1), false);
    let x = b.norm(x);
    let x = b.act(x, Activation::Relu6);
    let y = b.conv(x, 17, (3, 2), false);
    let y = b.norm(y);
    let s = b.conv(x, 17, (1, 2), false);
    let s = b.norm(s);
    let y = b.plus(y, s);
    b.act(y, Activation::Relu);
    check(&b, "shortcut");
}

#[test]
fn tensors_that_are_seen_in_different_ways_are_kept_apart() {
    // Before activation: x is normalised for the branch, and passes on as it is.
    let mut b = Builder::new(IMAGES);
    let x = b.conv(Graph::INPUT, 5, (3, 1), true);
    let n = b.norm(x);
    let y = b.act(n, Activation::Relu);
    let y = b.conv(y, 5, (3, 1), true);
    let z = b.plus(x, y);
    let m = b.norm(z);
    let w = b.act(z, Activation::Relu);
    let w = b.plus(w, m);
    b.plus(w, n);
    check(&b, "apart");
}

#[test]
fn networks_without_norms_have_biases_and_activations() {
    let mut b = Builder::new(IMAGES);
    let x = b.conv(Graph::INPUT, 6, (5, 1), true);
    let x = b.act(x, Activation::Relu);
    let y = b.conv(x, 6, (1, 1), true);
    let x = b.plus(x, y);
    let x = b.plus(x, x);
    let x = b.conv(x, 4, (3, 2), true);
    b.average(x);
    check(&b, "biases");
}

#[test]
fn sums_of_sums_pass_their_gates() {
    let mut b = Builder::new(IMAGES);
    let x = b.conv(Graph::INPUT, 6, (3, 1), false);
    let y = b.conv(Graph::INPUT, 6, (3, 1), false);
    let x = b.norm(x);
    let s = b.plus(x, y);
    let s = b.act(s, Activation::Relu);
    let z = b.conv(Graph::INPUT, 6, (1, 1), true);
    let t = b.plus(s, z);
    b.act(t, Activation::Relu6);
    check(&b, "sums");
}

#[test]
fn the_input_alone_is_a_network() {
    let mut b = Builder::new(IMAGES);
    let x = b.norm(Graph::INPUT);
    b.average(x);
    check(&b, "input");
}

#[test]
fn inverted_residuals_have_depthwise_convolutions_and_sums_without_activation() {
    let mut b = Builder::new(IMAGES);
    let x = b.conv(Graph::INPUT, 8, (3, 1), false);
    let mut x = b.norm(x);
    for stride in [1, 2, 1] {
        let y = b.conv(x, 24, (1, 1), false);
        let y = b.norm(y);
        let y = b.act(y, Activation::Relu6);
        let y = b.grouped(y, 24, (3, stride, 24), false, 24);
        let y = b.norm(y);
        let y = b.act(y, Activation::Relu6);
        let y = b.conv(y, 8, (1, 1), false);
        let y = b.norm(y);
        x = if stride == 1 { b.plus(x, y) } else { y };
    }
    b.average(x);
    check(&b, "inverted");
}

#[test]
fn shuffled_branches_find_their_way_back() {
    let mut b = Builder::new(IMAGES);
    let x = b.conv(Graph::INPUT, 10, (3, 1), false);
    let x = b.norm(x);
    let x = b.act(x, Activation::Relu);
    let windows = Windows { kernel: 3, stride: 2, padding: 1 };
    let x = b.pool(x, windows, true);
    let (left, right) = (b.slice(x, 0, 5), b.slice(x, 5, 10));
    let y = b.conv(right, 5, (1, 1), false);
    let y = b.norm(y);
    let y = b.act(y, Activation::Relu);
    let y = b.grouped(y, 5, (3, 1, 5), false, 5);
    let y = b.norm(y);
    let x = b.concat(left, y, 2);
    let y = b.grouped(x, 6, (3, 1, 2), true, 10);
    let y = b.pool(y, Windows { kernel: 2, stride: 1, padding: 0 }, false);
    b.average(y);
    check(&b, "shuffled");
}

#[test]
fn images_can_be_activated_at_once() {
    let mut b = Builder::new(IMAGES);
    let x = b.act(Graph::INPUT, Activation::Relu);
    b.average(x);
    check(&b, "activated images");
}

#[test]
fn a_branch_that_leads_nowhere_holds_up_no_gradient() {
    let mut b = Builder::new(IMAGES);
    let x = b.conv(Graph::INPUT, 8, (3, 1), false);
    let x = b.act(x, Activation::Relu);
    b.slice(x, 1, 5);
    let y = b.conv(x, 4, (1, 1), false);
    b.slice(Graph::INPUT, 0, 1);
    let y = b.norm(y);
    b.average(y);
    check(&b, "dead branch");
}

#[test]
fn a_limit_of_the_kernels_is_told_apart_from_a_mistake() {
    let input = Shape { images: 1, height: 20, width: 20, channels: 3 };
    let plan = |kernel, padding, more: Option<Operation>| {
        let mut graph = Graph::default();
        let windows = Windows { kernel, stride: 1, padding };
        graph.add(Operation::MaxPool { x: Graph::INPUT, windows });
        if let Some(operation) = more {
            graph.add(operation);
        }
        Program::new(&graph, input, (Level::best(), Precision::Fast))
    };
    assert_eq!(plan(16, 0, None).unwrap().limit(), None);
    let large = plan(17, 8, None).unwrap();
    assert_eq!(large.limit(), Some(Limit::MaxPool { kernel: 17 }));
    assert_eq!(large.output(), Shape { height: 20, width: 20, ..input });
    // Nothing would be the largest where a window is all padding.
    let padding = plan(3, 2, None).unwrap_err();
    assert_eq!(padding, ProgramError::Padding { kernel: 3, padding: 2 });
    // Mistakes are found beyond the limit, too.
    let sum = Operation::Add { a: Graph::INPUT, b: Node(1) };
    assert!(matches!(plan(17, 0, Some(sum)), Err(ProgramError::Shapes { .. })));
}
