use super::*;
use crate::conv::Layout;
use crate::expected::{Trial, assert_threads_change_nothing};
use crate::finish::{Gate, Sums};
use crate::read::Activation;
use crate::reference::{Reference, error, images, noise, per_channel, to_f64};
use proptest::prelude::*;

/// Small images have many channels: what the reference takes is limited.
fn any_convolution() -> impl Strategy<Value = Trial> {
    let sizes = prop_oneof![
        (1..4usize, 1..14usize, 1..14usize, 1..34usize, 1..34usize),
        (1..3usize, 1..7usize, 1..7usize, 1..131usize, 1..131usize),
    ];
    (sizes, 0..3usize, [0..3usize, 0..3usize]).prop_filter_map(
        "an image smaller than the kernel",
        |((n, height, width, inputs, outputs), padding, kinds)| {
            let input = Shape { images: n, height, width, channels: inputs };
            let form = Dense { outputs, inputs, kernel: [3, 3] };
            let reference = Reference { form, stride: 1, padding, groups: 1, input };
            let fits = height + 2 * padding >= 3 && width + 2 * padding >= 3;
            fits.then_some(Trial { reference, kinds, layout: Layout::Padded })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn outputs_and_gradients_are_those_of_the_convolution(trial in any_convolution()) {
        let Reference { form, padding, input, .. } = trial.reference;
        trial.check(1e-5, |level, [x, g], w, places| {
            let conv = Winograd { level, form, padding, input };
            assert_eq!(conv.output(), trial.reference.output());
            conv.forward(x, w, places.y, Finish::NOTHING);
            conv.backward(x, g, (w, places.dw), places.dx);
        });
    }
}

#[test]
fn what_is_computed_while_reading_equals_what_was_computed_before() {
    let input = Shape { images: 2, height: 9, width: 6, channels: 20 };
    let form = Dense { outputs: 5, inputs: 20, kernel: [3, 3] };
    let (x, other) = (images(input, 1), images(input, 2));
    let coefficients = per_channel(20, 4, 3);
    let width = input.stride();
    let at = |i: usize, part: usize| coefficients[part * width + i % width];
    let w = noise(form.len(), 4);
    for level in Level::available() {
        let conv = Winograd { level, form, padding: 1, input };
        let run = |source| {
            let mut y = vec![f32::NAN; conv.output().len()];
            conv.forward(source, &w, &mut y, Finish::NOTHING);
            y
        };
        let activation = Activation::Relu6;
        let before: Vec<f32> = (0..x.len())
            .map(|i| (4.0 * x[i]).mul_add(at(i, 0), at(i, 1)).clamp(0.0, 6.0))
            .collect();
        let x4: Vec<f32> = x.iter().map(|x| 4.0 * x).collect();
        let reading = run(Source::Normalised {
            x: &x4,
            coefficients: &coefficients[..2 * width],
            activation,
        });
        assert!(error(&reading, &to_f64(&run(Source::Stored(&before)))) < 1e-5, "{level}");
        let before: Vec<f32> = (0..x.len())
            .map(|i| other[i].mul_add(at(i, 0), (x[i] - at(i, 3)).mul_add(at(i, 1), at(i, 2))))
            .collect();
        let reading =
            run(Source::Gradient { gradient: &other, x: &x, coefficients: &coefficients });
        assert!(error(&reading, &to_f64(&run(Source::Stored(&before)))) < 1e-5, "{level}");
    }
}

#[test]
fn finishing_gates_adds_and_sums() {
    let input = Shape { images: 3, height: 7, width: 5, channels: 4 };
    let form = Dense { outputs: 18, inputs: 4, kernel: [3, 3] };
    let (x, w) = (images(input, 1), noise(form.len(), 2));
    let output = Shape { channels: 18, ..input };
    let (skip, gate, other) = (images(output, 3), images(output, 4), images(output, 5));
    let mean = per_channel(18, 1, 6);
    for level in Level::available() {
        let conv = Winograd { level, form, padding: 1, input };
        let run = |finish| {
            let mut y = vec![f32::NAN; output.len()];
            let totals = conv.forward(Source::Stored(&x), &w, &mut y, finish);
            (y, totals)
        };
        let plain = run(Finish::NOTHING).0;
        let (y, totals) = run(Finish::MOMENTS);
        assert_eq!(y, plain);
        let (found_mean, found_variance) = Totals::moments(&totals);
        let (y, totals) = run(Finish {
            skip: Some(&skip),
            gate: Gate::Output(&gate, Activation::Relu),
            sums: Sums::Products { x: &other, mean: &mean },
        });
        let (found_sum, found_product) = Totals::products(&totals);
        let pixels = output.pixels() as f64;
        for c in 0..18 {
            let of = |x: &[f32]| -> Vec<f64> {
                x.iter().skip(c).step_by(output.stride()).map(|&x| f64::from(x)).collect()
            };
            let values = of(&plain);
            let m = values.iter().sum::<f64>() / pixels;
            let variance = values.iter().map(|v| (v - m).powi(2)).sum::<f64>() / pixels;
            assert!((found_mean[c] - m).abs() < 1e-6 * variance.sqrt());
            assert!((found_variance[c] / variance - 1.0).abs() < 1e-6);
            let (skip, gate, other) = (of(&skip), of(&gate), of(&other));
            let expected: Vec<f64> = (0..values.len())
                .map(|i| if gate[i] > 0.0 { values[i] + skip[i] } else { 0.0 })
                .collect();
            assert!(
                error(
                    &y[c..].iter().step_by(output.stride()).copied().collect::<Vec<_>>(),
                    &expected
                ) < 1e-6
            );
            let sum: f64 = expected.iter().sum();
            let product: f64 =
                expected.iter().zip(other).map(|(e, o)| e * (o - f64::from(mean[c]))).sum();
            assert!((found_sum[c] - sum).abs() < 1e-4, "{} {sum}", found_sum[c]);
            assert!((found_product[c] - product).abs() < 1e-4, "{} {product}", found_product[c]);
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let small = Shape { images: 40, height: 12, width: 12, channels: 16 };
    // So wide that threads share the products of one gradient.
    let wide = Shape { images: 20, height: 8, width: 8, channels: 176 };
    for input in [small, wide] {
        let form = Dense { outputs: input.channels, inputs: input.channels, kernel: [3, 3] };
        let (x, w, g) = (images(input, 1), noise(form.len(), 2), images(input, 3));
        assert_threads_change_nothing(|| {
            let conv = Winograd { level: Level::best(), form, padding: 1, input };
            let (mut y, mut dx) = (vec![0.0; input.len()], vec![0.0; input.len()]);
            let mut dw = vec![0.0; form.len()];
            let totals = conv.forward(Source::Stored(&x), &w, &mut y, Finish::MOMENTS);
            let place = Some((&mut dx[..], Finish::MOMENTS));
            let (x, g) = (Source::Stored(&x), Source::Stored(&g));
            let back = conv.backward(x, g, (&w, &mut dw), place);
            (y, dx, dw, Totals::moments(&totals), Totals::moments(&back))
        });
    }
}
