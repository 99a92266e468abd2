//! JPEG files decoded, and decoded and resized to a shorter side of 256, on one thread.
//!
//! `cargo bench -p hwa-picture --bench decode -- <folder>`
//!
//! The kind of a file is its name up to the first `-`. A line for each kind tells the images a
//! second of its fastest pass over all files. `peers/torch_decode.py` makes the files, and runs
//! this bench and its peers in turn.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

use hwa_picture::Picture;

/// As in the command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// For each of the two figures of a kind.
const AT_LEAST: Duration = Duration::from_millis(400);

fn main() {
    let Some(folder) = std::env::args().skip(1).find(|argument| !argument.starts_with('-')) else {
        // `cargo test --benches` has none.
        println!("name a folder of JPEG files");
        return;
    };
    let side = NonZeroUsize::new(256).unwrap();
    for (kind, files) in files(Path::new(&folder)) {
        let decoded = fastest(&files, |file| Picture::decode(file).unwrap());
        let resized =
            fastest(&files, |file| Picture::decode(file).unwrap().resize_shorter(side).unwrap());
        let figures = format!(r#""decoded": {decoded:.1}, "resized": {resized:.1}"#);
        println!(r#"{{"kind": "{kind}", "files": {}, {figures}}}"#, files.len());
    }
}

fn files(folder: &Path) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut kinds = BTreeMap::<String, Vec<Vec<u8>>>::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if let Some((kind, _)) = name.split_once('-') {
            kinds.entry(kind.into()).or_default().push(std::fs::read(entry.path()).unwrap());
        }
    }
    kinds
}

/// Images a second of the fastest of several passes.
fn fastest(files: &[Vec<u8>], work: impl Fn(&[u8]) -> Picture) -> f64 {
    let (mut best, start) = (f64::INFINITY, Instant::now());
    for passes in 0.. {
        let begin = Instant::now();
        for file in files {
            black_box(work(black_box(file)));
        }
        best = best.min(begin.elapsed().as_secs_f64());
        if passes >= 4 && start.elapsed() > AT_LEAST {
            break;
        }
    }
    files.len() as f64 / best
}
