//! What cannot be trained is refused, and says why.

use std::fs;

use super::command::{failed, hwa, succeeded, text};
use super::short_train;

#[test]
fn missing_and_truncated_data_is_named_with_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let train = || {
        let mut command = hwa(&["train", "--set", "data.dataset=cifar100", "--data-dir"]);
        command.arg(folder.path()).current_dir(folder.path()).output().unwrap()
    };
    failed(&train(), 1, "train.bin");
    fs::create_dir(folder.path().join("cifar-100-binary")).unwrap();
    for name in ["train.bin", "test.bin"] {
        fs::write(folder.path().join("cifar-100-binary").join(name), [0u8; 1000]).unwrap();
    }
    failed(&train(), 1, "1000 bytes, expected 153700000");
}

#[test]
fn folders_that_are_taken_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.tex"), "").unwrap();
    failed(&short_train(folder.path()).output().unwrap(), 2, "is not empty");
    assert!(!text(&short_train(folder.path()).output().unwrap().stderr).contains("--resume"));
    let nothing = hwa(&["train", "--resume", "no-such-run"]).output().unwrap();
    failed(&nothing, 2, "no-such-run is not a run directory");
}

#[test]
fn a_network_that_the_images_are_too_small_for_says_so() {
    let folder = succeeded(&hwa(&["models", "--data", "folder"]).output().unwrap());
    assert!(folder.contains("counted for 10 classes"), "{folder}");
    let table = succeeded(&hwa(&["models", "--data", "digits"]).output().unwrap());
    assert!(table.contains("the images are too small for vgg16_cifar"), "{table}");
    let expected = "expected at least 32 x 32 for this network";
    let bench = hwa(&["bench", "step", "--model", "vgg16_cifar", "--size", "16"]).output().unwrap();
    failed(&bench, 2, &format!("images are 16 x 16, {expected}"));
    let bench = ["bench", "recalibrate", "--model", "vgg16_cifar", "--size", "16"];
    failed(&hwa(&bench).output().unwrap(), 2, &format!("images are 16 x 16, {expected}"));
    let folder = tempfile::tempdir().unwrap();
    let mut train = hwa(&["train", "--set", "model.name=vgg16_cifar"]);
    let train = train.current_dir(folder.path()).output().unwrap();
    failed(&train, 2, &format!("images are 8 x 8, {expected}"));
    assert!(!folder.path().join("runs").exists(), "nothing is created for it");
}

#[cfg(not(feature = "mpi"))]
#[test]
fn without_mpi_ranks_do_not_train_beside_each_other() {
    let launched = |ranks: &str| {
        let mut command = hwa(&["train", "--set", "nonsense=1"]);
        command.env("OMPI_COMM_WORLD_SIZE", ranks).output().unwrap()
    };
    failed(&launched("2"), 2, "built without MPI");
    let twice = hwa(&["models"]).env("OMPI_COMM_WORLD_SIZE", "2").output().unwrap();
    failed(&twice, 2, "2 ranks were started, and would all do the same");
    // One rank is as good as none, and comes as far as the experiment.
    failed(&launched("1"), 2, "nonsense");
}
