//! Tensors in a row: every element of a set of weights has one position.
//!
//! Ranks whose weights have the same layout can send each other any range of positions without
//! a word about what is in it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use hwa_core::{Role, Statistics, Tensor, ValueType, Values, Weights, WeightsError};
use serde::{Deserialize, Serialize};

/// Where each tensor begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Layout {
    tensors: Vec<Place>,
}

/// One tensor of a layout.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
struct Place {
    name: String,
    role: Role,
    shape: Vec<usize>,
    value_type: ValueType,
    start: usize,
    end: usize,
}

impl Layout {
    /// Of all tensors.
    pub(crate) fn of(weights: &Weights) -> Self {
        Self::of_those(weights, |_| true)
    }

    /// Of the tensors that a mean is made of.
    pub(crate) fn of_mean(weights: &Weights, statistics: Statistics) -> Self {
        Self::of_those(weights, |role| role == Role::Parameter || statistics == Statistics::Average)
    }

    fn of_those(weights: &Weights, wanted: impl Fn(Role) -> bool) -> Self {
        let mut tensors = Vec::new();
        let mut start = 0;
        for (name, tensor) in weights.iter().filter(|(_, tensor)| wanted(tensor.role())) {
            let end = start + tensor.values().len();
            tensors.push(Place {
                name: name.to_owned(),
                role: tensor.role(),
                shape: tensor.shape().to_vec(),
                value_type: tensor.values().value_type(),
                start,
                end,
            });
            start = end;
        }
        Self { tensors }
    }

    /// How many positions there are.
    pub(crate) fn num_elements(&self) -> usize {
        self.tensors.last().map_or(0, |last| last.end)
    }

    /// The bytes of the elements at these positions.
    pub(crate) fn num_bytes(&self, positions: &Range<usize>) -> usize {
        self.pieces(positions).map(|piece| piece.num_bytes()).sum()
    }

    /// Appends the bytes of the elements at these positions.
    pub(crate) fn encode(
        &self,
        weights: &Weights,
        positions: &Range<usize>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), WeightsError> {
        for Piece { place, elements } in self.pieces(positions) {
            weights.require(&place.name)?.values().write_le_bytes(elements, bytes);
        }
        Ok(())
    }

    /// The parts of tensors that lie at these positions.
    pub(crate) fn pieces(&self, positions: &Range<usize>) -> impl Iterator<Item = Piece<'_>> {
        let Range { start, end } = *positions;
        let first = self.tensors.partition_point(|place| place.end <= start);
        let inside = self.tensors[first..].iter().take_while(move |place| place.start < end);
        inside.map(move |place| {
            let elements = start.max(place.start) - place.start..end.min(place.end) - place.start;
            Piece { place, elements }
        })
    }

    /// Whether the tensors follow each other and are as long as their shapes say: what came
    /// from elsewhere is not believed.
    pub(crate) fn is_sound(&self) -> bool {
        let mut next = 0;
        self.tensors.iter().all(|place| {
            let elements = place.shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
            let follows = place.start == next && elements == place.end.checked_sub(next);
            next = place.end;
            follows
        })
    }

    /// Equal for equal layouts, on every machine with the same program.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.tensors.hash(&mut hasher);
        hasher.finish()
    }
}

/// A part of one tensor.
pub(crate) struct Piece<'a> {
    place: &'a Place,
    elements: Range<usize>,
}

impl Piece<'_> {
    /// The bytes of its elements.
    pub(crate) fn num_bytes(&self) -> usize {
        self.elements.len() * self.place.value_type.num_bytes()
    }

    /// Its elements, from their bytes.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Values {
        Values::from_le_bytes(self.place.value_type, bytes)
    }
}

/// Weights that come in piece by piece, in the order of a layout.
pub(crate) struct Assembly {
    layout: Layout,
    values: Vec<Values>,
    /// The next position.
    at: usize,
}

impl Assembly {
    /// Nothing has come yet.
    pub(crate) fn new(layout: Layout) -> Self {
        let empty =
            |place: &Place| Values::with_capacity(place.value_type, place.end - place.start);
        let values = layout.tensors.iter().map(empty).collect();
        Self { layout, values, at: 0 }
    }

    /// The layout that is filled.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Takes the bytes of the next `elements`.
    pub(crate) fn push(&mut self, elements: usize, mut bytes: &[u8]) {
        let (start, end) = (self.at, self.at + elements);
        let first = self.layout.tensors.partition_point(|place| place.end <= start);
        for (place, values) in self.layout.tensors.iter().zip(&mut self.values).skip(first) {
            if place.start >= end {
                break;
            }
            let count = end.min(place.end) - start.max(place.start);
            let size = (count * place.value_type.num_bytes()).min(bytes.len());
            let (mine, rest) = bytes.split_at(size);
            values.append_le_bytes(mine);
            bytes = rest;
        }
        self.at = end;
    }

    /// The weights, if all of them have come.
    pub(crate) fn finish(self) -> Result<Weights, WeightsError> {
        let mut weights = Weights::new();
        for (place, values) in self.layout.tensors.into_iter().zip(self.values) {
            weights.insert(place.name, Tensor::new(place.role, place.shape, values)?)?;
        }
        Ok(weights)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tensors of several types, a scalar and an empty one among them.
    pub(crate) fn sample(seed: u32) -> Weights {
        let mut weights = Weights::new();
        let x = seed as f32 * 0.37 + 0.1;
        let mut add = |name: &str, role, shape: &[usize], values| {
            weights.insert(name, Tensor::new(role, shape.to_vec(), values).unwrap()).unwrap();
        };
        add("a", Role::Parameter, &[2, 3], Values::F32((0..6).map(|i| x * i as f32).collect()));
        add("b.running_mean", Role::Statistic, &[2], Values::F32(vec![x, -x]));
        add("c.num_batches_tracked", Role::Counter, &[], Values::I64(vec![i64::from(seed)]));
        add("d", Role::Parameter, &[0], Values::F32(vec![]));
        add("e", Role::Parameter, &[5], Values::F64(vec![f64::from(x) / 3.0; 5]));
        add("f", Role::Parameter, &[1], Values::F32(vec![-0.0]));
        weights
    }

    #[test]
    fn a_digest_tells_layouts_apart() {
        let digest = |weights: &Weights| Layout::of(weights).digest();
        assert_eq!(digest(&sample(1)), digest(&sample(2)), "values do not matter");
        let parameters = Layout::of_mean(&sample(1), Statistics::Omit);
        assert_ne!(digest(&sample(1)), parameters.digest());
        assert_eq!(parameters.num_elements(), 6 + 5 + 1);
    }

    proptest! {
        #[test]
        fn weights_come_back_from_pieces_of_any_size(size in 1usize..20) {
            let (weights, mut at) = (sample(3), 0);
            let mut assembly = Assembly::new(Layout::of(&weights));
            while at < assembly.layout().num_elements() {
                let end = (at + size).min(assembly.layout().num_elements());
                let mut bytes = Vec::new();
                assembly.layout().encode(&weights, &(at..end), &mut bytes).unwrap();
                prop_assert_eq!(bytes.len(), assembly.layout().num_bytes(&(at..end)));
                assembly.push(end - at, &bytes);
                at = end;
            }
            prop_assert_eq!(assembly.finish().unwrap(), weights);
        }
    }

    #[test]
    fn a_layout_that_contradicts_itself_is_not_believed() {
        let layout = Layout::of(&sample(1));
        assert!(layout.is_sound());
        let mut long = layout.clone();
        long.tensors[0].shape = vec![usize::MAX, 3];
        let mut back = layout.clone();
        back.tensors[1].end = 0;
        let mut gap = layout;
        gap.tensors[1].start += 1;
        assert!(!long.is_sound() && !back.is_sound() && !gap.is_sound());
    }

    #[test]
    fn what_has_not_come_is_missed() {
        let assembly = Assembly::new(Layout::of(&sample(1)));
        let error = assembly.finish().unwrap_err().to_string();
        assert_eq!(error, "a tensor of shape [2, 3] cannot hold 0 elements");
    }
}
