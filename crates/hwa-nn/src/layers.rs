//! Layers over the project's own operations, with PyTorch's names and layouts.
//!
//! They hold parameters and nothing else: what a forward pass learns about its
//! batch goes into the [`Pass`](crate::Pass), never into the layer.

use burn::module::{Module, Param, ParamId};
use burn::tensor::{DType, Int, Tensor};

use crate::error::{NnError, ensure_some};
use crate::init::Init;
use crate::ops::{self, Convolution};
use crate::pass::BatchNormId;

pub use crate::dropout::Dropout;

/// A 2-D convolution of `[N, H, W, C]` images; [`Features::conv`](crate::Features::conv)
/// runs it.
#[derive(Module, Debug)]
pub struct Conv2d {
    /// `[O, I / groups, kh, kw]`.
    pub weight: Param<Tensor<4>>,
    /// `[O]`.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    form: Convolution,
}

/// The shape of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv2dShape {
    /// Channels that come in.
    pub input: usize,
    /// Channels that go out.
    pub output: usize,
    /// The height and width of the kernel.
    pub kernel: usize,
    /// How the kernel moves.
    pub form: Convolution,
}

impl Conv2dShape {
    /// A square kernel of odd size, padded by half of it: only a stride makes images
    /// smaller.
    pub fn square(kernel: usize, input: usize, output: usize) -> Self {
        let form = Convolution { stride: 1, padding: kernel / 2, groups: 1 };
        Self { input, output, kernel, form }
    }

    /// 1 x 1: mixes the channels of each pixel.
    pub fn pointwise(input: usize, output: usize) -> Self {
        Self::square(1, input, output)
    }

    /// 3 x 3 of each channel by itself.
    pub fn depthwise(channels: usize) -> Self {
        let shape = Self::square(3, channels, channels);
        Self { form: Convolution { groups: channels, ..shape.form }, ..shape }
    }

    /// With a stride.
    pub fn with_stride(self, stride: usize) -> Self {
        Self { form: Convolution { stride, ..self.form }, ..self }
    }

    /// Checks that nothing is zero but the padding, and that the channels can be shared
    /// out among the groups.
    pub fn validate(&self) -> Result<(), NnError> {
        let Self { input, output, kernel, form: Convolution { stride, padding: _, groups } } =
            *self;
        ensure_some([
            ("number of input channels", input),
            ("number of output channels", output),
            ("kernel size", kernel),
            ("stride", stride),
            ("number of groups", groups),
        ])?;
        for (what, found) in [("input channels", input), ("output channels", output)] {
            if !found.is_multiple_of(groups) {
                return Err(NnError::Groups { what, found, groups });
            }
        }
        Ok(())
    }
}

/// How the initial values of a convolution are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draw {
    /// As He and others proposed for ReLU networks: weights normal with variance
    /// `2 / (O * kh * kw)`, biases zero.
    He,
    /// PyTorch's default: weights and biases uniform within
    /// `1 / sqrt(I / groups * kh * kw)`.
    Uniform,
}

impl Conv2d {
    /// Without bias, drawn as He and others proposed.
    pub fn new(shape: Conv2dShape, init: &mut Init) -> Result<Self, NnError> {
        Self::drawn(Draw::He, shape, init)
    }

    /// Without bias.
    pub fn drawn(draw: Draw, shape: Conv2dShape, init: &mut Init) -> Result<Self, NnError> {
        shape.validate()?;
        let Conv2dShape { input, output, kernel, form } = shape;
        let shape = [output, input / form.groups, kernel, kernel];
        let weight = match draw {
            Draw::He => init.normal(shape, (2.0 / (output * kernel * kernel) as f64).sqrt()),
            Draw::Uniform => init.uniform(shape, uniform_bound(shape)),
        };
        Ok(Self { weight: Param::from_tensor(weight), bias: None, form })
    }

    /// With a bias of zeros.
    pub fn with_bias(self) -> Self {
        let [output, ..] = self.weight.dims();
        let bias = Tensor::zeros([output], &self.weight.device());
        Self { bias: Some(Param::from_tensor(bias)), ..self }
    }

    /// With a bias.
    pub fn with_bias_drawn(self, draw: Draw, init: &mut Init) -> Self {
        match draw {
            Draw::He => self.with_bias(),
            Draw::Uniform => {
                let shape @ [output, ..] = self.weight.dims();
                let bias = init.uniform([output], uniform_bound(shape));
                Self { bias: Some(Param::from_tensor(bias)), ..self }
            }
        }
    }

    /// How the kernel moves.
    pub fn form(&self) -> Convolution {
        self.form
    }
}

/// `1 / sqrt` of the number of values that an output of a convolution is a sum over.
fn uniform_bound([_, input, height, width]: [usize; 4]) -> f64 {
    1.0 / ((input * height * width) as f64).sqrt()
}

/// Batch normalisation of `[N, H, W, C]`; [`Features::norm`](crate::Features::norm) runs it.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// The scale of each channel.
    pub weight: Param<Tensor<1>>,
    /// The shift of each channel.
    pub bias: Param<Tensor<1>>,
    /// The mean used in evaluation.
    pub running_mean: Param<Tensor<1>>,
    /// The unbiased variance used in evaluation.
    pub running_var: Param<Tensor<1>>,
    /// Training batches seen, `[1]`.
    pub num_batches_tracked: Param<Tensor<1, Int>>,
    epsilon: f64,
    momentum: f64,
}

impl BatchNorm {
    /// Scale one, shift zero, running mean zero and variance one; epsilon `1e-5` and
    /// momentum `0.1` as in PyTorch.
    pub fn new(channels: usize, init: &Init) -> Result<Self, NnError> {
        ensure_some([("number of channels", channels)])?;
        let device = init.device();
        let zeros = || Tensor::zeros([channels], device);
        let ones = || Tensor::ones([channels], device);
        let statistic = |tensor| Param::from_tensor(tensor).set_require_grad(false);
        // Burn's integers have 32 bits by default.
        let batches = Tensor::<1, Int>::zeros([1], (device, DType::I64));
        Ok(Self {
            weight: Param::from_tensor(ones()),
            bias: Param::from_tensor(zeros()),
            running_mean: statistic(zeros()),
            running_var: statistic(ones()),
            num_batches_tracked: Param::initialized(ParamId::new(), batches),
            epsilon: 1e-5,
            momentum: 0.1,
        })
    }

    /// What is added to the variance.
    pub fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The share of a batch in the running statistics after it.
    pub fn momentum(&self) -> f64 {
        self.momentum
    }

    pub(crate) fn id(&self) -> BatchNormId {
        BatchNormId {
            mean: self.running_mean.id,
            variance: self.running_var.id,
            batches: self.num_batches_tracked.id,
        }
    }
}

/// A linear map with bias.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[out, in]`, as PyTorch stores it.
    pub weight: Param<Tensor<2>>,
    /// `[out]`.
    pub bias: Param<Tensor<1>>,
}

impl Linear {
    /// Weight and bias uniform within `1 / sqrt(input)`, PyTorch's default.
    pub fn new(input: usize, output: usize, init: &mut Init) -> Result<Self, NnError> {
        ensure_some([("number of inputs", input), ("number of outputs", output)])?;
        let bound = 1.0 / (input as f64).sqrt();
        let weight = Param::from_tensor(init.uniform([output, input], bound));
        let bias = Param::from_tensor(init.uniform([output], bound));
        Ok(Self { weight, bias })
    }

    /// Weights normal with this deviation, bias zero.
    pub fn normal(
        input: usize,
        output: usize,
        deviation: f64,
        init: &mut Init,
    ) -> Result<Self, NnError> {
        ensure_some([("number of inputs", input), ("number of outputs", output)])?;
        let weight = Param::from_tensor(init.normal([output, input], deviation));
        let bias = Param::from_tensor(Tensor::zeros([output], init.device()));
        Ok(Self { weight, bias })
    }

    /// The multiply-adds for one row.
    pub fn multiply_adds(&self) -> u64 {
        self.weight.shape().num_elements() as u64
    }

    /// `[N, in]` to `[N, out]`.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        ops::linear(x, self.weight.val(), Some(self.bias.val()))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    const PLAIN: Convolution = Convolution { stride: 1, padding: 0, groups: 1 };
    const SHAPE: Conv2dShape = Conv2dShape { input: 4, output: 6, kernel: 3, form: PLAIN };

    #[test]
    fn layers_of_nothing_are_refused_by_what_is_missing() {
        let mut init = Init::new(0, 0, &Device::flex());
        let stride = Convolution { stride: 0, ..PLAIN };
        let groups = Convolution { groups: 0, ..PLAIN };
        let errors = [
            Conv2d::new(Conv2dShape { input: 0, ..SHAPE }, &mut init).err(),
            Conv2d::new(Conv2dShape { output: 0, ..SHAPE }, &mut init).err(),
            Conv2d::new(Conv2dShape { kernel: 0, ..SHAPE }, &mut init).err(),
            Conv2d::new(Conv2dShape { form: stride, ..SHAPE }, &mut init).err(),
            Conv2d::new(Conv2dShape { form: groups, ..SHAPE }, &mut init).err(),
            BatchNorm::new(0, &init).err(),
            Linear::new(0, 1, &mut init).err(),
            Linear::new(1, 0, &mut init).err(),
        ];
        let expected = [
            "number of input channels is 0, expected at least 1",
            "number of output channels is 0, expected at least 1",
            "kernel size is 0, expected at least 1",
            "stride is 0, expected at least 1",
            "number of groups is 0, expected at least 1",
            "number of channels is 0, expected at least 1",
            "number of inputs is 0, expected at least 1",
            "number of outputs is 0, expected at least 1",
        ];
        assert_eq!(errors.map(|error| error.unwrap().to_string()), expected);
    }

    #[test]
    fn channels_have_to_be_multiples_of_the_groups() {
        let refuse = |groups| {
            let form = Convolution { groups, ..PLAIN };
            Conv2dShape { form, ..SHAPE }.validate().unwrap_err().to_string()
        };
        assert_eq!(refuse(3), "input channels are 4, expected a multiple of the 3 groups");
        assert_eq!(refuse(4), "output channels are 6, expected a multiple of the 4 groups");
        let form = Convolution { groups: 2, ..PLAIN };
        assert!(Conv2dShape { form, ..SHAPE }.validate().is_ok());
    }
}
