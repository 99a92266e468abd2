//! The weights of a convolution in the order that the product reads them.
//!
//! They come and go as PyTorch keeps them, `[output, input, height, width]`. The product
//! wants a matrix for each tap (a place in the kernel), with the channels that
//! are summed over as rows and those that result as columns, packed in panels.

use crate::product::panel_width;
use crate::simd::{GROUP, Level, padded};

/// Rows that are packed at a time.
const ROWS: usize = 64;

/// The size of a dense convolution's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Dense {
    /// Output channels.
    pub outputs: usize,
    /// Input channels.
    pub inputs: usize,
    /// Rows and columns of the kernel.
    pub kernel: [usize; 2],
}

/// Which way a convolution is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Inputs are summed over, outputs result.
    Forward,
    /// Outputs are summed over, inputs result, and the kernel is turned around.
    Backward,
}

impl Dense {
    /// The places in the kernel.
    pub(crate) fn taps(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// The number of weights.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.outputs * self.inputs * self.taps()
    }

    /// The channels summed over and those that result.
    pub(crate) fn matrix(&self, direction: Direction) -> (usize, usize) {
        match direction {
            Direction::Forward => (self.inputs, self.outputs),
            Direction::Backward => (self.outputs, self.inputs),
        }
    }

    /// The numbers that [`pack`](Self::pack) writes.
    pub(crate) fn packed_len(&self, direction: Direction) -> usize {
        let (depth, columns) = self.matrix(direction);
        self.taps() * depth * padded(columns)
    }

    /// Writes the matrices of `taps`, places in the kernel: all of them, or some.
    ///
    /// With `stacked`, they form one matrix, below one another; without, each is packed
    /// by itself.
    pub(crate) fn pack(
        &self,
        level: Level,
        weights: &[f32],
        (direction, taps): (Direction, &[usize]),
        stacked: bool,
        packed: &mut [f32],
    ) {
        let (depth, columns) = self.matrix(direction);
        let (width, panel) = (padded(columns), panel_width(level.lanes()));
        let (all, per_output) = (self.taps(), self.inputs * self.taps());
        let total = if stacked { taps.len() * depth } else { depth };
        for (number, &tap) in taps.iter().enumerate() {
            let base = if stacked { 0 } else { number * depth * width };
            let above = if stacked { number * depth } else { 0 };
            for start in (0..width).step_by(panel) {
                let wide = panel.min(width - start);
                let inside = wide.min(columns.saturating_sub(start));
                let rows = &mut packed[base + start * total + above * wide..][..depth * wide];
                if inside < wide {
                    rows.fill(0.0);
                }
                if inside == 0 {
                    continue;
                }
                match direction {
                    Direction::Forward => {
                        // A few rows at a time: what is written stays in the cache.
                        for (block, rows) in rows.chunks_mut(ROWS * wide).enumerate() {
                            for n in 0..inside {
                                let from = &weights[(start + n) * per_output + tap..];
                                for (k, row) in (block * ROWS..).zip(rows.chunks_mut(wide)) {
                                    row[n] = from[k * all];
                                }
                            }
                        }
                    }
                    Direction::Backward => {
                        for (k, row) in rows.chunks_mut(wide).enumerate() {
                            let from = &weights[k * per_output + start * all + (all - 1 - tap)..];
                            for (to, from) in row[..inside].iter_mut().zip(from.iter().step_by(all))
                            {
                                *to = *from;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Writes gradients that lie as `[tap][input][padded output]` in PyTorch's order.
    pub(crate) fn unpack(&self, gradients: &[f32], weights: &mut [f32]) {
        let (taps, width) = (self.taps(), padded(self.outputs));
        let per_output = self.inputs * taps;
        // A cache line of outputs at a time: what is read is read once.
        for start in (0..self.outputs).step_by(GROUP) {
            let end = self.outputs.min(start + GROUP);
            for i in 0..self.inputs {
                for tap in 0..taps {
                    let from = &gradients[(tap * self.inputs + i) * width..][..width];
                    for o in start..end {
                        weights[o * per_output + i * taps + tap] = from[o];
                    }
                }
            }
        }
    }
}
