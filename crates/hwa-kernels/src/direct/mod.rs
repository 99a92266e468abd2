//! Convolution of any kernel, stride and padding, as products of gathered rows.
//!
//! Exact where Winograd's transforms round, and the way for all but 3x3 with stride one. A
//! block of results is gathered (see [`gather`]) and multiplied by the weights, a few taps at
//! a time so that both stay in the cache. The gradient of the input runs the same way: with
//! stride `s` its pixels fall into `s * s` phases, each of which sees the taps that hit it
//! and no others.

mod gather;

use std::ops::Range;

use crate::finish::{Finish, Finisher, Made, Place, Plain, Totals};
use crate::memory::with_scratch;
use crate::parallel;
use crate::product::{Left, Product, Right};
use crate::read::{Source, with_reader};
use crate::rearrange::unpad;
use crate::shape::Shape;
use crate::simd::{GROUP, Level, padded};
use crate::span::{Ahead, Span, SpanMut};
use crate::weights::{Dense, Direction};
use gather::{Gather, Lattice, Tap};

/// The numbers of a gathered row that are multiplied at once, if a tap has no more.
const DEPTH: usize = 512;

/// The gathered numbers of a block.
const GATHERED: usize = 32 * 1024;

/// Fewest and most results of a block.
const RESULTS: (usize, usize) = (64, 256);

/// Rows of a wide layer's gradient that a thread works on at a time.
const SHARE: usize = 64;

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
        let pointwise = self.is_pointwise();
        let plan = Plan { pointwise, ..Plan::new(lattice, self.input.channels) };
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
            // Wide ones have their threads work together on one gradient after the other.
            Some((input, finish)) if self.is_pointwise() && weights.len() <= parallel::ROOM / 2 => {
                let sources = (source, gradient);
                self.pointwise(sources, (weights, weight_gradient), input, finish)
            }
            Some((input, finish)) => {
                self.weight_gradient(source, gradient, weight_gradient);
                self.input_gradient(gradient, weights, input, finish)
            }
        }
    }

    /// Whether every result is made of the pixel at its place.
    fn is_pointwise(&self) -> bool {
        (self.form.kernel, self.stride, self.padding) == ([1, 1], 1, 0)
    }

    /// Both gradients of a pointwise convolution, a block at a time: the gradient of the output
    /// is read once.
    fn pointwise(
        &self,
        (source, gradient): (Source<'_>, Source<'_>),
        (weights, weight_gradient): (&[f32], &mut [f32]),
        input: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let (from, to) = (self.input, self.output());
        let (inputs, outputs) = (from.stride(), to.stride());
        let (steps, lattice) = ([inputs + GROUP, outputs + GROUP], to.pixel_lattice());
        let block = (GATHERED / inputs.max(outputs)).clamp(RESULTS.0, RESULTS.1);
        // Rows of the one by vectors of the other, whichever leaves fewer numbers to padding.
        let turned = to.channels * inputs < from.channels * outputs;
        let len = (to.channels * inputs).min(from.channels * outputs);
        let parts = self.parts_of_gradient(to, block, len);
        let packed_len = self.form.packed_len(Direction::Backward);
        with_scratch([packed_len, parts.len().max(1) * len], |[packed, sums]| {
            self.form.pack(self.level, weights, (Direction::Backward, &[0]), true, packed);
            if to.is_empty() {
                sums.fill(0.0);
            }
            let (packed, pixels) = (&*packed, to.height * to.width);
            let lens = parts.iter().map(|part| part.len() * pixels * inputs);
            let shares = parallel::split(input, lens).into_iter().zip(sums.chunks_mut(len.max(1)));
            let work = parts.iter().cloned().zip(shares).collect();
            type Share<'a> = (Range<usize>, (&'a mut [f32], &'a mut [f32]));
            let totals = parallel::map(work, |(images, (piece, sums)): Share<'_>| {
                let mut finisher = Finisher::new(self.level, finish, from.channels).of(from.len());
                let first = images.start * pixels;
                with_scratch([block * steps[0], block * steps[1]], |[rows, gradients]| {
                    for results in blocks(first..images.end * pixels, block) {
                        let gathered = (gradient, to, outputs);
                        let place = (&mut *gradients, steps[1]);
                        let g = rows_of(self.level, gathered, &lattice, results.clone(), place);
                        let piece = &mut piece[(results.start - first) * inputs..]
                            [..results.len() * inputs];
                        let gathered = (source, from, self.input_stride);
                        let place = (&mut *rows, steps[0]);
                        let x = rows_of(self.level, gathered, &lattice, results.clone(), place);
                        let after = results.end..(results.end + block).min(images.end * pixels);
                        let tiles =
                            |rows, columns| Product::tiles_of(self.level.lanes(), rows, columns);
                        let [next_g, next_y] =
                            gradient.stored(after.start * outputs..after.end * outputs);
                        let [next_x, _] = source
                            .stored(after.start * self.input_stride..after.end * self.input_stride);
                        finisher.make_by(results.start, piece, |place| {
                            place.put(&Product {
                                a: Left { numbers: g.0, row_step: g.1, depth_step: 1 },
                                b: Right::Packed(Span::new(packed)),
                                row_step: inputs,
                                rows: results.len(),
                                depth: to.channels,
                                columns: inputs,
                                ahead: Ahead::new(
                                    [next_g, next_y, &[]],
                                    tiles(results.len(), inputs),
                                ),
                            });
                        });
                        let (rows, columns) = match turned {
                            true => ((g, to.channels), (x, inputs)),
                            false => ((x, from.channels), (g, outputs)),
                        };
                        let ((left, rows), (right, columns)) = (rows, columns);
                        let product = Product {
                            a: Left { numbers: left.0, row_step: 1, depth_step: left.1 },
                            b: Right::Rows { numbers: right.0, row_step: right.1 },
                            row_step: columns,
                            rows,
                            depth: results.len(),
                            columns,
                            ahead: Ahead::new([next_x, &[], &[]], tiles(rows, columns)),
                        };
                        let (numbers, add) = (SpanMut::new(sums), results.start > first);
                        self.level.run(Made(&product, Plain { numbers, add }));
                    }
                });
                finisher.totals()
            });
            parallel::add_to_first(sums, len);
            if turned {
                unpad(&sums[..len], from.channels, weight_gradient);
            } else {
                self.form.unpack(&sums[..len], weight_gradient);
            }
            totals
        })
    }

    /// The gradient of the input from that of the output.
    fn input_gradient(
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
                        if self.stride == 1 {
                            plan.blocks(
                                self.level,
                                (gradient, from, from.stride()),
                                packed,
                                (all.clone(), width),
                                |results, sums| {
                                    let numbers = &mut piece[(results.start - all.start) * width..]
                                        [..results.len() * width];
                                    sums(&mut Place::Plain { level: self.level, numbers });
                                },
                            );
                        } else {
                            plan.blocks(
                                self.level,
                                (gradient, from, from.stride()),
                                packed,
                                (all.clone(), width),
                                |results, sums| {
                                    with_scratch(
                                        [(results.end - results.start) * width],
                                        |[block]| {
                                            let (level, numbers) = (self.level, &mut *block);
                                            sums(&mut Place::Plain { level, numbers });
                                            let at = results.start - all.start;
                                            self.scatter(block, at, (*phase, &plan.lattice), piece);
                                        },
                                    )
                                },
                            );
                        }
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
    fn weight_gradient(&self, source: Source<'_>, gradient: Source<'_>, weights: &mut [f32]) {
        let (level, to) = (self.level, self.output());
        let plan = Plan::new(self.lattice(), self.input.channels);
        let (width, depth) = (to.stride(), plan.lattice.taps.len() * self.input.channels);
        let len = depth * width;
        let parts = self.parts_of_gradient(to, plan.block, len);
        // Of a wide layer one part's sums take all the room: its threads share the rows of them.
        let alone = parts.len() == 1;
        with_scratch([parts.len() * len], |[sums]| {
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

/// How the results of a lattice are computed.
struct Plan {
    lattice: Lattice,
    /// Numbers of a tap.
    channels: usize,
    /// Taps that are gathered at once.
    taps: usize,
    /// Results of a block.
    block: usize,
    /// Whether every result is made of the pixel at its place.
    pointwise: bool,
}

/// What is gathered: a tensor, its shape, and the numbers from one pixel to the next.
type Gathered<'a> = (Source<'a>, Shape, usize);

impl Plan {
    fn new(lattice: Lattice, channels: usize) -> Self {
        let taps = (DEPTH / channels.max(1)).clamp(1, lattice.taps.len().max(1));
        let block = (GATHERED / (taps * channels).max(1)).clamp(RESULTS.0, RESULTS.1);
        Self { lattice, channels, taps, block, pointwise: false }
    }

    /// Rows are a group longer than what they hold, and so not a power of two apart.
    fn row_step(&self) -> usize {
        padded(self.taps * self.channels) + GROUP
    }

    /// Whether results are made by one product.
    fn at_once(&self) -> bool {
        self.steps().count() == 1
    }

    /// The taps that are gathered at once.
    fn steps(&self) -> impl Iterator<Item = Range<usize>> {
        blocks(0..self.lattice.taps.len(), self.taps)
    }

    fn pack(&self, conv: &Direct, weights: &[f32], direction: Direction, packed: &mut [f32]) {
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
    fn blocks(
        &self,
        level: Level,
        gathered: Gathered<'_>,
        packed: &[f32],
        (all, width): (Range<usize>, usize),
        mut place: impl FnMut(Range<usize>, &mut dyn FnMut(&mut Place<'_, '_>)),
    ) {
        let step = self.row_step();
        with_scratch([self.block * step], |[rows]| {
            // The first is short: only then is it known what moments are about, and the others
            // are finished as they are made.
            let first = all.end.min(all.start + self.block.min(RESULTS.0));
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

fn gather(
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
fn rows_of<'a>(
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

/// A range in pieces of `len`, the last of which may be shorter.
fn blocks(all: Range<usize>, len: usize) -> impl Iterator<Item = Range<usize>> {
    let len = len.max(1);
    all.clone().step_by(len).map(move |start| start..all.end.min(start + len))
}

impl Shape {
    /// Every pixel by itself.
    fn pixel_lattice(&self) -> Lattice {
        let taps = vec![Tap { y: 0, x: 0, place: 0 }];
        Lattice { height: self.height, width: self.width, step: 1, taps }
    }
}

#[cfg(test)]
mod tests;
