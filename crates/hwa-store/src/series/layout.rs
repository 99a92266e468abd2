//! What all members of a series have in common, and the order that it is written in.

use std::cmp::Ordering;

use hwa_core::{Role, ValueType};
use safetensors::Dtype;

use super::error::{Difference, SeriesError};
use super::source::Source;
use super::tensor::{StoredTensor, dtype_of};

/// Checks that all members have the same tensors; the first difference is named.
pub(crate) fn ensure_equal(sources: &[Source]) -> Result<(), SeriesError> {
    let Some((first, others)) = sources.split_first() else {
        return Ok(());
    };
    for other in others {
        if let Some(difference) = difference(first.tensors(), other.tensors()) {
            let (first, other) = (first.path().to_owned(), other.path().to_owned());
            let difference = Box::new(difference);
            return Err(SeriesError::Differ { first, other, difference });
        }
    }
    Ok(())
}

/// Both are in the order of their names.
fn difference(first: &[StoredTensor], second: &[StoredTensor]) -> Option<Difference> {
    let (mut a, mut b) = (first.iter(), second.iter());
    loop {
        let (x, y) = match (a.next(), b.next()) {
            (None, None) => return None,
            (Some(x), None) => return Some(Difference::OnlyInFirst { name: x.name.clone() }),
            (None, Some(y)) => return Some(Difference::OnlyInSecond { name: y.name.clone() }),
            (Some(x), Some(y)) => (x, y),
        };
        let name = x.name.clone();
        match x.name.cmp(&y.name) {
            Ordering::Less => return Some(Difference::OnlyInFirst { name }),
            Ordering::Greater => {
                return Some(Difference::OnlyInSecond { name: y.name.clone() });
            }
            Ordering::Equal => {}
        }
        if x.shape != y.shape {
            let (first, second) = (x.shape.clone(), y.shape.clone());
            return Some(Difference::Shape { name, first, second });
        }
        if x.dtype != y.dtype {
            let (first, second) = (x.dtype.to_string(), y.dtype.to_string());
            return Some(Difference::Type { name, first, second });
        }
    }
}

/// A tensor of the result.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) role: Role,
    pub(crate) dtype: Dtype,
    /// Where it begins behind the header, in bytes.
    pub(crate) start: usize,
    /// The type of the sums' result; `None` for what is taken from the newest.
    pub(crate) float: Option<ValueType>,
}

impl Planned {
    /// The bytes of one element.
    pub(crate) fn width(&self) -> usize {
        self.dtype.bitsize() / 8
    }

    /// The bytes of all elements.
    pub(crate) fn num_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.width()
    }
}

/// The tensors of a result by the numbers that they have in the members, with their places in
/// a file: wide types first, then by name, as the `safetensors` crate writes them.
pub(crate) fn planned(tensors: &[StoredTensor], value_type: Option<ValueType>) -> Vec<Planned> {
    let plan = |tensor: &StoredTensor| {
        let float = tensor.float().map(|own| value_type.unwrap_or(own));
        let (name, shape, role) = (tensor.name.clone(), tensor.shape.clone(), tensor.role);
        let dtype = float.map_or(tensor.dtype, dtype_of);
        Planned { name, shape, role, dtype, start: 0, float }
    };
    let mut planned: Vec<Planned> = tensors.iter().map(plan).collect();
    let mut start = 0;
    for tensor in in_file_order(&planned) {
        planned[tensor].start = start;
        start += planned[tensor].num_bytes();
    }
    planned
}

/// The numbers of tensors, in the order that they are written in.
pub(crate) fn in_file_order(planned: &[Planned]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..planned.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&planned[*a], &planned[*b]);
        b.dtype.cmp(&a.dtype).then_with(|| a.name.cmp(&b.name))
    });
    order
}
