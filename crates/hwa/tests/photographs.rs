//! Folders of images, and weights that others trained, as a user meets them.
#![allow(clippy::unwrap_used)] // it is a test

mod command;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use command::{hwa, json, text};

/// The message of a command that failed with this code.
fn refused(output: &Output, code: i32) -> String {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    message
}

/// A photograph of 12 x 12 with a bright stripe, as a BMP.
fn photograph(stripe: usize, noise: usize) -> Vec<u8> {
    const SIDE: usize = 12;
    let mut bytes = Vec::from(*b"BM");
    for value in [54 + 3 * SIDE * SIDE, 0, 54, 40, SIDE, SIDE] {
        bytes.extend((value as u32).to_le_bytes());
    }
    bytes.extend([1, 0, 24, 0]);
    for value in [0, 3 * SIDE * SIDE, 0, 0, 0, 0] {
        bytes.extend((value as u32).to_le_bytes());
    }
    for y in 0..SIDE {
        for x in 0..SIDE {
            let light: u8 = if y / 4 == stripe { 220 } else { 30 };
            bytes.extend([light, light, light + (x * noise % 30) as u8]);
        }
    }
    bytes
}

/// A folder with so many classes, told apart by where the stripe is.
fn photographs(dir: &Path, classes: usize, images: usize) {
    for class in 0..classes {
        let folder = dir.join(format!("stripe {class}"));
        fs::create_dir_all(&folder).unwrap();
        for image in 0..images {
            fs::write(folder.join(format!("{image:02}.bmp")), photograph(class, image)).unwrap();
        }
    }
}

/// Trains for a moment on a folder.
fn train(dir: &Path, run: &Path) -> Command {
    let mut command = hwa(&["train", "--json", "--data-dir"]);
    command.arg(dir).arg("--out").arg(run);
    for set in [
        "data.dataset=folder",
        "data.size=8",
        "optimizer.batch=8",
        "schedule.epochs=2",
        "hwa.window_length=1",
        "optimizer.rate=0.05",
    ] {
        command.args(["--set", set]);
    }
    command
}

#[test]
fn a_backbone_is_fine_tuned_on_other_classes() {
    let here = tempfile::tempdir().unwrap();
    let (three, two) = (here.path().join("three"), here.path().join("two"));
    photographs(&three, 3, 10);
    photographs(&two, 2, 10);
    let run = |name: &str| here.path().join(name);
    json(&train(&three, &run("first")).output().unwrap());
    let weights = run("first").join("best.safetensors");

    let begun = |name: &str, more: &[&str]| {
        let mut command = train(&two, &run(name));
        command.arg("--weights").arg(&weights).args(more).output().unwrap()
    };
    let message = refused(&begun("kept", &[]), 1);
    let expected = "the head `linear` is for 3 classes, expected 2; --new-head draws it anew";
    assert!(message.contains(expected), "{message}");
    assert!(!run("kept").exists(), "nothing is created for a run that cannot begin");

    let tuned = begun("tuned", &["--new-head"]);
    let message = text(&tuned.stderr);
    assert!(message.contains("drawn anew: linear.bias, linear.weight"), "{message}");
    assert!(json(&tuned)["test"]["hwa"].as_f64().unwrap() >= 0.0);
    let kept = fs::read_to_string(run("tuned").join("experiment.toml")).unwrap();
    assert!(kept.contains("new_head = true") && kept.contains("best.safetensors"), "{kept}");

    // Without a complete state a run begins again, and with the same weights: files of models
    // alone are no state.
    let state = run("tuned").join("state");
    let manifests = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path());
    for manifest in manifests.filter(|path| path.extension().is_some_and(|e| e == "json")) {
        fs::remove_file(manifest).unwrap();
    }
    assert!(fs::read_dir(&state).unwrap().count() > 0);
    let best = fs::read(run("tuned").join("best.safetensors")).unwrap();
    for file in ["best.safetensors", "summary.json"] {
        fs::remove_file(run("tuned").join(file)).unwrap();
    }
    let resume = || hwa(&["train", "--json", "--resume"]).arg(run("tuned")).output().unwrap();
    let again = json(&resume());
    assert_eq!(again["test"], json(&tuned)["test"]);
    assert_eq!(fs::read(run("tuned").join("best.safetensors")).unwrap(), best);

    // With one, what it began with is not needed any more.
    fs::remove_file(&weights).unwrap();
    fs::remove_file(run("tuned").join("summary.json")).unwrap();
    assert_eq!(json(&resume())["test"], again["test"]);
}

#[test]
fn a_run_does_not_go_on_with_other_images() {
    let here = tempfile::tempdir().unwrap();
    let (dir, run) = (here.path().join("images"), here.path().join("run"));
    photographs(&dir, 2, 10);
    json(&train(&dir, &run).output().unwrap());
    fs::write(dir.join("stripe 0/new.bmp"), photograph(0, 7)).unwrap();
    fs::remove_file(run.join("summary.json")).unwrap();
    let message = refused(&hwa(&["train", "--resume"]).arg(&run).output().unwrap(), 2);
    assert!(message.contains("`data.digest` was 20 files"), "{message}");
    let message = refused(&hwa(&["evaluate", "--run"]).arg(&run).output().unwrap(), 2);
    assert!(message.contains("now it is 21 files"), "{message}");
}

/// The newest state of a run that is finished.
fn newest_state(run: &Path) -> PathBuf {
    let states = fs::read_dir(run.join("state")).unwrap().map(|entry| entry.unwrap().path());
    let manifest = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let mut manifests: Vec<PathBuf> = states.filter(manifest).collect();
    assert!(manifests.len() >= 2, "there is a state before it");
    manifests.sort();
    manifests.pop().unwrap()
}

#[test]
fn a_run_with_a_bad_image_goes_on_to_the_same_bytes_whatever_is_kept_in_memory() {
    let here = tempfile::tempdir().unwrap();
    let (dir, run) = (here.path().join("images"), here.path().join("run"));
    photographs(&dir, 2, 15);
    fs::write(dir.join("stripe 1/bad.jpg"), "<html>404</html>").unwrap();
    let mut command = train(&dir, &run);
    for set in ["data.crop=resized", "data.resize=10", "checkpoints.state_every=1"] {
        command.args(["--set", set]);
    }
    let whole = json(&command.output().unwrap());
    assert_eq!(whole["unreadable_images"], 1);
    let best = fs::read(run.join("best.safetensors")).unwrap();
    for (cache, decoders) in [(0, 1), (64, 3)] {
        for file in [run.join("summary.json"), run.join("best.safetensors"), newest_state(&run)] {
            fs::remove_file(file).unwrap();
        }
        let mut command = hwa(&["train", "--json", "--resume"]);
        command.arg(&run).args(["--set", &format!("data.cache_mib={cache}")]);
        let output =
            command.args(["--set", &format!("data.decoders={decoders}")]).output().unwrap();
        let again = json(&output);
        let message = text(&output.stderr);
        assert!(message.contains("resumed: "), "{message}");
        // Also if this session did not come across the image.
        for key in ["test", "validation", "chosen_cycle", "unreadable_images"] {
            assert_eq!(again[key], whole[key], "{key}");
        }
        assert_eq!(fs::read(run.join("best.safetensors")).unwrap(), best);
    }
}

#[test]
fn images_that_cannot_be_read_are_told_of_when_weights_are_measured() {
    let here = tempfile::tempdir().unwrap();
    let (dir, run) = (here.path().join("images"), here.path().join("run"));
    photographs(&dir, 2, 10);
    fs::write(dir.join("stripe 1/bad.jpg"), "<html>404</html>").unwrap();
    json(&train(&dir, &run).output().unwrap());
    let told = "1 image could not be read: `stripe 1/bad.jpg` (not a picture but a page of HTML)";
    let mut told_of = 0;
    for split in ["train", "validation", "test"] {
        let mut command = hwa(&["evaluate", "--json", "--split", split, "--run"]);
        let output = command.arg(&run).output().unwrap();
        assert!(json(&output)["top1"].is_number(), "{}", text(&output.stdout));
        told_of += usize::from(text(&output.stderr).contains(told));
    }
    assert_eq!(told_of, 1, "the image is in one of the splits");
    let ready = here.path().join("ready.safetensors");
    let mut command = hwa(&["recalibrate", "--tolerance", "0", "--run"]);
    let output = command.arg(&run).arg("-o").arg(&ready).output().unwrap();
    assert!(output.status.success() && ready.is_file(), "{}", text(&output.stderr));
}

#[test]
fn weights_are_measured_on_images_of_the_size_that_they_are_for() {
    let here = tempfile::tempdir().unwrap();
    let (dir, run) = (here.path().join("images"), here.path().join("run"));
    photographs(&dir, 2, 10);
    let output = train(&dir, &run).output().unwrap();
    json(&output);
    let message = text(&output.stderr);
    assert!(message.contains("2 classes: stripe 0, stripe 1\n"), "{message}");
    let of_run = json(&hwa(&["evaluate", "--json", "--run"]).arg(&run).output().unwrap());
    let best = run.join("best.safetensors");
    let measured = |dir: &Path| {
        let mut command = hwa(&["evaluate", "--json", "--model", "resnet8", "--data", "folder"]);
        command.arg("--data-dir").arg(dir).arg("--weights").arg(&best).output().unwrap()
    };
    let alone = measured(&dir);
    assert_eq!(json(&alone)["loss"], of_run["loss"], "not at the 224 x 224 of folders");
    assert!(text(&alone.stderr).contains("is of images of 8 x 8: so are these"));
    // Classes go by their order, which another folder may not have.
    fs::rename(dir.join("stripe 1"), dir.join("a stripe")).unwrap();
    let message = text(&measured(&dir).stderr);
    assert!(
        message.contains("its class 0 is `stripe 0`, in folder that is `a stripe`"),
        "{message}"
    );
}

#[test]
fn weights_that_are_no_numbers_are_refused() {
    let here = tempfile::tempdir().unwrap();
    let (dir, run) = (here.path().join("images"), here.path().join("run"));
    photographs(&dir, 2, 10);
    json(&train(&dir, &run).output().unwrap());
    let (weights, metadata) = hwa_store::read_tensors(&run.join("best.safetensors")).unwrap();
    let mut broken = hwa_core::Weights::new();
    for (name, tensor) in weights.iter() {
        let tensor = match name {
            "conv1.weight" => {
                let values = vec![f32::NAN; tensor.values().len()];
                hwa_core::Tensor::parameter(tensor.shape().to_vec(), values).unwrap()
            }
            _ => tensor.clone(),
        };
        broken.insert(name, tensor).unwrap();
    }
    let path = here.path().join("nan.safetensors");
    hwa_store::write_tensors(&path, &broken, &metadata).unwrap();
    let told = "nan.safetensors: `conv1.weight` holds NaN or infinite values";
    let output = train(&dir, &here.path().join("next")).arg("--weights").arg(&path).output();
    let message = refused(&output.unwrap(), 1);
    assert!(message.contains(told), "{message}");
    let mut command = hwa(&["evaluate", "--model", "resnet8", "--data", "folder", "--data-dir"]);
    let message = refused(&command.arg(&dir).arg("--weights").arg(&path).output().unwrap(), 1);
    assert!(message.contains(told), "{message}");
}

#[test]
fn what_is_fetched_is_where_it_is_looked_for() {
    for recipe in hwa_fetch::recipes() {
        let known = hwa::data::catalogue();
        let entry = known.iter().find(|entry| entry.name == recipe.name).unwrap();
        assert_eq!(entry.folder, Some(recipe.folder), "{}", recipe.name);
        if let hwa_fetch::Source::Published(download) = recipe.source
            && recipe.name != "fashion-mnist"
        {
            let urls: Vec<&str> = download.urls().collect();
            assert_eq!(urls, [entry.archive.unwrap()], "{}", recipe.name);
        }
    }
}

#[test]
fn a_new_head_needs_weights() {
    let message = refused(&hwa(&["train", "--new-head"]).output().unwrap(), 2);
    assert!(message.contains("`model.new_head` needs `model.weights`"), "{message}");
    let set = ["train", "--set", "model.new_head=true"];
    let message = refused(&hwa(&set).output().unwrap(), 2);
    assert!(message.contains("`model.new_head` needs `model.weights`"), "{message}");
}

#[test]
fn bad_images_are_left_out_and_counted_or_end_the_run() {
    let here = tempfile::tempdir().unwrap();
    let dir = here.path().join("images");
    photographs(&dir, 2, 15);
    fs::write(dir.join("stripe 0/bad.jpg"), "<html>404</html>").unwrap();
    fs::write(dir.join("stripe 1/empty.png"), "").unwrap();
    fs::write(dir.join("stripe 1/Thumbs.db"), "no image").unwrap();

    let run = here.path().join("skip");
    let output = train(&dir, &run).output().unwrap();
    let message = text(&output.stderr);
    let result = json(&output);
    // The split decides which of them were looked at; all are in one of its parts.
    let count = result["unreadable_images"].as_u64().unwrap();
    assert_eq!(count, 2, "{message}");
    assert!(message.contains("2 images could not be read: `"), "{message}");

    let run = here.path().join("fail");
    let output = train(&dir, &run).args(["--set", "data.on_bad_image=fail"]).output().unwrap();
    let message = refused(&output, 1);
    assert!(message.contains("bad.jpg`: not a picture") || message.contains("empty.png"));

    let check = ["data", "check", "folder", "--data-dir", dir.to_str().unwrap()];
    let output = hwa(&check).output().unwrap();
    let message = refused(&output, 1);
    assert!(message.contains("folder: 2 images cannot be read"), "{message}");
    let report = text(&output.stdout);
    assert!(report.contains("bad.jpg: not a picture but a page of HTML"), "{report}");
    assert!(report.contains("1 other files, without the name of an image"), "{report}");
    let row = |line: &&str| line.starts_with("stripe 0");
    assert_eq!(report.lines().find(row).unwrap().split_whitespace().count(), 5, "{report}");
}

#[test]
fn what_cannot_be_fetched_says_why() {
    for (name, expected) in [
        ("digits", "part of the program"),
        ("folder", "--data-dir"),
        ("imagenet", "https://image-net.org/download.php"),
        ("cifar11", "cifar10"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = hwa(&["data", "fetch", name, "--data-dir"]).arg(dir.path()).output().unwrap();
        let message = refused(&output, 2);
        assert!(message.contains(expected), "{message}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn the_loader_is_measured_by_itself_and_beside_a_network() {
    let arguments =
        ["bench", "loader", "--json", "--model", "resnet8", "--images", "64", "--batch", "16"];
    let result = json(&hwa(&arguments).args(["--steps", "1"]).output().unwrap());
    for key in ["images_per_second", "step_images_per_second", "loaded_step_images_per_second"] {
        assert!(result[key].as_f64().unwrap() > 0.0, "{key}: {result}");
    }
    assert!(result["cost_percent"].is_number());
}
