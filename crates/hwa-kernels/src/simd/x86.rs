//! AVX-512 and AVX2 with FMA.
//!
//! `_mm512_max_ps` and its kin give their second operand if one is NaN, so the operand
//! whose NaN is to be kept comes second.

use std::arch::x86_64::*;

use super::Simd;

/// Sixteen numbers.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512);

/// Eight numbers.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256);

// SAFETY of the blocks below: `Simd` may assume the features of its level, and pointers
// are valid by the contracts of `load` and `store`. A prefetch may name any address.

// SAFETY: 16 lanes are read and written at a time.
unsafe impl Simd for Avx512 {
    const LANES: usize = 16;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_loadu_ps(p) })
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_ps(p, self.0) }
    }

    #[inline(always)]
    unsafe fn stream(self, p: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm512_stream_ps(p, self.0) }
    }

    #[inline(always)]
    fn fence() {
        // SAFETY: see above.
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_fmadd_ps(self.0, b.0, c.0) })
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_add_ps(self.0, b.0) })
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_sub_ps(self.0, b.0) })
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_mul_ps(self.0, b.0) })
    }

    #[inline(always)]
    fn at_least(self, least: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_max_ps(least.0, self.0) })
    }

    #[inline(always)]
    fn at_most(self, most: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_min_ps(most.0, self.0) })
    }

    #[inline(always)]
    fn unless_below(self, x: Self, low: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x.0, low.0);
            Self(_mm512_maskz_mov_ps(keep, self.0))
        }
    }

    #[inline(always)]
    fn unless_above(self, x: Self, high: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_NGE_UQ>(x.0, high.0);
            Self(_mm512_maskz_mov_ps(keep, self.0))
        }
    }

    #[inline(always)]
    fn if_larger(self, other: Self, x: Self, than: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            let larger = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x.0, than.0);
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x.0, x.0);
            Self(_mm512_mask_blend_ps(larger | nan, other.0, self.0))
        }
    }

    #[inline(always)]
    fn prefetch(p: *const f32) {
        // SAFETY: see above.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
    }
}

// SAFETY: 8 lanes are read and written at a time.
unsafe impl Simd for Avx2 {
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_loadu_ps(p) })
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_ps(p, self.0) }
    }

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_fmadd_ps(self.0, b.0, c.0) })
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_add_ps(self.0, b.0) })
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_sub_ps(self.0, b.0) })
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_mul_ps(self.0, b.0) })
    }

    #[inline(always)]
    fn at_least(self, least: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_max_ps(least.0, self.0) })
    }

    #[inline(always)]
    fn at_most(self, most: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_min_ps(most.0, self.0) })
    }

    #[inline(always)]
    fn unless_below(self, x: Self, low: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            let keep = _mm256_cmp_ps::<_CMP_NLE_UQ>(x.0, low.0);
            Self(_mm256_and_ps(keep, self.0))
        }
    }

    #[inline(always)]
    fn unless_above(self, x: Self, high: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            let keep = _mm256_cmp_ps::<_CMP_NGE_UQ>(x.0, high.0);
            Self(_mm256_and_ps(keep, self.0))
        }
    }

    #[inline(always)]
    fn if_larger(self, other: Self, x: Self, than: Self) -> Self {
        // SAFETY: see above.
        unsafe {
            let larger = _mm256_cmp_ps::<_CMP_GT_OQ>(x.0, than.0);
            let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(x.0, x.0);
            Self(_mm256_blendv_ps(other.0, self.0, _mm256_or_ps(larger, nan)))
        }
    }

    #[inline(always)]
    fn prefetch(p: *const f32) {
        // SAFETY: see above.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
    }
}
