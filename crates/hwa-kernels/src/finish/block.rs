//! The loops over a block of results: a vector is added to, gated, put and summed.

use super::ending::{Ending, Gathered};
use crate::simd::{Kernel, Simd};
use crate::span::{Span, SpanMut};

/// A block of pixels; spans start at the first.
pub(super) struct Block<'a> {
    pub results: SpanMut<'a>,
    /// Where they go.
    pub to: SpanMut<'a>,
    pub count: usize,
    pub width: usize,
    pub skip: Span<'a>,
    pub gate: Span<'a>,
    pub coefficients: Span<'a>,
    pub bounds: [f32; 2],
    pub x: Span<'a>,
    pub about: Span<'a>,
    pub first: &'a mut [f64],
    pub second: &'a mut [f64],
}

impl<'a> Block<'a> {
    pub(super) fn of<const TO: u8, const SKIP: bool, const GATE: u8, const SUMS: u8>(
        self,
    ) -> Finishing<'a, TO, SKIP, GATE, SUMS> {
        Finishing(self)
    }
}

/// Results stay where they are, and are written only if they change.
pub(super) const IN_PLACE: u8 = 0;
/// Results are written.
pub(super) const STORED: u8 = 1;
/// Results are written past the cache.
pub(super) const PAST_CACHE: u8 = 2;

/// What is the same for all pixels of a vector of channels.
#[derive(Clone, Copy)]
pub(super) struct Channels<S> {
    scale: S,
    shift: S,
    low: S,
    high: S,
    about: S,
}

/// To: one of the above. Gate: 0 open, 1 by the output, 2 by the input. Sums: 0 none, 1 moments,
/// 2 products.
pub(super) struct Finishing<'a, const TO: u8, const SKIP: bool, const GATE: u8, const SUMS: u8>(
    Block<'a>,
);

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
