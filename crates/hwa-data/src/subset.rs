//! Some examples of a data set, by number: what splits are made of.

use std::fmt;
use std::sync::Arc;

use crate::dataset::{Dataset, Example};
use crate::error::DataError;

/// Some examples of a data set, in an order of their own. Cheap to clone.
#[derive(Clone)]
pub struct Subset {
    dataset: Arc<dyn Dataset>,
    indices: Arc<[usize]>,
}

/// What to train on, what to choose by, and what to report.
#[derive(Debug, Clone)]
pub struct Splits {
    /// Chooses weights.
    pub train: Subset,
    /// Chooses cycles and settings; held out of the published training images.
    pub validation: Subset,
    /// Read once, after every choice.
    pub test: Subset,
}

impl Subset {
    /// Every example, in order.
    pub fn all(dataset: Arc<dyn Dataset>) -> Self {
        let indices = (0..dataset.num_examples()).collect();
        Self { dataset, indices }
    }

    /// The examples with these numbers, each at most once.
    pub fn new(dataset: Arc<dyn Dataset>, indices: Vec<usize>) -> Result<Self, DataError> {
        let count = dataset.num_examples();
        if let Some(&index) = indices.iter().find(|&&index| index >= count) {
            return Err(DataError::NoSuchExample { index, count });
        }
        let mut sorted = indices.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.array_windows().find(|[a, b]| a == b) {
            return Err(DataError::Repeated { index: pair[0] });
        }
        Ok(Self { dataset, indices: indices.into() })
    }

    /// How many examples there are.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// How many classes the data set has; some may have no example here.
    pub fn num_classes(&self) -> usize {
        self.dataset.num_classes()
    }

    /// The examples' numbers in the data set.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The `i`-th example.
    pub fn get(&self, i: usize) -> Result<Example<'_>, DataError> {
        self.dataset.get(self.index(i)?)
    }

    /// What is wrong with the `i`-th example: its file, if it is one that cannot be seen as it
    /// is asked for.
    pub(crate) fn bad_image(&self, i: usize, error: DataError) -> DataError {
        let of_the_image = matches!(
            error,
            DataError::Resize(_)
                | DataError::CropTooLarge { .. }
                | DataError::PaddingTooLarge { .. }
        );
        let index = self.index(i).ok().filter(|_| of_the_image);
        index.and_then(|i| self.dataset.give_up(i, error.told())).unwrap_or(error)
    }

    /// The data set that the examples are of.
    pub(crate) fn dataset(&self) -> &dyn Dataset {
        self.dataset.as_ref()
    }

    /// The class of the `i`-th example, without decoding its image.
    pub fn label(&self, i: usize) -> Result<u32, DataError> {
        self.dataset.label(self.index(i)?)
    }

    /// How many examples each class has.
    pub fn class_counts(&self) -> Result<Vec<usize>, DataError> {
        Ok(self.by_class()?.iter().map(Vec::len).collect())
    }

    /// The examples of each class, by their numbers in the data set.
    pub(crate) fn by_class(&self) -> Result<Vec<Vec<usize>>, DataError> {
        let classes = self.num_classes();
        let mut members = vec![Vec::new(); classes];
        for &index in self.indices.iter() {
            let label = self.dataset.label(index)?;
            let members = members.get_mut(label as usize);
            members.ok_or(DataError::NotAClass { index, label, classes })?.push(index);
        }
        Ok(members)
    }

    /// Other examples of the same data set, in ascending order.
    pub(crate) fn with_sorted(&self, mut indices: Vec<usize>) -> Self {
        indices.sort_unstable();
        Self { dataset: Arc::clone(&self.dataset), indices: indices.into() }
    }

    fn index(&self, i: usize) -> Result<usize, DataError> {
        let count = self.indices.len();
        self.indices.get(i).copied().ok_or(DataError::NoSuchExample { index: i, count })
    }
}

impl fmt::Debug for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subset({} of {} examples)", self.len(), self.dataset.num_examples())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::ImageShape;
    use crate::memory::InMemory;

    fn three() -> Arc<dyn Dataset> {
        let shape = ImageShape { height: 1, width: 1, channels: 1 };
        Arc::new(InMemory::new(shape, 3, vec![10, 11, 12], vec![2, 0, 2]).unwrap())
    }

    #[test]
    fn a_subset_has_its_own_order() {
        let subset = Subset::new(three(), vec![2, 1]).unwrap();
        assert_eq!(subset.get(0).unwrap().pixels.as_ref(), [12]);
        assert_eq!((subset.label(0).unwrap(), subset.label(1).unwrap()), (2, 0));
        assert_eq!(subset.class_counts().unwrap(), [1, 0, 1]);
        assert_eq!((subset.len(), subset.num_classes(), subset.is_empty()), (2, 3, false));
    }

    #[test]
    fn examples_that_do_not_exist_are_refused() {
        let error = Subset::new(three(), vec![0, 3]).unwrap_err();
        assert!(matches!(error, DataError::NoSuchExample { index: 3, count: 3 }));
        let error = Subset::new(three(), vec![2]).unwrap().label(1).unwrap_err();
        assert!(matches!(error, DataError::NoSuchExample { index: 1, count: 1 }));
    }

    #[test]
    fn an_example_that_is_named_twice_is_refused() {
        let message = Subset::new(three(), vec![2, 1, 0, 2]).unwrap_err().to_string();
        assert_eq!(message, "example 2 is named more than once");
    }
}
