//! How much memory a pass takes, decided before it begins.

use std::num::NonZeroUsize;

use super::error::SeriesError;

/// What a pass over a series may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of all buffers.
    pub max_memory: usize,
    /// The threads that read and sum. They change no bit.
    pub threads: NonZeroUsize,
}

impl Default for Limits {
    /// 256 MB, and a thread for each core.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self { max_memory: 256_000_000, threads }
    }
}

/// What a thread's buffers should take: about what its second-level cache holds. A quarter of it
/// was slower by a tenth, for more calls; twice as much was no faster.
const CACHED: usize = 2 << 20;
/// The shortest piece, in elements: shorter ones would cost more calls than they save memory.
const SHORTEST: usize = 1 << 10;
/// The longest: with more there is nothing to gain.
const LONGEST: usize = 1 << 16;
/// The widest element, of members and of sums.
const WIDEST: usize = 8;

/// The buffers of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buffers {
    pub(crate) threads: usize,
    /// Elements that are summed at a time.
    pub(crate) piece: usize,
}

impl Buffers {
    /// Buffers for pieces of `held` members at a time, of elements of `width` bytes, and for so
    /// many bytes that are gathered from tensors in another order.
    pub(crate) fn plan(
        limits: Limits,
        held: usize,
        width: usize,
        gathered: usize,
    ) -> Result<Self, SeriesError> {
        // The members' elements, a sum, and a result.
        let per_element = held.saturating_mul(width).saturating_add(2 * WIDEST);
        let smallest = per_element.saturating_mul(SHORTEST).saturating_add(gathered);
        let (allowed, needed) = (limits.max_memory, smallest);
        if needed > allowed {
            return Err(SeriesError::TooLittleMemory { allowed, needed });
        }
        let threads = limits.threads.get().min(allowed / smallest);
        let room = (allowed / threads - gathered) / per_element;
        let wanted = (CACHED / per_element).clamp(SHORTEST, LONGEST);
        // Whole pages, more or less, and whole vectors.
        let piece = room.min(wanted) / SHORTEST * SHORTEST;
        Ok(Self { threads, piece })
    }

    /// The bytes of all of them.
    #[cfg(test)]
    fn num_bytes(self, held: usize, width: usize, gathered: usize) -> usize {
        self.threads * (self.piece * (held * width + 2 * WIDEST) + gathered)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(max_memory: usize, threads: usize) -> Limits {
        Limits { max_memory, threads: NonZeroUsize::new(threads).unwrap() }
    }

    #[test]
    fn too_little_memory_is_told_with_what_would_do() {
        // 4 members of 4 bytes, and 16 bytes: 32 for each of 1,024 elements
        let error = Buffers::plan(limits(1000, 2), 4, 4, 0).unwrap_err();
        let SeriesError::TooLittleMemory { allowed: 1000, needed } = error else {
            panic!("{error}");
        };
        assert_eq!(needed, 32 << 10);
        let buffers = Buffers::plan(limits(needed, 8), 4, 4, 0).unwrap();
        assert_eq!(buffers, Buffers { threads: 1, piece: 1024 });
    }

    proptest! {
        #[test]
        fn buffers_stay_within_their_limit(
            memory in 0usize..10_000_000, threads in 1usize..64, held in 1usize..300,
            width in 1usize..9, gathered in 0usize..1_000_000
        ) {
            match Buffers::plan(limits(memory, threads), held, width, gathered) {
                Ok(buffers) => {
                    prop_assert!(buffers.num_bytes(held, width, gathered) <= memory);
                    prop_assert!(buffers.threads >= 1 && buffers.threads <= threads);
                    prop_assert!(buffers.piece >= SHORTEST);
                }
                Err(SeriesError::TooLittleMemory { needed, .. }) => prop_assert!(needed > memory),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
