//! `hwa figures`: the figures of the paper, from runs of one's own.

mod drawing;
mod presets;
mod surfaces;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hwa_nn::ModelSpec;
use hwa_report::{Figure, PageOptions, Part, Sheet};
use hwa_train::{Experiment, ExperimentError, Interrupt, Method, Span, Started};

pub(in crate::commands) use self::drawing::Trained;

use self::drawing::Drawing;
use self::presets::{Drawn, PRESETS, Preset};
use super::compare::{self, Job, Plan};
use super::train::interrupt_on_ctrl_c;
use crate::arguments::{Compare, Figures};
use crate::failure::Failure;
use crate::output::{give, tell};
use crate::pages;
use crate::terminal::Voice;

/// Inner weights are kept so often within a cycle.
const WITHIN_A_CYCLE: u64 = 10;

/// The paper's data set.
const DATA: &str = "cifar100";

/// Runs the command.
pub(crate) fn run(arguments: &Figures) -> Result<(), Failure> {
    if arguments.list {
        for preset in &PRESETS {
            give(format_args!("{:<22} {}", preset.name, preset.title));
        }
        return Ok(());
    }
    let asked = asked(&arguments.names)?;
    if let Some(network) = &arguments.network {
        network.parse::<ModelSpec>()?;
    }
    let voice = Voice::new(arguments.plain);
    let interrupt = interrupt_on_ctrl_c(voice)?;
    let plans: Vec<(&Preset, Plan)> = asked
        .iter()
        .map(|preset| Ok((*preset, plan(preset, arguments)?)))
        .collect::<Result<_, Failure>>()?;
    if arguments.dry_run {
        let mut all = BTreeSet::new();
        for (preset, plan) in &plans {
            let missing = plan.jobs(true)?;
            let (name, count) = (preset.name, missing.len());
            give(format_args!("{name:<22} {count} of {} runs to train", plan.num_runs()));
            all.extend(missing.into_iter().map(Job::into_dir));
        }
        if plans.len() > 1 {
            let count = all.len();
            give(format_args!("{:<22} {count} different runs to train", "together"));
        }
        return Ok(());
    }
    let mut failed = Vec::new();
    let mut all = Vec::new();
    for (preset, plan) in &plans {
        match draw(preset, plan, arguments, &interrupt) {
            Ok((folder, parts)) => {
                give(folder.join("index.html").display());
                all.push((*preset, parts));
            }
            Err(failure @ Failure::Cancelled { .. }) => return Err(failure),
            // The others can be drawn all the same.
            Err(failure) => {
                tell(format_args!("{}: {failure}", preset.name));
                failed.push(preset.name);
            }
        }
    }
    if !all.is_empty() {
        overview(arguments, all)?;
    }
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(Failure::Run(anyhow::anyhow!("not drawn: {}", failed.join(", ")))),
    }
}

/// The page of all figures: those that were drawn now, and ways to those that were drawn before.
fn overview(arguments: &Figures, drawn: Vec<(&Preset, Vec<Part>)>) -> Result<(), Failure> {
    let folder = root(arguments);
    pages::page_before(&folder)?;
    let what = arguments.network.as_deref().unwrap_or("the paper's networks");
    let lead = format!("Drawn with {what} on {}", arguments.data);
    let mut parts = Vec::new();
    let now: Vec<&str> = drawn.iter().map(|(preset, _)| preset.name).collect();
    let link = |preset: &Preset| {
        let page = format!("{}/index.html", preset.name);
        folder.join(&page).is_file().then(|| (preset.title.to_owned(), page))
    };
    let before = PRESETS.iter().filter(|preset| !now.contains(&preset.name));
    let before: Vec<(String, String)> = before.filter_map(link).collect();
    for (preset, figures) in drawn {
        parts.push(Part::Heading(preset.title.to_owned()));
        parts.extend(figures.into_iter().map(|part| apart(part, preset.name)));
        let page = format!("{}/index.html", preset.name);
        parts.push(Part::Links(vec![("Its own page, with SVG and CSV".to_owned(), page)]));
    }
    if !before.is_empty() {
        parts.push(Part::Heading("Drawn before".to_owned()));
        parts.push(Part::Links(before));
    }
    let sheet = Sheet { title: "The paper's figures".to_owned(), lead, parts };
    let page = sheet.page(PageOptions::default()).map_err(|e| Failure::Run(e.into()))?;
    pages::write_index(&page, &folder)?;
    give(folder.join("index.html").display());
    Ok(())
}

fn asked(names: &[String]) -> Result<Vec<&'static Preset>, Failure> {
    if names.iter().any(|name| name == "all") {
        return Ok(PRESETS.iter().collect());
    }
    let known = || {
        let known: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        known.join(", ")
    };
    let find = |name: &String| {
        presets::named(name).ok_or_else(|| {
            Failure::usage(format!("{name:?} is no figure; expected all, {}", known()))
        })
    };
    let mut asked: Vec<&Preset> = Vec::new();
    for name in names {
        let preset = find(name)?;
        if asked.iter().all(|known| known.name != preset.name) {
            asked.push(preset);
        }
    }
    Ok(asked)
}

/// What has to be trained for a figure. Figures share runs.
fn plan(preset: &Preset, arguments: &Figures) -> Result<Plan, Failure> {
    let seeds: Vec<u64> =
        arguments.seeds.iter().copied().filter(|seed| preset.seeds.contains(seed)).collect();
    if seeds.is_empty() && !arguments.seeds.is_empty() {
        let (name, known) = (preset.name, preset.seeds);
        return Err(Failure::usage(format!("--seeds: {name} has {known:?}, expected one of them")));
    }
    let scale = arguments.scale.map_or_else(String::new, |scale| format!("-scale{scale}"));
    let base = root(arguments);
    let compare = Compare {
        comparison: Some(preset.name.to_owned()),
        scale: arguments.scale,
        seeds,
        sets: arguments.sets.clone(),
        data_dir: arguments.data_dir.clone(),
        out: Some(base.join(format!("{}{scale}", length(preset, &arguments.sets)))),
        cores: arguments.cores,
        plain: arguments.plain,
        ..Compare::default()
    };
    let text = preset.comparison(arguments.network.as_deref(), &arguments.data);
    let mut plan = Plan::new(&compare, &text, Path::new(preset.name))?;
    plan.adjust(|experiment, images| {
        if matches!(preset.drawn, Drawn::Gradients(_)) {
            enough_images(preset, arguments.images, (images, experiment.optimizer.batch))?;
        }
        Ok(keep_inner_weights(experiment, images)?)
    })?;
    plan.draw_curves_of_the_first_seed();
    plan.check_runs()?;
    Ok(plan)
}

/// How long the runs of a figure are, as the name of their folder. Figures that are set to the same
/// length share runs, whatever the paper has.
fn length(preset: &Preset, sets: &[String]) -> String {
    let set = sets.iter().rev().find_map(|set| {
        let (key, value) = set.split_once('=')?;
        let unit = key.trim().strip_prefix("schedule.")?;
        ["epochs", "steps"].contains(&unit).then(|| format!("{}-{unit}", value.trim()))
    });
    set.unwrap_or_else(|| format!("{}-epochs", preset.epochs))
}

fn root(arguments: &Figures) -> PathBuf {
    arguments.out.clone().unwrap_or_else(|| PathBuf::from("runs/figures"))
}

/// The noise of batches is a difference: there must be two of them.
fn enough_images(
    preset: &Preset,
    asked: NonZeroUsize,
    (images, batch): (usize, NonZeroUsize),
) -> Result<(), Failure> {
    if asked.get().min(images) > batch.get() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--images {asked}: {} takes gradients of two batches at least, expected more than {batch} \
         of {images} training images",
        preset.name
    )))
}

/// HWA keeps and judges inner weights, those of two cycles in the middle.
fn keep_inner_weights(experiment: &mut Experiment, images: usize) -> Result<(), ExperimentError> {
    if experiment.method != Method::Hwa {
        return Ok(());
    }
    let plan = experiment.settings(images)?.plan;
    let middle = plan.num_cycles() / 2 + 1;
    experiment.checkpoints.inner_cycles = match middle {
        0..=2 => vec![plan.num_cycles()],
        _ => vec![middle - 1, middle],
    };
    let every = (plan.sync_period.get() / WITHIN_A_CYCLE).max(1);
    experiment.checkpoints.inner_every = Some(Span::Steps(every));
    experiment.evaluate.inner = true;
    Ok(())
}

/// Trains what is missing and draws the figure: where its page is, and what is on it.
fn draw(
    preset: &Preset,
    plan: &Plan,
    arguments: &Figures,
    interrupt: &Interrupt,
) -> Result<(PathBuf, Vec<Part>), Failure> {
    let voice = Voice::new(arguments.plain);
    let folder = root(arguments).join(preset.name);
    // Before hours are spent for a page that could not be written.
    pages::page_before(&folder)?;
    if !plan.jobs(true)?.is_empty() {
        compare::train_missing(plan, arguments.cores, &voice, interrupt)?.all_done()?;
    }
    tell(format_args!("drawing {}", preset.name));
    let cancelled = || interrupt.is_requested();
    let drawing = Drawing {
        runs: plan.trained(),
        folder: &folder,
        size: arguments.size,
        images: arguments.images,
        cores: arguments.cores,
        data_dir: arguments.data_dir.as_deref(),
        plain: arguments.plain,
        cancelled: &cancelled,
    };
    let mut parts = vec![Part::Text(format!("In the paper: {}", preset.lesson))];
    parts.extend(preset.drawn.parts(&drawing)?);
    parts.extend(plan.notes().iter().map(|note| Part::Text(note.clone())));
    parts.extend(in_the_paper(preset, arguments).map(Part::Text));
    parts.extend(windows_alike(&drawing)?.map(Part::Text));
    let networks = drawing.networks();
    let networks = networks.iter().collect::<Vec<_>>().join(", ");
    let lead =
        format!("The paper's figure {}, drawn with {networks} on {}", preset.name, arguments.data);
    let sheet = Sheet { title: preset.title.to_owned(), lead, parts: parts.clone() };
    let page = sheet.page(PageOptions { files: true, ..PageOptions::default() });
    pages::write(&page.map_err(|error| Failure::Run(error.into()))?, &folder)?;
    Ok((folder, parts))
}

/// A part on a page with other figures: their names are told apart.
fn apart(part: Part, preset: &str) -> Part {
    match part {
        Part::Figure(figure) if !figure.name.starts_with(preset) => {
            Part::Figure(Figure { name: format!("{preset}-{}", figure.name), ..figure })
        }
        other => other,
    }
}

/// What the paper has where a key was set to something else.
fn in_the_paper(preset: &Preset, arguments: &Figures) -> Option<String> {
    let table: toml::Table = preset.comparison(None, DATA).parse().ok()?;
    let experiment = table.get("experiment")?;
    let found = |set: &String| {
        let (key, _) = set.split_once('=')?;
        let parts = key.trim().split('.');
        let value = parts.into_iter().try_fold(experiment, |value, part| value.get(part))?;
        Some(format!("{} = {value}", key.trim()))
    };
    let mut values: Vec<String> = Vec::new();
    if arguments.network.is_some() {
        values.push(preset.networks.join(", "));
    }
    if arguments.data != DATA {
        values.push(DATA.to_owned());
    }
    values.extend(arguments.sets.iter().filter_map(found));
    (!values.is_empty()).then(|| format!("The paper has {}.", values.join(", ")))
}

/// That windows of different length hold the same cycles all the time, where a run is too short.
fn windows_alike(drawing: &Drawing<'_>) -> Result<Option<String>, Failure> {
    for run in &drawing.runs {
        let started = run.record()?.started;
        if let Some(lengths) = alike(&started) {
            let (method, cycles) = (&run.method, started.num_cycles);
            return Ok(Some(format!(
                "{method} has {cycles} cycles here: its windows of {lengths} cycles always hold \
                 the same ones, and their curves are one."
            )));
        }
    }
    Ok(None)
}

/// The lengths of windows that are never full before the run is over.
fn alike(started: &Started) -> Option<String> {
    let lengths = started.windows.iter().filter_map(|window| window.length);
    let long: Vec<String> = lengths
        .filter(|length| length.get() >= started.num_cycles)
        .map(|length| length.to_string())
        .collect();
    (long.len() > 1).then(|| long.join(" and "))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use hwa_core::WindowSpec;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn figures(names: &[&str]) -> Figures {
        let words = ["hwa", "figures"].iter().chain(names);
        match Arguments::try_parse_from(words).unwrap().command {
            Command::Figures(figures) => figures,
            _ => panic!("figures"),
        }
    }

    #[test]
    fn one_batch_has_no_noise() {
        let enough = |asked, images| {
            let [asked, batch] = [asked, 128].map(|n: usize| NonZeroUsize::new(n).unwrap());
            enough_images(&PRESETS[9], asked, (images, batch))
        };
        assert!(enough(129, 1000).is_ok());
        let refused = enough(128, 1000).unwrap_err().to_string();
        let expected = "--images 128: convergence-condition takes gradients of two batches at \
                        least, expected more than 128 of 1000 training images";
        assert_eq!(refused, expected);
        assert!(enough(1000, 100).is_err());
    }

    #[test]
    fn what_was_set_is_told_beside_the_papers_value() {
        let sets = ["schedule.epochs=20", "hwa.num_models = 4", "log.tensorboard=true"];
        let mut asked = figures(&["all"]);
        assert_eq!(in_the_paper(&PRESETS[11], &asked), None);
        asked.sets = sets.map(str::to_owned).to_vec();
        let told = in_the_paper(&PRESETS[11], &asked).unwrap();
        assert_eq!(told, "The paper has schedule.epochs = 200, hwa.num_models = 2.");
        asked = Figures { network: Some("resnet8".to_owned()), ..figures(&["all"]) };
        asked.data = "digits".to_owned();
        let told = in_the_paper(&PRESETS[0], &asked).unwrap();
        assert_eq!(told, "The paper has resnet56, cifar100.");
    }

    #[test]
    fn figures_of_the_same_length_share_runs() {
        let [long, short] = [&PRESETS[1], &PRESETS[3]];
        assert_eq!([length(long, &[]), length(short, &[])], ["400-epochs", "200-epochs"]);
        let sets = ["schedule.epochs=20", "hwa.num_models=4", "schedule.epochs = 30"];
        let sets = sets.map(str::to_owned);
        assert_eq!([length(long, &sets), length(short, &sets)], ["30-epochs", "30-epochs"]);
        assert_eq!(length(long, &["schedule.steps=90".to_owned()]), "90-steps");
    }

    #[test]
    fn windows_that_never_differ_are_told() {
        let windows = [20, 50].map(|n: usize| WindowSpec::sliding(n.try_into().unwrap())).to_vec();
        let mut started = Started { num_cycles: 20, windows, ..Started::default() };
        assert_eq!(alike(&started).as_deref(), Some("20 and 50"));
        started.num_cycles = 21;
        assert_eq!(alike(&started), None);
    }
}
