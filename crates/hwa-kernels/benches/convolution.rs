//! Convolutions in GF/s, counted as if every product were multiplied by itself, and in GB/s, as
//! if every tensor were read or written once.
//!
//! `cargo bench -p hwa-kernels --bench convolution -- [square | first | depthwise | pointwise | grouped]...`
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod clock;

use std::time::Instant;

use clock::{best, best_of, is_wanted, on_one_thread};
use hwa_kernels::simd::Level;
use hwa_kernels::{Buffer, Convolution, Finish, Form, Layout, Precision, Shape, Source};

const BATCH: usize = 128;

fn main() {
    let level = Level::chosen().unwrap();
    println!("{level}, one thread, batch {BATCH}");
    println!("forward | gradient of the weights | both gradients: ms, GF/s, GB/s");
    on_one_thread(|| {
        for (name, cases) in [
            ("square", square()),
            ("first", first()),
            ("depthwise", depthwise()),
            ("pointwise", pointwise()),
            ("grouped", grouped()),
        ] {
            if is_wanted(name) {
                println!("{name}");
                cases.iter().for_each(|case| case.run(level));
            }
        }
    });
}

/// A convolution of square images.
#[derive(Clone, Copy)]
struct Case {
    inputs: usize,
    outputs: usize,
    size: usize,
    kernel: usize,
    stride: usize,
    groups: usize,
    layout: Layout,
    precision: Precision,
}

impl Case {
    /// One pixel to one pixel.
    fn pointwise(inputs: usize, outputs: usize, size: usize) -> Self {
        let (layout, precision) = (Layout::Padded, Precision::Fast);
        Self { inputs, outputs, size, kernel: 1, stride: 1, groups: 1, layout, precision }
    }
}

/// As VGG-16 and ResNets have them, and ResNet-20's first with stride 2.
fn square() -> Vec<Case> {
    let sizes = [(16, 32), (32, 16), (64, 8), (64, 32), (128, 16), (256, 8), (512, 4), (512, 2)];
    let mut cases = Vec::new();
    for (channels, size) in sizes {
        for precision in [Precision::Fast, Precision::Exact] {
            let case = Case::pointwise(channels, channels, size);
            cases.push(Case { kernel: 3, precision, ..case });
        }
    }
    cases.push(Case { kernel: 3, stride: 2, ..Case::pointwise(16, 32, 32) });
    cases
}

/// The first of ResNet-20 and ResNet-18, for which images need no gradient.
fn first() -> Vec<Case> {
    let layout = Layout::Dense;
    vec![
        Case { kernel: 3, layout, ..Case::pointwise(3, 16, 32) },
        Case { kernel: 7, stride: 2, layout, ..Case::pointwise(3, 64, 64) },
    ]
}

/// Those of MobileNetV2 for images of 32 x 32.
fn depthwise() -> Vec<Case> {
    let one = [(32, 32), (96, 32), (144, 32), (192, 16), (384, 8), (576, 8), (960, 4)];
    let two = [(144, 32), (192, 16), (576, 8)];
    let strides = one.map(|shape| (shape, 1)).into_iter().chain(two.map(|shape| (shape, 2)));
    strides
        .map(|((channels, size), stride)| {
            let case = Case::pointwise(channels, channels, size);
            Case { kernel: 3, stride, groups: channels, ..case }
        })
        .collect()
}

/// Those of MobileNetV2 for images of 32 x 32.
fn pointwise() -> Vec<Case> {
    let shapes = [
        (32, 16, 32),
        (16, 96, 32),
        (96, 24, 32),
        (24, 144, 32),
        (144, 24, 32),
        (144, 32, 16),
        (32, 192, 16),
        (192, 32, 16),
        (192, 64, 8),
        (64, 384, 8),
        (384, 64, 8),
        (384, 96, 8),
        (96, 576, 8),
        (576, 96, 8),
        (576, 160, 4),
        (160, 960, 4),
        (960, 160, 4),
        (960, 320, 4),
        (320, 1280, 4),
    ];
    shapes.map(|(inputs, outputs, size)| Case::pointwise(inputs, outputs, size)).to_vec()
}

/// In fewer and fewer channels each, and a depthwise one that gives two for each.
fn grouped() -> Vec<Case> {
    let of = |outputs, groups| Case { kernel: 3, groups, ..Case::pointwise(128, outputs, 16) };
    [(128, 1), (128, 2), (128, 8), (128, 32), (256, 128)].map(|(o, g)| of(o, g)).to_vec()
}

impl Case {
    fn run(&self, level: Level) {
        let Self { inputs, outputs, size, kernel, stride, groups, layout, precision } = *self;
        let input = Shape { images: BATCH, height: size, width: size, channels: inputs };
        let form = Form { outputs, kernel: [kernel; 2], stride, padding: kernel / 2, groups };
        let conv = Convolution::new(level, form, (input, layout), precision).unwrap();
        let (output, weights) = (conv.output().len(), conv.weights_len());
        let input = match layout {
            Layout::Padded => input.len(),
            // With a group to spare.
            Layout::Dense => input.pixels() * inputs + 16,
        };
        let (x, g, w) = (filled(input), filled(output), filled(weights));
        let (mut y, mut dx, mut dw) = (filled(output), filled(input), filled(weights));
        let (from, gradient) = (Source::Stored(&x), Source::Stored(&g));
        let forward = best(|| {
            conv.forward(from, &w, &mut y, Finish::MOMENTS);
        });
        let mut backward = |input: Option<(&mut [f32], Finish<'_>)>| {
            let begin = Instant::now();
            conv.backward(from, gradient, (&w, &mut dw), input);
            begin.elapsed().as_secs_f64()
        };
        // In turn: the difference is to be that of the work.
        let [of_weights, of_both] = best_of(|| match layout {
            Layout::Padded => [backward(None), backward(Some((&mut dx, Finish::NOTHING)))],
            Layout::Dense => [backward(None), f64::NAN],
        });
        let rate = |seconds: f64, times: f64| {
            let operations = times * 2.0 * (conv.output().pixels() * weights) as f64;
            let bytes = times * 4.0 * (input + output + weights) as f64;
            let (ms, giga) = (seconds * 1e3, seconds * 1e9);
            format!("{ms:8.2} {:6.1} {:5.1}", operations / giga, bytes / giga)
        };
        let both = match layout {
            Layout::Padded => rate(of_both, 2.0),
            Layout::Dense => String::new(),
        };
        println!(
            "{inputs:>4} -> {outputs:<4} {size:>3}x{size:<3} {:<16} {} | {} | {both}",
            conv.to_string(),
            rate(forward, 1.0),
            rate(of_weights, 1.0),
        );
    }
}

fn filled(len: usize) -> Buffer {
    let mut buffer = Buffer::zeros(len);
    buffer.iter_mut().enumerate().for_each(|(i, x)| *x = (i % 13) as f32 - 6.0);
    buffer
}
