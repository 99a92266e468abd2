use super::*;
use crate::expected::{Trial, assert_finishes, assert_threads_change_nothing};
use crate::memory::Buffer;
use crate::reference::{Reference, images, noise, to_f64};
use crate::weights::Dense;
use proptest::prelude::*;

fn reference(form: Form, input: Shape) -> Reference {
    let Form { outputs, kernel, stride, padding, groups } = form;
    let dense = Dense { outputs, inputs: input.channels / groups, kernel };
    Reference { form: dense, stride, padding, groups, input }
}

fn convolution(level: Level, form: Form, input: Shape, precision: Precision) -> Convolution {
    Convolution::new(level, form, (input, Layout::Padded), precision).unwrap()
}

/// A number of groups, and the channels of each that come in and go out.
fn any_groups() -> impl Strategy<Value = (usize, usize, usize)> {
    prop_oneof![
        (2..7usize, 1..20usize, 1..20usize),
        (2..4usize, 1..44usize, 1..44usize),
        // Depthwise, with several outputs for each channel.
        (2..66usize, Just(1), 1..4usize),
    ]
}

fn any_convolution() -> impl Strategy<Value = (Trial, Form, Precision)> {
    let size = || prop_oneof![Just(1), Just(3), 1..6usize];
    let kernel = prop_oneof![3 => size().prop_map(|k| [k, k]), 1 => [size(), size()]];
    let layout = prop_oneof![3 => Just(Layout::Padded), 1 => Just(Layout::Dense)];
    let precision = prop_oneof![Just(Precision::Fast), Just(Precision::Exact)];
    let read = ([0..3usize, 0..3usize], layout, precision);
    let image = (1..5usize, 1..10usize, 1..10usize);
    (image, any_groups(), kernel, (1..4usize, 0..3usize), read).prop_filter_map(
        "an image smaller than the kernel",
        |((n, height, width), (groups, i, o), kernel, (stride, padding), read)| {
            let (kinds, layout, precision) = read;
            let input = Shape { images: n, height, width, channels: groups * i };
            let form = Form { outputs: groups * o, kernel, stride, padding, groups };
            let trial = Trial { reference: reference(form, input), kinds, layout };
            let fits = height + 2 * padding >= kernel[0] && width + 2 * padding >= kernel[1];
            fits.then_some((trial, form, precision))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn outputs_and_gradients_are_those_of_the_convolution(
        (trial, form, precision) in any_convolution()
    ) {
        let images = (trial.reference.input, trial.layout);
        let tolerance = if precision == Precision::Fast { 1e-5 } else { 1e-6 };
        trial.check(tolerance, |level, [x, g], w, places| {
            let conv = Convolution::new(level, form, images, precision).unwrap();
            assert_eq!(conv.output(), trial.reference.output());
            conv.forward(x, w, places.y, Finish::NOTHING);
            conv.backward(x, g, (w, places.dw), places.dx);
        });
    }
}

/// Three groups of five channels that give seven each, in several parts of several batches.
const FORM: Form = Form { outputs: 21, kernel: [3, 3], stride: 1, padding: 1, groups: 3 };
const IMAGES: Shape = Shape { images: 70, height: 6, width: 5, channels: 15 };

#[test]
fn results_are_finished_forward_and_backward() {
    for level in Level::available() {
        let form = Form { stride: 2, ..FORM };
        let conv = convolution(level, form, IMAGES, Precision::Fast);
        let (x, g) = (images(IMAGES, 1), images(conv.output(), 2));
        let w = noise(conv.weights_len(), 3);
        assert_finishes(conv.output(), |finish| {
            let mut y = Buffer::zeros(g.len());
            let totals = conv.forward(Source::Stored(&x), &w, &mut y, finish);
            (y, totals)
        });
        assert_finishes(IMAGES, |finish| {
            let (mut dx, mut dw) = (Buffer::zeros(x.len()), vec![f32::NAN; w.len()]);
            let (x, g) = (Source::Stored(&x), Source::Stored(&g));
            let totals = conv.backward(x, g, (&w, &mut dw), Some((&mut dx, finish)));
            (dx, totals)
        });
    }
}

#[test]
fn threads_change_no_bit() {
    let conv = convolution(Level::best(), FORM, IMAGES, Precision::Fast);
    let (x, g) = (images(IMAGES, 1), images(conv.output(), 2));
    let w = noise(conv.weights_len(), 3);
    assert_threads_change_nothing(|| {
        let (mut y, mut dx, mut dw) = (g.clone(), x.clone(), w.clone());
        let (x, g) = (Source::Stored(&x), Source::Stored(&g));
        let forward = conv.forward(x, &w, &mut y, Finish::MOMENTS);
        let place = Some((&mut dx[..], Finish::MOMENTS));
        let backward = conv.backward(x, g, (&w, &mut dw), place);
        (y, dx, dw, forward, backward)
    });
}

/// Which numbers are finite.
fn finite(numbers: &[f32]) -> Vec<bool> {
    numbers.iter().map(|x| x.is_finite()).collect()
}

fn finite64(numbers: &[f64]) -> Vec<bool> {
    numbers.iter().map(|x| x.is_finite()).collect()
}

#[test]
fn an_infinity_or_a_nan_goes_where_the_convolution_takes_it_and_nowhere_else() {
    let input = Shape { images: 3, height: 9, width: 8, channels: 15 };
    let reference = reference(FORM, input);
    let output = reference.output();
    for (strange, place) in [(f32::INFINITY, 0), (f32::NAN, 0), (f32::INFINITY, 1), (f32::NAN, 2)] {
        let (mut x, mut g) = (images(input, 1), images(output, 2));
        let mut w = noise(reference.form.len(), 3);
        // In the second group: channels 5 to 9 and 7 to 13, and the second third of the weights.
        // Inside of the image and in the middle of a kernel: at the border it would meet the
        // zeros around, which are multiplied here and left out by the reference.
        match place {
            0 => x[100 * input.stride() + 6] = strange,
            1 => g[100 * output.stride() + 8] = strange,
            _ => w[reference.form.len() / 2] = strange,
        }
        let (x64, g64, w64) = (to_f64(&x), to_f64(&g), to_f64(&w));
        for level in Level::available() {
            let conv = convolution(level, FORM, input, Precision::Exact);
            let (mut y, mut dx, mut dw) = (g.clone(), x.clone(), w.clone());
            let (x, g) = (Source::Stored(&x), Source::Stored(&g));
            conv.forward(x, &w, &mut y, Finish::NOTHING);
            conv.backward(x, g, (&w, &mut dw), Some((&mut dx, Finish::NOTHING)));
            let told = format!("{level}, {strange} at {place}");
            assert_eq!(finite(&y), finite64(&reference.forward(&x64, &w64)), "{told}");
            assert_eq!(finite(&dx), finite64(&reference.input_gradient(&g64, &w64)), "{told}");
            assert_eq!(finite(&dw), finite64(&reference.weight_gradient(&x64, &g64)), "{told}");
        }
    }
}

#[test]
fn a_nan_in_one_group_leaves_the_others_as_they_were() {
    // By tiles as well, in which it reaches its neighbours; and in the statistics.
    let input = Shape { images: 3, height: 9, width: 8, channels: 15 };
    for level in Level::available() {
        let conv = convolution(level, FORM, input, Precision::Fast);
        let w = noise(conv.weights_len(), 3);
        let run = |x: &[f32]| {
            let mut y = vec![0.0; conv.output().len()];
            let totals = conv.forward(Source::Stored(x), &w, &mut y, Finish::MOMENTS);
            (y, Totals::moments(&totals).0)
        };
        let mut x = images(input, 1);
        let (plain, plain_mean) = run(&x);
        x[100 * input.stride() + 6] = f32::NAN;
        let (found, mean) = run(&x);
        for (i, (plain, found)) in plain.iter().zip(&found).enumerate() {
            let own = (7..14).contains(&(i % conv.output().stride()));
            assert!(own || plain == found, "{level}: {plain} became {found} at {i}");
        }
        for (c, mean) in mean.iter().enumerate() {
            let own = (7..14).contains(&c);
            assert!(if own { mean.is_nan() } else { *mean == plain_mean[c] }, "{level}: {c}");
        }
    }
}
