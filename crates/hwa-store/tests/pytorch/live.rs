//! Against a PyTorch that is installed, both ways.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use hwa_store::{Metadata, read_checkpoint, write_tensors};
use serde::Deserialize;

use crate::torch_file::{bytes_of, golden};

#[derive(Deserialize)]
struct Sum {
    shape: Vec<usize>,
    crc32: u32,
}

fn python(arguments: &[&Path]) {
    let python = std::env::var("HWA_PYTHON").expect("HWA_PYTHON names a Python with torch");
    let mut command = Command::new(python);
    let status = command.arg(golden("live_pytorch.py")).args(arguments).status().unwrap();
    assert!(status.success(), "{arguments:?}: {status}");
}

#[test]
#[ignore = "needs torch and torchvision: HWA_PYTHON=python3 cargo test -p hwa-store -- --ignored"]
fn torchvisions_resnet18_goes_both_ways_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    python(&[Path::new("save"), folder.path()]);
    let saved = folder.path().join("resnet18.pth");
    let weights = read_checkpoint(&saved).unwrap().weights;

    let sums = fs::read_to_string(folder.path().join("resnet18.json")).unwrap();
    let sums: BTreeMap<String, Sum> = serde_json::from_str(&sums).unwrap();
    assert_eq!(weights.len(), sums.len());
    for (name, expected) in sums {
        let tensor = weights.get(&name).unwrap();
        assert_eq!(tensor.shape(), expected.shape, "{name}");
        assert_eq!(crc32fast::hash(&bytes_of(tensor)), expected.crc32, "{name}");
    }

    let written = folder.path().join("resnet18.safetensors");
    write_tensors(&written, &weights, &Metadata::new()).unwrap();
    python(&[Path::new("compare"), &written, &saved]);
}
