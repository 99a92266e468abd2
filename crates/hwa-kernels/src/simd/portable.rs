//! Plain Rust, on every CPU: four numbers at a time, which is what SSE and NEON hold.

use super::Simd;

/// Four numbers.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; 4]);

impl Portable {
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        let (a, b) = (self.0, b.0);
        Self([f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])])
    }

    #[inline(always)]
    fn zip3(self, b: Self, c: Self, f: impl Fn(f32, f32, f32) -> f32) -> Self {
        let (a, b, c) = (self.0, b.0, c.0);
        let at = |i: usize| f(a[i], b[i], c[i]);
        Self([at(0), at(1), at(2), at(3)])
    }
}

// SAFETY: 4 lanes are read and written at a time, with no feature of the CPU.
unsafe impl Simd for Portable {
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        Self([x; 4])
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: valid for four numbers by contract; an array has the alignment of its elements.
        Self(unsafe { *p.cast::<[f32; 4]>() })
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: as above.
        unsafe { *p.cast::<[f32; 4]>() = self.0 }
    }

    /// Rounded twice: without hardware for it, a single rounding is a call per number.
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self.mul(b).add(c)
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.zip(b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.zip(b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.zip(b, |a, b| a * b)
    }

    #[inline(always)]
    fn at_least(self, least: Self) -> Self {
        self.zip(least, |a, least| if least > a { least } else { a })
    }

    #[inline(always)]
    fn at_most(self, most: Self) -> Self {
        self.zip(most, |a, most| if most < a { most } else { a })
    }

    #[inline(always)]
    fn unless_below(self, x: Self, low: Self) -> Self {
        self.zip3(x, low, |value, x, low| if x <= low { 0.0 } else { value })
    }

    #[inline(always)]
    fn unless_above(self, x: Self, high: Self) -> Self {
        self.zip3(x, high, |value, x, high| if x >= high { 0.0 } else { value })
    }

    #[inline(always)]
    fn if_larger(self, other: Self, x: Self, than: Self) -> Self {
        let larger = |i: usize| x.0[i] > than.0[i] || x.0[i].is_nan();
        let at = |i: usize| if larger(i) { self.0[i] } else { other.0[i] };
        Self([at(0), at(1), at(2), at(3)])
    }

    #[inline(always)]
    fn prefetch(_: *const f32) {}
}
