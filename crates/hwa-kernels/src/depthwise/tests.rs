use super::*;
use crate::expected::{Sources, assert_finishes, assert_threads_change_nothing, coarse};
use crate::memory::Buffer;
use crate::reference::{Reference, error, images, noise, to_f64};
use crate::weights::Dense;
use proptest::prelude::*;

fn reference(conv: Depthwise) -> Reference {
    let Depthwise { kernel, stride, padding, input, .. } = conv;
    let form = Dense { outputs: input.channels, inputs: 1, kernel };
    Reference { form, stride, padding, groups: input.channels, input }
}

fn any_convolution() -> impl Strategy<Value = (Depthwise, [usize; 2])> {
    let sizes = (1..4usize, 1..20usize, 1..20usize, 1..131usize);
    let size = || prop_oneof![Just(1), Just(3), Just(5), Just(7), 1..9usize];
    let square = size().prop_map(|k| [k, k]);
    let kernel = prop_oneof![4 => square, 1 => (size(), size()).prop_map(|(h, w)| [h, w])];
    (sizes, kernel, 1..4usize, 0..9usize, [0..3usize, 0..3usize]).prop_filter_map(
        "an image smaller than the kernel",
        |((n, height, width, channels), kernel, stride, padding, kinds)| {
            let input = Shape { images: n, height, width, channels };
            let fits = height + 2 * padding >= kernel[0] && width + 2 * padding >= kernel[1];
            let level = Level::PORTABLE;
            fits.then_some((Depthwise { level, kernel, stride, padding, input }, kinds))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn outputs_and_gradients_are_those_of_the_convolution((conv, kinds) in any_convolution()) {
        let reference = reference(conv);
        let (input, output) = (conv.input, reference.output());
        prop_assert_eq!(conv.output(), output);
        let (x, g) = (Sources::new(input, 1), Sources::new(output, 2));
        let w = coarse(noise(reference.form.len(), 3));
        let (x64, g64, w64) = (x.values(kinds[0]), g.values(kinds[1]), to_f64(&w));
        for level in Level::available() {
            let conv = Depthwise { level, ..conv };
            let mut y = vec![f32::NAN; output.len()];
            conv.forward(x.kind(kinds[0]), &w, &mut y, Finish::NOTHING);
            let e = error(&y, &reference.forward(&x64, &w64));
            prop_assert!(e < 3e-6, "{} forward: {:e}", level, e);
            let (mut dx, mut dw) = (vec![f32::NAN; input.len()], vec![f32::NAN; w.len()]);
            let (x, g) = (x.kind(kinds[0]), g.kind(kinds[1]));
            conv.backward(x, g, &w, Some((&mut dx, Finish::NOTHING)), &mut dw);
            let e = error(&dx, &reference.input_gradient(&g64, &w64));
            prop_assert!(e < 3e-6, "{} input gradient: {:e}", level, e);
            let e = error(&dw, &reference.weight_gradient(&x64, &g64));
            prop_assert!(e < 3e-6, "{} weight gradient: {:e}", level, e);
            let mut alone = vec![f32::NAN; w.len()];
            conv.backward(x, g, &w, None, &mut alone);
            prop_assert_eq!(alone, dw);
        }
    }
}

/// Large enough for several parts, with images small enough to be finished together.
fn many_images(stride: usize, level: Level) -> Depthwise {
    let input = Shape { images: 70, height: 6, width: 5, channels: 40 };
    Depthwise { level, kernel: [3, 3], stride, padding: 1, input }
}

#[test]
fn results_are_finished_forward_and_backward() {
    // In one go, and in bands whose sums are gathered more than once.
    let large = Shape { images: 3, height: 20, width: 20, channels: 16 };
    for (level, input) in Level::available()
        .into_iter()
        .flat_map(|level| [(level, many_images(2, level).input), (level, large)])
    {
        let stride = if input == large { 1 } else { 2 };
        let conv = Depthwise { input, ..many_images(stride, level) };
        let (x, g) = (images(conv.input, 1), images(conv.output(), 2));
        let w = noise(input.channels * 9, 3);
        assert_finishes(conv.output(), |finish| {
            let mut y = Buffer::zeros(conv.output().len());
            let totals = conv.forward(Source::Stored(&x), &w, &mut y, finish);
            (y, totals)
        });
        assert_finishes(conv.input, |finish| {
            let (mut dx, mut dw) = (Buffer::zeros(x.len()), vec![f32::NAN; w.len()]);
            let (x, g) = (Source::Stored(&x), Source::Stored(&g));
            let totals = conv.backward(x, g, &w, Some((&mut dx, finish)), &mut dw);
            (dx, totals)
        });
    }
}

#[test]
fn threads_change_no_bit() {
    let conv = many_images(1, Level::best());
    let (x, g) = (images(conv.input, 1), images(conv.output(), 2));
    let w = noise(40 * 9, 3);
    assert_threads_change_nothing(|| {
        let (mut y, mut dx, mut dw) = (g.clone(), x.clone(), w.clone());
        let (x, g) = (Source::Stored(&x), Source::Stored(&g));
        let forward = conv.forward(x, &w, &mut y, Finish::MOMENTS);
        let backward = conv.backward(x, g, &w, Some((&mut dx, Finish::MOMENTS)), &mut dw);
        (y, dx, dw, forward, backward)
    });
}
