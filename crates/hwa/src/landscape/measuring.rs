//! Measuring the points of a view, and keeping what was measured.
//!
//! Every reading is a line of `points.jsonl`, written as it comes: an interrupted landscape goes on
//! where it was. The first line says what the readings are of.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hwa_core::Weights;
use hwa_data::Batch;
use hwa_store::StoreError;
use hwa_study::{Reading, StudyError, Survey};
use hwa_train::Tally;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::view::View;
use crate::arguments::Split;
use crate::counting::{Counting, interrupt};
use crate::failure::Failure;
use crate::output::tell;
use crate::studied::Studied;

const FILE: &str = "points.jsonl";
/// The relative standard error at which re-estimation of statistics stops.
const TOLERANCE: f64 = 0.01;
/// How often a log tells how far it is.
const PAUSE: Duration = Duration::from_secs(20);

/// How points are measured.
pub(crate) struct Measuring<'a> {
    pub(crate) studied: &'a Studied,
    pub(crate) splits: &'a [Split],
    /// Images of each split, and at most so many for statistics.
    pub(crate) images: NonZeroUsize,
    pub(crate) threads: Option<NonZeroUsize>,
    /// Where readings are kept.
    pub(crate) folder: &'a Path,
}

/// A view that was measured.
pub(crate) struct Landscape {
    pub(crate) view: View,
    /// What was measured at the points, row by row.
    pub(crate) points: Vec<Reading>,
    /// What was measured of the marked weights themselves.
    pub(crate) marks: Vec<Reading>,
    /// And of their projections.
    pub(crate) shadows: Vec<Reading>,
    /// The names of the splits, in the order of the readings.
    pub(crate) splits: Vec<&'static str>,
    /// How many images of each.
    pub(crate) images: Vec<u64>,
}

/// Measures what has not been measured yet.
pub(crate) fn measure(view: View, how: &Measuring<'_>) -> Result<Landscape, Failure> {
    let (points, marks) = (view.num_points(), view.marks.len());
    let total = points + 2 * marks;
    let identity = identity(&view, how)?;
    let mut notebook = Notebook::open(how.folder, &identity, total)?;
    let missing: Vec<usize> = (0..total).filter(|i| notebook.readings[*i].is_none()).collect();
    let stop = interrupt()?;
    let cancelled = || stop.load(std::sync::atomic::Ordering::Relaxed);
    if !missing.is_empty() {
        let statistics = how.studied.statistics(how.images)?;
        let mut splits: Vec<Vec<Batch>> = Vec::new();
        for split in how.splits {
            splits.push(how.studied.images(*split, Some(how.images))?);
        }
        let threads = how.threads.or_else(|| std::thread::available_parallelism().ok());
        let survey = Survey {
            build: &|| how.studied.blank(),
            statistics: &statistics,
            tolerance: TOLERANCE,
            splits: &splits,
            threads: threads.unwrap_or(NonZeroUsize::MIN),
            cancelled: &cancelled,
        };
        let mut progress = Progress::new(total - missing.len(), total);
        survey.measure(
            &missing,
            |point| weights(&view, point),
            |point, reading| {
                notebook.add(point, reading)?;
                progress.one_more();
                Ok::<(), Failure>(())
            },
        )?;
    }
    let readings: Option<Vec<Reading>> = notebook.readings.into_iter().collect();
    let Some(mut readings) = readings else {
        let advice = "the same command goes on with it".to_owned();
        return Err(Failure::Cancelled { advice });
    };
    let shadows = readings.split_off(points + marks);
    let marks = readings.split_off(points);
    let images = readings.first().map_or_else(Vec::new, |reading: &Reading| {
        reading.splits.iter().map(|tally: &Tally| tally.images).collect()
    });
    let splits = how.splits.iter().map(|split| split.word()).collect();
    Ok(Landscape { view, points: readings, marks, shadows, splits, images })
}

/// The weights of a point: of the view, marked, or projected.
fn weights(view: &View, point: usize) -> Result<Weights, StudyError> {
    let Some(marked) = point.checked_sub(view.num_points()) else {
        return view.frame.at(&view.coordinates(point));
    };
    match view.marks.get(marked) {
        Some(marked) => Ok(marked.weights.clone()),
        None => view.frame.at(&view.marks[marked - view.marks.len()].place.at),
    }
}

/// What readings are of: if any of it differs, they are of something else.
fn identity(view: &View, how: &Measuring<'_>) -> Result<Value, Failure> {
    let studied = how.studied;
    let mut corners = Vec::new();
    for point in [0, view.columns.len() - 1, view.num_points() - 1] {
        corners.push(digest(&weights(view, point)?));
    }
    let marks: Vec<Value> = view
        .marks
        .iter()
        .map(|marked| json!({ "name": marked.name, "weights": digest(&marked.weights) }))
        .collect();
    let splits: Vec<&str> = how.splits.iter().map(|split| split.word()).collect();
    Ok(json!({
        "version": 1,
        "view": view.title,
        "columns": view.columns.len(),
        "rows": view.rows.len(),
        "corners": corners,
        "marks": marks,
        "network": studied.spec.to_string(),
        "batch": studied.batch,
        "images": how.images,
        "splits": splits,
        "train": studied.source.splits.train.len(),
        "seed": studied.seed,
    }))
}

/// A checksum of all elements.
fn digest(weights: &Weights) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for (name, tensor) in weights.iter() {
        hasher.update(name.as_bytes());
        for value in tensor.values().to_f64() {
            hasher.update(&value.to_le_bytes());
        }
    }
    hasher.finalize()
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    point: usize,
    reading: Written,
}

/// A reading as JSON has it, which knows no NaN.
#[derive(Serialize, Deserialize)]
struct Written {
    statistics: hwa_train::Recalibration,
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
        let statistics = hwa_train::Recalibration { relative_error, ..statistics };
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
struct Notebook {
    path: PathBuf,
    file: File,
    readings: Vec<Option<Reading>>,
}

impl Notebook {
    fn open(folder: &Path, identity: &Value, total: usize) -> Result<Self, Failure> {
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
        std::io::Seek::seek(&mut notebook.file, std::io::SeekFrom::End(0))
            .map_err(StoreError::io("write", &notebook.path))?;
        if whole == 0 {
            notebook.write(identity)?;
        }
        Ok(notebook)
    }

    fn add(&mut self, point: usize, reading: Reading) -> Result<(), Failure> {
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

/// How far it is: a bar on a terminal, a line now and then elsewhere.
struct Progress {
    bar: Counting,
    before: usize,
    done: usize,
    total: usize,
    began: Instant,
    told: Instant,
}

impl Progress {
    fn new(before: usize, total: usize) -> Self {
        let now = Instant::now();
        let bar = Counting::new("points");
        if before > 0 {
            tell(format_args!("{before} of {total} points were measured before"));
        }
        Self { bar, before, done: before, total, began: now, told: now }
    }

    fn one_more(&mut self) {
        self.done += 1;
        self.bar.show(self.done as u64, Some(self.total as u64));
        if !self.bar.is_shown() && self.told.elapsed() >= PAUSE {
            self.told = Instant::now();
            let each = self.began.elapsed().as_secs_f64() / (self.done - self.before) as f64;
            let left = each * (self.total - self.done) as f64;
            let (done, total) = (self.done, self.total);
            tell(format_args!("{done} of {total} points, about {} left", spoken(left)));
        }
    }
}

fn spoken(seconds: f64) -> String {
    match seconds.round() as u64 {
        0..100 => format!("{seconds:.0} s"),
        100..6000 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(loss: f64) -> Reading {
        let tally = Tally { images: 4, top1: 2, top5: 3, loss };
        Reading { statistics: hwa_train::Recalibration::default(), splits: vec![tally] }
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
