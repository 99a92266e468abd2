//! Tensors that are still on disk, read in pieces.

use hwa_core::{Role, ValueType};
use safetensors::Dtype;

use super::positioned::PositionedFile;
use crate::error::StoreError;

/// Where a tensor is, and what it is.
#[derive(Debug, Clone)]
pub(crate) struct StoredTensor {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) role: Role,
    /// The file of its member that it is in.
    pub(crate) file: usize,
    /// Where its first number is, in bytes.
    pub(crate) start: u64,
    /// In elements, for tensors that are not in row-major order.
    pub(crate) strides: Option<Vec<u64>>,
}

impl StoredTensor {
    /// The number of its elements. Layouts are checked where they are read.
    pub(crate) fn num_elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The bytes of one element.
    pub(crate) fn width(&self) -> usize {
        self.dtype.bitsize() / 8
    }

    /// Its type, if it can be averaged; numbers that count something cannot, also where a whole
    /// model was made to floating-point numbers.
    pub(crate) fn float(&self) -> Option<ValueType> {
        match self.dtype {
            _ if self.name.rsplit('.').next() == Some("num_batches_tracked") => None,
            Dtype::F64 => Some(ValueType::F64),
            Dtype::F32 => Some(ValueType::F32),
            Dtype::F16 => Some(ValueType::F16),
            Dtype::BF16 => Some(ValueType::BF16),
            _ => None,
        }
    }

    /// The bytes that a read of a piece may need beside the piece.
    pub(crate) fn num_gathered_bytes(&self) -> usize {
        let Some(strides) = &self.strides else {
            return 0;
        };
        let reach = |(d, s): (&usize, &u64)| (*d as u64).saturating_sub(1).saturating_mul(*s);
        let last: u64 = self.shape.iter().zip(strides).map(reach).sum();
        usize::try_from(last).unwrap_or(usize::MAX).saturating_add(1).saturating_mul(self.width())
    }

    /// The bytes of the file from its first element to its last.
    pub(crate) fn num_spanned_bytes(&self) -> usize {
        match self.strides {
            None => self.num_elements() * self.width(),
            Some(_) => self.num_gathered_bytes(),
        }
    }

    /// Reads the elements from `first` on that fill `into`, in row-major order.
    pub(crate) fn read(
        &self,
        file: &PositionedFile,
        first: usize,
        into: &mut [u8],
        gathered: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let Some(strides) = &self.strides else {
            return file.read(self.start + (first * self.width()) as u64, into);
        };
        let width = self.width();
        let length = into.len() / width;
        let places = || Places::new(&self.shape, strides, first).take(length);
        let (low, high) =
            places().fold((u64::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
        if low > high {
            return Ok(());
        }
        // No larger than what the layout spans, which lies in the file.
        gathered.resize((high - low + 1) as usize * width, 0);
        file.read(self.start + low * width as u64, gathered)?;
        for (element, at) in into.chunks_exact_mut(width).zip(places()) {
            let at = (at - low) as usize * width;
            element.copy_from_slice(&gathered[at..at + width]);
        }
        Ok(())
    }
}

/// The type of safetensors for a type of weights.
pub(crate) fn dtype_of(value_type: ValueType) -> Dtype {
    match value_type {
        ValueType::F64 => Dtype::F64,
        ValueType::F32 => Dtype::F32,
        ValueType::F16 => Dtype::F16,
        ValueType::BF16 => Dtype::BF16,
        ValueType::I64 => Dtype::I64,
    }
}

/// Where the elements of a strided tensor are, from one of them on, in row-major order.
struct Places<'a> {
    shape: &'a [usize],
    strides: &'a [u64],
    index: Vec<usize>,
    at: u64,
}

impl<'a> Places<'a> {
    fn new(shape: &'a [usize], strides: &'a [u64], first: usize) -> Self {
        let (mut index, mut rest, mut at) = (vec![0; shape.len()], first, 0);
        for ((i, d), s) in index.iter_mut().zip(shape).zip(strides).rev() {
            *i = rest % d.max(&1);
            rest /= d.max(&1);
            at += *i as u64 * s;
        }
        Self { shape, strides, index, at }
    }
}

impl Iterator for Places<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let place = self.at;
        for ((i, d), s) in self.index.iter_mut().zip(self.shape).zip(self.strides).rev() {
            *i += 1;
            if *i < *d {
                self.at += s;
                return Some(place);
            }
            self.at -= (*i as u64 - 1) * s;
            *i = 0;
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_the_sum_of_index_times_stride(
            dimensions in prop::collection::vec((1usize..5, 0u64..7), 0..4), first in 0usize..20
        ) {
            let (shape, strides): (Vec<_>, Vec<_>) = dimensions.into_iter().unzip();
            let n: usize = shape.iter().product();
            let place = |flat: usize| {
                let (mut rest, mut place) = (flat, 0);
                for (d, s) in shape.iter().zip(&strides).rev() {
                    place += (rest % d) as u64 * s;
                    rest /= d;
                }
                place
            };
            let first = first % n;
            let found: Vec<u64> = Places::new(&shape, &strides, first).take(n - first).collect();
            prop_assert_eq!(found, (first..n).map(place).collect::<Vec<_>>());
        }
    }
}
