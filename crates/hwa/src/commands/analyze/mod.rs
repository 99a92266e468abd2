//! `hwa analyze`: the convergence condition on a run's own weights, and where its weights lie.

mod cycles;
mod drawn;
mod kept;
mod ratio;
mod shown;
mod work;

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use hwa_core::Weights;
use hwa_data::Batch;
use hwa_report::Part;
use hwa_store::StoreError;
use hwa_study::{Angles, Gradients, StudyError};

use crate::arguments::{Analyze, Images};
use crate::counting::interrupt;
use crate::failure::Failure;
use crate::left_out::LeftOut;
use crate::opened;
use crate::output::{give, tell};
use crate::pages;
use crate::shelf::Name;
use crate::studied::{Studied, Views};

use cycles::{Chosen, Place, View};
use kept::Kept;
use work::Work;

/// Asked before every batch; true ends the work.
type Cancelled<'a> = &'a (dyn Fn() -> bool + Sync);

/// What there is to show.
struct Found {
    /// Where the files go.
    folder: PathBuf,
    /// What was looked into.
    subject: String,
    /// The momentum of the run's optimizer.
    momentum: f64,
    /// The training images that there are.
    population: usize,
    /// Whether images were augmented.
    augmented: bool,
    /// What the reader should know, a line each.
    notes: Vec<String>,
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
    // Before anything is measured for a page that could not be written.
    pages::page_before(&folder)?;
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
    let settings = experiment.settings(population)?;
    let Chosen { places, views, notes } =
        cycles::choose(&arguments.cycles, experiment.method, &settings, &studied.shelf)?;
    notes.iter().for_each(tell);
    let batches = batches(arguments, &studied)?;
    fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
    let mut kept = Kept::open(&folder)?;
    let work = Work { arguments, studied: &studied, batches: &batches, population, cancelled };
    let measured = work.all(&places, &mut kept)?;
    LeftOut::of(&studied.source).tell();
    let angles = views.into_iter().map(|view| {
        let angles = angles(&studied, &view)?;
        Ok((view, angles))
    });
    Ok(Found {
        folder,
        subject: studied.title(arguments.subject.run.as_deref()),
        momentum: experiment.optimizer.momentum,
        population,
        augmented: arguments.augment,
        notes,
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
