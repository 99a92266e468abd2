//! Convolution 3x3 with stride 1 by Winograd's F(4x4, 3x3): 36 products for 16
//! outputs instead of 144.
//!
//! The image is cut into tiles of 4x4 outputs. A block of tiles goes through three stages that
//! hand over in the cache: inputs are transformed, 36 small matrix products sum
//! over the channels, and their results are transformed back. The gradient of
//! the input is the same with the kernel turned around, the gradient of the weights sums the
//! 36 products over all tiles and transforms once.

mod grid;
mod transform;

use std::ops::Range;

use crate::finish::{Finish, Finisher, Made, Plain, Totals};
use crate::memory::with_scratch;
use crate::parallel;
use crate::product::{Left, Product, Right};
use crate::read::Source;
use crate::shape::Shape;
use crate::simd::{Level, padded};
use crate::span::{Ahead, Span, SpanMut};
use crate::weights::{Dense, Direction};
use grid::{Grid, Scratch};
use transform::{AdjointWeights, PRODUCTS, TransformWeights};

/// What a block may take of the cache, in numbers.
const CACHE: usize = 160 * 1024;

/// A 3x3 convolution with stride 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Winograd {
    pub level: Level,
    pub form: Dense,
    /// Zeros on each side of the image, up to two.
    pub padding: usize,
    /// The images that come in, going forward.
    pub input: Shape,
}

impl Winograd {
    /// The images that come out, going forward.
    pub(crate) fn output(&self) -> Shape {
        let grow = 2 * self.padding;
        let (height, width) = (self.input.height + grow - 2, self.input.width + grow - 2);
        Shape { height, width, channels: self.form.outputs, ..self.input }
    }

    /// Convolves; gives the sums that were gathered, part by part.
    pub(crate) fn forward(
        &self,
        source: Source<'_>,
        weights: &[f32],
        output: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let grid = Grid::new(self.input, self.output(), self.padding);
        self.run(source, (weights, Direction::Forward), &grid, output, finish)
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
        let Some((input, finish)) = input else {
            self.weight_gradient(source, gradient, weight_gradient);
            return Vec::new();
        };
        if self.fits_together() {
            let sources = (source, gradient);
            return self.together(sources, (weights, weight_gradient), input, finish);
        }
        self.weight_gradient(source, gradient, weight_gradient);
        let grid = Grid::new(self.output(), self.input, 2 - self.padding);
        self.run(gradient, (weights, Direction::Backward), &grid, input, finish)
    }

    fn run(
        &self,
        source: Source<'_>,
        (weights, direction): (&[f32], Direction),
        grid: &Grid,
        output: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let (_, columns) = self.form.matrix(direction);
        self.with_transformed(weights, direction, |transformed| {
            let parts = grid.parts();
            let work = parts.iter().cloned().zip(grid.split(&parts, output)).collect();
            parallel::map(work, |(rows, piece): (Range<usize>, &mut [f32])| {
                let mut finisher = Finisher::new(self.level, finish, columns);
                let first = rows.start;
                grid.blocks(rows, |scratch, rows| {
                    let block = grid.block_of(first, rows.clone(), piece);
                    let place = (rows, block, &mut finisher);
                    self.convolve((grid, scratch), source, (transformed, direction), place);
                });
                finisher.totals()
            })
        })
    }

    /// The gradient of the weights, in PyTorch's order.
    fn weight_gradient(&self, source: Source<'_>, gradient: Source<'_>, weights: &mut [f32]) {
        let grid = Grid::new(self.input, self.output(), self.padding);
        let parts = grid.parts_of_gradient(self.sums_len());
        // Of a wide layer one part's sums take all the room: its threads share the products.
        let alone = parts.len() == 1;
        self.with_sums(parts.len(), weights, |sums| {
            let work = parts.into_iter().zip(sums).collect();
            parallel::map(work, |(rows, sums): (Range<usize>, &mut [f32])| {
                grid.blocks(rows, |scratch, rows| {
                    self.correlate((&grid, scratch), (source, gradient), rows, (sums, alone));
                });
            });
        });
    }

    /// Whether both gradients of a block find room in the cache together, so that what they
    /// both read comes from the memory once.
    fn fits_together(&self) -> bool {
        let (from, to) = (self.input, self.output());
        let same = (from.height, from.width, from.stride()) == (to.height, to.width, to.stride());
        same && 2 * self.sums_len() <= CACHE
    }

    /// Both gradients, a block of each in turn.
    fn together(
        &self,
        (source, gradient): (Source<'_>, Source<'_>),
        (weights, weight_gradient): (&[f32], &mut [f32]),
        input: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        // Of the same size: the tiles of one are those of the other.
        let grid = Grid::new(self.input, self.output(), self.padding);
        let back = Grid::new(self.output(), self.input, 2 - self.padding);
        let (direction, parts) = (Direction::Backward, grid.parts_of_gradient(self.sums_len()));
        self.with_transformed(weights, direction, |transformed| {
            self.with_sums(parts.len(), weight_gradient, |sums| {
                let pieces = back.split(&parts, input).into_iter().zip(sums);
                let work = parts.iter().cloned().zip(pieces).collect();
                parallel::map(work, |(rows, (piece, sums)): (Range<usize>, (&mut [f32], _))| {
                    let mut finisher = Finisher::new(self.level, finish, self.input.channels);
                    let first = rows.start;
                    grid.blocks(rows, |scratch, rows| {
                        let sources = (source, gradient);
                        self.correlate((&grid, scratch), sources, rows.clone(), (sums, false));
                        let block = back.block_of(first, rows.clone(), piece);
                        let place = (rows, block, &mut finisher);
                        let weights = (transformed, direction);
                        self.convolve((&back, scratch), gradient, weights, place);
                    });
                    finisher.totals()
                })
            })
        })
    }

    /// A block of outputs.
    fn convolve(
        &self,
        (grid, scratch): (&Grid, &Scratch<'_>),
        source: Source<'_>,
        (transformed, direction): (&[f32], Direction),
        (rows, block, finisher): (Range<usize>, &mut [f32], &mut Finisher<'_>),
    ) {
        let (depth, columns) = self.form.matrix(direction);
        let (level, columns) = (self.level, padded(columns));
        grid.transform_inputs(level, source, scratch, rows.clone());
        for product in 0..PRODUCTS {
            let part = (product, PRODUCTS);
            grid.look_ahead(level, source, part, rows.clone());
            finisher.look_ahead(grid.pixels(rows.clone()).start, part, block);
            let weights = &transformed[product * depth * columns..][..depth * columns];
            let (numbers, row_step) = scratch.outputs.place(product);
            let product = Product {
                a: scratch.inputs.left(product),
                b: Right::Packed(Span::new(weights)),
                row_step,
                rows: rows.len() * grid.across,
                depth,
                columns,
                ahead: Ahead::nothing(),
            };
            level.run(Made(&product, Plain { numbers, add: false }));
        }
        grid.transform_outputs(level, scratch, rows.clone(), block);
        finisher.run(grid.pixels(rows).start, block);
    }

    /// Adds the share of a block to the sums over all tiles; `alone` if no other block of this
    /// convolution is worked on.
    fn correlate(
        &self,
        (grid, scratch): (&Grid, &Scratch<'_>),
        (source, gradient): (Source<'_>, Source<'_>),
        rows: Range<usize>,
        (sums, alone): (&mut [f32], bool),
    ) {
        let (level, inputs) = (self.level, self.form.inputs);
        let columns = padded(self.form.outputs);
        grid.transform_inputs(level, source, scratch, rows.clone());
        grid.transform_gradients(level, gradient, scratch, rows.clone());
        let sides = |product| (scratch.inputs.left(product), scratch.outputs.right(product));
        let shares = sums.chunks_mut((inputs * columns).max(1));
        let work = shares.enumerate().map(|(product, sums)| (product, sides(product), sums));
        parallel::map_within(alone, work.collect(), |(product, (left, right), sums)| {
            grid.look_ahead(level, source, (product, PRODUCTS), rows.clone());
            let product = Product {
                a: Left { row_step: 1, depth_step: left.row_step, ..left },
                b: right,
                row_step: columns,
                rows: inputs,
                depth: rows.len() * grid.across,
                columns,
                ahead: Ahead::nothing(),
            };
            level.run(Made(&product, Plain { numbers: SpanMut::new(sums), add: true }));
        });
    }

    /// Runs `work` with the weights transformed.
    fn with_transformed<R>(
        &self,
        weights: &[f32],
        direction: Direction,
        work: impl FnOnce(&[f32]) -> R,
    ) -> R {
        let (depth, columns) = self.form.matrix(direction);
        let len = depth * padded(columns);
        let all: [usize; 9] = std::array::from_fn(|tap| tap);
        with_scratch([9 * len, PRODUCTS * len], |[packed, transformed]| {
            self.form.pack(self.level, weights, (direction, &all), false, packed);
            let (weights, to) = (Span::new(packed), SpanMut::new(transformed));
            self.level.run(TransformWeights { weights, transformed: to, len });
            work(transformed)
        })
    }

    /// The sums over all tiles.
    fn sums_len(&self) -> usize {
        PRODUCTS * self.form.inputs * padded(self.form.outputs)
    }

    /// Runs `work` with sums for each part, and writes the gradient that they make together.
    fn with_sums<R>(
        &self,
        parts: usize,
        weights: &mut [f32],
        work: impl FnOnce(Vec<&mut [f32]>) -> R,
    ) -> R {
        let (sums_len, len) = (self.sums_len(), self.sums_len() / PRODUCTS);
        with_scratch([parts.max(1) * sums_len, 9 * len], |[sums, taps]| {
            sums.fill(0.0);
            let result = work(sums.chunks_mut(sums_len.max(1)).collect());
            parallel::add_to_first(sums, sums_len);
            let transformed = Span::new(&sums[..sums_len]);
            self.level.run(AdjointWeights { transformed, weights: SpanMut::new(taps), len });
            self.form.unpack(taps, weights);
            result
        })
    }
}

#[cfg(test)]
mod tests;
