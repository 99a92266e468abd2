//! Threads that take numbered pieces of work, one after the other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does pieces `0..count` of some work on so many threads, each with a state of its own.
///
/// Pieces are begun in order. After an error no further ones are begun, and the error of the
/// earliest piece counts: it does not depend on which thread was faster.
pub(crate) fn share<S, E: Send>(
    threads: usize,
    count: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let first: Mutex<Option<(usize, E)>> = Mutex::new(None);
    let worker = || {
        let mut state = state();
        while !failed.load(Ordering::Relaxed) {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= count {
                break;
            }
            if let Err(error) = work(&mut state, piece) {
                failed.store(true, Ordering::Relaxed);
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|(earlier, _)| piece < *earlier) {
                    *first = Some((piece, error));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(worker);
        }
        worker();
    });
    match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once() {
        for threads in [1, 3, 40] {
            let done: Vec<AtomicUsize> = (0..20).map(|_| AtomicUsize::new(0)).collect();
            let work = |_: &mut (), piece: usize| {
                done[piece].fetch_add(1, Ordering::Relaxed);
                Ok::<(), ()>(())
            };
            share(threads, done.len(), || (), work).unwrap();
            assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn the_error_of_the_earliest_piece_counts() {
        for _ in 0..50 {
            let work = |_: &mut (), piece: usize| {
                if piece == 3 {
                    std::thread::yield_now();
                }
                if piece >= 3 { Err(piece) } else { Ok(()) }
            };
            assert_eq!(share(4, 100, || (), work), Err(3));
        }
    }
}
