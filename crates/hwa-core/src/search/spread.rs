//! The first candidates of a search: spread over where windows end, how long they are and what
//! they leave out.

use std::num::NonZeroUsize;

use super::space::{Candidate, Space};

/// Places where windows end, at first.
const ENDS: usize = 8;
/// The strides that are tried at first, in units of the series.
const STRIDES: [usize; 3] = [1, 2, 4];

/// Candidates over the whole series: windows that end at evenly spaced places, of lengths that
/// double. The order is that of a sparse grid: whatever number of them is taken is spread.
pub(super) fn spread(space: &Space, strides: &[NonZeroUsize]) -> Vec<Candidate> {
    let all = space.numbers().len();
    let mut ends: Vec<usize> = (1..=ENDS).map(|part| (part * all).div_ceil(ENDS) - 1).collect();
    ends.dedup();
    ends.reverse();
    let mut ordered: Vec<(usize, Candidate)> = Vec::new();
    for (stride_level, stride) in strides.iter().enumerate() {
        for (rank, end) in ends.iter().enumerate() {
            let lengths = lengths(end + 1);
            for (place, count) in lengths.iter().enumerate() {
                let level = stride_level + level(rank, ends.len()) + level(place, lengths.len());
                let found = space.covering(*end, *count, *stride);
                ordered.extend(found.map(|candidate| (level, candidate)));
            }
        }
    }
    // Stable: within a level smaller strides, later ends and longer windows come first.
    ordered.sort_by_key(|(level, _)| *level);
    ordered.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The strides that a series is long enough for.
pub(super) fn strides(space: &Space) -> Vec<NonZeroUsize> {
    let fits = |stride: &usize| *stride == 1 || 2 * stride <= space.numbers().len();
    let own = STRIDES.into_iter().filter(fits).map(|stride| stride * space.spacing());
    own.filter_map(NonZeroUsize::new).collect()
}

/// All that there are, half of them, a quarter, ... and one.
fn lengths(all: usize) -> Vec<usize> {
    let mut lengths: Vec<usize> =
        std::iter::successors(Some(all), |l| (*l > 1).then_some(l.div_ceil(2))).collect();
    lengths.dedup();
    lengths
}

/// How fine a grid has to be to hold one of `count` places: 0 for the first of them, 1 for the
/// one in the middle, then for those between.
fn level(place: usize, count: usize) -> usize {
    let finest = count.next_power_of_two().trailing_zeros() as usize;
    if place == 0 { 0 } else { finest.saturating_sub(place.trailing_zeros() as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(count: usize) -> Space {
        Space::new(&(1..=count).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_grid_is_refined_between_its_places() {
        let levels: Vec<usize> = (0..8).map(|place| level(place, 8)).collect();
        assert_eq!(levels, [0, 3, 2, 3, 1, 3, 2, 3]);
        assert_eq!(lengths(11), [11, 6, 3, 2, 1]);
        assert_eq!(lengths(1), [1]);
    }

    #[test]
    fn the_first_candidate_is_the_mean_of_all_and_the_others_reach_everywhere() {
        let space = space(200);
        let strides = strides(&space);
        let all = spread(&space, &strides);
        assert_eq!(all[0], space.everything().unwrap());
        for few in [24, 48] {
            let some = &all[..few];
            let span = |of: fn(&Candidate) -> usize| {
                let values = some.iter().map(of);
                (values.clone().min().unwrap(), values.max().unwrap())
            };
            let (earliest, last) = span(|c| c.at);
            assert!(earliest <= 52 && last == 200, "{few}: {earliest}");
            let (shortest, longest) = span(|c| c.length.get());
            assert!(shortest <= 14 && longest == 200, "{few}: {shortest}");
            assert_eq!(span(|c| c.stride.get()), (1, 4), "{few}");
        }
    }

    #[test]
    fn short_series_have_candidates_too() {
        assert_eq!(strides(&space(1)).len(), 1);
        let of_two = spread(&space(2), &strides(&space(2)));
        let mut shown: Vec<String> = of_two.iter().map(Candidate::to_string).collect();
        shown.sort();
        shown.dedup();
        assert_eq!(shown, ["e = 1, I = 1, s = 1", "e = 2, I = 1, s = 1", "e = 2, I = 2, s = 1"]);
    }
}
