use super::*;
use crate::expected::{Sources, assert_finishes, assert_threads_change_nothing};
use crate::reference::{error, images};
use proptest::prelude::*;

fn any_shape() -> impl Strategy<Value = Shape> {
    let sizes = (1..4usize, 1..12usize, 1..12usize, 1..131usize);
    sizes.prop_map(|(images, height, width, channels)| Shape { images, height, width, channels })
}

/// `(input number, output number)` of every number that is kept: channel `c` of pixel `(y, x)` of
/// the output is `channel(c)`, if there is one, of pixel `(y * step, x * step)`.
fn pairs(
    (from, to): (Shape, Shape),
    step: usize,
    channel: impl Fn(usize) -> Option<usize>,
) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for pixel in 0..to.pixels() {
        let (x, y) = (pixel % to.width, pixel / to.width % to.height);
        let image = pixel / (to.width * to.height);
        let source = (image * from.height + y * step) * from.width + x * step;
        for c in 0..to.channels {
            if let Some(i) = channel(c) {
                pairs.push((source * from.stride() + i, pixel * to.stride() + c));
            }
        }
    }
    pairs
}

fn taken(x: &[f64], pairs: &[(usize, usize)], len: usize) -> Vec<f64> {
    let mut y = vec![0.0; len];
    pairs.iter().for_each(|&(i, o)| y[o] = x[i]);
    y
}

/// Whatever was there before, the gradient is that of what was moved.
fn check_backward(
    from: Shape,
    g64: &[f64],
    pairs: &[(usize, usize)],
    backward: impl Fn(Target<'_>) -> Vec<Totals>,
) {
    let mut dx = vec![f32::NAN; from.len()];
    let mut expected = vec![0.0; from.len()];
    pairs.iter().for_each(|&(i, o)| expected[i] += g64[o]);
    backward(Target { gradient: &mut dx, finish: Finish::NOTHING });
    let e = error(&dx, &expected);
    assert!(e < 1e-6, "{e:e}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_nth_pixel_lies_in_the_middle_of_zeros(
        input in any_shape(),
        (stride, more) in (1..4usize, 0..70usize),
        kinds in [0..3usize, 0..3usize],
    ) {
        for level in Level::available() {
            let op = Subsample { level, input, stride, channels: input.channels + more };
            let output = op.output();
            let (x, g) = (Sources::new(input, 1), Sources::new(output, 2));
            let channel = |c: usize| c.checked_sub(more / 2).filter(|&c| c < input.channels);
            let pairs = pairs((input, output), stride, channel);
            let mut y = vec![f32::NAN; output.len()];
            op.forward(x.kind(kinds[0]), &mut y);
            prop_assert!(error(&y, &taken(&x.values(kinds[0]), &pairs, y.len())) < 1e-6);
            check_backward(input, &g.values(kinds[1]), &pairs, |target| {
                op.backward(g.kind(kinds[1]), target)
            });
        }
    }

    #[test]
    fn a_slice_has_its_channels_and_no_others(
        input in any_shape(),
        ends in [0..1000usize, 0..1000usize],
        kinds in [0..3usize, 0..3usize],
    ) {
        let start = ends[0] % input.channels;
        let end = start + 1 + ends[1] % (input.channels - start);
        for level in Level::available() {
            let op = Slice { level, input, channels: start..end };
            let output = op.output();
            let (x, g) = (Sources::new(input, 1), Sources::new(output, 2));
            let pairs = pairs((input, output), 1, |c| Some(start + c));
            let mut y = vec![f32::NAN; output.len()];
            op.forward(x.kind(kinds[0]), &mut y);
            prop_assert!(error(&y, &taken(&x.values(kinds[0]), &pairs, y.len())) < 1e-6);
            check_backward(input, &g.values(kinds[1]), &pairs, |target| {
                op.backward(g.kind(kinds[1]), target)
            });
        }
    }

    #[test]
    fn channels_of_both_are_dealt_in_turn(
        input in any_shape(),
        (others, groups) in (1..131usize, 1..5usize),
        kinds in [0..3usize, 0..3usize, 0..3usize],
    ) {
        // Enough of the second to fill the groups.
        let others = (input.channels + others).next_multiple_of(groups) - input.channels;
        let second = Shape { channels: others, ..input };
        for level in Level::available() {
            let op = Concat { level, input, others, groups };
            let output = op.output();
            let (a, b) = (Sources::new(input, 1), Sources::new(second, 2));
            let g = Sources::new(output, 3);
            // view(groups, each).transpose: output c is channel c / groups of group c % groups.
            let origin = |c: usize| c % groups * (output.channels / groups) + c / groups;
            let in_a = |c: usize| Some(origin(c)).filter(|&c| c < input.channels);
            let in_b = |c: usize| origin(c).checked_sub(input.channels);
            let from_a = pairs((input, output), 1, in_a);
            let from_b = pairs((second, output), 1, in_b);
            let mut expected = taken(&a.values(kinds[0]), &from_a, output.len());
            let b64 = b.values(kinds[1]);
            from_b.iter().for_each(|&(i, o)| expected[o] = b64[i]);
            let mut y = vec![f32::NAN; output.len()];
            op.forward(a.kind(kinds[0]), b.kind(kinds[1]), &mut y);
            prop_assert!(error(&y, &expected) < 1e-6);
            let (g64, g) = (g.values(kinds[2]), g.kind(kinds[2]));
            check_backward(input, &g64, &from_a, |target| op.backward(0, g, target));
            check_backward(second, &g64, &from_b, |target| op.backward(1, g, target));
        }
    }
}

/// Large enough for several parts, with images small enough to be finished together.
const MANY: Shape = Shape { images: 70, height: 7, width: 6, channels: 40 };

#[test]
fn gradients_are_finished() {
    for level in Level::available() {
        let op = Subsample { level, input: MANY, stride: 2, channels: 80 };
        let g = images(op.output(), 2);
        assert_finishes(MANY, |finish| {
            let mut dx = vec![f32::NAN; MANY.len()];
            let target = Target { gradient: &mut dx, finish };
            let totals = op.backward(Source::Stored(&g), target);
            (dx, totals)
        });
    }
}

#[test]
fn threads_change_no_bit() {
    let op = Concat { level: Level::best(), input: MANY, others: 40, groups: 2 };
    let (a, b, g) = (images(MANY, 1), images(MANY, 2), images(op.output(), 3));
    assert_threads_change_nothing(|| {
        let (mut y, mut da, mut db) = (g.clone(), a.clone(), b.clone());
        op.forward(Source::Stored(&a), Source::Stored(&b), &mut y);
        let [da_target, db_target] =
            [&mut da, &mut db].map(|gradient| Target { gradient, finish: Finish::MOMENTS });
        let first = op.backward(0, Source::Stored(&g), da_target);
        let second = op.backward(1, Source::Stored(&g), db_target);
        (y, da, db, first, second)
    });
}

#[test]
fn two_groups_of_two_are_dealt_by_hand() {
    // a = [1, 2], b = [3, 4]: groups (1, 2) and (3, 4) give 1, 3, 2, 4.
    let input = Shape { images: 1, height: 1, width: 1, channels: 2 };
    let (mut a, mut b, mut y) = ([0.0; 16], [0.0; 16], [f32::NAN; 16]);
    a[..2].copy_from_slice(&[1.0, 2.0]);
    b[..2].copy_from_slice(&[3.0, 4.0]);
    let op = Concat { level: Level::best(), input, others: 2, groups: 2 };
    op.forward(Source::Stored(&a), Source::Stored(&b), &mut y);
    assert_eq!(y[..5], [1.0, 3.0, 2.0, 4.0, 0.0]);
}
