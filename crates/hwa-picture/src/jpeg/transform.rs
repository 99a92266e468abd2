//! From a block's coefficients to its pixels: the inverse cosine transform.
//!
//! The arithmetic is that of libjpeg's `islow`, columns before rows and in whole numbers, so
//! that pixels are the same as with libjpeg.

use super::vectors::Vectors;

/// Bits behind the point of the constants.
const POINT: i32 = 13;
/// What columns are divided by: two bits are kept for the rows.
const COLUMNS: i32 = POINT - 2;
const ROWS: i32 = POINT + 2 + 3;

/// The pixels of a block. Only the first `N` rows and columns of coefficients are looked at.
#[inline(always)]
pub(super) fn transformed<V: Vectors, const N: usize>(v: V, block: &[i16; 64]) -> [[u8; 8]; 8] {
    let rows = block.as_chunks::<8>().0;
    let mut columns = [v.zeros(); 8];
    for (line, row) in columns.iter_mut().zip(rows).take(N) {
        *line = v.widened(row);
    }
    let rows = v.transposed(pass::<V, COLUMNS>(v, columns));
    let mut kept = [v.zeros(); 8];
    kept[..N].copy_from_slice(&rows[..N]);
    v.bytes(v.transposed(pass::<V, ROWS>(v, kept)))
}

/// The pixel of a block that is nothing but its mean.
#[inline(always)]
pub(super) fn level(mean: i16) -> u8 {
    (((i32::from(mean) + 4) >> 3) + 128).clamp(0, 255) as u8
}

/// Eight transforms of eight values.
#[inline(always)]
fn pass<V: Vectors, const SHIFT: i32>(v: V, input: [V::Line; 8]) -> [V::Line; 8] {
    // The even part.
    let (z2, z3) = (input[2], input[6]);
    let z1 = v.times(v.plus(z2, z3), 4433);
    let (t2, t3) = (v.plus(z1, v.times(z3, -15137)), v.plus(z1, v.times(z2, 6270)));
    let t0 = v.times(v.plus(input[0], input[4]), 1 << POINT);
    let t1 = v.times(v.minus(input[0], input[4]), 1 << POINT);
    let even = [v.plus(t0, t3), v.plus(t1, t2), v.minus(t1, t2), v.minus(t0, t3)];
    // The odd part.
    let [t0, t1, t2, t3] = [input[7], input[5], input[3], input[1]];
    let z1 = v.times(v.plus(t0, t3), -7373);
    let z2 = v.times(v.plus(t1, t2), -20995);
    let (z3, z4) = (v.plus(t0, t2), v.plus(t1, t3));
    let z5 = v.times(v.plus(z3, z4), 9633);
    let (z3, z4) = (v.plus(v.times(z3, -16069), z5), v.plus(v.times(z4, -3196), z5));
    let odd = [
        v.plus(v.times(t3, 12299), v.plus(z1, z4)),
        v.plus(v.times(t2, 25172), v.plus(z2, z3)),
        v.plus(v.times(t1, 16819), v.plus(z2, z4)),
        v.plus(v.times(t0, 2446), v.plus(z1, z3)),
    ];
    let mut out = input;
    for at in 0..4 {
        out[at] = v.scaled::<SHIFT>(v.plus(even[at], odd[at]));
        out[7 - at] = v.scaled::<SHIFT>(v.minus(even[at], odd[at]));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::f64::consts::{FRAC_1_SQRT_2, PI};

    use proptest::prelude::*;

    use super::super::vectors::{Portable, Work, fast};
    use super::*;

    /// Whole, and as if only the upper left quarter were set.
    struct Both([i16; 64]);

    impl Work for Both {
        type Output = [[[u8; 8]; 8]; 2];

        #[inline(always)]
        fn run<V: Vectors>(self, v: V) -> Self::Output {
            [transformed::<V, 8>(v, &self.0), transformed::<V, 4>(v, &self.0)]
        }
    }

    /// The definition, before rounding.
    fn defined(block: &[i16; 64], y: usize, x: usize) -> f64 {
        let wave = |at: usize, frequency: usize| {
            let height = if frequency == 0 { FRAC_1_SQRT_2 } else { 1.0 };
            height * ((2 * at + 1) as f64 * frequency as f64 * PI / 16.0).cos()
        };
        let terms = block.iter().enumerate();
        let sum: f64 =
            terms.map(|(k, &value)| f64::from(value) * wave(y, k / 8) * wave(x, k % 8)).sum();
        sum / 4.0 + 128.0
    }

    proptest! {
        #[test]
        fn the_transform_is_within_a_level_of_its_definition(
            values in prop::collection::vec(-300..300i16, 64),
        ) {
            let block: [i16; 64] = values.try_into().unwrap();
            let [pixels, _] = fast(Both(block));
            for (y, row) in pixels.iter().enumerate() {
                for (x, &pixel) in row.iter().enumerate() {
                    let expected = defined(&block, y, x).clamp(0.0, 255.0);
                    prop_assert!((f64::from(pixel) - expected).abs() < 1.0);
                }
            }
        }

        #[test]
        fn every_cpu_transforms_alike(values in prop::collection::vec(any::<i16>(), 64)) {
            let block: [i16; 64] = values.try_into().unwrap();
            prop_assert_eq!(fast(Both(block)), Both(block).run(Portable));
        }

        #[test]
        fn zeros_are_left_out_without_a_difference(
            values in prop::collection::vec(-900..900i16, 16), mean: i16,
        ) {
            let mut block = [0; 64];
            for (at, value) in values.into_iter().enumerate() {
                block[at / 4 * 8 + at % 4] = value;
            }
            let [whole, quarter] = fast(Both(block));
            prop_assert_eq!(whole, quarter);
            let mut flat = [0; 64];
            flat[0] = mean >> 2;
            prop_assert_eq!(fast(Both(flat))[0], [[level(flat[0]); 8]; 8]);
        }
    }
}
