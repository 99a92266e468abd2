//! What a fetch tells while it runs, and how it is told to stop.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::FetchError;

/// How long anything waits before it looks at the flag again. A cancellation is to be
/// noticed within a second.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// What a fetch is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Bytes are coming in.
    Download,
    /// A checksum is being computed.
    Verify,
    /// An archive is being unpacked, or its pictures are being turned into records.
    Unpack,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Download => "download",
            Self::Verify => "verify",
            Self::Unpack => "unpack",
        })
    }
}

/// How far a fetch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// What is being done.
    pub phase: Phase,
    /// The file it is done to.
    pub name: &'a str,
    /// Bytes of the file that are done, those of an earlier attempt included.
    pub done: u64,
    /// Bytes of the file, where they are known.
    pub total: Option<u64>,
}

/// Who follows a fetch, and may stop it.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Called many times a second, always from the thread that fetches.
    pub progress: &'a dyn Fn(Progress<'_>),
    /// Set to stop. What was downloaded so far is kept, for the next attempt to go on from.
    pub cancel: &'a AtomicBool,
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("cancel", self.cancel).finish_non_exhaustive()
    }
}

impl Watch<'_> {
    pub(crate) fn report(&self, phase: Phase, name: &str, done: u64, total: Option<u64>) {
        (self.progress)(Progress { phase, name, done, total });
    }

    /// An error once the fetch is to stop.
    pub(crate) fn go_on(&self) -> Result<(), FetchError> {
        if self.cancel.load(Ordering::Relaxed) { Err(FetchError::Cancelled) } else { Ok(()) }
    }

    /// Waits, unless the fetch is to stop.
    pub(crate) fn pause(&self, time: Duration) -> Result<(), FetchError> {
        let begun = Instant::now();
        while let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            self.go_on()?;
            thread::sleep(left.min(TICK));
        }
        self.go_on()
    }
}
