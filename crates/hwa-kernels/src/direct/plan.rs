//! How results are computed, block by block and a few taps at a time.

use std::ops::Range;

use super::Direct;
use super::gather::{Gather, Lattice, Tap};
use crate::finish::{Made, Place, Plain};
use crate::memory::with_scratch;
use crate::product::{Left, Product, Right};
use crate::read::{Source, with_reader};
use crate::shape::Shape;
use crate::simd::{GROUP, Level, padded};
use crate::span::{Ahead, Span, SpanMut};
use crate::weights::Direction;

/// The numbers of a gathered row that are multiplied at once, if a tap has no more.
const DEPTH: usize = 512;

/// The gathered numbers of a block.
const GATHERED: usize = 32 * 1024;

/// Fewest and most results of a block.
pub(super) const RESULTS: (usize, usize) = (64, 256);

/// How the results of a lattice are computed.
pub(super) struct Plan {
    pub lattice: Lattice,
    /// Numbers of a tap.
    channels: usize,
    /// Taps that are gathered at once.
    taps: usize,
    /// Results of a block.
    pub block: usize,
    /// Results of the first block, if fewer.
    pub first: usize,
    /// Whether every result is made of the pixel at its place.
    pub pointwise: bool,
}

/// What is gathered: a tensor, its shape, and the numbers from one pixel to the next.
pub(super) type Gathered<'a> = (Source<'a>, Shape, usize);

impl Plan {
    pub(super) fn new(lattice: Lattice, channels: usize) -> Self {
        let taps = (DEPTH / channels.max(1)).clamp(1, lattice.taps.len().max(1));
        let block = block_of(taps * channels);
        Self { lattice, channels, taps, block, first: block, pointwise: false }
    }

    /// Rows are a group longer than what they hold, and so not a power of two apart.
    pub(super) fn row_step(&self) -> usize {
        padded(self.taps * self.channels) + GROUP
    }

    /// Whether results are made by one product.
    pub(super) fn at_once(&self) -> bool {
        self.steps().count() == 1
    }

    /// The taps that are gathered at once.
    pub(super) fn steps(&self) -> impl Iterator<Item = Range<usize>> {
        blocks(0..self.lattice.taps.len(), self.taps)
    }

    pub(super) fn pack(
        &self,
        conv: &Direct,
        weights: &[f32],
        direction: Direction,
        packed: &mut [f32],
    ) {
        let (_, columns) = conv.form.matrix(direction);
        for taps in self.steps() {
            let offset = taps.start * self.channels * padded(columns);
            let places: Vec<usize> = self.lattice.taps[taps].iter().map(|tap| tap.place).collect();
            let packed = &mut packed[offset..];
            conv.form.pack(conv.level, weights, (direction, &places), true, packed);
        }
    }

    /// Computes `all` results, each of `width` numbers, a block at a time: `place` gets the
    /// results and a function that writes their numbers.
    pub(super) fn blocks(
        &self,
        level: Level,
        gathered: Gathered<'_>,
        packed: &[f32],
        (all, width): (Range<usize>, usize),
        mut place: impl FnMut(Range<usize>, &mut dyn FnMut(&mut Place<'_, '_>)),
    ) {
        let step = self.row_step();
        with_scratch([self.block * step], |[rows]| {
            let first = all.end.min(all.start + self.first);
            let [few, others] = [all.start..first, first..all.end];
            for results in blocks(few, self.block).chain(blocks(others, self.block)) {
                let after = results.end..(results.end + self.block).min(all.end);
                let mut sums = |place: &mut Place<'_, '_>| {
                    let count = results.len();
                    if let (true, Place::Plain { numbers, .. }) =
                        (self.lattice.taps.is_empty(), &mut *place)
                    {
                        numbers.fill(0.0);
                    }
                    for taps in self.steps() {
                        let (first, depth) = (taps.start == 0, taps.len() * self.channels);
                        let from = taps.start * self.channels * width;
                        let (left, row_step) = if self.pointwise {
                            let place = (&mut *rows, step);
                            rows_of(level, gathered, &self.lattice, results.clone(), place)
                        } else {
                            let results = results.clone();
                            gather(level, gathered, &self.lattice, taps, results, rows, step);
                            (Span::new(rows), step)
                        };
                        let ahead = if self.pointwise {
                            let (source, _, stride) = gathered;
                            let [a, b] = source.stored(after.start * stride..after.end * stride);
                            let tiles = Product::tiles_of(level.lanes(), count, width);
                            Ahead::new([a, b, &[]], tiles)
                        } else {
                            Ahead::nothing()
                        };
                        let product = Product {
                            a: Left { numbers: left, row_step, depth_step: 1 },
                            b: Right::Packed(Span::new(&packed[from..][..depth * width])),
                            row_step: width,
                            rows: count,
                            depth,
                            columns: width,
                            ahead,
                        };
                        match &mut *place {
                            // The first of several steps is not the result yet: see `at_once`.
                            Place::Plain { numbers, .. } if !first => {
                                let numbers = SpanMut::new(numbers);
                                level.run(Made(&product, Plain { numbers, add: true }));
                            }
                            place => place.put(&product),
                        }
                    }
                };
                place(results.clone(), &mut sums);
            }
        });
    }
}

pub(super) fn gather(
    level: Level,
    (source, from, stride): Gathered<'_>,
    lattice: &Lattice,
    taps: Range<usize>,
    results: Range<usize>,
    rows: &mut [f32],
    row_step: usize,
) {
    let rows = SpanMut::new(rows);
    // Coefficients are padded even where pixels are not.
    with_reader!(source, from.stride(), reader => level.run(Gather {
        reader, from, stride, lattice, taps, results, rows, row_step,
    }));
}

/// The channels of single pixels, row by row, and how far rows are apart: where they are stored,
/// or gathered to `place` if they are computed as they are read.
pub(super) fn rows_of<'a>(
    level: Level,
    (source, from, stride): Gathered<'a>,
    lattice: &Lattice,
    results: Range<usize>,
    (place, step): (&'a mut [f32], usize),
) -> (Span<'a>, usize) {
    if let Source::Stored(x) = source {
        return (Span::new(&x[results.start * stride..]), stride);
    }
    gather(level, (source, from, stride), lattice, 0..1, results, place, step);
    (Span::new(place), step)
}

/// The results of a block, each of which is made of so many numbers.
pub(super) fn block_of(numbers: usize) -> usize {
    (GATHERED / numbers.max(1)).clamp(RESULTS.0, RESULTS.1)
}

/// A range in pieces of `len`, the last of which may be shorter.
pub(super) fn blocks(all: Range<usize>, len: usize) -> impl Iterator<Item = Range<usize>> {
    let len = len.max(1);
    all.clone().step_by(len).map(move |start| start..all.end.min(start + len))
}

impl Shape {
    /// Every pixel by itself.
    pub(super) fn pixel_lattice(&self) -> Lattice {
        let taps = vec![Tap { y: 0, x: 0, place: 0 }];
        Lattice { height: self.height, width: self.width, step: 1, taps }
    }
}
