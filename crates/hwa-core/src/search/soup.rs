//! A greedy soup: members join an average one by one, if it does not become worse.

use super::worth::Worth;

/// A selection whose average is worth at least as much as the best of them alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Soup {
    /// Those that were kept, ascending.
    pub members: Vec<usize>,
    /// What their average is worth.
    pub worth: Worth,
    /// What each is worth alone.
    pub alone: Vec<Worth>,
    /// The others that were tried, in their order.
    pub tried: Vec<Tried>,
}

/// One that was tried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    /// Which.
    pub member: usize,
    /// What the average was worth with it.
    pub worth: Worth,
    /// Whether it was kept.
    pub kept: bool,
}

/// Makes a soup of so many, after Wortsman et al., "Model soups" (2022): they are sorted by what
/// they are worth alone, and from the best on each is kept if the average with it scores at least
/// as high as without. Among equals the later comes first. One that is worth no number is left
/// out; nothing is found if that is so of all.
///
/// `score` is given places, ascending.
pub fn greedy_soup<E>(
    count: usize,
    mut score: impl FnMut(&[usize]) -> Result<Worth, E>,
) -> Result<Option<Soup>, E> {
    let alone = (0..count).map(|member| score(&[member])).collect::<Result<Vec<_>, E>>()?;
    let mut order: Vec<usize> = (0..count).filter(|member| alone[*member].is_finite()).collect();
    order.sort_by(|a, b| alone[*b].compare(&alone[*a]).then(b.cmp(a)));
    let Some((best, rest)) = order.split_first() else { return Ok(None) };
    let (mut members, mut worth, mut tried) = (vec![*best], alone[*best], Vec::new());
    for member in rest {
        let mut with = members.clone();
        with.push(*member);
        with.sort_unstable();
        let found = score(&with)?;
        let kept = found.is_finite() && found.score >= worth.score;
        tried.push(Tried { member: *member, worth: found, kept });
        if kept {
            (members, worth) = (with, found);
        }
    }
    Ok(Some(Soup { members, worth, alone, tried }))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Points on a line; an average is worth more the nearer it is to zero.
    fn soup(points: &[f64]) -> Option<Soup> {
        let Ok(soup) = greedy_soup(points.len(), |members| {
            let mean = members.iter().map(|m| points[*m]).sum::<f64>() / members.len() as f64;
            Ok::<_, Infallible>(Worth::from(-mean.abs()))
        });
        soup
    }

    #[test]
    fn the_trace_is_that_of_the_paper() {
        // Alone: 1, then -2, 3, 4. With -2: -0.5, better. With 3: 2/3, worse. With 4: 1, worse.
        let found = soup(&[4.0, 1.0, 3.0, -2.0]).unwrap();
        assert_eq!((found.members, found.worth.score), (vec![1, 3], -0.5));
        let tried: Vec<(usize, bool)> = found.tried.iter().map(|t| (t.member, t.kept)).collect();
        assert_eq!(tried, [(3, true), (2, false), (0, false)]);
    }

    #[test]
    fn equals_are_kept_and_the_later_is_tried_first() {
        let found = soup(&[1.0, 1.0, 1.0]).unwrap();
        assert_eq!(found.members, [0, 1, 2]);
        assert_eq!(found.tried.iter().map(|t| t.member).collect::<Vec<_>>(), [1, 0]);
    }

    #[test]
    fn what_is_not_a_number_stays_out() {
        assert_eq!(soup(&[f64::NAN, 2.0, f64::INFINITY]).unwrap().members, [1]);
        assert_eq!(soup(&[f64::NAN]), None);
        assert_eq!(soup(&[]), None);
    }

    proptest! {
        #[test]
        fn a_soup_is_never_worse_than_its_best_member(
            points in prop::collection::vec(-10.0f64..10.0, 1..12)
        ) {
            let soup = soup(&points).unwrap();
            let alone = points.iter().map(|p| -p.abs()).fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(soup.worth.score >= alone);
            prop_assert!(soup.members.is_sorted());
        }
    }
}
