//! Batch norm and what may follow it, with its gradients and running statistics.

use burn::module::Param;
use burn::tensor::{Device, Tensor};
use hwa_nn::layers::BatchNorm;
use hwa_nn::ops::Activation;
use hwa_nn::{Features, Init, Mode, Pass};
use serde::Deserialize;

use crate::bounds::{Checked, bound, largest, relative_error};
use crate::noise::noise_f32;
use crate::ways::{TIMES, Way, ways};
use crate::{ByName, read, tensor, to_vec};

#[derive(Deserialize)]
struct BatchNormCase {
    activation: String,
    /// The scale of the residual, 0 if there is none.
    residual: f64,
    sizes: Vec<usize>,
    runs: Vec<ByName<Checked>>,
}

impl BatchNormCase {
    fn check(&self, run: usize, name: &str, found: Vec<f32>) {
        // How the mean of one batch is rounded is luck: PyTorch's worst over the batches counts.
        let errors = self.runs.iter().filter_map(|run| run.get(name)).map(|c| c.torch_error);
        let bound = bound(TIMES, largest(errors));
        let error = relative_error(found, &self.runs[run][name].values);
        assert!(error <= bound, "{name} with {}: {error:e}, bound {bound:e}", self.activation);
    }

    /// Of images `[N, 4, 4, 6]`: what is normalised, then the residual.
    fn forward(&self, layer: &BatchNorm, images: Tensor<4>, pass: &mut Pass) -> Tensor<4> {
        let activation = match self.activation.as_str() {
            "none" => Activation::None,
            "relu" => Activation::Relu,
            "relu6" => Activation::Relu6,
            other => panic!("{other}"),
        };
        let images = Features::of(images);
        let (x, residual) = (images.channels(0..3).norm(layer), images.channels(3..6));
        let y = if self.residual == 0.0 { x } else { x + residual };
        y.activate(activation).tensor(pass)
    }

    /// Trains on the script's batches, then evaluates on the first.
    fn run(&self, way: Way) {
        let device = Device::flex().autodiff();
        let nhwc = |stream, images: usize, scale, mean| {
            tensor(noise_f32(stream, images * 48, scale, mean), [images, 4, 4, 3], &device)
        };
        let mut layer = BatchNorm::new(3, &Init::new(0, 0, &device)).unwrap();
        layer.weight = Param::from_tensor(tensor(noise_f32(0, 3, 0.5, 1.0), [3], &device));
        layer.bias = Param::from_tensor(tensor(noise_f32(1, 3, 0.5, 0.0), [3], &device));
        for (number, &images) in self.sizes.iter().enumerate() {
            let stream = number as u64;
            let mean = 100.0 * (1 + number) as f64;
            let x = nhwc(10 + stream, images, 1.0, mean).require_grad();
            let residual = nhwc(20 + stream, images, self.residual, 0.0).require_grad();
            let mut pass = way.pass(Mode::Train);
            let both = Tensor::cat(vec![x.clone(), residual.clone()], 3);
            let y = self.forward(&layer, both, &mut pass);
            let gradients = (y.clone() * nhwc(30 + stream, images, 1.0, 0.0)).sum().backward();
            let check = |name, found| self.check(number, name, found);
            check("output", to_vec(y));
            check("x_gradient", to_vec(x.grad(&gradients).unwrap()));
            if self.residual != 0.0 {
                check("residual_gradient", to_vec(residual.grad(&gradients).unwrap()));
            }
            check("weight_gradient", to_vec(layer.weight.grad(&gradients).unwrap()));
            check("bias_gradient", to_vec(layer.bias.grad(&gradients).unwrap()));
            layer = pass.move_statistics(layer);
            check("running_mean", to_vec(layer.running_mean.val()));
            check("running_var", to_vec(layer.running_var.val()));
            let batches: i64 = layer.num_batches_tracked.val().into_scalar();
            assert_eq!(batches, 1 + number as i64);
        }
        let (x, residual) = (nhwc(10, 6, 1.0, 100.0), nhwc(20, 6, self.residual, 0.0));
        let both = Tensor::cat(vec![x, residual], 3);
        let y = self.forward(&layer, both, &mut way.pass(Mode::Evaluate));
        self.check(self.sizes.len(), "evaluated", to_vec(y));
    }
}

#[test]
fn batch_norm_with_every_activation_is_pytorchs_even_with_large_means() {
    #[derive(Deserialize)]
    struct Golden {
        cases: Vec<BatchNormCase>,
    }
    let golden: Golden = read("batch_norm.json");
    assert_eq!(golden.cases.len(), 3);
    for case in &golden.cases {
        ways().for_each(|way| case.run(way));
    }
}
