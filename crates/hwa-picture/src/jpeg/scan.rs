//! A scan: its header, its units between restarts, and the whole blocks of a baseline file.

use super::bits::{Bits, Data};
use super::coefficients::Coefficients;
use super::frame::{Component, Frame, Plane};
use super::tables::{Codes, Step, Tables};
use super::vectors::Vectors;

/// Where coefficients in the order of the file lie in a block: in diagonals.
pub(super) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

pub(super) const BAD_CODE: &str = "the compressed data have a code that is in no table";
pub(super) const PAST_END: &str = "a block has more than 64 coefficients";
const NO_TABLE: &str = "a scan needs a table that is not there";

/// A scan header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) parts: Vec<Part>,
    /// The first and the last coefficient, in zigzag order.
    pub(super) first: usize,
    pub(super) last: usize,
    /// Whether coefficients that are there get one more bit.
    pub(super) refines: bool,
    /// How many bits of coefficients are yet to come.
    pub(super) below: u32,
}

/// A component's part in a scan, with the numbers of its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) component: usize,
    pub(super) dc: usize,
    pub(super) ac: usize,
}

impl Scan {
    /// A segment SOS.
    pub(super) fn read(segment: &[u8], frame: &Frame) -> Result<Self, &'static str> {
        const WRONG: &str = "a scan header is wrong";
        let (&count, rest) = segment.split_first().ok_or(WRONG)?;
        let (pairs, rest) = rest.split_at_checked(2 * usize::from(count)).ok_or(WRONG)?;
        let &[first, last, bits] = rest else { return Err(WRONG) };
        let mut parts: Vec<Part> = Vec::new();
        for &[id, tables] in pairs.as_chunks().0 {
            let component = frame.components.iter().position(|component| component.id == id);
            let component = component.ok_or(WRONG)?;
            // In the order of the frame, each once.
            if parts.last().is_some_and(|before| before.component >= component) {
                return Err(WRONG);
            }
            let (dc, ac) = (usize::from(tables >> 4), usize::from(tables & 15));
            parts.push(Part { component, dc, ac });
        }
        if parts.is_empty() {
            return Err(WRONG);
        }
        if !frame.is_progressive {
            // Whatever it says: old encoders say anything.
            return Ok(Self { parts, first: 0, last: 63, refines: false, below: 0 });
        }
        let (first, last) = (usize::from(first), usize::from(last));
        let (before, below) = (u32::from(bits >> 4), u32::from(bits & 15));
        let of_means = first == 0 && last == 0;
        let of_others = first > 0 && first <= last && last < 64 && parts.len() == 1;
        if !(of_means || of_others) || below > 13 || (before != 0 && before != below + 1) {
            return Err(WRONG);
        }
        Ok(Self { parts, first, last, refines: before != 0, below })
    }

    /// The units of the scan: rows and columns.
    pub(super) fn units(&self, frame: &Frame) -> (usize, usize) {
        match self.parts[..] {
            // Alone, a component has a unit for each of its blocks.
            [Part { component, .. }] => frame.blocks(component),
            _ => frame.units(),
        }
    }

    /// The blocks of a component in a unit: rows and columns.
    pub(super) fn blocks(&self, component: Component) -> (usize, usize) {
        if self.parts.len() == 1 { (1, 1) } else { (component.down, component.across) }
    }
}

/// What units are read from: the data of a scan, which may start anew at markers.
pub(super) struct Source<'a> {
    rest: &'a [u8],
    data: Data,
    /// Units between two restarts; 0 for none.
    interval: usize,
}

/// What units are read by. No closure: those would not be compiled for the CPU at hand.
pub(super) trait Units {
    fn read(&mut self, bits: &mut Bits<'_>, unit: usize) -> Result<(), &'static str>;

    /// Forgets what was kept of the blocks before.
    fn restart(&mut self);
}

impl<'a> Source<'a> {
    /// The data at the begin of `rest`.
    pub(super) fn new(rest: &'a [u8], interval: usize) -> Self {
        let mut data = Data::default();
        let rest = data.take(rest);
        Self { rest, data, interval }
    }

    /// What begins with the marker behind the data; empty if the file ends before.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads rows and columns of units.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        (rows, columns): (usize, usize),
        mut units: impl Units,
    ) -> Result<(), &'static str> {
        let count = rows * columns;
        let interval = if self.interval == 0 { count } else { self.interval };
        let mut first = 0;
        while first < count {
            if first > 0 {
                let marker = 0xd0 + ((first / interval - 1) % 8) as u8;
                let Some(rest) = self.rest.strip_prefix(&[0xff, marker]) else {
                    return Err("a restart marker is missing");
                };
                self.rest = self.data.take(rest);
                units.restart();
            }
            let mut bits = self.data.bits();
            let end = (first + interval).min(count);
            for unit in first..end {
                units.read(&mut bits, unit)?;
                if bits.is_overdrawn() {
                    return Err("the compressed data end before the picture does");
                }
            }
            first = end;
        }
        Ok(())
    }
}

/// A table of codes by its number.
pub(super) fn codes(
    slots: &[Option<Box<Codes>>; 4],
    number: usize,
) -> Result<&Codes, &'static str> {
    slots.get(number).and_then(Option::as_deref).ok_or(NO_TABLE)
}

/// A table of quantisation steps by its number.
pub(super) fn steps(tables: &Tables, number: usize) -> Result<&[u16; 64], &'static str> {
    tables.quantisation.get(number).and_then(Option::as_ref).ok_or(NO_TABLE)
}

/// Reads the only scan of a baseline file into planes.
#[inline(always)]
pub(super) fn read_pixels<V: Vectors>(
    v: V,
    (frame, scan, tables): (&Frame, &Scan, &Tables),
    source: &mut Source<'_>,
    planes: &mut [Plane],
) -> Result<(), &'static str> {
    let (rows, columns) = scan.units(frame);
    let mut signals = Vec::new();
    for (&part, plane) in scan.parts.iter().zip(planes) {
        let component = frame.components[part.component];
        let blocks = Blocks::new(part, tables, steps(tables, component.quantisation)?)?;
        signals.push((scan.blocks(component), blocks, plane));
    }
    source.read((rows, columns), Pixels { v, columns, signals })
}

/// Blocks that become pixels at once.
struct Pixels<'a, V> {
    v: V,
    columns: usize,
    signals: Vec<((usize, usize), Blocks<'a>, &'a mut Plane)>,
}

impl<V: Vectors> Units for Pixels<'_, V> {
    #[inline(always)]
    fn read(&mut self, bits: &mut Bits<'_>, unit: usize) -> Result<(), &'static str> {
        let (row, column) = (unit / self.columns, unit % self.columns);
        for ((down, across), blocks, plane) in &mut self.signals {
            for y in 0..*down {
                for x in 0..*across {
                    let mut block = [0; 64];
                    let last = blocks.read(bits, &mut block)?;
                    let place = (row * *down + y, column * *across + x);
                    plane.put(self.v, place, &block, last);
                }
            }
        }
        Ok(())
    }

    fn restart(&mut self) {
        for (_, blocks, _) in &mut self.signals {
            blocks.mean = 0;
        }
    }
}

/// Reads one of several scans of a file that is not progressive: whole blocks of some of the
/// components.
#[inline(always)]
pub(super) fn read_some(
    (frame, scan, tables): (&Frame, &Scan, &Tables),
    source: &mut Source<'_>,
    coefficients: &mut [Coefficients],
) -> Result<(), &'static str> {
    let (rows, columns) = scan.units(frame);
    let mut signals = Vec::new();
    for (component, into) in coefficients.iter_mut().enumerate() {
        if let Some(&part) = scan.parts.iter().find(|part| part.component == component) {
            let blocks = Blocks::new(part, tables, &[1; 64])?;
            signals.push((scan.blocks(frame.components[component]), blocks, into));
        }
    }
    source.read((rows, columns), Whole { columns, signals })
}

/// Blocks that are kept.
struct Whole<'a> {
    columns: usize,
    signals: Vec<((usize, usize), Blocks<'a>, &'a mut Coefficients)>,
}

impl Units for Whole<'_> {
    #[inline(always)]
    fn read(&mut self, bits: &mut Bits<'_>, unit: usize) -> Result<(), &'static str> {
        let (row, column) = (unit / self.columns, unit % self.columns);
        for ((down, across), blocks, into) in &mut self.signals {
            for y in 0..*down {
                for x in 0..*across {
                    let block = into.block(row * *down + y, column * *across + x);
                    *block = [0; 64];
                    blocks.read(bits, block)?;
                }
            }
        }
        Ok(())
    }

    fn restart(&mut self) {
        for (_, blocks, _) in &mut self.signals {
            blocks.mean = 0;
        }
    }
}

/// The blocks of a component, one after the other.
struct Blocks<'a> {
    dc: &'a Codes,
    ac: &'a Codes,
    /// Where a coefficient goes, and what it is multiplied by.
    steps: [(u8, i16); 64],
    /// The first coefficient of the block before.
    mean: i32,
}

impl<'a> Blocks<'a> {
    fn new(part: Part, tables: &'a Tables, sizes: &[u16; 64]) -> Result<Self, &'static str> {
        let mut steps = [(0, 0); 64];
        for ((step, place), size) in steps.iter_mut().zip(ZIGZAG).zip(sizes) {
            *step = (place, *size as i16);
        }
        Ok(Self {
            dc: codes(&tables.dc, part.dc)?,
            ac: codes(&tables.ac, part.ac)?,
            steps,
            mean: 0,
        })
    }

    /// Fills a block of zeros. Returns the place of its last coefficient.
    #[inline(always)]
    fn read(&mut self, bits: &mut Bits<'_>, block: &mut [i16; 64]) -> Result<usize, &'static str> {
        bits.refill();
        let Some(Step { value, .. }) = self.dc.step(bits) else { return Err(BAD_CODE) };
        self.mean = self.mean.wrapping_add(value);
        block[0] = (self.mean as i16).wrapping_mul(self.steps[0].1);
        bits.refill();
        let (mut k, mut last) = (1, 0);
        while k < 64 {
            let Some(step) = self.ac.step(bits) else { return Err(BAD_CODE) };
            bits.refill();
            if step == Step::END {
                break;
            }
            k += step.run;
            let Some(&(place, size)) = self.steps.get(k) else { return Err(PAST_END) };
            block[usize::from(place & 63)] = (step.value as i16).wrapping_mul(size);
            last = k;
            k += 1;
        }
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(is_progressive: bool) -> Frame {
        let segment = [8, 0, 3, 0, 5, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1];
        Frame::read(&segment, is_progressive).unwrap()
    }

    fn read(is_progressive: bool, segment: &[u8]) -> Result<Scan, &'static str> {
        Scan::read(segment, &frame(is_progressive))
    }

    #[test]
    fn scan_headers_name_components_of_the_frame_in_its_order() {
        let scan = read(false, &[2, 1, 0x00, 3, 0x12, 9, 9, 9]).unwrap();
        let parts = [Part { component: 0, dc: 0, ac: 0 }, Part { component: 2, dc: 1, ac: 2 }];
        assert_eq!(scan.parts, parts);
        assert_eq!((scan.first, scan.last, scan.below), (0, 63, 0));
        for wrong in [
            &[][..],
            &[0, 0, 63, 0],
            &[1, 4, 0, 0, 63, 0],
            &[2, 3, 0, 1, 0, 0, 63, 0],
            &[2, 1, 0, 1, 0, 0, 63, 0],
            &[1, 1, 0, 0, 63],
        ] {
            assert_eq!(read(false, wrong), Err("a scan header is wrong"), "{wrong:?}");
        }
    }

    #[test]
    fn progressive_scans_have_means_or_a_band_of_one_component() {
        let of = |first, last, bits| read(true, &[1, 1, 0, first, last, bits]);
        assert!(!of(0, 0, 0x01).unwrap().refines);
        assert!(of(0, 0, 0x10).unwrap().refines);
        assert!(of(1, 63, 0x21).unwrap().refines);
        for (first, last, bits) in
            [(0, 63, 0), (2, 1, 0), (1, 64, 0), (1, 5, 0x20), (1, 5, 0x0e), (1, 5, 0x11)]
        {
            assert!(of(first, last, bits).is_err(), "{first} to {last}, {bits:x}");
        }
        assert!(read(true, &[2, 1, 0, 2, 0, 1, 5, 0]).is_err());
    }

    #[test]
    fn every_place_of_a_block_is_in_the_zigzag() {
        let mut places = ZIGZAG;
        places.sort_unstable();
        assert!(places.iter().enumerate().all(|(at, &place)| at == usize::from(place)));
        // The first ten lie in the upper left quarter.
        assert!(ZIGZAG[..10].iter().all(|place| place / 8 < 4 && place % 8 < 4));
    }
}
