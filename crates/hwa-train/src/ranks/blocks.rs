//! Who has what: contiguous blocks that differ by at most one.

use std::ops::Range;

/// So many things in a row, shared out among so many takers.
///
/// ```
/// use hwa_train::Blocks;
///
/// let blocks = Blocks::new(7, 3);
/// let all: Vec<_> = (0..3).map(|taker| blocks.of(taker)).collect();
/// assert_eq!(all, [0..3, 3..5, 5..7]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    total: usize,
    takers: usize,
}

impl Blocks {
    /// `total` things among `takers`, who are one at least.
    pub fn new(total: usize, takers: usize) -> Self {
        Self { total, takers: takers.max(1) }
    }

    /// How many things there are.
    pub fn total(&self) -> usize {
        self.total
    }

    /// What one taker has. The first ones have one more, where it does not come out even.
    pub fn of(&self, taker: usize) -> Range<usize> {
        let (each, more) = (self.total / self.takers, self.total % self.takers);
        let start = |taker: usize| taker * each + taker.min(more);
        start(taker)..start(taker + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_follow_each_other_and_differ_by_at_most_one(
            total in 0usize..5000, takers in 1usize..600
        ) {
            let blocks = Blocks::new(total, takers);
            let mut next = 0;
            for taker in 0..takers {
                let block = blocks.of(taker);
                prop_assert_eq!(block.start, next);
                prop_assert!([total / takers, total.div_ceil(takers)].contains(&block.len()));
                next = block.end;
            }
            prop_assert_eq!(next, total);
        }
    }

    #[test]
    fn more_elements_than_fit_into_32_bits_are_shared_out() {
        let blocks = Blocks::new(5_000_000_000, 3);
        assert_eq!(blocks.of(2), 3_333_333_334..5_000_000_000);
    }
}
