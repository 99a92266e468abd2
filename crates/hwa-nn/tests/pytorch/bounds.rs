//! Errors of values, and the bounds that PyTorch's own errors set them.

use serde::Deserialize;

/// Two units in the last place of single precision: a floor for bounds that are
/// multiples of an error that may happen to be zero.
pub(crate) const LAST_PLACES: f64 = 2.4e-7;

pub(crate) fn bound(times: f64, torch_error: f64) -> f64 {
    (times * torch_error).max(LAST_PLACES)
}

/// Values in double precision, and the error of PyTorch's single precision.
#[derive(Deserialize)]
pub(crate) struct Checked {
    pub(crate) values: Vec<f64>,
    pub(crate) torch_error: f64,
}

/// The largest of some sizes; a NaN counts as larger than anything, where `f64::max`
/// would drop it.
pub(crate) fn largest(sizes: impl IntoIterator<Item = f64>) -> f64 {
    sizes.into_iter().fold(0.0, |most, size| if most.is_nan() || most > size { most } else { size })
}

/// The largest difference, relative to the largest reference value.
pub(crate) fn relative_error(
    found: impl IntoIterator<Item = impl Into<f64>>,
    reference: &[f64],
) -> f64 {
    let found: Vec<f64> = found.into_iter().map(Into::into).collect();
    assert_eq!(found.len(), reference.len());
    let differences = found.iter().zip(reference).map(|(f, r)| (f - r).abs());
    largest(differences) / largest(reference.iter().map(|r| r.abs()))
}

pub(crate) fn mean_square(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64
}

#[test]
fn a_nan_is_the_largest_error_wherever_it_stands() {
    for sizes in [[f64::NAN, 1.0, 2.0], [1.0, f64::NAN, 2.0], [1.0, 2.0, f64::NAN]] {
        assert!(largest(sizes).is_nan());
    }
    assert_eq!(largest([1.0, 3.0, 2.0]), 3.0);
    assert!(relative_error([f64::NAN, 1.0], &[1.0, 1.0]).is_nan());
}
