//! Tensors as views of their storages, and the prefixes of their names.

use hwa_core::{Role, Tensor, Values, Weights};
use hwa_store::{CheckpointError, Format, Metadata, StoreError, read_checkpoint, write_tensors};
use proptest::prelude::*;

use crate::torch_file::{View, floats, one_tensor, read, refused, saved, text};

#[test]
fn a_view_beyond_its_storage_is_refused() {
    let beyond: [(i64, &[i64], &[i64]); 6] = [
        (1, &[2], &[1]),              // begins too late
        (0, &[3], &[1]),              // one too many
        (0, &[2], &[2]),              // steps too wide
        (0, &[2, 2], &[1, 1]),        // ends at 0 + 1 + 1
        (i64::MAX, &[2], &[1]),       // overflows
        (0, &[2, 2], &[i64::MAX, 1]), // overflows
    ];
    for (offset, shape, strides) in beyond {
        let view = View { offset, shape, strides, ..View::PAIR };
        let error = refused(&saved(&one_tensor(&view), &[("0", &floats(&[1.0, 2.0]))]));
        let expected = matches!(error, CheckpointError::OutsideStorage { .. });
        assert!(expected, "{offset} {shape:?} {strides:?}: {error:?}");
    }
}

#[test]
fn shapes_without_a_meaning_are_refused() {
    let senseless: [(i64, &[i64], &[i64]); 4] =
        [(-1, &[2], &[1]), (0, &[-2], &[1]), (0, &[2], &[-1]), (0, &[2], &[1, 1])];
    for (offset, shape, strides) in senseless {
        let view = View { offset, shape, strides, ..View::PAIR };
        let error = refused(&saved(&one_tensor(&view), &[("0", &floats(&[1.0, 2.0]))]));
        assert!(matches!(error, CheckpointError::Senseless { .. }), "{error:?}");
    }
    let many = View { shape: &[1; 65], strides: &[1; 65], ..View::PAIR };
    let error = refused(&saved(&one_tensor(&many), &[("0", &floats(&[1.0, 2.0]))]));
    assert!(matches!(error, CheckpointError::Senseless { .. }), "{error:?}");
}

#[test]
fn counters_of_32_bits_become_counters_and_other_integers_are_refused() {
    let view = View { storage: "IntStorage", length: 1, shape: &[], strides: &[], ..View::PAIR };
    let file = |name: &str| {
        let program = [b"\x80\x02}".as_slice(), &text(name), &view.program(), b"s."].concat();
        saved(&program, &[("0", &(-7i32).to_le_bytes())])
    };
    let weights = read(&file("bn.num_batches_tracked")).unwrap().weights;
    let counter = weights.get("bn.num_batches_tracked").unwrap();
    assert_eq!((counter.role(), counter.values()), (Role::Counter, &Values::I64(vec![-7])));
    let error = read(&file("index")).unwrap_err();
    assert!(matches!(&error, StoreError::UnsupportedType { found, .. } if found == "I32"));
}

#[test]
fn the_first_entry_of_the_list_counts() {
    let dict = |value: f32| {
        let key = format!("{value}");
        let view = View { key: &key, length: 1, shape: &[1], ..View::PAIR };
        [b"}".as_slice(), &text("w"), &view.program(), b"s"].concat()
    };
    let read = |entries: &[(&str, f32)]| {
        let storages: Vec<_> =
            entries.iter().map(|(_, v)| (format!("{v}"), floats(&[*v]))).collect();
        let storages: Vec<_> = storages.iter().map(|(k, v)| (k.as_str(), v.as_slice())).collect();
        let filled: Vec<u8> =
            entries.iter().flat_map(|(k, v)| [text(k), dict(*v)].concat()).collect();
        let found = read(&saved(&[b"\x80\x02}(".as_slice(), &filled, b"u."].concat(), &storages));
        let found = found.unwrap();
        (found.entry.unwrap(), found.weights.get("w").unwrap().as_f32().unwrap()[0])
    };
    let ema = ("model_ema", 5.0);
    assert_eq!(read(&[ema, ("net", 4.0), ("model", 3.0)]), ("model".to_owned(), 3.0));
    assert_eq!(read(&[ema, ("net", 4.0)]), ("net".to_owned(), 4.0));
    assert_eq!(read(&[ema, ("optimizer", 1.0)]), ("model_ema".to_owned(), 5.0));
    let all = [("model", 3.0), ("model_state_dict", 2.0), ("state_dict", 1.0)];
    assert_eq!(read(&all), ("state_dict".to_owned(), 1.0));
}

#[test]
fn safetensors_are_read_by_the_same_way_and_lose_the_same_prefixes() {
    let mut weights = Weights::new();
    let scale = Tensor::new(Role::Statistic, vec![1], Values::F32(vec![4.0])).unwrap();
    weights.insert("module.scale", scale.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // The name is no proof of anything.
    let path = folder.path().join("weights.pt");
    let metadata = Metadata::from([("cycle".to_owned(), 12.into())]);
    write_tensors(&path, &weights, &metadata).unwrap();
    let found = read_checkpoint(&path).unwrap();
    assert_eq!((found.format, found.entry), (Format::Safetensors, None));
    assert_eq!(found.weights.get("scale"), Some(&scale));
    // The role that the header states for the old name is on the tensor now.
    assert_eq!(found.metadata, metadata);
}

proptest! {
    #[test]
    fn a_view_reads_what_its_strides_say_or_is_refused(
        dimensions in prop::collection::vec((0i64..4, 0i64..9), 0..4),
        offset in 0i64..6,
    ) {
        let stored: Vec<f32> = (0..20u8).map(f32::from).collect();
        let (shape, strides): (Vec<i64>, Vec<i64>) = dimensions.iter().copied().unzip();
        let view = View { length: 20, offset, shape: &shape, strides: &strides, ..View::PAIR };
        let found = read(&saved(&one_tensor(&view), &[("0", &floats(&stored))]));
        let mut places = vec![offset];
        for (d, s) in &dimensions {
            places = places.iter().flat_map(|p| (0..*d).map(move |i| p + i * s)).collect();
        }
        if places.iter().any(|p| *p >= 20) {
            prop_assert!(found.is_err());
        } else {
            let found = found.unwrap().weights;
            let expected: Vec<f32> = places.iter().map(|p| *p as f32).collect();
            prop_assert_eq!(found.get("w").unwrap().as_f32().unwrap(), expected);
        }
    }
}
