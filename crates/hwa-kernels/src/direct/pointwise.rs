//! Both gradients of a pointwise convolution, a block at a time: the gradient of the output is
//! read once.

use std::ops::Range;

use super::Direct;
use super::gather::Lattice;
use super::plan::{block_of, blocks, rows_of};
use crate::finish::{Finish, Finisher, Made, Plain, Totals};
use crate::memory::with_scratch;
use crate::parallel;
use crate::product::{Left, Product, Right};
use crate::read::Source;
use crate::rearrange::unpad;
use crate::simd::GROUP;
use crate::span::{Ahead, Span, SpanMut};
use crate::weights::Direction;

impl Direct {
    /// Whether every result is made of the pixel at its place.
    pub(super) fn is_pointwise(&self) -> bool {
        (self.form.kernel, self.stride, self.padding) == ([1, 1], 1, 0)
    }

    /// Sums of a weight gradient: rows of the one by vectors of the other, whichever leaves fewer
    /// numbers to padding.
    fn pointwise_sums(&self) -> usize {
        let (from, to) = (self.input, self.output());
        (from.channels * to.stride()).min(to.channels * from.stride())
    }

    /// Whether both gradients are made together: if two parts at least find room for their sums.
    pub(super) fn is_pointwise_together(&self) -> bool {
        self.is_pointwise() && 2 * self.pointwise_sums() <= parallel::ROOM
    }

    /// The gradients of the weights and of the input; gives the sums that were gathered of
    /// the latter, part by part.
    pub(super) fn pointwise(
        &self,
        (source, gradient): (Source<'_>, Source<'_>),
        (weights, weight_gradient): (&[f32], &mut [f32]),
        input: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let (from, to, len) = (self.input, self.output(), self.pointwise_sums());
        let transposed = len < from.channels * to.stride();
        let block = block_of(from.stride().max(to.stride()));
        let parts = self.parts_of_gradient(to, block, len);
        let packed_len = self.form.packed_len(Direction::Backward);
        with_scratch([packed_len, parts.len().max(1) * len], |[packed, sums]| {
            self.form.pack(self.level, weights, (Direction::Backward, &[0]), true, packed);
            if to.is_empty() {
                sums.fill(0.0);
            }
            let (packed, lattice) = (&*packed, &to.pixel_lattice());
            let together =
                Together { conv: self, source, gradient, packed, lattice, block, transposed };
            let pixels = to.height * to.width;
            let lens = parts.iter().map(|part| part.len() * pixels * from.stride());
            let places = parallel::split(input, lens).into_iter().zip(sums.chunks_mut(len.max(1)));
            let work = parts.iter().cloned().zip(places).collect();
            type Part<'a> = (Range<usize>, (&'a mut [f32], &'a mut [f32]));
            let totals = parallel::map(work, |(images, places): Part<'_>| {
                let mut finisher = Finisher::new(self.level, finish, from.channels).of(from.len());
                let pixels = images.start * pixels..images.end * pixels;
                together.run(pixels, places, &mut finisher);
                finisher.totals()
            });
            parallel::add_to_first(sums, len);
            if transposed {
                unpad(&sums[..len], from.channels, weight_gradient);
            } else {
                self.form.unpack(&sums[..len], weight_gradient);
            }
            totals
        })
    }
}

/// What the parts have in common.
struct Together<'a> {
    conv: &'a Direct,
    source: Source<'a>,
    gradient: Source<'a>,
    packed: &'a [f32],
    lattice: &'a Lattice,
    /// Pixels of a block.
    block: usize,
    /// Whether sums are `[output][padded input]` rather than `[input][padded output]`.
    transposed: bool,
}

/// Rows of numbers, and how far they are apart.
type Rows<'a> = (Span<'a>, usize);

impl Together<'_> {
    /// Of some pixels: the gradients of the input, and the sums.
    fn run(
        &self,
        pixels: Range<usize>,
        (input, sums): (&mut [f32], &mut [f32]),
        finisher: &mut Finisher<'_>,
    ) {
        let (level, from, to) = (self.conv.level, self.conv.input, self.conv.output());
        let (inputs, outputs) = (from.stride(), to.stride());
        let steps = [inputs + GROUP, outputs + GROUP];
        with_scratch([self.block * steps[0], self.block * steps[1]], |[rows, gradients]| {
            for results in blocks(pixels.clone(), self.block) {
                let after = results.end..(results.end + self.block).min(pixels.end);
                let gathered = (self.gradient, to, outputs);
                let place = (&mut *gradients, steps[1]);
                let g = rows_of(level, gathered, self.lattice, results.clone(), place);
                let gathered = (self.source, from, self.conv.input_stride);
                let place = (&mut *rows, steps[0]);
                let x = rows_of(level, gathered, self.lattice, results.clone(), place);
                let start = (results.start - pixels.start) * inputs;
                let piece = &mut input[start..][..results.len() * inputs];
                finisher.make_by(results.start, piece, |place| {
                    place.put(&self.input_product(g, results.len(), &after));
                });
                let product = self.weight_product((x, g), results.len(), &after);
                let (numbers, add) = (SpanMut::new(sums), results.start > pixels.start);
                level.run(Made(&product, Plain { numbers, add }));
            }
        });
    }

    /// The gradients of the input; meanwhile the next gradients of the output are asked for.
    fn input_product<'b>(
        &'b self,
        (numbers, row_step): Rows<'b>,
        rows: usize,
        after: &Range<usize>,
    ) -> Product<'b> {
        let (columns, outputs) = (self.conv.input.stride(), self.conv.output().stride());
        let [g, y] = self.gradient.stored(after.start * outputs..after.end * outputs);
        let tiles = Product::tiles_of(self.conv.level.lanes(), rows, columns);
        Product {
            a: Left { numbers, row_step, depth_step: 1 },
            b: Right::Packed(Span::new(self.packed)),
            row_step: columns,
            rows,
            depth: self.conv.form.outputs,
            columns,
            ahead: Ahead::new([g, y, &[]], tiles),
        }
    }

    /// The sums over some pixels; meanwhile the next of the input are asked for.
    fn weight_product<'b>(
        &'b self,
        (x, g): (Rows<'b>, Rows<'b>),
        depth: usize,
        after: &Range<usize>,
    ) -> Product<'b> {
        let (from, to, step) = (self.conv.input, self.conv.output(), self.conv.input_stride);
        let ((left, rows), (right, columns)) = if self.transposed {
            ((g, to.channels), (x, from.stride()))
        } else {
            ((x, from.channels), (g, to.stride()))
        };
        let [next, _] = self.source.stored(after.start * step..after.end * step);
        let tiles = Product::tiles_of(self.conv.level.lanes(), rows, columns);
        Product {
            a: Left { numbers: left.0, row_step: 1, depth_step: left.1 },
            b: Right::Rows { numbers: right.0, row_step: right.1 },
            row_step: columns,
            rows,
            depth,
            columns,
            ahead: Ahead::new([next, &[], &[]], tiles),
        }
    }
}
