//! Where a run is shown: above bars on a terminal, as plain lines elsewhere.
//! Always on standard error, so that standard output is free for results.

use std::io::{self, IsTerminal};

use console::Term;
use indicatif::{MultiProgress, ProgressDrawTarget, TermLike};

use crate::output::tell;

/// Columns that the bars leave free. A bar fills its line, and the `^C` that a
/// terminal echoes would start a new one: the bars could not find themselves again.
const MARGIN: u16 = 5;

/// How often bars are drawn in a second, at most.
const DRAWN: u8 = 15;

/// A place for lines, and for bars if it is a terminal. Clones share it.
#[derive(Clone)]
pub(crate) struct Voice {
    bars: Option<MultiProgress>,
}

impl Voice {
    /// Standard error; `plain` forbids bars.
    pub(crate) fn new(plain: bool) -> Self {
        let bars = (!plain && io::stderr().is_terminal()).then(|| {
            let terminal = Box::new(Narrow(Term::buffered_stderr()));
            MultiProgress::with_draw_target(ProgressDrawTarget::term_like_with_hz(terminal, DRAWN))
        });
        Self { bars }
    }

    /// Says a line, above the bars.
    pub(crate) fn say(&self, line: &str) {
        match &self.bars {
            // A terminal that went away is no reason to stop training.
            Some(bars) => drop(bars.println(line)),
            None => tell(line),
        }
    }

    /// Where bars are added, if there may be some.
    pub(crate) fn bars(&self) -> Option<&MultiProgress> {
        self.bars.as_ref()
    }

    /// The columns that a bar has.
    pub(crate) fn width(&self) -> usize {
        usize::from(Narrow(Term::stderr()).width())
    }
}

/// A terminal without its last columns.
#[derive(Debug)]
struct Narrow(Term);

impl TermLike for Narrow {
    fn width(&self) -> u16 {
        self.0.size().1.saturating_sub(MARGIN).max(1)
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.0.write_line(line)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}
