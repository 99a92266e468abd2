//! Images that a rank lacks, or cannot read: all of them leave them out, or the rank is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::command::{succeeded, text};
use super::processes::{ended, start};
use super::{PROGRAM, announcing, assert_same, folder, hwa, mpirun};

/// A bitmap of one pixel: two headers, three colours, one byte to fill the row.
#[rustfmt::skip]
const BITMAP: [u8; 58] = [
    b'B', b'M', 58, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0,
    40, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 24, 0,
    0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0,
];

/// Two models, an epoch.
const EPOCH: [&str; 4] =
    ["hwa.num_models=2", "schedule.epochs=1", "optimizer.batch=20", "data.on_bad_image=skip"];

/// Two folders of so many images each, in which something may be wrong.
fn images(folder: &Path, count: u8, spoil: impl Fn(u8, Vec<u8>) -> Vec<u8>) {
    for class in ["one", "two"] {
        let place = folder.join(class);
        fs::create_dir_all(&place).unwrap();
        for number in 0..count {
            let mut bytes = BITMAP.to_vec();
            bytes[54] = number;
            let bytes = spoil(number, bytes);
            fs::write(place.join(format!("{number:02}.bmp")), bytes).unwrap();
        }
    }
}

/// Nothing is wrong.
fn good(_number: u8, bytes: Vec<u8>) -> Vec<u8> {
    bytes
}

/// An image is shorter than it says.
fn short(number: u8, mut bytes: Vec<u8>) -> Vec<u8> {
    if number == 7 {
        bytes.truncate(10);
    }
    bytes
}

/// Half of the images say that they are something else.
fn unreadable(number: u8, mut bytes: Vec<u8>) -> Vec<u8> {
    if number % 2 == 1 {
        bytes[0] = b'X';
    }
    bytes
}

/// One rank for each of these folders of images, for a new run.
fn over(folders: &[PathBuf], run: &Path, sets: &[&str]) -> Command {
    over_by(mpirun(), folders, run, sets)
}

/// The same, started by this command.
fn over_by(mut command: Command, folders: &[PathBuf], run: &Path, sets: &[&str]) -> Command {
    for (number, data) in folders.iter().enumerate() {
        if number > 0 {
            command.arg(":");
        }
        command.args(["-n", "1", PROGRAM, "train", "--json", "--out"]).arg(run);
        command.arg("--data-dir").arg(data);
        for set in ["data.dataset=folder", "data.size=32"].iter().chain(sets) {
            command.args(["--set", set]);
        }
    }
    command
}

#[test]
#[ignore = "needs Open MPI"]
fn a_rank_with_a_broken_data_file_ends_the_run_with_its_name_and_the_reason() {
    let (_keep, folder) = folder();
    let folders = [folder.join("good"), folder.join("bad")];
    images(&folders[0], 20, good);
    images(&folders[1], 20, short);
    let output = ended(start(over(&folders, &folder.join("run"), &["data.on_bad_image=fail"])));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("rank 1 on ") && said.contains("07.bmp"), "{said}");
    assert!(!folder.join("run").exists(), "nothing was begun");
}

#[test]
#[ignore = "needs Open MPI"]
fn a_rank_whose_data_is_missing_or_other_is_named() {
    let (_keep, folder) = folder();
    images(&folder.join("good"), 20, good);
    images(&folder.join("less"), 20, good);
    fs::remove_file(folder.join("less/one/03.bmp")).unwrap();
    for data in ["missing", "less"] {
        let folders = [folder.join("good"), folder.join(data)];
        let output = ended(start(over(&folders, &folder.join("run"), &[])));
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("rank 1 on "), "{said}");
        assert!(!folder.join("run").exists(), "nothing was begun");
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn images_that_only_one_rank_cannot_read_end_the_run() {
    let (_keep, folder) = folder();
    let (whole, spoilt) = (folder.join("whole"), folder.join("spoilt"));
    images(&whole, 60, good);
    images(&spoilt, 60, unreadable);
    // Whichever of the two ranks it is.
    for (number, folders) in
        [[whole.clone(), spoilt.clone()], [spoilt, whole]].into_iter().enumerate()
    {
        let output = ended(start(over(&folders, &folder.join(format!("run-{number}")), &EPOCH)));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let named = format!("rank {} on ", 1 - number);
        let line = said.lines().find(|line| line.starts_with("error: ") && line.contains(&named));
        assert!(line.is_some_and(|line| line.contains("the file is another there")), "{said}");
    }
}

#[test]
#[ignore = "needs Open MPI"]
fn images_that_no_rank_can_read_are_left_out_by_all_as_in_threads() {
    let (_keep, folder) = folder();
    let (data, run, threads) = (folder.join("data"), folder.join("run"), folder.join("threads"));
    images(&data, 60, unreadable);
    succeeded(&over(&[data.clone(), data.clone()], &run, &EPOCH).output().unwrap());
    let mut alone = hwa(0, &["train", "--out"]);
    alone.arg(&threads).arg("--data-dir").arg(&data);
    for set in ["data.dataset=folder", "data.size=32"].iter().chain(&EPOCH) {
        alone.args(["--set", set]);
    }
    succeeded(&alone.output().unwrap());
    let left_out = |run: &Path| fs::read_to_string(run.join("left-out.json")).unwrap();
    // Again with notices that leave when they are taken: both ranks send long ones at once.
    let announced = folder.join("announced");
    let command = announcing("vader,self");
    let folders = [data.clone(), data];
    succeeded(&ended(start(over_by(command, &folders, &announced, &EPOCH))));
    for run in [&run, &announced] {
        assert_same(run, &threads);
        assert_eq!(left_out(run), left_out(&threads));
    }
}
