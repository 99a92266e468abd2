//! The windows that a series has: where they end, how long they are, what they leave out.

use std::fmt;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

use super::SearchError;
use crate::window::WindowSpec;

/// A window over a series: the members whose number is a multiple of the stride, from `at` back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// The number of the newest member: the paper's e.
    pub at: usize,
    /// The numbers that it covers: the paper's I.
    pub length: NonZeroUsize,
    /// Of these, every so many are members: the paper's s.
    pub stride: NonZeroUsize,
}

impl Candidate {
    /// The window as all others are described.
    pub fn spec(&self) -> WindowSpec {
        WindowSpec { length: Some(self.length), stride: self.stride, first_cycle: 1 }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e = {}, I = {}, s = {}", self.at, self.length, self.stride)
    }
}

/// The windows of a series, each in its simplest form. Without gaps between the numbers, windows
/// with the same members are one candidate; a search asks for each set of members once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    numbers: Vec<usize>,
    /// What all numbers are multiples of.
    spacing: usize,
}

impl Space {
    /// The windows over weights with these numbers: cycles, or places from 1 on.
    pub fn new(numbers: &[usize]) -> Result<Self, SearchError> {
        let mut before = 0;
        for number in numbers {
            if *number <= before {
                return Err(SearchError::NotAscending { first: before, second: *number });
            }
            before = *number;
        }
        match numbers.iter().copied().reduce(divisor) {
            Some(spacing) => Ok(Self { numbers: numbers.to_vec(), spacing }),
            None => Err(SearchError::Empty),
        }
    }

    /// The numbers of the weights, oldest first.
    pub fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    /// What all numbers are multiples of: the least stride that leaves anything out is a
    /// multiple of it.
    pub fn spacing(&self) -> usize {
        self.spacing
    }

    /// The window that covers so many weights, with the one at place `end` as its newest, in its
    /// simplest form; none if it has no member.
    pub fn covering(&self, end: usize, count: usize, stride: NonZeroUsize) -> Option<Candidate> {
        let newest = *self.numbers.get(end)?;
        let oldest = *self.numbers.get((end + 1).checked_sub(count)?)?;
        self.simplest(oldest, newest, stride)
    }

    /// A window in its simplest form; none if it has no member.
    pub fn candidate(&self, spec: WindowSpec, at: usize) -> Option<Candidate> {
        self.simplest(spec.oldest(at), at, spec.stride)
    }

    /// The mean of all.
    pub fn everything(&self) -> Option<Candidate> {
        self.covering(self.numbers.len() - 1, self.numbers.len(), NonZeroUsize::MIN)
    }

    /// A candidate's members by their places, oldest first.
    pub fn members(&self, candidate: &Candidate) -> Vec<usize> {
        let oldest = candidate.spec().oldest(candidate.at);
        self.admitted(oldest, candidate.at, candidate.stride.get()).collect()
    }

    /// The place of its newest member, and how many weights it covers.
    pub(super) fn extent(&self, candidate: &Candidate) -> (usize, usize) {
        let after = self.numbers.partition_point(|number| *number <= candidate.at);
        let oldest = candidate.spec().oldest(candidate.at);
        let first = self.numbers.partition_point(|number| *number < oldest);
        (after.saturating_sub(1), after.saturating_sub(first))
    }

    /// The stride that numbers have: every so many of a series of multiples.
    pub(super) fn stride(&self, stride: NonZeroUsize) -> Option<NonZeroUsize> {
        let own = stride.get() / divisor(stride.get(), self.spacing);
        NonZeroUsize::new(own.checked_mul(self.spacing)?)
    }

    fn admitted(&self, oldest: usize, newest: usize, stride: usize) -> impl Iterator<Item = usize> {
        let numbers = self.numbers.iter().enumerate();
        let is_in = move |number: usize| {
            (oldest..=newest).contains(&number) && number.is_multiple_of(stride)
        };
        numbers.filter(move |(_, number)| is_in(**number)).map(|(place, _)| place)
    }

    /// It ends with its newest member, and begins a stride before its oldest; the stride is one
    /// that numbers have, and says nothing if there is one member.
    fn simplest(&self, oldest: usize, newest: usize, stride: NonZeroUsize) -> Option<Candidate> {
        let stride = self.stride(stride)?.get();
        let mut members = self.admitted(oldest, newest, stride);
        let first = members.next()?;
        let last = members.last();
        let stride = if last.is_some() { stride } else { self.spacing };
        let (first, last) = (self.numbers[first], self.numbers[last.unwrap_or(first)]);
        let length = NonZeroUsize::new(last - first + stride)?;
        Some(Candidate { at: last, length, stride: NonZeroUsize::new(stride)? })
    }
}

/// The greatest common divisor.
fn divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stride(stride: usize) -> NonZeroUsize {
        NonZeroUsize::new(stride).unwrap()
    }

    fn shown(space: &Space, end: usize, count: usize, s: usize) -> Option<String> {
        space.covering(end, count, stride(s)).map(|candidate| candidate.to_string())
    }

    #[test]
    fn a_window_ends_with_its_newest_member() {
        let space = Space::new(&(1..=10).collect::<Vec<_>>()).unwrap();
        assert_eq!(shown(&space, 9, 4, 1).unwrap(), "e = 10, I = 4, s = 1");
        // 6 to 9 with stride 2: 6 and 8, as from 5 to 8
        assert_eq!(shown(&space, 8, 4, 2).unwrap(), "e = 8, I = 4, s = 2");
        // of one member the stride says nothing
        assert_eq!(shown(&space, 8, 3, 4).unwrap(), "e = 8, I = 1, s = 1");
        assert_eq!(shown(&space, 2, 3, 4), None);
        assert_eq!(shown(&space, 2, 4, 1), None);
        assert_eq!(space.everything().unwrap().to_string(), "e = 10, I = 10, s = 1");
    }

    #[test]
    fn strides_are_those_that_numbers_have() {
        // a run that kept every tenth cycle
        let space = Space::new(&[10, 20, 30, 40]).unwrap();
        assert_eq!(shown(&space, 3, 2, 1).unwrap(), "e = 40, I = 20, s = 10");
        assert_eq!(shown(&space, 3, 4, 20).unwrap(), "e = 40, I = 40, s = 20");
        assert_eq!(shown(&space, 3, 4, 4).unwrap(), "e = 40, I = 40, s = 20");
    }

    #[test]
    fn numbers_that_do_not_ascend_from_1_are_refused() {
        assert_eq!(Space::new(&[]), Err(SearchError::Empty));
        for wrong in [&[0, 1][..], &[1, 1], &[3, 2]] {
            assert!(matches!(Space::new(wrong), Err(SearchError::NotAscending { .. })));
        }
    }

    proptest! {
        #[test]
        fn the_simplest_form_has_the_same_members(
            kept in prop::collection::btree_set(1usize..60, 1..40), at in 1usize..70,
            length in 1usize..70, s in 1usize..9
        ) {
            let numbers: Vec<usize> = kept.into_iter().collect();
            let space = Space::new(&numbers).unwrap();
            let spec = WindowSpec { stride: stride(s), ..WindowSpec::sliding(stride(length)) };
            let covered = |n: usize| n <= at && n + length > at && n.is_multiple_of(s);
            let expected: Vec<usize> = (0..numbers.len()).filter(|p| covered(numbers[*p])).collect();
            match space.candidate(spec, at) {
                None => prop_assert!(expected.is_empty()),
                Some(candidate) => {
                    prop_assert_eq!(space.members(&candidate), expected);
                    prop_assert_eq!(space.candidate(candidate.spec(), candidate.at), Some(candidate));
                    let (end, count) = space.extent(&candidate);
                    let again = space.covering(end, count, candidate.stride);
                    prop_assert_eq!(again, Some(candidate));
                }
            }
        }
    }
}
