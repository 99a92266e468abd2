//! Safetensors files that are made to do harm.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::mem::discriminant;

use hwa_store::{StoreError, read_checkpoint, read_tensors};

/// A file with that header and so many bytes of numbers.
fn file(header: &str, num_bytes: usize) -> Vec<u8> {
    let length = header.len() as u64;
    [&length.to_le_bytes(), header.as_bytes(), &vec![0; num_bytes]].concat()
}

/// Both entry points refuse the file, for a reason of the same kind.
fn refused(bytes: &[u8]) -> StoreError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    fs::write(&path, bytes).unwrap();
    let error = read_tensors(&path).unwrap_err();
    assert_eq!(discriminant(&read_checkpoint(&path).unwrap_err()), discriminant(&error));
    assert_eq!(error.path(), path);
    error
}

fn tensor(name: &str, dtype: &str, shape: &str, offsets: [u64; 2]) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets:?}}}"#)
}

#[test]
fn the_files_of_these_tests_are_read_when_they_are_honest() {
    let header =
        format!("{{{},{}}}", tensor("a", "F32", "[2]", [0, 8]), tensor("b", "F32", "[1]", [8, 12]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    fs::write(&path, file(&header, 12)).unwrap();
    assert_eq!(read_checkpoint(&path).unwrap().weights.num_elements(), 3);
}

#[test]
fn a_header_longer_than_the_file_is_refused_before_memory_is_taken() {
    let honest = file(&format!("{{{}}}", tensor("a", "F32", "[2]", [0, 8])), 8);
    for length in [honest.len() as u64 - 7, 99_000_000, 100_000_001, u64::MAX / 2, u64::MAX] {
        let mut bytes = honest.clone();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        assert!(matches!(refused(&bytes), StoreError::NotSafetensors { .. }), "{length}");
    }
}

#[test]
fn numbers_belong_to_one_tensor_each_and_none_is_left() {
    let two = |first, second| {
        let (a, b) = (tensor("a", "F32", "[2]", first), tensor("b", "F32", "[2]", second));
        file(&format!("{{{a},{b}}}"), 16)
    };
    let same = |offsets| tensor("a", "F32", "[2]", offsets);
    let same_name = file(&format!("{{{},{}}}", same([0, 8]), same([8, 16])), 16);
    let wrong = [
        two([0, 8], [0, 8]),        // the same numbers
        two([0, 8], [4, 12]),       // overlapping
        two([0, 8], [12, 20]),      // a hole, and beyond the end
        two([0, 8], [8, u64::MAX]), // far beyond it
        same_name,
        two([8, 0], [8, 16]), // backwards
        file(&format!("{{{}}}", tensor("a", "F32", "[2]", [0, 8])), 9), // one byte too many
        file(&format!("{{{}}}", tensor("a", "F32", "[2]", [0, 8])), 7), // one too few
        file(&format!("{{{}}}", tensor("a", "F32", "[2]", [4, 12])), 12), // a hole in front
    ];
    for bytes in wrong {
        assert!(matches!(refused(&bytes), StoreError::NotSafetensors { .. }));
    }
}

#[test]
fn shapes_and_lengths_agree_without_overflow() {
    let shapes = [
        "[3]",                      // 12 bytes, not 8
        "[1]",                      // 4
        "[]",                       // 4
        "[0]",                      // 0
        "[4294967296,4294967296]",  // 2^64 elements: nothing, modulo 2^64
        "[18446744073709551615,2]", // 2^65 - 2
        "[4611686018427387905,2]",  // 2^65 + 8 bytes: 8 modulo 2^64
        "[-2]",
        "[2.0]",
        "[18446744073709551616]", // more than a number holds
    ];
    for shape in shapes {
        let bytes = file(&format!("{{{}}}", tensor("a", "F32", shape, [0, 8])), 8);
        assert!(matches!(refused(&bytes), StoreError::NotSafetensors { .. }), "{shape}");
    }
}

#[test]
fn headers_that_are_no_headers_are_refused() {
    let nested = format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let headers = ["{", "{}{}", "{\"a\":1}", "{\"a\":{}}", "{\"a\":null}", &nested];
    for header in headers {
        let shown = &header[..header.len().min(20)];
        assert!(matches!(refused(&file(header, 0)), StoreError::NotSafetensors { .. }), "{shown}");
    }
    let mut latin = file("{\"abc\":1}", 0);
    latin[10] = 0xe9;
    assert!(matches!(refused(&latin), StoreError::NotSafetensors { .. }));
}

#[test]
fn our_own_metadata_is_not_believed_either() {
    let metadata = |hwa: &str| {
        let header = format!(
            r#"{{"__metadata__":{{"hwa":"{hwa}"}},{}}}"#,
            tensor("a", "F32", "[2]", [0, 8])
        );
        file(&header, 8)
    };
    for broken in ["", "{", "[1]", "12"] {
        assert!(matches!(refused(&metadata(broken)), StoreError::Json { .. }), "{broken}");
    }
    // Floats do not count, whatever their role is said to be.
    let counter = metadata(r#"{\"roles\":{\"a\":\"counter\"}}"#);
    assert!(matches!(refused(&counter), StoreError::Weights { .. }));
}
