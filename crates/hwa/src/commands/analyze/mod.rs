//! `hwa analyze`: the convergence condition on a run's own weights, and where its weights lie.

mod cycles;
mod drawn;
mod kept;
mod shown;

use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hwa_core::Weights;
use hwa_data::Batch;
use hwa_report::Part;
use hwa_store::StoreError;
use hwa_study::{Angles, Gradients, Probe, StudyError};
use hwa_train::{Data, Experiment};

use crate::arguments::{Analyze, Images};
use crate::counting::{Counting, interrupt};
use crate::failure::Failure;
use crate::left_out::LeftOut;
use crate::opened;
use crate::output::{give, tell};
use crate::shelf::Name;
use crate::studied::{Studied, Views};

use cycles::{Chosen, Place, View};
use kept::{Asked, Kept};

/// Asked before every batch; true ends the work.
type Cancelled<'a> = &'a (dyn Fn() -> bool + Sync);

/// What there is to show.
struct Found {
    /// Where the files go.
    folder: PathBuf,
    /// The momentum of the run's optimizer.
    momentum: f64,
    /// The training images that there are.
    population: usize,
    /// What was measured, place by place.
    points: Vec<(Place, Gradients)>,
    /// Distances and angles, cycle by cycle.
    angles: Vec<(View, Angles)>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Analyze) -> Result<(), Failure> {
    let Some(run) = &arguments.subject.run else {
        return Err(Failure::usage(
            "--run is needed: cycles, rates and weights are those of a run",
        ));
    };
    let folder = arguments.out.clone().unwrap_or_else(|| run.join("analysis"));
    let stop = interrupt()?;
    let cancelled = || stop.load(Ordering::Relaxed);
    let look = || look(arguments, folder, &cancelled);
    let found = opened::on_threads(arguments.subject.threads, look)?;
    let files = drawn::write(&found)?;
    match arguments.json {
        true => give(shown::json(run, &found, &files)),
        false => {
            let page = found.folder.join("index.html");
            give(format_args!("{}\n{}", shown::text(&found), page.display()));
        }
    }
    Ok(())
}

/// What is shown of a run in a page of other figures: the condition, at the cycles whose inner
/// weights are kept.
pub(in crate::commands) fn condition(
    arguments: &Analyze,
    folder: PathBuf,
    cancelled: Cancelled<'_>,
) -> Result<Vec<Part>, Failure> {
    Ok(drawn::parts(&look(arguments, folder, cancelled)?))
}

/// Measures what is not known yet.
fn look(arguments: &Analyze, folder: PathBuf, cancelled: Cancelled<'_>) -> Result<Found, Failure> {
    let studied = Studied::new(&arguments.subject)?;
    let Some(experiment) = &studied.experiment else {
        return Err(Failure::usage("--run is needed"));
    };
    let population = studied.source.splits.train.len();
    let plan = experiment.settings(population)?.plan;
    let Chosen { places, views, notes } =
        cycles::choose(&arguments.cycles, experiment.method, &plan, &studied.shelf)?;
    notes.iter().for_each(tell);
    let batches = batches(arguments, &studied)?;
    fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
    let mut kept = Kept::open(&folder)?;
    let work =
        Work { arguments, studied: &studied, experiment, batches: &batches, population, cancelled };
    let measured = work.all(&places, &mut kept)?;
    LeftOut::of(&studied.source).tell();
    let angles = views.into_iter().map(|view| {
        let angles = angles(&studied, &view)?;
        Ok((view, angles))
    });
    Ok(Found {
        folder,
        momentum: experiment.optimizer.momentum,
        population,
        angles: angles.collect::<Result<_, Failure>>()?,
        points: places.into_iter().zip(measured).collect(),
    })
}

/// The images that gradients are taken on.
fn batches(arguments: &Analyze, studied: &Studied) -> Result<Vec<Batch>, Failure> {
    let train = studied.source.splits.train.len();
    let most = match arguments.images {
        Images::All => None,
        Images::Most(most) => Some(most),
    };
    let images = most.map_or(train, NonZeroUsize::get).min(train);
    let views = if arguments.augment { Views::Augmented } else { Views::Plain };
    let batches = studied.shuffled(most, views)?;
    match batches.len() {
        0 | 1 => Err(Failure::usage(format!(
            "{images} images in batches of {} make {}, expected at least 2 of them: --images, --batch",
            studied.batch,
            batches.len()
        ))),
        _ => Ok(batches),
    }
}

/// Distances and angles between the weights of a cycle.
fn angles(studied: &Studied, view: &View) -> Result<Angles, Failure> {
    let from = studied.shelf.get(&view.from)?;
    let weights: Vec<Weights> =
        view.names.iter().map(|name| studied.shelf.get(name)).collect::<Result<_, _>>()?;
    let weights: Vec<&Weights> = weights.iter().collect();
    Angles::seen_from(&from, &weights).map_err(|error| at(&view.from, error))
}

fn at(name: &Name, error: StudyError) -> Failure {
    Failure::Run(anyhow::Error::new(error).context(name.to_string()))
}

/// Point after point, each with all threads.
struct Work<'a> {
    arguments: &'a Analyze,
    studied: &'a Studied,
    experiment: &'a Experiment,
    batches: &'a [Batch],
    population: usize,
    cancelled: Cancelled<'a>,
}

impl Work<'_> {
    /// What is known or measured at each of the places.
    fn all(&self, places: &[Place], kept: &mut Kept) -> Result<Vec<Gradients>, Failure> {
        let asked: Vec<Asked> =
            places.iter().map(|place| self.asked(place)).collect::<Result<_, _>>()?;
        // The average of a cycle is the start of the next: one point, in two places.
        let mut missing: Vec<(&Place, &Asked)> = Vec::new();
        for (place, asked) in places.iter().zip(&asked) {
            let known = kept.find(asked).is_some() || missing.iter().any(|(_, m)| *m == asked);
            if !known {
                missing.push((place, asked));
            }
        }
        let bar = Counting::new("gradients");
        let loud = !self.arguments.plain && bar.is_shown();
        let (began, points) = (Instant::now(), missing.len());
        let mut replica = self.studied.blank()?;
        let mut done = 0;
        for (number, (place, asked)) in missing.into_iter().enumerate() {
            let probe = self.probe(place);
            let total = (probe.gradients() * points) as u64;
            if loud {
                bar.name(&place.name.to_string());
            }
            let mut watch = || {
                if (self.cancelled)() {
                    return ControlFlow::Break(());
                }
                done += 1;
                if loud {
                    bar.show(done, Some(total));
                }
                ControlFlow::Continue(())
            };
            let weights = self.studied.shelf.get(&place.name)?;
            let measured = probe.measure(replica.as_mut(), &weights, &mut watch);
            let Some(found) = measured.map_err(|error| at(&place.name, error))? else {
                return Err(Failure::Cancelled { advice: kept.advice() });
            };
            kept.add(asked.clone(), found)?;
            if !loud {
                let line = progress(number + 1, points, began.elapsed());
                tell(format_args!("measured {}, {line}", place.name));
            }
        }
        let known = asked.iter().map(|asked| kept.find(asked));
        let gone = || Failure::Run(anyhow::anyhow!("a point that was measured is lost"));
        known.map(|found| found.ok_or_else(gone)).collect()
    }

    fn probe(&self, place: &Place) -> Probe<'_> {
        Probe {
            batches: self.batches,
            population: self.population,
            rate: place.rate,
            steps: self.arguments.steps,
            seed: self.studied.seed,
        }
    }

    /// What is asked at a place.
    fn asked(&self, place: &Place) -> Result<Asked, Failure> {
        let weights = self.studied.shelf.get(&place.name)?;
        Ok(Asked {
            weights: place.name.to_string(),
            content: kept::content(&weights),
            network: self.studied.spec.to_string(),
            convolution: self.experiment.model.convolution,
            data: serde_json::to_value(Data {
                dir: None,
                decoders: None,
                cache_mib: 0,
                ..self.experiment.data.clone()
            })?,
            population: self.population,
            images: self.batches.iter().map(Batch::len).sum(),
            batch: self.studied.batch,
            augmented: self.arguments.augment,
            rate: place.rate,
            steps: self.arguments.steps,
            seed: self.studied.seed,
            arithmetic: hwa_nn::arithmetic(),
        })
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
