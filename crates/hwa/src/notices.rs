//! What the libraries warn of, said to the person who watches.
//!
//! Warnings come by the `log` crate, each of them once in a process. Those of other
//! libraries are not for the person who trains.

use std::sync::OnceLock;

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::output::tell;
use crate::terminal::Voice;

/// Says from now on what the libraries of this project warn of.
pub(crate) fn show(voice: Voice) {
    NOTICES.voice.get_or_init(|| voice);
    // An error is a logger that is there already, and then it is this one.
    if log::set_logger(&NOTICES).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

/// Says it as one of several processes, whose lines come together.
#[cfg(feature = "mpi")]
pub(crate) fn show_of(who: String) {
    NOTICES.who.get_or_init(|| who);
    show(Voice::new(true));
}

static NOTICES: Notices = Notices { voice: OnceLock::new(), who: OnceLock::new() };

struct Notices {
    voice: OnceLock<Voice>,
    /// Which of several processes this is.
    who: OnceLock<String>,
}

impl Log for Notices {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("hwa") && metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let who = self.who.get().map_or(String::new(), |who| format!("{who}: "));
            let line = format!("note: {who}{}", record.args());
            self.voice.get().map_or_else(|| tell(&line), |voice| voice.say(&line));
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_this_project_are_shown_and_no_others() {
        let shown = |target, level| {
            NOTICES.enabled(&Metadata::builder().target(target).level(level).build())
        };
        assert!(shown("hwa_nn::recording", Level::Warn));
        assert!(!shown("hwa_nn::recording", Level::Info));
        assert!(!shown("burn_flex", Level::Warn));
    }
}
