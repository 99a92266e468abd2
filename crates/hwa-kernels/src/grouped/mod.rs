//! Convolution in groups of channels: a dense convolution for each group.
//!
//! Groups of one channel that comes in and several that go out are another matter, since a channel
//! takes the room of 16: a depthwise convolution makes the first that goes out of every
//! group, another the second, and so on.
//!
//! Either way there are shares of the work. A few images at a time, so that they stay in the
//! cache, are read once. Then the channels of a share are put side by side, convolved, and added
//! where they belong in the result. Groups share no numbers: an infinity in one cannot
//! reach another.

use std::ops::Range;

use crate::conv::{Convolution, Form, Layout, Precision};
use crate::finish::{Finish, Totals};
use crate::images::{self, Few};
use crate::memory::with_scratch;
use crate::parallel;
use crate::pixels::Pixels;
use crate::read::Source;
use crate::shape::Shape;
use crate::simd::{Level, padded};

/// Results that are worth preparing the weights for.
const PIXELS: usize = if cfg!(test) { 32 } else { 1024 };

/// A convolution in groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grouped {
    pub level: Level,
    /// Has been checked.
    pub form: Form,
    pub precision: Precision,
    /// The images that come in, going forward.
    pub input: Shape,
    /// From one pixel that comes in to the next. Without padding of channels, a group
    /// of numbers to spare follows the last.
    pub input_stride: usize,
    /// The images that come out, going forward.
    pub output: Shape,
}

impl Grouped {
    /// Convolves; gives the sums that were gathered, part by part.
    pub(crate) fn forward(
        &self,
        source: Source<'_>,
        weights: &[f32],
        output: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let parts = parallel::ranges(self.output.images, self.output.pixels() / PIXELS);
        let pieces = images::split(self.output, &parts, output);
        let work = parts.into_iter().zip(pieces).collect();
        parallel::map(work, |part| {
            self.few(self.output).finish((self.level, finish), part, |images, results| {
                self.convolve(source, images, weights, results);
            })
        })
    }

    /// The gradient of the weights and, if wanted, of the input; gives the sums that were
    /// gathered of the latter, part by part.
    pub(crate) fn backward(
        &self,
        source: Source<'_>,
        gradient: Source<'_>,
        (weights, weight_gradient): (&[f32], &mut [f32]),
        input: Option<(&mut [f32], Finish<'_>)>,
    ) -> Vec<Totals> {
        // Every part has sums of its own, which take room.
        let (len, pixels) = (weights.len(), self.output.pixels());
        let wanted = (pixels / PIXELS).min(parallel::ROOM / len.max(1));
        let parts = parallel::ranges(self.input.images, wanted);
        with_scratch([parts.len().max(1) * len], |[sums]| {
            sums.fill(0.0);
            let shares = sums.chunks_mut(len.max(1));
            let (few, sources) = (self.few(self.input), (source, gradient));
            let totals = if let Some((input, finish)) = input {
                let pieces = images::split(self.input, &parts, input);
                let work = parts.into_iter().zip(pieces).zip(shares).collect();
                parallel::map(work, |(part, sums): ((Range<usize>, &mut [f32]), &mut [f32])| {
                    few.finish((self.level, finish), part, |images, results| {
                        self.gradients(sources, images, (weights, sums), Some(results));
                    })
                })
            } else {
                let work = parts.into_iter().zip(shares).collect();
                parallel::map(work, |(images, sums): (Range<usize>, &mut [f32])| {
                    for images in few.of(images) {
                        self.gradients(sources, images, (weights, sums), None);
                    }
                });
                Vec::new()
            };
            parallel::add_to_first(sums, len);
            weight_gradient.copy_from_slice(&sums[..len]);
            totals
        })
    }

    /// As many images at a time as are worth it.
    fn few(&self, shape: Shape) -> Few {
        let results = self.output.height * self.output.width;
        Few { shape, images: PIXELS.div_ceil(results.max(1)) }
    }

    /// The shares of the work on so many images.
    fn shares(&self, images: usize) -> Shares {
        let Form { outputs, groups, .. } = self.form;
        let (i, o) = (self.input.channels / groups, outputs / groups);
        let (count, form, [inputs, outputs]) = if i == 1 {
            let inputs = Channels { own: groups, apart: 0, step: 1 };
            let outputs = Channels { own: groups, apart: 1, step: o };
            (o, Form { outputs: groups, ..self.form }, [inputs, outputs])
        } else {
            let channels = [i, o].map(|own| Channels { own, apart: own, step: 1 });
            (groups, Form { outputs: o, groups: 1, ..self.form }, channels)
        };
        let place = (Shape { images, channels: inputs.own, ..self.input }, Layout::Padded);
        let one = Convolution::of_checked(self.level, form, place, self.precision);
        Shares { count, one, inputs, outputs }
    }

    /// The results of some images.
    fn convolve(
        &self,
        source: Source<'_>,
        images: Range<usize>,
        weights: &[f32],
        results: &mut [f32],
    ) {
        let Shares { count, one, inputs, outputs } = self.shares(images.len());
        let row = weights.len() / self.form.outputs;
        let own = [one.input().len(), one.output().len(), one.weights_len()];
        with_scratch([self.input.of(&images).len()], |[all]| {
            self.read((source, self.input, self.input_stride), &images, all);
            results.fill(0.0);
            with_scratch(own, |[x, y, w]| {
                for share in 0..count {
                    inputs.take(share, (all, self.input.stride()), x);
                    outputs.take_rows(share, row, weights, w);
                    one.forward(Source::Stored(x), w, y, Finish::NOTHING);
                    outputs.add(share, y, (results, self.output.stride()));
                }
            });
        });
    }

    /// Adds what some images give to `sums`, the gradient of the weights, and writes the
    /// gradient of the images if there is a place for it.
    fn gradients(
        &self,
        (source, gradient): (Source<'_>, Source<'_>),
        images: Range<usize>,
        (weights, sums): (&[f32], &mut [f32]),
        mut results: Option<&mut [f32]>,
    ) {
        let Shares { count, one, inputs, outputs } = self.shares(images.len());
        let row = weights.len() / self.form.outputs;
        let (from, to, len) = (self.input.of(&images), self.output.of(&images), one.weights_len());
        let own = [one.input().len(), one.output().len(), len, one.input().len(), len];
        with_scratch([from.len(), to.len()], |[all_x, all_g]| {
            self.read((source, self.input, self.input_stride), &images, all_x);
            self.read((gradient, self.output, self.output.stride()), &images, all_g);
            if let Some(results) = &mut results {
                results.fill(0.0);
            }
            with_scratch(own, |[x, g, w, dx, dw]| {
                for share in 0..count {
                    inputs.take(share, (all_x, from.stride()), x);
                    outputs.take(share, (all_g, to.stride()), g);
                    outputs.take_rows(share, row, weights, w);
                    let place = results.is_some().then_some((&mut *dx, Finish::NOTHING));
                    one.backward(Source::Stored(x), Source::Stored(g), (w, dw), place);
                    outputs.add_rows(share, row, dw, sums);
                    if let Some(results) = &mut results {
                        inputs.add(share, dx, (results, from.stride()));
                    }
                }
            });
        });
    }

    /// Reads some images of a tensor, whose pixels are `stride` numbers apart.
    fn read(
        &self,
        (source, shape, stride): (Source<'_>, Shape, usize),
        images: &Range<usize>,
        to: &mut [f32],
    ) {
        let first = images.start * shape.height * shape.width;
        let pixels = Pixels { first, step: 1, stride };
        pixels.read_padded(self.level, source, (shape.stride(), to));
    }
}

/// The work, divided.
struct Shares {
    count: usize,
    /// The convolution of any one.
    one: Convolution,
    /// The channels of a share that come in.
    inputs: Channels,
    /// Those that go out.
    outputs: Channels,
}

/// Which channels belong to a share.
#[derive(Clone, Copy)]
struct Channels {
    /// How many.
    own: usize,
    /// From the first of a share to the first of the next.
    apart: usize,
    /// From one of a share to the next.
    step: usize,
}

impl Channels {
    /// Where those of a share are among all.
    fn places(self, share: usize) -> impl Iterator<Item = usize> {
        (0..self.own).map(move |c| share * self.apart + c * self.step)
    }

    /// Puts those of a share side by side, with zeros in the padding.
    fn take(self, share: usize, (all, stride): (&[f32], usize), own: &mut [f32]) {
        let first = share * self.apart;
        for (from, to) in all.chunks(stride).zip(own.chunks_mut(padded(self.own))) {
            let (to, padding) = to.split_at_mut(self.own);
            match self.step {
                1 => to.copy_from_slice(&from[first..][..self.own]),
                step => {
                    to.iter_mut().zip(from[first..].iter().step_by(step)).for_each(|(t, f)| *t = *f)
                }
            }
            padding.fill(0.0);
        }
    }

    /// Adds those of a share to their places among all.
    fn add(self, share: usize, own: &[f32], (all, stride): (&mut [f32], usize)) {
        let first = share * self.apart;
        for (from, to) in own.chunks(padded(self.own)).zip(all.chunks_mut(stride)) {
            let (from, to) = (&from[..self.own], &mut to[first..]);
            match self.step {
                1 => to.iter_mut().zip(from).for_each(|(to, x)| *to += x),
                step => to.iter_mut().step_by(step).zip(from).for_each(|(to, x)| *to += x),
            }
        }
    }

    /// The weights of a share: `row` numbers for each of its channels.
    fn take_rows(self, share: usize, row: usize, all: &[f32], own: &mut [f32]) {
        for (place, to) in self.places(share).zip(own.chunks_mut(row)) {
            to.copy_from_slice(&all[place * row..][..row]);
        }
    }

    /// Adds the gradient of a share's weights to that of all.
    fn add_rows(self, share: usize, row: usize, own: &[f32], all: &mut [f32]) {
        for (place, from) in self.places(share).zip(own.chunks(row)) {
            all[place * row..][..row].iter_mut().zip(from).for_each(|(to, x)| *to += x);
        }
    }
}

impl Shape {
    /// Some of the images.
    fn of(self, images: &Range<usize>) -> Self {
        Self { images: images.len(), ..self }
    }
}

#[cfg(test)]
mod tests;
