//! A survey of a parabola, whose every point is known.
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use hwa_core::{Tensor, Weights};
use hwa_data::{Batch, DataError, ImageShape, Position};
use hwa_study::{Frame, Reading, StudyError, Survey};
use hwa_train::{Recalibration, Replica, ReplicaError, RunningStatistics, State, StepStats, Tally};

/// An image is a number x, its loss (w - x)² and, as batch norm would, the mean of the images that
/// the statistics are of.
#[derive(Default)]
struct Parabola {
    w: f32,
    statistic: f64,
}

fn at(w: f32) -> Weights {
    let mut weights = Weights::new();
    weights.insert("w", Tensor::parameter(vec![1], vec![w]).unwrap()).unwrap();
    weights
}

fn refused<T>() -> Result<T, ReplicaError> {
    Err(ReplicaError::Framework { operation: "this", reason: "nobody asks it".to_owned() })
}

impl Replica for Parabola {
    fn load(&mut self, weights: &Weights) -> Result<(), ReplicaError> {
        self.w = weights.require("w")?.as_f32().unwrap()[0];
        self.statistic = f64::NAN;
        Ok(())
    }
    fn recalibrate(
        &mut self,
        batches: &mut dyn Iterator<Item = Result<Batch, DataError>>,
        _: f64,
    ) -> Result<Recalibration, ReplicaError> {
        let images: Vec<f32> =
            batches.flat_map(|batch| batch.unwrap().images).collect::<Vec<f32>>();
        if images.is_empty() {
            return refused();
        }
        self.statistic = f64::from(images.iter().sum::<f32>()) / images.len() as f64;
        Ok(Recalibration { images: images.len() as u64, relative_error: None })
    }
    fn evaluate(&mut self, batch: &Batch) -> Result<Tally, ReplicaError> {
        let loss = |x: &f32| f64::from((self.w - x).powi(2)) + self.statistic;
        let loss = batch.images.iter().map(loss).sum();
        Ok(Tally { images: batch.len() as u64, top1: 0, top5: 0, loss })
    }
    fn weights(&self) -> Result<Weights, ReplicaError> {
        refused()
    }
    fn gradient(
        &mut self,
        _: &Batch,
        _: Position,
        _: RunningStatistics,
    ) -> Result<(StepStats, Weights), ReplicaError> {
        refused()
    }
    fn descend(&mut self, _: &Weights, _: f64) -> Result<(), ReplicaError> {
        refused()
    }
    fn momentum(&self) -> Result<Weights, ReplicaError> {
        refused()
    }
    fn load_momentum(&mut self, _: &Weights) -> Result<(), ReplicaError> {
        refused()
    }
    fn state(&self) -> Result<State, ReplicaError> {
        refused()
    }
    fn restore(&mut self, _: &State) -> Result<(), ReplicaError> {
        refused()
    }
}

fn batch(images: &[f32]) -> Batch {
    let shape = ImageShape { height: 1, width: 1, channels: 1 };
    Batch { images: images.to_vec(), labels: vec![0; images.len()], shape }
}

type Readings = Vec<(usize, Reading)>;

fn survey(
    threads: usize,
    points: &[usize],
    cancelled: &(dyn Fn() -> bool + Sync),
    mut done: impl FnMut(usize) -> Result<(), StudyError>,
) -> (Readings, Result<(), StudyError>) {
    let (statistics, splits) = ([batch(&[10.0, 20.0])], [vec![batch(&[0.0, 2.0]), batch(&[4.0])]]);
    let survey = Survey {
        build: &|| Ok(Box::<Parabola>::default()),
        statistics: &statistics,
        tolerance: 0.0,
        splits: &splits,
        threads: NonZeroUsize::new(threads).unwrap(),
        cancelled,
    };
    let line = Frame::line(&at(0.0), &at(1.0)).unwrap();
    let mut readings = Vec::new();
    let ended = survey.measure(
        points,
        |point| line.at(&[point as f64]),
        |point, reading| {
            readings.push((point, reading));
            done(point)
        },
    );
    readings.sort_by_key(|(point, _)| *point);
    (readings, ended)
}

#[test]
fn every_point_is_what_it_is_worth_with_statistics_of_its_own() {
    let (readings, ended) = survey(2, &[0, 2, 5], &|| false, |_| Ok(()));
    ended.unwrap();
    // Images 0, 2, 4 and the mean 15 of the statistics' images, three times: at 2 it is
    // 4 + 0 + 4 + 45.
    let losses: Vec<(usize, f64)> =
        readings.iter().map(|(point, reading)| (*point, reading.splits[0].loss)).collect();
    assert_eq!(losses, [(0, 20.0 + 45.0), (2, 8.0 + 45.0), (5, 25.0 + 9.0 + 1.0 + 45.0)]);
    assert!(readings.iter().all(|(_, r)| r.splits[0].images == 3 && r.statistics.images == 2));
}

#[test]
fn threads_change_nothing_and_no_points_are_no_work() {
    let points: Vec<usize> = (0..23).collect();
    let one = survey(1, &points, &|| false, |_| Ok(())).0;
    assert_eq!(one.len(), 23);
    assert_eq!(one, survey(7, &points, &|| false, |_| Ok(())).0);
    assert!(survey(3, &[], &|| false, |_| Ok(())).0.is_empty());
}

#[test]
fn a_cancelled_survey_tells_only_what_it_has_finished() {
    let points: Vec<usize> = (0..1000).collect();
    let asked = AtomicUsize::new(0);
    // A point asks five times: before and after its statistics, and before each batch.
    let cancelled = || asked.fetch_add(1, Ordering::Relaxed) > 50;
    let (readings, ended) = survey(1, &points, &cancelled, |_| Ok(()));
    ended.unwrap();
    assert!(!readings.is_empty() && readings.len() < 30, "{}", readings.len());
    assert!(readings.iter().all(|(_, r)| r.splits[0].images == 3 && !r.splits[0].loss.is_nan()));
}

#[test]
fn whoever_cannot_take_a_reading_ends_the_work() {
    let points: Vec<usize> = (0..100_000).collect();
    let (readings, ended) = survey(2, &points, &|| false, |_| Err(StudyError::NotFinite));
    assert!(matches!(ended, Err(StudyError::NotFinite)));
    assert_eq!(readings.len(), 1);
}

#[test]
fn a_model_that_cannot_be_built_is_the_error() {
    let survey = Survey {
        build: &|| refused(),
        statistics: &[],
        tolerance: 0.0,
        splits: &[],
        threads: NonZeroUsize::MIN,
        cancelled: &|| false,
    };
    let ended = survey.measure(&[0], |_| Ok(at(0.0)), |_, _| Ok::<(), StudyError>(()));
    assert!(ended.unwrap_err().to_string().contains("nobody asks it"));
}
