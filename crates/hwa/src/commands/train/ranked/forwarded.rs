//! The signal that launchers hand on to all ranks.
//!
//! Open MPI's `mpirun` answers Ctrl-C and `SIGTERM` by ending the ranks, and ends with 1 whatever
//! they say. `SIGUSR1` it hands on, and ends as they do.

use std::thread;

use hwa_train::Interrupt;
use nix::sys::signal::{SigSet, Signal};

use crate::failure::Failure;

fn forwarded() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGUSR1);
    signals
}

/// Keeps the signal for whoever waits for it, in this thread and all that it starts: it would end
/// the process.
pub(super) fn hold() -> Result<(), Failure> {
    forwarded().thread_block().map_err(|error| Failure::Run(error.into()))
}

/// Interrupts when the signal comes, or has come.
pub(super) fn interrupt_when_forwarded(interrupt: Interrupt) -> Result<(), Failure> {
    let wait = move || {
        while forwarded().wait().is_ok() {
            interrupt.request();
        }
    };
    let thread = thread::Builder::new().name("the signals".to_owned());
    thread.spawn(wait).map(drop).map_err(|error| Failure::Run(error.into()))
}
