//! Measuring what is not known yet: point after point, each with all threads.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use hwa_data::Batch;
use hwa_study::{Gradients, Probe};
use serde_json::Value;

use super::cycles::Place;
use super::kept::{self, Asked, Kept};
use super::{Cancelled, at};
use crate::arguments::{Analyze, Split};
use crate::counting::Counting;
use crate::failure::Failure;
use crate::output::tell;
use crate::studied::Studied;

/// What is measured, and with what.
pub(super) struct Work<'a> {
    pub(super) arguments: &'a Analyze,
    pub(super) studied: &'a Studied,
    pub(super) batches: &'a [Batch],
    pub(super) population: usize,
    pub(super) cancelled: Cancelled<'a>,
}

impl Work<'_> {
    /// What is known or measured at each of the places.
    pub(super) fn all(&self, places: &[Place], kept: &mut Kept) -> Result<Vec<Gradients>, Failure> {
        let of = self.studied.identity(&[Split::Train])?;
        let asked: Vec<Asked> =
            places.iter().map(|place| self.asked(place, &of)).collect::<Result<_, _>>()?;
        let missing = missing(places, &asked, kept);
        self.measure(&missing, kept)?;
        let known = asked.iter().map(|asked| kept.find(asked));
        let gone = || Failure::Run(anyhow::anyhow!("a point that was measured is lost"));
        known.map(|found| found.ok_or_else(gone)).collect()
    }

    fn measure(&self, missing: &[(&Place, &Asked)], kept: &mut Kept) -> Result<(), Failure> {
        let mut replica = self.studied.blank()?;
        let mut progress = Progress::new(self.arguments.plain, missing.len());
        for (place, asked) in missing {
            let probe = self.probe(place);
            progress.begin(place, probe.gradients());
            let mut watch = || match (self.cancelled)() {
                true => ControlFlow::Break(()),
                false => {
                    progress.count();
                    ControlFlow::Continue(())
                }
            };
            let weights = self.studied.shelf.get(&place.name)?;
            let measured = probe.measure(replica.as_mut(), &weights, &mut watch);
            let Some(found) = measured.map_err(|error| at(&place.name, error))? else {
                return Err(Failure::Cancelled { advice: kept.advice() });
            };
            kept.add((*asked).clone(), found)?;
            progress.end(place);
        }
        Ok(())
    }

    fn probe(&self, place: &Place) -> Probe<'_> {
        Probe {
            batches: self.batches,
            // There is no end of augmented images.
            population: (!self.arguments.augment).then_some(self.population),
            rate: place.rate,
            steps: self.arguments.steps,
            seed: self.studied.seed,
        }
    }

    /// What is asked at a place, of a network and images.
    fn asked(&self, place: &Place, of: &Value) -> Result<Asked, Failure> {
        let weights = self.studied.shelf.get(&place.name)?;
        Ok(Asked {
            weights: place.name.to_string(),
            content: kept::content(&weights),
            of: of.clone(),
            images: self.batches.iter().map(Batch::len).sum(),
            augmented: self.arguments.augment,
            rate: place.rate,
            steps: self.arguments.steps,
        })
    }
}

/// What is not known, each once: the average of a cycle is the start of the next.
fn missing<'a>(
    places: &'a [Place],
    asked: &'a [Asked],
    kept: &Kept,
) -> Vec<(&'a Place, &'a Asked)> {
    let mut missing: Vec<(&Place, &Asked)> = Vec::new();
    for (place, asked) in places.iter().zip(asked) {
        let known = kept.find(asked).is_some() || missing.iter().any(|(_, m)| *m == asked);
        if !known {
            missing.push((place, asked));
        }
    }
    missing
}

/// How far the work is: a bar on a terminal, a line for each point elsewhere.
struct Progress {
    bar: Counting,
    loud: bool,
    began: Instant,
    /// Points that are measured, and all of them.
    points: (usize, usize),
    /// Gradients that are computed, and all of them.
    gradients: (u64, u64),
}

impl Progress {
    fn new(plain: bool, points: usize) -> Self {
        let bar = Counting::new("gradients");
        let loud = !plain && bar.is_shown();
        Self { bar, loud, began: Instant::now(), points: (0, points), gradients: (0, 0) }
    }

    fn begin(&mut self, place: &Place, gradients: usize) {
        self.gradients.1 = (gradients * self.points.1) as u64;
        if self.loud {
            self.bar.name(&place.name.to_string());
        }
    }

    fn count(&mut self) {
        self.gradients.0 += 1;
        if self.loud {
            self.bar.show(self.gradients.0, Some(self.gradients.1));
        }
    }

    fn end(&mut self, place: &Place) {
        self.points.0 += 1;
        if !self.loud {
            let line = progress(self.points.0, self.points.1, self.began.elapsed());
            tell(format_args!("measured {}, {line}", place.name));
        }
    }
}

/// How many points are done, and how long the others will take.
fn progress(done: usize, points: usize, elapsed: Duration) -> String {
    let each = elapsed.as_secs_f64() / done.max(1) as f64;
    let left = (each * points.saturating_sub(done) as f64).round() as u64;
    match (points - done.min(points), left) {
        (0, _) => format!("{done} of {points}"),
        (_, 0..100) => format!("{done} of {points}, {left} s left"),
        _ => format!("{done} of {points}, {} min left", left.div_ceil(60)),
    }
}
