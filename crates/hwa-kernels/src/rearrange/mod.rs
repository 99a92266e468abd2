//! Some of the pixels or channels of a tensor, or channels in another order.
//!
//! ```text
//! subsample   every s-th pixel, channels centred in zeros: the shortcut of a ResNet
//!             without weights (option A)
//! slice       channels `a..b`
//! concat      two tensors one after the other, then shuffled: ShuffleNet
//! ```
//!
//! In each of them a channel of an input goes to one place of the output. That is a
//! [`Route`]: forward it is followed, backward it is walked back.

use std::ops::Range;

use crate::finish::{Finish, Totals};
use crate::images;
use crate::memory::with_scratch;
use crate::pixels::Pixels;
use crate::read::Source;
use crate::shape::Shape;
use crate::simd::{Level, padded};

/// Where a gradient goes, with zeros where none arrives, and what happens to it there.
pub(crate) struct Target<'a> {
    pub gradient: &'a mut [f32],
    pub finish: Finish<'a>,
}

/// Every `stride`-th pixel of every `stride`-th row, its channels in the middle of `channels`
/// that are zero otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subsample {
    pub level: Level,
    pub input: Shape,
    pub stride: usize,
    /// At least as many as come in.
    pub channels: usize,
}

impl Subsample {
    pub(crate) fn output(&self) -> Shape {
        Shape {
            height: self.input.height.div_ceil(self.stride),
            width: self.input.width.div_ceil(self.stride),
            channels: self.channels,
            ..self.input
        }
    }

    fn route(&self) -> Route {
        let before = (self.channels - self.input.channels) / 2;
        let places = (before..before + self.input.channels).collect();
        Route::new((self.input, self.output()), self.stride, 0, places)
    }

    pub(crate) fn forward(&self, source: Source<'_>, output: &mut [f32]) {
        forward(self.level, &[(self.route(), source)], output);
    }

    pub(crate) fn backward(&self, gradient: Source<'_>, target: Target<'_>) -> Vec<Totals> {
        self.route().backward(self.level, gradient, target)
    }
}

/// Some of the channels.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    pub level: Level,
    pub input: Shape,
    pub channels: Range<usize>,
}

impl Slice {
    pub(crate) fn output(&self) -> Shape {
        Shape { channels: self.channels.len(), ..self.input }
    }

    fn route(&self) -> Route {
        let places = (0..self.channels.len()).collect();
        Route::new((self.input, self.output()), 1, self.channels.start, places)
    }

    pub(crate) fn forward(&self, source: Source<'_>, output: &mut [f32]) {
        forward(self.level, &[(self.route(), source)], output);
    }

    pub(crate) fn backward(&self, gradient: Source<'_>, target: Target<'_>) -> Vec<Totals> {
        self.route().backward(self.level, gradient, target)
    }
}

/// The channels of two tensors, shuffled: `channel_shuffle(cat(a, b), groups)`.
///
/// The shuffle deals the channels of `groups` equal groups in turn; one group stays as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Concat {
    pub level: Level,
    /// The first tensor.
    pub input: Shape,
    /// The channels of the second, which is of the same size otherwise.
    pub others: usize,
    /// Divides the channels of both together.
    pub groups: usize,
}

impl Concat {
    pub(crate) fn output(&self) -> Shape {
        Shape { channels: self.input.channels + self.others, ..self.input }
    }

    fn routes(&self) -> [Route; 2] {
        let (output, first) = (self.output(), self.input.channels);
        let each = output.channels / self.groups;
        let place = |c: usize| c % each * self.groups + c / each;
        let route = |shape: Shape, channels: Range<usize>| {
            Route::new((shape, output), 1, 0, channels.map(place).collect())
        };
        let others = Shape { channels: self.others, ..self.input };
        [route(self.input, 0..first), route(others, first..output.channels)]
    }

    pub(crate) fn forward(&self, a: Source<'_>, b: Source<'_>, output: &mut [f32]) {
        let [first, second] = self.routes();
        forward(self.level, &[(first, a), (second, b)], output);
    }

    /// The gradient of the first input (side 0) or the second; gives the sums that were gathered,
    /// part by part.
    pub(crate) fn backward(
        &self,
        side: usize,
        gradient: Source<'_>,
        target: Target<'_>,
    ) -> Vec<Totals> {
        self.routes()[side].backward(self.level, gradient, target)
    }
}

/// Dense pixels to padded ones.
pub(crate) fn pad(dense: &[f32], channels: usize, pixels: &mut [f32]) {
    for (to, from) in pixels.chunks_mut(padded(channels)).zip(dense.chunks(channels)) {
        to[..channels].copy_from_slice(&from[..channels]);
        to[channels..].fill(0.0);
    }
}

/// Padded pixels to dense ones.
pub(crate) fn unpad(pixels: &[f32], channels: usize, dense: &mut [f32]) {
    for (to, from) in dense.chunks_mut(channels).zip(pixels.chunks(padded(channels))) {
        to.copy_from_slice(&from[..channels]);
    }
}

/// The way of some channels of a tensor into another.
struct Route {
    from: Shape,
    to: Shape,
    /// Pixel `(y, x)` of the output is pixel `(y * step, x * step)` of the input.
    step: usize,
    /// The first channel that goes anywhere.
    first: usize,
    /// Where it and those after it go.
    places: Vec<usize>,
    /// Whether they stay side by side.
    together: bool,
}

impl Route {
    fn new((from, to): (Shape, Shape), step: usize, first: usize, places: Vec<usize>) -> Self {
        let together = places.windows(2).all(|pair| pair[1] == pair[0] + 1);
        Self { from, to, step, first, places, together }
    }

    /// Puts the channels of a pixel of the input to those of the output.
    fn put(&self, from: &[f32], to: &mut [f32]) {
        let from = &from[self.first..][..self.places.len()];
        match self.places.first() {
            Some(&start) if self.together => to[start..][..from.len()].copy_from_slice(from),
            _ => from.iter().zip(&self.places).for_each(|(x, &place)| to[place] = *x),
        }
    }

    /// Adds the gradient of a pixel of the output to that of the input.
    fn add_back(&self, from: &[f32], to: &mut [f32]) {
        let to = &mut to[self.first..][..self.places.len()];
        match self.places.first() {
            Some(&start) if self.together => {
                to.iter_mut().zip(&from[start..]).for_each(|(to, x)| *to += x);
            }
            _ => to.iter_mut().zip(&self.places).for_each(|(to, &place)| *to += from[place]),
        }
    }

    /// The pixels of the input that go to row `y` of an image of the output.
    fn pixels(&self, image: usize, y: usize) -> Pixels {
        let first = (image * self.from.height + y * self.step) * self.from.width;
        Pixels { first, step: self.step, stride: self.from.stride() }
    }

    fn backward(&self, level: Level, gradient: Source<'_>, target: Target<'_>) -> Vec<Totals> {
        let Target { gradient: input, finish } = target;
        let (from, to) = (self.from, self.to);
        images::compute((level, finish), from, input, |images, results| {
            results.fill(0.0);
            with_scratch([to.width * to.stride()], |[row]| {
                for (image, result) in images.zip(results.chunks_mut(from.image().max(1))) {
                    for y in 0..to.height {
                        let first = (image * to.height + y) * to.width;
                        Pixels { first, step: 1, stride: to.stride() }.read(level, gradient, row);
                        let result = &mut result[y * self.step * from.width * from.stride()..];
                        let pixels = result.chunks_mut(from.stride()).step_by(self.step);
                        let gradients = row.chunks(to.stride());
                        pixels.zip(gradients).for_each(|(to, from)| self.add_back(from, to));
                    }
                }
            });
        })
    }
}

/// Follows routes that lead to the same output.
fn forward(level: Level, routes: &[(Route, Source<'_>)], output: &mut [f32]) {
    let Some((Route { to, .. }, _)) = routes.first() else { return };
    let row_len = (to.width * to.stride()).max(1);
    let widest = routes.iter().map(|(route, _)| to.width * route.from.stride()).max();
    images::compute((level, Finish::NOTHING), *to, output, |images, results| {
        results.fill(0.0);
        let rows = images.flat_map(|image| (0..to.height).map(move |y| (image, y)));
        with_scratch([widest.unwrap_or(0)], |[scratch]| {
            for ((image, y), results) in rows.zip(results.chunks_mut(row_len)) {
                for (route, source) in routes {
                    let stride = route.from.stride();
                    let row = &mut scratch[..to.width * stride];
                    route.pixels(image, y).read(level, *source, row);
                    let pixels = row.chunks(stride).zip(results.chunks_mut(to.stride()));
                    pixels.for_each(|(from, to)| route.put(from, to));
                }
            }
        });
    });
}

#[cfg(test)]
mod tests;
