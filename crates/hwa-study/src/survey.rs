//! Loss and accuracy at many points.
//!
//! Points are independent: each is measured by one thread with a model of its own, so that more
//! threads change the time and not a bit. Images are decoded and augmented once and kept, and
//! every point sees the same ones: what differs is the weights.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use hwa_core::Weights;
use hwa_data::Batch;
use hwa_train::{Recalibration, Replica, ReplicaError, Tally};
use serde::{Deserialize, Serialize};

use crate::error::StudyError;

/// Builds a model, in the thread that will use it.
pub type Build<'a> = dyn Fn() -> Result<Box<dyn Replica>, ReplicaError> + Sync + 'a;

/// What points are measured with.
pub struct Survey<'a> {
    /// Builds a model.
    pub build: &'a Build<'a>,
    /// Training batches that statistics are re-estimated on.
    pub statistics: &'a [Batch],
    /// The relative standard error at which re-estimation stops.
    pub tolerance: f64,
    /// What is evaluated: the batches of each split.
    pub splits: &'a [Vec<Batch>],
    /// Points that are measured at a time.
    pub threads: NonZeroUsize,
    /// Asked before every batch; true ends the work, and what is not done stays undone.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// What was measured at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// What re-estimation took.
    pub statistics: Recalibration,
    /// Hits and losses, for each of the splits.
    pub splits: Vec<Tally>,
}

impl Survey<'_> {
    /// Measures the points whose numbers are given. `weights` makes those of a point; `done` is
    /// told what was measured as it comes, in any order, and ends the work if it fails.
    pub fn measure<E: From<StudyError>>(
        &self,
        points: &[usize],
        weights: impl Fn(usize) -> Result<Weights, StudyError> + Sync,
        mut done: impl FnMut(usize, Reading) -> Result<(), E>,
    ) -> Result<(), E> {
        let workers = self.threads.get().min(points.len());
        if workers == 0 {
            return Ok(());
        }
        let desk = Desk { points, next: AtomicUsize::new(0), closed: AtomicBool::new(false) };
        let threads = self.threads.get() / workers;
        thread::scope(|scope| {
            let (sender, readings) = channel();
            for number in 0..workers {
                let (sender, desk, weights) = (sender.clone(), &desk, &weights);
                let name = format!("landscape {number}");
                let work = move || {
                    let ended = self.work(desk, threads, weights, &sender);
                    if let Err(error) = ended {
                        // If nobody listens any more, somebody else has failed before.
                        let _ = sender.send(Err(error));
                    }
                };
                let started = thread::Builder::new().name(name).spawn_scoped(scope, work);
                if let Err(error) = started {
                    desk.close();
                    return Err(StudyError::Threads { reason: error.to_string() }.into());
                }
            }
            drop(sender);
            for reading in readings {
                let told = reading.map_err(E::from).and_then(|(point, r)| done(point, r));
                if let Err(error) = told {
                    desk.close();
                    return Err(error);
                }
            }
            Ok(())
        })
    }

    /// Point after point, on a pool of its own: a shared one would serialise the models.
    fn work(
        &self,
        desk: &Desk<'_>,
        threads: usize,
        weights: &(impl Fn(usize) -> Result<Weights, StudyError> + Sync),
        sender: &Sender<Result<(usize, Reading), StudyError>>,
    ) -> Result<(), StudyError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| StudyError::Threads { reason: error.to_string() })?;
        pool.install(|| {
            let mut replica = (self.build)()?;
            while let Some(point) = desk.next() {
                let weights = weights(point)?;
                let Some(reading) = self.read(replica.as_mut(), &weights)? else { break };
                if sender.send(Ok((point, reading))).is_err() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// What some weights are worth; nothing if the work was cancelled.
    fn read(
        &self,
        replica: &mut dyn Replica,
        weights: &Weights,
    ) -> Result<Option<Reading>, ReplicaError> {
        replica.load(weights)?;
        let mut batches =
            self.statistics.iter().take_while(|_| !(self.cancelled)()).map(|b| Ok(b.clone()));
        let statistics = replica.recalibrate(&mut batches, self.tolerance);
        // A pass that was cut short may have failed for that alone.
        if (self.cancelled)() {
            return Ok(None);
        }
        let statistics = statistics?;
        let mut splits = Vec::new();
        for batches in self.splits {
            let mut total = Tally::default();
            for batch in batches {
                if (self.cancelled)() {
                    return Ok(None);
                }
                total.add(&replica.evaluate(batch)?);
            }
            splits.push(total);
        }
        Ok(Some(Reading { statistics, splits }))
    }
}

/// Where workers get their next point.
struct Desk<'a> {
    points: &'a [usize],
    next: AtomicUsize,
    closed: AtomicBool,
}

impl Desk<'_> {
    fn next(&self) -> Option<usize> {
        match self.closed.load(Ordering::Acquire) {
            true => None,
            false => self.points.get(self.next.fetch_add(1, Ordering::Relaxed)).copied(),
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}
