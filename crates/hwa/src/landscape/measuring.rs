//! Measuring the points of a view.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

use hwa_core::Weights;
use hwa_data::Batch;
use hwa_study::{Reading, StudyError, Survey};
use hwa_train::Tally;
use serde_json::{Value, json};

use super::notebook::Notebook;
use super::view::View;
use crate::arguments::Split;
use crate::counting::Counting;
use crate::failure::Failure;
use crate::output::tell;
use crate::shelf::digest;
use crate::studied::{Studied, Views};

/// No error is as small: all images are used at every point, so that points differ by their
/// weights alone.
const TOLERANCE: f64 = 0.0;
/// How often a log tells how far it is.
const PAUSE: Duration = Duration::from_secs(20);

/// How points are measured.
pub(crate) struct Measuring<'a> {
    pub(crate) studied: &'a Studied,
    pub(crate) splits: &'a [Split],
    /// Images of each split. Statistics are from the whole batches that hold so many: 1,000 in
    /// batches of 128 are 1,024.
    pub(crate) images: NonZeroUsize,
    pub(crate) threads: Option<NonZeroUsize>,
    /// Where readings are kept.
    pub(crate) folder: &'a Path,
    /// Whether lines take the place of a bar.
    pub(crate) plain: bool,
    /// Asked before every batch; true ends the work.
    pub(crate) cancelled: &'a (dyn Fn() -> bool + Sync),
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
    let identity = identity(&view, how)?;
    let mut readings = all(points + 2 * marks, identity, how, |point| weights(&view, point))?;
    let shadows = readings.split_off(points + marks);
    let marks = readings.split_off(points);
    let images = readings.first().map_or_else(Vec::new, |reading: &Reading| {
        reading.splits.iter().map(|tally: &Tally| tally.images).collect()
    });
    let splits = how.splits.iter().map(|split| split.word()).collect();
    Ok(Landscape { view, points: readings, marks, shadows, splits, images })
}

/// Measures weights that have not been measured yet, one after the other.
pub(crate) fn measure_each(
    named: &[(String, Weights)],
    how: &Measuring<'_>,
) -> Result<Vec<Reading>, Failure> {
    let mut identity = what(how)?;
    let names = named.iter().map(|(name, weights)| json!([name, digest(weights)]));
    identity["weights"] = names.collect();
    all(named.len(), identity, how, |point| Ok(named[point].1.clone()))
}

fn all(
    total: usize,
    identity: Value,
    how: &Measuring<'_>,
    weights: impl Fn(usize) -> Result<Weights, StudyError> + Sync,
) -> Result<Vec<Reading>, Failure> {
    let mut notebook = Notebook::open(how.folder, &identity, total)?;
    let missing: Vec<usize> = (0..total).filter(|i| notebook.readings[*i].is_none()).collect();
    if !missing.is_empty() {
        let views = if augments(how) { Views::Augmented } else { Views::Plain };
        let statistics = how.studied.shuffled(Some(how.images), views)?;
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
            cancelled: how.cancelled,
        };
        let mut progress = Progress::new(total - missing.len(), total, how.plain);
        survey.measure(&missing, weights, |point, reading| {
            notebook.add(point, reading)?;
            progress.one_more();
            Ok::<(), Failure>(())
        })?;
    }
    let readings: Option<Vec<Reading>> = notebook.readings.into_iter().collect();
    readings.ok_or_else(|| {
        let advice = "the same command goes on with it".to_owned();
        Failure::Cancelled { advice }
    })
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
    let mut corners = Vec::new();
    for point in [0, view.columns.len() - 1, view.num_points() - 1] {
        corners.push(digest(&weights(view, point)?));
    }
    let marks: Vec<Value> = view
        .marks
        .iter()
        .map(|marked| json!({ "name": marked.name, "weights": digest(&marked.weights) }))
        .collect();
    let mut identity = what(how)?;
    identity["view"] = json!(view.title);
    identity["columns"] = json!(view.columns.len());
    identity["rows"] = json!(view.rows.len());
    identity["corners"] = json!(corners);
    identity["marks"] = json!(marks);
    Ok(identity)
}

/// Whether statistics come from augmented images: as the run's own, and usually.
fn augments(how: &Measuring<'_>) -> bool {
    how.studied.experiment.as_ref().is_none_or(|experiment| experiment.evaluate.augment)
}

/// What all readings depend on.
fn what(how: &Measuring<'_>) -> Result<Value, Failure> {
    // Statistics are from training images, whatever is looked at.
    let used = [&[Split::Train], how.splits].concat();
    Ok(json!({
        "version": 2,
        "of": how.studied.identity(&used)?,
        "augmented": augments(how),
        "images": how.images,
        "splits": how.splits.iter().map(|split| split.word()).collect::<Vec<_>>(),
    }))
}

/// How far it is: a bar on a terminal, a line now and then elsewhere.
struct Progress {
    bar: Option<Counting>,
    before: usize,
    done: usize,
    total: usize,
    began: Instant,
    told: Instant,
}

impl Progress {
    fn new(before: usize, total: usize, plain: bool) -> Self {
        let now = Instant::now();
        let bar = Some(Counting::new("points")).filter(|bar| !plain && bar.is_shown());
        if before > 0 {
            tell(format_args!("{before} of {total} points were measured before"));
        }
        if let Some(bar) = &bar {
            bar.show(before as u64, Some(total as u64));
            // What was there before tells nothing of the speed.
            bar.name("measuring");
        }
        Self { bar, before, done: before, total, began: now, told: now }
    }

    fn one_more(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.show(self.done as u64, Some(self.total as u64));
        } else if self.told.elapsed() >= PAUSE {
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
