//! What a kernel reads: a stored tensor, or one that is computed as it is read.
//!
//! Batch norm and its activation never need a pass of their own: the next
//! convolution applies them to the stored output of the one before, and backward a
//! convolution forms the gradient of its output from that of the normalised one.

use std::ops::Range;

use crate::simd::Simd;
use crate::span::Span;

/// An activation that keeps its argument within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The argument itself.
    None,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
}

impl Activation {
    /// The smallest and largest value. NaN stands for no bound: comparisons with it are false.
    pub(crate) fn bounds(self) -> [f32; 2] {
        match self {
            Self::None => [f32::NAN; 2],
            Self::Relu => [0.0, f32::NAN],
            Self::Relu6 => [0.0, 6.0],
        }
    }
}

/// A tensor of `[pixels, channels]`, channels padded to whole groups; or not, for convolutions of
/// [`Layout::Dense`](crate::Layout::Dense).
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// As it is stored.
    Stored(&'a [f32]),
    /// `activation(scale * x + shift)`.
    Normalised {
        /// The stored tensor.
        x: &'a [f32],
        /// Scale, then shift, of each padded channel.
        coefficients: &'a [f32],
        /// What follows.
        activation: Activation,
    },
    /// `a * gradient + b * (x - mean) + c`: the gradient of batch norm's input.
    Gradient {
        /// The gradient of the normalised tensor.
        gradient: &'a [f32],
        /// What was normalised.
        x: &'a [f32],
        /// `a`, then `b`, `c` and the mean, of each padded channel.
        coefficients: &'a [f32],
    },
}

impl<'a> Source<'a> {
    /// The numbers stored.
    pub fn len(&self) -> usize {
        match self {
            Self::Stored(x) | Self::Normalised { x, .. } => x.len(),
            Self::Gradient { gradient, x, .. } => gradient.len().min(x.len()),
        }
    }

    /// What is stored of some numbers, as far as there are any.
    pub(crate) fn stored(&self, numbers: Range<usize>) -> [&'a [f32]; 2] {
        let part = |x: &'a [f32]| &x[numbers.start.min(x.len())..numbers.end.min(x.len())];
        match *self {
            Self::Stored(x) | Self::Normalised { x, .. } => [part(x), &[]],
            Self::Gradient { gradient, x, .. } => [part(gradient), part(x)],
        }
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A source for the inner loops: one type for each kind.
pub(crate) trait Reader: Copy {
    /// What is the same for all pixels of a vector of channels.
    type Channels<S: Simd>: Copy;

    /// # Safety
    ///
    /// The vector of channels at `c` lies within the padded channels.
    unsafe fn channels<S: Simd>(self, c: usize) -> Self::Channels<S>;

    /// The vector at number `i`, whose channels are `channels`.
    ///
    /// # Safety
    ///
    /// The vector lies within the tensor.
    unsafe fn vector<S: Simd>(self, i: usize, channels: Self::Channels<S>) -> S;

    fn prefetch<S: Simd>(self, offset: usize, len: usize);
}

/// See [`Source::Stored`].
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a>(pub Span<'a>);

impl Reader for Stored<'_> {
    type Channels<S: Simd> = ();

    #[inline(always)]
    unsafe fn channels<S: Simd>(self, _: usize) {}

    #[inline(always)]
    unsafe fn vector<S: Simd>(self, i: usize, (): ()) -> S {
        // SAFETY: by contract.
        unsafe { self.0.vector(i) }
    }

    #[inline(always)]
    fn prefetch<S: Simd>(self, offset: usize, len: usize) {
        self.0.prefetch::<S>(offset, len);
    }
}

/// See [`Source::Normalised`].
#[derive(Clone, Copy)]
pub(crate) struct Normalised<'a> {
    pub x: Span<'a>,
    pub coefficients: Span<'a>,
    /// The padded channels.
    pub width: usize,
    pub bounds: [f32; 2],
}

impl Reader for Normalised<'_> {
    /// Scale, shift, bounds.
    type Channels<S: Simd> = [S; 4];

    #[inline(always)]
    unsafe fn channels<S: Simd>(self, c: usize) -> [S; 4] {
        let [low, high] = self.bounds.map(S::splat);
        let at = self.coefficients;
        // SAFETY: by contract.
        unsafe { [at.vector(c), at.vector(self.width + c), low, high] }
    }

    #[inline(always)]
    unsafe fn vector<S: Simd>(self, i: usize, [scale, shift, low, high]: [S; 4]) -> S {
        // SAFETY: by contract.
        let x: S = unsafe { self.x.vector(i) };
        x.mul_add(scale, shift).at_least(low).at_most(high)
    }

    #[inline(always)]
    fn prefetch<S: Simd>(self, offset: usize, len: usize) {
        self.x.prefetch::<S>(offset, len);
    }
}

/// See [`Source::Gradient`].
#[derive(Clone, Copy)]
pub(crate) struct Gradient<'a> {
    pub gradient: Span<'a>,
    pub x: Span<'a>,
    pub coefficients: Span<'a>,
    /// The padded channels.
    pub width: usize,
}

impl Reader for Gradient<'_> {
    type Channels<S: Simd> = [S; 4];

    #[inline(always)]
    unsafe fn channels<S: Simd>(self, c: usize) -> [S; 4] {
        // SAFETY: by contract.
        std::array::from_fn(|i| unsafe { self.coefficients.vector(i * self.width + c) })
    }

    #[inline(always)]
    unsafe fn vector<S: Simd>(self, i: usize, [a, b, c, mean]: [S; 4]) -> S {
        // SAFETY: by contract.
        let (gradient, x): (S, S) = unsafe { (self.gradient.vector(i), self.x.vector(i)) };
        // Less the mean first: a large one costs no digits.
        gradient.mul_add(a, x.sub(mean).mul_add(b, c))
    }

    #[inline(always)]
    fn prefetch<S: Simd>(self, offset: usize, len: usize) {
        self.gradient.prefetch::<S>(offset, len);
        self.x.prefetch::<S>(offset, len);
    }
}

/// Evaluates `$body` with `$reader` bound to the reader of a source.
macro_rules! with_reader {
    ($source:expr, $width:expr, $reader:ident => $body:expr) => {
        match $source {
            $crate::read::Source::Stored(x) => {
                let $reader = $crate::read::Stored($crate::span::Span::new(x));
                $body
            }
            $crate::read::Source::Normalised { x, coefficients, activation } => {
                let $reader = $crate::read::Normalised {
                    x: $crate::span::Span::new(x),
                    coefficients: $crate::span::Span::new(coefficients),
                    width: $width,
                    bounds: activation.bounds(),
                };
                $body
            }
            $crate::read::Source::Gradient { gradient, x, coefficients } => {
                let $reader = $crate::read::Gradient {
                    gradient: $crate::span::Span::new(gradient),
                    x: $crate::span::Span::new(x),
                    coefficients: $crate::span::Span::new(coefficients),
                    width: $width,
                };
                $body
            }
        }
    };
}
pub(crate) use with_reader;
