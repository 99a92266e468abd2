//! Graphs against the same graphs in `f64`, node by node and in plain loops.

mod builder;
mod exact;

use super::*;
use crate::conv::Precision;
use crate::memory::Pool;
use crate::norm::Moments;
use crate::reference::{error, noise, to_f64};
use crate::shape::Shape;
use crate::simd::Level;

use builder::Builder;
use exact::Exact;

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
