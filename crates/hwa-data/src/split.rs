//! Splits that keep the classes in proportion.
//!
//! Each class is shuffled by a stream of its own and cut: which of its examples are
//! taken depends on the seed and on that class alone, and a class that gives more
//! gives the same ones and others.

use hwa_core::seed::{Purpose, Random};

use crate::error::DataError;
use crate::subset::Subset;

/// What a split is for. The discriminants address its random numbers: existing
/// ones never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Part {
    /// The test part of a data set that is published whole.
    Test = 0,
    /// The validation part, held out of the training images.
    Validation = 1,
    /// A training part smaller than what there is.
    Train = 2,
}

impl Subset {
    /// Holds `count` examples out, each class in proportion to its size (to within
    /// one example), and returns them and the rest, both in ascending order.
    pub fn hold_out(
        &self,
        count: usize,
        seed: u64,
        part: Part,
    ) -> Result<(Subset, Subset), DataError> {
        if count > 0 && count >= self.len() {
            return Err(DataError::TooFewExamples { needed: count, found: self.len() });
        }
        let members = self.by_class()?;
        let sizes: Vec<usize> = members.iter().map(Vec::len).collect();
        self.take(members, &in_proportion(count, &sizes), seed, part)
    }

    /// Takes `count` examples, as many from each class. If `count` is not a multiple
    /// of the number of classes, the first classes give one more.
    pub fn balanced(&self, count: usize, seed: u64) -> Result<Subset, DataError> {
        let members = self.by_class()?;
        let classes = members.len();
        let quota: Vec<usize> = (0..classes)
            .map(|class| count / classes + usize::from(class < count % classes))
            .collect();
        Ok(self.take(members, &quota, seed, Part::Train)?.0)
    }

    /// The first `quota` examples of each class, once shuffled, and the others.
    fn take(
        &self,
        mut members: Vec<Vec<usize>>,
        quota: &[usize],
        seed: u64,
        part: Part,
    ) -> Result<(Subset, Subset), DataError> {
        let mut taken = Vec::new();
        let mut rest = Vec::new();
        for (class, (members, &needed)) in members.iter_mut().zip(quota).enumerate() {
            let found = members.len();
            Random::new(seed, 0, Purpose::Split, [class as u64, part as u64]).shuffle(members);
            let (ours, others) = members
                .split_at_checked(needed)
                .ok_or(DataError::ClassTooSmall { class, needed, found })?;
            taken.extend_from_slice(ours);
            rest.extend_from_slice(others);
        }
        Ok((self.with_sorted(taken), self.with_sorted(rest)))
    }
}

/// Divides `count` in proportion to `sizes`: rounded down, then one more for the
/// largest remainders, the first of equals.
fn in_proportion(count: usize, sizes: &[usize]) -> Vec<usize> {
    let total = sizes.iter().map(|&size| size as u128).sum::<u128>().max(1);
    let exact: Vec<u128> = sizes.iter().map(|&size| size as u128 * count as u128).collect();
    let mut quota: Vec<usize> = exact.iter().map(|share| (share / total) as usize).collect();
    let missing = count - quota.iter().sum::<usize>();
    let mut classes: Vec<usize> = (0..sizes.len()).collect();
    classes.sort_by_key(|&class| std::cmp::Reverse(exact[class] % total));
    for class in classes.into_iter().take(missing) {
        quota[class] += 1;
    }
    quota
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::dataset::ImageShape;
    use crate::memory::InMemory;

    fn labelled(classes: usize, labels: Vec<u32>) -> Subset {
        let shape = ImageShape { height: 1, width: 1, channels: 1 };
        let pixels = vec![0; labels.len()];
        Subset::all(Arc::new(InMemory::new(shape, classes, pixels, labels).unwrap()))
    }

    fn numbers(subset: &Subset) -> BTreeSet<usize> {
        subset.indices().iter().copied().collect()
    }

    #[test]
    fn the_largest_remainders_get_one_more() {
        // 7 of 10: shares 3.5, 2.1, 1.4, rounded down 3, 2, 1; the one missing goes to 3.5.
        assert_eq!(in_proportion(7, &[5, 3, 2]), [4, 2, 1]);
        // Of equals, the first: 1 of 4 twos.
        assert_eq!(in_proportion(1, &[2, 2]), [1, 0]);
        assert_eq!(in_proportion(0, &[]), [0usize; 0]);
    }

    proptest! {
        #[test]
        fn a_stratified_split_is_disjoint_complete_and_in_proportion(
            labels in prop::collection::vec(0..5u32, 2..200), share in 0.0..1.0f64, seed: u64,
        ) {
            let total = labels.len();
            let count = ((total - 1) as f64 * share) as usize;
            let all = labelled(5, labels);
            let (held, rest) = all.hold_out(count, seed, Part::Validation).unwrap();
            prop_assert_eq!(held.len(), count);
            prop_assert!(numbers(&held).is_disjoint(&numbers(&rest)));
            prop_assert_eq!(&numbers(&held) | &numbers(&rest), numbers(&all));
            prop_assert_eq!(held.len() + rest.len(), total);
            let sizes = all.class_counts().unwrap();
            for (held, size) in held.class_counts().unwrap().into_iter().zip(sizes) {
                let exact = size as f64 * count as f64 / total as f64;
                prop_assert!((held as f64 - exact).abs() < 1.0, "{} of {}", held, size);
            }
        }

        #[test]
        fn a_class_that_gives_more_gives_the_same_and_others(seed: u64, small in 0..10usize, more in 0..10usize) {
            let all = labelled(4, (0..80).map(|i| i % 4).collect());
            let split = |count| all.hold_out(count * 4, seed, Part::Test).unwrap().0;
            prop_assert!(numbers(&split(small)).is_subset(&numbers(&split(small + more))));
        }

        #[test]
        fn a_balanced_subset_has_as_many_of_each_class(count in 0..40usize, seed: u64) {
            let all = labelled(4, (0..80).map(|i| if i < 50 { i % 4 } else { 0 }).collect());
            let counts = all.balanced(count, seed).unwrap().class_counts().unwrap();
            prop_assert_eq!(counts.iter().sum::<usize>(), count);
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn seed_and_part_choose_other_examples() {
        let all = labelled(2, (0..200).map(|i| i % 2).collect());
        let split = |seed, part| numbers(&all.hold_out(50, seed, part).unwrap().0);
        assert_eq!(split(0, Part::Test), split(0, Part::Test));
        assert_ne!(split(0, Part::Test), split(1, Part::Test));
        assert_ne!(split(0, Part::Test), split(0, Part::Validation));
    }

    #[test]
    fn splits_never_change_between_versions() {
        // Written down from the first version: a change here changes what was held out.
        let all = labelled(2, (0..20).map(|i| i % 2).collect());
        let (held, _) = all.hold_out(6, 0, Part::Validation).unwrap();
        assert_eq!(held.indices(), [3, 5, 10, 11, 12, 16]);
    }

    #[test]
    fn a_class_that_is_too_small_is_named() {
        let all = labelled(2, vec![0, 0, 0, 1]);
        let error = all.balanced(4, 0).unwrap_err();
        assert!(matches!(error, DataError::ClassTooSmall { class: 1, needed: 2, found: 1 }));
        assert_eq!(error.to_string(), "class 1 has 1 examples, the split needs 2");
        for count in [4, 5, usize::MAX] {
            let error = all.hold_out(count, 0, Part::Test).unwrap_err();
            assert!(matches!(error, DataError::TooFewExamples { found: 4, .. }));
        }
        assert!(all.balanced(usize::MAX, 0).is_err());
    }

    #[test]
    fn nothing_can_be_held_out_of_nothing() {
        let none = labelled(2, vec![]);
        assert!(none.hold_out(0, 0, Part::Test).unwrap().0.is_empty());
        assert!(none.hold_out(1, 0, Part::Test).is_err());
    }
}
