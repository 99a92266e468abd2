//! What passes over tensors once, in GB/s: memory is its limit. Every tensor counts as if it were
//! read or written once.
//!
//! `cargo bench -p hwa-kernels --bench passes -- [limits | pool | norm | loss | sgd]...`
//!
//! Batch norm has no pass of its own: convolutions gather its sums as they write, and whatever
//! comes next applies it as it reads. `norm` is the sum at the end of a residual block, which
//! normalises one of its tensors and activates the result; backward it only hands its gradient on.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod clock;

use std::hint::black_box;

use clock::{best, best_of, is_wanted, on_one_thread};
use hwa_kernels::graph::{Graph, Node, Operation, Parameter, Program, Statistics, Times, Windows};
use hwa_kernels::limits::multiply_and_add;
use hwa_kernels::simd::Level;
use hwa_kernels::{Activation, Form, Pool, Precision, Sgd, Shape, cross_entropy};

const BATCH: usize = 128;

fn main() {
    let level = Level::chosen().unwrap();
    println!("{level}, one thread, batch {BATCH}; ms, GB/s");
    on_one_thread(|| {
        if is_wanted("limits") {
            limits(level);
        }
        if is_wanted("pool") {
            pools(level);
        }
        if is_wanted("norm") {
            for (channels, size) in [(16, 32), (32, 16), (64, 8), (64, 16), (512, 2)] {
                step(level, (channels, size), residual);
            }
        }
        if is_wanted("loss") {
            [10, 100, 1000].into_iter().for_each(loss);
        }
        if is_wanted("sgd") {
            // Of a batch norm, ResNet-20 and ResNet-18.
            [64, 272_474, 11_227_812].into_iter().for_each(|weights| sgd(level, weights));
        }
    });
}

/// What a core can multiply and add, and read and copy that no cache holds.
fn limits(level: Level) {
    let mut numbers = 0;
    let seconds = best(|| numbers = multiply_and_add(level, 1_000_000));
    println!("{:36} {:16.1} GF/s", "multiply and add", 2.0 * numbers as f64 / seconds / 1e9);
    let (from, mut to) = (vec![1.0_f32; 1 << 26], vec![0.0_f32; 1 << 26]);
    let seconds = best(|| {
        let mut sums = [0.0; 64];
        for chunk in from.chunks_exact(sums.len()) {
            sums.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += x);
        }
        black_box(sums);
    });
    println!("{:36} {}", "read", rate(seconds, from.len()));
    let seconds = best(|| to.copy_from_slice(&from));
    println!("{:36} {}", "read and write", rate(seconds, 2 * from.len()));
}

/// Those of VGG-16, ResNet-18 and ShuffleNetV2, an average beside them, and every network's last.
fn pools(level: Level) {
    let halve = Windows { kernel: 2, stride: 2, padding: 0 };
    let overlap = Windows { kernel: 3, stride: 2, padding: 1 };
    let max = |windows| move |graph: &mut Graph, x| graph.add(Operation::MaxPool { x, windows });
    step(level, (64, 32), max(halve));
    step(level, (512, 2), max(halve));
    step(level, (64, 32), max(overlap));
    step(level, (24, 32), max(overlap));
    step(level, (64, 32), |graph, x| graph.add(Operation::AveragePool { x, windows: overlap }));
    for shape in [(64, 8), (512, 2), (1280, 4)] {
        step(level, shape, |graph, x| graph.add(Operation::GlobalAverage { x }));
    }
}

/// `relu(norm(x) + x)`; both are the convolution that comes before every step.
fn residual(graph: &mut Graph, x: Node) -> Node {
    let (weight, bias) = (Parameter(1), Parameter(2));
    let normalised = graph.add(Operation::Norm { x, weight, bias, epsilon: 1e-5 });
    let sum = graph.add(Operation::Add { a: normalised, b: x });
    graph.add(Operation::Activation { x: sum, activation: Activation::Relu })
}

/// The last step of a network that has one convolution before it.
fn step(
    level: Level,
    (channels, size): (usize, usize),
    last: impl FnOnce(&mut Graph, Node) -> Node,
) {
    let mut graph = Graph::default();
    let form = Form { outputs: channels, kernel: [1; 2], stride: 1, padding: 0, groups: 1 };
    let x = Graph::INPUT;
    let x = graph.add(Operation::Convolution { x, weight: Parameter(0), bias: None, form });
    last(&mut graph, x);
    let input = Shape { images: BATCH, height: size, width: size, channels: 3 };
    let program = Program::new(&graph, input, (level, Precision::Fast)).unwrap().timed();
    let images = filled(input.pixels() * 3);
    let parameters = [filled(3 * channels), vec![1.0; channels], vec![0.0; channels]];
    let parameters = parameters.each_ref().map(|p| &p[..]);
    let gradient = filled(program.output().pixels() * channels);
    let memory = Pool::default();
    let times = best_of(|| {
        let ran = program.forward(&memory, &images, &parameters, Statistics::Batch, true);
        program.backward(ran.tape.unwrap(), &parameters, &gradient);
        let times = program.take_times().pop().unwrap();
        [times.forward.as_secs_f64(), times.backward.as_secs_f64()]
    });
    let Times { step, numbers: written, .. } = program.take_times().pop().unwrap();
    let read = Shape { channels, ..input }.len();
    if step.starts_with("sum") {
        // What is added is the same tensor, which the cache holds by then.
        println!("{step:36} forward {}", rate(times[0], read + written));
    } else {
        let [forward, backward] = times.map(|seconds| rate(seconds, read + written));
        println!("{step:36} forward {forward} | backward {backward}");
    }
}

fn loss(classes: usize) {
    let scores = filled(BATCH * classes);
    let labels: Vec<u32> = (0..BATCH).map(|i| (i % classes) as u32).collect();
    let mut gradients = vec![0.0; scores.len()];
    let seconds = best(|| {
        cross_entropy(&scores, &labels, classes, &mut gradients);
    });
    println!(
        "{:36} {}",
        format!("cross entropy of {classes} classes"),
        rate(seconds, 2 * scores.len())
    );
}

fn sgd(level: Level, weights: usize) {
    let sgd = Sgd { level, rate: 1e-6, momentum: 0.9, decay: 5e-4 };
    let (mut w, mut m, g) = (filled(weights), filled(weights), filled(weights));
    let seconds = best(|| sgd.step(&mut w, &mut m, &g));
    // Weights and momenta are read and written, gradients read.
    println!("{:36} {}", format!("sgd of {weights} weights"), rate(seconds, 5 * weights));
}

/// The time for so many numbers.
fn rate(seconds: f64, numbers: usize) -> String {
    format!("{:9.4} {:6.1}", seconds * 1e3, 4.0 * numbers as f64 / seconds / 1e9)
}

fn filled(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i % 13) as f32 - 6.0).collect()
}
