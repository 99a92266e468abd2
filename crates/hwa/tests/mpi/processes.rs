//! Processes of a test: started, waited for, and found by their ranks.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use super::command::run::newest_state;
use super::command::{succeeded, text};
use super::{resume, train};

/// What a rank may take at most to end, after another has.
pub(crate) const SECONDS: Duration = Duration::from_secs(60);

pub(crate) fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Starts a run, or goes on with it, and waits until it has saved another state.
pub(crate) fn at_work(ranks: usize, run: &Path, sets: &[&str]) -> Child {
    let before = newest_state(run);
    let child = start(if run.exists() { resume(ranks, run) } else { train(ranks, run, sets) });
    saved(child, run, before)
}

/// Waits until a run that was started has saved another state.
pub(crate) fn saved(mut child: Child, run: &Path, before: Option<String>) -> Child {
    let began = Instant::now();
    while newest_state(run) <= before {
        let over = child.try_wait().unwrap().is_some() || began.elapsed() > SECONDS;
        if over && newest_state(run) <= before {
            let _ = child.kill();
            let output = child.wait_with_output().unwrap();
            panic!("no other state after {before:?}: {}", text(&output.stderr));
        }
        sleep(Duration::from_millis(5));
    }
    child
}

/// Waits until a process ends, for [`SECONDS`] at most.
pub(crate) fn ended(mut child: Child) -> Output {
    // Whoever fills a pipe that nobody reads would never end.
    let (stdout, stderr) = (whole(child.stdout.take()), whole(child.stderr.take()));
    let began = Instant::now();
    let (status, goes_on) = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break (status, false);
        }
        if began.elapsed() > SECONDS {
            child.kill().unwrap();
            break (child.wait().unwrap(), true);
        }
        sleep(Duration::from_millis(20));
    };
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    assert!(!goes_on, "it goes on: {}", text(&stderr));
    Output { status, stdout, stderr }
}

/// Reads a pipe to its end, in a thread of its own.
fn whole(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    spawn(move || {
        let mut bytes = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut bytes)).transpose().unwrap();
        bytes
    })
}

/// The processes of `hwa` whose arguments name this run, by their parent's choice of rank.
pub(crate) fn ranks_of(run: &Path) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let read = |name: &str| text(&fs::read(entry.path().join(name)).unwrap_or_default());
        let arguments = read("cmdline");
        let is_hwa = arguments.split('\0').next().is_some_and(|name| name.ends_with("/hwa"));
        if !is_hwa || !arguments.contains(&run.display().to_string()) {
            continue;
        }
        let environment = read("environ");
        let rank = environment.split('\0').find_map(|v| v.strip_prefix("OMPI_COMM_WORLD_RANK="));
        if let Some(rank) = rank.and_then(|rank| rank.parse().ok()) {
            found.push((rank, pid));
        }
    }
    found
}

/// Makes a pipe, and gives its other end once somebody opens it, to wait for what is written.
pub(crate) fn pipe(path: &Path) -> Receiver<fs::File> {
    succeeded(&Command::new("mkfifo").arg(path).output().unwrap());
    let ((opened, receiver), path) = (channel(), path.to_owned());
    // To open one end waits for the other.
    spawn(move || opened.send(fs::OpenOptions::new().write(true).open(path).unwrap()));
    receiver
}
