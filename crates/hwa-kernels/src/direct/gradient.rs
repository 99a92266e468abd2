//! The gradients of the input and of the weights, one after the other.

use std::ops::Range;

use super::Direct;
use super::gather::Lattice;
use super::plan::{Plan, RESULTS, blocks, gather};
use crate::finish::{Finish, Finisher, Made, Place, Plain, Totals};
use crate::memory::with_scratch;
use crate::parallel;
use crate::product::{Left, Product, Right};
use crate::read::Source;
use crate::shape::Shape;
use crate::span::{Ahead, Span, SpanMut};
use crate::weights::Direction;

/// Rows of a wide layer's gradient that a thread works on at a time.
const SHARE: usize = 64;

impl Direct {
    /// The gradient of the input from that of the output.
    pub(super) fn input_gradient(
        &self,
        gradient: Source<'_>,
        weights: &[f32],
        input: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let (from, to) = (self.output(), self.input);
        let (width, pixels) = (to.stride(), to.height * to.width);
        let phases: Vec<([usize; 2], Plan)> = (0..self.stride * self.stride)
            .map(|i| [i / self.stride, i % self.stride])
            .map(|phase| (phase, Plan::new(self.phase(phase), from.channels)))
            .collect();
        let len = |plan: &Plan| plan.lattice.taps.len() * from.channels * width;
        let total = phases.iter().map(|(_, plan)| len(plan)).sum();
        with_scratch([total], |[packed]| {
            let mut offset = 0;
            for (_, plan) in &phases {
                plan.pack(self, weights, Direction::Backward, &mut packed[offset..]);
                offset += len(plan);
            }
            let packed = &*packed;
            let block = phases.iter().map(|(_, plan)| plan.block).max().unwrap_or(1);
            let parts = self.parts(to, block);
            let lens = parts.iter().map(|part| (part.end - part.start) * pixels * width);
            let work = parts.clone().into_iter().zip(parallel::split(input, lens)).collect();
            parallel::map(work, |(images, piece): (Range<usize>, &mut [f32])| {
                let mut finisher = Finisher::new(self.level, finish, to.channels);
                // As many images at a time as give a block of every phase.
                let group = (RESULTS.0 * self.stride * self.stride).div_ceil(pixels.max(1));
                let mut start = images.start;
                while start < images.end {
                    let end = images.end.min(start + group);
                    let piece = &mut piece[(start - images.start) * pixels * width..]
                        [..(end - start) * pixels * width];
                    let mut offset = 0;
                    for (phase, plan) in &phases {
                        let all = start * plan.lattice.len()..end * plan.lattice.len();
                        let packed = &packed[offset..];
                        offset += len(plan);
                        let level = self.level;
                        let gathered = (gradient, from, from.stride());
                        let range = (all.clone(), width);
                        plan.blocks(level, gathered, packed, range, |results, sums| {
                            let (first, len) = (results.start - all.start, results.len() * width);
                            if self.stride == 1 {
                                let numbers = &mut piece[first * width..][..len];
                                sums(&mut Place::Plain { level, numbers });
                            } else {
                                with_scratch([len], |[block]| {
                                    sums(&mut Place::Plain { level, numbers: block });
                                    self.scatter(block, first, (*phase, &plan.lattice), piece);
                                });
                            }
                        });
                    }
                    finisher.run(start * pixels, piece);
                    start = end;
                }
                finisher.totals()
            })
        })
    }

    /// Puts results of a phase, from the `first` on, where they belong among the pixels of all.
    fn scatter(
        &self,
        block: &[f32],
        first: usize,
        ([phase_y, phase_x], lattice): ([usize; 2], &Lattice),
        images: &mut [f32],
    ) {
        let Shape { height, width, .. } = self.input;
        let numbers = self.input.stride();
        for (i, result) in block.chunks(numbers).enumerate() {
            let (image, within) = ((first + i) / lattice.len(), (first + i) % lattice.len());
            let (y, x) = (within / lattice.width, within % lattice.width);
            let row = image * height + phase_y + y * self.stride;
            let pixel = row * width + phase_x + x * self.stride;
            images[pixel * numbers..][..numbers].copy_from_slice(result);
        }
    }

    /// The gradient of the weights, in PyTorch's order.
    pub(super) fn weight_gradient(
        &self,
        source: Source<'_>,
        gradient: Source<'_>,
        weights: &mut [f32],
    ) {
        let (level, to) = (self.level, self.output());
        let plan = Plan::new(self.lattice(), self.input.channels);
        let (width, depth) = (to.stride(), plan.lattice.taps.len() * self.input.channels);
        let len = depth * width;
        let parts = self.parts_of_gradient(to, plan.block, len);
        // Of a wide layer one part's sums take all the room: its threads share the rows of them.
        let alone = parts.len() == 1;
        with_scratch([parts.len().max(1) * len], |[sums]| {
            sums.fill(0.0);
            let work = parts.into_iter().zip(sums.chunks_mut(len.max(1))).collect();
            parallel::map(work, |(images, sums): (Range<usize>, &mut [f32])| {
                let all = images.start * plan.lattice.len()..images.end * plan.lattice.len();
                let lens = [plan.block * plan.row_step(), plan.block * width];
                with_scratch(lens, |[rows, gradients]| {
                    for results in blocks(all, plan.block) {
                        let count = results.end - results.start;
                        let same = to.pixel_lattice();
                        let gathered = (gradient, to, width);
                        gather(level, gathered, &same, 0..1, results.clone(), gradients, width);
                        for taps in plan.steps() {
                            let depth = (taps.end - taps.start) * self.input.channels;
                            let first = taps.start * self.input.channels;
                            let gathered = (source, self.input, self.input_stride);
                            let step = plan.row_step();
                            gather(
                                level,
                                gathered,
                                &plan.lattice,
                                taps,
                                results.clone(),
                                rows,
                                step,
                            );
                            let part = &mut sums[first * width..][..depth * width];
                            let left = Span::new(rows);
                            let right = Span::new(gradients);
                            let share = if alone { SHARE } else { depth };
                            let work = part.chunks_mut(share * width).enumerate().collect();
                            parallel::map_within(alone, work, |(i, part): (usize, &mut [f32])| {
                                let numbers = left.from(i * share);
                                let product = Product {
                                    a: Left { numbers, row_step: 1, depth_step: step },
                                    b: Right::Rows { numbers: right, row_step: width },
                                    row_step: width,
                                    rows: part.len() / width,
                                    depth: count,
                                    columns: width,
                                    ahead: Ahead::nothing(),
                                };
                                let numbers = SpanMut::new(part);
                                level.run(Made(&product, Plain { numbers, add: true }));
                            });
                        }
                    }
                });
            });
            parallel::add_to_first(sums, len);
            self.form.unpack(&sums[..len], weights);
        });
    }
}
