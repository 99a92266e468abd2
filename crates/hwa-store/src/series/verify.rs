//! Checksums of the members that are needed, compared once, before their numbers are.

use super::error::SeriesError;
use super::source::Source;
use super::watch::Watch;
use super::workers::share;

/// The bytes that are read at a time.
const PIECE: usize = 256 << 10;

/// Compares the checksums of members for which nobody has done so yet, several at a time.
pub(crate) fn verify(
    sources: &[&Source],
    threads: usize,
    watch: Watch<'_>,
) -> Result<(), SeriesError> {
    let new: Vec<&Source> = sources.iter().copied().filter(|s| !s.is_verified()).collect();
    let buffer = || vec![0; PIECE];
    share(threads, new.len(), buffer, |buffer, number| match (watch.cancelled)() {
        true => Err(SeriesError::Interrupted),
        false => Ok(new[number].verify(buffer)?),
    })
}
