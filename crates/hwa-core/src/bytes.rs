//! Elements as bytes: little-endian, wherever they are stored or sent.

use std::ops::Range;

use half::{bf16, f16};

use crate::weights::{ValueType, Values};

impl Values {
    /// No elements of a type yet, and room for some.
    pub fn with_capacity(value_type: ValueType, elements: usize) -> Self {
        match value_type {
            ValueType::F64 => Self::F64(Vec::with_capacity(elements)),
            ValueType::F32 => Self::F32(Vec::with_capacity(elements)),
            ValueType::F16 => Self::F16(Vec::with_capacity(elements)),
            ValueType::BF16 => Self::BF16(Vec::with_capacity(elements)),
            ValueType::I64 => Self::I64(Vec::with_capacity(elements)),
        }
    }

    /// Appends the bytes of some elements; a range that reaches beyond the last one is cut.
    pub fn write_le_bytes(&self, elements: Range<usize>, bytes: &mut Vec<u8>) {
        let range = elements.start.min(self.len())..elements.end.min(self.len());
        match self {
            Self::F64(v) => bytes.extend(v[range].iter().flat_map(|x| x.to_le_bytes())),
            Self::F32(v) => bytes.extend(v[range].iter().flat_map(|x| x.to_le_bytes())),
            Self::F16(v) => bytes.extend(v[range].iter().flat_map(|x| x.to_le_bytes())),
            Self::BF16(v) => bytes.extend(v[range].iter().flat_map(|x| x.to_le_bytes())),
            Self::I64(v) => bytes.extend(v[range].iter().flat_map(|x| x.to_le_bytes())),
        }
    }

    /// Appends elements from their bytes. Bytes at the end that are no whole element are left
    /// out.
    pub fn append_le_bytes(&mut self, bytes: &[u8]) {
        match self {
            Self::F64(v) => v.extend(elements(bytes, f64::from_le_bytes)),
            Self::F32(v) => v.extend(elements(bytes, f32::from_le_bytes)),
            Self::F16(v) => v.extend(elements(bytes, f16::from_le_bytes)),
            Self::BF16(v) => v.extend(elements(bytes, bf16::from_le_bytes)),
            Self::I64(v) => v.extend(elements(bytes, i64::from_le_bytes)),
        }
    }

    /// Elements from their bytes.
    pub fn from_le_bytes(value_type: ValueType, bytes: &[u8]) -> Self {
        let mut values = Self::with_capacity(value_type, bytes.len() / value_type.num_bytes());
        values.append_le_bytes(bytes);
        values
    }
}

fn elements<T, const N: usize>(
    bytes: &[u8],
    read: impl Fn([u8; N]) -> T,
) -> impl Iterator<Item = T> {
    bytes.as_chunks().0.iter().map(move |chunk| read(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_from_their_bytes_piece_by_piece() {
        let half = |x: f32| f16::from_f32(x);
        for values in [
            Values::F64(vec![-0.0, f64::MIN_POSITIVE, 3.5]),
            Values::F32(vec![f32::INFINITY, 1e-42, -7.25]),
            Values::F16(vec![half(1.5), half(-2.0), half(0.1)]),
            Values::BF16(vec![bf16::from_f32(0.5), bf16::ZERO, bf16::MAX]),
            Values::I64(vec![i64::MIN, -1, i64::MAX]),
        ] {
            let (mut bytes, size) = (Vec::new(), values.value_type().num_bytes());
            values.write_le_bytes(0..2, &mut bytes);
            values.write_le_bytes(2..9, &mut bytes);
            assert_eq!(bytes.len(), 3 * size);
            assert_eq!(Values::from_le_bytes(values.value_type(), &bytes), values);
            let mut again = Values::with_capacity(values.value_type(), 3);
            again.append_le_bytes(&bytes[..size]);
            // What is no whole element is none.
            again.append_le_bytes(&bytes[size..3 * size - 1]);
            assert_eq!(again.len(), 2);
        }
    }

    #[test]
    fn bytes_are_little_endian() {
        let mut bytes = Vec::new();
        Values::F32(vec![1.0]).write_le_bytes(0..1, &mut bytes);
        assert_eq!(bytes, [0, 0, 0x80, 0x3f]);
    }
}
