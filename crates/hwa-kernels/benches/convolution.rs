//! Convolutions in GF/s, counted as if every product were multiplied by itself.
//!
//! `cargo bench -p hwa-kernels --bench convolution`
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use hwa_kernels::simd::Level;
use hwa_kernels::{Buffer, Convolution, Finish, Form, Layout, Precision, Shape, Source};

fn main() {
    let level = Level::chosen().unwrap();
    println!("{level}, one thread; GF/s forward, input gradient + weight gradient; ms each");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| {
        for (channels, size) in
            [(16, 32), (32, 16), (64, 8), (64, 32), (128, 16), (256, 8), (512, 4), (512, 2)]
        {
            for precision in [Precision::Fast, Precision::Exact] {
                run(level, (channels, channels), size, ([3, 3], 1, 1), precision);
            }
        }
        run(level, (16, 32), 32, ([3, 3], 2, 1), Precision::Fast);
        run(level, (24, 144), 32, ([1, 1], 1, 0), Precision::Fast);
        run(level, (144, 24), 32, ([1, 1], 1, 0), Precision::Fast);
        run(level, (160, 960), 4, ([1, 1], 1, 0), Precision::Fast);
    });
}

fn run(
    level: Level,
    (inputs, outputs): (usize, usize),
    size: usize,
    (kernel, stride, padding): ([usize; 2], usize, usize),
    precision: Precision,
) {
    let input = Shape { images: 128, height: size, width: size, channels: inputs };
    let form = Form { outputs, kernel, stride, padding, groups: 1 };
    let conv = Convolution::new(level, form, (input, Layout::Padded), precision).unwrap();
    let filled = |len: usize| {
        let mut buffer = Buffer::zeros(len);
        buffer.iter_mut().enumerate().for_each(|(i, x)| *x = (i % 13) as f32 - 6.0);
        buffer
    };
    let (x, w) = (filled(input.len()), filled(conv.weights_len()));
    let (mut y, g) = (filled(conv.output().len()), filled(conv.output().len()));
    let (mut dx, mut dw) = (filled(input.len()), filled(conv.weights_len()));
    let operations = 2.0 * (conv.output().pixels() * conv.weights_len()) as f64 / 1e9;
    let forward = best(|| {
        conv.forward(Source::Stored(&x), &w, &mut y, Finish::MOMENTS);
    });
    let backward = best(|| {
        let place = Some((&mut dx[..], Finish::NOTHING));
        conv.backward(Source::Stored(&x), Source::Stored(&g), (&w, &mut dw), place);
    });
    println!(
        "{inputs:>4} -> {outputs:<4} {size:>3}x{size:<3} {kernel:?}/{stride} {precision:?}: \
         {:7.1} {:7.1} GF/s  {:8.2} {:8.2} ms",
        operations / forward,
        2.0 * operations / backward,
        forward * 1e3,
        backward * 1e3
    );
}

/// The best time of several, in seconds.
fn best(mut work: impl FnMut()) -> f64 {
    let (mut best, start) = (f64::INFINITY, Instant::now());
    for i in 0.. {
        let begin = Instant::now();
        work();
        best = best.min(begin.elapsed().as_secs_f64());
        if i >= 2 && start.elapsed().as_secs_f64() > 0.4 {
            break;
        }
    }
    best
}
