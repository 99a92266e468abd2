use super::*;
use crate::expected::{Sources, assert_finishes, assert_threads_change_nothing, coarse};
use crate::finish::Finish;
use crate::read::Source;
use crate::reference::{error, images, noise, to_f64};
use crate::simd::Level;
use proptest::prelude::*;

fn any_windows() -> impl Strategy<Value = Windows> {
    let sizes = (1..4usize, 1..14usize, 1..14usize, 1..131usize);
    (sizes, [1..8usize, 1..8usize], 1..5usize, 0..4usize).prop_filter_map(
        "an image smaller than the window",
        |((images, height, width, channels), kernel, stride, padding)| {
            let input = Shape { images, height, width, channels };
            let fits = height + 2 * padding >= kernel[0] && width + 2 * padding >= kernel[1];
            fits.then_some(Windows { kernel, stride, padding, input })
        },
    )
}

/// Windows with no more padding than max pooling allows.
fn any_half_padded() -> impl Strategy<Value = Windows> {
    any_windows().prop_map(|windows| {
        let [rows, columns] = windows.kernel;
        let padding = windows.padding.min(rows / 2).min(columns / 2);
        let input = windows.input;
        let at_least = |size: usize, kernel: usize| size.max(kernel.saturating_sub(2 * padding));
        let height = at_least(input.height, rows);
        let width = at_least(input.width, columns);
        Windows { padding, input: Shape { height, width, ..input }, ..windows }
    })
}

/// Calls `f(input number, output number, place)` for every pixel of every window, in order.
fn visit(windows: Windows, mut f: impl FnMut(usize, usize, usize)) {
    let Windows { kernel, stride, padding, input } = windows;
    let to = windows.output();
    for result in 0..to.len() {
        let (pixel, c) = (result / to.stride(), result % to.stride());
        let (x, y, n) = (pixel % to.width, pixel / to.width % to.height, pixel);
        let n = n / (to.width * to.height);
        for place in 0..kernel[0] * kernel[1] {
            let row = (y * stride + place / kernel[1]).wrapping_sub(padding);
            let column = (x * stride + place % kernel[1]).wrapping_sub(padding);
            if row < input.height && column < input.width {
                let pixel = (n * input.height + row) * input.width + column;
                f(pixel * input.stride() + c, result, place);
            }
        }
    }
}

/// As PyTorch's loop has it: `if (value > largest || isnan(value))`, from the first pixel on.
fn largest(windows: Windows, x: &[f32]) -> (Vec<f32>, Vec<Option<usize>>) {
    let mut values = vec![f32::NEG_INFINITY; windows.output().len()];
    let mut origins = vec![None; values.len()];
    visit(windows, |i, o, _| {
        if origins[o].is_none() || x[i] > values[o] || x[i].is_nan() {
            (values[o], origins[o]) = (x[i], Some(i));
        }
    });
    (values, origins)
}

/// Few different numbers, so that many are equal, now and then none.
fn with_ties(shape: Shape) -> Vec<f32> {
    let mut x: Vec<f32> = images(shape, 1).iter().map(|x| (x * 3.0).round()).collect();
    for pixel in x.chunks_mut(shape.stride()).step_by(7) {
        pixel[0] = f32::NAN;
    }
    for pixel in x.chunks_mut(shape.stride()).step_by(5) {
        pixel[shape.channels - 1] = f32::NEG_INFINITY;
    }
    x
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { (x + 0.0).to_bits() }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_first_maximum_wins_and_a_nan_wins_over_all(windows in any_half_padded()) {
        let (input, output) = (windows.input, windows.output());
        let (x, g) = (with_ties(input), coarse(images(output, 2)));
        let (values, origins) = largest(windows, &x);
        let mut expected = vec![0.0; input.len()];
        for (o, origin) in origins.iter().enumerate() {
            if let Some(i) = origin {
                expected[*i] += f64::from(g[o]);
            }
        }
        for level in Level::available() {
            let pool = MaxPool { level, windows };
            let (mut y, mut places) = (vec![0.5; output.len()], vec![77; output.len()]);
            pool.forward(Source::Stored(&x), &mut y, &mut places);
            prop_assert_eq!(bits(&y), bits(&values), "{}", level);
            let mut dx = vec![f32::NAN; input.len()];
            pool.backward(Source::Stored(&g), &places, &mut dx, Finish::NOTHING);
            prop_assert!(error(&dx, &expected) < 1e-6, "{}", level);
        }
    }

    #[test]
    fn means_count_the_padding(windows in any_windows(), kinds in [0..3usize, 0..3usize]) {
        let (input, output) = (windows.input, windows.output());
        let (x, g) = (Sources::new(input, 1), Sources::new(output, 2));
        let (x64, g64) = (x.values(kinds[0]), g.values(kinds[1]));
        let share = 1.0 / (windows.kernel[0] * windows.kernel[1]) as f64;
        let (mut y64, mut dx64) = (vec![0.0; output.len()], vec![0.0; input.len()]);
        visit(windows, |i, o, _| {
            y64[o] += share * x64[i];
            dx64[i] += share * g64[o];
        });
        for level in Level::available() {
            let pool = AveragePool { level, windows };
            let (mut y, mut dx) = (vec![f32::NAN; output.len()], vec![f32::NAN; input.len()]);
            pool.forward(x.kind(kinds[0]), &mut y);
            prop_assert!(error(&y, &y64) < 2e-6, "{} forward", level);
            pool.backward(g.kind(kinds[1]), &mut dx, Finish::NOTHING);
            prop_assert!(error(&dx, &dx64) < 2e-6, "{} backward", level);
        }
    }

    #[test]
    fn what_max_pooling_reads_may_be_computed(windows in any_half_padded(), kind in 1..3usize) {
        let (input, output) = (windows.input, windows.output());
        let (x, g) = (Sources::new(input, 1), Sources::new(output, 2));
        let mut expected = vec![f64::NEG_INFINITY; output.len()];
        let values = x.values(kind);
        visit(windows, |i, o, _| expected[o] = expected[o].max(values[i]));
        for level in Level::available() {
            let pool = MaxPool { level, windows };
            let (mut y, mut places) = (vec![0.0; output.len()], vec![0; output.len()]);
            pool.forward(x.kind(kind), &mut y, &mut places);
            for (o, expected) in expected.iter().enumerate() {
                let close = (f64::from(y[o]) - expected).abs() < 1e-5;
                prop_assert!(close, "{} {} {}", level, y[o], expected);
            }
            let run = |gradient| {
                let mut dx = vec![f32::NAN; input.len()];
                pool.backward(gradient, &places, &mut dx, Finish::NOTHING);
                dx
            };
            let stored: Vec<f32> = g.values(kind).iter().map(|&g| g as f32).collect();
            let before = to_f64(&run(Source::Stored(&stored)));
            prop_assert!(error(&run(g.kind(kind)), &before) < 1e-5, "{}", level);
        }
    }

    #[test]
    fn an_image_has_one_mean_per_channel(
        (n, height, width, channels) in (1..5usize, 1..12usize, 1..12usize, 1..131usize),
        kind in 0..3usize,
    ) {
        let input = Shape { images: n, height, width, channels };
        let (x, g) = (Sources::new(input, 1), coarse(noise(n * channels, 2)));
        let share = 1.0 / (height * width) as f64;
        let mut means = vec![0.0; n * channels];
        let mut gradients = vec![0.0; input.len()];
        for (i, value) in x.values(kind).into_iter().enumerate() {
            let (image, c) = (i / input.image(), i % input.stride());
            if c < channels {
                means[image * channels + c] += share * value;
                gradients[i] = share * f64::from(g[image * channels + c]);
            }
        }
        for level in Level::available() {
            let pool = GlobalAverage { level, input };
            let (mut y, mut dx) = (vec![f32::NAN; means.len()], vec![f32::NAN; input.len()]);
            pool.forward(x.kind(kind), &mut y);
            prop_assert!(error(&y, &means) < 2e-6, "{} forward", level);
            pool.backward(&g, &mut dx, Finish::NOTHING);
            prop_assert!(error(&dx, &gradients) < 1e-6, "{} backward", level);
        }
    }
}

/// Large enough for several parts, with images small enough to be finished together.
const MANY: Windows = Windows {
    kernel: [3, 3],
    stride: 2,
    padding: 1,
    input: Shape { images: 70, height: 7, width: 6, channels: 40 },
};

#[test]
fn gradients_are_finished() {
    let (x, g) = (images(MANY.input, 1), images(MANY.output(), 2));
    for level in Level::available() {
        let (max, average) =
            (MaxPool { level, windows: MANY }, AveragePool { level, windows: MANY });
        let global = GlobalAverage { level, input: MANY.input };
        let (mut y, mut places) = (vec![0.0; g.len()], vec![0; g.len()]);
        max.forward(Source::Stored(&x), &mut y, &mut places);
        let run = |backward: &mut dyn FnMut(&mut [f32]) -> Vec<crate::Totals>| {
            let mut dx = vec![f32::NAN; x.len()];
            let totals = backward(&mut dx);
            (dx, totals)
        };
        let g = Source::Stored(&g);
        assert_finishes(MANY.input, |finish| run(&mut |dx| max.backward(g, &places, dx, finish)));
        assert_finishes(MANY.input, |finish| run(&mut |dx| average.backward(g, dx, finish)));
        assert_finishes(MANY.input, |finish| run(&mut |dx| global.backward(&y, dx, finish)));
    }
}

#[test]
fn threads_change_no_bit() {
    let level = Level::best();
    let (x, g) = (images(MANY.input, 1), images(MANY.output(), 2));
    let (max, average) = (MaxPool { level, windows: MANY }, AveragePool { level, windows: MANY });
    assert_threads_change_nothing(|| {
        let (mut y, mut mean, mut places) = (g.clone(), g.clone(), vec![0; g.len()]);
        let (mut dx, mut share) = (x.clone(), x.clone());
        max.forward(Source::Stored(&x), &mut y, &mut places);
        average.forward(Source::Stored(&x), &mut mean);
        let one = max.backward(Source::Stored(&g), &places, &mut dx, Finish::MOMENTS);
        let two = average.backward(Source::Stored(&g), &mut share, Finish::MOMENTS);
        (y, mean, places, dx, share, one, two)
    });
}
