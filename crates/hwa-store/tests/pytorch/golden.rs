//! What PyTorch wrote is read bit for bit, or refused with what it is.

use std::collections::BTreeMap;
use std::fs;

use hwa_core::Role;
use hwa_store::{Format, StoreError, read_checkpoint};
use serde::Deserialize;

use crate::torch_file::{bytes_of, golden};

#[derive(Deserialize)]
struct Expected {
    files: BTreeMap<String, ExpectedFile>,
}

#[derive(Deserialize)]
struct ExpectedFile {
    entry: Option<String>,
    tensors: BTreeMap<String, ExpectedTensor>,
}

#[derive(Deserialize)]
struct ExpectedTensor {
    #[serde(rename = "type")]
    value_type: String,
    shape: Vec<usize>,
    bytes: String,
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn what_pytorch_saved_comes_back_bit_for_bit() {
    let expected = fs::read_to_string(golden("pytorch.json")).unwrap();
    let expected: Expected = serde_json::from_str(&expected).unwrap();
    assert_eq!(expected.files.len(), 15);
    for (file, expected) in expected.files {
        let found = read_checkpoint(&golden(&file)).unwrap();
        assert_eq!(found.format, Format::Pytorch);
        assert_eq!(found.entry, expected.entry, "{file}");
        let names: Vec<_> = found.weights.iter().map(|(name, _)| name).collect();
        assert_eq!(names, expected.tensors.keys().collect::<Vec<_>>(), "{file}");
        for (name, expected) in expected.tensors {
            let tensor = found.weights.get(&name).unwrap();
            let value_type = format!("{:?}", tensor.values().value_type());
            assert_eq!(value_type, expected.value_type, "{file}: {name}");
            assert_eq!(tensor.shape(), expected.shape, "{file}: {name}");
            assert_eq!(hexadecimal(&bytes_of(tensor)), expected.bytes, "{file}: {name}");
        }
    }
}

#[test]
fn roles_follow_pytorchs_names() {
    let weights = read_checkpoint(&golden("plain.pt")).unwrap().weights;
    let role = |name| weights.get(name).unwrap().role();
    assert_eq!(role("conv.weight"), Role::Parameter);
    assert_eq!(role("bn.running_var"), Role::Statistic);
    assert_eq!(role("bn.num_batches_tracked"), Role::Counter);
}

#[test]
fn an_averaged_model_tells_how_many_it_is_the_mean_of() {
    let averaged = read_checkpoint(&golden("averaged.pt")).unwrap();
    assert_eq!(averaged.metadata["n_averaged"], 2);
    assert!(read_checkpoint(&golden("plain.pt")).unwrap().metadata.is_empty());
}

#[test]
fn what_cannot_be_read_is_named_with_the_reason_and_the_file() {
    let reasons = [
        ("legacy.pt", "saved by PyTorch before 1.6"),
        ("torchscript.pt", "a TorchScript program, not a state dict"),
        ("bool.pt", "`mask` has type BOOL, expected one of F64"),
        ("uint16.pt", "`raw` has type U16, expected one of F64"),
        ("negated.pt", "`negated` is a negated or conjugated view"),
        ("no_weights.pt", "is a dict of tensors; found `epoch`, `model`"),
        ("mixed.pt", "`step` is no tensor, but stands in the state dict"),
        ("module.pt", "it asks for `torch.nn.modules.linear.Linear`: refused"),
        ("system.pt", "it asks for `posix.system`: refused, and nothing of it was run"),
        ("eval.pt", "it asks for `__builtin__.eval`: refused"),
        ("popen.pt", "it asks for `commands.Popen`: refused"),
        ("nested.pt", "it asks for `__builtin__.getattr`: refused"),
        ("pytorch.json", "neither a safetensors file nor one that torch.save wrote"),
    ];
    for (file, reason) in reasons {
        let message = read_checkpoint(&golden(file)).unwrap_err().to_string();
        assert!(message.contains(&format!("{file}: ")), "{message}");
        assert!(message.contains(reason), "{message}");
    }
    let missing = read_checkpoint(&golden("nowhere.pt")).unwrap_err();
    assert!(matches!(missing, StoreError::Io { action: "read", .. }));
}
