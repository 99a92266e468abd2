//! What happens to a kernel's results while they are still in the cache.
//!
//! Forward, the statistics of a batch are gathered. Backward, the gradient that flows
//! around a block is added, the activation's gate is applied, and the sums are
//! gathered that the batch norm before it needs.
//!
//! Sums run in `f32` over a few hundred pixels and in `f64` from there, about a
//! value near the mean: a large mean costs no digits.

use crate::memory::with_scratch;
use crate::read::Activation;
use crate::simd::{Kernel, Level, Simd, padded};
use crate::span::{Span, SpanMut};

/// Pixels that are summed in `f32`.
const BLOCK: usize = 512;

/// Numbers of a tensor that the cache does not hold until they are read again.
const PAST: usize = if cfg!(test) { 16 << 10 } else { 4 << 20 };

/// Numbers of a cache line.
const LINE: usize = 16;

/// Pixels whose mean stands for the mean of all while it is not known.
const FIRST: usize = 64;

/// The results that may be asked for ahead.
const AHEAD: usize = 32 * 1024;

/// What to do with results, in this order.
#[derive(Debug, Clone, Copy)]
pub struct Finish<'a> {
    /// Is added.
    pub skip: Option<&'a [f32]>,
    /// Zeroes what an activation did not let through.
    pub gate: Gate<'a>,
    /// Are gathered.
    pub sums: Sums<'a>,
}

/// Where an activation let values through.
#[derive(Debug, Clone, Copy)]
pub enum Gate<'a> {
    /// Everywhere.
    Open,
    /// Where this, what the activation gave, is within its bounds.
    Output(&'a [f32], Activation),
    /// Where `scale * x + shift`, what the activation was given, is within its bounds.
    Input {
        /// The stored tensor.
        x: &'a [f32],
        /// Scale, then shift, of each padded channel.
        coefficients: &'a [f32],
        /// The activation.
        activation: Activation,
    },
}

/// What is summed over the pixels of each channel.
#[derive(Debug, Clone, Copy)]
pub enum Sums<'a> {
    /// Nothing.
    None,
    /// The results and their squares, about a value near the mean.
    Moments,
    /// The results, and their products with `x - mean`.
    Products {
        /// A tensor of the same shape.
        x: &'a [f32],
        /// Of each padded channel.
        mean: &'a [f32],
    },
}

impl Finish<'_> {
    /// Nothing at all.
    pub const NOTHING: Self = Self { skip: None, gate: Gate::Open, sums: Sums::None };

    /// Gathers moments.
    pub const MOMENTS: Self = Self { skip: None, gate: Gate::Open, sums: Sums::Moments };
}

/// Sums over some of the pixels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// The pixels.
    pub count: usize,
    /// Per padded channel: what the moments are about; of products, nothing.
    about: Vec<f32>,
    /// Per padded channel: of the results, less `about`.
    first: Vec<f64>,
    /// Per padded channel: of the squares, or the products.
    second: Vec<f64>,
}

impl Totals {
    /// The mean and the variance, divided by the number of pixels, of each padded channel.
    pub fn moments(parts: &[Self]) -> (Vec<f64>, Vec<f64>) {
        let width = parts.iter().map(|part| part.first.len()).max().unwrap_or(0);
        let (mut mean, mut squares) = (vec![0.0_f64; width], vec![0.0; width]);
        let mut count = 0.0;
        for part in parts.iter().filter(|part| part.count > 0) {
            let n = part.count as f64;
            for c in 0..width {
                let excess = part.first[c] / n;
                let part_mean = f64::from(part.about[c]) + excess;
                if !(mean[c].is_finite() && part_mean.is_finite()) {
                    // Infinity and infinity are one, and their distance is not a number.
                    mean[c] = (mean[c] * count + part_mean * n) / (count + n);
                    squares[c] = f64::NAN;
                    continue;
                }
                // A sum of squares cannot be negative but for rounding; a NaN stays one.
                let part_squares = part.second[c] - excess * part.first[c];
                let part_squares = if part_squares < 0.0 { 0.0 } else { part_squares };
                let apart = part_mean - mean[c];
                mean[c] += apart * n / (count + n);
                squares[c] += part_squares + apart * apart * count * n / (count + n);
            }
            count += n;
        }
        squares.iter_mut().for_each(|s| *s /= f64::max(count, 1.0));
        (mean, squares)
    }

    /// The sums of the results and of the products of each padded channel.
    pub fn products(parts: &[Self]) -> (Vec<f64>, Vec<f64>) {
        let width = parts.iter().map(|part| part.first.len()).max().unwrap_or(0);
        let total = |of: fn(&Self) -> &Vec<f64>| {
            let mut total = vec![0.0; width];
            for part in parts.iter().filter(|part| part.count > 0) {
                total.iter_mut().zip(of(part)).for_each(|(t, p)| *t += p);
            }
            total
        };
        (total(|part| &part.first), total(|part| &part.second))
    }
}

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

/// A kernel that hands over its results vector by vector.
pub(crate) trait Makes {
    /// As [`Kernel::run`].
    fn make<S: Simd>(&self, ending: &mut impl Ending);
}

impl<M: Makes> Makes for &M {
    #[inline(always)]
    fn make<S: Simd>(&self, ending: &mut impl Ending) {
        M::make::<S>(self, ending);
    }
}

/// What happens to a vector of results.
pub(crate) trait Ending {
    /// Whether a product compiles loops of their own for the usual distances of its rows.
    const MANY_LOOPS: bool = false;

    /// What is the same for all pixels of a vector of channels.
    type Channels<S: Simd>: Copy;

    /// # Safety
    ///
    /// The vector of channels at `c` lies within the padded channels.
    unsafe fn channels<S: Simd>(&self, c: usize) -> Self::Channels<S>;

    /// Puts a vector of results to number `i`, and adds to its channels' sums.
    ///
    /// # Safety
    ///
    /// The vector lies within the results, and nobody else reads it.
    unsafe fn put<S: Simd>(
        &self,
        i: usize,
        value: S,
        channels: &Self::Channels<S>,
        sums: &mut Gathered<S>,
    );

    /// Takes the sums of the vector of channels at `c`.
    ///
    /// # Safety
    ///
    /// As for [`channels`](Self::channels).
    unsafe fn gather<S: Simd>(&mut self, c: usize, sums: Gathered<S>);
}

/// Sums over some pixels of a vector of channels.
#[derive(Clone, Copy)]
pub(crate) struct Gathered<S> {
    first: S,
    second: S,
}

impl<S: Simd> Gathered<S> {
    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Self { first: S::zero(), second: S::zero() }
    }
}

/// A kernel, and what happens to its results.
pub(crate) struct Made<M, E>(pub M, pub E);

impl<M: Makes, E: Ending> Kernel for Made<M, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self) {
        self.0.make::<S>(&mut self.1);
    }
}

/// Results as they are, or added to what is there.
pub(crate) struct Plain<'a> {
    pub numbers: SpanMut<'a>,
    pub add: bool,
}

impl Ending for Plain<'_> {
    const MANY_LOOPS: bool = true;

    type Channels<S: Simd> = ();

    #[inline(always)]
    unsafe fn channels<S: Simd>(&self, _: usize) {}

    #[inline(always)]
    unsafe fn put<S: Simd>(&self, i: usize, value: S, (): &(), _: &mut Gathered<S>) {
        // SAFETY: by contract.
        unsafe {
            let there = self.numbers.read();
            self.numbers.put(i, if self.add { value.add(there.vector(i)) } else { value });
        }
    }

    #[inline(always)]
    unsafe fn gather<S: Simd>(&mut self, _: usize, _: Gathered<S>) {}
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

/// A block of pixels; spans start at the first.
struct Block<'a> {
    results: SpanMut<'a>,
    /// Where they go.
    to: SpanMut<'a>,
    count: usize,
    width: usize,
    skip: Span<'a>,
    gate: Span<'a>,
    coefficients: Span<'a>,
    bounds: [f32; 2],
    x: Span<'a>,
    about: Span<'a>,
    first: &'a mut [f64],
    second: &'a mut [f64],
}

impl<'a> Block<'a> {
    fn of<const TO: u8, const SKIP: bool, const GATE: u8, const SUMS: u8>(
        self,
    ) -> Finishing<'a, TO, SKIP, GATE, SUMS> {
        Finishing(self)
    }
}

/// Results stay where they are, and are written only if they change.
const IN_PLACE: u8 = 0;
/// Results are written.
const STORED: u8 = 1;
/// Results are written past the cache.
const PAST_CACHE: u8 = 2;

/// What is the same for all pixels of a vector of channels.
#[derive(Clone, Copy)]
struct Channels<S> {
    scale: S,
    shift: S,
    low: S,
    high: S,
    about: S,
}

/// To: one of the above. Gate: 0 open, 1 by the output, 2 by the input. Sums: 0 none, 1 moments,
/// 2 products.
struct Finishing<'a, const TO: u8, const SKIP: bool, const GATE: u8, const SUMS: u8>(Block<'a>);

impl<const TO: u8, const SKIP: bool, const GATE: u8, const SUMS: u8> Kernel
    for Finishing<'_, TO, SKIP, GATE, SUMS>
{
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let (width, count, results) = (self.0.width, self.0.count, self.0.results.read());
        for c in (0..width).step_by(S::LANES) {
            // SAFETY: all spans hold `count` pixels of `width` numbers.
            unsafe {
                let channels = self.channels::<S>(c);
                // Two of each: an addition takes longer than the next is away.
                let mut sums = [Gathered::<S>::zero(); 2];
                for pair in 0..count / 2 {
                    let i = 2 * pair * width + c;
                    self.put(i, results.vector(i), &channels, &mut sums[0]);
                    let i = i + width;
                    self.put(i, results.vector(i), &channels, &mut sums[1]);
                }
                if count % 2 == 1 {
                    let i = (count - 1) * width + c;
                    self.put(i, results.vector(i), &channels, &mut sums[0]);
                }
                let [even, odd] = sums;
                let (first, second) = (even.first.add(odd.first), even.second.add(odd.second));
                self.gather(c, Gathered { first, second });
            }
        }
    }
}

impl<const TO: u8, const SKIP: bool, const GATE: u8, const SUMS: u8> Ending
    for Finishing<'_, TO, SKIP, GATE, SUMS>
{
    type Channels<S: Simd> = Channels<S>;

    #[inline(always)]
    unsafe fn channels<S: Simd>(&self, c: usize) -> Channels<S> {
        let block = &self.0;
        let [low, high] = block.bounds.map(S::splat);
        // SAFETY: spans per channel hold `width` numbers, or twice that.
        unsafe {
            let (scale, shift) = match GATE {
                2 => (block.coefficients.vector(c), block.coefficients.vector(block.width + c)),
                _ => (S::zero(), S::zero()),
            };
            let about = if SUMS > 0 { block.about.vector(c) } else { S::zero() };
            Channels { scale, shift, low, high, about }
        }
    }

    #[inline(always)]
    unsafe fn put<S: Simd>(
        &self,
        i: usize,
        mut value: S,
        channels: &Channels<S>,
        sums: &mut Gathered<S>,
    ) {
        let block = &self.0;
        // SAFETY: by contract; all spans are as long as the results.
        unsafe {
            if SKIP {
                value = value.add(block.skip.vector(i));
            }
            if GATE > 0 {
                let mut x: S = block.gate.vector(i);
                if GATE == 2 {
                    x = x.mul_add(channels.scale, channels.shift);
                }
                value = value.unless_below(x, channels.low).unless_above(x, channels.high);
            }
            match TO {
                PAST_CACHE => block.to.put_past(i, value),
                STORED => block.to.put(i, value),
                _ if SKIP || GATE > 0 => block.to.put(i, value),
                _ => {}
            }
            if SUMS == 1 {
                let value = value.sub(channels.about);
                sums.first = sums.first.add(value);
                sums.second = value.mul_add(value, sums.second);
            }
            if SUMS == 2 {
                let x: S = block.x.vector(i);
                sums.first = sums.first.add(value);
                sums.second = value.mul_add(x.sub(channels.about), sums.second);
            }
        }
    }

    #[inline(always)]
    unsafe fn gather<S: Simd>(&mut self, c: usize, sums: Gathered<S>) {
        if SUMS > 0 {
            let mut numbers = [[0.0; crate::simd::GROUP]; 2];
            // SAFETY: a group is at least a vector.
            unsafe {
                sums.first.store(numbers[0].as_mut_ptr());
                sums.second.store(numbers[1].as_mut_ptr());
            }
            let [first, second] = numbers.map(|sums| sums.into_iter().take(S::LANES));
            let to = self.0.first[c..].iter_mut().zip(&mut self.0.second[c..]);
            for ((to_first, to_second), (first, second)) in to.zip(first.zip(second)) {
                *to_first += f64::from(first);
                *to_second += f64::from(second);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments_of(parts: &[[f32; 3]]) -> (f64, f64) {
        let totals = |pixels: &[f32; 3]| {
            let mut results: Vec<f32> = pixels.iter().flat_map(|x| [*x; 16]).collect();
            let mut finisher = Finisher::new(Level::best(), Finish::MOMENTS, 16);
            finisher.run(0, &mut results);
            finisher.totals()
        };
        let (mean, variance) = Totals::moments(&parts.iter().map(totals).collect::<Vec<_>>());
        (mean[0], variance[0])
    }

    #[test]
    fn moments_are_those_of_all_parts() {
        assert_eq!(moments_of(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), (3.5, 35.0 / 12.0));
    }

    #[test]
    fn the_mean_of_infinity_is_infinite_wherever_it_stands() {
        let (finite, first) = ([1.0, 2.0, 3.0], [f32::INFINITY, 1.0, 2.0]);
        for parts in [[first, finite], [finite, first], [finite, [1.0, f32::INFINITY, 2.0]]] {
            let (mean, variance) = moments_of(&parts);
            assert_eq!(mean, f64::INFINITY);
            assert!(variance.is_nan());
        }
        let (mean, _) = moments_of(&[finite, [f32::NAN, 0.0, 0.0], first]);
        assert!(mean.is_nan());
    }
}
