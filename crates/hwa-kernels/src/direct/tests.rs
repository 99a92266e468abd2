use super::*;
use crate::conv::Layout;
use crate::conv::{Convolution, Form, Precision};
use crate::expected::{Trial, assert_finishes, assert_threads_change_nothing};
use crate::memory::Buffer;
use crate::reference::{Reference, images, noise};
use crate::simd::GROUP;
use proptest::prelude::*;

/// Small images have many channels: what the reference takes is limited.
fn any_convolution() -> impl Strategy<Value = Trial> {
    let sizes = prop_oneof![
        (1..4usize, 1..12usize, 1..12usize, 1..34usize, 1..34usize),
        (1..3usize, 1..6usize, 1..6usize, 1..131usize, 1..131usize),
    ];
    let size = || prop_oneof![Just(1), Just(3), 1..8usize];
    let kernel = prop_oneof![3 => size().prop_map(|k| [k, k]), 1 => [size(), size()]];
    let layout = prop_oneof![3 => Just(Layout::Padded), 1 => Just(Layout::Dense)];
    let read = ([0..3usize, 0..3usize], layout);
    (sizes, kernel, 1..4usize, 0..4usize, read).prop_filter_map(
        "an image smaller than the kernel",
        |((n, height, width, inputs, outputs), kernel, stride, padding, (kinds, layout))| {
            let input = Shape { images: n, height, width, channels: inputs };
            let form = Dense { outputs, inputs, kernel };
            let reference = Reference { form, stride, padding, groups: 1, input };
            let fits = height + 2 * padding >= kernel[0] && width + 2 * padding >= kernel[1];
            fits.then_some(Trial { reference, kinds, layout })
        },
    )
}

fn check(trial: Trial) {
    let Reference { form, stride, padding, input, .. } = trial.reference;
    let input_stride = match trial.layout {
        Layout::Padded => input.stride(),
        Layout::Dense => input.channels,
    };
    trial.check(1e-6, |level, [x, g], w, places| {
        let conv = Direct { level, form, stride, padding, input, input_stride };
        assert_eq!(conv.output(), trial.reference.output());
        conv.forward(x, w, places.y, Finish::NOTHING);
        conv.backward(x, g, (w, places.dw), places.dx);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn outputs_and_gradients_are_those_of_the_convolution(trial in any_convolution()) {
        check(trial);
    }
}

#[test]
fn both_gradients_of_single_pixels_are_those_of_the_convolution() {
    // With more padding on one side or the other, which decides how sums are laid out.
    let channels = [(1, 130), (130, 1), (16, 17), (17, 16), (24, 40), (40, 24), (5, 3)];
    for (inputs, outputs) in channels {
        let input = Shape { images: 3, height: 7, width: 9, channels: inputs };
        let form = Dense { outputs, inputs, kernel: [1, 1] };
        let reference = Reference { form, stride: 1, padding: 0, groups: 1, input };
        for kinds in [[0, 0], [1, 2], [2, 1]] {
            check(Trial { reference, kinds, layout: Layout::Padded });
        }
    }
}

#[test]
fn no_images_have_gradients_of_zero() {
    for (kernel, outputs) in [(1, 8), (1, 200_000), (3, 8)] {
        let input = Shape { images: 0, height: 4, width: 4, channels: 3 };
        let form = Form { outputs, kernel: [kernel; 2], stride: 1, padding: kernel / 2, groups: 1 };
        let precision = Precision::Exact;
        let conv =
            Convolution::new(Level::best(), form, (input, Layout::Padded), precision).unwrap();
        let (w, mut dw) = (vec![1.0; conv.weights_len()], vec![f32::NAN; conv.weights_len()]);
        conv.forward(Source::Stored(&[]), &w, &mut [], Finish::MOMENTS);
        let place = Some((&mut [][..], Finish::NOTHING));
        conv.backward(Source::Stored(&[]), Source::Stored(&[]), (&w, &mut dw), place);
        assert!(dw.iter().all(|x| *x == 0.0), "{form:?}");
    }
}

#[test]
fn many_channels_are_gathered_in_several_steps() {
    let input = Shape { images: 2, height: 5, width: 5, channels: 130 };
    let form = Dense { outputs: 48, inputs: 130, kernel: [3, 3] };
    for stride in [1, 2] {
        let reference = Reference { form, stride, padding: 1, groups: 1, input };
        check(Trial { reference, kinds: [0, 0], layout: Layout::Padded });
    }
}

#[test]
fn pixels_of_three_numbers_need_no_padding() {
    let input = Shape { images: 2, height: 6, width: 7, channels: 3 };
    let form = Dense { outputs: 16, inputs: 3, kernel: [3, 3] };
    let x = images(input, 1);
    let mut dense: Vec<f32> =
        x.chunks(input.stride()).flat_map(|pixel| pixel[..3].iter().copied()).collect();
    dense.resize(dense.len() + GROUP, f32::NAN);
    let (w, level) = (noise(form.len(), 2), Level::best());
    let padded_input =
        Direct { level, form, stride: 1, padding: 1, input, input_stride: input.stride() };
    let dense_input = Direct { input_stride: 3, ..padded_input };
    let g = images(padded_input.output(), 3);
    let run = |conv: Direct, x: &[f32]| {
        let (mut y, mut dw) = (vec![0.0; conv.output().len()], vec![0.0; form.len()]);
        conv.forward(Source::Stored(x), &w, &mut y, Finish::NOTHING);
        conv.weight_gradient(Source::Stored(x), Source::Stored(&g), &mut dw);
        (y, dw)
    };
    assert_eq!(run(padded_input, &x), run(dense_input, &dense));
}

#[test]
fn results_are_finished_forward_and_backward() {
    // Images with a large mean; the third kernel is gathered in several steps.
    let input = Shape { images: 12, height: 9, width: 8, channels: 40 };
    for (level, kernel, stride) in Level::available()
        .into_iter()
        .flat_map(|level| [(level, 1, 1), (level, 3, 2), (level, 5, 1)])
    {
        let form = Dense { outputs: 24, inputs: 40, kernel: [kernel, kernel] };
        let (padding, input_stride) = (kernel / 2, input.stride());
        let conv = Direct { level, form, stride, padding, input, input_stride };
        let (mut x, w, g) = (images(input, 1), noise(form.len(), 2), images(conv.output(), 3));
        x.chunks_mut(input.stride())
            .for_each(|pixel| pixel[..40].iter_mut().for_each(|x| *x += 9.0));
        assert_finishes(conv.output(), |finish| {
            let mut y = Buffer::zeros(conv.output().len());
            let totals = conv.forward(Source::Stored(&x), &w, &mut y, finish);
            (y, totals)
        });
        assert_finishes(input, |finish| {
            let (mut dx, mut dw) = (Buffer::zeros(x.len()), vec![f32::NAN; w.len()]);
            let (x, g) = (Source::Stored(&x), Source::Stored(&g));
            let totals = conv.backward(x, g, (&w, &mut dw), Some((&mut dx, finish)));
            (dx, totals)
        });
    }
}

#[test]
fn threads_change_no_bit() {
    let small = Shape { images: 40, height: 12, width: 12, channels: 16 };
    // So wide that threads share the rows of one gradient.
    let wide = Shape { images: 3, height: 8, width: 8, channels: 256 };
    for (input, outputs, kernel, stride) in
        [(small, 32, 3, 2), (small, 32, 1, 1), (wide, 512, 3, 2), (wide, 2100, 1, 1)]
    {
        let form = Dense { outputs, inputs: input.channels, kernel: [kernel; 2] };
        let (x, w) = (images(input, 1), noise(form.len(), 2));
        let (padding, input_stride) = (kernel / 2, input.stride());
        let conv = Direct { level: Level::best(), form, stride, padding, input, input_stride };
        let g = images(conv.output(), 3);
        assert_threads_change_nothing(|| {
            let (mut y, mut dx) = (vec![0.0; conv.output().len()], vec![0.0; input.len()]);
            let mut dw = vec![0.0; form.len()];
            let totals = conv.forward(Source::Stored(&x), &w, &mut y, Finish::MOMENTS);
            let place = Some((&mut dx[..], Finish::NOTHING));
            conv.backward(Source::Stored(&x), Source::Stored(&g), (&w, &mut dw), place);
            (y, dx, dw, Totals::moments(&totals))
        });
    }
}

#[test]
fn wide_layers_have_the_gradients_of_the_convolution() {
    let input = Shape { images: 2, height: 3, width: 4, channels: 256 };
    for (outputs, kernel, stride) in [(512, 3, 2), (2100, 1, 1)] {
        let form = Dense { outputs, inputs: 256, kernel: [kernel; 2] };
        let reference = Reference { form, stride, padding: kernel / 2, groups: 1, input };
        check(Trial { reference, kinds: [1, 2], layout: Layout::Padded });
    }
}
