//! From scores to hits and losses, in `f64`.

use hwa_train::Tally;

/// Counts hits and sums losses of `labels.len()` rows of scores.
///
/// Equal scores rank by class number. A NaN ranks before everything but itself, so
/// a broken model scores no hits rather than all of them.
pub(crate) fn tally(scores: &[f64], labels: &[u32]) -> Tally {
    let mut tally = Tally { images: labels.len() as u64, ..Tally::default() };
    let classes = scores.len() / labels.len().max(1);
    for (row, &label) in scores.chunks_exact(classes.max(1)).zip(labels) {
        let label = label as usize;
        let Some(&own) = row.get(label) else { continue };
        let behind =
            |(class, &score): (usize, &f64)| score < own || (score == own && class > label);
        let rank = row.len() - 1 - row.iter().enumerate().filter(|&s| behind(s)).count();
        tally.top1 += u64::from(rank < 1);
        tally.top5 += u64::from(rank < 5);
        tally.loss += loss(row, own);
    }
    tally
}

/// The cross entropy of a row's softmax: `log(sum(exp(score))) - own`.
fn loss(row: &[f64], own: f64) -> f64 {
    let highest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|score| (score - highest).exp()).sum();
    sum.ln() + highest - own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_score_is_a_hit_and_equal_scores_rank_by_class() {
        let row = [1.0, 3.0, 3.0, 0.0, 2.0, -1.0];
        let hits = |label| {
            let tally = tally(&row, &[label]);
            (tally.top1, tally.top5)
        };
        // In order: 1, 2, 4, 0, 3, 5.
        assert_eq!(hits(1), (1, 1));
        assert_eq!(hits(2), (0, 1));
        assert_eq!(hits(3), (0, 1));
        assert_eq!(hits(5), (0, 0));
    }

    #[test]
    fn losses_add_up() {
        // Two equal scores of two classes: ln 2. Scores 0 and ln 3: the second has 3/4.
        let found = tally(&[5.0, 5.0, 0.0, 3f64.ln()], &[0, 1]);
        assert!((found.loss - (2f64.ln() - 0.75f64.ln())).abs() < 1e-12, "{}", found.loss);
        assert_eq!((found.images, found.top1), (2, 2));
    }

    #[test]
    fn a_model_that_gives_nan_has_no_hits() {
        let found = tally(&[f64::NAN; 10], &[0]);
        assert_eq!((found.top1, found.top5), (0, 0));
        assert!(found.loss.is_nan());
    }
}
