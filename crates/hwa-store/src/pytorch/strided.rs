//! Tensors as views: numbers of a storage, at places that strides give.
//!
//! PyTorch stores what it holds in memory. A transposed matrix, a convolution in
//! channels-last order or a slice is written as its storage and how to walk through it.
//! Here every place is computed in checked arithmetic before a number is read.

use super::globals::Global;
use super::value::{Element, Id, Objects, Storage, Value};

/// The dimensions that a tensor may have; PyTorch's own limit.
const MAX_DIMENSIONS: usize = 64;

/// A tensor that is still on disk.
#[derive(Debug)]
pub(super) struct StridedTensor<'a> {
    pub(super) storage: Storage<'a>,
    pub(super) element: Element,
    /// Where it begins, in elements.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    /// In elements, one for each dimension.
    pub(super) strides: Vec<u64>,
    /// Whether reading it means computing, as of a negated view.
    pub(super) is_lazy: bool,
}

impl<'a> StridedTensor<'a> {
    /// `(storage, offset, shape, strides, requires_grad, hooks, metadata)`, of which the
    /// last three may be missing.
    pub(super) fn from_arguments(objects: &Objects<'a>, items: &[Id]) -> Option<Self> {
        let element = match objects.get(*items.first()?) {
            Value::Storage(storage) => storage.element?,
            _ => return None,
        };
        Self::new(objects, items, element, items.get(6).copied())
    }

    /// `(storage, offset, shape, strides, requires_grad, hooks, dtype, metadata)`, of
    /// which the last may be missing.
    pub(super) fn from_arguments_v3(objects: &Objects<'a>, items: &[Id]) -> Option<Self> {
        let element = match (objects.get(*items.first()?), objects.get(*items.get(6)?)) {
            (Value::Storage(storage), Value::Global(Global::Dtype(element)))
                if storage.element.is_none() =>
            {
                *element
            }
            _ => return None,
        };
        Self::new(objects, items, element, items.get(7).copied())
    }

    fn new(
        objects: &Objects<'a>,
        items: &[Id],
        element: Element,
        metadata: Option<Id>,
    ) -> Option<Self> {
        let &[storage, offset, shape, strides, ..] = items else {
            return None;
        };
        let Value::Storage(storage) = objects.get(storage) else {
            return None;
        };
        let (shape, strides) = (numbers(objects, shape)?, numbers(objects, strides)?);
        if shape.len() != strides.len() || shape.len() > MAX_DIMENSIONS {
            return None;
        }
        let is_lazy = match metadata.map(|id| objects.get(id)) {
            None | Some(Value::None) => false,
            Some(Value::Dict(entries)) => !entries.is_empty(),
            Some(_) => return None,
        };
        let offset = number(objects, offset)?;
        Some(Self { storage: **storage, element, offset, shape, strides, is_lazy })
    }

    /// The number of elements, unless it is beyond all measure.
    pub(super) fn num_elements(&self) -> Option<u64> {
        // First, because a product with a zero in it may overflow before.
        if self.shape.contains(&0) {
            return Some(0);
        }
        self.shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d))
    }

    /// The number of stored elements from its first to its last.
    pub(super) fn span(&self) -> Option<u64> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        let steps = self.shape.iter().zip(&self.strides);
        let last = steps.map(|(d, s)| d.saturating_sub(1).checked_mul(*s));
        last.sum::<Option<u64>>()?.checked_add(1)
    }

    /// The numbers of `stored`, which spans the tensor, in row-major order.
    pub(super) fn gathered<T, const N: usize>(
        &self,
        stored: &[u8],
        read: impl Fn([u8; N]) -> T,
    ) -> Option<Vec<T>> {
        if self.shape.contains(&0) {
            return Some(Vec::new());
        }
        let (stored, _) = stored.as_chunks::<N>();
        if self.is_row_major() {
            return Some(stored.iter().map(|bytes| read(*bytes)).collect());
        }
        let mut values = Vec::with_capacity(usize::try_from(self.num_elements()?).ok()?);
        let mut index = vec![0; self.shape.len()];
        let mut at = 0;
        for _ in 0..self.num_elements()? {
            values.push(read(*stored.get(usize::try_from(at).ok()?)?));
            at = self.advance(&mut index, at)?;
        }
        Some(values)
    }

    /// The place of the element after the one at `index`, the last dimension first.
    fn advance(&self, index: &mut [u64], mut at: u64) -> Option<u64> {
        let dimensions = index.iter_mut().zip(self.shape.iter().zip(&self.strides));
        for (i, (dimension, stride)) in dimensions.rev() {
            *i += 1;
            if *i < *dimension {
                return at.checked_add(*stride);
            }
            *i = 0;
            at = at.checked_sub((dimension - 1).checked_mul(*stride)?)?;
        }
        Some(at)
    }

    /// Whether its numbers are stored one after the other.
    pub(super) fn is_row_major(&self) -> bool {
        let mut expected = 1;
        for (dimension, stride) in self.shape.iter().zip(&self.strides).rev() {
            // The stride of a dimension of one is never used, and PyTorch leaves any.
            if *dimension != 1 && *stride != expected {
                return false;
            }
            expected *= dimension;
        }
        true
    }
}

fn number(objects: &Objects<'_>, id: Id) -> Option<u64> {
    match objects.get(id) {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn numbers(objects: &Objects<'_>, id: Id) -> Option<Vec<u64>> {
    match objects.get(id) {
        Value::Tuple(items) if items.len() <= MAX_DIMENSIONS => {
            items.iter().map(|id| number(objects, *id)).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn view(shape: &[u64], strides: &[u64]) -> StridedTensor<'static> {
        let storage = Storage { key: "0", element: Some(Element::F32), length: 0 };
        let (shape, strides) = (shape.to_vec(), strides.to_vec());
        StridedTensor { storage, element: Element::F32, offset: 0, shape, strides, is_lazy: false }
    }

    fn gathered(shape: &[u64], strides: &[u64], stored: &[u8]) -> Option<Vec<u8>> {
        view(shape, strides).gathered(stored, |[byte]: [u8; 1]| byte)
    }

    #[test]
    fn strides_say_where_the_next_element_is() {
        // stored 0 1 2 / 3 4 5, read as its transpose: 0 3 / 1 4 / 2 5
        assert_eq!(gathered(&[3, 2], &[1, 3], &[0, 1, 2, 3, 4, 5]).unwrap(), [0, 3, 1, 4, 2, 5]);
        // one number, expanded
        assert_eq!(gathered(&[2, 3], &[0, 0], &[7]).unwrap(), [7; 6]);
        // a row of each two
        assert_eq!(gathered(&[2, 2], &[4, 1], &[0, 1, 2, 3, 4, 5]).unwrap(), [0, 1, 4, 5]);
        // a dimension of one, whatever its stride
        assert_eq!(gathered(&[1, 2], &[u64::MAX, 1], &[8, 9]).unwrap(), [8, 9]);
        assert_eq!(gathered(&[], &[], &[3]).unwrap(), [3]);
        assert!(gathered(&[0, 2], &[2, 1], &[]).unwrap().is_empty());
        assert!(gathered(&[0, 1 << 40, 1 << 40], &[0, 1 << 40, 1], &[]).unwrap().is_empty());
    }

    #[test]
    fn sizes_beyond_all_measure_have_no_number() {
        let huge = view(&[1 << 40, 1 << 40], &[1 << 40, 1]);
        assert_eq!((huge.num_elements(), huge.span()), (None, None));
        assert_eq!(view(&[2], &[u64::MAX]).span(), None);
        assert_eq!(view(&[1 << 40, 1 << 40, 0], &[1, 1, 1]).num_elements(), Some(0));
        assert_eq!(view(&[1 << 40], &[0]).span(), Some(1));
    }

    proptest! {
        #[test]
        fn every_element_is_where_the_sum_of_index_times_stride_says(
            dimensions in prop::collection::vec((1u64..5, 0u64..7), 0..4)
        ) {
            let (shape, strides): (Vec<_>, Vec<_>) = dimensions.into_iter().unzip();
            let tensor = view(&shape, &strides);
            let (n, span) = (tensor.num_elements().unwrap(), tensor.span().unwrap());
            let stored: Vec<u8> = (0..span).map(|i| i as u8).collect();
            let place = |flat: u64| {
                let (mut rest, mut place) = (flat, 0);
                for (d, s) in shape.iter().zip(&strides).rev() {
                    place += rest % d * s;
                    rest /= d;
                }
                place as u8
            };
            let expected: Vec<u8> = (0..n).map(place).collect();
            prop_assert_eq!(gathered(&shape, &strides, &stored).unwrap(), expected);
        }
    }
}
