//! Kernels that hand over their results vector by vector, and where those go.

use crate::simd::{Kernel, Simd};
use crate::span::SpanMut;

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
    pub(super) first: S,
    pub(super) second: S,
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
