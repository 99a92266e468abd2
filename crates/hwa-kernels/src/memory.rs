//! Aligned buffers, and the scratch memory of kernels.
//!
//! Fresh memory costs a page fault per 4 KiB, which for activations of tens of
//! megabytes is more than the work done on them. So nothing is given back: a thread keeps
//! its scratch, and a [`Pool`] its buffers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::MmapMut;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Numbers that start at a cache line.
#[derive(Default)]
pub struct Buffer {
    memory: Memory,
    len: usize,
    home: Option<Arc<Shelves>>,
}

impl Buffer {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Self { memory: Memory::zeros(len.div_ceil(16)), len, home: None }
    }
}

/// The lines of a buffer.
enum Memory {
    Lines(Vec<Line>),
    /// From the system, for large buffers: in huge pages, where there are any, a pass over tens
    /// of megabytes misses few addresses.
    Mapped(MmapMut),
}

/// Lines from which on memory is mapped: 4 MiB.
const LARGE: usize = 1 << 16;

impl Memory {
    fn zeros(lines: usize) -> Self {
        if lines >= LARGE
            && let Ok(mapped) = MmapMut::map_anon(lines * size_of::<Line>())
        {
            // Where the system has no huge pages, others do.
            #[cfg(target_os = "linux")]
            let _ = mapped.advise(memmap2::Advice::HugePage);
            return Self::Mapped(mapped);
        }
        Self::Lines(vec![Line([0.0; 16]); lines])
    }

    fn lines(&self) -> usize {
        match self {
            Self::Lines(lines) => lines.len(),
            Self::Mapped(mapped) => mapped.len() / size_of::<Line>(),
        }
    }

    fn start(&self) -> *const f32 {
        match self {
            Self::Lines(lines) => lines.as_ptr().cast(),
            Self::Mapped(mapped) => mapped.as_ptr().cast(),
        }
    }

    fn start_mut(&mut self) -> *mut f32 {
        match self {
            Self::Lines(lines) => lines.as_mut_ptr().cast(),
            Self::Mapped(mapped) => mapped.as_mut_ptr().cast(),
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::Lines(Vec::new())
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: the memory holds at least `len` numbers without gaps, from a cache line or a
        // page on, and all of them are initialised.
        unsafe { std::slice::from_raw_parts(self.memory.start(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start_mut(), self.len) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} numbers)", self.len)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            let memory = std::mem::take(&mut self.memory);
            home.lock().free.entry(memory.lines()).or_default().push(memory);
        }
    }
}

/// Buffers that come back when they are dropped and are handed out again.
#[derive(Debug, Clone, Default)]
pub struct Pool(Arc<Shelves>);

/// What a pool holds, whether it is in use or free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// How many buffers.
    pub buffers: usize,
    /// Their memory.
    pub bytes: usize,
}

#[derive(Default)]
struct Shelves(Mutex<Stock>);

#[derive(Default)]
struct Stock {
    /// Free memory by its number of lines.
    free: BTreeMap<usize, Vec<Memory>>,
    held: Held,
}

impl Shelves {
    fn lock(&self) -> MutexGuard<'_, Stock> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stock {
    /// Free memory; if there is none that fits, it counts as made.
    fn find(&mut self, lines: usize) -> Option<Memory> {
        let free = self.free.range_mut(lines..=2 * lines).find_map(|(_, shelf)| shelf.pop());
        if free.is_none() {
            self.held.buffers += 1;
            self.held.bytes += lines * size_of::<Line>();
        }
        free
    }
}

impl std::fmt::Debug for Shelves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shelves({:?})", self.lock().held)
    }
}

impl Pool {
    /// A buffer of `len` numbers, which are whatever they were before: the smallest that is free,
    /// if no more than half of it would be wasted. So batches of other sizes, such as the last of
    /// an epoch, use what there is.
    pub fn take(&self, len: usize) -> Buffer {
        let count = len.div_ceil(16);
        let memory = self.0.lock().find(count).unwrap_or_else(|| Memory::zeros(count));
        Buffer { memory, len, home: Some(self.0.clone()) }
    }

    /// What there is of it. Nothing is given back, so it tells whether work still asks for more.
    pub fn held(&self) -> Held {
        self.0.lock().held
    }
}

/// Runs `work` with `N` pieces of this thread's scratch memory, each at a cache line, whose
/// numbers are whatever they were before.
pub(crate) fn with_scratch<const N: usize, R>(
    lens: [usize; N],
    work: impl FnOnce([&mut [f32]; N]) -> R,
) -> R {
    thread_local! {
        static SCRATCH: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
    }
    let total: usize = lens.iter().map(|len| len.next_multiple_of(16)).sum();
    // Taken out, not borrowed: work may ask for scratch of its own.
    let kept = SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_default();
    let mut buffer = if kept.len() < total { Buffer::zeros(total) } else { kept };
    let mut rest: &mut [f32] = &mut buffer;
    let pieces = lens.map(|len| {
        let (piece, after) = std::mem::take(&mut rest).split_at_mut(len.next_multiple_of(16));
        rest = after;
        &mut piece[..len]
    });
    let result = work(pieces);
    SCRATCH.with_borrow_mut(|free| free.push(buffer));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_handed_out_again() {
        let pool = Pool::default();
        let mut first = pool.take(100);
        first[99] = 7.0;
        let place = first.as_ptr();
        drop(first);
        let second = pool.take(97);
        assert_eq!((second.as_ptr(), second.len()), (place, 97));
        assert_ne!(pool.take(97).as_ptr(), place);
        // Seven lines, then 97 numbers beside them: seven again.
        assert_eq!(pool.held(), Held { buffers: 2, bytes: 2 * 7 * 64 });
    }

    #[test]
    fn a_smaller_batch_uses_the_buffers_of_a_larger_one() {
        let pool = Pool::default();
        let place = pool.take(1600).as_ptr();
        assert_eq!(pool.take(800).as_ptr(), place);
        assert_eq!(pool.take(1600).as_ptr(), place);
        let (small, large) = (pool.take(700), pool.take(1600));
        assert_ne!(small.as_ptr(), place);
        assert_eq!(large.as_ptr(), place);
    }

    #[test]
    fn scratch_is_aligned_separate_and_kept() {
        let place = |nested: bool| {
            with_scratch([5, 40], |[a, b]| {
                a.fill(1.0);
                b.fill(2.0);
                assert_eq!(b.as_ptr() as usize % 64, 0);
                if nested {
                    with_scratch([64], |[c]| c.fill(3.0));
                }
                assert_eq!((a[4], b[0], b[39]), (1.0, 2.0, 2.0));
                a.as_ptr() as usize
            })
        };
        assert_eq!(place(false), place(false));
        place(true);
    }
}
