//! The search itself: spread candidates, then neighbours of the best, closer and closer.

use std::collections::HashSet;
use std::num::NonZeroUsize;

use super::space::{Candidate, Space};
use super::spread::{spread, strides};
use super::worth::{Ranking, Scored, Worth};

/// The best one is followed to the smallest step, and then the best three: one alone may be
/// where noise is highest.
const CENTRES: [usize; 2] = [1, 3];
/// The first step is this part of the series.
const FIRST_STEP: usize = 16;
/// Lengths are told apart down to the eighth part of a doubling, or to one.
const FINEST_OCTAVE: f64 = 0.125;

/// A search over the windows of a series.
///
/// The windows in `first` are scored, then at most half of the budget is spread over the series,
/// and the rest goes to neighbours of the best, in steps that become smaller. The same answers
/// give the same questions.
#[derive(Debug, Clone)]
pub struct Search {
    space: Space,
    /// Windows that are scored before all others, such as what is usual.
    pub first: Vec<Candidate>,
    /// The strides that may be tried; without, some that the series is long enough for.
    pub strides: Option<Vec<NonZeroUsize>>,
    /// The most windows that are scored.
    pub max_scores: usize,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// All candidates that were scored.
    pub ranking: Ranking,
    /// Why there are no more.
    pub ended: Ended,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// No neighbour of the best was left.
    Converged,
    /// The budget was used up.
    Budget,
    /// Whoever scores did not want to go on.
    Stopped,
}

impl Search {
    /// A search with at most so many scores.
    pub fn new(space: Space, max_scores: usize) -> Self {
        Self { space, first: Vec::new(), strides: None, max_scores }
    }

    /// The windows it searches in.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Scores candidates, each once. A score of `None` ends the search with what there is, and
    /// an error ends it without.
    pub fn run<E>(
        &self,
        score: impl FnMut(&Candidate) -> Result<Option<Worth>, E>,
    ) -> Result<Found, E> {
        let (seen, ranking) = (HashSet::new(), Ranking::default());
        let mut walk = Walk { search: self, score, seen, ranking };
        let ended = walk.run()?;
        Ok(Found { ranking: walk.ranking, ended })
    }

    /// Whether it would score this window: with a stride that may be tried, or as one of the first.
    pub fn allows(&self, candidate: &Candidate) -> bool {
        let is_one = || self.space.members(candidate).len() == 1;
        self.strides.is_none()
            || self.strides().contains(&candidate.stride)
            || self.first.contains(candidate)
            || is_one()
    }

    fn strides(&self) -> Vec<NonZeroUsize> {
        match &self.strides {
            Some(strides) => strides.iter().filter_map(|s| self.space.stride(*s)).collect(),
            None => strides(&self.space),
        }
    }

    /// Windows that differ by a step from this one: it slides, its newest end, its oldest or both
    /// move, or it takes more or fewer of those it covers.
    fn neighbours(&self, centre: &Candidate, step: Step) -> Vec<Candidate> {
        let (end, count) = self.space.extent(centre);
        let stride = centre.stride;
        // Less than a stride leads nowhere.
        let least = (stride.get() / self.space.spacing()).max(1);
        let far = step.places.next_multiple_of(least);
        let (longer, shorter) = step.lengths(count, least);
        let mut moves = vec![
            (Some(end), longer, stride),
            (Some(end), shorter, stride),
            (Some(end + far), count, stride),
            (end.checked_sub(far), count, stride),
            (Some(end + far), count + far, stride),
            (end.checked_sub(far), count.saturating_sub(far), stride),
            (Some(end + far), count + 2 * far, stride),
            (end.checked_sub(far), count.saturating_sub(2 * far), stride),
        ];
        let others = self.strides_beside(stride).into_iter();
        moves.extend(others.map(|stride| (Some(end), count, stride)));
        let last = self.space.numbers().len() - 1;
        let allowed = self.strides.is_some().then(|| self.strides());
        moves.retain(|(.., stride)| allowed.as_ref().is_none_or(|some| some.contains(stride)));
        let found = moves.into_iter().filter_map(|(end, count, stride)| {
            // A step that leads out of the series leads to its end.
            let end = end?.min(last);
            self.space.covering(end, count.min(end + 1), stride)
        });
        found.collect()
    }

    fn strides_beside(&self, stride: NonZeroUsize) -> Vec<NonZeroUsize> {
        if self.strides.is_some() {
            return self.strides();
        }
        let spacing = self.space.spacing();
        let own = stride.get() / spacing;
        let beside = [own.saturating_sub(1), own + 1, 2 * own];
        beside.into_iter().filter_map(|own| NonZeroUsize::new(own * spacing)).collect()
    }
}

/// How far neighbours are.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    /// Places in the series.
    places: usize,
    /// Doublings of a length.
    octaves: f64,
}

impl Step {
    fn first(all: usize) -> Self {
        Self { places: (all / FIRST_STEP).max(1), octaves: 0.5 }
    }

    /// The next smaller one.
    fn halved(self) -> Option<Self> {
        let (places, octaves) = ((self.places / 2).max(1), self.octaves / 2.0);
        let halved = Self { places, octaves: octaves.max(FINEST_OCTAVE) };
        (halved != self).then_some(halved)
    }

    /// A longer and a shorter length, by so much at least.
    fn lengths(self, count: usize, least: usize) -> (usize, usize) {
        let scaled = |octaves: f64| (count as f64 * octaves.exp2()).round() as usize;
        let longer = scaled(self.octaves).max(count + least);
        (longer, scaled(-self.octaves).min(count.saturating_sub(least)).max(1))
    }
}

/// A search on its way.
struct Walk<'a, F> {
    search: &'a Search,
    score: F,
    /// The members of those that were scored: where numbers are missing, windows of several
    /// strides have the same.
    seen: HashSet<Vec<usize>>,
    ranking: Ranking,
}

impl<E, F: FnMut(&Candidate) -> Result<Option<Worth>, E>> Walk<'_, F> {
    fn run(&mut self) -> Result<Ended, E> {
        let search = self.search;
        let usual = search.first.iter().filter_map(|c| search.space.candidate(c.spec(), c.at));
        if let Some(ended) = self.score_all(usual.collect(), search.max_scores)? {
            return Ok(ended);
        }
        // At least as many for the neighbours as for the spread.
        let half = search.max_scores.div_ceil(2).max(self.ranking.all().len());
        let spread = spread(&search.space, &search.strides());
        if let Some(Ended::Stopped) = self.score_all(spread, half)? {
            return Ok(Ended::Stopped);
        }
        for centres in CENTRES {
            if let Some(ended) = self.climb(centres)? {
                return Ok(ended);
            }
        }
        Ok(Ended::Converged)
    }

    /// From the best so many to their neighbours, as long as there are new ones.
    fn climb(&mut self, centres: usize) -> Result<Option<Ended>, E> {
        let mut step = Some(Step::first(self.search.space.numbers().len()));
        while let Some(now) = step {
            let beside = self.beside_the_best(centres, now);
            if beside.is_empty() {
                step = now.halved();
            } else if let Some(ended) = self.score_all(beside, self.search.max_scores)? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    /// Scores those that are new, until there are so many.
    fn score_all(&mut self, candidates: Vec<Candidate>, most: usize) -> Result<Option<Ended>, E> {
        for candidate in candidates {
            let members = self.search.space.members(&candidate);
            if self.seen.contains(&members) {
                continue;
            }
            if self.ranking.all().len() >= most {
                return Ok(Some(Ended::Budget));
            }
            let Some(worth) = (self.score)(&candidate)? else { return Ok(Some(Ended::Stopped)) };
            self.ranking.add(Scored { candidate, members: members.len(), worth });
            self.seen.insert(members);
        }
        Ok(None)
    }

    /// The neighbours of the best that were not scored yet.
    fn beside_the_best(&self, centres: usize, step: Step) -> Vec<Candidate> {
        let best = self.ranking.all().iter().take(centres).filter(|best| best.worth.is_finite());
        let mut neighbours: Vec<Candidate> =
            best.flat_map(|best| self.search.neighbours(&best.candidate, step)).collect();
        neighbours.retain(|c| !self.seen.contains(&self.search.space.members(c)));
        neighbours
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn series(count: usize) -> Space {
        Space::new(&(1..=count).collect::<Vec<_>>()).unwrap()
    }

    fn found(search: &Search, worth: impl Fn(&Candidate) -> f64) -> Found {
        let Ok(found) = search.run(|c| Ok::<_, Infallible>(Some(Worth::from(worth(c)))));
        found
    }

    /// A hill: lower with the distance from a window, in shares of the series and in doublings.
    fn hill(at: usize, length: usize, stride: usize, all: usize) -> impl Fn(&Candidate) -> f64 {
        let octaves = |a: usize, b: usize| (a as f64 / b as f64).log2();
        move |c| {
            let far = 8.0 * (c.at as f64 - at as f64) / all as f64;
            let longer = octaves(c.length.get(), length);
            let strides = octaves(c.stride.get(), stride);
            -(far * far + longer * longer + strides * strides)
        }
    }

    fn best(found: &Found) -> String {
        found.ranking.best().unwrap().candidate.to_string()
    }

    #[test]
    fn peaks_are_found_in_the_middle_and_in_every_corner() {
        let search = Search::new(series(200), 160);
        for (at, length, stride, peak) in [
            (131, 23, 1, "e = 131, I = 23, s = 1"),
            (200, 200, 1, "e = 200, I = 200, s = 1"),
            (200, 1, 1, "e = 200, I = 1, s = 1"),
            (1, 1, 1, "e = 1, I = 1, s = 1"),
            (77, 77, 1, "e = 77, I = 77, s = 1"),
            (180, 60, 3, "e = 180, I = 60, s = 3"),
        ] {
            let found = found(&search, hill(at, length, stride, 200));
            assert_eq!(best(&found), peak);
            assert!(found.ranking.all().len() <= 160);
        }
    }

    #[test]
    fn a_plateau_gives_the_latest_and_longest_and_ends() {
        let found = found(&Search::new(series(50), 10_000), |_| 1.0);
        assert_eq!(
            (best(&found).as_str(), found.ended),
            ("e = 50, I = 50, s = 1", Ended::Converged)
        );
    }

    #[test]
    fn numbers_that_are_none_are_passed_over() {
        // A series that diverged after 60 of 100.
        let worth = |c: &Candidate| if c.at > 60 { f64::NAN } else { hill(58, 10, 1, 100)(c) };
        let some = found(&Search::new(series(100), 120), worth);
        assert_eq!(best(&some), "e = 58, I = 10, s = 1");
        let none = found(&Search::new(series(100), 120), |_| f64::NAN);
        assert!(none.ranking.best().is_none());
        assert_eq!(none.ended, Ended::Converged);
    }

    #[test]
    fn what_is_usual_is_scored_first_and_whoever_scores_can_stop() {
        let usual = series(30).covering(29, 20, NonZeroUsize::MIN).unwrap();
        let search = Search { first: vec![usual], ..Search::new(series(30), 100) };
        let mut asked = Vec::new();
        let Ok(found) = search.run(|c| {
            asked.push(*c);
            Ok::<_, Infallible>((asked.len() < 4).then_some(Worth::from(0.0)))
        });
        assert_eq!((asked[0], asked.len()), (usual, 4));
        assert_eq!((found.ended, found.ranking.all().len()), (Ended::Stopped, 3));
        let failed = search.run(|_| Err::<Option<Worth>, &str>("no disk"));
        assert_eq!(failed, Err("no disk"));
    }

    #[test]
    fn only_strides_that_are_asked_for_are_tried() {
        let two = NonZeroUsize::MIN.saturating_add(1);
        let usual = series(64).covering(40, 16, NonZeroUsize::MIN).unwrap();
        let mut search = Search { strides: Some(vec![two]), ..Search::new(series(64), 200) };
        search.first.push(usual);
        let worth = hill(40, 16, 1, 64);
        let found = found(&search, |c| if *c == usual { -2.0 } else { worth(c) });
        let strides = |s: &Scored| s.candidate.stride.get() == 2 || s.members == 1;
        assert!(found.ranking.all().iter().all(|s| strides(s) || s.candidate == usual));
        assert_eq!(best(&found), "e = 40, I = 16, s = 2");
        assert!(found.ranking.all().iter().all(|s| search.allows(&s.candidate)));
        assert!(!search.allows(&series(64).everything().unwrap()));
    }

    proptest! {
        #[test]
        fn each_is_scored_once_within_the_budget_and_the_same_way_again(
            kept in prop::collection::btree_set(1usize..120, 1..100), budget in 0usize..150,
            seed in any::<u64>()
        ) {
            // Noise: every window is worth something else.
            let noise = |c: &Candidate| {
                let mut x = seed ^ (c.at * 1_000_003 + c.length.get() * 1009 + c.stride.get()) as u64;
                for _ in 0..3 {
                    x = (x ^ (x >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                }
                (x >> 40) as f64
            };
            // Also where numbers are missing.
            let numbers: Vec<usize> = kept.into_iter().collect();
            let search = Search::new(Space::new(&numbers).unwrap(), budget);
            let first = found(&search, noise);
            let members = |s: &Scored| search.space().members(&s.candidate);
            let mut sets: Vec<Vec<usize>> = first.ranking.all().iter().map(members).collect();
            let scored = sets.len();
            prop_assert!(scored <= budget);
            sets.sort();
            sets.dedup();
            prop_assert_eq!(sets.len(), scored, "windows with the same members");
            let highest = first.ranking.all().iter().map(|s| s.worth.score).fold(f64::MIN, f64::max);
            if let Some(best) = first.ranking.best() {
                prop_assert_eq!(best.worth.score, highest);
            }
            prop_assert_eq!(found(&search, noise), first);
        }

        #[test]
        fn a_hill_is_climbed_to_its_top_wherever_it_is(
            at in 1usize..=120, share in 0.0f64..1.0
        ) {
            let length = 1 + (share * (at - 1) as f64) as usize;
            let found = found(&Search::new(series(120), 400), hill(at, length, 1, 120));
            let best = found.ranking.best().unwrap().worth.score;
            // Within a step of the end and the eighth of a doubling.
            prop_assert!(best > -0.05, "{at} {length}: {best}");
        }
    }
}
