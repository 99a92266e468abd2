//! Writing to people and pipes.
//!
//! A reader that went away (`| head`, a closed terminal) is no reason to stop
//! training or to fail, so that is passed over; the standard macros would panic. A result that
//! cannot be written for another reason, a full disk say, is a failure when all is done.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

/// Why the result could not be written, if it could not.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// A line for the person who watches.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A line of the result.
pub(crate) fn give(line: impl Display) {
    let mut stdout = io::stdout();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let _ = UNWRITTEN.set(error.to_string());
        }
        _ => {}
    }
}

/// Why a line of the result could not be written, if one could not and its reader is still there.
pub(crate) fn unwritten() -> Option<&'static str> {
    UNWRITTEN.get().map(String::as_str)
}
