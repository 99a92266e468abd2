//! What a graph gives in `f64`, and its gradients: node by node and in plain loops.

use super::builder::{Case, reference};
use crate::graph::{Node, Operation, Windows};
use crate::norm::Moments;
use crate::reference::to_f64;
use crate::shape::Shape;

/// What a graph gives in `f64`, and the gradients of parameters for a gradient of its output.
pub(super) struct Exact<'a> {
    pub(super) case: &'a Case,
    pub(super) shapes: &'a [Shape],
    pub(super) given: Option<&'a [Moments]>,
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

    pub(super) fn run(
        &self,
        images: &[f32],
        gradient: &[f32],
    ) -> (Vec<f64>, Vec<Vec<f64>>, Vec<f64>) {
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
