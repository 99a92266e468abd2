//! Dropout, with masks that have an address.
//!
//! N. Srivastava and others, "Dropout: A Simple Way to Prevent Neural Networks from
//! Overfitting". A mask is drawn at (seed, model, step, layer), where the layer is the
//! number of dropout layers that the pass met before: the same for any number of threads,
//! in a resumed run, and for a second gradient of the same step.

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};

use crate::error::NnError;
use crate::pass::Pass;

/// Leaves out a share of its inputs in training, and scales up the others, as PyTorch does.
///
/// In evaluation it leaves everything as it is, and in re-estimation too: PyTorch's
/// `update_bn` runs in training mode, but only statistics count there, and every dropout of
/// this crate's networks comes after the last batch norm.
#[derive(Module, Debug)]
pub struct Dropout {
    rate: f64,
}

impl Dropout {
    /// With the share of the inputs that are left out, at least 0 and below 1.
    pub fn new(rate: f64) -> Result<Self, NnError> {
        if !(0.0..1.0).contains(&rate) {
            return Err(NnError::DropoutRate { rate });
        }
        Ok(Self { rate })
    }

    /// The share of the inputs that are left out.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Each value is zero with probability `rate`, and divided by `1 - rate` otherwise.
    pub fn forward<const D: usize>(&self, x: Tensor<D>, pass: &mut Pass) -> Tensor<D> {
        let Some(mut random) = pass.random() else { return x };
        if self.rate == 0.0 {
            return x;
        }
        let kept = (1.0 / (1.0 - self.rate)) as f32;
        let mut one = || if random.unit() < self.rate { 0.0 } else { kept };
        let mask: Vec<f32> = (0..x.shape().num_elements()).map(|_| one()).collect();
        let mask = TensorData::new(mask, x.shape());
        let mask = Tensor::from_data(mask, (&x.device(), x.dtype()));
        x * mask
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use hwa_data::Position;

    use super::*;
    use crate::pass::Mode;

    const HERE: Position = Position { seed: 7, replica: 1, step: 30 };
    const COUNT: usize = 40_000;

    fn ones() -> Tensor<2> {
        Tensor::ones([COUNT / 100, 100], &Device::flex())
    }

    fn values(tensor: Tensor<2>) -> Vec<f32> {
        tensor.into_data().iter::<f32>().collect()
    }

    /// What becomes of ones in the first and in the second layer of a pass.
    fn two_layers(rate: f64, pass: Pass) -> [Vec<f32>; 2] {
        let (layer, mut pass) = (Dropout::new(rate).unwrap(), pass);
        [0, 1].map(|_| values(layer.forward(ones(), &mut pass)))
    }

    fn training_at(position: Position) -> [Vec<f32>; 2] {
        two_layers(0.5, Pass::new(Mode::Train).at(position))
    }

    #[test]
    fn what_is_kept_makes_up_for_what_is_not() {
        for rate in [0.2, 0.5] {
            let [found, _] = two_layers(rate, Pass::new(Mode::Train).at(HERE));
            let kept = (1.0 / (1.0 - rate)) as f32;
            assert!(found.iter().all(|v| *v == 0.0 || *v == kept), "{rate}");
            // The number of zeros is binomial, with deviation sqrt(40,000 p (1 - p)) <= 100.
            let zeros = found.iter().filter(|v| **v == 0.0).count();
            assert!(zeros.abs_diff((rate * COUNT as f64) as usize) < 500, "{rate}: {zeros}");
            // So the mean is that of the inputs, within 500 / 40,000 / (1 - p).
            let mean = found.iter().map(|v| f64::from(*v)).sum::<f64>() / COUNT as f64;
            assert!((mean - 1.0).abs() < 0.025, "{rate}: {mean}");
        }
    }

    #[test]
    fn the_same_address_gives_the_same_mask_and_every_part_of_it_matters() {
        let [first, second] = training_at(HERE);
        // A second pass of the same step, as for a second gradient.
        assert_eq!(training_at(HERE), [first.clone(), second.clone()]);
        let others = [
            second,
            training_at(Position { seed: 8, ..HERE })[0].clone(),
            training_at(Position { replica: 0, ..HERE })[0].clone(),
            training_at(Position { step: 31, ..HERE })[0].clone(),
        ];
        for (number, other) in others.iter().enumerate() {
            // Two independent masks agree in half of their places, with deviation 100.
            let agree = first.iter().zip(other).filter(|(a, b)| a == b).count();
            assert!(agree.abs_diff(COUNT / 2) < 500, "{number}: {agree}");
        }
    }

    #[test]
    fn nothing_is_left_out_but_in_training() {
        let as_it_is = [vec![1.0; COUNT], vec![1.0; COUNT]];
        for mode in [Mode::Recalibrate, Mode::Evaluate] {
            assert_eq!(two_layers(0.5, Pass::new(mode).at(HERE)), as_it_is);
        }
        assert_eq!(two_layers(0.5, Pass::new(Mode::Train)), as_it_is);
        assert_eq!(two_layers(0.0, Pass::new(Mode::Train).at(HERE)), as_it_is);
    }

    #[test]
    fn gradients_pass_where_values_do() {
        let x = Tensor::<2>::ones([3, 5], &Device::flex().autodiff()).require_grad();
        let mut pass = Pass::new(Mode::Train).at(HERE);
        let y = Dropout::new(0.4).unwrap().forward(x.clone(), &mut pass);
        let gradient = x.grad(&y.clone().sum().backward()).unwrap();
        let found = values(gradient);
        // The input was one, so the output is the mask.
        assert_eq!(found, values(y));
        assert!(found.contains(&0.0) && found.iter().any(|v| *v > 1.0));
    }

    #[test]
    fn a_rate_is_a_share_that_leaves_something() {
        for rate in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
            let error = Dropout::new(rate).unwrap_err().to_string();
            assert_eq!(error, format!("dropout rate is {rate}, expected at least 0 and below 1"));
        }
        assert_eq!(Dropout::new(0.2).unwrap().rate(), 0.2);
    }
}
