//! Sums over batches, and what they are without each: the jackknife.

/// Variances of two figures, and their covariance.
pub(crate) type Matrix = [[f64; 2]; 2];

/// Sums over batches, each gradient times the images of its batch.
pub(crate) struct Sums {
    pub(crate) batches: usize,
    pub(crate) images: f64,
    /// The squared norm of the sum of the gradients.
    pub(crate) square: f64,
    /// The sum of their squared norms.
    pub(crate) squares: f64,
}

impl Sums {
    /// The sums without a batch of so many images, with the squared norm of its gradient and its
    /// inner product with the sum of all.
    pub(crate) fn without(&self, images: f64, square: f64, along: f64) -> Self {
        Self {
            batches: self.batches - 1,
            images: self.images - images,
            square: self.square - 2.0 * images * along + images * images * square,
            squares: self.squares - images * square,
        }
    }
}

/// The covariance of two figures, from what they are without each of the batches.
pub(crate) fn jackknife(without: &[[f64; 2]]) -> Matrix {
    let count = without.len() as f64;
    let mean = |i: usize| without.iter().map(|figures| figures[i]).sum::<f64>() / count;
    let means = [mean(0), mean(1)];
    let entry = |i: usize, j: usize| {
        let products = without.iter().map(|f| (f[i] - means[i]) * (f[j] - means[j]));
        products.sum::<f64>() * (count - 1.0) / count
    };
    [[entry(0, 0), entry(0, 1)], [entry(1, 0), entry(1, 1)]]
}
