//! Coefficients that come in several scans: in a progressive file, a part of them to a part of
//! their precision in each.

use super::bits::Bits;
use super::frame::{Frame, Plane};
use super::scan::{BAD_CODE, PAST_END, Part, Scan, Source, Units, ZIGZAG, codes};
use super::tables::{Codes, Step, Tables};
use super::vectors::Vectors;

/// Coefficients of a component, blocks one after the other.
pub(super) struct Coefficients {
    columns: usize,
    blocks: Vec<[i16; 64]>,
}

impl Coefficients {
    /// Zeros for all components.
    pub(super) fn of(frame: &Frame) -> Vec<Self> {
        let component = |component| {
            let (rows, columns) = frame.padded_blocks(component);
            Self { columns, blocks: vec![[0; 64]; rows * columns] }
        };
        (0..frame.components.len()).map(component).collect()
    }

    #[inline(always)]
    pub(super) fn block(&mut self, row: usize, column: usize) -> &mut [i16; 64] {
        &mut self.blocks[row * self.columns + column]
    }

    /// Multiplies by the steps and transforms.
    #[inline(always)]
    pub(super) fn develop<V: Vectors>(&self, v: V, sizes: &[u16; 64], plane: &mut Plane) {
        let mut steps = [0; 64];
        for (place, size) in ZIGZAG.iter().zip(sizes) {
            steps[usize::from(*place)] = *size as i16;
        }
        for (number, coefficients) in self.blocks.iter().enumerate() {
            let mut block = *coefficients;
            // Bits of all outside of the upper left quarter, and inside without the mean.
            let (mut outside, mut inside) = (0, 0);
            for (at, (value, step)) in block.iter_mut().zip(steps).enumerate() {
                if at >= 32 || at % 8 >= 4 {
                    outside |= *value;
                } else if at > 0 {
                    inside |= *value;
                }
                *value = value.wrapping_mul(step);
            }
            // As places in zigzag order.
            let last = match (outside, inside) {
                (0, 0) => 0,
                (0, _) => 9,
                _ => 63,
            };
            plane.put(v, (number / self.columns, number % self.columns), &block, last);
        }
    }
}

/// Reads a scan of a progressive file.
#[inline(always)]
pub(super) fn read_bits(
    (frame, scan, tables): (&Frame, &Scan, &Tables),
    source: &mut Source<'_>,
    coefficients: &mut [Coefficients],
) -> Result<(), &'static str> {
    let Scan { first, last, below, .. } = *scan;
    let (rows, columns) = scan.units(frame);
    if let [Part { component, ac, .. }] = scan.parts[..]
        && first > 0
    {
        let (codes, into) = (codes(&tables.ac, ac)?, &mut coefficients[component]);
        let band = Band { first, last, below, codes, columns, into, empty: 0 };
        return match scan.refines {
            false => source.read((rows, columns), Rough(band)),
            true => source.read((rows, columns), Refined(band)),
        };
    }
    let mut signals = Vec::new();
    for (component, into) in coefficients.iter_mut().enumerate() {
        if let Some(part) = scan.parts.iter().find(|part| part.component == component) {
            // A refining scan has bits only.
            let codes = if scan.refines { None } else { Some(codes(&tables.dc, part.dc)?) };
            let (down, across) = scan.blocks(frame.components[component]);
            signals.push(Mean { down, across, codes, mean: 0, into });
        }
    }
    source.read((rows, columns), Means { columns, below, signals })
}

/// The first coefficients of blocks: their means.
struct Means<'a> {
    columns: usize,
    below: u32,
    signals: Vec<Mean<'a>>,
}

struct Mean<'a> {
    down: usize,
    across: usize,
    codes: Option<&'a Codes>,
    /// That of the block before.
    mean: i32,
    into: &'a mut Coefficients,
}

impl Units for Means<'_> {
    #[inline(always)]
    fn read(&mut self, bits: &mut Bits<'_>, unit: usize) -> Result<(), &'static str> {
        let (row, column) = (unit / self.columns, unit % self.columns);
        for Mean { down, across, codes, mean, into } in &mut self.signals {
            for y in 0..*down {
                for x in 0..*across {
                    let block = into.block(row * *down + y, column * *across + x);
                    bits.refill();
                    if let Some(codes) = codes {
                        let Some(step) = codes.step(bits) else { return Err(BAD_CODE) };
                        *mean = mean.wrapping_add(step.value);
                        block[0] = (*mean << self.below) as i16;
                    } else {
                        block[0] |= (bits.take(1) << self.below) as i16;
                    }
                }
            }
        }
        Ok(())
    }

    fn restart(&mut self) {
        for signal in &mut self.signals {
            signal.mean = 0;
        }
    }
}

/// Coefficients between two places in zigzag order.
struct Band<'a> {
    first: usize,
    last: usize,
    below: u32,
    codes: &'a Codes,
    columns: usize,
    into: &'a mut Coefficients,
    /// How many blocks without new coefficients follow.
    empty: u32,
}

/// For the first time.
struct Rough<'a>(Band<'a>);

/// One more bit of those that are there, and new ones between them.
struct Refined<'a>(Band<'a>);

impl Units for Rough<'_> {
    #[inline(always)]
    fn read(&mut self, bits: &mut Bits<'_>, unit: usize) -> Result<(), &'static str> {
        let Band { first, last, below, codes, columns, ref mut into, ref mut empty } = self.0;
        if *empty > 0 {
            *empty -= 1;
            return Ok(());
        }
        let block = into.block(unit / columns, unit % columns);
        let mut k = first;
        while k <= last {
            bits.refill();
            let Some(Step { run, value }) = codes.step(bits) else { return Err(BAD_CODE) };
            if value == 0 && run < 15 {
                *empty = (1 << run) - 1 + bits.take(run as u32) as u32;
                break;
            }
            k += run;
            let Some(place) = ZIGZAG.get(k) else { return Err(PAST_END) };
            block[usize::from(place & 63)] = (value << below) as i16;
            k += 1;
        }
        Ok(())
    }

    fn restart(&mut self) {
        self.0.empty = 0;
    }
}

impl Units for Refined<'_> {
    #[inline(always)]
    fn read(&mut self, bits: &mut Bits<'_>, unit: usize) -> Result<(), &'static str> {
        let Band { first, last, below, codes, columns, ref mut into, ref mut empty } = self.0;
        let block = into.block(unit / columns, unit % columns);
        let mut k = first;
        while *empty == 0 && k <= last {
            bits.refill();
            let Some(Step { mut run, value }) = codes.step(bits) else { return Err(BAD_CODE) };
            if value == 0 && run < 15 {
                *empty = (1 << run) + bits.take(run as u32) as u32;
                break;
            }
            // So many zeros are passed over, and every coefficient among them gets its bit.
            while k <= last {
                let coefficient = &mut block[usize::from(ZIGZAG[k & 63] & 63)];
                k += 1;
                if *coefficient != 0 {
                    correct(bits, coefficient, below);
                } else if run == 0 {
                    *coefficient = (value << below) as i16;
                    break;
                } else {
                    run -= 1;
                }
            }
        }
        if *empty > 0 {
            while k <= last {
                let coefficient = &mut block[usize::from(ZIGZAG[k & 63] & 63)];
                k += 1;
                if *coefficient != 0 {
                    correct(bits, coefficient, below);
                }
            }
            *empty -= 1;
        }
        Ok(())
    }

    fn restart(&mut self) {
        self.0.empty = 0;
    }
}

/// One more bit, away from zero.
#[inline(always)]
fn correct(bits: &mut Bits<'_>, coefficient: &mut i16, below: u32) {
    if bits.ready() == 0 {
        bits.refill();
    }
    let more = (bits.take(1) << below) as i16;
    *coefficient = coefficient.wrapping_add(if *coefficient < 0 { -more } else { more });
}
