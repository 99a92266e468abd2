//! Pointers that know where they end.
//!
//! Inner loops cannot afford bounds checks, tests can: every access is checked by
//! `debug_assert`, so in builds with debug assertions a kernel that leaves its buffers panics.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::simd::Simd;

/// Numbers to read.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    start: *const f32,
    len: usize,
    numbers: PhantomData<&'a [f32]>,
}

// SAFETY: it stands for a `&[f32]`, which threads may share.
unsafe impl Send for Span<'_> {}
// SAFETY: as above.
unsafe impl Sync for Span<'_> {}

/// Numbers to read and write, by one kernel at a time.
#[derive(Clone, Copy)]
pub(crate) struct SpanMut<'a> {
    start: *mut f32,
    len: usize,
    numbers: PhantomData<&'a mut [f32]>,
}

impl<'a> Span<'a> {
    #[inline(always)]
    pub(crate) fn new(numbers: &'a [f32]) -> Self {
        Self { start: numbers.as_ptr(), len: numbers.len(), numbers: PhantomData }
    }

    /// The part from `offset` on.
    #[inline(always)]
    pub(crate) fn from(self, offset: usize) -> Self {
        debug_assert!(offset <= self.len, "{offset} of {}", self.len);
        Self { start: self.start.wrapping_add(offset), len: self.len - offset, ..self }
    }

    /// # Safety
    ///
    /// `i` and the vector after it lie within the span.
    #[inline(always)]
    pub(crate) unsafe fn vector<S: Simd>(self, i: usize) -> S {
        debug_assert!(i + S::LANES <= self.len, "{i} + {} of {}", S::LANES, self.len);
        // SAFETY: within the span by contract.
        unsafe { S::load(self.start.add(i)) }
    }

    /// # Safety
    ///
    /// `i` lies within the span.
    #[inline(always)]
    pub(crate) unsafe fn number(self, i: usize) -> f32 {
        debug_assert!(i < self.len, "{i} of {}", self.len);
        // SAFETY: within the span by contract.
        unsafe { *self.start.add(i) }
    }

    /// Asks for the cache lines of `len` numbers from `offset` on, as far as there are any.
    #[inline(always)]
    pub(crate) fn prefetch<S: Simd>(self, offset: usize, len: usize) {
        let end = (offset + len).min(self.len);
        for i in (offset..end).step_by(16) {
            S::prefetch(self.start.wrapping_add(i));
        }
    }
}

impl<'a> SpanMut<'a> {
    #[inline(always)]
    pub(crate) fn new(numbers: &'a mut [f32]) -> Self {
        Self { start: numbers.as_mut_ptr(), len: numbers.len(), numbers: PhantomData }
    }

    /// The part from `offset` on.
    #[inline(always)]
    pub(crate) fn from(self, offset: usize) -> Self {
        debug_assert!(offset <= self.len, "{offset} of {}", self.len);
        Self { start: self.start.wrapping_add(offset), len: self.len - offset, ..self }
    }

    /// The same numbers, to read.
    #[inline(always)]
    pub(crate) fn read(self) -> Span<'a> {
        Span { start: self.start, len: self.len, numbers: PhantomData }
    }

    /// # Safety
    ///
    /// `i` and the vector after it lie within the span, and nobody else reads them.
    #[inline(always)]
    pub(crate) unsafe fn put<S: Simd>(self, i: usize, vector: S) {
        debug_assert!(i + S::LANES <= self.len, "{i} + {} of {}", S::LANES, self.len);
        // SAFETY: within the span by contract.
        unsafe { vector.store(self.start.add(i)) }
    }

    /// As [`put`](Self::put), past the cache.
    ///
    /// # Safety
    ///
    /// As there, and the place is a multiple of the vector's size.
    #[inline(always)]
    pub(crate) unsafe fn put_past<S: Simd>(self, i: usize, vector: S) {
        debug_assert!(i + S::LANES <= self.len, "{i} + {} of {}", S::LANES, self.len);
        debug_assert!(self.start.wrapping_add(i).addr().is_multiple_of(4 * S::LANES));
        // SAFETY: within the span and aligned by contract.
        unsafe { vector.stream(self.start.add(i)) }
    }
}

/// Numbers that will be read soon, asked for bit by bit while others are worked on.
pub(crate) struct Ahead<'a> {
    parts: [Span<'a>; 3],
    /// The lines that are asked for at a time.
    each: usize,
    /// The part and the line to go on with.
    next: Cell<(usize, usize)>,
}

/// Some lines to ask for.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    start: *const f32,
    pub count: usize,
}

impl<'a> Ahead<'a> {
    /// Nothing.
    pub(crate) fn nothing() -> Self {
        Self::new([&[], &[], &[]], 1)
    }

    /// Parts, in so many times.
    pub(crate) fn new(parts: [&'a [f32]; 3], times: usize) -> Self {
        let lines: usize = parts.iter().map(|part| part.len() / 16).sum();
        let each = lines.div_ceil(times.max(1));
        Self { parts: parts.map(Span::new), each, next: Cell::new((0, 0)) }
    }

    /// The next lines.
    #[inline(always)]
    pub(crate) fn step(&self) -> Lines {
        let (mut part, mut line) = self.next.get();
        while part < 2 && line * 16 >= self.parts[part].len {
            (part, line) = (part + 1, 0);
        }
        self.next.set((part, line + self.each));
        let span = self.parts[part];
        let count = (span.len / 16).saturating_sub(line).min(self.each);
        Lines { start: span.start.wrapping_add(line * 16), count }
    }
}

impl Lines {
    #[inline(always)]
    pub(crate) fn prefetch_all<S: Simd>(self) {
        for line in 0..self.count {
            self.prefetch::<S>(line);
        }
    }

    #[inline(always)]
    pub(crate) fn prefetch<S: Simd>(self, line: usize) {
        S::prefetch(self.start.wrapping_add(line * 16));
    }
}
