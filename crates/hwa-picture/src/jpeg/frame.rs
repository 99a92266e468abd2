//! A frame: the components that a picture is made of, and their samples.

use super::Size;
use super::transform::{level, transformed};
use super::vectors::Vectors;

/// A frame header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) size: Size,
    pub(super) is_progressive: bool,
    /// One for grey, three or four for colour.
    pub(super) components: Vec<Component>,
}

/// One of the signals that a picture is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) id: u8,
    /// Blocks in a unit of an interleaved scan.
    pub(super) across: usize,
    pub(super) down: usize,
    /// Pixels that a sample stands for.
    pub(super) ratio: Ratio,
    pub(super) quantisation: usize,
}

/// A number of pixels to each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ratio {
    pub(super) across: usize,
    pub(super) down: usize,
}

impl Frame {
    /// A segment SOF.
    pub(super) fn read(segment: &[u8], is_progressive: bool) -> Result<Self, &'static str> {
        const SHORT: &str = "the frame header is too short";
        let (&[precision, h0, h1, w0, w1, count], rest) =
            segment.split_first_chunk::<6>().ok_or(SHORT)?;
        if precision != 8 {
            return Err("samples of other than eight bits are not read");
        }
        let [height, width] = [[h0, h1], [w0, w1]].map(u16::from_be_bytes).map(usize::from);
        let components = rest.as_chunks().0.get(..usize::from(count)).ok_or(SHORT)?;
        let components = Self::components(components)?;
        Ok(Self { size: Size { height, width }, is_progressive, components })
    }

    fn components(entries: &[[u8; 3]]) -> Result<Vec<Component>, &'static str> {
        if !matches!(entries.len(), 1 | 3 | 4) {
            return Err("pictures of other than one, three or four components are not read");
        }
        let mut components = Vec::new();
        for &[id, sampling, quantisation] in entries {
            let (mut across, mut down) = (usize::from(sampling >> 4), usize::from(sampling & 15));
            if entries.len() == 1 {
                // Alone, a component is not interleaved, whatever it says.
                (across, down) = (1, 1);
            }
            if !(1..=4).contains(&across) || !(1..=4).contains(&down) {
                return Err("a component has no or more than four samples in a unit");
            }
            let (ratio, quantisation) = (Ratio { across, down }, usize::from(quantisation));
            components.push(Component { id, across, down, ratio, quantisation });
        }
        let most = |side: fn(&Component) -> usize| components.iter().map(side).max().unwrap_or(1);
        let (across, down) = (most(|component| component.across), most(|component| component.down));
        for component in &mut components {
            if across % component.across != 0 || down % component.down != 0 {
                return Err("a component's samples lie between pixels, which is not read");
            }
            component.ratio =
                Ratio { across: across / component.across, down: down / component.down };
        }
        Ok(components)
    }

    /// Units of an interleaved scan: rows and columns.
    pub(super) fn units(&self) -> (usize, usize) {
        let Component { across, down, ratio, .. } = self.components[0];
        let unit = |blocks: usize, ratio: usize| 8 * blocks * ratio;
        let Size { height, width } = self.size;
        (height.div_ceil(unit(down, ratio.down)), width.div_ceil(unit(across, ratio.across)))
    }

    /// Samples of a component: rows and columns.
    fn samples(&self, component: usize) -> (usize, usize) {
        let Ratio { across, down } = self.components[component].ratio;
        (self.size.height.div_ceil(down), self.size.width.div_ceil(across))
    }

    /// Blocks of a component that have samples of the picture: rows and columns.
    pub(super) fn blocks(&self, component: usize) -> (usize, usize) {
        let (height, width) = self.samples(component);
        (height.div_ceil(8), width.div_ceil(8))
    }

    /// Blocks of a component in whole units: rows and columns.
    pub(super) fn padded_blocks(&self, component: usize) -> (usize, usize) {
        let (rows, columns) = self.units();
        let Component { across, down, .. } = self.components[component];
        (rows * down, columns * across)
    }

    /// Empty planes for all components.
    pub(super) fn planes(&self) -> Vec<Plane> {
        let plane = |component| {
            let (rows, columns) = self.padded_blocks(component);
            let (height, width) = self.samples(component);
            Plane { width, height, stride: columns * 8, samples: vec![0; rows * columns * 64] }
        };
        (0..self.components.len()).map(plane).collect()
    }
}

/// Samples of one component, rows one after the other.
pub(super) struct Plane {
    /// Those that are part of the picture.
    pub(super) width: usize,
    pub(super) height: usize,
    /// From one row to the next: whole blocks.
    stride: usize,
    samples: Vec<u8>,
}

impl Plane {
    /// A row, with what the last blocks have behind it.
    #[inline(always)]
    pub(super) fn row(&self, y: usize) -> &[u8] {
        &self.samples[y * self.stride..][..self.stride]
    }

    /// Puts a block at its row and column. `last` is the place of its last coefficient in
    /// zigzag order.
    #[inline(always)]
    pub(super) fn put<V: Vectors>(
        &mut self,
        v: V,
        (row, column): (usize, usize),
        block: &[i16; 64],
        last: usize,
    ) {
        let begin = row * 8 * self.stride + column * 8;
        let end = begin + 7 * self.stride + 8;
        let rows = self.samples[begin..end].chunks_mut(self.stride);
        if last == 0 {
            let samples = [level(block[0]); 8];
            for row in rows {
                row[..8].copy_from_slice(&samples);
            }
            return;
        }
        let pixels = match last {
            // The first ten lie in the upper left quarter.
            0..10 => transformed::<V, 4>(v, block),
            _ => transformed::<V, 8>(v, block),
        };
        for (row, pixels) in rows.zip(pixels) {
            row[..8].copy_from_slice(&pixels);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of 10 x 19 pixels with components of this sampling.
    fn sampled(samplings: &[u8]) -> Result<Frame, &'static str> {
        let mut segment = vec![8, 0, 10, 0, 19, samplings.len() as u8];
        for (id, &sampling) in samplings.iter().enumerate() {
            segment.extend([id as u8, sampling, 0]);
        }
        Frame::read(&segment, false)
    }

    #[test]
    fn blocks_and_units_follow_the_hand_computed_numbers() {
        let frame = sampled(&[0x22, 0x11, 0x11]).unwrap();
        // Units of 16 x 16 pixels; luma of 10 x 19, chroma of 5 x 10 samples.
        assert_eq!(frame.units(), (1, 2));
        assert_eq!((frame.blocks(0), frame.padded_blocks(0)), ((2, 3), (2, 4)));
        assert_eq!((frame.blocks(1), frame.padded_blocks(1)), ((1, 2), (1, 2)));
        assert_eq!(frame.components[1].ratio, Ratio { across: 2, down: 2 });
        let grey = sampled(&[0x22]).unwrap();
        assert_eq!((grey.units(), grey.padded_blocks(0)), ((2, 3), (2, 3)));
    }

    #[test]
    fn frames_that_are_not_read_are_told() {
        let told = |samplings: &[u8]| sampled(samplings).unwrap_err();
        assert!(told(&[0x11, 0x11]).contains("one, three or four components"));
        assert!(told(&[0x01, 0x11, 0x11]).contains("no or more than four samples"));
        assert!(told(&[0x51, 0x11, 0x11]).contains("no or more than four samples"));
        assert!(told(&[0x31, 0x21, 0x11]).contains("between pixels"));
        assert!(Frame::read(&[12, 0, 1, 0, 1, 1, 0, 0x11, 0], false).is_err());
        assert_eq!(Frame::read(&[8, 0, 1], false), Err("the frame header is too short"));
        let short = Frame::read(&[8, 0, 1, 0, 1, 3, 0, 0x11, 0], false);
        assert_eq!(short, Err("the frame header is too short"));
    }
}
