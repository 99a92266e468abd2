//! The tiles of all images, and the stages that a block of them goes through.

use std::ops::Range;

use super::transform::{
    GradientRow, INPUTS, InputRow, LookAhead, OUTPUTS, OutputRow, PRODUCTS, Tiles, strip_len,
};
use crate::memory::with_scratch;
use crate::parallel;
use crate::product::{Left, Right};
use crate::read::{Source, with_reader};
use crate::shape::Shape;
use crate::simd::{GROUP, Level};
use crate::span::SpanMut;

/// The numbers that a block may ask for ahead of the next.
const AHEAD: usize = 32 * 1024;

/// The tiles of all images: rows of tiles are counted through the images.
pub(super) struct Grid {
    from: Shape,
    to: Shape,
    padding: usize,
    /// Rows of tiles in an image.
    down: usize,
    /// Tiles in a row.
    pub across: usize,
    /// Rows of tiles in a block.
    block: usize,
}

/// Scratch for a block: transformed inputs, and outputs before they are transformed back
/// or gradients after they were.
pub(super) struct Scratch<'a> {
    strip: SpanMut<'a>,
    pub inputs: Tiles<'a>,
    pub outputs: Tiles<'a>,
}

impl<'a> Tiles<'a> {
    pub(super) fn left(&self, product: usize) -> Left<'a> {
        let numbers = self.numbers.read().from(product * self.product_step);
        Left { numbers, row_step: self.tile_step, depth_step: 1 }
    }

    pub(super) fn right(&self, product: usize) -> Right<'a> {
        let numbers = self.numbers.read().from(product * self.product_step);
        Right::Rows { numbers, row_step: self.tile_step }
    }

    pub(super) fn place(&self, product: usize) -> (SpanMut<'a>, usize) {
        (self.numbers.from(product * self.product_step), self.tile_step)
    }

    /// The tiles from `tile` on.
    fn after(&self, tile: usize) -> Self {
        Self { numbers: self.numbers.from(tile * self.tile_step), ..*self }
    }
}

impl Grid {
    pub(super) fn new(from: Shape, to: Shape, padding: usize) -> Self {
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

    pub(super) fn parts(&self) -> Vec<Range<usize>> {
        self.whole_blocks(usize::MAX)
    }

    /// Every part has sums of its own, which take room.
    pub(super) fn parts_of_gradient(&self, len: usize) -> Vec<Range<usize>> {
        self.whole_blocks(parallel::ROOM / len.max(1))
    }

    /// Divides what comes out into the pieces of rows of tiles.
    pub(super) fn split<'a>(
        &self,
        parts: &[Range<usize>],
        output: &'a mut [f32],
    ) -> Vec<&'a mut [f32]> {
        let lens = parts.iter().map(|part| self.pixels(part.clone()).len() * self.to.stride());
        parallel::split(output, lens)
    }

    /// The numbers of rows of tiles in a piece that begins with row `first`.
    pub(super) fn block_of<'a>(
        &self,
        first: usize,
        rows: Range<usize>,
        piece: &'a mut [f32],
    ) -> &'a mut [f32] {
        let (before, pixels) = (self.pixels(first..first).start, self.pixels(rows));
        let stride = self.to.stride();
        &mut piece[(pixels.start - before) * stride..(pixels.end - before) * stride]
    }

    fn whole_blocks(&self, parts: usize) -> Vec<Range<usize>> {
        let blocks = parallel::ranges(self.rows().div_ceil(self.block), parts);
        let row = |block: usize| (block * self.block).min(self.rows());
        blocks.into_iter().map(|part| row(part.start)..row(part.end)).collect()
    }

    /// The output pixels of rows of tiles.
    pub(super) fn pixels(&self, rows: Range<usize>) -> Range<usize> {
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
    pub(super) fn blocks(
        &self,
        rows: Range<usize>,
        mut work: impl FnMut(&Scratch<'_>, Range<usize>),
    ) {
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

    pub(super) fn transform_inputs(
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

    /// Asks for part `part.0` of `part.1` of what the block after `rows` will read.
    pub(super) fn look_ahead(
        &self,
        level: Level,
        source: Source<'_>,
        (part, parts): (usize, usize),
        rows: Range<usize>,
    ) {
        let stride = self.from.stride();
        let first = rows.end / self.down * self.from.height + rows.end % self.down * OUTPUTS;
        let len = rows.len() * OUTPUTS * self.from.width * stride;
        // What is asked for must not drive out what is in use.
        if len > AHEAD {
            return;
        }
        let share = (len / parts).next_multiple_of(16);
        let offset = first * self.from.width * stride + part * share;
        with_reader!(source, stride, reader => level.run(LookAhead { reader, offset, len: share }));
    }

    pub(super) fn transform_gradients(
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

    pub(super) fn transform_outputs(
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
