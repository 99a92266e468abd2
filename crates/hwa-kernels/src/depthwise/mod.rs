//! Depthwise convolution: every channel by itself, with any kernel, stride and padding.
//!
//! A few operations per number leave the memory as the limit, so an image passes through
//! the cache once: a band of rows at a time, it is read into blocks with zeros around (see
//! [`block`]), and all that is wanted is computed from there. Backward that is both gradients.
//! With stride `s` the pixels of the input fall into `s * s` phases, each of which sees the taps
//! that hit it and no others.

mod block;

use std::ops::Range;

use crate::finish::{Finish, Place, Totals};
use crate::images::{self, Bands};
use crate::memory::with_scratch;
use crate::parallel;
use crate::read::{Source, with_reader};
use crate::shape::Shape;
use crate::simd::{GROUP, Level};
use crate::span::{Ahead, Span, SpanMut};
use block::{Convolve, Correlate, Fill, Frame, Tap};

/// The numbers of the blocks that are worked on at a time, if a few rows have no more. Measured:
/// with fewer, rows are read twice; with more, the cache does not hold them.
const BLOCKS: usize = if cfg!(test) { 2 * 1024 } else { 64 * 1024 };

/// Rows of a band for which channels are divided rather than have fewer.
const ROWS: usize = 4;

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

/// A part of an image: the image by its number, and some channels.
type Part<'a> = (usize, &'a Range<usize>);

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
        let taps = self.taps(frame);
        let block = |rows: usize| self.seen(0..rows).len() * frame.row();
        let (rows, groups) = self.band(to.height, block);
        with_scratch([self.packed_len()], |[packed]| {
            self.pack(weights, packed);
            let packed = &*packed;
            let bands = Bands { shape: to, rows };
            bands.compute((self.level, finish), output, |image, band, results| {
                let block = block(band.len());
                let next = self.next(
                    image,
                    self.seen(band.clone()).end,
                    self.input,
                    frame,
                    rows * self.stride,
                );
                let [a, b] = source.stored(next);
                let tiles =
                    band.len() * (self.input.stride() / self.level.lanes()) * (to.width / 8).max(1);
                let ahead = Ahead::new([a, b, &[]], tiles);
                with_scratch([groups * block], |[blocks]| {
                    for channels in self.channels(groups) {
                        let part = (image, &channels);
                        let place = (frame, self.seen(band.clone()));
                        self.fill((source, self.input), part, place, (blocks, block));
                        let way = Way {
                            taps: &taps,
                            row: self.stride * frame.row(),
                            step: self.stride,
                            first: 0,
                            result_steps: [to.width * to.stride(), to.stride()],
                            size: [band.len(), to.width],
                            ahead: &ahead,
                        };
                        self.convolve((blocks, block), way, (packed, &channels), results);
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
        let len = self.packed_len();
        let phases = Phases::new(self);
        let (rows, groups) = self.band(self.input.height, |rows| phases.room(self, rows));
        let bands = Bands { shape: self.input, rows: rows.next_multiple_of(self.stride) };
        let parts = images::parts(self.input);
        with_scratch([len, parts.len().max(1) * len], |[packed, sums]| {
            self.pack(weights, packed);
            sums.fill(0.0);
            let packed = &*packed;
            let shares = sums.chunks_mut(len.max(1));
            let gradients = Gradients { conv: self, phases: &phases, groups, source, gradient };
            let totals = if let Some((input, finish)) = input {
                let pieces = images::split(self.input, &parts, input);
                let work = parts.into_iter().zip(pieces).zip(shares).collect();
                parallel::map(work, |(part, sums): ((Range<usize>, &mut [f32]), &mut [f32])| {
                    bands.finish((self.level, finish), part, |image, band, results| {
                        gradients.add(image, band, sums, Some((packed, results)));
                    })
                })
            } else {
                let work = parts.into_iter().zip(shares).collect();
                parallel::map(work, |(images, sums): (Range<usize>, &mut [f32])| {
                    for image in images {
                        for band in bands.of_image() {
                            gradients.add(image, band, sums, None);
                        }
                    }
                });
                Vec::new()
            };
            parallel::add_to_first(sums, len);
            self.unpack(&sums[..len], weight_gradient);
            totals
        })
    }

    /// How many rows of `height` to work on at a time, and how many groups of channels, if
    /// one group of so many rows takes the room that `block` says.
    fn band(&self, height: usize, block: impl Fn(usize) -> usize) -> (usize, usize) {
        let all = (self.input.stride() / GROUP).max(1);
        let groups = (BLOCKS / block(ROWS.min(height)).max(1)).clamp(1, all);
        let fits = |rows: &usize| groups * block(*rows) <= BLOCKS;
        let rows = (1..=height).rev().find(fits).unwrap_or(1);
        // Bands of about the same height.
        (height.div_ceil(height.div_ceil(rows).max(1)).max(1), groups)
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
        let size = [along(height, self.kernel[0]), along(width, self.kernel[1])];
        Frame { lead: [self.padding; 2], size }
    }

    /// The rows of pixels that the kernel sees for some rows of results.
    fn seen(&self, results: Range<usize>) -> Range<usize> {
        let Range { start, end } = results;
        match end.checked_sub(start + 1) {
            Some(_) => start * self.stride..(end - 1) * self.stride + self.kernel[0],
            None => start * self.stride..start * self.stride,
        }
    }

    /// The numbers that follow in memory.
    fn next(
        &self,
        image: usize,
        end: usize,
        shape: Shape,
        frame: Frame,
        rows: usize,
    ) -> Range<usize> {
        let row = image * shape.height + end.saturating_sub(frame.lead[0]).min(shape.height);
        let numbers = shape.width * shape.stride();
        row * numbers..(row + rows) * numbers
    }

    /// The taps of a result, from its first pixel on.
    fn taps(&self, frame: Frame) -> Vec<Tap> {
        let [rows, columns] = self.kernel;
        let tap = |place: usize| Tap {
            from: place / columns * frame.row() + place % columns * GROUP,
            place,
        };
        (0..rows * columns).map(tap).collect()
    }

    /// Puts some rows of a frame into blocks.
    fn fill(
        &self,
        (source, from): (Source<'_>, Shape),
        (image, channels): Part<'_>,
        (frame, rows): (Frame, Range<usize>),
        (blocks, block): (&mut [f32], usize),
    ) {
        with_reader!(source, from.stride(), reader => self.level.run(Fill {
            reader,
            first: image * from.height * from.width,
            stride: from.stride(),
            image: [from.height, from.width],
            channels: channels.clone(),
            frame,
            rows,
            blocks: SpanMut::new(blocks),
            block,
        }));
    }

    /// Convolves blocks to results.
    fn convolve(
        &self,
        (blocks, block): (&[f32], usize),
        way: Way<'_>,
        (weights, channels): (&[f32], &Range<usize>),
        results: &mut Place<'_, '_>,
    ) {
        let convolve = Convolve::<0> {
            blocks: Span::new(blocks),
            block,
            taps: way.taps,
            row: way.row,
            step: way.step,
            weights: Span::new(&weights[channels.start..]),
            stride: self.input.stride(),
            first: way.first,
            channel: channels.start,
            result_steps: way.result_steps,
            channels: channels.len(),
            size: way.size,
            ahead: way.ahead,
        };
        match way.step {
            1 => results.put(&convolve.with_step::<1>()),
            2 => results.put(&convolve.with_step::<2>()),
            _ => results.put(&convolve),
        }
    }

    fn packed_len(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.input.stride()
    }

    /// Writes the weights as `[tap][padded channel]`.
    fn pack(&self, weights: &[f32], packed: &mut [f32]) {
        packed.fill(0.0);
        for (c, kernel) in weights.chunks(self.kernel[0] * self.kernel[1]).enumerate() {
            for (place, weight) in kernel.iter().enumerate() {
                packed[place * self.input.stride() + c] = *weight;
            }
        }
    }

    /// The inverse of packing.
    fn unpack(&self, packed: &[f32], weights: &mut [f32]) {
        for (c, kernel) in weights.chunks_mut(self.kernel[0] * self.kernel[1]).enumerate() {
            for (place, weight) in kernel.iter_mut().enumerate() {
                *weight = packed[place * self.input.stride() + c];
            }
        }
    }
}

/// How results lie in blocks and where they go.
struct Way<'a> {
    taps: &'a [Tap],
    /// Numbers in a block from one row of results to the next.
    row: usize,
    /// Pixels in a block from one result of a row to the next.
    step: usize,
    /// The number of the first result.
    first: usize,
    /// Numbers from one row of results to the next, and from one of a row to the next.
    result_steps: [usize; 2],
    /// Rows and columns of the results.
    size: [usize; 2],
    ahead: &'a Ahead<'a>,
}

/// The gradients of results as the pixels of the input see them.
struct Phases {
    /// Gradients, padded.
    frame: Frame,
    /// The taps of the pixels whose row and column leave this when divided by the stride, from
    /// the frame's row and column of that number on.
    taps: Vec<([usize; 2], Vec<Tap>)>,
}

impl Phases {
    fn new(conv: &Depthwise) -> Self {
        let stride = conv.stride as isize;
        // The pixel at `phase + stride * j` was read by tap `k` of result `j + back(k)`.
        let back = |phase: usize, k: usize| {
            let apart = (phase + conv.padding) as isize - k as isize;
            (apart.rem_euclid(stride) == 0).then(|| apart.div_euclid(stride))
        };
        let along = |axis: usize, pixels: usize| {
            let kernel = 0..conv.kernel[axis];
            let all = kernel.flat_map(|k| (0..conv.stride).filter_map(move |p| back(p, k)));
            let (least, most) = all.fold((0, 0), |(l, m), b| (l.min(b), m.max(b)));
            let lead = least.unsigned_abs();
            (lead, pixels.div_ceil(conv.stride) + lead + most.unsigned_abs())
        };
        let rows = along(0, conv.input.height);
        let columns = along(1, conv.input.width);
        let frame = Frame { lead: [rows.0, columns.0], size: [rows.1, columns.1] };
        let place = |back: isize, lead: usize| (back + lead as isize).unsigned_abs();
        let taps_of = |[y, x]: [usize; 2]| {
            let mut taps = Vec::new();
            for (ky, kx) in
                (0..conv.kernel[0]).flat_map(|y| (0..conv.kernel[1]).map(move |x| (y, x)))
            {
                if let (Some(back_y), Some(back_x)) = (back(y, ky), back(x, kx)) {
                    let (row, column) = (place(back_y, rows.0), place(back_x, columns.0));
                    let from = row * frame.row() + column * GROUP;
                    taps.push(Tap { from, place: ky * conv.kernel[1] + kx });
                }
            }
            ([y, x], taps)
        };
        let phases = (0..conv.stride * conv.stride).map(|i| [i / conv.stride, i % conv.stride]);
        Self { frame, taps: phases.map(taps_of).collect() }
    }

    /// The rows of gradients that some rows of pixels see, which start at the first phase.
    fn seen(&self, conv: &Depthwise, pixels: Range<usize>) -> Range<usize> {
        let around = self.frame.size[0] - conv.input.height.div_ceil(conv.stride);
        pixels.start / conv.stride..pixels.end.div_ceil(conv.stride) + around
    }

    /// The numbers of a group that some rows of pixels take, at most.
    fn room(&self, conv: &Depthwise, rows: usize) -> usize {
        let gradients = self.seen(conv, 0..rows.next_multiple_of(conv.stride)).len();
        gradients * self.frame.row() + conv.seen(0..gradients).len() * conv.pixels().row()
    }
}

/// Computes gradients band by band.
struct Gradients<'a> {
    conv: &'a Depthwise,
    phases: &'a Phases,
    /// Groups of channels to work on at a time.
    groups: usize,
    source: Source<'a>,
    gradient: Source<'a>,
}

impl Gradients<'_> {
    /// Adds the share of a band to `sums` and writes the gradients of its pixels, if
    /// they have a place.
    fn add(
        &self,
        image: usize,
        band: Range<usize>,
        sums: &mut [f32],
        mut input: Option<(&[f32], &mut Place<'_, '_>)>,
    ) {
        let (conv, frame) = (self.conv, self.phases.frame);
        let seen = self.phases.seen(conv, band.clone());
        // Rows that an earlier band has seen have had their share.
        let earlier = match band.start {
            0 => 0,
            start => self.phases.seen(conv, 0..start).end,
        };
        let to = conv.output();
        let row = |seen: usize| seen.saturating_sub(frame.lead[0]).min(frame.inside(0, to.height));
        let results = row(earlier)..row(seen.end);
        let pixel_rows = conv.seen(results.clone());
        let pixel_block = pixel_rows.len() * conv.pixels().row();
        let block = seen.len() * frame.row();
        let lens = [self.groups * pixel_block, self.groups * block];
        let next = conv.next(image, seen.end, to, frame, band.len().div_ceil(conv.stride));
        let [a, b] = self.gradient.stored(next);
        let tiles =
            band.len() * (conv.input.stride() / conv.level.lanes()) * (conv.input.width / 8).max(1);
        let ahead = Ahead::new([a, b, &[]], tiles);
        let next = conv.next(image, pixel_rows.end, conv.input, conv.pixels(), band.len());
        let [x, _] = self.source.stored(next);
        let times = results.len() * (conv.input.stride() / conv.level.lanes());
        let ahead_x = Ahead::new([x, &[], &[]], times);
        with_scratch(lens, |[pixels, gradients]| {
            for channels in conv.channels(self.groups) {
                let part = (image, &channels);
                let place = (conv.pixels(), pixel_rows.clone());
                conv.fill((self.source, conv.input), part, place, (pixels, pixel_block));
                conv.fill((self.gradient, to), part, (frame, seen.clone()), (gradients, block));
                let first = (results.start + frame.lead[0]).saturating_sub(seen.start);
                for (group, c) in channels.clone().step_by(GROUP).enumerate() {
                    let pixels = &pixels[group * pixel_block..];
                    let gradients = &gradients[group * block + first * frame.row()..];
                    self.correlate((pixels, gradients), results.len(), &mut sums[c..], &ahead_x);
                }
                if let Some((weights, results)) = &mut input {
                    let blocks = (&*gradients, block);
                    self.convolve((blocks, &ahead), band.len(), (weights, &channels), results);
                }
            }
        });
    }

    /// Adds the share of so many rows of results to `sums`, which start at the first channel.
    fn correlate(
        &self,
        (pixels, gradients): (&[f32], &[f32]),
        rows: usize,
        sums: &mut [f32],
        ahead: &Ahead<'_>,
    ) {
        let (conv, frame) = (self.conv, self.phases.frame);
        let columns = frame.inside(1, conv.output().width);
        if rows * columns == 0 {
            return;
        }
        with_size!(conv.kernel, K => conv.level.run(Correlate::<K> {
            pixels: Span::new(pixels),
            pixel_row: conv.pixels().row(),
            gradients: Span::new(&gradients[frame.lead[1] * GROUP..]),
            gradient_row: frame.row(),
            size: [rows, columns],
            kernel: conv.kernel,
            step: conv.stride,
            sums: SpanMut::new(sums),
            stride: conv.input.stride(),
            ahead,
        }));
    }

    /// The gradients of so many rows of pixels.
    fn convolve(
        &self,
        (blocks, ahead): ((&[f32], usize), &Ahead<'_>),
        rows: usize,
        weights: (&[f32], &Range<usize>),
        results: &mut Place<'_, '_>,
    ) {
        let (conv, stride) = (self.conv, self.conv.input.stride());
        for ([y, x], taps) in &self.phases.taps {
            let along =
                |size: usize, phase: &usize| size.saturating_sub(*phase).div_ceil(conv.stride);
            let size = [along(rows, y), along(conv.input.width, x)];
            if size[0] * size[1] == 0 {
                continue;
            }
            let row = conv.input.width * stride;
            let way = Way {
                taps,
                row: self.phases.frame.row(),
                step: 1,
                first: y * row + x * stride,
                result_steps: [conv.stride * row, conv.stride * stride],
                size,
                ahead,
            };
            conv.convolve(blocks, way, weights, results);
        }
    }
}

#[cfg(test)]
mod tests;
