//! `hwa landscape`: loss and accuracy on lines and planes between weights.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use hwa_report::PageOptions;
use hwa_study::Reading;
use hwa_train::Evaluation;
use serde_json::{Value, json};

use crate::arguments::{LandscapeCommand, LandscapeOptions, Split};
use crate::counting::interrupt;
use crate::failure::Failure;
use crate::landscape::{Extent, Landscape, Measuring, View, measure, sheet, table};
use crate::left_out::LeftOut;
use crate::output::{give, tell};
use crate::pages;
use crate::shelf::{Name, Shelf};
use crate::studied::Studied;
use crate::table::aligned;

/// Runs the command.
pub(crate) fn run(command: &LandscapeCommand) -> Result<(), Failure> {
    let options = command.options();
    let studied = Studied::new(&options.subject)?;
    let shelf = &studied.shelf;
    let (kind, names, view, both) = match command {
        LandscapeCommand::Line(line) => {
            let names = two(shelf, &line.weights)?;
            let extent = Extent { from: line.from, to: line.to, count: line.points };
            let (from, to) = (line.from, line.to);
            if !(from.is_finite() && to.is_finite() && from < to) {
                return Err(Failure::usage(format!("--from {from} --to {to}: expected from < to")));
            }
            let view = View::line(shelf, [&names[0], &names[1]], extent)?;
            ("line", names, view, true)
        }
        LandscapeCommand::Plane(plane) => {
            let (names, others) = three(shelf, &plane.weights, &plane.mark)?;
            let through = [&names[0], &names[1], &names[2]];
            let view = View::plane(shelf, through, &others, (plane.size, plane.seed))?;
            ("plane", names, view, false)
        }
        LandscapeCommand::Random(random) => {
            if !(random.reach > 0.0 && random.reach.is_finite()) {
                let reach = random.reach;
                return Err(Failure::usage(format!("--reach {reach}: expected more than 0")));
            }
            let extent = Extent { from: -random.reach, to: random.reach, count: random.size };
            let view = View::random(shelf, &random.centre, extent, random.seed)?;
            ("random", vec![random.centre.clone()], view, false)
        }
        LandscapeCommand::Pca(pca) => {
            let view = View::principal(shelf, &pca.centre, pca.size)?;
            ("pca", vec![pca.centre.clone()], view, false)
        }
    };
    for remark in &view.remarks {
        tell(remark);
    }
    let splits = splits(options, both)?;
    let folder = options.out.clone().unwrap_or_else(|| {
        let settings = command.settings();
        folder(options, (kind, &names), &settings)
    });
    // Before anything is measured for a page that could not be written.
    pages::page_before(&folder)?;
    let stop = interrupt()?;
    let cancelled = || stop.load(Ordering::Relaxed);
    let how = Measuring {
        studied: &studied,
        splits: &splits,
        images: options.images,
        threads: options.subject.threads,
        folder: &folder,
        plain: options.plain,
        cancelled: &cancelled,
    };
    let landscape = measure(view, &how)?;
    LeftOut::of(&studied.source).tell();
    let mut page = sheet(&landscape, &landscape.view.title);
    page.lead = format!("{}. {}", studied.title(options.subject.run.as_deref()), page.lead);
    let page = page.page(PageOptions { files: true, ..PageOptions::default() });
    pages::write(&page.map_err(|error| Failure::Run(error.into()))?, &folder)?;
    tell_of(&landscape, &folder, options.json);
    Ok(())
}

fn tell_of(landscape: &Landscape, folder: &std::path::Path, as_json: bool) {
    let page = folder.join("index.html");
    let (head, rows) = table(landscape);
    if as_json {
        let marks: Vec<_> = landscape
            .view
            .marks
            .iter()
            .zip(landscape.marks.iter().zip(&landscape.shadows))
            .map(|(marked, (own, shadow))| {
                json!({
                    "name": marked.name, "at": marked.place.at,
                    "distance": marked.place.residual,
                    "own": written(landscape, own), "projected": written(landscape, shadow),
                })
            })
            .collect();
        give(json!({
            "page": page, "points": landscape.points.len(), "splits": landscape.splits,
            "marks": marks,
        }));
        return;
    }
    let mut lines = vec![head];
    lines.extend(rows);
    give(aligned(&lines));
    give(page.display());
}

/// A reading as programs read it: accuracies in percent and the mean loss, as everywhere else.
fn written(landscape: &Landscape, reading: &Reading) -> Value {
    let splits = landscape.splits.iter().zip(&reading.splits).map(|(split, tally)| {
        let Evaluation { top1, top5, loss, images, .. } = Evaluation::new(tally, None);
        json!({ "split": split, "images": images, "top1": top1, "top5": top5, "loss": loss })
    });
    json!({ "statistics": reading.statistics, "splits": splits.collect::<Vec<_>>() })
}

/// Without names: the chosen weights and a model at the end; of a run under way, its last outer
/// weights.
fn two(shelf: &Shelf, given: &[Name]) -> Result<Vec<Name>, Failure> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let inner = shelf.last_cycle()?.map(|cycle| Name::Inner(cycle, 0, None));
    Ok(vec![Name::Best, inner.unwrap_or(Name::Outer(None))])
}

/// Without names: two models with where they came from, and their average; or two outer weights
/// with the HWA weights between them.
fn three(shelf: &Shelf, given: &[Name], marks: &[Name]) -> Result<(Vec<Name>, Vec<Name>), Failure> {
    if !given.is_empty() {
        return Ok((given.to_vec(), marks.to_vec()));
    }
    let cycles = shelf.outer_cycles()?;
    let mut marks = marks.to_vec();
    let inner = shelf.inner_positions()?;
    let both = inner.iter().rev().filter(|at| at.replica == 1);
    let mut starts = both.filter_map(|at| Some((at.cycle, at.cycle.checked_sub(1)?)));
    // A cycle that has an average is over: the last weights of its models are those at its end.
    if let Some((cycle, start)) = starts.find(|(c, s)| cycles.contains(c) && cycles.contains(s)) {
        marks.push(Name::Outer(Some(cycle)));
        let start = Name::Outer(Some(start));
        return Ok((vec![Name::Inner(cycle, 0, None), Name::Inner(cycle, 1, None), start], marks));
    }
    let middle = cycles.len().saturating_sub(1) / 2;
    let (Some(first), Some(last), 2..) = (cycles.get(middle), cycles.last(), cycles.len()) else {
        return Err(Failure::usage("three weights are needed, for example outer:1 outer:2 best"));
    };
    Ok((vec![Name::Outer(Some(*first)), Name::Outer(Some(*last)), Name::Best], marks))
}

/// Test is looked at only after the run has chosen.
fn splits(options: &LandscapeOptions, both: bool) -> Result<Vec<Split>, Failure> {
    let unfinished =
        options.subject.run.as_ref().is_some_and(|r| !r.join("summary.json").is_file());
    if !options.split.is_empty() {
        if unfinished && options.split.contains(&Split::Test) {
            return Err(Failure::usage(
                "--split test: the run is not finished, and test images are for after its choice; \
                 expected train or validation",
            ));
        }
        return Ok(options.split.clone());
    }
    Ok(match (both, unfinished) {
        (false, _) => vec![Split::Train],
        (true, false) => vec![Split::Train, Split::Test],
        (true, true) => {
            tell("the run is not finished: validation images take the place of test");
            vec![Split::Train, Split::Validation]
        }
    })
}

/// A folder for what is looked at, and for how where that is not as usual: one landscape does not
/// take the place of another.
fn folder(
    options: &LandscapeOptions,
    (kind, names): (&str, &[Name]),
    settings: &[String],
) -> PathBuf {
    let mut name = kind.to_owned();
    let names = names.iter().map(|weights| match weights {
        // With its own folder: files of different runs have the same name.
        Name::File(path) => {
            let folder = path.parent().and_then(|parent| parent.file_name());
            let parts = folder.into_iter().chain(path.file_stem());
            parts.map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>().join("_")
        }
        _ => weights.to_string(),
    });
    for part in names.chain(settings.iter().cloned()) {
        let plain = |c: char| if c.is_alphanumeric() || c == '.' { c } else { '_' };
        name.push('-');
        name.extend(part.chars().map(plain));
    }
    let base = options.subject.run.clone().unwrap_or_default();
    base.join("landscape").join(name)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn folder_of(words: &str) -> String {
        let words = ["hwa", "landscape"].into_iter().chain(words.split(' '));
        let Command::Landscape(command) = Arguments::try_parse_from(words).unwrap().command else {
            panic!("a landscape");
        };
        let files = ["a/best.pt", "b/best.pt"].map(|file| Name::File(file.into()));
        let folder = folder(command.options(), ("random", &files), &command.settings());
        folder.display().to_string()
    }

    #[test]
    fn other_settings_have_a_folder_of_their_own() {
        let usual = folder_of("random --run r best");
        assert_eq!(usual, "r/landscape/random-a_best-b_best");
        let other = folder_of("random --run r best --seed 2 --reach 0.5 --images 64");
        assert_eq!(other, "r/landscape/random-a_best-b_best-reach0.5-seed2-images64");
        let line = folder_of("line --run r best outer --from -2 --split train");
        assert!(line.ends_with("-from_2-train"), "{line}");
    }
}
