//! Figures that are measured on the weights that runs have kept.

use std::num::NonZeroUsize;

use hwa_core::Weights;
use hwa_report::paper::findings;
use hwa_report::{Axis, Chart, Figure, Lines, Part, Series, Tone};
use hwa_store::InnerPosition;
use hwa_train::Tally;

use super::drawing::{Drawing, Trained};
use crate::arguments::{Analyze, Images, Split};
use crate::commands::analyze;
use crate::failure::Failure;
use crate::landscape::{Extent, Landscape, Measuring, View, measure, measure_each, sheet};
use crate::opened::on_threads;
use crate::shelf::{Name, Shelf};
use crate::studied::Studied;

/// Points on a line.
const POINTS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(60);
/// Steps that a Lipschitz constant is measured along.
const STEPS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2);

pub(super) fn online(drawing: &Drawing<'_>) -> Result<Vec<Part>, Failure> {
    each(drawing, "online-projection", &[Split::Train], |_, studied| {
        let shelf = &studied.shelf;
        let cycle = last_kept(shelf)?;
        let [a, b] = [0, 1].map(|model| Name::Inner(cycle, model, None));
        let (start, end) = (Name::Outer(Some(cycle - 1)), Name::Outer(Some(cycle)));
        View::plane(shelf, [&a, &b, &start], &[end], (drawing.size, studied.seed))
    })
}

pub(super) fn offline(drawing: &Drawing<'_>) -> Result<Vec<Part>, Failure> {
    each(drawing, "offline-projection", &[Split::Train], |run, studied| {
        let shelf = &studied.shelf;
        let cycle = last_kept(shelf)?;
        // The run's own window: in one that is shorter than the paper's, 20 cycles are too many.
        let window = run.record()?.started.windows.first().and_then(|window| window.length);
        let length = window.map_or(cycle, |length| length.get().max(3)).min(cycle);
        let outer = |cycle| Name::Outer(Some(cycle));
        let [first, middle, last] = [cycle + 1 - length, cycle - length / 2, cycle].map(outer);
        let hwa = Name::Hwa(Some(cycle), Some(length));
        View::plane(shelf, [&first, &last, &hwa], &[middle], (drawing.size, studied.seed))
    })
}

pub(super) fn interpolation(drawing: &Drawing<'_>) -> Result<Vec<Part>, Failure> {
    each(drawing, "interpolation", &[Split::Train, Split::Test], |_, studied| {
        let shelf = &studied.shelf;
        let last = shelf.last_cycle()?.ok_or_else(|| not_kept("a model at its end"))?;
        let extent = Extent { from: -1.0, to: 2.0, count: POINTS };
        View::line(shelf, [&Name::Best, &Name::Inner(last, 0, None)], extent)
    })
}

pub(super) fn restart(drawing: &Drawing<'_>) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    for run in drawing.of_hwa() {
        let studied = drawing.studied(run)?;
        let period = run.record()?.started.sync_period;
        let walks = walks(&studied, period)?;
        let curve = inside(drawing, run, &studied, &walks)?;
        if let Chart::Lines(lines) = &curve.chart {
            parts.extend(findings::here(findings::restarts(&lines.series, walks.half)));
        }
        parts.push(Part::Figure(curve));
        let shelf = &studied.shelf;
        let cycle = last_kept(shelf)?;
        let [a, b] = [0, 1].map(|model| Name::Inner(cycle, model, None));
        let (start, end) = (Name::Outer(Some(cycle - 1)), Name::Outer(Some(cycle)));
        // The ends of both ways lie in this plane.
        let mut view = View::plane(shelf, [&a, &b, &start], &[end], (drawing.size, studied.seed))?;
        for (model, walk) in walks.models.iter().enumerate() {
            let weights: Vec<Weights> =
                walk.iter().skip(walks.half).map(|(_, weights)| weights.clone()).collect();
            view.walk(format!("model {model} within cycle {cycle}"), &weights)?;
        }
        parts.extend(drawn(drawing, run, &studied, ("restart", view), &[Split::Train])?);
    }
    Ok(parts)
}

/// The ways of the models through two cycles.
struct Walks {
    /// For each model, steps and weights.
    models: Vec<Vec<(u64, Weights)>>,
    /// Where the second cycle begins in each.
    half: usize,
}

/// The weights of the two cycles whose inner weights are kept: the average that a cycle begins
/// with, and what the models made of it.
fn walks(studied: &Studied, period: u64) -> Result<Walks, Failure> {
    let shelf = &studied.shelf;
    let kept = shelf.inner_positions()?;
    let last = last_kept(shelf)?;
    let models = kept.iter().map(|at| at.replica + 1).max().unwrap_or(0);
    let mut walks: Vec<Vec<(u64, Weights)>> = vec![Vec::new(); models];
    let mut half = 0;
    let cycles = [last - 1, last].into_iter();
    for cycle in cycles.filter(|cycle| kept.iter().any(|at| at.cycle == *cycle)) {
        // Cycles may keep different numbers of weights.
        half = walks.first().map_or(0, Vec::len);
        let start = shelf.get(&Name::Outer(Some(cycle - 1)))?;
        for (model, walk) in walks.iter_mut().enumerate() {
            let of_model = |at: &&InnerPosition| at.cycle == cycle && at.replica == model;
            let steps: Vec<u64> = kept.iter().filter(of_model).map(|at| at.step).collect();
            walk.push((period * (cycle as u64 - 1), start.clone()));
            for step in steps {
                walk.push((step, shelf.get(&Name::Inner(cycle, model, Some(step)))?));
            }
        }
    }
    Ok(Walks { models: walks, half })
}

/// The training loss within the cycles.
fn inside(
    drawing: &Drawing<'_>,
    run: &Trained,
    studied: &Studied,
    walks: &Walks,
) -> Result<Figure, Failure> {
    let mut named = Vec::new();
    for (model, walk) in walks.models.iter().enumerate() {
        for (number, (step, weights)) in walk.iter().enumerate() {
            named.push((format!("model {model}, {number}, step {step}"), weights.clone()));
        }
    }
    let folder = drawing.folder.join(drawing.networks().named("restart-curve", &run.network));
    let readings = measure_each(&named, &how(drawing, studied, &[Split::Train], &folder))?;
    let mut losses = readings.iter().map(|reading| reading.splits.first().map_or(f64::NAN, loss));
    let series = walks.models.iter().enumerate().map(|(model, walk)| Series {
        name: format!("model {model}"),
        tone: Tone::Series([1, 5, 0, 3][model % 4]),
        points: walk.iter().map(|(step, _)| *step as f64).zip(&mut losses).collect(),
    });
    let chart = Lines {
        x: Axis::counting("step"),
        y: Axis::measuring("cross entropy on training images"),
        series: series.collect(),
        ..Lines::default()
    };
    Ok(Figure {
        name: drawing.networks().named("restart-curve", &run.network),
        title: drawing.networks().titled("The training loss within cycles", &run.network),
        caption: "Each cycle begins with the average of the models; the fall between the cycles \
                  is the synchronization. Statistics are re-estimated at each point."
            .to_owned(),
        chart: Chart::Lines(chart),
    })
}

pub(super) fn condition(drawing: &Drawing<'_>) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    for run in drawing.of_hwa() {
        let arguments = Analyze {
            subject: drawing.subject(run),
            cycles: cycles(&drawing.studied(run)?.shelf)?,
            images: Images::Most(drawing.images),
            steps: STEPS,
            augment: false,
            out: None,
            plain: drawing.plain,
            json: false,
        };
        let folder = drawing.folder.join(drawing.networks().named("condition", &run.network));
        let mut found = on_threads(drawing.cores, || {
            analyze::condition(&arguments, folder, drawing.cancelled)
        })?;
        for part in &mut found {
            if let Part::Figure(figure) = part {
                figure.name =
                    drawing.networks().named(&format!("condition-{}", figure.name), &run.network);
                figure.title = drawing.networks().titled(&figure.title, &run.network);
            }
        }
        parts.extend(found);
    }
    Ok(parts)
}

/// Cycles whose inner weights are kept, and some others, evenly apart.
fn cycles(shelf: &Shelf) -> Result<Vec<usize>, Failure> {
    let mut cycles: Vec<usize> = shelf.inner_positions()?.iter().map(|at| at.cycle).collect();
    let last = shelf.outer_cycles()?.last().copied().unwrap_or_default();
    cycles.extend((1..=6).map(|part| part * last / 6).filter(|cycle| *cycle > 1));
    cycles.sort_unstable();
    cycles.dedup();
    Ok(cycles)
}

/// The last cycle whose inner weights are kept, of two models at least and not the first.
fn last_kept(shelf: &Shelf) -> Result<usize, Failure> {
    let kept = shelf.inner_positions()?;
    let cycle = kept.iter().rfind(|at| at.replica > 0 && at.cycle > 2).map(|at| at.cycle);
    cycle.ok_or_else(|| not_kept("inner weights of two models after cycle 2"))
}

fn not_kept(what: &str) -> Failure {
    Failure::usage(format!("the run keeps no {what}: it may have too few cycles"))
}

/// The same view of every network.
fn each(
    drawing: &Drawing<'_>,
    name: &str,
    splits: &[Split],
    view: impl Fn(&Trained, &Studied) -> Result<View, Failure>,
) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    for run in drawing.of_hwa() {
        let studied = drawing.studied(run)?;
        let view = view(run, &studied)?;
        parts.extend(drawn(drawing, run, &studied, (name, view), splits)?);
    }
    Ok(parts)
}

fn drawn(
    drawing: &Drawing<'_>,
    run: &Trained,
    studied: &Studied,
    (name, view): (&str, View),
    splits: &[Split],
) -> Result<Vec<Part>, Failure> {
    let name = drawing.networks().named(name, &run.network);
    let folder = drawing.folder.join(&name);
    let landscape = measure(view, &how(drawing, studied, splits, &folder))?;
    let mut parts = sheet(&landscape, "").parts;
    let found = match landscape.view.rows.is_empty() {
        true => findings::lowest(&parts),
        false => marked(&landscape),
    };
    let found = findings::here(found);
    for part in &mut parts {
        match part {
            Part::Figure(figure) => {
                figure.name = format!("{name}-{}", figure.name);
                figure.title = drawing.networks().titled(&figure.title, &run.network);
            }
            Part::Files(files) => {
                files.iter_mut().for_each(|file| file.name = format!("{name}-{}", file.name));
            }
            _ => {}
        }
    }
    Ok(found.into_iter().chain(parts).collect())
}

/// The losses of the weights that are marked on a plane, split by split.
fn marked(landscape: &Landscape) -> Vec<String> {
    let names = landscape.view.marks.iter().map(|marked| marked.name.as_str());
    let of_split = |(index, split): (usize, &&str)| {
        let losses = landscape.marks.iter().map(|own| own.splits.get(index).map_or(f64::NAN, loss));
        findings::losses(split, names.clone().zip(losses))
    };
    landscape.splits.iter().enumerate().filter_map(of_split).collect()
}

fn loss(tally: &Tally) -> f64 {
    tally.loss / tally.images as f64
}

fn how<'a>(
    drawing: &'a Drawing<'_>,
    studied: &'a Studied,
    splits: &'a [Split],
    folder: &'a std::path::Path,
) -> Measuring<'a> {
    Measuring {
        studied,
        splits,
        images: drawing.images,
        threads: drawing.cores,
        folder,
        plain: drawing.plain,
        cancelled: drawing.cancelled,
    }
}
