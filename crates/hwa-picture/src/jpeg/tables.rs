//! The tables of a file: quantisation, and Huffman codes.

use super::bits::{Bits, extended};

/// What the segments of a file have defined so far.
#[derive(Default)]
pub(super) struct Tables {
    /// In zigzag order.
    pub(super) quantisation: [Option<[u16; 64]>; 4],
    pub(super) dc: [Option<Box<Codes>>; 4],
    pub(super) ac: [Option<Box<Codes>>; 4],
}

impl Tables {
    /// A segment DQT.
    pub(super) fn define_quantisation(&mut self, mut segment: &[u8]) -> Result<(), &'static str> {
        const SHORT: &str = "a quantisation table is too short";
        while let Some((&head, rest)) = segment.split_first() {
            let slot = self.quantisation.get_mut(usize::from(head & 15));
            let slot = slot.ok_or("a quantisation table has a number above 3")?;
            let mut table = [0; 64];
            segment = if head >> 4 == 0 {
                let (bytes, rest) = rest.split_first_chunk::<64>().ok_or(SHORT)?;
                table = bytes.map(u16::from);
                rest
            } else {
                let (bytes, rest) = rest.split_at_checked(128).ok_or(SHORT)?;
                for (step, pair) in table.iter_mut().zip(bytes.as_chunks().0) {
                    *step = u16::from_be_bytes(*pair);
                }
                rest
            };
            *slot = Some(table);
        }
        Ok(())
    }

    /// A segment DHT.
    pub(super) fn define_codes(&mut self, mut segment: &[u8]) -> Result<(), &'static str> {
        const SHORT: &str = "a Huffman table is too short";
        while let Some((&head, rest)) = segment.split_first() {
            let slots = match head >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return Err("a Huffman table is of no known class"),
            };
            let slot = slots.get_mut(usize::from(head & 15));
            let slot = slot.ok_or("a Huffman table has a number above 3")?;
            let (counts, rest) = rest.split_first_chunk::<16>().ok_or(SHORT)?;
            let symbols = counts.iter().map(|&count| usize::from(count)).sum();
            let (symbols, rest) = rest.split_at_checked(symbols).ok_or(SHORT)?;
            *slot = Some(Box::new(Codes::new(counts, symbols)?));
            segment = rest;
        }
        Ok(())
    }
}

/// Codes of at most so many bits, together with the number behind them, are looked up.
const LOOKAHEAD: u32 = 10;

/// A Huffman code, ready for decoding.
pub(super) struct Codes {
    /// By the next bits.
    entries: [Entry; 1 << LOOKAHEAD],
    /// By length: the first code that is longer, as 16 bits.
    limits: [u32; 17],
    /// By length: what is added to a code to get the place of its symbol.
    offsets: [i32; 17],
    symbols: [u8; 256],
}

/// What the next bits say: `value << 16 | run << 8 | bits` with the number behind the code,
/// or `symbol << 8 | NUMBER_FOLLOWS | bits` without it, or `UNKNOWN`.
#[derive(Clone, Copy)]
pub(super) struct Entry(u32);

const NUMBER_FOLLOWS: u32 = 0x80;
const UNKNOWN: u32 = 0xff;

impl Entry {
    fn new(symbol: u8, length: u32, index: usize) -> Self {
        let (run, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
        if length + size > LOOKAHEAD {
            return Self(u32::from(symbol) << 8 | NUMBER_FOLLOWS | length);
        }
        let bits = (index >> (LOOKAHEAD - length - size)) as i32 & ((1 << size) - 1);
        Self((extended(bits, size) as u32) << 16 | run << 8 | (length + size))
    }
}

/// A run of zeros and the number behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) run: usize,
    pub(super) value: i32,
}

impl Step {
    /// Neither zeros nor a number: nothing more in this block.
    pub(super) const END: Self = Self { run: 0, value: 0 };
}

impl Codes {
    fn new(counts: &[u8; 16], symbols: &[u8]) -> Result<Self, &'static str> {
        const WRONG: &str = "a Huffman table has more codes than fit";
        let mut codes = Self {
            entries: [Entry(UNKNOWN); 1 << LOOKAHEAD],
            limits: [0; 17],
            offsets: [0; 17],
            symbols: [0; 256],
        };
        codes.symbols.get_mut(..symbols.len()).ok_or(WRONG)?.copy_from_slice(symbols);
        let (mut code, mut place) = (0u32, 0usize);
        for length in 1..=16 {
            let count = usize::from(counts[length as usize - 1]);
            codes.offsets[length as usize] = place as i32 - code as i32;
            for &symbol in &symbols[place..place + count] {
                if code >> length != 0 {
                    return Err(WRONG);
                }
                if length <= LOOKAHEAD {
                    let first = (code << (LOOKAHEAD - length)) as usize;
                    for index in first..first + (1 << (LOOKAHEAD - length)) {
                        codes.entries[index] = Entry::new(symbol, length, index);
                    }
                }
                code += 1;
            }
            place += count;
            codes.limits[length as usize] = code << (16 - length);
            code <<= 1;
        }
        Ok(codes)
    }

    /// The next code and the number behind it. At least 32 bits must be ready.
    #[inline(always)]
    pub(super) fn step(&self, bits: &mut Bits<'_>) -> Option<Step> {
        let Entry(entry) = self.entries[bits.peek(LOOKAHEAD)];
        if entry & NUMBER_FOLLOWS == 0 {
            bits.skip(entry & 0x7f);
            return Some(Step { run: (entry >> 8 & 0xff) as usize, value: entry as i32 >> 16 });
        }
        let symbol = self.rest(entry, bits)?;
        let value = bits.number(u32::from(symbol & 15));
        Some(Step { run: usize::from(symbol >> 4), value })
    }

    #[inline(always)]
    fn rest(&self, entry: u32, bits: &mut Bits<'_>) -> Option<u8> {
        if entry != UNKNOWN {
            bits.skip(entry & 0x7f);
            return Some((entry >> 8) as u8);
        }
        self.search(bits)
    }

    #[inline(never)]
    #[cold]
    fn search(&self, bits: &mut Bits<'_>) -> Option<u8> {
        let next = bits.peek(16) as u32;
        let length = (1..=16).find(|&length| next < self.limits[length])?;
        bits.skip(length as u32);
        let place = (next >> (16 - length)) as i32 + self.offsets[length];
        self.symbols.get(usize::try_from(place).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::bits::Data;
    use super::*;

    /// A segment with one table of the first class.
    fn segment(counts: [u8; 16], symbols: &[u8]) -> Vec<u8> {
        [&[0x10], &counts[..], symbols].concat()
    }

    #[test]
    fn codes_short_and_long_are_read_with_the_numbers_behind_them() {
        // 0: the end; 10: two zeros and a number of three bits; 110: a number of twelve;
        // 111 1111 1111 0: a zero and a number of one bit, by a code longer than the table.
        let mut counts = [0; 16];
        (counts[0], counts[1], counts[2], counts[11]) = (1, 1, 1, 1);
        let mut tables = Tables::default();
        tables.define_codes(&segment(counts, &[0x00, 0x23, 0x0c, 0x11])).unwrap();
        let codes = tables.ac[0].as_deref().unwrap();
        let mut data = Data::default();
        // 0 | 10 101 | 110 000000000001 | 111000000000 1
        data.take(&[0b0101_0111, 0b0000_0000, 0b0000_1111, 0b0000_0000, 0b0100_0000]);
        let mut bits = data.bits();
        let mut next = || {
            bits.refill();
            codes.step(&mut bits)
        };
        assert_eq!(next(), Some(Step::END));
        assert_eq!(next(), Some(Step { run: 2, value: 5 }));
        assert_eq!(next(), Some(Step { run: 0, value: 1 - 4095 }));
        assert_eq!(next(), Some(Step { run: 1, value: 1 }));
    }

    #[test]
    fn a_code_that_is_in_no_table_is_none() {
        let mut counts = [0; 16];
        counts[1] = 1;
        let mut tables = Tables::default();
        tables.define_codes(&segment(counts, &[0])).unwrap();
        let mut data = Data::default();
        data.take(&[0b0100_0000]);
        let mut bits = data.bits();
        bits.refill();
        assert_eq!(tables.ac[0].as_deref().unwrap().step(&mut bits), None);
    }

    #[test]
    fn tables_that_cannot_be_are_refused() {
        let mut tables = Tables::default();
        let mut counts = [0; 16];
        counts[0] = 3;
        let refused = tables.define_codes(&segment(counts, &[0, 1, 2]));
        assert_eq!(refused, Err("a Huffman table has more codes than fit"));
        let refused = tables.define_codes(&segment([255; 16], &[0; 16 * 255]));
        assert_eq!(refused, Err("a Huffman table has more codes than fit"));
        assert_eq!(tables.define_codes(&[0x10, 0]), Err("a Huffman table is too short"));
        assert_eq!(tables.define_codes(&[0x24]), Err("a Huffman table is of no known class"));
        assert_eq!(tables.define_codes(&[0x14]), Err("a Huffman table has a number above 3"));
        let short = tables.define_quantisation(&[0x10; 128]);
        assert_eq!(short, Err("a quantisation table is too short"));
        let wrong = tables.define_quantisation(&[4; 65]);
        assert_eq!(wrong, Err("a quantisation table has a number above 3"));
    }

    #[test]
    fn quantisation_has_one_or_two_bytes_a_step() {
        let mut tables = Tables::default();
        let wide = [&[0x11], &[1, 2].repeat(64)[..]].concat();
        tables.define_quantisation(&[&[0x00], &[7; 64][..], &wide].concat()).unwrap();
        assert_eq!(tables.quantisation[..2], [Some([7; 64]), Some([0x102; 64])]);
    }
}
