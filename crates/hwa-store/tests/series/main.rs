//! Averages of series: the bits of `hwa_core::mean` from whatever files, or a clear refusal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod exact;
mod inputs;
mod refused;
mod schemes;

use std::path::{Path, PathBuf};

use hwa_core::{Role, Tensor, Values, Weights};
use hwa_store::{Metadata, write_tensors};

/// Weights of these tensors, with the roles that their names tell.
fn weights(tensors: &[(&str, Values)]) -> Weights {
    let mut weights = Weights::new();
    for (name, values) in tensors {
        let role = Role::infer(name, values.value_type());
        let tensor = Tensor::new(role, vec![values.len()], values.clone()).unwrap();
        weights.insert(*name, tensor).unwrap();
    }
    weights
}

/// One file for each member, in a folder of its own.
fn saved(folder: &Path, members: &[Weights]) -> PathBuf {
    let series = folder.join("series");
    std::fs::create_dir_all(&series).unwrap();
    for (number, member) in members.iter().enumerate() {
        let path = series.join(format!("epoch-{}.safetensors", number + 1));
        write_tensors(&path, member, &Metadata::new()).unwrap();
    }
    series
}

/// Names and bits; all NaN are one.
fn bits(weights: &Weights) -> Vec<(String, Vec<usize>, Vec<u64>)> {
    let value_bits = |values: &Values| -> Vec<u64> {
        let nan = |bits: u64, is_nan: bool| if is_nan { u64::MAX } else { bits };
        match values {
            Values::F64(v) => v.iter().map(|x| nan(x.to_bits(), x.is_nan())).collect(),
            Values::F32(v) => v.iter().map(|x| nan(x.to_bits().into(), x.is_nan())).collect(),
            Values::F16(v) => v.iter().map(|x| nan(x.to_bits().into(), x.is_nan())).collect(),
            Values::BF16(v) => v.iter().map(|x| nan(x.to_bits().into(), x.is_nan())).collect(),
            Values::I64(v) => v.iter().map(|x| *x as u64).collect(),
        }
    };
    let row = |(name, tensor): (&str, &Tensor)| {
        (name.to_owned(), tensor.shape().to_vec(), value_bits(tensor.values()))
    };
    weights.iter().map(row).collect()
}
