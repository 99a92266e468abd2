//! Initial values: the ranges and the spreads that they are drawn from.

use burn::tensor::Device;
use hwa_nn::Init;
use hwa_nn::layers::{Conv2d, Conv2dShape, Draw, Linear};
use hwa_nn::ops::Convolution;
use serde::Deserialize;

use crate::bounds::mean_square;
use crate::{read, to_vec};

/// A layer whose initial values are uniform.
#[derive(Deserialize)]
struct Uniform {
    input: usize,
    output: usize,
    bound: f64,
}

/// A convolution whose initial weights are normal, or uniform within a bound.
#[derive(Deserialize)]
struct Drawn<T> {
    input: usize,
    output: usize,
    kernel: usize,
    groups: usize,
    #[serde(flatten)]
    spread: T,
}

#[derive(Deserialize)]
struct Deviation {
    deviation: f64,
}

#[derive(Deserialize)]
struct Bound {
    bound: f64,
}

impl<T> Drawn<T> {
    fn shape(&self) -> Conv2dShape {
        let form = Convolution { stride: 1, padding: 1, groups: self.groups };
        Conv2dShape { input: self.input, output: self.output, kernel: self.kernel, form }
    }
}

fn in_units(values: Vec<f32>, unit: f64) -> Vec<f64> {
    values.into_iter().map(|value| f64::from(value) / unit).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Checks values that are uniform in `[-1, 1)`, and so have variance 1 / 3: the limits are
/// five deviations of what is estimated. Draws come as near to both ends as `reach`.
fn check_uniform(values: &[f64], reach: f64) {
    let root = (values.len() as f64).sqrt();
    // The deviation of a square is sqrt(1 / 5 - 1 / 9).
    let (of_mean, of_square) = (5.0 * 0.578 / root, 5.0 * 0.299 / root);
    assert!(mean(values).abs() < of_mean, "{}", mean(values));
    assert!((mean_square(values) - 1.0 / 3.0).abs() < of_square, "{}", mean_square(values));
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(reach < high && high <= 1.0, "{high}");
    assert!(-1.0 <= low && low < -reach, "{low}");
}

#[test]
fn initial_values_come_from_pytorchs_ranges_and_use_them() {
    #[derive(Deserialize)]
    struct Golden {
        linear: Uniform,
        conv: Drawn<Deviation>,
        default_conv: Drawn<Bound>,
    }
    let golden: Golden = read("initial.json");
    let init = &mut Init::new(1, 0, &Device::flex());

    // The outer 0.2 % at each end are missed by 6,400 draws with probability 0.2 %, the
    // outer 10 % by 64 with 8 %; the seed is fixed.
    let Uniform { input, output, bound } = golden.linear;
    let linear = Linear::new(input, output, init).unwrap();
    assert_eq!(linear.weight.dims(), [100, 64]);
    check_uniform(&in_units(to_vec(linear.weight.val()), bound), 0.998);
    check_uniform(&in_units(to_vec(linear.bias.val()), bound), 0.9);

    let Drawn { spread: Bound { bound }, .. } = golden.default_conv;
    let conv = Conv2d::drawn(Draw::Uniform, golden.default_conv.shape(), init).unwrap();
    let conv = conv.with_bias_drawn(Draw::Uniform, init);
    assert_eq!(conv.weight.dims(), [64, 8, 5, 5]);
    check_uniform(&in_units(to_vec(conv.weight.val()), bound), 0.998);
    check_uniform(&in_units(to_vec(conv.bias.unwrap().val()), bound), 0.9);

    // Normal in units of its deviation: of 3,456 weights the mean's deviation is 0.017, the
    // mean square's 0.024, and 4.6 % lie outside of two.
    let Drawn { output, spread: Deviation { deviation }, .. } = golden.conv;
    let conv = Conv2d::drawn(Draw::He, golden.conv.shape(), init).unwrap();
    let conv = conv.with_bias_drawn(Draw::He, init);
    assert_eq!(to_vec(conv.bias.unwrap().val()), vec![0.0; output]);
    let weight = in_units(to_vec(conv.weight.val()), deviation);
    assert_eq!(weight.len(), 3_456);
    assert!(mean(&weight).abs() < 0.085, "{}", mean(&weight));
    assert!((mean_square(&weight) - 1.0).abs() < 0.12, "{}", mean_square(&weight));
    let outside = weight.iter().filter(|w| w.abs() > 2.0).count() as f64 / 3_456.0;
    assert!((outside - 0.0455).abs() < 0.018, "{outside}");

    // MobileNet's: of 6,400 weights the mean's deviation is 0.0125, the mean square's 0.018.
    let linear = Linear::normal(64, 100, 0.01, init).unwrap();
    assert_eq!(to_vec(linear.bias.val()), [0.0; 100]);
    let weight = in_units(to_vec(linear.weight.val()), 0.01);
    assert!(mean(&weight).abs() < 0.063, "{}", mean(&weight));
    assert!((mean_square(&weight) - 1.0).abs() < 0.09, "{}", mean_square(&weight));
}
