//! Weighted means, moving averages, other types, and what is written about them.

use hwa_core::{Role, Tensor, ValueType, Values, Weights, WindowSpec};
use hwa_store::{
    Averaging, Metadata, NonFinite, Order, Scheme, Series, SeriesError, read_tensors, write_tensors,
};

use super::{bits, saved, weights};

fn series_of(folder: &std::path::Path, values: &[f32]) -> Series {
    let members: Vec<Weights> =
        values.iter().map(|x| weights(&[("w", Values::F32(vec![*x, -0.0]))])).collect();
    Series::open(&[saved(folder, &members)], Order::Name).unwrap()
}

fn averaged(series: &Series, scheme: Scheme) -> Result<f32, SeriesError> {
    let averaging = Averaging { scheme, ..Averaging::new(series) };
    let weights = averaging.weights(&series.everything())?;
    let values = weights.get("w").unwrap().as_f32().unwrap().to_vec();
    assert_eq!(values[1].to_bits(), (-0.0f32).to_bits());
    Ok(values[0])
}

#[test]
fn a_weighted_mean_divides_by_its_weights() {
    let folder = tempfile::tempdir().unwrap();
    let series = series_of(folder.path(), &[1.0, 3.0, 7.0]);
    // (1*1 + 3*2 + 7*5) / 8 = 5.25
    assert_eq!(averaged(&series, Scheme::Weighted(vec![1.0, 2.0, 5.0])).unwrap(), 5.25);
    let equal = averaged(&series, Scheme::Weighted(vec![1.0; 3])).unwrap();
    assert_eq!(equal, averaged(&series, Scheme::Mean).unwrap());
}

#[test]
fn a_moving_average_follows_the_hand_computed_trace() {
    let folder = tempfile::tempdir().unwrap();
    let series = series_of(folder.path(), &[1.0, 3.0, 7.0]);
    // 1; 0.5*1 + 0.5*3 = 2; 0.5*2 + 0.5*7 = 4.5
    assert_eq!(averaged(&series, Scheme::Moving { decay: 0.5 }).unwrap(), 4.5);
    // With nothing kept it is the newest.
    assert_eq!(averaged(&series, Scheme::Moving { decay: 0.0 }).unwrap(), 7.0);
}

#[test]
fn weights_and_decays_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let series = series_of(folder.path(), &[1.0, 3.0]);
    let message = |scheme| averaged(&series, scheme).unwrap_err().to_string();
    assert_eq!(message(Scheme::Weighted(vec![1.0])), "1 weights for 2 checkpoints");
    assert!(message(Scheme::Weighted(vec![1.0, -1.0])).contains("a sum above zero"));
    assert!(message(Scheme::Weighted(vec![1.0, f64::NAN])).contains("must be numbers"));
    for decay in [1.0, -0.1, f64::NAN] {
        assert!(message(Scheme::Moving { decay }).contains("at least 0 and below 1"));
    }
}

#[test]
fn another_type_is_rounded_to_once_and_counters_keep_theirs() {
    let folder = tempfile::tempdir().unwrap();
    // The mean is just above the midpoint of two bf16 numbers, by less than f32 can see.
    let member = |x: f64, count: i64| {
        weights(&[("w", Values::F64(vec![x])), ("n.num_batches_tracked", Values::I64(vec![count]))])
    };
    let midpoint = 1.0 + 0.5 / 128.0;
    let members = [member(midpoint, 4), member(midpoint * (1.0 + 1e-12), 9)];
    let series = Series::open(&[saved(folder.path(), &members)], Order::Name).unwrap();
    for value_type in [ValueType::F64, ValueType::F32, ValueType::F16, ValueType::BF16] {
        let averaging = Averaging { value_type: Some(value_type), ..Averaging::new(&series) };
        let found = averaging.weights(&series.everything()).unwrap();
        let mean = (midpoint + midpoint * (1.0 + 1e-12)) / 2.0;
        let expected = Values::rounded(value_type, vec![mean]);
        assert_eq!(found.get("w").unwrap().values(), &expected);
        let count = found.get("n.num_batches_tracked").unwrap();
        assert_eq!(count.values(), &Values::I64(vec![9]));
    }
}

#[test]
fn what_a_smaller_type_cannot_hold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let member = |x| weights(&[("w", Values::F32(vec![1.0, x]))]);
    let series = Series::open(&[saved(folder.path(), &[member(1e5), member(1e5)])], Order::Name);
    let series = series.unwrap();
    let averaged = |value_type, non_finite| {
        let value_type = Some(value_type);
        let averaging = Averaging { value_type, non_finite, ..Averaging::new(&series) };
        averaging.weights(&series.everything())
    };
    // The largest number of half precision is 65,504.
    let refused = averaged(ValueType::F16, NonFinite::Refuse).unwrap_err().to_string();
    assert_eq!(refused, "the average of `w` is too large for F16");
    assert!(averaged(ValueType::BF16, NonFinite::Refuse).is_ok());
    let found = averaged(ValueType::F16, NonFinite::Allow).unwrap();
    let expected = Values::rounded(ValueType::F16, vec![1.0, f64::INFINITY]);
    assert_eq!(found.get("w").unwrap().values(), &expected);
}

#[test]
fn the_file_says_what_it_is_and_what_its_statistics_are() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [1, 2].map(|number| folder.path().join(format!("e{number}.safetensors")));
    for (number, path) in paths.iter().enumerate() {
        let mut member = weights(&[("bn.running_mean", Values::F32(vec![1.0]))]);
        let scale = Tensor::new(Role::Statistic, vec![1], Values::F32(vec![2.0])).unwrap();
        member.insert("scale", scale).unwrap();
        let about = [("network", "resnet20".into()), ("cycle", number.into()), ("step", 7.into())];
        let about: Metadata = about.map(|(key, value)| (key.to_owned(), value)).into();
        write_tensors(path, &member, &about).unwrap();
    }
    let series = Series::open(&paths, Order::Name).unwrap();
    let out = folder.path().join("mean.safetensors");
    let window = series.window(WindowSpec::default(), Some(2)).unwrap();
    Averaging::new(&series).write(&window, &out).unwrap();
    let (found, about) = read_tensors(&out).unwrap();
    assert_eq!(found.get("scale").unwrap().role(), Role::Statistic);
    assert_eq!(about["statistics"], "averaged");
    assert_eq!(about["kind"], "average");
    assert_eq!(about["network"], "resnet20");
    assert_eq!(about["members"], serde_json::json!(["e1.safetensors", "e2.safetensors"]));
    assert_eq!(about["window"]["at"], 2);
    assert_eq!(about["tool"], concat!("hwa ", env!("CARGO_PKG_VERSION")));
    assert!(!about.contains_key("cycle") && !about.contains_key("step"));
}

#[test]
fn what_others_say_about_one_checkpoint_is_not_said_about_an_average() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, about: &str| {
        let path = folder.path().join(name);
        let header = format!(
            "{{\"__metadata__\":{{\"global_step\":\"7\",\"step\":\"7\",\"epoch\":\"1\"{about}}},\
             \"w\":{{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}}}"
        );
        let length = (header.len() as u64).to_le_bytes();
        let bytes = [&length[..], header.as_bytes(), &1f32.to_le_bytes()].concat();
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let out = folder.path().join("mean.safetensors");
    for (about, format) in [("", "pt"), (",\"format\":\"mlx\",\"licence\":\"mine\"", "mlx")] {
        let paths = [file("a.safetensors", about), file("b.safetensors", about)];
        let series = Series::open(&paths, Order::Name).unwrap();
        Averaging::new(&series).write(&series.everything(), &out).unwrap();
        let bytes = std::fs::read(&out).unwrap();
        let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
        let found = header.metadata().clone().unwrap();
        assert_eq!(found["format"], format);
        assert_eq!(found.contains_key("licence"), !about.is_empty());
        assert!(["global_step", "step", "epoch"].iter().all(|key| !found.contains_key(*key)));
    }
}

#[test]
fn a_window_of_another_series_is_refused() {
    let (long, short) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let window = series_of(long.path(), &[1.0, 2.0, 3.0]).everything();
    let series = series_of(short.path(), &[1.0, 2.0]);
    let error = Averaging::new(&series).weights(&window).unwrap_err();
    assert!(matches!(error, SeriesError::NoPlace { place: 2, count: 2 }), "{error}");
    assert!(Averaging::new(&series).compute(&[window.clone(), window]).is_err());
}

#[test]
fn an_average_of_averages_is_read_like_any_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let series = series_of(folder.path(), &[1.0, 3.0]);
    let out = [1, 2].map(|number| folder.path().join(format!("m{number}.safetensors")));
    for path in &out {
        Averaging::new(&series).write(&series.everything(), path).unwrap();
    }
    let again = Series::open(&out, Order::Name).unwrap();
    let found = Averaging::new(&again).weights(&again.everything()).unwrap();
    assert_eq!(bits(&found), bits(&read_tensors(&out[0]).unwrap().0));
}

#[test]
fn a_selection_is_averaged_oldest_first_whatever_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let series = series_of(folder.path(), &[1.0, 100.0, 3.0, 8.0]);
    let selection = series.selection(&[3, 0, 2]).unwrap();
    assert_eq!((selection.members(), selection.at()), (&[0, 2, 3][..], 4));
    let mean = Averaging::new(&series).weights(&selection).unwrap();
    assert_eq!(mean.get("w").unwrap().as_f32().unwrap()[0], 4.0);
    let error = series.selection(&[0, 4]).unwrap_err().to_string();
    assert_eq!(error, "there is no checkpoint at place 4: there are 4, from place 0 on");
    assert!(matches!(series.selection(&[]), Err(SeriesError::Nothing)));
}

#[test]
fn checkpoints_are_told_apart_by_what_any_tensor_begins_with() {
    let folder = tempfile::tempdir().unwrap();
    let digests = |middle: f32| {
        let large = |x: f32| Values::F32(vec![x; 40_000]);
        let member = |x| weights(&[("a", large(1.0)), ("b", large(x)), ("c", large(3.0))]);
        let place = saved(folder.path(), &[member(2.0), member(middle)]);
        Series::open(&[place], Order::Name).unwrap().digests().unwrap()
    };
    let first = digests(2.5);
    assert_eq!(digests(2.5), first);
    assert_ne!(first[0], first[1]);
    let other = digests(2.25);
    assert_eq!(other[0], first[0]);
    assert_ne!(other[1], first[1]);
}
