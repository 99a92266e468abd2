//! `hwa average --soup`: which checkpoints are worth averaging.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hwa_core::search::{Soup, Tried, Worth, greedy_soup};
use hwa_store::{Averaging, Watch, Window};
use serde_json::{Value, json};

use crate::arguments::{Average, Scoring};
use crate::counting::{A_LINE_EVERY, Counting};
use crate::failure::Failure;
use crate::opened;
use crate::output::tell;
use crate::scoring::{self, Goal, Look, RE_ESTIMATED, Subject};
use crate::series::run_of;
use crate::table::digits;

/// What was chosen, and how.
pub(crate) struct Brew {
    pub(crate) window: Window,
    /// Whose batch-norm statistics it was scored with.
    pub(crate) statistics: &'static str,
    /// Whether it is written: by a network, with the statistics that it was scored with.
    pub(crate) is_written: bool,
    soup: Soup,
    goal: Goal,
}

/// Says so, if something is asked for that only a soup needs.
pub(crate) fn ensure_asked_for(arguments: &Average) -> Result<(), Failure> {
    let Scoring { model, data, data_dir, batch, eval, .. } = &arguments.scoring;
    let given = [
        ("--model", model.is_some()),
        ("--data", data.is_some()),
        ("--data-dir", data_dir.is_some()),
        ("--batch", batch.is_some()),
        ("--eval", eval.is_some()),
    ];
    if arguments.soup && eval.is_none() && arguments.dtype.is_some() {
        return Err(Failure::usage(
            "--dtype is not for the soup of a network, which is written as it was scored",
        ));
    }
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) if !arguments.soup => {
            Err(Failure::usage(format!("{option} is for --soup: all else needs no evaluation")))
        }
        _ => Ok(()),
    }
}

/// Chooses checkpoints, each average looked at as it would be used.
pub(crate) fn choose(
    arguments: &Average,
    averaging: &Averaging<'_>,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Brew, Failure> {
    opened::on_threads(arguments.threads, || {
        let watch = Watch { progress: &|_| {}, cancelled };
        let averaging = Averaging { watch, ..averaging.clone() };
        brew(arguments, &averaging, cancelled)
    })
}

fn brew<'a>(
    arguments: &'a Average,
    averaging: &'a Averaging<'a>,
    cancelled: &'a (dyn Fn() -> bool + Sync),
) -> Result<Brew, Failure> {
    let series = averaging.series;
    let subject = Subject {
        averaging,
        run: run_of(&arguments.series),
        screening_images: NonZeroUsize::MIN,
        test_eval: None,
        candidate: beside(&arguments.out),
        cancelled,
    };
    let mut scorer = scoring::open(&arguments.scoring, subject)?;
    let goal = scorer.goal();
    let (bar, mut done, mut told) = (Counting::new("averages"), 0, Instant::now());
    // Each alone, and each but the best with those before it.
    let total = (2 * series.len() - 1) as u64;
    let score = |members: &[usize]| -> Result<Worth, Failure> {
        bar.name(if members.len() == 1 { "each alone" } else { "together" });
        bar.show(done, Some(total));
        if !bar.is_shown() && told.elapsed() >= A_LINE_EVERY {
            told = Instant::now();
            tell(format_args!("soup: {done} of at most {total} averages are scored"));
        }
        let measured = scorer.measure(&series.selection(members)?, Look::Full)?;
        done += 1;
        Ok(goal.worth(&measured))
    };
    let soup = greedy_soup(series.len(), score)?;
    bar.end();
    let none = || Failure::Run(anyhow::anyhow!("no checkpoint scored a finite number"));
    let soup = soup.ok_or_else(none)?;
    let window = series.selection(&soup.members)?.chosen_by("greedy soup");
    let statistics = scorer.statistics();
    let is_written = statistics == RE_ESTIMATED;
    if is_written {
        scorer.save(&window, &arguments.out)?;
    }
    Ok(Brew { window, statistics, is_written, soup, goal })
}

/// A place for averages that are looked at, hidden beside the result.
fn beside(out: &Path) -> PathBuf {
    let name = out.file_stem().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!(".{name}-candidate-{}.safetensors", std::process::id()))
}

impl Brew {
    /// For scripts.
    pub(crate) fn json(&self) -> Value {
        let number = |worth: &Worth| self.number(worth);
        let tried = |tried: &Tried| json!({ "place": tried.member + 1, "score": number(&tried.worth), "kept": tried.kept });
        json!({
            "score": number(&self.soup.worth),
            "alone": self.soup.alone.iter().map(number).collect::<Vec<_>>(),
            "tried": self.soup.tried.iter().map(tried).collect::<Vec<_>>(),
        })
    }

    /// As it was measured; nothing if it is not a number.
    fn number(&self, worth: &Worth) -> Option<f64> {
        let score = match self.goal {
            Goal::High => worth.score,
            Goal::Low => -worth.score,
        };
        Some(score).filter(|score| score.is_finite())
    }

    /// For people.
    pub(crate) fn tell(&self) {
        let best = self.soup.alone.iter().filter(|worth| worth.is_finite());
        let best = best.max_by(|a, b| a.compare(b)).and_then(|worth| self.number(worth));
        let (kept, all) = (self.soup.members.len(), self.soup.alone.len());
        let (score, best) =
            (self.number(&self.soup.worth).unwrap_or(f64::NAN), best.unwrap_or(f64::NAN));
        // Accuracies are in percent; of other scores nothing is known.
        let alone = self.soup.alone.iter().map(|worth| worth.score);
        let digits = if self.statistics == RE_ESTIMATED { 2 } else { digits(alone) };
        tell(format_args!(
            "the soup of {kept} of {all} scores {score:.digits$}, the best of them alone \
             {best:.digits$}"
        ));
    }
}
