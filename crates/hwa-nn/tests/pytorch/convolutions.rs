//! Convolutions of all forms, and their gradients.

use burn::module::Param;
use burn::tensor::Device;
use hwa_nn::layers::{Conv2d, Conv2dShape};
use hwa_nn::ops::Convolution;
use hwa_nn::{Features, Init, Mode};
use serde::Deserialize;

use crate::bounds::{Checked, bound, largest, relative_error};
use crate::noise::noise_f32;
use crate::ways::{Way, ways};
use crate::{ByName, read, tensor, to_vec};

#[derive(Deserialize)]
struct ConvolutionCase {
    name: String,
    size: [usize; 2],
    channels: [usize; 2],
    kernel: usize,
    stride: usize,
    padding: usize,
    groups: usize,
    tensors: ByName<Checked>,
}

impl ConvolutionCase {
    /// Output and gradients, for the noise that the script takes for its case `number`.
    fn run(&self, number: usize, way: Way) -> [(&'static str, Vec<f32>); 4] {
        let device = Device::flex().autodiff();
        let stream = |i: u64| 10 * number as u64 + i;
        let draw = |i, shape: [usize; 4]| {
            tensor(noise_f32(stream(i), shape.iter().product(), 1.0, 0.0), shape, &device)
        };
        let ([height, width], [input, output]) = (self.size, self.channels);
        let x = draw(0, [2, height, width, input]).require_grad();
        let shape = [output, input / self.groups, self.kernel, self.kernel];
        let weight = draw(1, shape);
        let bias = tensor(noise_f32(stream(2), output, 1.0, 0.0), [output], &device);
        let form = Convolution { stride: self.stride, padding: self.padding, groups: self.groups };
        let shape = Conv2dShape { input, output, kernel: self.kernel, form };
        let mut layer = Conv2d::new(shape, &mut Init::new(0, 0, &device)).unwrap();
        layer.weight = Param::from_tensor(weight);
        layer.bias = Some(Param::from_tensor(bias));
        let (weight, bias) = (layer.weight.val(), layer.bias.as_ref().unwrap().val());
        let y = Features::of(x.clone()).conv(&layer).tensor(&mut way.pass(Mode::Train));
        let gradients = (y.clone() * draw(3, y.dims())).sum().backward();
        [
            ("output", to_vec(y)),
            ("x_gradient", to_vec(x.grad(&gradients).unwrap())),
            ("weight_gradient", to_vec(weight.grad(&gradients).unwrap())),
            ("bias_gradient", to_vec(bias.grad(&gradients).unwrap())),
        ]
    }
}

#[test]
fn convolutions_of_all_forms_and_their_gradients_are_pytorchs() {
    #[derive(Deserialize)]
    struct Golden {
        cases: Vec<ConvolutionCase>,
    }
    let golden: Golden = read("convolutions.json");
    for (number, case) in golden.cases.iter().enumerate() {
        for way in ways() {
            for (tensor, found) in case.run(number, way) {
                // The error of one small tensor is luck: PyTorch's worst over the cases counts.
                let errors = golden.cases.iter().map(|case| case.tensors[tensor].torch_error);
                let error = relative_error(found, &case.tensors[tensor].values);
                let (bound, name) = (bound(way.times(), largest(errors)), &case.name);
                assert!(error <= bound, "{tensor} of {name}, {way:?}: {error:e}, bound {bound:e}");
            }
        }
    }
}
