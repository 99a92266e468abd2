//! Running somebody's command: in a group of its own, that is ended as a whole.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether it has ended.
const PATROL: Duration = Duration::from_millis(10);
/// What it has to end by itself when it is asked to.
const GRACE: Duration = Duration::from_secs(2);
/// Of what it says, so many bytes are kept: the last.
const KEPT: usize = 16 << 10;

/// The command that is being waited for, or 0.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Ends the command that is being waited for at once, for whoever leaves without waiting.
pub(crate) fn end_command() {
    group::kill(RUNNING.load(Ordering::SeqCst));
}

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
    words: &[OsString],
    patience: Duration,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> std::io::Result<Ended> {
    let nothing = (OsStr::new(""), &[][..]);
    let (program, arguments) = words.split_first().map_or(nothing, |(p, a)| (p.as_os_str(), a));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    apart(&mut command);
    let mut child = command.spawn()?;
    RUNNING.store(child.id(), Ordering::SeqCst);
    let stdout = child.stdout.take().map(tail);
    let stderr = child.stderr.take().map(tail);
    let began = Instant::now();
    let status = loop {
        if group::has_ended(&mut child)? {
            break Some(bury(&mut child)?);
        }
        if cancelled() || began.elapsed() >= patience {
            end(&mut child);
            break None;
        }
        thread::sleep(PATROL);
    };
    let until = Instant::now() + GRACE;
    let collect = |said: Option<Said>| said.map_or(String::new(), |said| said.by(until));
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    Ok(match status {
        Some(status) => Ended::Exited { status, stdout, stderr },
        None if cancelled() => Ended::Cancelled,
        None => Ended::TimedOut { stderr },
    })
}

/// What a command says, while it says it.
struct Said {
    kept: Arc<Mutex<Vec<u8>>>,
    /// Hears of the end.
    over: Receiver<()>,
}

impl Said {
    /// What there is when all is said, or at that time: a pipe that stays open belongs to a
    /// process that has left the command's group.
    fn by(self, until: Instant) -> String {
        let _ = self.over.recv_timeout(until.saturating_duration_since(Instant::now()));
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// Reads to the end in a thread, and keeps the last of it.
fn tail(mut from: impl Read + Send + 'static) -> Said {
    let (sender, over) = channel();
    let kept = Arc::new(Mutex::new(Vec::new()));
    let said = Said { kept: Arc::clone(&kept), over };
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&piece[..count]);
            let length = kept.len();
            if length > 2 * KEPT {
                kept.drain(..length - KEPT);
            }
        }
        // If nobody listens any more, nobody wants to know.
        let _ = sender.send(());
    });
    said
}

/// Asks the whole group to end, and ends it.
fn end(child: &mut Child) {
    group::ask(child.id());
    let asked = Instant::now();
    while asked.elapsed() < GRACE && matches!(group::has_ended(child), Ok(false)) {
        thread::sleep(PATROL);
    }
    let _ = child.kill();
    let _ = bury(child);
}

/// Ends what is left of the group, and then takes the leader's status: until then no other group
/// can have its number.
fn bury(child: &mut Child) -> std::io::Result<ExitStatus> {
    group::kill(child.id());
    RUNNING.store(0, Ordering::SeqCst);
    child.wait()
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
    use std::process::Child;

    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;

    /// Whether the leader has ended. It is not buried yet, so that its number is still its own.
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    pub(super) fn has_ended(child: &mut Child) -> std::io::Result<bool> {
        use nix::errno::Errno;
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        let id = i32::try_from(child.id()).map_err(std::io::Error::other)?;
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(Pid::from_raw(id)), flags) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => Ok(false),
            Ok(_) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the leader has ended. Here it can only be asked by burying it.
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    pub(super) fn has_ended(child: &mut Child) -> std::io::Result<bool> {
        Ok(child.try_wait()?.is_some())
    }

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
    pub(super) fn has_ended(child: &mut std::process::Child) -> std::io::Result<bool> {
        Ok(child.try_wait()?.is_some())
    }

    pub(super) fn ask(_id: u32) {}

    pub(super) fn kill(_id: u32) {}
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, patience: u64, cancelled: &(dyn Fn() -> bool + Sync)) -> Ended {
        let words = ["sh", "-c", script].map(OsString::from);
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
        assert!(run(&["/no/such/program".into()], GRACE, &|| false).is_err());
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
        assert!(is_gone(&pid), "{pid} is alive");
    }

    /// The system may need a moment to bury it.
    fn is_gone(pid: &str) -> bool {
        (0..500).any(|_| {
            thread::sleep(PATROL);
            !is_alive(pid)
        })
    }

    #[test]
    fn a_process_left_behind_does_not_hold_it_up() {
        // Whether it holds the pipe or not, it is ended with the command.
        for script in ["sleep 600 & echo $!", "sleep 600 >&- 2>&- & echo $!"] {
            let ended = sh(script, 60_000, &|| false);
            let Ended::Exited { stdout, .. } = ended else { panic!("{ended:?}") };
            assert!(is_gone(&stdout), "{stdout} is alive");
        }
        // One that has left the group stays, and the number is there all the same.
        let ended = sh("setsid sleep 8 & echo 5", 60_000, &|| false);
        let Ended::Exited { stdout, .. } = ended else { panic!("{ended:?}") };
        assert_eq!(stdout, "5\n");
        let ended = sh("sleep 600", 60_000, &|| true);
        assert!(matches!(ended, Ended::Cancelled), "{ended:?}");
    }
}
