//! The bits of a scan.
//!
//! Compressed data are copied without the zeros that are stuffed behind 0xff, up to the next
//! marker, so that the loops that read them look at nothing but bits.

/// The data of a scan between two markers, without stuffing and with zeros behind.
#[derive(Default)]
pub(super) struct Data {
    bytes: Vec<u8>,
    length: usize,
}

/// Enough for a read of eight bytes at the end.
const PADDING: usize = 16;

impl Data {
    /// Takes the data up to the next marker and returns what begins with it.
    pub(super) fn take<'a>(&mut self, mut rest: &'a [u8]) -> &'a [u8] {
        self.bytes.clear();
        while let Some(at) = memchr::memchr(0xff, rest) {
            if rest.get(at + 1) != Some(&0) {
                self.bytes.extend_from_slice(&rest[..at]);
                rest = &rest[at..];
                self.pad();
                return rest;
            }
            self.bytes.extend_from_slice(&rest[..=at]);
            rest = &rest[at + 2..];
        }
        self.bytes.extend_from_slice(rest);
        self.pad();
        &[]
    }

    fn pad(&mut self) {
        self.length = self.bytes.len();
        self.bytes.resize(self.length + PADDING, 0);
    }

    pub(super) fn bits(&self) -> Bits<'_> {
        Bits { bytes: &self.bytes, length: self.length, at: 0, held: 0, count: 0 }
    }
}

/// A reader of bits, the first ones uppermost.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    length: usize,
    /// The byte that the next refill reads first.
    at: usize,
    /// The next bits, from the top. Below those that count are bits that a refill repeats.
    held: u64,
    count: u32,
}

impl Bits<'_> {
    /// Makes at least 56 bits ready; behind the end they are zeros.
    #[inline(always)]
    pub(super) fn refill(&mut self) {
        if let Some(eight) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) {
            self.held |= u64::from_be_bytes(*eight) >> self.count;
        }
        self.at += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
    }

    /// How many bits are ready.
    #[inline(always)]
    pub(super) fn ready(&self) -> u32 {
        self.count
    }

    /// The next `count` bits, 1 to 32.
    #[inline(always)]
    pub(super) fn peek(&self, count: u32) -> usize {
        (self.held >> (64 - count)) as usize
    }

    /// Passes over bits that are ready.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: u32) {
        self.held <<= count;
        self.count -= count;
    }

    /// The next `count` bits, 0 to 16.
    #[inline(always)]
    pub(super) fn take(&mut self, count: u32) -> i32 {
        // In two steps: a shift by 64 is none.
        let bits = (self.held >> 1 >> (63 - count)) as i32;
        self.skip(count);
        bits
    }

    /// A number of `size` bits in JPEG's way: without their first bit, negative ones count
    /// from below.
    #[inline(always)]
    pub(super) fn number(&mut self, size: u32) -> i32 {
        extended(self.take(size), size)
    }

    /// Whether more bits were taken than there are.
    #[inline(always)]
    pub(super) fn is_overdrawn(&self) -> bool {
        self.at * 8 > self.length * 8 + self.count as usize
    }
}

/// What `size` bits mean as a coefficient.
#[inline(always)]
pub(super) fn extended(bits: i32, size: u32) -> i32 {
    // Without a branch: half of the numbers are negative.
    let below = ((bits << 1) >> size) - 1;
    bits + (below & ((-1 << size) + 1))
}
