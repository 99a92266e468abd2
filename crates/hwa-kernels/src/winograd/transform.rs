//! The transforms of F(4x4, 3x3): six inputs and three weights give four outputs.
//!
//! ```text
//! output = A^T [ (G weights G^T) * (B^T input B) ] A
//! ```
//!
//! A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015, with points
//! chosen as in B. Barabasz and others, "Error Analysis and Improving the Accuracy of Winograd
//! Convolution for Deep Neural Networks", 2018: by trial. The gradient of the weights is the
//! exact adjoint.

use crate::read::Reader;
use crate::simd::{Kernel, Simd};
use crate::span::{Span, SpanMut};

/// Outputs of a tile, in each direction.
pub(super) const OUTPUTS: usize = 4;
/// Inputs of a tile, in each direction.
pub(super) const INPUTS: usize = 6;
/// The products of a tile.
pub(super) const PRODUCTS: usize = INPUTS * INPUTS;

/// The points are 0, ±`NEAR`, ±`FAR` and infinity. With 1 and 2, as in the paper, the rounding
/// errors of random numbers are twice as large, and the worst of them three times.
const NEAR: f64 = 5.0 / 8.0;
const FAR: f64 = 3.0 / 2.0;

/// The squares of the points, their sum and product: all of them whole numbers of 256ths.
const NEAR_2: f64 = NEAR * NEAR;
const FAR_2: f64 = FAR * FAR;
const SUM: f64 = NEAR_2 + FAR_2;
const PRODUCT: f64 = NEAR_2 * FAR_2;

/// What weights are divided by at the points: the product of the distances to all others.
const AT_NEAR: f64 = 2.0 * NEAR_2 * (NEAR_2 - FAR_2);
const AT_FAR: f64 = 2.0 * FAR_2 * (FAR_2 - NEAR_2);

#[inline(always)]
fn splat<S: Simd>(number: f64) -> S {
    S::splat(number as f32)
}

/// `B^T d`.
#[inline(always)]
fn input_transform<S: Simd>(d: [S; 6]) -> [S; 6] {
    let (sum, product) = (splat(-SUM), splat(PRODUCT));
    let pair = |point: f64, other_2: f64| -> [S; 2] {
        let even = d[2].mul_add(splat(-other_2), d[4]);
        let odd = d[1].mul_add(splat(-other_2), d[3]);
        [odd.mul_add(splat(point), even), odd.mul_add(splat(-point), even)]
    };
    let ([near, minus_near], [far, minus_far]) = (pair(NEAR, FAR_2), pair(FAR, NEAR_2));
    let zero = d[0].mul_add(product, d[2].mul_add(sum, d[4]));
    let infinity = d[1].mul_add(product, d[3].mul_add(sum, d[5]));
    [zero, near, minus_near, far, minus_far, infinity]
}

/// `A^T m`.
#[inline(always)]
fn output_transform<S: Simd>(m: [S; 6]) -> [S; 4] {
    let (sum, difference) = (m[1].add(m[2]), m[1].sub(m[2]));
    let (sum_far, difference_far) = (m[3].add(m[4]), m[3].sub(m[4]));
    [
        m[0].add(sum).add(sum_far),
        difference_far.mul_add(splat(FAR), difference.mul(splat(NEAR))),
        sum_far.mul_add(splat(FAR_2), sum.mul(splat(NEAR_2))),
        difference_far.mul_add(splat(FAR * FAR_2), difference.mul_add(splat(NEAR * NEAR_2), m[5])),
    ]
}

/// `A g`.
#[inline(always)]
fn gradient_transform<S: Simd>(g: [S; 4]) -> [S; 6] {
    let pair = |point: f64| -> [S; 2] {
        let square = splat(point * point);
        let (even, odd) = (g[2].mul_add(square, g[0]), g[3].mul_add(square, g[1]));
        [odd.mul_add(splat(point), even), odd.mul_add(splat(-point), even)]
    };
    let ([near, minus_near], [far, minus_far]) = (pair(NEAR), pair(FAR));
    [g[0], near, minus_near, far, minus_far, g[3]]
}

/// `G w`.
#[inline(always)]
fn weight_transform<S: Simd>(w: [S; 3]) -> [S; 6] {
    let pair = |point: f64, divisor: f64| -> [S; 2] {
        let even = w[2].mul_add(splat(point * point / divisor), w[0].mul(splat(1.0 / divisor)));
        let odd = splat::<S>(point / divisor);
        [w[1].mul_add(odd, even), even.sub(w[1].mul(odd))]
    };
    let ([near, minus_near], [far, minus_far]) = (pair(NEAR, AT_NEAR), pair(FAR, AT_FAR));
    [w[0].mul(splat(1.0 / PRODUCT)), near, minus_near, far, minus_far, w[2]]
}

/// `G^T u`.
#[inline(always)]
fn weight_adjoint<S: Simd>(u: [S; 6]) -> [S; 3] {
    let (near, near_difference) = (u[1].add(u[2]), u[1].sub(u[2]));
    let (far, far_difference) = (u[3].add(u[4]), u[3].sub(u[4]));
    let both = |near: S, far: S, power: i32| -> S {
        let (at_near, at_far) = match power {
            0 => (1.0, 1.0),
            1 => (NEAR, FAR),
            _ => (NEAR_2, FAR_2),
        };
        near.mul_add(splat(at_near / AT_NEAR), far.mul(splat(at_far / AT_FAR)))
    };
    [
        u[0].mul_add(splat(1.0 / PRODUCT), both(near, far, 0)),
        both(near_difference, far_difference, 1),
        both(near, far, 2).add(u[5]),
    ]
}

/// Where the tiles of a row of tiles are kept: `tile_step` apart, product by product.
#[derive(Clone, Copy)]
pub(super) struct Tiles<'a> {
    pub numbers: SpanMut<'a>,
    pub tile_step: usize,
    pub product_step: usize,
}

/// The inputs of a row of tiles, transformed.
pub(super) struct InputRow<'a, R> {
    pub reader: R,
    /// The number of the first pixel of the first row, which may lie above the image.
    pub first: isize,
    /// Which of the six rows lie in the image.
    pub rows: [bool; INPUTS],
    /// The pixels of a row of the image.
    pub width: usize,
    /// Numbers per pixel.
    pub stride: usize,
    /// Zeros to the left of the image.
    pub padding: usize,
    pub tiles: Tiles<'a>,
    /// Tiles in the row.
    pub count: usize,
    /// `strip_len` numbers, zero where columns lie outside of the image.
    pub strip: SpanMut<'a>,
}

/// The scratch for the rows of one vector of channels.
pub(super) fn strip_len(tiles: usize) -> usize {
    INPUTS * (OUTPUTS * tiles + 2) * crate::simd::GROUP
}

impl<R: Reader> Kernel for InputRow<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        if self.rows == [true; INPUTS] {
            self.channels::<S, true>();
        } else {
            self.channels::<S, false>();
        }
    }
}

impl<R: Reader> InputRow<'_, R> {
    #[inline(always)]
    fn channels<S: Simd, const INSIDE: bool>(&self) {
        let columns = OUTPUTS * self.count + 2;
        let row_step = columns * S::LANES;
        let inside = self.width.min(columns - self.padding);
        for c in (0..self.stride).step_by(S::LANES) {
            // SAFETY: rows that are read lie in the image; the strip and the tiles have room for
            // `count` tiles.
            unsafe {
                let channels = self.reader.channels::<S>(c);
                for x in 0..inside {
                    let mut d = [S::zero(); INPUTS];
                    for (r, d) in d.iter_mut().enumerate() {
                        if INSIDE || self.rows[r] {
                            let pixel = self.first + (r * self.width + x) as isize;
                            let i = pixel as usize * self.stride + c;
                            *d = self.reader.vector(i, channels);
                        }
                    }
                    let q = input_transform(d);
                    for (r, q) in q.into_iter().enumerate() {
                        self.strip.put(r * row_step + (x + self.padding) * S::LANES, q);
                    }
                }
                for tile in 0..self.count {
                    for r in 0..INPUTS {
                        let start = r * row_step + tile * OUTPUTS * S::LANES;
                        let mut d = [S::zero(); INPUTS];
                        for (j, d) in d.iter_mut().enumerate() {
                            *d = self.strip.read().vector(start + j * S::LANES);
                        }
                        for (j, q) in input_transform(d).into_iter().enumerate() {
                            let product = (r * INPUTS + j) * self.tiles.product_step;
                            self.tiles.numbers.put(product + tile * self.tiles.tile_step + c, q);
                        }
                    }
                }
            }
        }
    }
}

/// Asks for numbers that will be read soon.
pub(super) struct LookAhead<R> {
    pub reader: R,
    pub offset: usize,
    pub len: usize,
}

impl<R: Reader> Kernel for LookAhead<R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        self.reader.prefetch::<S>(self.offset, self.len);
    }
}

/// The gradients of a row of tiles of outputs, transformed.
pub(super) struct GradientRow<'a, R> {
    pub reader: R,
    /// The number of the first pixel.
    pub first: usize,
    /// The rows in the image, up to four.
    pub rows: usize,
    /// The pixels of a row.
    pub width: usize,
    /// Numbers per pixel.
    pub stride: usize,
    pub tiles: Tiles<'a>,
    /// Tiles in the row.
    pub count: usize,
}

impl<R: Reader> Kernel for GradientRow<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for tile in 0..self.count {
            let columns = OUTPUTS.min(self.width - tile * OUTPUTS);
            if self.rows == OUTPUTS && columns == OUTPUTS {
                self.tile::<S, true>(tile, columns);
            } else {
                self.tile::<S, false>(tile, columns);
            }
        }
    }
}

impl<R: Reader> GradientRow<'_, R> {
    #[inline(always)]
    fn tile<S: Simd, const FULL: bool>(&self, tile: usize, columns: usize) {
        for c in (0..self.stride).step_by(S::LANES) {
            // SAFETY: pixels that are read lie in the image; there is room for `count` tiles.
            unsafe {
                let channels = self.reader.channels::<S>(c);
                let mut half = [[S::zero(); OUTPUTS]; INPUTS];
                for x in 0..OUTPUTS {
                    let mut g = [S::zero(); OUTPUTS];
                    for (y, g) in g.iter_mut().enumerate() {
                        if FULL || (y < self.rows && x < columns) {
                            let pixel = self.first + y * self.width + tile * OUTPUTS + x;
                            *g = self.reader.vector(pixel * self.stride + c, channels);
                        }
                    }
                    for (half, q) in half.iter_mut().zip(gradient_transform(g)) {
                        half[x] = q;
                    }
                }
                for (r, half) in half.into_iter().enumerate() {
                    for (j, q) in gradient_transform(half).into_iter().enumerate() {
                        let product = (r * INPUTS + j) * self.tiles.product_step;
                        self.tiles.numbers.put(product + tile * self.tiles.tile_step + c, q);
                    }
                }
            }
        }
    }
}

/// A row of tiles of products, transformed back.
pub(super) struct OutputRow<'a> {
    pub tiles: Tiles<'a>,
    /// Tiles in the row.
    pub count: usize,
    /// From the first pixel of the row on.
    pub output: SpanMut<'a>,
    /// The rows in the image, up to four.
    pub rows: usize,
    /// The pixels of a row.
    pub width: usize,
    /// Numbers per pixel.
    pub stride: usize,
}

impl Kernel for OutputRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for tile in 0..self.count {
            let columns = OUTPUTS.min(self.width - tile * OUTPUTS);
            if self.rows == OUTPUTS && columns == OUTPUTS {
                self.tile::<S, true>(tile, columns);
            } else {
                self.tile::<S, false>(tile, columns);
            }
        }
    }
}

impl OutputRow<'_> {
    #[inline(always)]
    fn tile<S: Simd, const FULL: bool>(&self, tile: usize, columns: usize) {
        let tiles = self.tiles.numbers.read().from(tile * self.tiles.tile_step);
        for c in (0..self.stride).step_by(S::LANES) {
            // SAFETY: there are `count` tiles; pixels that are written lie in the image.
            unsafe {
                let mut half = [[S::zero(); INPUTS]; OUTPUTS];
                for j in 0..INPUTS {
                    let mut m = [S::zero(); INPUTS];
                    for (r, m) in m.iter_mut().enumerate() {
                        *m = tiles.vector((r * INPUTS + j) * self.tiles.product_step + c);
                    }
                    for (half, q) in half.iter_mut().zip(output_transform(m)) {
                        half[j] = q;
                    }
                }
                for (y, half) in half.into_iter().enumerate() {
                    for (x, q) in output_transform(half).into_iter().enumerate() {
                        if FULL || (y < self.rows && x < columns) {
                            let pixel = y * self.width + tile * OUTPUTS + x;
                            self.output.put(pixel * self.stride + c, q);
                        }
                    }
                }
            }
        }
    }
}

/// `[9][len]` weights to `[36][len]`; `len` is a multiple of a group.
pub(super) struct TransformWeights<'a> {
    pub weights: Span<'a>,
    pub transformed: SpanMut<'a>,
    pub len: usize,
}

impl Kernel for TransformWeights<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for i in (0..self.len).step_by(S::LANES) {
            // SAFETY: the spans hold 9 and 36 times `len` numbers.
            unsafe {
                let mut half = [[S::zero(); 3]; INPUTS];
                for x in 0..3 {
                    let w = [0, 1, 2].map(|y| self.weights.vector((y * 3 + x) * self.len + i));
                    for (half, q) in half.iter_mut().zip(weight_transform::<S>(w)) {
                        half[x] = q;
                    }
                }
                for (r, half) in half.into_iter().enumerate() {
                    for (j, q) in weight_transform(half).into_iter().enumerate() {
                        self.transformed.put((r * INPUTS + j) * self.len + i, q);
                    }
                }
            }
        }
    }
}

/// `[36][len]` gradients to `[9][len]`: the adjoint of [`TransformWeights`].
pub(super) struct AdjointWeights<'a> {
    pub transformed: Span<'a>,
    pub weights: SpanMut<'a>,
    pub len: usize,
}

impl Kernel for AdjointWeights<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for i in (0..self.len).step_by(S::LANES) {
            // SAFETY: the spans hold 36 and 9 times `len` numbers.
            unsafe {
                let mut half = [[S::zero(); INPUTS]; 3];
                for j in 0..INPUTS {
                    let u = [0, 1, 2, 3, 4, 5]
                        .map(|r| self.transformed.vector((r * INPUTS + j) * self.len + i));
                    for (half, q) in half.iter_mut().zip(weight_adjoint::<S>(u)) {
                        half[j] = q;
                    }
                }
                for (y, half) in half.into_iter().enumerate() {
                    for (x, q) in weight_adjoint(half).into_iter().enumerate() {
                        self.weights.put((y * 3 + x) * self.len + i, q);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::noise;
    use crate::simd::Level;

    /// The first lane of what the transforms make of six inputs, three weights and four
    /// gradients: outputs, and the gradient of the weights.
    struct OneDimension([f32; 6], [f32; 3], [f32; 4]);

    impl Kernel for OneDimension {
        type Output = ([f32; 4], [f32; 3]);

        #[inline(always)]
        fn run<S: Simd>(self) -> Self::Output {
            let Self(d, w, g) = self;
            let d = input_transform(d.map(S::splat));
            let (w, g) = (weight_transform(w.map(S::splat)), gradient_transform(g.map(S::splat)));
            let products = |w: [S; 6]| std::array::from_fn(|i| d[i].mul(w[i]));
            let first = |vector: S| {
                let mut lanes = [0.0; crate::simd::GROUP];
                // SAFETY: a group is at least a vector.
                unsafe { vector.store(lanes.as_mut_ptr()) };
                lanes[0]
            };
            (output_transform(products(w)).map(first), weight_adjoint(products(g)).map(first))
        }
    }

    #[test]
    fn transforms_convolve_in_one_dimension() {
        let numbers = noise(13, 1);
        let d: [f32; 6] = std::array::from_fn(|i| numbers[i]);
        let w: [f32; 3] = std::array::from_fn(|i| numbers[6 + i]);
        let g: [f32; 4] = std::array::from_fn(|i| numbers[9 + i]);
        for level in Level::available() {
            let (outputs, gradients) = level.run(OneDimension(d, w, g));
            for (j, output) in outputs.into_iter().enumerate() {
                let expected: f32 = (0..3).map(|k| d[j + k] * w[k]).sum();
                assert!((output - expected).abs() < 1e-6, "{level} output {j}");
            }
            for (k, gradient) in gradients.into_iter().enumerate() {
                let expected: f32 = (0..4).map(|j| d[j + k] * g[j]).sum();
                assert!((gradient - expected).abs() < 1e-6, "{level} gradient {k}");
            }
        }
    }
}
