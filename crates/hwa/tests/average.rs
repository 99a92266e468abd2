//! `hwa average` as a user meets it.
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod command;

use std::fs;
use std::path::{Path, PathBuf};

use command::{failed, hwa, json, succeeded, text};
use hwa_core::{Role, Statistics, Tensor, ValueType, Values, Weights, mean};
use hwa_store::{Metadata, read_checkpoint, read_tensors, write_tensors};
use serde_json::json;

/// Weights with a parameter, a statistic and a counter.
fn member(x: f32, count: i64) -> Weights {
    let mut weights = Weights::new();
    for (name, values) in [
        ("conv.weight", Values::F32(vec![x, -x, x / 3.0])),
        ("bn.running_mean", Values::F32(vec![x])),
        ("bn.num_batches_tracked", Values::I64(vec![count])),
    ] {
        let role = Role::infer(name, values.value_type());
        weights.insert(name, Tensor::new(role, vec![values.len()], values).unwrap()).unwrap();
    }
    weights
}

/// Checkpoints `e-1`, `e-2`, ... of these values.
fn series(folder: &Path, values: &[f32]) -> (PathBuf, Vec<Weights>) {
    let place = folder.join("checkpoints");
    fs::create_dir_all(&place).unwrap();
    let members: Vec<Weights> =
        values.iter().enumerate().map(|(i, x)| member(*x, i as i64 + 1)).collect();
    for (i, member) in members.iter().enumerate() {
        let path = place.join(format!("e-{}.safetensors", i + 1));
        write_tensors(&path, member, &Metadata::new()).unwrap();
    }
    (place, members)
}

fn average(place: &Path, out: &Path, more: &[&str]) -> std::process::Output {
    hwa(&["average"]).arg(place).arg("-o").arg(out).args(more).output().unwrap()
}

fn mean_of(members: &[Weights]) -> Weights {
    mean(&members.iter().collect::<Vec<_>>(), Statistics::Average).unwrap()
}

#[test]
fn a_folder_becomes_its_mean_and_says_what_to_do_about_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<f32> = (1..=11).map(|i| i as f32 * 0.1).collect();
    let (place, members) = series(folder.path(), &values);
    let out = folder.path().join("mean.safetensors");
    let output = average(&place, &out, &[]);
    let said = succeeded(&output);
    assert!(said.contains("mean of 11 checkpoints"), "{said}");
    assert!(said.contains("e-1.safetensors to ") && said.contains("e-11.safetensors"), "{said}");
    assert!(text(&output.stderr).contains("hwa recalibrate"));
    let (found, about) = read_tensors(&out).unwrap();
    assert_eq!(found, mean_of(&members));
    assert_eq!(about["statistics"], "averaged");
    assert_eq!(about["members"].as_array().unwrap().len(), 11);

    failed(&average(&place, &out, &[]), 2, "exists; --force overwrites it");
    succeeded(&average(&place, &out, &["--force"]));
}

#[test]
fn windows_by_themselves_and_all_at_once_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (place, members) = series(folder.path(), &[1.0, 2.0, 4.0, 8.0, 16.0]);
    let all = folder.path().join("windows");
    let options = ["--window", "3", "--all-windows", "--json"];
    let told = json(&average(&place, &all, &options));
    assert_eq!(told["windows"].as_array().unwrap().len(), 5);
    for at in 1..=5usize {
        let expected = mean_of(&members[at.saturating_sub(3)..at]);
        let file = all.join(format!("window-{at:06}.safetensors"));
        assert_eq!(read_tensors(&file).unwrap().0, expected);
        let out = folder.path().join(format!("{at}.safetensors"));
        let number = at.to_string();
        let told = json(&average(&place, &out, &["--window", "3", "--at", &number, "--json"]));
        assert_eq!(told["members"].as_array().unwrap().len(), at.min(3));
        assert_eq!(fs::read(&out).unwrap(), fs::read(&file).unwrap());
    }
    failed(&average(&place, &all, &options), 2, "is not empty; --force overwrites");
    // Windows of a shorter series are not left among those of a longer one, and nothing else goes.
    fs::write(all.join("notes.txt"), "mine").unwrap();
    fs::rename(place.join("e-5.safetensors"), folder.path().join("away")).unwrap();
    succeeded(&average(&place, &all, &["--all-windows", "--force"]));
    assert!(!all.join("window-000005.safetensors").exists() && all.join("notes.txt").exists());
    fs::rename(folder.path().join("away"), place.join("e-5.safetensors")).unwrap();

    // Of one checkpoint nothing is averaged.
    let (_, about) = read_tensors(&all.join("window-000001.safetensors")).unwrap();
    assert_eq!(about["statistics"], "of the checkpoint");
    let out = folder.path().join("strided.safetensors");
    succeeded(&average(&place, &out, &["--window", "4", "--stride", "2"]));
    let expected = mean_of(&[members[1].clone(), members[3].clone()]);
    assert_eq!(read_tensors(&out).unwrap().0, expected);
    failed(&average(&place, &out, &["--window", "2", "--at", "9", "--force"]), 2, "1 to 5");
    let none = average(&place, &out, &["--window", "1", "--stride", "2", "--force"]);
    failed(&none, 2, "none that it covers is a multiple of 2");
}

#[test]
fn weights_moving_averages_and_types_are_taken_from_the_options() {
    let folder = tempfile::tempdir().unwrap();
    let (place, _) = series(folder.path(), &[1.0, 3.0, 7.0]);
    let out = folder.path().join("out.safetensors");
    let first = |more: &[&str]| {
        succeeded(&average(&place, &out, &[&["--force"], more].concat()));
        read_tensors(&out).unwrap().0.get("conv.weight").unwrap().values().clone()
    };
    let values = first(&["--weights", "1,2,5"]);
    assert_eq!(values.to_f64()[0], 5.25);
    assert_eq!(first(&["--ema", "0.5"]).to_f64()[0], 4.5);
    let slow = average(&place, &out, &["--force", "--ema", "0.99"]);
    let told = text(&slow.stderr);
    assert!(told.contains("98 % of the average of 3 checkpoints is the oldest one"), "{told}");
    for (word, value_type) in
        [("f64", ValueType::F64), ("f16", ValueType::F16), ("bf16", ValueType::BF16)]
    {
        assert_eq!(first(&["--dtype", word]).value_type(), value_type);
    }
    failed(&average(&place, &out, &["--force", "--weights", "1,2"]), 2, "2 weights for 3");
    failed(&average(&place, &out, &["--force", "--ema", "1"]), 2, "below 1");
    failed(&average(&place, &out, &["--force", "--max-memory", "9"]), 2, "--max-memory: 9 bytes");
    failed(&average(&place, &out, &["--ema", "0.5", "--weights", "1"]), 2, "cannot be used with");
}

/// Names need not be text.
#[cfg(target_os = "linux")]
#[test]
fn a_name_that_is_no_text_is_a_name() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let (place, _) = series(folder.path(), &[1.0, 2.0]);
    let odd = |name: &[u8]| folder.path().join(std::ffi::OsStr::from_bytes(name));
    fs::rename(&place, odd(b"a\xff")).unwrap();
    let told = json(&average(&odd(b"a\xff"), &odd(b"b\xff.safetensors"), &["--json"]));
    assert!(told["out"].as_str().unwrap().contains('\u{fffd}'));
    let all = average(&odd(b"a\xff"), &odd(b"c\xff"), &["--all-windows", "--json"]);
    assert_eq!(json(&all)["windows"].as_array().unwrap().len(), 2);
    let mut search = hwa(&["search", "--eval", "sh -c 'echo 1' sh {weights}", "--maximize", "-o"]);
    succeeded(&search.arg(odd(b"d\xff")).arg(odd(b"a\xff")).output().unwrap());
    assert!(odd(b"d\xff").join("result.json").exists());
}

#[test]
fn weights_belong_to_files_as_they_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (place, members) = series(folder.path(), &[1.0, 3.0]);
    let [one, two] = [1, 2].map(|i| place.join(format!("e-{i}.safetensors")));
    let out = folder.path().join("out.safetensors");
    let found = |files: [&PathBuf; 2], more: &[&str]| {
        let mut command = hwa(&["average", "--force", "--weights", "1,0", "-o"]);
        succeeded(&command.arg(&out).args(files).args(more).output().unwrap());
        read_tensors(&out).unwrap().0.get("conv.weight").unwrap().clone()
    };
    let [first, second] = [&members[0], &members[1]].map(|m| m.get("conv.weight").unwrap().clone());
    assert_eq!(found([&two, &one], &[]), second);
    assert_eq!(found([&one, &two], &[]), first);
    // Unless another order is asked for.
    assert_eq!(found([&two, &one], &["--order", "name"]), first);
    let mut by_step = hwa(&["average", "--force", "--order", "step", "-o"]);
    let told = text(&by_step.arg(&out).args([&two, &one]).output().unwrap().stderr);
    assert!(told.contains("ordered by the last number in their names"), "{told}");
    // An average among them is told of: a pattern may take it for one of them.
    let mut beside = hwa(&["average", "-o"]);
    beside.arg(place.join("mean.safetensors")).args([&two, &one]);
    let told = text(&beside.output().unwrap().stderr);
    assert!(told.contains("lies among the checkpoints"), "{told}");
}

/// A system that allows few open files.
#[cfg(unix)]
#[test]
fn shards_and_windows_beyond_what_may_be_open_are_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    for number in 1..=30 {
        let model = models.join(format!("checkpoint-{number}"));
        fs::create_dir_all(&model).unwrap();
        let mut map = serde_json::Map::new();
        for shard in 0..12 {
            let (name, file) = (format!("w{shard}"), format!("model-{shard}.safetensors"));
            let mut weights = Weights::new();
            let value = Tensor::parameter(vec![1], vec![number as f32]).unwrap();
            weights.insert(name.as_str(), value).unwrap();
            write_tensors(&model.join(&file), &weights, &Metadata::new()).unwrap();
            map.insert(name, file.into());
        }
        let index = json!({ "weight_map": map }).to_string();
        fs::write(model.join("model.safetensors.index.json"), index).unwrap();
    }
    let (files, _) = series(folder.path(), &[1.0; 200]);
    let limited = |arguments: &str| {
        let script =
            format!("ulimit -n 192; exec '{}' average {arguments}", env!("CARGO_BIN_EXE_hwa"));
        std::process::Command::new("bash").args(["-c", &script]).output().unwrap()
    };
    let out = folder.path().join("mean.safetensors");
    let (models, files, shown) = (models.display(), files.display(), out.display());
    succeeded(&limited(&format!("'{models}' -o '{shown}'")));
    let mean = read_tensors(&out).unwrap().0;
    assert_eq!(mean.get("w7").unwrap().as_f32().unwrap(), [15.5]);
    let windows = folder.path().join("windows");
    let all = format!("'{files}' --window 2 --all-windows -o '{}'", windows.display());
    succeeded(&limited(&all));
    assert_eq!(fs::read_dir(windows).unwrap().count(), 200);
}

#[test]
fn pytorchs_files_and_runs_are_averaged_too() {
    let folder = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hwa-store/tests/golden/plain.pt");
    let out = folder.path().join("mean.safetensors");
    let output = hwa(&["average"]).arg(&golden).arg(&golden).arg("-o").arg(&out).output().unwrap();
    succeeded(&output);
    assert_eq!(read_tensors(&out).unwrap().0, read_checkpoint(&golden).unwrap().weights);
    let two = golden.with_file_name("two_states.pt");
    let keyed = |key: &str| {
        let mut command = hwa(&["average", "--force", "--key", key, "-o"]);
        command.arg(&out).arg(&two).arg(&two).output().unwrap()
    };
    succeeded(&keyed("ema.shadow"));
    assert_ne!(read_tensors(&out).unwrap().0, read_checkpoint(&two).unwrap().weights);
    let about = read_tensors(&out).unwrap().1;
    assert_eq!((&about["key"], &about["statistics"]), (&json!("ema.shadow"), &json!("averaged")));
    failed(
        &keyed("moving"),
        1,
        "no state dict under the key `moving`; found `a.b`, `ema`, `model`",
    );

    // As the `Trainer` of `transformers` leaves a folder.
    let trained = folder.path().join("trained");
    for name in ["checkpoint-1/pytorch_model.bin", "checkpoint-2/pytorch_model.bin"] {
        fs::create_dir_all(trained.join(name).parent().unwrap()).unwrap();
        fs::copy(&golden, trained.join(name)).unwrap();
    }
    fs::copy(&golden, trained.join("pytorch_model.bin")).unwrap();
    fs::write(trained.join("training_args.bin"), "").unwrap();
    let output = average(&trained, &out, &["--force", "--json"]);
    assert_eq!(json(&output)["checkpoints"], 2);
    let told = text(&output.stderr);
    assert!(told.contains("passed over") && told.contains("training_args.bin, pytorch_model.bin"));

    let run = folder.path().join("run");
    command::train(
        &run,
        &[
            "data.train_examples=160",
            "optimizer.batch=20",
            "schedule.epochs=3",
            "hwa.window_length=2",
        ],
    );
    let out = folder.path().join("hwa.safetensors");
    let told = json(&average(&run, &out, &["--window", "2", "--json"]));
    assert_eq!((&told["at"], &told["statistics"]), (&json!(3), &json!("none")));
    let outer = |cycle| {
        let name = format!("checkpoints/outer-{cycle:06}.safetensors");
        read_tensors(&run.join(name)).unwrap().0
    };
    assert_eq!(read_tensors(&out).unwrap().0, mean_of(&[outer(2), outer(3)]));
    // It is a checkpoint like any other.
    let mut evaluate = hwa(&["evaluate", "--json", "--run"]);
    let evaluated = evaluate.arg(&run).arg("--weights").arg(&out).output().unwrap();
    assert_eq!(json(&evaluated)["statistics"], "re-estimated");
}

#[test]
fn numbers_that_are_none_end_it_or_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (place, members) = series(folder.path(), &[1.0, f32::NAN, 3.0]);
    let out = folder.path().join("mean.safetensors");
    let refused = average(&place, &out, &[]);
    failed(&refused, 1, "e-2.safetensors: `bn.running_mean` holds NaN");
    failed(&refused, 1, "--skip-bad leaves such checkpoints out");
    let windows = folder.path().join("windows");
    failed(&average(&place, &windows, &["--all-windows"]), 1, "holds NaN");
    assert!(!out.exists() && !windows.exists());

    let output = average(&place, &out, &["--skip-bad", "--json"]);
    assert_eq!(json(&output)["left_out"][0]["tensor"], "bn.running_mean");
    assert!(text(&output.stderr).contains("left out: "));
    let kept = [members[0].clone(), members[2].clone()];
    assert_eq!(read_tensors(&out).unwrap().0, mean_of(&kept));

    // Who is left out takes its weight along.
    let weighted = ["--skip-bad", "--weights", "1,5,3", "--force"];
    succeeded(&average(&place, &out, &weighted));
    let found = read_tensors(&out).unwrap().0;
    assert_eq!(found.get("conv.weight").unwrap().values().to_f64()[0], 2.5);
    let short = ["--skip-bad", "--weights", "1,3", "--force"];
    failed(&average(&place, &out, &short), 2, "2 weights for 3 checkpoints");

    succeeded(&average(&place, &out, &["--allow-non-finite", "--force"]));
    assert!(read_tensors(&out).unwrap().0.first_non_finite().is_some());
}

#[test]
fn what_cannot_be_averaged_is_said_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (place, _) = series(folder.path(), &[1.0]);
    let out = folder.path().join("mean.safetensors");
    failed(&average(&place, &out, &[]), 2, "is the only checkpoint: an average needs two or more");
    failed(&average(&folder.path().join("nothing"), &out, &[]), 2, "is not there");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    failed(&average(&empty, &out, &[]), 2, "holds no checkpoints");

    let mut other = Weights::new();
    other.insert("conv.weight", Tensor::parameter(vec![1], vec![0.0]).unwrap()).unwrap();
    write_tensors(&place.join("e-2.safetensors"), &other, &Metadata::new()).unwrap();
    let differ = average(&place, &out, &[]);
    failed(&differ, 1, "e-1.safetensors and ");
    failed(&differ, 1, "differ: `bn.num_batches_tracked` is only in the first");

    let (place, _) = series(folder.path(), &[1.0, 2.0]);
    failed(&average(&place, &place.join("mean.safetensors"), &[]), 2, "lies in the folder");
    // Nor in a folder among them, nor one window for each of them, nor in the place of one.
    fs::create_dir(place.join("avg")).unwrap();
    for (out, more) in [
        (place.join("avg/mean.safetensors"), &["--force"][..]),
        (place.join("new/mean.safetensors"), &[]),
        (place.clone(), &["--all-windows", "--force"]),
        (place.join("windows"), &["--all-windows"]),
    ] {
        failed(&average(&place, &out, more), 2, "lies in the folder");
    }
    let [one, two] = [1, 2].map(|i| place.join(format!("e-{i}.safetensors")));
    let before = fs::read(&one).unwrap();
    let mut command = hwa(&["average", "--force", "-o"]);
    let over = command.arg(place.join("../checkpoints/e-1.safetensors")).args([&one, &two]);
    failed(&over.output().unwrap(), 2, "is one of the checkpoints");
    assert_eq!(fs::read(&one).unwrap(), before);
    failed(&average(&place, &folder.path().join("mean.pt"), &[]), 2, "name it ");
    failed(&average(&place, folder.path(), &[]), 2, "is a folder");
    failed(&average(&place, &place.join("e-1.safetensors"), &["--all-windows"]), 2, "is a file");
    failed(&average(&place, &out, &["--max-memory", "3 parsecs"]), 2, "is no unit");
    assert!(!out.exists());
}

/// A file that may not grow stands for a disk without space.
#[cfg(unix)]
#[test]
fn without_space_nothing_is_left_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("checkpoints");
    fs::create_dir(&place).unwrap();
    for number in [1, 2] {
        let mut weights = Weights::new();
        weights.insert("w", Tensor::parameter(vec![40_000], vec![1.0; 40_000]).unwrap()).unwrap();
        let path = place.join(format!("{number}.safetensors"));
        write_tensors(&path, &weights, &Metadata::new()).unwrap();
    }
    let out = folder.path().join("mean.safetensors");
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec '{}' average '{}' -o '{}'",
        env!("CARGO_BIN_EXE_hwa"),
        place.display(),
        out.display()
    );
    let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    failed(&output, 1, "cannot write ");
    let left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["checkpoints"]);
}

#[test]
fn its_speed_is_measured_beside_reading_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (place, _) = series(folder.path(), &[1.0, 2.0, 3.0]);
    let given = hwa(&["bench", "average", "--json", "--rounds", "1"]).arg(&place).output().unwrap();
    let made_up =
        ["bench", "average", "--json", "--rounds", "1", "--model", "resnet8", "--count", "3"];
    for measured in [json(&given), json(&hwa(&made_up).output().unwrap())] {
        assert_eq!((&measured["files"], &measured["windows"]), (&json!(3), &json!(3)));
        for key in ["seconds", "gb_per_second", "read_gb_per_second", "ratio", "windows_seconds"] {
            assert!(measured[key].as_f64().unwrap() > 0.0, "{key}: {measured}");
        }
    }
}

/// Saves three models, and later loads their average: names, shapes and types have to be the
/// model's, and the numbers the mean in double precision, rounded once.
const PYTORCH: &str = r#"
import sys, torch, torchvision, safetensors.torch
what, folder, kind = sys.argv[1:]
def models():
    for seed in range(3):
        torch.manual_seed(seed)
        model = torchvision.models.resnet18(num_classes=7).to(getattr(torch, kind))
        for name, tensor in model.named_buffers():
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 2)
            else:
                tensor.fill_(10 * seed + 1)
        yield model
if what == "save":
    for number, model in enumerate(models()):
        torch.save(model.state_dict(), f"{folder}/{kind}/epoch-{number}.pt")
else:
    found = safetensors.torch.load_file(f"{folder}/{kind}.safetensors")
    states = [model.state_dict() for model in models()]
    model = next(models())
    model.load_state_dict(found, strict=True)
    for name, tensor in model.state_dict().items():
        members = [state[name] for state in states]
        if tensor.is_floating_point():
            total = members[0].double()
            for member in members[1:]:
                total = total + member.double()
            # PyTorch rounds to half precision twice: nothing that it has may be nearer.
            error = lambda rounded: (rounded.double() - total / 3).abs()
            same = bool((error(tensor) <= error((total / 3).to(tensor.dtype))).all())
        else:
            same = torch.equal(tensor, members[-1])
        assert same, name
"#;

#[test]
#[ignore = "needs torch and torchvision: HWA_PYTHON=python3 cargo test -p hwa -- --ignored"]
fn pytorch_loads_the_average_of_its_models_strictly_and_finds_its_own_mean() {
    let python = std::env::var("HWA_PYTHON").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let run = |what: &str, kind: &str| {
        let mut command = std::process::Command::new(&python);
        command.args(["-c", PYTORCH, what]).arg(folder.path()).arg(kind);
        succeeded(&command.output().unwrap());
    };
    for kind in ["float32", "float16", "bfloat16"] {
        let models = folder.path().join(kind);
        fs::create_dir(&models).unwrap();
        run("save", kind);
        let out = folder.path().join(format!("{kind}.safetensors"));
        succeeded(&average(&models, &out, &[]));
        run("load", kind);
    }
}
