//! Choosing the best cycle, and stopping early, on the averaged curve.
//!
//! The last HWA weights are not always the best: validation picks the cycle. The
//! rule sees the curve of the averaged weights alone, so a run cannot stop
//! because of weights that nobody will use.

use serde::{Deserialize, Serialize};

/// How good some weights are on the validation split.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Top-1 accuracy, from 0 to 1.
    #[serde(with = "crate::float")]
    pub accuracy: f64,
    /// Mean cross entropy.
    #[serde(with = "crate::float")]
    pub loss: f64,
}

impl Score {
    /// Higher accuracy wins, then lower loss. What is not a number never wins.
    pub fn beats(&self, other: &Self) -> bool {
        let (mine, theirs) = (rank(self.accuracy), rank(other.accuracy));
        mine > theirs || (mine == theirs && rank(-self.loss) > rank(-other.loss))
    }
}

fn rank(value: f64) -> f64 {
    if value.is_nan() { f64::NEG_INFINITY } else { value }
}

/// The weights that validation chose.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The cycle.
    pub cycle: usize,
    /// Which of the plan's windows, for a method that has windows.
    pub window: Option<usize>,
    /// Which of the models, for a method whose result is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<usize>,
    /// The score that won.
    pub score: Score,
}

/// The best so far, and when to give up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    patience: Option<usize>,
    best: Option<Choice>,
}

impl Selection {
    /// Without `patience` the run uses its whole budget; with it, it stops when
    /// so many cycles have passed without a better score.
    pub fn new(patience: Option<usize>) -> Self {
        Self { patience, best: None }
    }

    /// Considers a candidate; true if it is the best so far. The earliest of
    /// equals stays.
    pub fn consider(&mut self, candidate: Choice) -> bool {
        let better = match &self.best {
            None => !candidate.score.accuracy.is_nan(),
            Some(best) => candidate.score.beats(&best.score),
        };
        if better {
            self.best = Some(candidate);
        }
        better
    }

    /// The best so far.
    pub fn best(&self) -> Option<&Choice> {
        self.best.as_ref()
    }

    /// Whether to stop after `cycle`. Never before the first candidate.
    pub fn should_stop(&self, cycle: usize) -> bool {
        match (self.patience, &self.best) {
            (Some(patience), Some(best)) => cycle.saturating_sub(best.cycle) >= patience,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(cycle: usize, accuracy: f64, loss: f64) -> Choice {
        Choice { cycle, window: Some(0), model: None, score: Score { accuracy, loss } }
    }

    #[test]
    fn the_best_is_not_the_last() {
        let mut selection = Selection::new(None);
        let curve = [0.5, 0.7, 0.9, 0.8, 0.6];
        for (i, accuracy) in curve.iter().enumerate() {
            selection.consider(choice(i + 1, *accuracy, 1.0));
        }
        assert_eq!(selection.best().unwrap().cycle, 3);
        assert!(!selection.should_stop(100));
    }

    #[test]
    fn loss_breaks_ties_and_then_the_earlier_cycle_stays() {
        let mut selection = Selection::new(None);
        assert!(selection.consider(choice(1, 0.9, 0.5)));
        assert!(selection.consider(choice(2, 0.9, 0.4)));
        assert!(!selection.consider(choice(3, 0.9, 0.4)));
        assert_eq!(selection.best().unwrap().cycle, 2);
    }

    #[test]
    fn patience_counts_cycles_since_the_best() {
        let mut selection = Selection::new(Some(3));
        assert!(!selection.should_stop(50)); // nothing considered: nothing to give up on
        selection.consider(choice(4, 0.9, 0.5));
        assert!(!selection.should_stop(6));
        assert!(selection.should_stop(7));
    }

    #[test]
    fn what_is_not_a_number_is_never_chosen() {
        let mut selection = Selection::new(None);
        assert!(!selection.consider(choice(1, f64::NAN, 0.1)));
        assert!(selection.consider(choice(2, 0.1, f64::NAN)));
        assert!(selection.consider(choice(3, 0.1, 2.0)));
        assert!(!selection.consider(choice(4, 0.1, f64::NAN)));
    }
}
