//! Writing to people and pipes.
//!
//! A reader that went away (`| head`, a closed terminal) is no reason to stop
//! training or to fail, so errors of writing are passed over; the standard
//! macros would panic.

use std::fmt::Display;
use std::io::{self, Write};

/// A line for the person who watches.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A line of the result.
pub(crate) fn give(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}
