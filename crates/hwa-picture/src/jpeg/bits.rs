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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_end_at_a_marker_and_lose_their_stuffing() {
        let mut data = Data::default();
        let rest = data.take(&[0xa5, 0xff, 0, 0x12, 0xff, 0xd9, 7]);
        assert_eq!(rest, [0xff, 0xd9, 7]);
        let mut bits = data.bits();
        bits.refill();
        assert_eq!(
            [bits.take(4), bits.take(0), bits.take(12), bits.take(8)],
            [0xa, 0, 0x5ff, 0x12]
        );
        assert!(!bits.is_overdrawn());
        assert_eq!(bits.take(1), 0);
        assert!(bits.is_overdrawn());
        // A file may end anywhere.
        assert!(data.take(&[1, 0xff]).starts_with(&[0xff]));
        assert!(data.take(&[1, 2]).is_empty());
        assert!(data.take(&[]).is_empty());
    }

    #[test]
    fn refills_repeat_nothing_and_lose_nothing() {
        let bytes: Vec<u8> = (0..100u8).collect();
        let mut data = Data::default();
        data.take(&bytes);
        let mut bits = data.bits();
        for (at, byte) in bytes.iter().enumerate() {
            // By turns of 3 and 5 bits, which never end at the end of what is held.
            bits.refill();
            let upper = bits.take(3);
            bits.refill();
            assert_eq!(upper << 5 | bits.take(5), i32::from(*byte), "byte {at}");
        }
        assert!(!bits.is_overdrawn());
        for _ in 0..40 {
            bits.refill();
            assert_eq!(bits.take(16), 0);
        }
        assert!(bits.is_overdrawn());
    }

    #[test]
    fn numbers_without_their_first_bit_are_negative() {
        // Of two bits: -3, -2, 2, 3; of none: 0.
        assert_eq!([0, 1, 2, 3].map(|bits| extended(bits, 2)), [-3, -2, 2, 3]);
        assert_eq!(extended(0, 0), 0);
        assert_eq!([0, 1].map(|bits| extended(bits, 1)), [-1, 1]);
        assert_eq!([0, 0x7fff].map(|bits| extended(bits, 15)), [-0x7fff, 0x7fff]);
    }
}
