//! A disk that is full or damages files: what it costs, and the way back.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::command::run::fingerprint;
use super::command::{failed, succeeded};
use super::{SHORT, resume, short_train};

#[test]
fn a_damaged_run_says_what_is_damaged_and_how_to_go_back() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    succeeded(&short_train(&run).output().unwrap());
    let whole = fingerprint(&run);
    // Without its figures the run is one that was killed at its very end.
    fs::remove_file(run.join("summary.json")).unwrap();
    let mut states: Vec<_> = fs::read_dir(run.join("state")).unwrap().flatten().collect();
    states.sort_by_key(|entry| entry.file_name());
    let last = |kind: &str| {
        let mut named = states.iter().rev().map(|entry| entry.path());
        named.find(|p| p.file_name().unwrap().to_string_lossy().starts_with(kind)).unwrap()
    };
    let (manifest, replica) = (last("manifest"), last("replica"));
    let back = format!("to go back one state, remove {}", manifest.display());
    let with = |path: &Path, content: &[u8], check: &dyn Fn(&Output)| {
        let before = fs::read(path).unwrap();
        fs::write(path, content).unwrap();
        check(&resume(&run));
        fs::write(path, before).unwrap();
    };
    with(&run.join("events.jsonl"), b"{}\n", &|output| {
        failed(output, 1, "events.jsonl has 3 bytes, the saved state expects at least");
        failed(output, 1, &back);
    });
    with(&manifest, b"{", &|output| failed(output, 1, &back));
    let edited = fs::read_to_string(run.join("experiment.toml")).unwrap();
    let edited = edited.replace("rate = 0.1", "rate = 0.2");
    with(&run.join("experiment.toml"), edited.as_bytes(), &|output| {
        failed(output, 2, "`optimizer.rate` was 0.1 and is 0.2 now");
    });
    fs::write(&replica, b"damaged").unwrap();
    failed(&resume(&run), 1, &format!("{} is not a safetensors file", replica.display()));
    failed(&resume(&run), 1, &back);
    // The advice is good: the run ends as it would have.
    fs::remove_file(&manifest).unwrap();
    succeeded(&resume(&run));
    assert!(fingerprint(&run) == whole);
}

/// A limit on file sizes stands in for a full disk: the write fails half-way.
#[test]
fn a_full_disk_ends_the_run_and_leaves_nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut train = format!("trap '' XFSZ; ulimit -f 200; exec {}", env!("CARGO_BIN_EXE_hwa"));
    train.push_str(&format!(" train --out {}", run.display()));
    for set in SHORT {
        train.push_str(&format!(" --set '{set}'"));
    }
    let output = Command::new("bash").args(["-c", &train]).output().unwrap();
    failed(&output, 1, "cannot write ");
    failed(&output, 1, "no state was saved yet");
    failed(&output, 1, &format!("hwa train --resume {}", run.display()));
    let mut folders = vec![run];
    while let Some(path) = folders.pop() {
        for entry in fs::read_dir(path).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(!name.starts_with(".partial"), "{name}");
            if entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
    }
}

/// A disk of 3 MB has room for two states and not for a third. Mounting it takes
/// a mount namespace; where there is none to be had, there is nothing to test.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_filled_the_disk_names_its_last_state_and_goes_on_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, run) = (folder.path().join("disk"), folder.path().join("disk/run"));
    fs::create_dir(&disk).unwrap();
    let mount = format!("mount -t tmpfs -o size=3m tmpfs {}", disk.display());
    let isolated = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-Urm", "bash", "-c", script]).stdin(Stdio::null());
        command.output()
    };
    if !isolated(&mount).is_ok_and(|output| output.status.success()) {
        println!("skipped: this system lets nobody mount");
        return;
    }
    let hwa = env!("CARGO_BIN_EXE_hwa");
    let sets: String = SHORT.iter().map(|set| format!(" --set '{set}'")).collect();
    // The disk goes with its namespace: the messages and the run are copied out of it.
    let script = format!(
        "{mount}; cd {0}; {hwa} train --out {1} {sets} 2> full; echo $? > code; \
         mount -o remount,size=100m {0}/disk; {hwa} train --json --resume {1} && cp -r {1} copy",
        folder.path().display(),
        run.display(),
    );
    succeeded(&isolated(&script).unwrap());
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("code").trim(), "1");
    let message = read("full");
    let state = format!("the last good state is that after step 6, 6: {}", run.display());
    let command = format!("go on with: hwa train --resume {}", run.display());
    for expected in ["error: cannot write ", "No space left", &state, &command] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let whole = folder.path().join("whole");
    succeeded(&short_train(&whole).output().unwrap());
    assert!(fingerprint(&folder.path().join("copy")) == fingerprint(&whole));
}
