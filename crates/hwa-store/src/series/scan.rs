//! Which members hold NaN or infinities.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::arithmetic::{all_finite, begin};
use super::buffers::{Buffers, Limits};
use super::error::SeriesError;
use super::layout::Planned;
use super::source::Source;
use super::stream::pieces;
use super::verify::verify;
use super::watch::Watch;
use super::workers::share;

/// For each member the number of its first tensor, by name, that holds one.
pub(crate) fn first_bad_tensors(
    sources: &[&Source],
    planned: &[Planned],
    limits: Limits,
    watch: Watch<'_>,
) -> Result<Vec<Option<usize>>, SeriesError> {
    verify(sources, limits.threads.get(), watch)?;
    let tensors = || sources.iter().flat_map(|source| source.tensors());
    let gathered = tensors().map(|tensor| tensor.num_gathered_bytes()).max().unwrap_or(0);
    let widest = tensors().map(|tensor| tensor.width()).max().unwrap_or(1);
    let buffers = Buffers::plan(limits, 1, widest, gathered)?;
    let pieces = pieces(planned, buffers.piece);
    let bad: Mutex<Vec<Option<usize>>> = Mutex::new(vec![None; sources.len()]);
    let state = || (vec![0; buffers.piece * widest], vec![0.0; buffers.piece], Vec::new());
    let read = AtomicU64::new(0);
    // Member by member, so that each is read from its beginning to its end.
    share(buffers.threads, sources.len() * pieces.len(), state, |state, number| {
        if (watch.cancelled)() {
            return Err(SeriesError::Interrupted);
        }
        let (bytes, sums, gathered) = state;
        let (member, piece) = (number / pieces.len(), pieces[number % pieces.len()]);
        let tensor = &sources[member].tensors()[piece.tensor];
        let Some(value_type) = tensor.float() else {
            return Ok(());
        };
        let (bytes, sums) =
            (&mut bytes[..piece.length * tensor.width()], &mut sums[..piece.length]);
        sources[member].read(piece.tensor, piece.first, bytes, gathered)?;
        begin(value_type, sums, &[&*bytes]);
        if !all_finite(sums) {
            let mut bad = bad.lock().unwrap_or_else(PoisonError::into_inner);
            let first = bad[member].map_or(piece.tensor, |first| first.min(piece.tensor));
            bad[member] = Some(first);
        }
        let length = bytes.len() as u64;
        (watch.progress)(read.fetch_add(length, Ordering::Relaxed) + length);
        Ok(())
    })?;
    for source in sources {
        source.ensure_unchanged()?;
    }
    Ok(bad.into_inner().unwrap_or_else(PoisonError::into_inner))
}
