//! Work that counts: a bar on a terminal, nothing elsewhere, and Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;
use crate::scoring;

/// How often the bar is drawn in a second, at most.
const DRAWN: u8 = 15;

/// How often a line tells the progress where there is no terminal.
pub(crate) const A_LINE_EVERY: Duration = Duration::from_secs(15);

/// A bar on standard error.
pub(crate) struct Counting {
    bar: ProgressBar,
}

impl Counting {
    /// Counts things of this name.
    pub(crate) fn new(what: &str) -> Self {
        let bar = ProgressBar::no_length();
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWN));
        let template = format!("{{msg}} {{wide_bar}} {{pos}}/{{len}} {what}, {{eta}} left");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// Counts bytes.
    pub(crate) fn bytes() -> Self {
        let counting = Self::new("");
        let template = "{msg} {wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            counting.bar.set_style(style);
        }
        counting
    }

    /// Whether there is a terminal to see it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// What is being counted now.
    pub(crate) fn name(&self, name: &str) {
        if self.bar.message() != name {
            self.bar.set_message(name.to_owned());
            self.bar.reset_eta();
        }
    }

    /// Shows how much is done, and of how much.
    pub(crate) fn show(&self, done: u64, total: Option<u64>) {
        if let Some(total) = total.filter(|total| Some(*total) != self.bar.length()) {
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.end();
    }
}

/// Becomes true at the first Ctrl-C; the second leaves at once, and takes a command that is waited
/// for along.
pub(crate) fn interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let handler = move || {
        if asked.swap(true, Ordering::Relaxed) {
            scoring::end_command();
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::Run(error.into()))?;
    Ok(stop)
}
