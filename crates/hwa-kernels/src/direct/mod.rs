//! Convolution of any kernel, stride and padding, as products of gathered rows.
//!
//! Exact where Winograd's transforms round, and the way for all but 3x3 with stride one. A
//! block of results is gathered (see [`gather`]) and multiplied by the weights, a few taps at
//! a time so that both stay in the cache (see [`plan`]). The gradient of the input runs the same
//! way: with stride `s` its pixels fall into `s * s` phases, each of which sees the taps that hit
//! it and no others.

mod gather;
mod gradient;
mod plan;
mod pointwise;

use std::ops::Range;

use crate::finish::{Finish, Finisher, Place, Sums, Totals};
use crate::memory::with_scratch;
use crate::parallel;
use crate::read::Source;
use crate::shape::Shape;
use crate::simd::Level;
use crate::weights::{Dense, Direction};
use gather::{Lattice, Tap};
use plan::{Plan, RESULTS};

/// A convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Direct {
    pub level: Level,
    pub form: Dense,
    pub stride: usize,
    pub padding: usize,
    /// The images that come in, going forward.
    pub input: Shape,
    /// From one pixel that comes in to the next. Without padding of channels, a group
    /// to spare follows the last.
    pub input_stride: usize,
}

impl Direct {
    /// The images that come out, going forward.
    pub(crate) fn output(&self) -> Shape {
        let windows = self.input.windows(self.form.kernel, self.stride, self.padding);
        Shape { channels: self.form.outputs, ..windows }
    }

    /// The taps as a result sees them.
    fn lattice(&self) -> Lattice {
        let [rows, columns] = self.form.kernel;
        let places = (0..rows * columns).map(|place| Tap {
            y: (place / columns) as isize - self.padding as isize,
            x: (place % columns) as isize - self.padding as isize,
            place,
        });
        let Shape { height, width, .. } = self.output();
        Lattice { height, width, step: self.stride, taps: places.collect() }
    }

    /// The pixels of the input whose row and column leave `phase` when divided by the stride, and
    /// the taps by which results reached them.
    fn phase(&self, [y, x]: [usize; 2]) -> Lattice {
        let [rows, columns] = self.form.kernel;
        let (stride, padding) = (self.stride as isize, self.padding as isize);
        // The pixel at row `y + stride * j` was read by tap row `k` of result `j + back(k)`.
        let back = |phase: usize, k: usize| {
            let apart = phase as isize + padding - k as isize;
            (apart.rem_euclid(stride) == 0).then(|| apart.div_euclid(stride))
        };
        let mut taps = Vec::new();
        for place in 0..rows * columns {
            let (ky, kx) = (place / columns, place % columns);
            if let (Some(back_y), Some(back_x)) = (back(y, ky), back(x, kx)) {
                // Packed backward, the kernel is turned around.
                taps.push(Tap { y: back_y, x: back_x, place: rows * columns - 1 - place });
            }
        }
        let along = |size: usize, phase: usize| size.saturating_sub(phase).div_ceil(self.stride);
        let (height, width) = (along(self.input.height, y), along(self.input.width, x));
        Lattice { height, width, step: 1, taps }
    }

    /// Convolves; gives the sums that were gathered, part by part.
    pub(crate) fn forward(
        &self,
        source: Source<'_>,
        weights: &[f32],
        output: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let (lattice, to) = (self.lattice(), self.output());
        let mut plan = Plan::new(lattice, self.input.channels);
        plan.pointwise = self.is_pointwise();
        if matches!(finish.sums, Sums::Moments) {
            // Only after the first is it known what moments are about; the others are finished
            // as they are made.
            plan.first = RESULTS.0;
        }
        let packed_len = self.form.packed_len(Direction::Forward);
        with_scratch([packed_len], |[packed]| {
            plan.pack(self, weights, Direction::Forward, packed);
            let packed = &*packed;
            let parts = self.parts(to, plan.block);
            let lens = parts.iter().map(|p| (p.end - p.start) * to.height * to.width * to.stride());
            let work = parts.clone().into_iter().zip(parallel::split(output, lens)).collect();
            parallel::map(work, |(images, piece): (Range<usize>, &mut [f32])| {
                let mut finisher = Finisher::new(self.level, finish, to.channels).of(to.len());
                let all = images.start * plan.lattice.len()..images.end * plan.lattice.len();
                let gathered = (source, self.input, self.input_stride);
                plan.blocks(
                    self.level,
                    gathered,
                    packed,
                    (all.clone(), to.stride()),
                    |results, sums| {
                        // The results lie side by side: they are multiplied in their place.
                        let start = (results.start - all.start) * to.stride();
                        let block =
                            &mut piece[start..][..(results.end - results.start) * to.stride()];
                        if plan.at_once() {
                            finisher.make_by(results.start, block, |place| sums(place));
                        } else {
                            let level = self.level;
                            finisher.make(results.start, block, |numbers| {
                                sums(&mut Place::Plain { level, numbers });
                            });
                        }
                    },
                );
                finisher.totals()
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
        match input {
            None => {
                self.weight_gradient(source, gradient, weight_gradient);
                Vec::new()
            }
            Some((input, finish)) if self.is_pointwise_together() => {
                let sources = (source, gradient);
                self.pointwise(sources, (weights, weight_gradient), input, finish)
            }
            Some((input, finish)) => {
                self.weight_gradient(source, gradient, weight_gradient);
                self.input_gradient(gradient, weights, input, finish)
            }
        }
    }

    /// Ranges of images; each has enough results for a block.
    fn parts(&self, to: Shape, block: usize) -> Vec<Range<usize>> {
        let blocks = to.pixels() / block.max(1);
        parallel::ranges(to.images, blocks)
    }

    /// Every part has sums of its own, which take room.
    fn parts_of_gradient(&self, to: Shape, block: usize, len: usize) -> Vec<Range<usize>> {
        let blocks = to.pixels() / block.max(1);
        parallel::ranges(to.images, blocks.min(parallel::ROOM / len.max(1)))
    }
}

#[cfg(test)]
mod tests;
