//! Bit for bit the mean that is defined in `hwa_core`.

use std::fs;
use std::num::NonZeroUsize;
use std::sync::Mutex;

use half::{bf16, f16};
use hwa_core::{Statistics, ValueType, Values, Weights, WindowSpec, mean};
use hwa_store::{Averaging, Limits, NonFinite, Order, Series, Watch, read_tensors, write_tensors};
use proptest::prelude::*;
use safetensors::SafeTensors;

use super::{bits, saved, weights};

/// Elements of a type from any bits: zeros of both signs, denormals, infinities, NaN and all.
fn of_bits(value_type: ValueType, bits: &[u64]) -> Values {
    match value_type {
        ValueType::F64 => Values::F64(bits.iter().map(|b| f64::from_bits(*b)).collect()),
        ValueType::F32 => Values::F32(bits.iter().map(|b| f32::from_bits(*b as u32)).collect()),
        ValueType::F16 => Values::F16(bits.iter().map(|b| f16::from_bits(*b as u16)).collect()),
        ValueType::BF16 => Values::BF16(bits.iter().map(|b| bf16::from_bits(*b as u16)).collect()),
        ValueType::I64 => Values::I64(bits.iter().map(|b| *b as i64).collect()),
    }
}

/// A tensor of each type from the same bits.
fn of_all_types(bits: &[u64]) -> Weights {
    weights(&[
        ("double", of_bits(ValueType::F64, bits)),
        ("single", of_bits(ValueType::F32, bits)),
        ("half", of_bits(ValueType::F16, bits)),
        ("brain", of_bits(ValueType::BF16, bits)),
        ("bn.running_var", of_bits(ValueType::F32, bits)),
        ("bn.num_batches_tracked", of_bits(ValueType::I64, bits)),
        ("empty", Values::F32(vec![])),
    ])
}

fn spec(length: usize, stride: usize) -> WindowSpec {
    let length = NonZeroUsize::new(length);
    WindowSpec { length, stride: NonZeroUsize::new(stride).unwrap(), first_cycle: 1 }
}

fn limits(max_memory: usize, threads: usize) -> Limits {
    Limits { max_memory, threads: NonZeroUsize::new(threads).unwrap() }
}

/// Bits with many of the rare kinds of numbers among them.
fn element() -> impl Strategy<Value = u64> {
    let special = [
        0x8000_8000_8000_8000,
        0x7f80_7c00_7f80_7c00,
        0x7ff0_0000_7f80_0000,
        0x0000_0001_0001_0001,
        0,
    ];
    prop_oneof![3 => any::<u64>(), 1 => prop::sample::select(special.to_vec())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_mean_of_files_has_the_bits_of_the_mean_in_memory(
        members in prop::collection::vec(prop::collection::vec(element(), 1100), 2..12),
        threads in 1usize..4,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let members: Vec<Weights> = members.iter().map(|bits| of_all_types(bits)).collect();
        let series = Series::open(&[saved(folder.path(), &members)], Order::Name).unwrap();
        let averaging = Averaging {
            non_finite: NonFinite::Allow,
            // Room for the shortest pieces, so that tensors are cut.
            limits: limits((threads * 56) << 10, threads),
            ..Averaging::new(&series)
        };
        let expected = mean(&members.iter().collect::<Vec<_>>(), Statistics::Average).unwrap();
        let found = averaging.weights(&series.everything()).unwrap();
        prop_assert_eq!(bits(&found), bits(&expected));
    }

    #[test]
    fn every_window_has_the_bits_of_its_mean_in_memory(
        members in prop::collection::vec(prop::collection::vec(element(), 1100), 2..8),
        length in 1usize..9, stride in 1usize..4, threads in 1usize..4,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let members: Vec<Weights> = members.iter().map(|bits| of_all_types(bits)).collect();
        let series = Series::open(&[saved(folder.path(), &members)], Order::Name).unwrap();
        let averaging = Averaging {
            non_finite: NonFinite::Allow,
            // Seven members of eight bytes, a sum and a result: tensors are cut here, too.
            limits: limits((threads * 72) << 10, threads),
            ..Averaging::new(&series)
        };
        let windows = series.windows(spec(length, stride));
        let path = |at: usize| folder.path().join(format!("{at}.safetensors"));
        let outputs: Vec<_> = windows.iter().map(|w| (w.clone(), path(w.at()))).collect();
        averaging.write_all(&outputs).unwrap();
        for at in 1..=members.len() {
            let oldest = (at + 1).saturating_sub(length).max(1);
            let inside: Vec<&Weights> =
                (oldest..=at).filter(|e| e % stride == 0).map(|e| &members[e - 1]).collect();
            if inside.is_empty() {
                prop_assert!(!path(at).exists());
                continue;
            }
            let expected = mean(&inside, Statistics::Average).unwrap();
            prop_assert_eq!(bits(&read_tensors(&path(at)).unwrap().0), bits(&expected));
            // One window by itself is the same.
            let window = series.window(spec(length, stride), Some(at)).unwrap();
            prop_assert_eq!(bits(&averaging.weights(&window).unwrap()), bits(&expected));
        }
    }

    #[test]
    fn another_order_changes_no_more_than_rounding(
        members in prop::collection::vec(prop::collection::vec(-1e3f32..1e3, 20), 2..8)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let members: Vec<Weights> =
            members.into_iter().map(|values| weights(&[("w", Values::F32(values))])).collect();
        let series = saved(folder.path(), &members);
        let mut paths: Vec<_> = (1..=members.len())
            .map(|number| series.join(format!("epoch-{number}.safetensors"))).collect();
        let forward = Series::open(&paths, Order::Given).unwrap();
        paths.reverse();
        let backward = Series::open(&paths, Order::Given).unwrap();
        let value = |series: &Series| {
            let weights = Averaging::new(series).weights(&series.everything()).unwrap();
            weights.get("w").unwrap().as_f32().unwrap().to_vec()
        };
        for (a, b) in value(&forward).into_iter().zip(value(&backward)) {
            prop_assert!((a - b).abs() <= a.abs().max(1e-9) * f32::EPSILON, "{a} {b}");
        }
    }
}

#[test]
fn a_window_before_it_is_full_divides_by_its_members() {
    // I = 20, three members: 3/1, (3+5)/2, (3+5+10)/3
    let folder = tempfile::tempdir().unwrap();
    let members = [3.0, 5.0, 10.0].map(|x| weights(&[("w", Values::F32(vec![x]))]));
    let series = Series::open(&[saved(folder.path(), &members)], Order::Name).unwrap();
    let averaging = Averaging::new(&series);
    let at = |at| {
        let window = series.window(spec(20, 1), Some(at)).unwrap();
        averaging.weights(&window).unwrap().get("w").unwrap().as_f32().unwrap()[0]
    };
    assert_eq!([at(1), at(2), at(3)], [3.0, 4.0, 6.0]);
}

#[test]
fn a_member_that_is_there_twice_counts_twice() {
    let folder = tempfile::tempdir().unwrap();
    let members = [1.0, 4.0].map(|x| weights(&[("w", Values::F32(vec![x]))]));
    let series = saved(folder.path(), &members);
    let path = |number| series.join(format!("epoch-{number}.safetensors"));
    let series = Series::open(&[path(1), path(2), path(2)], Order::Name).unwrap();
    let found = Averaging::new(&series).weights(&series.everything()).unwrap();
    assert_eq!(found.get("w").unwrap().as_f32().unwrap(), [3.0]);
}

#[test]
fn threads_and_memory_change_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let noise = |seed: u64| (0..5000u64).map(move |i| (i * 7919 + seed * 104_729) % 9973);
    let member = |seed| {
        weights(&[
            ("a", Values::F32(noise(seed).map(|x| x as f32 * 1e-3).collect())),
            ("b", Values::F16(noise(seed).map(|x| f16::from_f32(x as f32 * 1e-3)).collect())),
        ])
    };
    let members: Vec<Weights> = (0..11).map(member).collect();
    let series = Series::open(&[saved(folder.path(), &members)], Order::Name).unwrap();
    let path = folder.path().join("mean.safetensors");
    let written = |limits| {
        let averaging = Averaging { limits, ..Averaging::new(&series) };
        averaging.write(&series.everything(), &path).unwrap();
        fs::read(&path).unwrap()
    };
    let expected = written(Limits::default());
    for (memory, threads) in [(40_000, 1), (400_000, 2), (1_000_000, 7), (1 << 30, 64)] {
        assert_eq!(written(limits(memory, threads)), expected, "{memory} bytes, {threads} threads");
    }
    // And what is streamed is what would be written whole, but for what it says to others.
    let (weights, metadata) = read_tensors(&path).unwrap();
    write_tensors(&path, &weights, &metadata).unwrap();
    let whole = fs::read(&path).unwrap();
    let parts = |bytes: &[u8]| {
        let (length, header) = SafeTensors::read_metadata(bytes).unwrap();
        let mut about = header.metadata().clone().unwrap();
        let format = about.remove("format");
        (header.offset_keys(), about, bytes[8 + length..].to_vec(), format)
    };
    let (expected, whole) = (parts(&expected), parts(&whole));
    assert_eq!((&expected.0, &expected.1, &expected.2), (&whole.0, &whole.1, &whole.2));
    assert_eq!((expected.3.as_deref(), whole.3), (Some("pt"), None));
}

#[test]
fn more_windows_than_open_files_are_written_and_progress_only_grows() {
    let folder = tempfile::tempdir().unwrap();
    let members: Vec<Weights> =
        (0..150).map(|i| weights(&[("w", Values::F32(vec![i as f32]))])).collect();
    let series = Series::open(&[saved(folder.path(), &members)], Order::Name).unwrap();
    let told = Mutex::new(vec![0]);
    let progress = |done| told.lock().unwrap().push(done);
    let watch = Watch { progress: &progress, cancelled: &|| false };
    let averaging = Averaging { watch, ..Averaging::new(&series) };
    let windows = series.windows(spec(2, 1));
    let path = |at: usize| folder.path().join(format!("{at}.safetensors"));
    let outputs: Vec<_> = windows.iter().map(|w| (w.clone(), path(w.at()))).collect();
    averaging.write_all(&outputs).unwrap();
    let last = read_tensors(&path(150)).unwrap().0;
    assert_eq!(last.get("w").unwrap().as_f32().unwrap(), [148.5]);
    let told = told.lock().unwrap();
    assert!(told.is_sorted() && told.last() == Some(&averaging.num_bytes(&windows)), "{told:?}");
}
