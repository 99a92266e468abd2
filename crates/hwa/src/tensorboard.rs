//! A run's events for TensorBoard, as they happen.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use hwa_report::tensorboard::{EventFile, judged, scalars};
use hwa_train::{Event, Observer};

use crate::output::tell;

/// What the names of its files begin and end with.
const PREFIX: &str = "events.out.tfevents.";
const SUFFIX: &str = ".hwa";

/// Writes `tensorboard/` in a run directory, beside another observer.
///
/// The log of a resumed run is cut to its state, and so is this: the file is written anew from
/// the log. A file that cannot be written is told of once, and is no reason not to train.
pub(crate) struct TensorBoard<O> {
    observer: O,
    run: PathBuf,
    file: Option<EventFile<File>>,
    /// The steps at the ends of cycles.
    steps: BTreeMap<usize, u64>,
}

impl<O: Observer> TensorBoard<O> {
    /// For the run in this folder.
    pub(crate) fn new(observer: O, run: &Path) -> Self {
        Self { observer, run: run.to_owned(), file: None, steps: BTreeMap::new() }
    }

    /// Begins the file, with what the log has already.
    fn begin(&mut self) -> io::Result<()> {
        let folder = self.run.join("tensorboard");
        fs::create_dir_all(&folder)?;
        let before = ours(&folder)?;
        let path = folder.join(format!("{PREFIX}{}{SUFFIX}", now() as u64));
        self.file = Some(EventFile::new(File::create(&path)?, now())?);
        self.steps.clear();
        let log = match self.run.join("events.jsonl") {
            path if path.exists() => fs::read_to_string(path)?,
            _ => String::new(),
        };
        let events: Vec<Event> =
            log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let elapsed = |event: &Event| match event {
            Event::CycleEnded(ended) => Some(ended.time.elapsed),
            _ => None,
        };
        // What was trained before ended just now, as far as its own clock goes.
        let last = events.iter().rev().find_map(elapsed).unwrap_or(0.0);
        let now = now();
        let mut at = now - last;
        for event in &events {
            at = elapsed(event).map_or(at, |elapsed| now - (last - elapsed));
            self.write(event, at)?;
        }
        // Only when there is another.
        for old in before.into_iter().filter(|old| *old != path) {
            fs::remove_file(old)?;
        }
        Ok(())
    }

    fn write(&mut self, event: &Event, at: f64) -> io::Result<()> {
        if let Event::CycleEnded(ended) = event {
            self.steps.insert(ended.cycle, ended.step);
        }
        let found = match event {
            Event::Judged(verdict) => {
                let step = self.steps.get(&verdict.cycle).copied();
                step.map(|step| (step, judged(verdict)))
            }
            other => scalars(other),
        };
        match (&mut self.file, found) {
            (Some(file), Some((step, scalars))) => file.add(step, at, &scalars),
            _ => Ok(()),
        }
    }
}

impl<O: Observer> Observer for TensorBoard<O> {
    fn observe(&mut self, event: &Event) {
        self.observer.observe(event);
        let written = match event {
            Event::Started(_) | Event::Resumed { .. } => self.begin(),
            other => self.write(other, now()),
        };
        if let Err(error) = written {
            let folder = self.run.join("tensorboard");
            tell(format_args!("{} is not written any more: {error}", folder.display()));
            self.file = None;
        }
    }
}

/// The files in a folder that were written here.
fn ours(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let is_ours = |name: &str| name.starts_with(PREFIX) && name.ends_with(SUFFIX);
    let paths = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    Ok(paths.filter(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(is_ours)).collect())
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
