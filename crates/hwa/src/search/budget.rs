//! How many windows are searched, and how many are looked at closely.

use crate::failure::Failure;

/// The lines of the table, and the most windows of a shortlist.
pub(crate) const BEST: usize = 10;
/// The share of the evaluations that is kept for the shortlist.
const SHORTLIST: usize = 5;

/// How evaluations are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Windows that are searched.
    pub(crate) search: usize,
    /// The best so many are looked at closely, and the usual ones.
    pub(crate) shortlist: Option<usize>,
}

impl Budget {
    pub(crate) fn new(evaluations: usize, usual: usize, screens: bool) -> Result<Self, Failure> {
        let least = if screens { 2 * usual + 1 } else { usual };
        if evaluations < least {
            return Err(Failure::usage(format!(
                "--max-evals {evaluations} is too few: at least {least} are needed, for the usual \
                 windows and for what is found"
            )));
        }
        if !screens {
            return Ok(Self { search: evaluations, shortlist: None });
        }
        let shortlist = (evaluations / SHORTLIST).clamp(1, BEST);
        Ok(Self {
            search: (evaluations - usual).saturating_sub(shortlist).max(usual),
            shortlist: Some(shortlist),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluations_are_never_more_than_were_allowed() {
        for usual in 1..=3 {
            for evaluations in 2 * usual + 1..200 {
                let budget = Budget::new(evaluations, usual, true).unwrap();
                let shortlist = budget.shortlist.unwrap();
                assert!(shortlist >= 1 && budget.search >= usual);
                assert!(budget.search + shortlist + usual <= evaluations);
            }
            assert!(Budget::new(2 * usual, usual, true).is_err());
            let plain = Budget::new(usual, usual, false).unwrap();
            assert_eq!(plain, Budget { search: usual, shortlist: None });
        }
    }
}
