//! Depthwise convolution: every channel by itself, with any kernel, stride and padding.
//!
//! A few operations per number leave the memory as the limit, so an image passes through
//! the cache once: a few groups of channels at a time, it is read into blocks with zeros
//! around (see [`block`]), and all that is wanted is computed from there. Backward that
//! is both gradients. The gradient of the input is a convolution with the
//! kernel turned around, of a block in which strides have left zeros between the gradients.

mod block;

use std::ops::Range;

use crate::finish::{Finish, Totals};
use crate::images;
use crate::memory::with_scratch;
use crate::parallel;
use crate::read::{Source, with_reader};
use crate::shape::Shape;
use crate::simd::{GROUP, Level};
use crate::span::{Span, SpanMut};
use crate::weights::Direction;
use block::{Convolve, Correlate, Fill, Frame};

/// The numbers of the blocks that are worked on at a time, if one has no more. Measured: with
/// fewer, small images cost calls and lines far apart; with more, the cache.
const BLOCKS: usize = 24 * 1024;

/// A depthwise convolution, with weights in PyTorch's order, `[channels, 1, height, width]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Depthwise {
    pub level: Level,
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
    pub stride: usize,
    pub padding: usize,
    /// The images that come in, going forward.
    pub input: Shape,
}

/// Runs a kernel with the size `$size` of the kernel, zero if it is none of the usual.
macro_rules! with_size {
    ($kernel:expr, $size:ident => $body:expr) => {
        match $kernel {
            [3, 3] => {
                const $size: usize = 3;
                $body
            }
            [5, 5] => {
                const $size: usize = 5;
                $body
            }
            [7, 7] => {
                const $size: usize = 7;
                $body
            }
            _ => {
                const $size: usize = 0;
                $body
            }
        }
    };
}

impl Depthwise {
    /// The images that come out, going forward.
    pub(crate) fn output(&self) -> Shape {
        self.input.windows(self.kernel, self.stride, self.padding)
    }

    /// Convolves; gives the sums that were gathered, part by part.
    pub(crate) fn forward(
        &self,
        source: Source<'_>,
        weights: &[f32],
        output: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let (to, frame) = (self.output(), self.pixels());
        with_scratch([self.packed_len()], |[packed]| {
            self.pack(weights, Direction::Forward, packed);
            let packed = &*packed;
            images::compute((self.level, finish), to, output, |images, results| {
                let groups = self.groups(frame.len());
                with_scratch([groups * frame.len()], |[blocks]| {
                    blocks.fill(0.0);
                    for (image, result) in images.zip(results.chunks_mut(to.image().max(1))) {
                        for channels in self.channels(groups) {
                            let way = (frame, self.stride);
                            self.fill(source, self.input, (image, &channels), frame, blocks);
                            self.convolve(blocks, way, (packed, &channels), to, result);
                        }
                    }
                });
            })
        })
    }

    /// The gradient of the weights and, if wanted, of the input; gives the sums that were
    /// gathered of the latter, part by part.
    pub(crate) fn backward(
        &self,
        source: Source<'_>,
        gradient: Source<'_>,
        weights: &[f32],
        input: Option<(&mut [f32], Finish<'_>)>,
        weight_gradient: &mut [f32],
    ) -> Vec<Totals> {
        let (shape, len) = (self.input, self.packed_len());
        let parts = images::parts(shape);
        with_scratch([len, parts.len().max(1) * len], |[turned, sums]| {
            self.pack(weights, Direction::Backward, turned);
            sums.fill(0.0);
            let turned = &*turned;
            let shares = sums.chunks_mut(len.max(1));
            let totals = if let Some((input, finish)) = input {
                let pieces = images::split(shape, &parts, input);
                let work = parts.into_iter().zip(pieces).zip(shares).collect();
                parallel::map(work, |(part, sums): ((Range<usize>, &mut [f32]), &mut [f32])| {
                    images::finish_groups((self.level, finish), shape, part, |images, results| {
                        self.gradients((source, gradient), images, sums, Some((turned, results)));
                    })
                })
            } else {
                let work = parts.into_iter().zip(shares).collect();
                parallel::map(work, |(images, sums)| {
                    self.gradients((source, gradient), images, sums, None);
                });
                Vec::new()
            };
            parallel::add_to_first(sums, len);
            self.unpack(&sums[..len], weight_gradient);
            totals
        })
    }

    /// Adds the share of some images to `sums` and writes the gradients of their pixels, by
    /// weights that were turned around.
    fn gradients(
        &self,
        (source, gradient): (Source<'_>, Source<'_>),
        images: Range<usize>,
        sums: &mut [f32],
        mut input: Option<(&[f32], &mut [f32])>,
    ) {
        let (pixels_of, gradients_of) = (self.pixels(), self.gradients_frame());
        let groups = self.groups(pixels_of.len() + gradients_of.len());
        let lens = [groups * pixels_of.len(), groups * gradients_of.len(), self.taps() * GROUP];
        let first = images.start;
        with_scratch(lens, |[pixels, gradients, image_sums]| {
            pixels.fill(0.0);
            gradients.fill(0.0);
            for image in images {
                for channels in self.channels(groups) {
                    let part = (image, &channels);
                    self.fill(source, self.input, part, pixels_of, pixels);
                    self.fill(gradient, self.output(), part, gradients_of, gradients);
                    for (group, c) in channels.clone().step_by(GROUP).enumerate() {
                        let pixels = &pixels[group * pixels_of.len()..][..pixels_of.len()];
                        let gradients = &gradients[group * gradients_of.len()..];
                        self.correlate(pixels, gradients, image_sums, &mut sums[c..]);
                    }
                    if let Some((turned, results)) = &mut input {
                        let result = &mut results[(image - first) * self.input.image()..];
                        let way = (gradients_of, 1);
                        self.convolve(gradients, way, (turned, &channels), self.input, result);
                    }
                }
            }
        });
    }

    /// How many groups of channels to work on at a time, if each takes `len` numbers.
    fn groups(&self, len: usize) -> usize {
        (BLOCKS / len.max(1)).clamp(1, (self.input.stride() / GROUP).max(1))
    }

    /// All channels, some groups at a time.
    fn channels(&self, groups: usize) -> impl Iterator<Item = Range<usize>> {
        let (end, step) = (self.input.stride(), groups * GROUP);
        (0..end).step_by(step).map(move |start| start..end.min(start + step))
    }

    /// The pixels of an image, padded as the kernel sees them.
    fn pixels(&self) -> Frame {
        let Shape { height, width, .. } = self.output();
        let along = |results: usize, kernel: usize| match results {
            0 => 0,
            _ => (results - 1) * self.stride + kernel,
        };
        Frame {
            lead: [self.padding as isize; 2],
            step: 1,
            size: [along(height, self.kernel[0]), along(width, self.kernel[1])],
        }
    }

    /// The gradients of an image's results as the kernel, turned around, sees them. Those left
    /// out saw no pixel.
    fn gradients_frame(&self) -> Frame {
        let [rows, columns] = self.kernel;
        Frame {
            lead: self.kernel.map(|kernel| kernel as isize - 1 - self.padding as isize),
            step: self.stride,
            size: [self.input.height + rows - 1, self.input.width + columns - 1],
        }
    }

    fn fill(
        &self,
        source: Source<'_>,
        from: Shape,
        (image, channels): (usize, &Range<usize>),
        frame: Frame,
        blocks: &mut [f32],
    ) {
        with_reader!(source, from.stride(), reader => self.level.run(Fill {
            reader,
            first: image * from.height * from.width,
            stride: from.stride(),
            image: [from.height, from.width],
            channels: channels.clone(),
            frame,
            blocks: SpanMut::new(blocks),
        }));
    }

    /// Convolves blocks to the results of an image.
    fn convolve(
        &self,
        blocks: &[f32],
        (frame, step): (Frame, usize),
        (weights, channels): (&[f32], &Range<usize>),
        to: Shape,
        result: &mut [f32],
    ) {
        with_size!(self.kernel, K => self.level.run(Convolve::<K> {
            blocks: Span::new(blocks),
            block: frame.size,
            kernel: self.kernel,
            step,
            weights: Span::new(&weights[channels.start..]),
            results: SpanMut::new(&mut result[channels.start..]),
            stride: to.stride(),
            channels: channels.len(),
            size: [to.height, to.width],
        }));
    }

    /// Adds the share of a group to `sums`, which start at its first channel.
    fn correlate(&self, pixels: &[f32], gradients: &[f32], image: &mut [f32], sums: &mut [f32]) {
        let (to, frame) = (self.output(), self.gradients_frame());
        with_size!(self.kernel, K => self.level.run(Correlate::<K> {
            pixels: Span::new(pixels),
            columns: self.pixels().size[1],
            gradients: Span::new(gradients),
            frame,
            inside: [frame.inside(0, to.height), frame.inside(1, to.width)],
            kernel: self.kernel,
            step: self.stride,
            image: SpanMut::new(image),
            sums: SpanMut::new(sums),
            stride: to.stride(),
        }));
    }

    fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    fn packed_len(&self) -> usize {
        self.taps() * self.input.stride()
    }

    /// Writes the weights as `[tap][padded channel]`.
    fn pack(&self, weights: &[f32], direction: Direction, packed: &mut [f32]) {
        packed.fill(0.0);
        let last = self.taps() - 1;
        for (c, kernel) in weights.chunks(self.taps()).enumerate() {
            for (place, weight) in kernel.iter().enumerate() {
                let tap = match direction {
                    Direction::Forward => place,
                    Direction::Backward => last - place,
                };
                packed[tap * self.input.stride() + c] = *weight;
            }
        }
    }

    /// The inverse of packing forward.
    fn unpack(&self, packed: &[f32], weights: &mut [f32]) {
        for (c, kernel) in weights.chunks_mut(self.taps()).enumerate() {
            for (tap, weight) in kernel.iter_mut().enumerate() {
                *weight = packed[tap * self.input.stride() + c];
            }
        }
    }
}

#[cfg(test)]
mod tests;
