//! What cannot be averaged is refused, with the reason, and nothing is left behind.

use std::fs;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use half::f16;
use hwa_core::{Values, Weights};
use hwa_store::{
    Averaging, Limits, Metadata, NonFinite, Order, Scheme, Series, SeriesError, Watch,
    write_tensors,
};
use proptest::prelude::*;

use super::{bits, saved, weights};

fn single(values: Vec<f32>) -> Weights {
    weights(&[("w", Values::F32(values))])
}

fn opened(folder: &Path, members: &[Weights]) -> Result<Series, SeriesError> {
    Series::open(&[saved(folder, members)], Order::Name)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_first_difference_is_named_with_both_files() {
    let two = |b: Values| weights(&[("a", Values::F32(vec![0.0])), ("b", b)]);
    let first = two(Values::F32(vec![0.0; 2]));
    for (other, expected) in [
        (single(vec![0.0]), "`a` is only in the first"),
        (weights(&[("a", Values::F32(vec![0.0]))]), "`b` is only in the first"),
        (two(Values::F32(vec![0.0; 3])), "`b` has shape [2] in the first, [3] in the second"),
        (two(Values::F16(vec![f16::ZERO; 2])), "`b` has type F32 in the first, F16 in the second"),
        (two(Values::I64(vec![0; 2])), "`b` has type F32 in the first, I64 in the second"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let message =
            opened(folder.path(), &[first.clone(), other.clone()]).unwrap_err().to_string();
        assert!(message.ends_with(expected), "{message}");
        assert!(message.contains("epoch-1.safetensors and ") && message.contains("epoch-2."));
        let message = opened(folder.path(), &[other, first.clone()]).unwrap_err().to_string();
        assert!(message.contains("differ: "), "{message}");
    }
}

#[test]
fn a_series_needs_two_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Series::open(&[], Order::Name), Err(SeriesError::Nothing)));
    let message = Series::open(&[folder.path().to_owned()], Order::Name).unwrap_err().to_string();
    assert!(message.contains("holds no checkpoints: expected files ending in .safetensors"));
    let message = opened(folder.path(), &[single(vec![1.0])]).unwrap_err().to_string();
    assert!(message.ends_with("is the only checkpoint: an average needs two or more"), "{message}");
}

#[test]
fn a_number_that_is_none_is_named_with_file_and_tensor() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let folder = tempfile::tempdir().unwrap();
        let members = [vec![1.0; 3000], [vec![1.0; 2999], vec![bad]].concat(), vec![1.0; 3000]];
        let mut series = opened(folder.path(), &members.map(single)).unwrap();
        let out = folder.path().join("out.safetensors");
        let error = Averaging::new(&series).write(&series.everything(), &out).unwrap_err();
        let message = error.to_string();
        assert!(message.ends_with("epoch-2.safetensors: `w` holds NaN or infinite values"));
        assert_eq!(names(folder.path()), ["series"]);

        let found = series.bad_members(Limits::default(), Watch::nobody()).unwrap();
        assert_eq!(
            found.iter().map(|b| (b.member, b.tensor.as_str())).collect::<Vec<_>>(),
            [(1, "w")]
        );
        series.leave_out(&found).unwrap();
        assert_eq!(series.numbers(), [1, 3]);
        let found = Averaging::new(&series).weights(&series.everything()).unwrap();
        assert_eq!(bits(&found), bits(&single(vec![1.0; 3000])));
    }
}

#[test]
fn finite_numbers_that_add_up_to_infinity_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let member = weights(&[("w", Values::F64(vec![f64::MAX]))]);
    let series = opened(folder.path(), &[member.clone(), member]).unwrap();
    let mean = Averaging::new(&series);
    let message = mean.weights(&series.everything()).unwrap_err().to_string();
    assert_eq!(message, "the average of `w` is too large for F64");
    let allowed = Averaging { non_finite: NonFinite::Allow, ..mean };
    let found = allowed.weights(&series.everything()).unwrap();
    assert_eq!(found.get("w").unwrap().values(), &Values::F64(vec![f64::INFINITY]));
    // Weights below zero leave the range of the members.
    let members = [single(vec![3e38]), single(vec![-3e38])];
    let series = opened(&folder.path().join("other"), &members).unwrap();
    let scheme = Scheme::Weighted(vec![2.0, -1.0]);
    let message = Averaging { scheme, ..Averaging::new(&series) }
        .weights(&series.everything())
        .unwrap_err()
        .to_string();
    assert_eq!(message, "the average of `w` is too large for F32");
}

#[test]
fn too_few_that_are_left_are_too_few() {
    let folder = tempfile::tempdir().unwrap();
    let members = [vec![1.0], vec![f32::NAN], vec![f32::NAN]].map(single);
    let mut series = opened(folder.path(), &members).unwrap();
    let bad = series.bad_members(Limits::default(), Watch::nobody()).unwrap();
    let message = series.leave_out(&bad).unwrap_err().to_string();
    assert_eq!(message, "only 1 of 3 checkpoints are without NaN or infinite values");
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let series =
        opened(folder.path(), &[single(vec![1.0; 9000]), single(vec![2.0; 9000])]).unwrap();
    let cut = folder.path().join("series/epoch-2.safetensors");
    fs::File::options().write(true).open(&cut).unwrap().set_len(5000).unwrap();
    let out = folder.path().join("out.safetensors");
    let error = Averaging::new(&series).write(&series.everything(), &out).unwrap_err().to_string();
    assert!(error.contains("epoch-2") && error.contains("changed while it was read"), "{error}");
    assert_eq!(names(folder.path()), ["series"]);
}

#[test]
fn damage_in_pytorchs_files_is_found_where_they_are_averaged() {
    let folder = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plain.pt");
    let paths = ["a.pt", "b.pt", "c.pt"].map(|name| folder.path().join(name));
    let mut bytes = fs::read(golden).unwrap();
    for path in &paths {
        fs::write(path, &bytes).unwrap();
    }
    // A byte of the numbers, which nothing but a checksum tells.
    let numbers = bytes.windows(7).position(|word| word == b"/data/0").unwrap();
    // PyTorch begins numbers at multiples of 64 bytes.
    bytes[(numbers + 8).next_multiple_of(64)] ^= 1;
    fs::write(&paths[0], &bytes).unwrap();
    let series = Series::open(&paths, Order::Name).unwrap();
    let error = Averaging::new(&series).weights(&series.everything()).unwrap_err().to_string();
    assert!(error.contains("a.pt: the entry `data/0` is damaged"), "{error}");
    let scan = series.bad_members(Limits::default(), Watch::nobody()).unwrap_err().to_string();
    assert!(scan.contains("is damaged"), "{scan}");
    // Those that nobody asks for are not read.
    Averaging::new(&series).weights(&series.selection(&[1, 2]).unwrap()).unwrap();
}

#[test]
fn a_file_that_is_written_over_after_it_was_opened_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let series = opened(folder.path(), &[single(vec![1.0]), single(vec![2.0])]).unwrap();
    let changed = folder.path().join("series/epoch-2.safetensors");
    let bytes = fs::read(&changed).unwrap();
    let average = || Averaging::new(&series).weights(&series.everything());
    // Another file in its place is not the one that was opened, which is still there.
    fs::rename(&changed, folder.path().join("old")).unwrap();
    fs::write(&changed, "other").unwrap();
    average().unwrap();
    let file = fs::File::options().write(true).open(folder.path().join("old")).unwrap();
    (&file).write_all(&bytes).unwrap();
    // Clocks of files tick slowly.
    file.set_modified(SystemTime::now() + Duration::from_secs(1)).unwrap();
    let error = average().unwrap_err().to_string();
    assert!(error.contains("epoch-2") && error.contains("changed while it was read"), "{error}");
    let scan = series.bad_members(Limits::default(), Watch::nobody());
    assert!(scan.unwrap_err().to_string().contains("changed while it was read"));
}

#[test]
fn an_average_that_is_called_off_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let series = opened(folder.path(), &[single(vec![1.0]), single(vec![2.0])]).unwrap();
    let out = folder.path().join("out.safetensors");
    fs::write(&out, "old").unwrap();
    let watch = Watch { progress: &|_| {}, cancelled: &|| true };
    let averaging = Averaging { watch, ..Averaging::new(&series) };
    let error = averaging.write(&series.everything(), &out).unwrap_err();
    assert!(matches!(error, SeriesError::Interrupted));
    assert_eq!(fs::read(&out).unwrap(), b"old");
    assert_eq!(names(folder.path()).len(), 2);
}

#[test]
fn buffers_that_do_not_fit_are_told_with_what_would() {
    let folder = tempfile::tempdir().unwrap();
    let series = opened(folder.path(), &[single(vec![1.0]), single(vec![2.0])]).unwrap();
    let with = |max_memory| {
        let limits = Limits { max_memory, threads: NonZeroUsize::MIN };
        Averaging { limits, ..Averaging::new(&series) }.weights(&series.everything())
    };
    // Two members of 4 bytes, a sum and a result of 8: 24 bytes for each of 1,024 elements.
    let SeriesError::TooLittleMemory { needed, .. } = with(100).unwrap_err() else {
        panic!("expected a refusal");
    };
    assert_eq!(needed, 24 << 10);
    with(needed).unwrap();
}

#[test]
fn an_empty_window_says_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let series = opened(folder.path(), &[single(vec![1.0]), single(vec![2.0])]).unwrap();
    let spec = |stride| hwa_core::WindowSpec {
        length: NonZeroUsize::new(1),
        stride: NonZeroUsize::new(stride).unwrap(),
        first_cycle: 1,
    };
    for (stride, at) in [(2, Some(1)), (3, None), (1, Some(0)), (1, Some(3))] {
        let message = series.window(spec(stride), at).unwrap_err().to_string();
        assert!(message.contains("there are 2 checkpoints, 1 to 2"), "{message}");
        assert_eq!(message.contains(&format!("a multiple of {stride}")), stride > 1, "{message}");
    }
    assert!(series.windows(spec(5)).is_empty());
}

fn lying(header: &str, num_bytes: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; num_bytes]].concat()
}

#[test]
fn headers_that_lie_are_refused_before_memory_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let honest = folder.path().join("a.safetensors");
    let path = folder.path().join("b.safetensors");
    write_tensors(&honest, &single(vec![1.0, 2.0]), &Metadata::new()).unwrap();
    let tensor = |shape: &str, offsets: &str| {
        lying(
            &format!(
                "{{\"w\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}"
            ),
            8,
        )
    };
    let mut long = tensor("[2]", "[0,8]");
    long[..8].copy_from_slice(&90_000_000u64.to_le_bytes());
    let mut longer = long.clone();
    longer[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    for bytes in [
        tensor("[2]", "[0,7]"),
        tensor("[2]", "[4,12]"),
        tensor("[3]", "[0,12]"),
        tensor("[1]", "[0,4]"),
        tensor("[4294967296,4294967296]", "[0,8]"),
        tensor("[2]", "[8,0]"),
        tensor("[-1]", "[0,8]"),
        long,
        longer,
        lying("{\"w\":3}", 8),
        lying("{{{", 0),
        vec![1, 2, 3],
        vec![],
    ] {
        fs::write(&path, &bytes).unwrap();
        let error = Series::open(&[honest.clone(), path.clone()], Order::Name).unwrap_err();
        let SeriesError::Store(error) = error else {
            panic!("{error}");
        };
        assert_eq!(error.path(), path);
    }
}

proptest! {
    #[test]
    fn damaged_files_are_read_or_refused_but_never_panic(
        cut in 0usize..2000, flips in prop::collection::vec((0usize..2000, any::<u8>()), 0..4)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/views.pt");
        for name in ["w.safetensors", "w.pt"] {
            let path = folder.path().join(name);
            match name {
                "w.pt" => drop(fs::copy(&golden, &path).unwrap()),
                _ => write_tensors(&path, &single(vec![1.0; 40]), &Metadata::new()).unwrap(),
            }
            let mut bytes = fs::read(&path).unwrap();
            let whole = bytes.len();
            bytes.truncate(cut);
            fs::write(&path, &bytes).unwrap();
            let both = [path.clone(), path.clone()];
            prop_assert!(cut >= whole || Series::open(&both, Order::Name).is_err());
            for (at, value) in &flips {
                if let Some(byte) = bytes.get_mut(*at) {
                    *byte = *value;
                }
            }
            fs::write(&path, &bytes).unwrap();
            if let Ok(series) = Series::open(&both, Order::Name) {
                let averaging =
                    Averaging { non_finite: NonFinite::Allow, ..Averaging::new(&series) };
                let _ = averaging.weights(&series.everything());
            }
        }
    }
}
