//! What candidates are worth, and which of them is the best.

use std::cmp::Ordering;

use super::space::Candidate;

/// What weights are worth: the greater, the better. Of what should be small, the negative counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worth {
    /// What decides; what is not finite never wins.
    pub score: f64,
    /// What decides among equals, such as a loss beside an accuracy; 0 if there is nothing.
    pub second: f64,
}

impl From<f64> for Worth {
    fn from(score: f64) -> Self {
        Self { score, second: 0.0 }
    }
}

impl Worth {
    /// Whether it can win.
    pub fn is_finite(&self) -> bool {
        self.score.is_finite()
    }

    /// The better is greater.
    pub fn compare(&self, other: &Self) -> Ordering {
        let number = |value: f64| if value.is_finite() { value } else { f64::NEG_INFINITY };
        let compared =
            |a: f64, b: f64| number(a).partial_cmp(&number(b)).unwrap_or(Ordering::Equal);
        compared(self.score, other.score).then(compared(self.second, other.second))
    }
}

/// A candidate and what it is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// The window.
    pub candidate: Candidate,
    /// How many members it has.
    pub members: usize,
    /// What it is worth.
    pub worth: Worth,
}

impl Scored {
    /// The better comes first. Among equals that is the later one, which was trained most; then
    /// the one with more members, whose mean has less noise; then the one with the smaller stride.
    fn precedes(&self, other: &Self) -> Ordering {
        let key = |scored: &Self| (scored.candidate.at, scored.members);
        let stride = self.candidate.stride.cmp(&other.candidate.stride);
        other.worth.compare(&self.worth).then(key(other).cmp(&key(self))).then(stride)
    }
}

/// Candidates in the order of their worth.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    scored: Vec<Scored>,
}

impl Ranking {
    /// Adds a candidate in its place.
    pub fn add(&mut self, scored: Scored) {
        let place = self.scored.partition_point(|other| other.precedes(&scored).is_lt());
        self.scored.insert(place, scored);
    }

    /// All of them, the best first.
    pub fn all(&self) -> &[Scored] {
        &self.scored
    }

    /// The best, if any is worth a number.
    pub fn best(&self) -> Option<&Scored> {
        self.scored.first().filter(|best| best.worth.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn scored(at: usize, members: usize, stride: usize, worth: impl Into<Worth>) -> Scored {
        let length = NonZeroUsize::new(members * stride).unwrap();
        let candidate = Candidate { at, length, stride: NonZeroUsize::new(stride).unwrap() };
        Scored { candidate, members, worth: worth.into() }
    }

    #[test]
    fn equals_are_told_apart_in_the_stated_way_whatever_their_order() {
        let worth = |score, second| Worth { score, second };
        let ordered = [
            scored(5, 1, 1, worth(2.0, -0.1)),
            scored(9, 9, 1, worth(2.0, -0.2)),
            scored(8, 3, 1, 1.0),
            scored(7, 3, 1, 1.0),
            scored(7, 2, 1, 1.0),
            scored(7, 2, 2, 1.0),
            scored(9, 9, 1, f64::NAN),
            scored(8, 9, 1, f64::INFINITY),
        ];
        for shift in 0..ordered.len() {
            let mut ranking = Ranking::default();
            for i in 0..ordered.len() {
                ranking.add(ordered[(i + shift) % ordered.len()]);
            }
            let found: Vec<Candidate> = ranking.all().iter().map(|s| s.candidate).collect();
            assert_eq!(found, ordered.map(|s| s.candidate));
            assert_eq!(ranking.best().unwrap().candidate, ordered[0].candidate);
        }
    }

    #[test]
    fn what_is_not_a_number_never_wins() {
        let mut ranking = Ranking::default();
        assert_eq!(ranking.best(), None);
        ranking.add(scored(9, 1, 1, f64::NAN));
        ranking.add(scored(9, 1, 1, f64::INFINITY));
        assert_eq!(ranking.best(), None);
        ranking.add(scored(1, 1, 1, -1e300));
        assert_eq!(ranking.best().unwrap().candidate.at, 1);
    }
}
