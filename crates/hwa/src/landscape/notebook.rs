//! Keeping what was measured.
//!
//! Every reading is a line of `points-<number>.jsonl`, written as it comes: an interrupted landscape
//! goes on where it was. The first line says what the readings are of, and the number is its
//! checksum: landscapes that differ in anything do not share a file.

use std::path::Path;

use hwa_study::Reading;
use hwa_train::{Recalibration, Tally};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;
use crate::journal::Journal;

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    point: usize,
    reading: Written,
}

/// A reading as JSON has it, which knows no NaN and no infinity.
#[derive(Serialize, Deserialize)]
struct Written {
    statistics: Recalibration,
    splits: Vec<WrittenTally>,
}

#[derive(Serialize, Deserialize)]
struct WrittenTally {
    images: u64,
    top1: u64,
    top5: u64,
    #[serde(with = "hwa_core::float")]
    loss: f64,
}

impl From<&Reading> for Written {
    fn from(reading: &Reading) -> Self {
        let written = |tally: &Tally| {
            let Tally { images, top1, top5, loss } = *tally;
            WrittenTally { images, top1, top5, loss }
        };
        let statistics = reading.statistics;
        let relative_error = statistics.relative_error.filter(|error| error.is_finite());
        let statistics = Recalibration { relative_error, ..statistics };
        Self { statistics, splits: reading.splits.iter().map(written).collect() }
    }
}

impl From<Written> for Reading {
    fn from(written: Written) -> Self {
        let tally = |tally: WrittenTally| {
            let WrittenTally { images, top1, top5, loss } = tally;
            Tally { images, top1, top5, loss }
        };
        let splits = written.splits.into_iter().map(tally).collect();
        Self { statistics: written.statistics, splits }
    }
}

/// What was measured so far.
pub(super) struct Notebook {
    journal: Journal,
    /// By the number of the point.
    pub(super) readings: Vec<Option<Reading>>,
}

impl Notebook {
    /// What was measured of this before. Other landscapes in the folder have other files.
    pub(super) fn open(folder: &Path, identity: &Value, total: usize) -> Result<Self, Failure> {
        let number = crc32fast::hash(identity.to_string().as_bytes());
        let path = folder.join(format!("points-{number:08x}.jsonl"));
        let (journal, lines) = Journal::open::<Line>(&path, identity)?;
        let mut readings: Vec<Option<Reading>> = (0..total).map(|_| None).collect();
        for Line { point, reading } in lines {
            if let Some(place) = readings.get_mut(point) {
                *place = Some(reading.into());
            }
        }
        Ok(Self { journal, readings })
    }

    /// Adds what was measured at a point.
    pub(super) fn add(&mut self, point: usize, reading: Reading) -> Result<(), Failure> {
        self.journal.add(&Line { point, reading: Written::from(&reading) })?;
        self.readings[point] = Some(reading);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    fn reading(loss: f64) -> Reading {
        let tally = Tally { images: 4, top1: 2, top5: 3, loss };
        Reading { statistics: Recalibration::default(), splits: vec![tally] }
    }

    #[test]
    fn a_notebook_goes_on_where_it_was_torn() {
        let folder = tempfile::tempdir().unwrap();
        let identity = json!({ "view": "a", "seed": 1 });
        let mut notebook = Notebook::open(folder.path(), &identity, 3).unwrap();
        notebook.add(2, reading(1.5)).unwrap();
        notebook.add(0, reading(f64::NAN)).unwrap();
        drop(notebook);
        let path = only_file(folder.path());
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{{\"point\":1,\"rea")).unwrap();
        let mut notebook = Notebook::open(folder.path(), &identity, 3).unwrap();
        assert_eq!(notebook.readings[2], Some(reading(1.5)));
        assert!(notebook.readings[0].as_ref().unwrap().splits[0].loss.is_nan());
        assert!(notebook.readings[1].is_none());
        notebook.add(1, reading(f64::INFINITY)).unwrap();
        drop(notebook);
        let again = Notebook::open(folder.path(), &identity, 3).unwrap();
        assert!(again.readings.iter().all(Option::is_some));
        assert_eq!(again.readings[1], Some(reading(f64::INFINITY)));
    }

    #[test]
    fn other_landscapes_have_other_files_and_each_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let first = Notebook::open(folder.path(), &json!({ "view": "a", "seed": 1 }), 1).unwrap();
        drop(Notebook::open(folder.path(), &json!({ "view": "a", "seed": 2 }), 1).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        let again = Notebook::open(folder.path(), &json!({ "view": "a", "seed": 1 }), 1);
        assert!(again.err().unwrap().to_string().contains("in use"));
        drop(first);
        assert!(Notebook::open(folder.path(), &json!({ "view": "a", "seed": 1 }), 1).is_ok());
    }

    #[test]
    fn a_file_that_is_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let identity = json!({ "view": "a" });
        drop(Notebook::open(folder.path(), &identity, 1).unwrap());
        let path = only_file(folder.path());
        fs::write(&path, "no JSON\n").unwrap();
        assert!(Notebook::open(folder.path(), &identity, 1).is_err());
        assert_eq!(fs::read_to_string(path).unwrap(), "no JSON\n");
    }

    fn only_file(folder: &Path) -> PathBuf {
        fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
    }
}
