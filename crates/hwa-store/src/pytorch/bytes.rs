//! Little-endian numbers from a slice, and never a byte beyond it.

/// What is left to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    /// Starts at the beginning.
    pub(super) fn new(all: &'a [u8]) -> Self {
        Self { all, at: 0 }
    }

    /// How many were read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Whether none is left.
    pub(super) fn is_empty(&self) -> bool {
        self.at == self.all.len()
    }

    /// The next `n`, if there are as many.
    pub(super) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.all.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(taken)
    }

    /// What stands before the next newline, which is taken along.
    pub(super) fn line(&mut self) -> Option<&'a [u8]> {
        let length = self.all.get(self.at..)?.iter().position(|byte| *byte == b'\n')?;
        let line = self.take(length);
        self.at += 1;
        line
    }

    /// The next byte.
    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// The next two bytes.
    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes.
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes.
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
}
