//! Whole networks, forward and backward, without Burn and the optimizer: images/s of one thread.
//!
//! `cargo bench -p hwa-kernels --bench network -- [NETWORK]... [--steps N] [--layers]`
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, clippy::panic)]

use std::time::{Duration, Instant};

use hwa_kernels::graph::{Graph, Node, Operation, Parameter, Program, Statistics, Windows};
use hwa_kernels::simd::Level;
use hwa_kernels::{Activation, Form, Pool, Precision, Shape};

const BATCH: usize = 128;

fn main() {
    let mut networks: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let layers = networks.iter().position(|a| a == "--layers").map(|at| networks.remove(at));
    let mut steps = 5;
    if let Some(at) = networks.iter().position(|a| a == "--steps") {
        steps = networks[at + 1].parse().unwrap();
        networks.drain(at..at + 2);
    }
    if networks.is_empty() {
        let all = ["resnet20", "vgg16", "mobilenet_v2", "resnet18", "shufflenet_v2"];
        networks = all.map(str::to_owned).to_vec();
    }
    let level = Level::chosen().unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| networks.iter().for_each(|name| run(name, level, (steps, layers.is_some()))));
}

fn run(name: &str, level: Level, (steps, layers): (usize, bool)) {
    let (network, size) = match name {
        "resnet20" => (resnet(3), 32),
        "resnet110" => (resnet(18), 32),
        "vgg16" => (vgg16(), 32),
        "mobilenet_v2" => (mobilenet_v2(), 32),
        "resnet18" => (resnet18(), 64),
        "shufflenet_v2" => (shufflenet_v2(), 64),
        other => panic!("unknown network {other}"),
    };
    let input = Shape { images: BATCH, height: size, width: size, channels: 3 };
    let program = Program::new(&network.graph, input, (level, Precision::Fast)).unwrap();
    let program = if layers { program.timed() } else { program };
    let images = noise(input.pixels() * 3, 1);
    let output = program.output();
    let gradient: Vec<f32> =
        noise(output.pixels() * output.channels, 2).iter().map(|g| g * 1e-3).collect();
    let parameters: Vec<&[f32]> = network.parameters.iter().map(|p| &p[..]).collect();
    let memory = Pool::default();
    let mut times = Vec::new();
    for step in 0..steps + 2 {
        if step == 2 {
            program.take_times();
        }
        let start = Instant::now();
        let ran = program.forward(&memory, &images, &parameters, Statistics::Batch, true);
        let half = start.elapsed().as_secs_f64();
        program.backward(ran.tape.unwrap(), &parameters, &gradient);
        times.push((start.elapsed().as_secs_f64(), half));
    }
    times.drain(..2);
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (whole, half) = times[times.len() / 2];
    println!(
        "{name:14} {level}: {:7.1} images/s  forward {:7.1} ms  backward {:7.1} ms",
        BATCH as f64 / whole,
        half * 1e3,
        (whole - half) * 1e3
    );
    let mut first = true;
    for times in program.take_times() {
        let ms = |time: Duration| time.as_secs_f64() * 1e3 / steps as f64;
        let rate = |time, of: f64| 2.0 * of * times.multiply_adds as f64 / ms(time) / 1e6;
        // The gradients of weights and input; images have none.
        let backward = if std::mem::take(&mut first) { 1.0 } else { 2.0 };
        println!(
            "  {:44} {:5.1} MB  forward {:6.2} ms {:6.1} GF/s  backward {:6.2} ms {:6.1} GF/s",
            times.step,
            times.numbers as f64 * 4e-6,
            ms(times.forward),
            rate(times.forward, 1.0),
            ms(times.backward),
            rate(times.backward, backward),
        );
    }
}

fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mix = |i: u64| {
        let mut z = (i + (seed << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count as u64).map(mix).collect()
}

/// A graph under construction.
#[derive(Default)]
struct Network {
    graph: Graph,
    parameters: Vec<Vec<f32>>,
}

impl Network {
    fn parameter(&mut self, len: usize, scale: f32, shift: f32) -> Parameter {
        let seed = 10 + self.parameters.len() as u64;
        self.parameters.push(noise(len, seed).iter().map(|x| scale * x + shift).collect());
        Parameter(self.parameters.len() - 1)
    }

    /// A convolution and its batch norm, `[inputs, outputs, kernel, stride, groups]`.
    fn unit(&mut self, x: Node, [i, o, k, stride, groups]: [usize; 5]) -> Node {
        let scale = (6.0 / (i / groups * k * k) as f32).sqrt();
        let weight = self.parameter(o * i / groups * k * k, scale, 0.0);
        let form = Form { outputs: o, kernel: [k, k], stride, padding: k / 2, groups };
        let x = self.graph.add(Operation::Convolution { x, weight, bias: None, form });
        let (weight, bias) = (self.parameter(o, 0.1, 1.0), self.parameter(o, 0.1, 0.0));
        self.graph.add(Operation::Norm { x, weight, bias, epsilon: 1e-5 })
    }

    fn act(&mut self, x: Node, activation: Activation) -> Node {
        self.graph.add(Operation::Activation { x, activation })
    }

    fn relu_unit(&mut self, x: Node, form: [usize; 5]) -> Node {
        let x = self.unit(x, form);
        self.act(x, Activation::Relu)
    }

    fn max_pool(&mut self, x: Node, [kernel, stride, padding]: [usize; 3]) -> Node {
        self.graph.add(Operation::MaxPool { x, windows: Windows { kernel, stride, padding } })
    }

    fn finish(mut self, x: Node) -> Self {
        self.graph.add(Operation::GlobalAverage { x });
        self
    }
}

fn resnet(blocks: usize) -> Network {
    let mut n = Network::default();
    let mut x = n.relu_unit(Graph::INPUT, [3, 16, 3, 1, 1]);
    let mut i = 16;
    for o in [16, 32, 64] {
        for block in 0..blocks {
            let stride = if o > 16 && block == 0 { 2 } else { 1 };
            let y = n.relu_unit(x, [i, o, 3, stride, 1]);
            let y = n.unit(y, [o, o, 3, 1, 1]);
            let skip = match stride {
                1 => x,
                _ => n.graph.add(Operation::Subsample { x, stride, channels: o }),
            };
            let y = n.graph.add(Operation::Add { a: y, b: skip });
            x = n.act(y, Activation::Relu);
            i = o;
        }
    }
    n.finish(x)
}

fn vgg16() -> Network {
    let mut n = Network::default();
    let (mut x, mut i) = (Graph::INPUT, 3);
    for stage in [&[64, 64][..], &[128; 2], &[256; 3], &[512; 3], &[512; 3]] {
        for &o in stage {
            x = n.relu_unit(x, [i, o, 3, 1, 1]);
            i = o;
        }
        x = n.max_pool(x, [2, 2, 0]);
    }
    n.finish(x)
}

fn mobilenet_v2() -> Network {
    let mut n = Network::default();
    let x = n.unit(Graph::INPUT, [3, 32, 3, 1, 1]);
    let mut x = n.act(x, Activation::Relu6);
    let mut i = 32;
    let stages = [
        [1, 16, 1, 1],
        [6, 24, 2, 1],
        [6, 32, 3, 2],
        [6, 64, 4, 2],
        [6, 96, 3, 1],
        [6, 160, 3, 2],
        [6, 320, 1, 1],
    ];
    for [expand, o, count, first] in stages {
        for block in 0..count {
            let stride = if block == 0 { first } else { 1 };
            let hidden = i * expand;
            let mut y = x;
            if expand > 1 {
                y = n.unit(y, [i, hidden, 1, 1, 1]);
                y = n.act(y, Activation::Relu6);
            }
            y = n.unit(y, [hidden, hidden, 3, stride, hidden]);
            y = n.act(y, Activation::Relu6);
            y = n.unit(y, [hidden, o, 1, 1, 1]);
            x = if stride == 1 && i == o { n.graph.add(Operation::Add { a: x, b: y }) } else { y };
            i = o;
        }
    }
    let x = n.unit(x, [320, 1280, 1, 1, 1]);
    let x = n.act(x, Activation::Relu6);
    n.finish(x)
}

fn resnet18() -> Network {
    let mut n = Network::default();
    let x = n.relu_unit(Graph::INPUT, [3, 64, 7, 2, 1]);
    let mut x = n.max_pool(x, [3, 2, 1]);
    let mut i = 64;
    for o in [64, 128, 256, 512] {
        for block in 0..2 {
            let stride = if o > 64 && block == 0 { 2 } else { 1 };
            let y = n.relu_unit(x, [i, o, 3, stride, 1]);
            let y = n.unit(y, [o, o, 3, 1, 1]);
            let skip = if stride == 1 { x } else { n.unit(x, [i, o, 1, stride, 1]) };
            let y = n.graph.add(Operation::Add { a: y, b: skip });
            x = n.act(y, Activation::Relu);
            i = o;
        }
    }
    n.finish(x)
}

fn shufflenet_v2() -> Network {
    let mut n = Network::default();
    let x = n.relu_unit(Graph::INPUT, [3, 24, 3, 2, 1]);
    let mut x = n.max_pool(x, [3, 2, 1]);
    let mut i = 24;
    for (o, count) in [(116, 4), (232, 8), (464, 4)] {
        let half = o / 2;
        for block in 0..count {
            let (left, right, stride) = if block == 0 {
                let left = n.unit(x, [i, i, 3, 2, i]);
                (n.relu_unit(left, [i, half, 1, 1, 1]), x, 2)
            } else {
                let left = n.graph.add(Operation::Slice { x, start: 0, end: half });
                (left, n.graph.add(Operation::Slice { x, start: half, end: o }), 1)
            };
            let inputs = if block == 0 { i } else { half };
            let y = n.relu_unit(right, [inputs, half, 1, 1, 1]);
            let y = n.unit(y, [half, half, 3, stride, half]);
            let y = n.relu_unit(y, [half, half, 1, 1, 1]);
            x = n.graph.add(Operation::Concat { a: left, b: y, groups: 2 });
            i = o;
        }
    }
    let x = n.relu_unit(x, [464, 1024, 1, 1, 1]);
    n.finish(x)
}
