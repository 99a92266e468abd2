//! Vectors of `f32`, one source for every CPU.
//!
//! A kernel is a struct with a generic body, `Kernel::run`. `Level::run` runs the
//! body inside a function that has the CPU's features switched on, so that all of it,
//! down to the innermost loop, is compiled for them:
//!
//! ```text
//! level.run(Kernel { .. })  ->  on_avx512(kernel)  ->  kernel.run::<Avx512>()
//! ```
//!
//! Arrays that the compiler should vectorise by itself were measured and are no
//! alternative: they run at full speed or at a twentieth of it, by the whim of the tile size.

mod level;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use level::{Level, LevelError};

/// Channels are stored in groups of this many, on every CPU: the lanes of the widest vectors.
pub const GROUP: usize = 16;

/// `channels` rounded up to whole groups.
pub const fn padded(channels: usize) -> usize {
    channels.next_multiple_of(GROUP)
}

/// A vector of [`LANES`](Simd::LANES) numbers.
///
/// # Safety
///
/// Methods may assume the CPU features of their level. [`Level::run`], which knows that
/// the CPU has them, is the only place that names an implementation.
pub(crate) unsafe trait Simd: Copy {
    /// Numbers in a vector; divides [`GROUP`].
    const LANES: usize;

    fn splat(x: f32) -> Self;

    /// # Safety
    ///
    /// `p` is valid for reading `LANES` numbers; it need not be aligned.
    unsafe fn load(p: *const f32) -> Self;

    /// # Safety
    ///
    /// `p` is valid for writing `LANES` numbers; it need not be aligned.
    unsafe fn store(self, p: *mut f32);

    /// Stores past the cache, where the CPU can.
    ///
    /// # Safety
    ///
    /// As for [`store`](Self::store), and `p` is aligned to the vector.
    unsafe fn stream(self, p: *mut f32) {
        // SAFETY: by contract.
        unsafe { self.store(p) }
    }

    /// After it, all threads see what was [streamed](Self::stream).
    fn fence() {}

    /// `self * b + c`, rounded once where the CPU can.
    fn mul_add(self, b: Self, c: Self) -> Self;
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;

    /// The larger; `self` if either is NaN.
    fn at_least(self, least: Self) -> Self;

    /// The smaller; `self` if either is NaN.
    fn at_most(self, most: Self) -> Self;

    /// `self`, but zero where `x <= low`. A NaN in `x` or `low` keeps `self`.
    fn unless_below(self, x: Self, low: Self) -> Self;

    /// `self`, but zero where `x >= high`. A NaN in `x` or `high` keeps `self`.
    fn unless_above(self, x: Self, high: Self) -> Self;

    /// `self` where `x > than` or `x` is NaN, and `other` elsewhere.
    fn if_larger(self, other: Self, x: Self, than: Self) -> Self;

    /// Asks for the cache line at `p`, which may be any address.
    fn prefetch(p: *const f32);

    fn zero() -> Self {
        Self::splat(0.0)
    }
}

/// A computation over vectors of any width.
pub(crate) trait Kernel {
    type Output;

    /// Must be `#[inline(always)]`, and so must everything it calls: what is not inlined
    /// is compiled without the CPU's features.
    fn run<S: Simd>(self) -> Self::Output;
}
