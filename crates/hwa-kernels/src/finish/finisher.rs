//! Finishes the pixels of a tensor, block after block, in whichever way is cheapest.

use super::block::{Block, IN_PLACE, PAST_CACHE, STORED};
use super::ending::{Made, Makes, Plain};
use super::{Finish, Gate, Sums, Totals};
use crate::memory::with_scratch;
use crate::simd::{Kernel, Level, Simd, padded};
use crate::span::{Span, SpanMut};

/// Pixels that are summed in `f32`.
const BLOCK: usize = 128;

/// Numbers of a tensor that the cache does not hold until they are read again.
const PAST: usize = if cfg!(test) { 16 << 10 } else { 3 << 20 };

/// Numbers of a cache line.
const LINE: usize = 16;

/// Pixels whose mean stands for the mean of all while it is not known.
const FIRST: usize = 64;

/// The results that may be asked for ahead.
const AHEAD: usize = 32 * 1024;

/// Finishes some pixels after others of the same tensor.
pub(crate) struct Finisher<'a> {
    level: Level,
    finish: Finish<'a>,
    width: usize,
    totals: Totals,
    /// Whether what is moved is written past the cache.
    past: bool,
}

impl<'a> Finisher<'a> {
    pub(crate) fn new(level: Level, finish: Finish<'a>, channels: usize) -> Self {
        Self { level, finish, width: padded(channels), totals: Totals::default(), past: false }
    }

    /// Asks for part `part.0` of `part.1` of what finishing `results`, of which `pixel` is the
    /// first in the tensor, will read and write.
    pub(crate) fn look_ahead(&self, pixel: usize, (part, parts): (usize, usize), results: &[f32]) {
        // What is asked for must not drive out what is in use.
        if results.len() > AHEAD {
            return;
        }
        let len = (results.len() / parts).next_multiple_of(16);
        let start = pixel * self.width + part * len;
        let ask = |numbers: &[f32], start: usize| {
            self.level.run(LookAhead { numbers: Span::new(numbers), start, len });
        };
        ask(results, part * len);
        if let Some(skip) = self.finish.skip {
            ask(skip, start);
        }
        if let Gate::Output(x, _) | Gate::Input { x, .. } = self.finish.gate {
            ask(x, start);
        }
        if let Sums::Products { x, .. } = self.finish.sums {
            ask(x, start);
        }
    }

    /// For a tensor of `len` numbers: the results of a large one are written past the cache.
    pub(crate) fn of(mut self, len: usize) -> Self {
        // Only a vector that fills a line is written without reading the line first.
        self.past = len >= PAST && self.level.lanes() == LINE;
        self
    }

    /// Whether to write past the cache. The CPU does so only to lines, from their start.
    fn writes_past(&self, results: &[f32]) -> bool {
        self.past && results.as_ptr().addr().is_multiple_of(LINE * size_of::<f32>())
    }

    /// Finishes the results of `work`: whole pixels, of which `pixel` is the first in the tensor.
    pub(crate) fn make(
        &mut self,
        pixel: usize,
        results: &mut [f32],
        work: impl FnOnce(&mut [f32]),
    ) {
        if self.writes_past(results) {
            with_scratch([results.len()], |[made]| {
                work(made);
                self.run_to(pixel, made, results);
            });
        } else {
            work(results);
            self.run(pixel, results);
        }
    }

    /// As [`make`](Self::make), for work that can finish vectors as it makes them.
    pub(crate) fn make_by(
        &mut self,
        pixel: usize,
        results: &mut [f32],
        work: impl FnOnce(&mut Place<'_, 'a>),
    ) {
        if self.ends() {
            let count = results.len() / self.width;
            work(&mut Place::Ended { finisher: self, pixel, to: results });
            self.totals.count += count;
        } else {
            let level = self.level;
            self.make(pixel, results, |numbers| work(&mut Place::Plain { level, numbers }));
        }
    }

    /// Whether results can be finished vector by vector: in the two ways that matter, once
    /// it is known what moments are about.
    fn ends(&self) -> bool {
        match self.finish {
            Finish { skip: None, gate: Gate::Open, sums: Sums::Moments } => {
                !self.totals.about.is_empty()
            }
            Finish { skip: None, gate: Gate::Input { .. }, sums: Sums::Products { .. } } => true,
            _ => false,
        }
    }

    /// Makes and finishes results, of which `pixel` is the first in the tensor.
    fn end(&mut self, pixel: usize, to: &mut [f32], maker: &impl Makes) {
        self.prepare(&[]);
        let (level, past) = (self.level, self.writes_past(to));
        let moments = matches!(self.finish.sums, Sums::Moments);
        let to = SpanMut::new(to);
        let (block, _) = self.block_at(pixel, to, to);
        match (moments, past) {
            (true, true) => level.run(Made(maker, block.of::<PAST_CACHE, false, 0, 1>())),
            (true, false) => level.run(Made(maker, block.of::<STORED, false, 0, 1>())),
            (false, true) => level.run(Made(maker, block.of::<PAST_CACHE, false, 2, 2>())),
            (false, false) => level.run(Made(maker, block.of::<STORED, false, 2, 2>())),
        }
    }

    /// As [`run`](Self::run), from a place in the cache past it to the tensor.
    fn run_to(&mut self, pixel: usize, results: &mut [f32], to: &mut [f32]) {
        self.prepare(results);
        let mut pixel = pixel;
        let blocks = results.chunks_mut(BLOCK * self.width).zip(to.chunks_mut(BLOCK * self.width));
        for (block, to) in blocks {
            let count = block.len() / self.width;
            self.block::<PAST_CACHE>(pixel, count, (SpanMut::new(block), SpanMut::new(to)));
            self.totals.count += count;
            pixel += count;
        }
    }

    fn prepare(&mut self, results: &[f32]) {
        let summed = !matches!(self.finish.sums, Sums::None);
        if summed && self.totals.first.is_empty() {
            self.totals.first = vec![0.0; self.width];
            self.totals.second = vec![0.0; self.width];
            self.totals.about = match self.finish.sums {
                Sums::Moments => first_mean(results, self.width),
                _ => vec![0.0; self.width],
            };
        }
    }

    /// Finishes whole pixels, of which `pixel` is the first in the tensor.
    pub(crate) fn run(&mut self, pixel: usize, results: &mut [f32]) {
        if matches!(self.finish, Finish { skip: None, gate: Gate::Open, sums: Sums::None }) {
            return;
        }
        self.prepare(results);
        let mut pixel = pixel;
        for block in results.chunks_mut(BLOCK * self.width) {
            let count = block.len() / self.width;
            let block = SpanMut::new(block);
            self.block::<IN_PLACE>(pixel, count, (block, block));
            self.totals.count += count;
            pixel += count;
        }
    }

    pub(crate) fn totals(mut self) -> Totals {
        std::mem::take(&mut self.totals)
    }

    fn block<const TO: u8>(
        &mut self,
        pixel: usize,
        count: usize,
        (results, to): (SpanMut<'_>, SpanMut<'_>),
    ) {
        let level = self.level;
        let skip = self.finish.skip.is_some();
        let (mut block, (gate, sums)) = self.block_at(pixel, results, to);
        block.count = count;
        match (skip, gate, sums) {
            (false, 0, 1) => level.run(block.of::<TO, false, 0, 1>()),
            (false, 0, 2) => level.run(block.of::<TO, false, 0, 2>()),
            (false, 1, 0) => level.run(block.of::<TO, false, 1, 0>()),
            (false, 1, 1) => level.run(block.of::<TO, false, 1, 1>()),
            (false, 1, 2) => level.run(block.of::<TO, false, 1, 2>()),
            (false, 2, 0) => level.run(block.of::<TO, false, 2, 0>()),
            (false, 2, 1) => level.run(block.of::<TO, false, 2, 1>()),
            (false, 2, 2) => level.run(block.of::<TO, false, 2, 2>()),
            (true, 0, 0) => level.run(block.of::<TO, true, 0, 0>()),
            (true, 0, 1) => level.run(block.of::<TO, true, 0, 1>()),
            (true, 0, 2) => level.run(block.of::<TO, true, 0, 2>()),
            (true, 1, 0) => level.run(block.of::<TO, true, 1, 0>()),
            (true, 1, 1) => level.run(block.of::<TO, true, 1, 1>()),
            (true, 1, 2) => level.run(block.of::<TO, true, 1, 2>()),
            (true, 2, 0) => level.run(block.of::<TO, true, 2, 0>()),
            (true, 2, 1) => level.run(block.of::<TO, true, 2, 1>()),
            (true, 2, _) => level.run(block.of::<TO, true, 2, 2>()),
            _ if TO != IN_PLACE => level.run(block.of::<TO, false, 0, 0>()),
            _ => {}
        }
    }
}

impl<'a> Finisher<'a> {
    /// Pixels from `pixel` on, and how they are gated and summed, as numbers for [`Finishing`].
    fn block_at<'b>(
        &'b mut self,
        pixel: usize,
        results: SpanMut<'b>,
        to: SpanMut<'b>,
    ) -> (Block<'b>, (u8, u8)) {
        let (width, start) = (self.width, pixel * self.width);
        let none = Span::new(&[]);
        let at = |numbers: &'a [f32]| Span::new(numbers).from(start);
        let mut block = Block {
            results,
            to,
            count: 0,
            width,
            skip: self.finish.skip.map_or(none, at),
            gate: none,
            coefficients: none,
            bounds: [f32::NAN; 2],
            x: none,
            about: Span::new(&self.totals.about),
            first: &mut self.totals.first,
            second: &mut self.totals.second,
        };
        let gate = match self.finish.gate {
            Gate::Open => 0,
            Gate::Output(output, activation) => {
                block.gate = at(output);
                block.bounds = activation.bounds();
                1
            }
            Gate::Input { x, coefficients, activation } => {
                block.gate = at(x);
                block.coefficients = Span::new(coefficients);
                block.bounds = activation.bounds();
                2
            }
        };
        let sums = match self.finish.sums {
            Sums::None => 0,
            Sums::Moments => 1,
            Sums::Products { x, mean } => {
                block.x = at(x);
                block.about = Span::new(mean);
                2
            }
        };
        (block, (gate, sums))
    }
}

/// Where a kernel puts its results.
pub(crate) enum Place<'b, 'a> {
    /// Here; they will be finished.
    Plain { level: Level, numbers: &'b mut [f32] },
    /// Finished.
    Ended { finisher: &'b mut Finisher<'a>, pixel: usize, to: &'b mut [f32] },
}

impl Place<'_, '_> {
    pub(crate) fn put(&mut self, maker: &impl Makes) {
        match self {
            Self::Plain { level, numbers } => {
                let numbers = SpanMut::new(numbers);
                level.run(Made(maker, Plain { numbers, add: false }));
            }
            Self::Ended { finisher, pixel, to } => finisher.end(*pixel, to, maker),
        }
    }
}

impl Drop for Finisher<'_> {
    fn drop(&mut self) {
        if self.past {
            // Before others may read what was written past the cache.
            self.level.run(Fence);
        }
    }
}

/// Asks for numbers that will be used soon.
struct LookAhead<'a> {
    numbers: Span<'a>,
    start: usize,
    len: usize,
}

impl Kernel for LookAhead<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        self.numbers.prefetch::<S>(self.start, self.len);
    }
}

/// Waits until what was written past the cache is there for all threads.
struct Fence;

impl Kernel for Fence {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        S::fence();
    }
}

/// The mean of the first pixels.
fn first_mean(results: &[f32], width: usize) -> Vec<f32> {
    let count = (results.len() / width).clamp(1, FIRST);
    let mut mean = vec![0.0; width];
    for pixel in results.chunks(width).take(count) {
        mean.iter_mut().zip(pixel).for_each(|(m, x)| *m += x / count as f32);
    }
    // Nothing is about infinity.
    mean.iter_mut().filter(|m| !m.is_finite()).for_each(|m| *m = 0.0);
    mean
}
