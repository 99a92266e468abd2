//! Convolution: which way is taken, and the checks that make it safe to call.

use std::fmt;

use crate::depthwise::Depthwise;
use crate::direct::Direct;
use crate::finish::{Finish, Gate, Sums, Totals};
use crate::grouped::Grouped;
use crate::read::Source;
use crate::shape::Shape;
use crate::simd::{GROUP, Level};
use crate::weights::Dense;
use crate::winograd::Winograd;

/// How a convolution moves over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Form {
    /// Output channels.
    pub outputs: usize,
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    /// Pixels from one output to the next, in both directions.
    pub stride: usize,
    /// Zeros on each side, in both directions.
    pub padding: usize,
    /// Groups of channels that are convolved separately.
    pub groups: usize,
}

/// Whether convolutions may take the fast way that rounds more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// Winograd's transforms where they pay.
    #[default]
    Fast,
    /// Every product by itself.
    Exact,
}

/// A convolution that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvError {
    /// A number that must be at least one is zero.
    #[error("the {what} of a convolution is 0, expected at least 1")]
    Zero {
        /// Which number.
        what: &'static str,
    },
    /// Channels do not fall into groups.
    #[error("{channels} {what} channels cannot be divided into {groups} groups")]
    Groups {
        /// Input or output.
        what: &'static str,
        /// How many there are.
        channels: usize,
        /// How many groups were asked for.
        groups: usize,
    },
    /// The kernel is larger than the padded image.
    #[error(
        "a kernel of {kernel:?} does not fit into an image of {image:?} with {padding} zeros on each side"
    )]
    Size {
        /// Rows and columns of the kernel.
        kernel: [usize; 2],
        /// Rows and columns of the image.
        image: [usize; 2],
        /// Zeros on each side.
        padding: usize,
    },
}

/// A convolution of images of one shape.
#[derive(Debug, Clone)]
pub struct Convolution {
    form: Form,
    input: Shape,
    input_len: usize,
    output: Shape,
    way: Way,
}

#[derive(Debug, Clone)]
enum Way {
    Winograd(Winograd),
    Direct(Direct),
    Depthwise(Depthwise),
    Grouped(Grouped),
}

impl fmt::Display for Convolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            Way::Winograd(_) => "winograd",
            Way::Direct(_) => "direct",
            Way::Depthwise(_) => "depthwise",
            Way::Grouped(_) => "grouped",
        };
        let Form { kernel: [rows, columns], stride, .. } = self.form;
        write!(f, "{way} {rows}x{columns} /{stride}")
    }
}

/// How the images that come in are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Channels padded to whole groups.
    Padded,
    /// Pixel after pixel, with a group to spare after the last.
    Dense,
}

impl Convolution {
    /// Chooses a way for images of shape `input`.
    pub fn new(
        level: Level,
        form: Form,
        (input, layout): (Shape, Layout),
        precision: Precision,
    ) -> Result<Self, ConvError> {
        form.check(input)?;
        Ok(Self::of_checked(level, form, (input, layout), precision))
    }

    /// As [`new`](Self::new), of a form that is known to fit.
    pub(crate) fn of_checked(
        level: Level,
        form: Form,
        (input, layout): (Shape, Layout),
        precision: Precision,
    ) -> Self {
        let Form { outputs, kernel, stride, padding, groups } = form;
        let (input_len, input_stride) = match layout {
            Layout::Padded => (input.len(), input.stride()),
            Layout::Dense => (input.pixels() * input.channels + GROUP, input.channels),
        };
        let dense = Dense { outputs, inputs: input.channels, kernel };
        let direct = Direct { level, form: dense, stride, padding, input, input_stride };
        let output = direct.output();
        let each = (input.channels, outputs) == (groups, groups) && groups > 1;
        let tiles = (kernel, stride, layout) == ([3, 3], 1, Layout::Padded) && padding <= 2;
        let way = if each && layout == Layout::Padded {
            Way::Depthwise(Depthwise { level, kernel, stride, padding, input })
        } else if groups > 1 {
            Way::Grouped(Grouped { level, form, precision, input, input_stride, output })
        } else if precision == Precision::Fast && tiles && tiles_pay(input, output) {
            Way::Winograd(Winograd { level, form: dense, padding, input })
        } else {
            Way::Direct(direct)
        };
        Self { form, input, input_len, output, way }
    }

    /// The images that come in.
    pub fn input(&self) -> Shape {
        self.input
    }

    /// The images that come out.
    pub fn output(&self) -> Shape {
        self.output
    }

    /// The number of weights, in PyTorch's order.
    pub fn weights_len(&self) -> usize {
        self.form.outputs
            * (self.input.channels / self.form.groups)
            * self.form.kernel[0]
            * self.form.kernel[1]
    }

    /// Convolves; gives the sums that were gathered, part by part.
    ///
    /// # Panics
    ///
    /// If a slice does not have the length that its shape asks for.
    pub fn forward(
        &self,
        source: Source<'_>,
        weights: &[f32],
        output: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        source.check(self.input_len, self.input.stride());
        finish.check(self.output);
        assert_eq!((weights.len(), output.len()), (self.weights_len(), self.output.len()));
        match &self.way {
            Way::Winograd(way) => way.forward(source, weights, output, finish),
            Way::Direct(way) => way.forward(source, weights, output, finish),
            Way::Depthwise(way) => way.forward(source, weights, output, finish),
            Way::Grouped(way) => way.forward(source, weights, output, finish),
        }
    }

    /// The gradient of the weights and, if there is a place for it, of the input.
    ///
    /// # Panics
    ///
    /// If a slice does not have the length that its shape asks for, or if the gradient of images
    /// without padding is asked for.
    pub fn backward(
        &self,
        source: Source<'_>,
        gradient: Source<'_>,
        weights: (&[f32], &mut [f32]),
        input: Option<(&mut [f32], Finish<'_>)>,
    ) -> Vec<Totals> {
        source.check(self.input_len, self.input.stride());
        gradient.check(self.output.len(), self.output.stride());
        let (weights, weight_gradient) = weights;
        let lens = (weights.len(), weight_gradient.len());
        assert_eq!(lens, (self.weights_len(), self.weights_len()));
        if let Some((input, finish)) = &input {
            finish.check(self.input);
            assert_eq!((input.len(), self.input_len), (self.input.len(), self.input.len()));
        }
        match &self.way {
            Way::Winograd(way) => way.backward(source, gradient, (weights, weight_gradient), input),
            Way::Direct(way) => way.backward(source, gradient, (weights, weight_gradient), input),
            Way::Depthwise(way) => way.backward(source, gradient, weights, input, weight_gradient),
            Way::Grouped(way) => way.backward(source, gradient, (weights, weight_gradient), input),
        }
    }
}

/// Whether the tiles of Winograd, which are cut off at the border of the image, save products.
fn tiles_pay(input: Shape, output: Shape) -> bool {
    let tiles = output.height.div_ceil(4) * output.width.div_ceil(4);
    // Rows and columns of the input that a tap finds inside of the image, over all three taps.
    let inside = |from: usize, to: usize| (3 * to).min(3 * from).saturating_sub(2).max(1);
    let direct = inside(input.height, output.height) * inside(input.width, output.width);
    2 * 36 * tiles <= 3 * direct
}

impl Form {
    fn check(&self, input: Shape) -> Result<(), ConvError> {
        let numbers = [
            ("number of output channels", self.outputs),
            ("number of input channels", input.channels),
            ("kernel height", self.kernel[0]),
            ("kernel width", self.kernel[1]),
            ("stride", self.stride),
            ("number of groups", self.groups),
        ];
        if let Some((what, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
            return Err(ConvError::Zero { what });
        }
        for (what, channels) in [("input", input.channels), ("output", self.outputs)] {
            if channels % self.groups != 0 {
                return Err(ConvError::Groups { what, channels, groups: self.groups });
            }
        }
        let image = [input.height, input.width];
        if (0..2).any(|i| image[i] + 2 * self.padding < self.kernel[i]) {
            let Self { kernel, padding, .. } = *self;
            return Err(ConvError::Size { kernel, image, padding });
        }
        Ok(())
    }
}

impl Source<'_> {
    /// Panics unless there are `len` numbers, and coefficients for `width` padded channels.
    pub(crate) fn check(&self, len: usize, width: usize) {
        match self {
            Self::Stored(x) => assert_eq!(x.len(), len),
            Self::Normalised { x, coefficients, .. } => {
                assert_eq!((x.len(), coefficients.len()), (len, 2 * width));
            }
            Self::Gradient { gradient, x, coefficients } => {
                let lens = (gradient.len(), x.len(), coefficients.len());
                assert_eq!(lens, (len, len, 4 * width));
            }
        }
    }
}

impl Finish<'_> {
    /// Panics unless everything fits results of a shape.
    pub(crate) fn check(&self, shape: Shape) {
        let (len, width) = (shape.len(), shape.stride());
        assert!(self.skip.is_none_or(|skip| skip.len() == len));
        match self.gate {
            Gate::Open => {}
            Gate::Output(output, _) => assert_eq!(output.len(), len),
            Gate::Input { x, coefficients, .. } => {
                assert_eq!((x.len(), coefficients.len()), (len, 2 * width));
            }
        }
        if let Sums::Products { x, mean } = self.sums {
            assert_eq!((x.len(), mean.len()), (len, width));
        }
    }
}
