//! Weights as safetensors files, with one metadata key.
//!
//! The header carries a single key, `hwa`, with JSON in sorted order and without
//! times or paths: equal weights are equal bytes. Files written by others, with
//! any metadata or none, are read just as well; roles then follow PyTorch's names.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use hwa_core::{Role, Tensor, ValueType, Values, Weights};
use safetensors::{Dtype, SafeTensors, View};
use serde_json::Value;

use crate::atomic::{write_atomically, write_unflushed};
use crate::error::StoreError;

/// What a file says about its tensors: JSON values by name.
pub type Metadata = BTreeMap<String, Value>;

pub(crate) const METADATA_KEY: &str = "hwa";
/// Lists the roles that a tensor's name does not tell.
pub(crate) const ROLES_KEY: &str = "roles";

/// Writes weights and metadata, atomically.
pub fn write_tensors(
    path: &Path,
    weights: &Weights,
    metadata: &Metadata,
) -> Result<(), StoreError> {
    let bytes = encoded(path, weights, metadata)?;
    write_atomically(path, |file| file.write_all(&bytes))
}

/// Writes weights and metadata; only a flush makes them survive a power failure.
pub(crate) fn write_tensors_unflushed(
    path: &Path,
    weights: &Weights,
    metadata: &Metadata,
) -> Result<(), StoreError> {
    let bytes = encoded(path, weights, metadata)?;
    write_unflushed(path, |file| file.write_all(&bytes))
}

fn encoded(path: &Path, weights: &Weights, metadata: &Metadata) -> Result<Vec<u8>, StoreError> {
    let json = |source| StoreError::Json { path: path.to_owned(), source };
    let mut metadata = metadata.clone();
    let roles = unusual_roles(weights);
    if !roles.is_empty() {
        metadata.insert(ROLES_KEY.to_owned(), serde_json::to_value(roles).map_err(json)?);
    }
    let header = serde_json::to_string(&metadata).map_err(json)?;
    let header = HashMap::from([(METADATA_KEY.to_owned(), header)]);
    let views = weights.iter().map(|(name, tensor)| (name, TensorBytes(tensor)));
    safetensors::serialize(views, Some(header))
        .map_err(|source| StoreError::NotSafetensors { path: path.to_owned(), source })
}

/// Reads weights and metadata.
pub fn read_tensors(path: &Path) -> Result<(Weights, Metadata), StoreError> {
    let bytes = fs::read(path).map_err(StoreError::io("read", path))?;
    let invalid = |source| StoreError::NotSafetensors { path: path.to_owned(), source };
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(invalid)?;
    let metadata = match header.metadata().as_ref().and_then(|m| m.get(METADATA_KEY)) {
        Some(json) => serde_json::from_str(json)
            .map_err(|source| StoreError::Json { path: path.to_owned(), source })?,
        None => Metadata::new(),
    };
    let file = SafeTensors::deserialize(&bytes).map_err(invalid)?;
    let mut weights = Weights::new();
    let wrong = |source| StoreError::Weights { path: path.to_owned(), source };
    for (name, view) in file.iter() {
        let values = values_of(view.dtype(), view.data()).ok_or_else(|| {
            let found = format!("{:?}", view.dtype());
            StoreError::UnsupportedType {
                path: path.to_owned(),
                name: name.to_owned(),
                found,
                in_series: false,
            }
        })?;
        let role = role_of(&metadata, name, values.value_type());
        let tensor = Tensor::new(role, view.shape().to_vec(), values).map_err(wrong)?;
        weights.insert(name, tensor).map_err(wrong)?;
    }
    Ok((weights, metadata))
}

fn unusual_roles(weights: &Weights) -> BTreeMap<&str, Role> {
    let told = |name: &str, t: &Tensor| Role::infer(name, t.values().value_type()) == t.role();
    weights.iter().filter(|(name, t)| !told(name, t)).map(|(name, t)| (name, t.role())).collect()
}

/// What a file says about a tensor's role, or what its name tells.
pub(crate) fn role_of(metadata: &Metadata, name: &str, value_type: ValueType) -> Role {
    let stated = metadata.get(ROLES_KEY).and_then(|roles| roles.get(name));
    let stated = stated.and_then(|role| serde_json::from_value(role.clone()).ok());
    stated.unwrap_or_else(|| Role::infer(name, value_type))
}

/// Drops the stated roles, for tensors that go by other names than in their file.
pub(crate) fn forget_roles(metadata: &mut Metadata) {
    metadata.remove(ROLES_KEY);
}

/// A tensor as safetensors wants to see it: little-endian bytes.
struct TensorBytes<'a>(&'a Tensor);

impl View for TensorBytes<'_> {
    fn dtype(&self) -> Dtype {
        match self.0.values().value_type() {
            ValueType::F64 => Dtype::F64,
            ValueType::F32 => Dtype::F32,
            ValueType::F16 => Dtype::F16,
            ValueType::BF16 => Dtype::BF16,
            ValueType::I64 => Dtype::I64,
        }
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = Vec::with_capacity(self.data_len());
        self.0.values().write_le_bytes(0..self.0.values().len(), &mut bytes);
        bytes.into()
    }

    fn data_len(&self) -> usize {
        self.0.values().len() * self.dtype().bitsize() / 8
    }
}

/// Little-endian bytes as values, unless weights do not have the type.
pub(crate) fn values_of(dtype: Dtype, bytes: &[u8]) -> Option<Values> {
    let value_type = match dtype {
        Dtype::F64 => ValueType::F64,
        Dtype::F32 => ValueType::F32,
        Dtype::F16 => ValueType::F16,
        Dtype::BF16 => ValueType::BF16,
        Dtype::I64 => ValueType::I64,
        _ => return None,
    };
    Some(Values::from_le_bytes(value_type, bytes))
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Weights {
        let mut weights = Weights::new();
        let mut add = |name: &str, role, shape: &[usize], values| {
            weights.insert(name, Tensor::new(role, shape.to_vec(), values).unwrap()).unwrap();
        };
        add("bn.running_var", Role::Statistic, &[2], Values::F32(vec![1.0, 2.0]));
        add("bn.num_batches_tracked", Role::Counter, &[], Values::I64(vec![-3]));
        add("conv.weight", Role::Parameter, &[1, 3], Values::F32(vec![-0.0, f32::NAN, 1e-42]));
        add("half", Role::Parameter, &[1], Values::F16(vec![f16::from_f32(0.5)]));
        add("brain", Role::Parameter, &[1], Values::BF16(vec![bf16::from_f32(0.5)]));
        add("double", Role::Parameter, &[0, 4], Values::F64(vec![]));
        add("scale", Role::Statistic, &[1], Values::F32(vec![4.0]));
        weights
    }

    fn bits(weights: &Weights) -> Vec<(String, Role, Vec<usize>, Vec<u8>)> {
        let row = |(name, t): (&str, &Tensor)| {
            (name.to_owned(), t.role(), t.shape().to_vec(), TensorBytes(t).data().into_owned())
        };
        weights.iter().map(row).collect()
    }

    #[test]
    fn weights_come_back_bit_for_bit_with_roles_and_metadata() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let metadata = Metadata::from([("cycle".to_owned(), 12.into())]);
        write_tensors(&path, &sample(), &metadata).unwrap();
        let (weights, found) = read_tensors(&path).unwrap();
        assert_eq!(bits(&weights), bits(&sample()));
        assert_eq!(found["cycle"], 12);
    }

    #[test]
    fn equal_weights_are_equal_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, keys: [&str; 2]| {
            let path = folder.path().join(name);
            let metadata = keys.map(|k| (k.to_owned(), Value::from(1))).into_iter().collect();
            write_tensors(&path, &sample(), &metadata).unwrap();
            fs::read(path).unwrap()
        };
        assert_eq!(write("a", ["x", "y"]), write("b", ["y", "x"]));
    }

    #[test]
    fn a_type_that_weights_do_not_have_is_named() {
        struct Bools;
        impl View for Bools {
            fn dtype(&self) -> Dtype {
                Dtype::BOOL
            }
            fn shape(&self) -> &[usize] {
                &[1]
            }
            fn data(&self) -> Cow<'_, [u8]> {
                Cow::Borrowed(&[1])
            }
            fn data_len(&self) -> usize {
                1
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        fs::write(&path, safetensors::serialize([("mask", Bools)], None).unwrap()).unwrap();
        let message = read_tensors(&path).unwrap_err().to_string();
        assert!(message.contains("`mask` has type BOOL"), "{message}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let message = read_tensors(Path::new("no/such/file")).unwrap_err().to_string();
        assert!(message.starts_with("cannot read no/such/file: "), "{message}");
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_without_a_panic(
            noise in prop::collection::vec(any::<u8>(), 0..200),
            cut in 0usize..2000,
            flips in prop::collection::vec((0usize..2000, any::<u8>()), 0..4)
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("w.safetensors");
            fs::write(&path, &noise).unwrap();
            prop_assert!(read_tensors(&path).is_err());

            write_tensors(&path, &sample(), &Metadata::new()).unwrap();
            let mut bytes = fs::read(&path).unwrap();
            let whole = bytes.len();
            bytes.truncate(cut);
            fs::write(&path, &bytes).unwrap();
            prop_assert!(cut >= whole || read_tensors(&path).is_err());
            for (at, value) in flips {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            fs::write(&path, &bytes).unwrap();
            let _ = read_tensors(&path); // may be read or refused, must not panic
        }
    }
}
