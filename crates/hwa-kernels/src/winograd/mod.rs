//! Convolution 3x3 with stride 1 by Winograd's F(4x4, 3x3): 36 products for 16
//! outputs instead of 144.
//!
//! The image is cut into tiles of 4x4 outputs. A block of tiles goes through three stages that
//! hand over in the cache: inputs are transformed, 36 small matrix products sum
//! over the channels, and their results are transformed back. The gradient of
//! the input is the same with the kernel turned around, the gradient of the weights sums the
//! 36 products over all tiles and transforms once.

mod transform;

use std::ops::Range;

use crate::finish::{Finish, Finisher, Totals};
use crate::memory::with_scratch;
use crate::parallel;
use crate::product::{Left, Product, Right, Sum};
use crate::read::{Source, with_reader};
use crate::shape::Shape;
use crate::simd::{GROUP, Level, padded};
use crate::span::{Span, SpanMut};
use crate::weights::{Dense, Direction};
use transform::{
    AdjointWeights, GradientRow, INPUTS, InputRow, OUTPUTS, OutputRow, PRODUCTS, Tiles,
    TransformWeights, strip_len,
};

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
        let shapes = (self.input, self.output());
        self.run(source, weights, (Direction::Forward, self.padding), shapes, output, finish)
    }

    /// The gradient of the input from that of the output.
    pub(crate) fn input_gradient(
        &self,
        gradient: Source<'_>,
        weights: &[f32],
        input: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let shapes = (self.output(), self.input);
        let way = (Direction::Backward, 2 - self.padding);
        self.run(gradient, weights, way, shapes, input, finish)
    }

    fn run(
        &self,
        source: Source<'_>,
        weights: &[f32],
        (direction, padding): (Direction, usize),
        (from, to): (Shape, Shape),
        output: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let level = self.level;
        let (depth, columns) = self.form.matrix(direction);
        let len = depth * padded(columns);
        let all: [usize; 9] = std::array::from_fn(|tap| tap);
        with_scratch([9 * len, PRODUCTS * len], |[packed, transformed]| {
            self.form.pack(level, weights, (direction, &all), false, packed);
            let spans = (Span::new(packed), SpanMut::new(transformed));
            level.run(TransformWeights { weights: spans.0, transformed: spans.1, len });
            let transformed = &*transformed;
            let grid = Grid::new(from, to, padding);
            let parts = grid.parts();
            let lens = parts.iter().map(|part| grid.pixels(part.clone()).len() * to.stride());
            let pieces = parallel::split(output, lens);
            let work = parts.into_iter().zip(pieces).collect();
            parallel::map(work, |(rows, piece): (Range<usize>, &mut [f32])| {
                let mut finisher = Finisher::new(level, finish, columns);
                let first = grid.pixels(rows.clone()).start;
                grid.blocks(rows, |scratch, rows| {
                    let tiles = (rows.end - rows.start) * grid.across;
                    grid.transform_inputs(level, source, scratch, rows.clone());
                    for product in 0..PRODUCTS {
                        level.run(Product {
                            a: scratch.inputs.left(product),
                            b: Right::Packed(Span::new(&transformed[product * len..][..len])),
                            c: scratch.outputs.sum(product),
                            rows: tiles,
                            depth,
                            columns: to.stride(),
                        });
                    }
                    let pixels = grid.pixels(rows.clone());
                    let block =
                        (pixels.start - first) * to.stride()..(pixels.end - first) * to.stride();
                    let block = &mut piece[block];
                    grid.transform_outputs(level, scratch, rows, block);
                    finisher.run(pixels.start, block);
                });
                finisher.totals()
            })
        })
    }

    /// The gradient of the weights, in PyTorch's order.
    pub(crate) fn weight_gradient(
        &self,
        source: Source<'_>,
        gradient: Source<'_>,
        weights: &mut [f32],
    ) {
        let level = self.level;
        let (from, to) = (self.input, self.output());
        let grid = Grid::new(from, to, self.padding);
        let (inputs, width) = (self.form.inputs, to.stride());
        let len = inputs * width;
        let parts = grid.parts_of_gradient(len);
        with_scratch([parts.len() * PRODUCTS * len, 9 * len], |[sums, taps]| {
            sums.fill(0.0);
            let pieces = sums.chunks_mut((PRODUCTS * len).max(1));
            let work = parts.into_iter().zip(pieces).collect();
            parallel::map(work, |(rows, sums): (Range<usize>, &mut [f32])| {
                grid.blocks(rows, |scratch, rows| {
                    let tiles = (rows.end - rows.start) * grid.across;
                    grid.transform_inputs(level, source, scratch, rows.clone());
                    grid.transform_gradients(level, gradient, scratch, rows);
                    for product in 0..PRODUCTS {
                        let Left { numbers, row_step, .. } = scratch.inputs.left(product);
                        let numbers_of = SpanMut::new(&mut sums[product * len..][..len]);
                        level.run(Product {
                            a: Left { numbers, row_step: 1, depth_step: row_step },
                            b: scratch.outputs.right(product),
                            c: Sum { numbers: numbers_of, row_step: width, add: true },
                            rows: inputs,
                            depth: tiles,
                            columns: width,
                        });
                    }
                });
            });
            parallel::add_to_first(sums, PRODUCTS * len);
            let transformed = Span::new(&sums[..PRODUCTS * len]);
            level.run(AdjointWeights { transformed, weights: SpanMut::new(taps), len });
            self.form.unpack(taps, weights);
        });
    }
}

/// The tiles of all images: rows of tiles are counted through the images.
struct Grid {
    from: Shape,
    to: Shape,
    padding: usize,
    /// Rows of tiles in an image.
    down: usize,
    /// Tiles in a row.
    across: usize,
    /// Rows of tiles in a block.
    block: usize,
}

/// Scratch for a block: transformed inputs, and outputs before they are transformed back
/// or gradients after they were.
struct Scratch<'a> {
    strip: SpanMut<'a>,
    inputs: Tiles<'a>,
    outputs: Tiles<'a>,
}

impl<'a> Tiles<'a> {
    fn left(&self, product: usize) -> Left<'a> {
        let numbers = self.numbers.read().from(product * self.product_step);
        Left { numbers, row_step: self.tile_step, depth_step: 1 }
    }

    fn right(&self, product: usize) -> Right<'a> {
        let numbers = self.numbers.read().from(product * self.product_step);
        Right::Rows { numbers, row_step: self.tile_step }
    }

    fn sum(&self, product: usize) -> Sum<'a> {
        let numbers = self.numbers.from(product * self.product_step);
        Sum { numbers, row_step: self.tile_step, add: false }
    }

    /// The tiles from `tile` on.
    fn after(&self, tile: usize) -> Self {
        Self { numbers: self.numbers.from(tile * self.tile_step), ..*self }
    }
}

impl Grid {
    fn new(from: Shape, to: Shape, padding: usize) -> Self {
        let (down, across) = (to.height.div_ceil(OUTPUTS), to.width.div_ceil(OUTPUTS));
        // The weights pass through the cache once per block: the more there are of them, the more
        // tiles should share that.
        let tiles = (from.stride() * to.stride() / (from.stride() + to.stride())).clamp(32, 128);
        let block = (tiles / across.max(1)).clamp(1, (to.images * down).max(1));
        Self { from, to, padding, down, across, block }
    }

    fn rows(&self) -> usize {
        if self.across == 0 { 0 } else { self.to.images * self.down }
    }

    fn parts(&self) -> Vec<Range<usize>> {
        self.whole_blocks(usize::MAX)
    }

    /// Every part has sums of its own, which take room.
    fn parts_of_gradient(&self, len: usize) -> Vec<Range<usize>> {
        self.whole_blocks(parallel::ROOM / (PRODUCTS * len).max(1))
    }

    fn whole_blocks(&self, parts: usize) -> Vec<Range<usize>> {
        let blocks = parallel::ranges(self.rows().div_ceil(self.block), parts);
        let row = |block: usize| (block * self.block).min(self.rows());
        blocks.into_iter().map(|part| row(part.start)..row(part.end)).collect()
    }

    /// The output pixels of rows of tiles.
    fn pixels(&self, rows: Range<usize>) -> Range<usize> {
        let first = |row: usize| {
            let (image, row) = (row / self.down, row % self.down);
            (image * self.to.height + row * OUTPUTS) * self.to.width
        };
        first(rows.start)..first(rows.end)
    }

    /// The rows of pixels in a row of tiles.
    fn height(&self, row: usize) -> usize {
        OUTPUTS.min(self.to.height - row % self.down * OUTPUTS)
    }

    /// Runs `work` on rows of tiles, a block at a time.
    fn blocks(&self, rows: Range<usize>, mut work: impl FnMut(&Scratch<'_>, Range<usize>)) {
        // Rows a power of two apart would compete for few places in the cache.
        let apart = |stride: usize| if stride >= 128 { stride + GROUP } else { stride };
        let (in_step, out_step) = (apart(self.from.stride()), apart(self.to.stride()));
        let tiles = self.block * self.across;
        let lens = [
            strip_len(self.across),
            PRODUCTS * (tiles * in_step + GROUP),
            PRODUCTS * (tiles * out_step + GROUP),
        ];
        with_scratch(lens, |[strip, inputs, outputs]| {
            strip.fill(0.0);
            let tiles_of = |numbers, step: usize| Tiles {
                numbers: SpanMut::new(numbers),
                tile_step: step,
                product_step: tiles * step + GROUP,
            };
            let scratch = Scratch {
                strip: SpanMut::new(strip),
                inputs: tiles_of(inputs, in_step),
                outputs: tiles_of(outputs, out_step),
            };
            let mut start = rows.start;
            while start < rows.end {
                let end = rows.end.min(start + self.block);
                work(&scratch, start..end);
                start = end;
            }
        });
    }

    fn transform_inputs(
        &self,
        level: Level,
        source: Source<'_>,
        scratch: &Scratch<'_>,
        rows: Range<usize>,
    ) {
        for (i, row) in rows.enumerate() {
            let (image, row) = (row / self.down, row % self.down);
            let above = (row * OUTPUTS) as isize - self.padding as isize;
            let first = (image * self.from.height) as isize + above;
            let inside = |r: usize| (0..self.from.height as isize).contains(&(above + r as isize));
            let rows: [bool; INPUTS] = std::array::from_fn(inside);
            with_reader!(source, self.from.stride(), reader => level.run(InputRow {
                reader,
                first: first * self.from.width as isize,
                rows,
                width: self.from.width,
                stride: self.from.stride(),
                padding: self.padding,
                tiles: scratch.inputs.after(i * self.across),
                count: self.across,
                strip: scratch.strip,
            }));
        }
    }

    fn transform_gradients(
        &self,
        level: Level,
        gradient: Source<'_>,
        scratch: &Scratch<'_>,
        rows: Range<usize>,
    ) {
        for (i, row) in rows.enumerate() {
            with_reader!(gradient, self.to.stride(), reader => level.run(GradientRow {
                reader,
                first: self.pixels(row..row).start,
                rows: self.height(row),
                width: self.to.width,
                stride: self.to.stride(),
                tiles: scratch.outputs.after(i * self.across),
                count: self.across,
            }));
        }
    }

    fn transform_outputs(
        &self,
        level: Level,
        scratch: &Scratch<'_>,
        rows: Range<usize>,
        block: &mut [f32],
    ) {
        let start = self.pixels(rows.clone()).start;
        for (i, row) in rows.enumerate() {
            let first = (self.pixels(row..row).start - start) * self.to.stride();
            level.run(OutputRow {
                tiles: scratch.outputs.after(i * self.across),
                count: self.across,
                output: SpanMut::new(&mut block[first..]),
                rows: self.height(row),
                width: self.to.width,
                stride: self.to.stride(),
            });
        }
    }
}

#[cfg(test)]
mod tests;
