//! Where a run is shown: above bars on a terminal, as plain lines elsewhere.
//! Always on standard error, so that standard output is free for results.

use std::io::{self, IsTerminal};

use console::Term;
use indicatif::{MultiProgress, ProgressDrawTarget};

use crate::output::tell;
use crate::table::wrapped;

/// How often bars are drawn in a second, at most.
const DRAWN: u8 = 15;

/// The columns of the terminal that results are shown on; nothing, if they go elsewhere.
pub(crate) fn width_of_results() -> Option<usize> {
    io::stdout().is_terminal().then(|| usize::from(Term::stdout().size().1))
}

/// A place for lines, and for bars if it is a terminal. Clones share it.
#[derive(Clone)]
pub(crate) struct Voice {
    bars: Option<MultiProgress>,
}

impl Voice {
    /// Standard error; `plain` forbids bars.
    pub(crate) fn new(plain: bool) -> Self {
        let bars = (!plain && io::stderr().is_terminal())
            .then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWN)));
        Self { bars }
    }

    /// Says a line, above the bars.
    pub(crate) fn say(&self, line: &str) {
        match &self.bars {
            // A terminal that went away is no reason to stop training.
            Some(bars) => drop(bars.println(wrapped(line, self.width()))),
            None => tell(line),
        }
    }

    /// Where bars are added, if there may be some.
    pub(crate) fn bars(&self) -> Option<&MultiProgress> {
        self.bars.as_ref()
    }

    /// The columns that a bar has.
    pub(crate) fn width(&self) -> usize {
        usize::from(Term::stderr().size().1)
    }
}
