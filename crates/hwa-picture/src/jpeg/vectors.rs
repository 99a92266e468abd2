//! Lines of eight numbers, worked on at once, and loops compiled for the CPU at hand.
//!
//! `pulp` offers instructions behind values that exist only where the CPU has them, so that
//! none of this is unsafe. Everything is in whole numbers: every CPU gives the same bytes.

/// Work in loops that become as fast as the CPU allows. What it calls must be inlined into it,
/// which closures are not.
pub(super) trait Work {
    type Output;

    fn run<V: Vectors>(self, v: V) -> Self::Output;
}

/// Does work with the best vectors that there are.
pub(super) fn fast<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if let Some(v) = pulp::x86::V3::try_new() {
        return v.vectorize(avx2::Bound { v, work });
    }
    work.run(Portable)
}

/// What the transform needs of a CPU. Every implementation gives the same numbers.
pub(super) trait Vectors: Copy {
    /// Eight numbers.
    type Line: Copy;

    fn widened(self, line: &[i16; 8]) -> Self::Line;
    fn zeros(self) -> Self::Line;
    fn plus(self, a: Self::Line, b: Self::Line) -> Self::Line;
    fn minus(self, a: Self::Line, b: Self::Line) -> Self::Line;
    fn times(self, line: Self::Line, factor: i32) -> Self::Line;
    /// Divided by two to the power of `SHIFT`, rounded.
    fn scaled<const SHIFT: i32>(self, line: Self::Line) -> Self::Line;
    fn transposed(self, lines: [Self::Line; 8]) -> [Self::Line; 8];
    /// Around the middle of a byte, within its limits.
    fn bytes(self, lines: [Self::Line; 8]) -> [[u8; 8]; 8];
}

/// For every CPU.
#[derive(Clone, Copy)]
pub(super) struct Portable;

// Wrapping: a file may say anything.
impl Vectors for Portable {
    type Line = [i32; 8];

    #[inline(always)]
    fn widened(self, line: &[i16; 8]) -> [i32; 8] {
        line.map(i32::from)
    }

    #[inline(always)]
    fn zeros(self) -> [i32; 8] {
        [0; 8]
    }

    #[inline(always)]
    fn plus(self, mut a: [i32; 8], b: [i32; 8]) -> [i32; 8] {
        for (a, b) in a.iter_mut().zip(b) {
            *a = a.wrapping_add(b);
        }
        a
    }

    #[inline(always)]
    fn minus(self, mut a: [i32; 8], b: [i32; 8]) -> [i32; 8] {
        for (a, b) in a.iter_mut().zip(b) {
            *a = a.wrapping_sub(b);
        }
        a
    }

    #[inline(always)]
    fn times(self, mut line: [i32; 8], factor: i32) -> [i32; 8] {
        for value in &mut line {
            *value = value.wrapping_mul(factor);
        }
        line
    }

    #[inline(always)]
    fn scaled<const SHIFT: i32>(self, mut line: [i32; 8]) -> [i32; 8] {
        for value in &mut line {
            *value = value.wrapping_add(1 << (SHIFT - 1)) >> SHIFT;
        }
        line
    }

    #[inline(always)]
    fn transposed(self, lines: [[i32; 8]; 8]) -> [[i32; 8]; 8] {
        let mut out = [[0; 8]; 8];
        for (x, line) in lines.iter().enumerate() {
            for (y, value) in line.iter().enumerate() {
                out[y][x] = *value;
            }
        }
        out
    }

    #[inline(always)]
    fn bytes(self, lines: [[i32; 8]; 8]) -> [[u8; 8]; 8] {
        lines.map(|line| line.map(|value| (value + 128).clamp(0, 255) as u8))
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::__m256i;

    use pulp::x86::V3;

    use super::{Vectors, Work};

    /// Work and the vectors it is done with.
    pub(super) struct Bound<W> {
        pub(super) v: V3,
        pub(super) work: W,
    }

    impl<W: Work> pulp::NullaryFnOnce for Bound<W> {
        type Output = W::Output;

        #[inline(always)]
        fn call(self) -> W::Output {
            self.work.run(self.v)
        }
    }

    impl Vectors for V3 {
        type Line = __m256i;

        #[inline(always)]
        fn widened(self, line: &[i16; 8]) -> __m256i {
            self.avx2._mm256_cvtepi16_epi32(pulp::cast(*line))
        }

        #[inline(always)]
        fn zeros(self) -> __m256i {
            self.avx._mm256_setzero_si256()
        }

        #[inline(always)]
        fn plus(self, a: __m256i, b: __m256i) -> __m256i {
            self.avx2._mm256_add_epi32(a, b)
        }

        #[inline(always)]
        fn minus(self, a: __m256i, b: __m256i) -> __m256i {
            self.avx2._mm256_sub_epi32(a, b)
        }

        #[inline(always)]
        fn times(self, line: __m256i, factor: i32) -> __m256i {
            self.avx2._mm256_mullo_epi32(line, self.avx._mm256_set1_epi32(factor))
        }

        #[inline(always)]
        fn scaled<const SHIFT: i32>(self, line: __m256i) -> __m256i {
            let half = self.avx._mm256_set1_epi32(1 << (SHIFT - 1));
            self.avx2._mm256_srai_epi32::<SHIFT>(self.plus(line, half))
        }

        #[inline(always)]
        fn transposed(self, [a, b, c, d, e, f, g, h]: [__m256i; 8]) -> [__m256i; 8] {
            // Two by two, four by four, and the halves.
            let [a, c, e, g, b, d, f, h] = [
                self.avx2._mm256_unpacklo_epi32(a, b),
                self.avx2._mm256_unpacklo_epi32(c, d),
                self.avx2._mm256_unpacklo_epi32(e, f),
                self.avx2._mm256_unpacklo_epi32(g, h),
                self.avx2._mm256_unpackhi_epi32(a, b),
                self.avx2._mm256_unpackhi_epi32(c, d),
                self.avx2._mm256_unpackhi_epi32(e, f),
                self.avx2._mm256_unpackhi_epi32(g, h),
            ];
            let [a, b, c, d, e, f, g, h] = [
                self.avx2._mm256_unpacklo_epi64(a, c),
                self.avx2._mm256_unpackhi_epi64(a, c),
                self.avx2._mm256_unpacklo_epi64(b, d),
                self.avx2._mm256_unpackhi_epi64(b, d),
                self.avx2._mm256_unpacklo_epi64(e, g),
                self.avx2._mm256_unpackhi_epi64(e, g),
                self.avx2._mm256_unpacklo_epi64(f, h),
                self.avx2._mm256_unpackhi_epi64(f, h),
            ];
            [
                self.avx2._mm256_permute2x128_si256::<0x20>(a, e),
                self.avx2._mm256_permute2x128_si256::<0x20>(b, f),
                self.avx2._mm256_permute2x128_si256::<0x20>(c, g),
                self.avx2._mm256_permute2x128_si256::<0x20>(d, h),
                self.avx2._mm256_permute2x128_si256::<0x31>(a, e),
                self.avx2._mm256_permute2x128_si256::<0x31>(b, f),
                self.avx2._mm256_permute2x128_si256::<0x31>(c, g),
                self.avx2._mm256_permute2x128_si256::<0x31>(d, h),
            ]
        }

        #[inline(always)]
        fn bytes(self, [a, b, c, d, e, f, g, h]: [__m256i; 8]) -> [[u8; 8]; 8] {
            let [a, b, c, d] = four(self, [a, b, c, d]);
            let [e, f, g, h] = four(self, [e, f, g, h]);
            [a, b, c, d, e, f, g, h]
        }
    }

    #[inline(always)]
    fn four(v: V3, [a, b, c, d]: [__m256i; 4]) -> [[u8; 8]; 4] {
        let middle = v.avx._mm256_set1_epi32(128);
        let upper = v.avx2._mm256_packs_epi32(v.plus(a, middle), v.plus(b, middle));
        let lower = v.avx2._mm256_packs_epi32(v.plus(c, middle), v.plus(d, middle));
        let bytes = v.avx2._mm256_packus_epi16(upper, lower);
        // Packing goes by halves of a vector: the parts of each line come together again.
        let order = v.avx._mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        pulp::cast(v.avx2._mm256_permutevar8x32_epi32(bytes, order))
    }
}
