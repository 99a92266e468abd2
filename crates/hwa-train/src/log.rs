//! `events.jsonl`: one event per line, appended as it happens.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::TrainError;
use crate::event::Event;

/// The recorded events of a run.
#[derive(Debug)]
pub(crate) struct EventLog {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl EventLog {
    /// Opens the log and cuts it to its first `bytes`: what a resumed run goes on
    /// from. What was written later happens again.
    pub(crate) fn open(path: &Path, bytes: u64) -> Result<Self, TrainError> {
        let open = || -> io::Result<(File, u64)> {
            let mut options = File::options();
            let file = options.create(true).truncate(false).read(true).write(true).open(path)?;
            let found = file.metadata()?.len();
            Ok((file, found))
        };
        let (mut file, found) = open().map_err(|source| Self::error(path, source))?;
        if found < bytes {
            let (path, expected) = (path.to_owned(), bytes);
            return Err(TrainError::EventsShort { path, expected, found });
        }
        let mut cut = || -> io::Result<u64> {
            file.set_len(bytes)?;
            file.seek(SeekFrom::End(0))
        };
        cut().map_err(|source| Self::error(path, source))?;
        Ok(Self { path: path.to_owned(), file, bytes })
    }

    /// Adds an event to a log that nobody has open.
    pub(crate) fn append(path: &Path, event: &Event) -> Result<(), TrainError> {
        let length = std::fs::metadata(path).map_err(|source| Self::error(path, source))?.len();
        Self::open(path, length)?.record(event)
    }

    /// Appends an event.
    pub(crate) fn record(&mut self, event: &Event) -> Result<(), TrainError> {
        let mut line =
            serde_json::to_vec(event).map_err(|e| Self::error(&self.path, io::Error::from(e)))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|e| Self::error(&self.path, e))?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// The log's length so far, all of it on the disk: a state that names this
    /// length must not survive a power failure that the log does not.
    pub(crate) fn synced_bytes(&self) -> Result<u64, TrainError> {
        self.file.sync_data().map_err(|e| Self::error(&self.path, e))?;
        Ok(self.bytes)
    }

    fn error(path: &Path, source: io::Error) -> TrainError {
        TrainError::Events { path: path.to_owned(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_log_forgets_what_happens_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let event = |cycle| Event::StoppedEarly { cycle };
        let mut log = EventLog::open(&path, 0).unwrap();
        log.record(&event(1)).unwrap();
        let first = log.synced_bytes().unwrap();
        log.record(&event(2)).unwrap();
        let mut log = EventLog::open(&path, first).unwrap();
        log.record(&event(3)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let one = r#"{"event":"stopped_early","cycle":1}"#;
        let three = r#"{"event":"stopped_early","cycle":3}"#;
        assert_eq!(text, format!("{one}\n{three}\n"));
        let error = EventLog::open(&path, 10_000).unwrap_err().to_string();
        assert!(error.contains("the saved state expects at least 10000"), "{error}");
    }
}
