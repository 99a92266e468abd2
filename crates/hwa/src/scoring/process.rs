//! Running somebody's command: in a group of its own, that is ended as a whole.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether it has ended.
const PATROL: Duration = Duration::from_millis(10);
/// What it has to end by itself when it is asked to.
const GRACE: Duration = Duration::from_secs(2);
/// Of what it says, so many bytes are kept: the last.
const KEPT: usize = 16 << 10;

/// How a command ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By itself.
    Exited {
        status: ExitStatus,
        /// The end of what it gave.
        stdout: String,
        /// The end of what it told.
        stderr: String,
    },
    /// It took too long and was ended.
    TimedOut {
        /// The end of what it told.
        stderr: String,
    },
    /// Nobody wants to know any more, and it was ended.
    Cancelled,
}

/// Runs a program to its end, or to the end of patience.
pub(super) fn run(
    words: &[String],
    patience: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> std::io::Result<Ended> {
    let (program, arguments) = words.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    apart(&mut command);
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().map(tail);
    let stderr = child.stderr.take().map(tail);
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if cancelled() || began.elapsed() >= patience {
            end(&mut child);
            break None;
        }
        thread::sleep(PATROL);
    };
    let id = child.id();
    let collect = |said: Option<Receiver<Vec<u8>>>| collected(said, id);
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    Ok(match status {
        Some(status) => Ended::Exited { status, stdout, stderr },
        None if cancelled() => Ended::Cancelled,
        None => Ended::TimedOut { stderr },
    })
}

/// Reads to the end in a thread, and keeps the last of it.
fn tail(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = from.read(&mut piece) {
            kept.extend_from_slice(&piece[..count]);
            if kept.len() > 2 * KEPT {
                kept.drain(..kept.len() - KEPT);
            }
        }
        // If nobody listens any more, nobody wants to know.
        let _ = sender.send(kept);
    });
    receiver
}

/// What was read. A pipe that stays open belongs to a process that the command left behind,
/// which is ended too.
fn collected(said: Option<Receiver<Vec<u8>>>, id: u32) -> String {
    let Some(said) = said else { return String::new() };
    let bytes = said.recv_timeout(GRACE).or_else(|_| {
        group::kill(id);
        said.recv_timeout(GRACE)
    });
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

/// Asks the whole group to end, and ends it.
fn end(child: &mut Child) {
    group::ask(child.id());
    let asked = Instant::now();
    while asked.elapsed() < GRACE && matches!(child.try_wait(), Ok(None)) {
        thread::sleep(PATROL);
    }
    group::kill(child.id());
    let _ = child.kill();
    let _ = child.wait();
}

/// A Ctrl-C at the terminal is for the parent alone.
#[cfg(unix)]
fn apart(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn apart(_command: &mut Command) {}

/// The processes that a command has started, and itself.
#[cfg(unix)]
mod group {
    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;

    pub(super) fn ask(id: u32) {
        signal(id, Signal::SIGTERM);
    }

    pub(super) fn kill(id: u32) {
        signal(id, Signal::SIGKILL);
    }

    fn signal(id: u32, signal: Signal) {
        // 0 would be this process's own group, and 1 everybody.
        if let Ok(id @ 2..) = i32::try_from(id) {
            // A group that is gone cannot be ended.
            let _ = killpg(Pid::from_raw(id), signal);
        }
    }
}

#[cfg(not(unix))]
mod group {
    pub(super) fn ask(_id: u32) {}

    pub(super) fn kill(_id: u32) {}
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, patience: u64, cancelled: &(dyn Fn() -> bool + Sync)) -> Ended {
        let words = ["sh", "-c", script].map(str::to_owned);
        run(&words, Duration::from_millis(patience), cancelled).unwrap()
    }

    fn is_alive(pid: &str) -> bool {
        let alive = Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status();
        alive.unwrap().success()
    }

    #[test]
    fn what_it_says_and_how_it_ends_is_kept() {
        let ended = sh("echo one; echo two; echo oh >&2; exit 3", 60_000, &|| false);
        let Ended::Exited { status, stdout, stderr } = ended else { panic!("{ended:?}") };
        assert_eq!(
            (status.code(), stdout.as_str(), stderr.as_str()),
            (Some(3), "one\ntwo\n", "oh\n")
        );
        assert!(run(&["/no/such/program".to_owned()], GRACE, &|| false).is_err());
    }

    #[test]
    fn the_end_of_a_long_speech_is_kept() {
        let ended = sh("head -c 1000000 /dev/zero | tr '\\0' x; echo; echo 7", 60_000, &|| false);
        let Ended::Exited { stdout, .. } = ended else { panic!("{ended:?}") };
        assert!(stdout.ends_with("x\n7\n") && stdout.len() <= 2 * KEPT);
    }

    #[test]
    fn out_of_patience_the_whole_group_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        // A child that does not listen to polite requests.
        let script = format!("(trap '' TERM; sleep 600) & echo $! > {}; wait", file.display());
        let ended = sh(&script, 500, &|| false);
        assert!(matches!(ended, Ended::TimedOut { .. }), "{ended:?}");
        let pid = std::fs::read_to_string(file).unwrap();
        // The system may need a moment to bury it.
        let gone = (0..500).any(|_| {
            thread::sleep(PATROL);
            !is_alive(&pid)
        });
        assert!(gone, "{pid} is alive");
    }

    #[test]
    fn a_process_left_behind_does_not_hold_it_up() {
        let ended = sh("sleep 600 & echo 5", 60_000, &|| false);
        let Ended::Exited { stdout, .. } = ended else { panic!("{ended:?}") };
        assert_eq!(stdout, "5\n");
        let ended = sh("sleep 600", 60_000, &|| true);
        assert!(matches!(ended, Ended::Cancelled), "{ended:?}");
    }
}
