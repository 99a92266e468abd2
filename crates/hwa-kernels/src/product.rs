//! The one matrix product that all convolutions run on: `C = A * B` or `C += A * B`.
//!
//! A tile of `C`, rows by one or two vectors, stays in registers while `k` runs. Each
//! step loads the vectors of a row of `B` and multiplies them by one number of
//! each row of `A`. `A` may lie in either direction: convolutions walk along the
//! channels of a pixel, gradients of weights along the pixels of a channel.

use crate::finish::{Ending, Gathered, Makes};
use crate::simd::Simd;
use crate::span::{Ahead, Span};

/// Rows whose sums are gathered in `f32`.
const SUMMED: usize = 64;

/// Products that are summed in a row.
const DEPTH: usize = 128;

/// The columns of `B` that are packed side by side: two vectors.
pub(crate) fn panel_width(lanes: usize) -> usize {
    2 * lanes
}

/// `A`, `rows x depth`.
#[derive(Clone, Copy)]
pub(crate) struct Left<'a> {
    pub numbers: Span<'a>,
    /// From one row to the next.
    pub row_step: usize,
    /// From one number of a row to the next.
    pub depth_step: usize,
}

/// `B`, `depth x columns`; columns come in whole groups.
#[derive(Clone, Copy)]
pub(crate) enum Right<'a> {
    /// Panels of [`panel_width`] columns one after the other, each row by row; the last
    /// may be narrower.
    Packed(Span<'a>),
    /// Row by row.
    Rows { numbers: Span<'a>, row_step: usize },
}

/// `A * B`: makes `C`, `rows x columns`, row by row.
pub(crate) struct Product<'a> {
    pub a: Left<'a>,
    pub b: Right<'a>,
    /// From one row of `C` to the next.
    pub row_step: usize,
    pub rows: usize,
    pub depth: usize,
    pub columns: usize,
    /// What comes after; asked for tile by tile.
    pub ahead: Ahead<'a>,
}

impl Makes for Product<'_> {
    #[inline(always)]
    fn make<S: Simd>(&self, ending: &mut impl Ending) {
        let panel = panel_width(S::LANES);
        let mut column = 0;
        while column < self.columns {
            let width = panel.min(self.columns - column);
            // SAFETY: whoever makes a `Product` gives spans of `rows x depth`, `depth x columns`
            // and `rows x columns`.
            unsafe {
                if width == panel {
                    self.columns_at::<S, 2, _>(column, ending);
                } else {
                    self.columns_at::<S, 1, _>(column, ending);
                }
            }
            column += width;
        }
    }
}

impl Product<'_> {
    /// About how many tiles it takes.
    pub(crate) fn tiles_of(lanes: usize, rows: usize, columns: usize) -> usize {
        let tile = if lanes == 16 { 8 } else { 6 };
        (rows / tile) * columns.div_ceil(panel_width(lanes))
    }

    /// All rows of `R` vectors of columns.
    #[inline(always)]
    unsafe fn columns_at<S: Simd, const R: usize, E: Ending>(&self, column: usize, ending: &mut E) {
        let (b, b_step) = match self.b {
            Right::Packed(numbers) => (numbers.from(column * self.depth), R * S::LANES),
            Right::Rows { numbers, row_step } => (numbers.from(column), row_step),
        };
        let columns = Columns { column, b, b_step };
        // The rows of `A` are found faster if the compiler knows how far they are apart.
        // SAFETY: as for the caller.
        unsafe {
            if !E::MANY_LOOPS {
                return self.rows::<S, R, 0>(columns, ending);
            }
            match (self.a.row_step, self.a.depth_step) {
                (1, _) => self.rows::<S, R, 1>(columns, ending),
                (16, 1) => self.rows::<S, R, 16>(columns, ending),
                (32, 1) => self.rows::<S, R, 32>(columns, ending),
                (64, 1) => self.rows::<S, R, 64>(columns, ending),
                _ => self.rows::<S, R, 0>(columns, ending),
            }
        }
    }

    /// All rows; those of `A` are `STEP` apart, or as far as it says if that is zero.
    #[inline(always)]
    unsafe fn rows<S: Simd, const R: usize, const STEP: usize>(
        &self,
        columns: Columns<'_>,
        ending: &mut impl Ending,
    ) {
        let mut row = 0;
        // SAFETY: as for the caller.
        unsafe {
            // What the registers hold: 32 vectors, or 16.
            if S::LANES == 16 && R == 1 {
                row = self.tiles::<S, 16, R, STEP>(row, columns, ending);
            }
            if S::LANES == 16 {
                row = self.tiles::<S, 8, R, STEP>(row, columns, ending);
            } else {
                row = self.tiles::<S, 6, R, STEP>(row, columns, ending);
            }
            row = self.tiles::<S, 4, R, STEP>(row, columns, ending);
            self.tiles::<S, 1, R, STEP>(row, columns, ending);
        }
    }

    /// As many tiles of `P` rows as there are; the row after them.
    #[inline(always)]
    unsafe fn tiles<S: Simd, const P: usize, const R: usize, const STEP: usize>(
        &self,
        mut row: usize,
        Columns { column, b, b_step }: Columns<'_>,
        ending: &mut impl Ending,
    ) -> usize {
        let a_step = if STEP > 0 { STEP } else { self.a.row_step };
        let depth_step = if STEP > 1 { 1 } else { self.a.depth_step };
        if row + P > self.rows {
            return row;
        }
        let mut gathered = [Gathered::<S>::zero(); R];
        // SAFETY: as for the caller.
        let channels: [_; R] =
            std::array::from_fn(|r| unsafe { ending.channels::<S>(column + r * S::LANES) });
        while row + P <= self.rows {
            let a = self.a.numbers.from(row * a_step);
            let sides = ((a, a_step, depth_step), (b, b_step));
            // SAFETY: as for the caller.
            unsafe {
                let mut sums = [[S::zero(); R]; P];
                let mut k = 0;
                if P >= 6 {
                    let lines = self.ahead.step();
                    while k < lines.count.min(self.depth) {
                        lines.prefetch::<S>(k);
                        Self::add::<S, P, R>(&mut sums, sides, k);
                        k += 1;
                    }
                }
                while k < self.depth.min(DEPTH) {
                    Self::add::<S, P, R>(&mut sums, sides, k);
                    k += 1;
                }
                // A long sum is one of short ones, which round less.
                while k < self.depth {
                    let mut more = [[S::zero(); R]; P];
                    let end = self.depth.min(k + DEPTH);
                    while k < end {
                        Self::add::<S, P, R>(&mut more, sides, k);
                        k += 1;
                    }
                    for (sum, more) in sums.as_flattened_mut().iter_mut().zip(more.as_flattened()) {
                        *sum = sum.add(*more);
                    }
                }
                // Last: of a long sum that is made in parts, each part rounds like a short one.
                let start = row * self.row_step + column;
                for (p, sums) in sums.into_iter().enumerate() {
                    for (r, sum) in sums.into_iter().enumerate() {
                        let i = start + p * self.row_step + r * S::LANES;
                        ending.put(i, sum, &channels[r], &mut gathered[r]);
                    }
                }
            }
            row += P;
            // Long sums in `f32` lose digits.
            if row % SUMMED < P || row + P > self.rows {
                for (r, sums) in gathered.iter_mut().enumerate() {
                    let sums = std::mem::replace(sums, Gathered::zero());
                    // SAFETY: as for the caller.
                    unsafe { ending.gather(column + r * S::LANES, sums) };
                }
            }
        }
        row
    }
}

impl Product<'_> {
    /// Adds the products at depth `k`.
    #[inline(always)]
    unsafe fn add<S: Simd, const P: usize, const R: usize>(
        sums: &mut [[S; R]; P],
        ((a, a_step, depth_step), (b, b_step)): Sides<'_>,
        k: usize,
    ) {
        // SAFETY: as for the caller.
        unsafe {
            let mut vectors = [S::zero(); R];
            for (r, vector) in vectors.iter_mut().enumerate() {
                *vector = b.vector(k * b_step + r * S::LANES);
            }
            for (p, sums) in sums.iter_mut().enumerate() {
                let number = S::splat(a.number(p * a_step + k * depth_step));
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = number.mul_add(vector, *sum);
                }
            }
        }
    }
}

/// `A`, from a row on, with its steps; and `B` with its own.
type Sides<'a> = ((Span<'a>, usize, usize), (Span<'a>, usize));

/// Columns of `B` that are multiplied together.
#[derive(Clone, Copy)]
struct Columns<'a> {
    column: usize,
    b: Span<'a>,
    b_step: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finish::{Made, Plain};
    use crate::simd::Level;
    use crate::span::SpanMut;

    /// Small whole numbers, so that every sum is exact.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
    }

    fn packed(b: &[f32], depth: usize, columns: usize, panel: usize) -> Vec<f32> {
        let mut packed = Vec::new();
        for start in (0..columns).step_by(panel) {
            for k in 0..depth {
                let end = columns.min(start + panel);
                packed.extend_from_slice(&b[k * columns + start..k * columns + end]);
            }
        }
        packed
    }

    #[test]
    fn what_is_there_is_added_to_the_whole_product() {
        // Above 2^24 every other whole number is there: 2^24 + 1 is 2^24 again, however often,
        // but 2^24 + 4 is a number.
        let there = (1 << 24) as f32;
        let (a, b) = (vec![1.0; 4], vec![1.0; 4 * 16]);
        for level in Level::available() {
            let mut found = vec![there; 16];
            let product = Product {
                a: Left { numbers: Span::new(&a), row_step: 4, depth_step: 1 },
                b: Right::Rows { numbers: Span::new(&b), row_step: 16 },
                row_step: 16,
                rows: 1,
                depth: 4,
                columns: 16,
                ahead: Ahead::nothing(),
            };
            level.run(Made(&product, Plain { numbers: SpanMut::new(&mut found), add: true }));
            assert_eq!(found, vec![there + 4.0; 16], "{level}");
        }
    }

    #[test]
    fn products_are_exact_in_every_direction_and_size() {
        for level in Level::available() {
            for (rows, depth, columns) in [(1, 1, 16), (3, 5, 16), (16, 2, 32), (29, 7, 48)] {
                let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
                let mut expected = vec![1.0; rows * columns];
                for r in 0..rows {
                    for k in 0..depth {
                        for c in 0..columns {
                            expected[r * columns + c] += a[r * depth + k] * b[k * columns + c];
                        }
                    }
                }
                let transposed: Vec<f32> =
                    (0..rows * depth).map(|i| a[i % rows * depth + i / rows]).collect();
                let b_packed = packed(&b, depth, columns, panel_width(level.lanes()));
                let along = Left { numbers: Span::new(&a), row_step: depth, depth_step: 1 };
                let across =
                    Left { numbers: Span::new(&transposed), row_step: 1, depth_step: rows };
                let plain = Right::Rows { numbers: Span::new(&b), row_step: columns };
                for a in [along, across] {
                    for b in [plain, Right::Packed(Span::new(&b_packed))] {
                        let mut found = vec![1.0; rows * columns];
                        let (row_step, ahead) = (columns, Ahead::nothing());
                        let product = Product { a, b, row_step, rows, depth, columns, ahead };
                        let numbers = SpanMut::new(&mut found);
                        level.run(Made(&product, Plain { numbers, add: true }));
                        assert_eq!(found, expected, "{level} {rows} x {depth} x {columns}");
                    }
                }
            }
        }
    }
}
