//! Whatever a series is made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hwa_core::{Statistics, Values, Weights, mean};
use hwa_store::{
    Averaging, CheckpointStore, Metadata, NonFinite, Order, Series, SeriesError, read_checkpoint,
    read_tensors, write_tensors,
};
use safetensors::{Dtype, SafeTensors};

use super::{bits, saved, weights};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn single(x: f32) -> Weights {
    weights(&[("w", Values::F32(vec![x]))])
}

fn mean_of(series: &Series) -> f32 {
    let weights = Averaging::new(series).weights(&series.everything()).unwrap();
    weights.get("w").unwrap().as_f32().unwrap()[0]
}

#[test]
fn pieces_of_pytorchs_files_are_what_they_are_when_read_whole() {
    // Equal members are their own mean, so that each file stands against its other reader.
    let names = [
        "averaged.pt",
        "bf16.pt",
        "channels_last.pt",
        "compiled.pt",
        "data_parallel.pt",
        "f16.pt",
        "f64.pt",
        "parameters.pt",
        "plain.pt",
        "protocol_4.pt",
        "training.pth",
        "training_protocol_5.pth",
        "unchecked.pt",
        "views.pt",
    ];
    for name in names {
        let expected = read_checkpoint(&golden(name)).unwrap().weights;
        let series = Series::open(&[golden(name), golden(name)], Order::Name).unwrap();
        let averaging = Averaging { non_finite: NonFinite::Allow, ..Averaging::new(&series) };
        let found = averaging.weights(&series.everything()).unwrap();
        assert_eq!(bits(&found), bits(&expected), "{name}");
        // Written, it is read back as the same weights.
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("mean.safetensors");
        averaging.write(&series.everything(), &out).unwrap();
        assert_eq!(bits(&read_tensors(&out).unwrap().0), bits(&expected), "{name}");
    }
}

#[test]
fn what_asks_to_be_run_is_refused_in_a_series_too() {
    for (name, reason) in [
        ("popen.pt", "Popen"),
        ("system.pt", "system"),
        ("legacy.pt", "before 1.6"),
        ("torchscript.pt", "TorchScript"),
        ("negated.pt", "negated"),
    ] {
        let error = Series::open(&[golden(name), golden("plain.pt")], Order::Given).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(reason) && message.contains(name), "{message}");
    }
}

#[test]
fn flags_and_short_integers_come_from_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, count: u8, value: f32| {
        let path = folder.path().join(name);
        let header = "{\"flag\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]},\
             \"n\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]},\
             \"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}";
        let numbers = [&[1, count, count, 250][..], &value.to_le_bytes()].concat();
        let length = (header.len() as u64).to_le_bytes();
        fs::write(&path, [&length[..], header.as_bytes(), &numbers].concat()).unwrap();
        path
    };
    let paths = [file("a.safetensors", 3, 1.0), file("b.safetensors", 9, 4.0)];
    let series = Series::open(&paths, Order::Name).unwrap();
    let out = folder.path().join("out");
    Averaging::new(&series).write(&series.everything(), &out).unwrap();
    let bytes = fs::read(&out).unwrap();
    let found = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(found.tensor("n").unwrap().data(), [9, 9, 250]);
    assert_eq!(found.tensor("flag").unwrap().dtype(), Dtype::BOOL);
    assert_eq!(found.tensor("w").unwrap().data(), 2.5f32.to_le_bytes());
}

/// A model in two files with an index, as Hugging Face's libraries write it.
fn sharded(folder: &Path, a: f32, b: f32) {
    fs::create_dir_all(folder).unwrap();
    let names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    for (name, (tensor, value)) in names.into_iter().zip([("a", a), ("b", b)]) {
        let part = weights(&[(tensor, Values::F32(vec![value]))]);
        write_tensors(&folder.join(name), &part, &Metadata::new()).unwrap();
    }
    let index = serde_json::json!({ "weight_map": { "a": names[0], "b": names[1] } });
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

#[test]
fn a_model_in_several_files_is_one_member() {
    let folder = tempfile::tempdir().unwrap();
    let steps = [("checkpoint-1000", 4.0, 8.0), ("checkpoint-500", 2.0, 2.0)];
    let paths = steps.map(|(name, a, b)| {
        sharded(&folder.path().join(name), a, b);
        folder.path().join(name)
    });
    let whole = weights(&[("a", Values::F32(vec![3.0])), ("b", Values::F32(vec![5.0]))]);
    let index = |path: &PathBuf| path.join("model.safetensors.index.json");
    for named in [vec![folder.path().to_owned()], paths.to_vec(), paths.iter().map(index).collect()]
    {
        for order in [Order::Name, Order::Step] {
            let series = Series::open(&named, order).unwrap();
            let folders: Vec<_> = series.paths().map(|p| p.parent().unwrap().to_owned()).collect();
            assert_eq!(folders, [paths[1].clone(), paths[0].clone()]);
            let found = Averaging::new(&series).weights(&series.everything()).unwrap();
            assert_eq!(bits(&found), bits(&whole));
        }
    }
}

#[test]
fn an_index_may_be_of_files_of_pytorch() {
    let folder = tempfile::tempdir().unwrap();
    for number in 1..=2 {
        let model = folder.path().join(format!("checkpoint-{number}"));
        fs::create_dir(&model).unwrap();
        let parts = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"];
        fs::copy(golden("plain.pt"), model.join(parts[0])).unwrap();
        // Its contents tell what a file is, not its name.
        write_tensors(&model.join(parts[1]), &single(number as f32), &Metadata::new()).unwrap();
        let names = read_checkpoint(&golden("plain.pt")).unwrap().weights;
        let map = names.iter().map(|(name, _)| (name, parts[0])).chain([("w", parts[1])]);
        let map: std::collections::BTreeMap<&str, &str> = map.collect();
        let index = serde_json::json!({ "weight_map": map }).to_string();
        fs::write(model.join("pytorch_model.bin.index.json"), index).unwrap();
    }
    let series = Series::open(&[folder.path().to_owned()], Order::Name).unwrap();
    let found = Averaging::new(&series).weights(&series.everything()).unwrap();
    let plain = read_checkpoint(&golden("plain.pt")).unwrap().weights;
    assert_eq!((series.len(), found.len()), (2, plain.len() + 1));
    assert_eq!(found.get("w").unwrap().values(), &Values::F32(vec![1.5]));
    for (name, tensor) in plain.iter() {
        assert_eq!(found.get(name).unwrap().values(), tensor.values(), "{name}");
    }
}

#[test]
fn weights_may_be_in_an_entry_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a.pt", "b.pt"].map(|name| folder.path().join(name));
    for path in &paths {
        fs::copy(golden("two_states.pt"), path).unwrap();
    }
    let open = |entry| Series::open_entry(&paths, Order::Name, entry);
    let bias = |entry| {
        let series = open(entry).unwrap();
        let mean = Averaging::new(&series).weights(&series.everything()).unwrap();
        mean.get("head.bias").unwrap().values().clone()
    };
    let Values::F32(usual) = bias(None) else { panic!("no f32") };
    let moving = Values::F32(usual.iter().map(|value| value + 1.0).collect());
    assert_eq!(bias(Some("model")), Values::F32(usual));
    // An entry of an entry, and a key with a dot in it.
    assert_eq!((bias(Some("ema.shadow")), bias(Some("a.b"))), (moving.clone(), moving));
    for (entry, told) in [
        ("ema", "under the key `ema`; found `decay`, `shadow` in `ema`"),
        ("shadow", "no state dict under the key `shadow`; found `a.b`, `ema`, `model`"),
        ("ema.other", "under the key `ema.other`; found `decay`, `shadow`"),
        ("model.x", "under the key `model.x`; found `bn.bias`"),
        ("ema.decay", "under the key `ema.decay`; found an object without tensors in `decay`"),
        ("", "under the key ``; found"),
        (".", "under the key `.`; found"),
    ] {
        let error = open(Some(entry)).unwrap_err().to_string();
        assert!(error.contains(told), "{entry}: {error}");
    }
    let plain = saved(folder.path(), &[single(1.0), single(2.0)]);
    let error = Series::open_entry(&[plain], Order::Name, Some("ema")).unwrap_err().to_string();
    assert!(error.contains("no key `ema` in it"), "{error}");
}

#[test]
fn the_last_model_of_a_training_counts_once() {
    // As the `Trainer` of `transformers` leaves a folder.
    let folder = tempfile::tempdir().unwrap();
    for number in 1..=2 {
        let model = folder.path().join(format!("checkpoint-{number}"));
        fs::create_dir(&model).unwrap();
        write_tensors(&model.join("model.safetensors"), &single(number as f32), &Metadata::new())
            .unwrap();
    }
    let last = folder.path().join("model.safetensors");
    write_tensors(&last, &single(2.0), &Metadata::new()).unwrap();
    fs::write(folder.path().join("training_args.bin"), "not for an average").unwrap();
    let open = || Series::open(&[folder.path().to_owned()], Order::Name).unwrap();
    let series = open();
    assert_eq!((series.len(), mean_of(&series)), (2, 1.5));
    let names: Vec<_> = series.passed_over().iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(names, ["training_args.bin", "model.safetensors"]);
    // One checkpoint is not two because of it.
    fs::remove_dir_all(folder.path().join("checkpoint-2")).unwrap();
    let single = Series::open(&[folder.path().to_owned()], Order::Name).unwrap_err().to_string();
    assert!(single.ends_with("passed over: training_args.bin, model.safetensors"), "{single}");
    // A file that nobody calls so is a checkpoint of its own.
    fs::rename(last, folder.path().join("optimizers-choice.safetensors")).unwrap();
    assert_eq!((open().len(), open().passed_over().len()), (2, 1));
}

#[test]
fn no_model_folder_is_passed_over_for_what_lies_beside_its_weights() {
    // As `transformers` writes them, before and since it prefers safetensors.
    let folder = tempfile::tempdir().unwrap();
    for (number, layout) in
        [1, 2, 3].into_iter().zip(["pytorch_model.bin", "model.safetensors"].into_iter().cycle())
    {
        let model = folder.path().join(format!("checkpoint-{number}"));
        fs::create_dir(&model).unwrap();
        write_tensors(&model.join(layout), &single(number as f32), &Metadata::new()).unwrap();
        for other in ["optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"] {
            fs::write(model.join(other), "not for an average").unwrap();
        }
    }
    fs::create_dir(folder.path().join(".cache")).unwrap();
    fs::create_dir(folder.path().join("logs")).unwrap();
    fs::write(folder.path().join("logs/events"), "").unwrap();
    let adapter = folder.path().join("checkpoint-2/adapter.safetensors");
    write_tensors(&adapter, &single(1e9), &Metadata::new()).unwrap();
    let open = || Series::open(&[folder.path().to_owned()], Order::Name);
    let series = open().unwrap();
    assert_eq!((series.len(), mean_of(&series)), (3, 2.0));
    // Without a name that says so, it is not clear which it is.
    let third = folder.path().join("checkpoint-3");
    fs::rename(third.join("pytorch_model.bin"), third.join("net.bin")).unwrap();
    assert_eq!(open().unwrap().len(), 3);
    for other in ["a.bin", "b.pt", "c.pth", "d.ckpt"] {
        fs::write(third.join(other), "what is it?").unwrap();
    }
    let error = open().unwrap_err();
    assert!(matches!(error, SeriesError::Ambiguous { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("checkpoint-3 holds a.bin, b.pt, "), "{message}");
    assert!(message.contains("and 1 more"), "{message}");
    let named = Series::open(&[third, folder.path().join("checkpoint-1")], Order::Name);
    assert!(matches!(named, Err(SeriesError::Ambiguous { .. })));
}

#[test]
fn an_index_that_lies_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("m");
    sharded(&model, 1.0, 2.0);
    let index = model.join("model.safetensors.index.json");
    let one = "model-00001-of-00002.safetensors";
    for (map, reason) in [
        (serde_json::json!({ "a": "../secret" }), "not the name of a file beside it"),
        (serde_json::json!({ "a": "/etc/passwd" }), "not the name of a file beside it"),
        (serde_json::json!({ "a": ".." }), "not the name of a file beside it"),
        (serde_json::json!({}), "names no tensors"),
        (serde_json::json!({ "b": one }), "`a` of model-00001-of-00002.safetensors is not in it"),
        (serde_json::json!({ "a": one, "c": one }), "`c` is not in model-00001"),
        (serde_json::json!({ "a": "missing.safetensors" }), "cannot read"),
    ] {
        fs::write(&index, serde_json::json!({ "weight_map": map }).to_string()).unwrap();
        let error = Series::open(&[index.clone(), index.clone()], Order::Name).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn a_run_gives_its_outer_weights_by_cycle() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = folder.path().join("checkpoints");
    fs::create_dir(&checkpoints).unwrap();
    fs::write(folder.path().join("experiment.toml"), "").unwrap();
    let store = CheckpointStore::new(checkpoints.clone());
    let outer = |x: f32| hwa_core::OuterWeights::from_checkpoint(single(x));
    for cycle in [10, 20, 30] {
        store.save_outer(cycle, cycle as u64 * 5, &outer(cycle as f32)).unwrap();
    }
    write_tensors(
        &checkpoints.join("inner-000010-0-00000050.safetensors"),
        &single(1e9),
        &Metadata::new(),
    )
    .unwrap();
    // Where that is not their order, they are places.
    for (cycle, age) in [(10, 1), (20, 2), (30, 0)] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age);
        let file = fs::File::options().write(true).open(store.outer_path(cycle)).unwrap();
        file.set_modified(time).unwrap();
    }
    let by_time = Series::open(&[folder.path().to_owned()], Order::Time).unwrap();
    assert_eq!((by_time.numbers(), by_time.is_by_cycle()), (&[1, 2, 3][..], false));
    assert_eq!(by_time.names()[0], "outer-000020.safetensors");
    for place in [folder.path().to_owned(), checkpoints] {
        let series = Series::open(&[place], Order::Name).unwrap();
        assert_eq!(series.numbers(), [10, 20, 30]);
        assert_eq!(mean_of(&series), 20.0);
        // In whatever order they come, their numbers are cycles.
        let stepped = Series::open(&[folder.path().to_owned()], Order::Step).unwrap();
        assert!(stepped.is_by_cycle());
        assert_eq!(stepped.numbers(), [10, 20, 30]);
        let length = std::num::NonZeroUsize::new(15);
        let spec = hwa_core::WindowSpec { length, ..Default::default() };
        let window = series.window(spec, None).unwrap();
        assert_eq!((window.at(), window.members()), (30, &[1, 2][..]));
    }
}

#[test]
fn a_series_is_in_the_order_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let names = ["e-2.safetensors", "e-10.safetensors", "e-9.safetensors"];
    for (age, (name, step)) in names.into_iter().zip([300, 100, 200]).enumerate() {
        let about = Metadata::from([("step".to_owned(), step.into())]);
        write_tensors(&path(name), &single(1.0), &about).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age as u64);
        fs::File::options().write(true).open(path(name)).unwrap().set_modified(time).unwrap();
    }
    let order = |order| -> Vec<PathBuf> {
        let series = Series::open(&names.map(path), order).unwrap();
        series.paths().map(Path::to_owned).collect()
    };
    assert_eq!(order(Order::Name), [names[0], names[2], names[1]].map(path));
    assert_eq!(order(Order::Time), [names[2], names[1], names[0]].map(path));
    assert_eq!(order(Order::Step), [names[1], names[2], names[0]].map(path));
    assert_eq!(order(Order::Given), names.map(path));
    // In a folder it is the same, and what is no checkpoint is passed over.
    for other in ["notes.txt", ".hidden.safetensors", ".partial-x.safetensors"] {
        fs::write(path(other), "").unwrap();
    }
    let series = Series::open(&[folder.path().to_owned()], Order::Name).unwrap();
    assert_eq!(series.len(), 3);
}

#[test]
fn the_step_of_a_training_checkpoint_is_in_its_pickle() {
    // Neither has a number in its name that would do: both say `epoch: 12`.
    let paths = ["training.pth", "training.pth"].map(golden);
    assert_eq!(Series::open(&paths, Order::Step).unwrap().len(), 2);
    let error = Series::open(&["plain.pt", "plain.pt"].map(golden), Order::Step).unwrap_err();
    assert!(matches!(error, SeriesError::NoStep { .. }), "{error}");
}

#[test]
fn a_step_that_nobody_tells_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a.safetensors", "b.safetensors"].map(|name| folder.path().join(name));
    for path in &paths {
        write_tensors(path, &single(1.0), &Metadata::new()).unwrap();
    }
    match Series::open(&paths, Order::Step).unwrap_err() {
        SeriesError::NoStep { path } => assert_eq!(path, paths[0]),
        other => panic!("{other}"),
    }
}

#[test]
fn steps_are_all_stated_or_all_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, step: Option<u64>| {
        let about = step.map(|step| ("step".to_owned(), step.into()));
        let path = folder.path().join(name);
        write_tensors(&path, &single(1.0), &about.into_iter().collect()).unwrap();
        path
    };
    let order = |paths: &[PathBuf]| {
        let series = Series::open(paths, Order::Step)?;
        Ok::<_, SeriesError>(series.names().to_vec())
    };
    // The epoch in a name is no step: 3 of one are not less than the 500 of the other.
    let (best, third) = (file("best.safetensors", Some(500)), file("e-3.safetensors", None));
    match order(&[best.clone(), third.clone()]).unwrap_err() {
        SeriesError::MixedSteps { stated, silent } => {
            assert_eq!((stated, silent), (best, third.clone()))
        }
        other => panic!("{other}"),
    }
    let fourth = file("e-4.safetensors", Some(2));
    assert_eq!(order(&[fourth, third]).unwrap(), ["e-3.safetensors", "e-4.safetensors"]);
}

#[test]
fn checkpoints_are_named_by_what_tells_them_apart() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["s-9", "s-10"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        let path = folder.path().join(name).join("net.safetensors");
        write_tensors(&path, &single(1.0), &Metadata::new()).unwrap();
    }
    for order in [Order::Name, Order::Step] {
        let series = Series::open(&[folder.path().to_owned()], order).unwrap();
        let about = Averaging::new(&series).metadata(&series.everything());
        let names = ["s-9/net.safetensors", "s-10/net.safetensors"];
        assert_eq!(about["members"], serde_json::json!(names));
    }
}

/// Whoever opened it would wait for somebody to write.
#[cfg(unix)]
#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("a.safetensors");
    write_tensors(&whole, &single(1.0), &Metadata::new()).unwrap();
    for name in ["b.safetensors", "b.safetensors.index.json"] {
        let pipe = folder.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let error = Series::open(&[whole.clone(), pipe], Order::Name).unwrap_err().to_string();
        assert!(error.ends_with("it is not a regular file"), "{error}");
    }
}

#[test]
fn counts_of_batches_are_not_averaged_whatever_their_type() {
    let folder = tempfile::tempdir().unwrap();
    let member = |x: f32| {
        weights(&[("w", Values::F32(vec![x])), ("bn.num_batches_tracked", Values::F32(vec![x]))])
    };
    let place = saved(folder.path(), &[member(1.0), member(2.0)]);
    let renamed = place.join("epoch-2.ckpt");
    fs::rename(place.join("epoch-2.safetensors"), renamed).unwrap();
    let series = Series::open(&[place], Order::Name).unwrap();
    let found = Averaging::new(&series).weights(&series.everything()).unwrap();
    let value = |name: &str| found.get(name).unwrap().as_f32().unwrap()[0];
    assert_eq!([value("w"), value("bn.num_batches_tracked")], [1.5, 2.0]);
}

#[test]
fn more_files_than_may_be_open_are_averaged_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let members: Vec<Weights> = (0..300).map(|i| single(i as f32)).collect();
    let place = saved(folder.path(), &members);
    let series = Series::open(std::slice::from_ref(&place), Order::Name).unwrap();
    let expected = mean(&members.iter().collect::<Vec<_>>(), Statistics::Average).unwrap();
    assert_eq!(mean_of(&series), expected.get("w").unwrap().as_f32().unwrap()[0]);
    // One that is opened for each read is replaced meanwhile.
    let changed = place.join("epoch-270.safetensors");
    write_tensors(&changed, &weights(&[("w", Values::F32(vec![1.0, 2.0]))]), &Metadata::new())
        .unwrap();
    let error = Averaging::new(&series).weights(&series.everything()).unwrap_err().to_string();
    assert!(error.contains("epoch-270.safetensors") && error.contains("changed"), "{error}");
}
