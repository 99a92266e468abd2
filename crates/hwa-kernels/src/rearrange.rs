//! Tensors in another order.

use crate::combine::Combine;
use crate::finish::{Finish, Totals};
use crate::memory::with_scratch;
use crate::read::{Activation, Source};
use crate::shape::Shape;
use crate::simd::{Level, padded};

/// Dense pixels to padded ones.
pub(crate) fn pad(dense: &[f32], channels: usize, padded_pixels: &mut [f32]) {
    let width = padded(channels);
    for (to, from) in padded_pixels.chunks_mut(width).zip(dense.chunks(channels)) {
        to[..channels].copy_from_slice(&from[..channels]);
        to[channels..].fill(0.0);
    }
}

/// Padded pixels to dense ones.
pub(crate) fn unpad(padded_pixels: &[f32], channels: usize, dense: &mut [f32]) {
    let width = padded(channels);
    for (to, from) in dense.chunks_mut(channels).zip(padded_pixels.chunks(width)) {
        to.copy_from_slice(&from[..channels]);
    }
}

/// Every `stride`-th pixel, its channels amid zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subsample {
    pub level: Level,
    pub input: Shape,
    pub stride: usize,
    pub channels: usize,
}

impl Subsample {
    fn output(&self) -> Shape {
        Shape {
            height: self.input.height.div_ceil(self.stride),
            width: self.input.width.div_ceil(self.stride),
            channels: self.channels,
            ..self.input
        }
    }

    fn before(&self) -> usize {
        (self.channels - self.input.channels) / 2
    }

    /// The pixel of the input behind each pixel of the output.
    fn pixels(&self) -> impl Iterator<Item = usize> {
        let (from, to, stride) = (self.input, self.output(), self.stride);
        (0..to.pixels()).map(move |pixel| {
            let (row, x) = (pixel / to.width, pixel % to.width);
            let (image, y) = (row / to.height, row % to.height);
            (image * from.height + y * stride) * from.width + x * stride
        })
    }

    pub(crate) fn forward(&self, source: Source<'_>, output: &mut [f32]) {
        let (from, to) = (self.input.stride(), padded(self.channels));
        let (channels, before) = (self.input.channels, self.before());
        self.stored(source, self.input, |x| {
            for (pixel, to) in self.pixels().zip(output.chunks_mut(to)) {
                to.fill(0.0);
                to[before..][..channels].copy_from_slice(&x[pixel * from..][..channels]);
            }
        });
    }

    pub(crate) fn backward(
        &self,
        gradient: Source<'_>,
        input: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let (from, to) = (self.input.stride(), padded(self.channels));
        let (channels, before) = (self.input.channels, self.before());
        self.stored(gradient, self.output(), |g| {
            input.fill(0.0);
            for (pixel, g) in self.pixels().zip(g.chunks(to)) {
                input[pixel * from..][..channels].copy_from_slice(&g[before..][..channels]);
            }
        });
        Combine { level: self.level, shape: self.input }.finish(input, finish)
    }

    /// Calls `work` with the numbers of a source.
    fn stored(&self, source: Source<'_>, shape: Shape, work: impl FnOnce(&[f32])) {
        match source {
            Source::Stored(x) => work(x),
            source => with_scratch([shape.len()], |[x]| {
                let level = self.level;
                Combine { level, shape }.forward(source, None, Activation::None, x);
                work(x);
            }),
        }
    }
}
