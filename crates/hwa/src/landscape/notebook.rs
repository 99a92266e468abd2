//! Keeping what was measured.
//!
//! Every reading is a line of `points.jsonl`, written as it comes: an interrupted landscape goes on
//! where it was. The first line says what the readings are of.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use hwa_store::StoreError;
use hwa_study::Reading;
use hwa_train::{Recalibration, Tally};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;

const FILE: &str = "points.jsonl";

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    point: usize,
    reading: Written,
}

/// A reading as JSON has it, which knows no NaN.
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
    /// Nothing if it is not finite.
    loss: Option<f64>,
}

impl From<&Reading> for Written {
    fn from(reading: &Reading) -> Self {
        let written = |tally: &Tally| {
            let Tally { images, top1, top5, loss } = *tally;
            WrittenTally { images, top1, top5, loss: loss.is_finite().then_some(loss) }
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
            Tally { images, top1, top5, loss: loss.unwrap_or(f64::NAN) }
        };
        let splits = written.splits.into_iter().map(tally).collect();
        Self { statistics: written.statistics, splits }
    }
}

/// What was measured so far.
pub(super) struct Notebook {
    path: PathBuf,
    file: File,
    /// By the number of the point.
    pub(super) readings: Vec<Option<Reading>>,
}

impl Notebook {
    /// Reads what is there, and refuses what is of something else.
    pub(super) fn open(folder: &Path, identity: &Value, total: usize) -> Result<Self, Failure> {
        fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
        let path = folder.join(FILE);
        let mut readings: Vec<Option<Reading>> = (0..total).map(|_| None).collect();
        let mut whole = 0;
        if path.is_file() {
            let file = File::open(&path).map_err(StoreError::io("read", &path))?;
            let mut reader = BufReader::new(file);
            let mut line = String::new();
            let mut first = true;
            // A line without an end, or that is none, is where the writer was killed.
            while reader.read_line(&mut line).map_err(StoreError::io("read", &path))? > 0
                && line.ends_with('\n')
            {
                if first {
                    same(&path, identity, &line)?;
                } else {
                    let Ok(Line { point, reading }) = serde_json::from_str(&line) else { break };
                    if let Some(place) = readings.get_mut(point) {
                        *place = Some(reading.into());
                    }
                }
                whole += line.len() as u64;
                first = false;
                line.clear();
            }
        }
        let file = File::options().create(true).write(true).truncate(false).open(&path);
        let file = file.map_err(StoreError::io("open", &path))?;
        file.set_len(whole).map_err(StoreError::io("write", &path))?;
        let mut notebook = Self { path, file, readings };
        notebook.file.seek(SeekFrom::End(0)).map_err(StoreError::io("write", &notebook.path))?;
        if whole == 0 {
            notebook.write(identity)?;
        }
        Ok(notebook)
    }

    /// Adds what was measured at a point.
    pub(super) fn add(&mut self, point: usize, reading: Reading) -> Result<(), Failure> {
        let line = serde_json::to_value(Line { point, reading: Written::from(&reading) })?;
        self.write(&line)?;
        self.readings[point] = Some(reading);
        Ok(())
    }

    /// In one piece, so that a kill leaves whole lines.
    fn write(&mut self, line: &Value) -> Result<(), Failure> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        Ok(written.map_err(StoreError::io("write", &self.path))?)
    }
}

/// Refuses readings of something else, by the first thing that differs.
fn same(path: &Path, identity: &Value, line: &str) -> Result<(), Failure> {
    let found: Value = serde_json::from_str(line).unwrap_or_default();
    if found == *identity {
        return Ok(());
    }
    let keys = identity.as_object().into_iter().flatten();
    let other = keys.into_iter().find(|(key, value)| found.get(key) != Some(value));
    let what = match other {
        Some((key, value)) if found.get(key).is_some() => {
            format!("`{key}` is {} there, expected {value}", found[key])
        }
        Some((key, _)) => format!("`{key}` is missing there"),
        None => "it has more than is known here".to_owned(),
    };
    Err(Failure::usage(format!(
        "{} is of another landscape: {what}; -o chooses another folder",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
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
        let path = folder.path().join(FILE);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{{\"point\":1,\"rea")).unwrap();
        let mut notebook = Notebook::open(folder.path(), &identity, 3).unwrap();
        assert_eq!(notebook.readings[2], Some(reading(1.5)));
        assert!(notebook.readings[0].as_ref().unwrap().splits[0].loss.is_nan());
        assert!(notebook.readings[1].is_none());
        notebook.add(1, reading(2.0)).unwrap();
        drop(notebook);
        let again = Notebook::open(folder.path(), &identity, 3).unwrap();
        assert!(again.readings.iter().all(Option::is_some));
    }

    #[test]
    fn readings_of_something_else_are_refused_by_what_differs() {
        let folder = tempfile::tempdir().unwrap();
        drop(Notebook::open(folder.path(), &json!({ "view": "a", "seed": 1 }), 1).unwrap());
        let other = Notebook::open(folder.path(), &json!({ "view": "a", "seed": 2 }), 1);
        let text = other.err().unwrap().to_string();
        assert!(text.contains("`seed` is 1 there, expected 2"), "{text}");
        fs::write(folder.path().join(FILE), "no JSON\n").unwrap();
        assert!(Notebook::open(folder.path(), &json!({ "view": "a" }), 1).is_err());
    }
}
