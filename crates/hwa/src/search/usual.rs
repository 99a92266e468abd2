//! The windows that one would take without a search.

use std::num::NonZeroUsize;
use std::path::Path;

use hwa_core::WindowSpec;
use hwa_core::search::{Candidate, Space};

use crate::failure::Failure;
use crate::pages;

/// The paper's window.
const LENGTH: usize = 20;

/// A window that needs no search, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Usual {
    pub(crate) name: String,
    pub(crate) window: Candidate,
}

/// The usual windows, the default first: what a run has chosen, the last 20, the mean of all, and
/// the last checkpoint.
pub(crate) fn usual(run: Option<&Path>, space: &Space) -> Result<Vec<Usual>, Failure> {
    let chosen = match run {
        Some(run) => of_run(run, space)?,
        None => None,
    };
    let last = space.numbers().len() - 1;
    let at_the_end = |count: usize| space.covering(last, count, NonZeroUsize::MIN);
    let mut windows: Vec<(String, Option<Candidate>)> = Vec::new();
    if let Some(chosen) = chosen {
        windows.push((chosen.name, Some(chosen.window)));
    }
    if last >= LENGTH {
        windows.push((format!("the last {LENGTH}"), at_the_end(LENGTH)));
    }
    windows.push(("the mean of all".to_owned(), space.everything()));
    windows.push(("the last checkpoint".to_owned(), at_the_end(1)));
    let mut usual: Vec<Usual> = Vec::new();
    for (name, window) in windows {
        // A window that is two of them has the name of the first.
        let members = |window: &Candidate| space.members(window);
        let is_new = |w: &Candidate| usual.iter().all(|other| members(&other.window) != members(w));
        if let Some(window) = window.filter(is_new) {
            usual.push(Usual { name, window });
        }
    }
    Ok(usual)
}

/// What the run has chosen; of one under way, its window as it is now.
fn of_run(run: &Path, space: &Space) -> Result<Option<Usual>, Failure> {
    let record = pages::record(run, "")?;
    let windows = record.started.windows;
    let one = WindowSpec::sliding(NonZeroUsize::MIN);
    let chosen = record.summary.and_then(|summary| summary.chosen);
    let (spec, at, name) = match chosen {
        Some(chosen) if chosen.model.is_none() => {
            let spec = chosen.window.and_then(|window| windows.get(window).copied());
            (spec.unwrap_or(one), chosen.cycle, "the run's choice")
        }
        Some(_) => return Ok(None),
        None => match windows.first() {
            Some(spec) => {
                (*spec, space.numbers().last().copied().unwrap_or(0), "the run's window so far")
            }
            None => return Ok(None),
        },
    };
    let all = (spec.oldest(at)..=at).filter(|cycle| spec.admits(*cycle)).count();
    let Some(window) = space.candidate(spec, at) else { return Ok(None) };
    let kept = space.members(&window).len();
    let name = match kept == all {
        true => name.to_owned(),
        false => format!("{name} ({kept} of its {all} members are kept)"),
    };
    Ok(Some(Usual { name, window }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(count: usize) -> Vec<(String, String)> {
        let space = Space::new(&(1..=count).collect::<Vec<_>>()).unwrap();
        let usual = usual(None, &space).unwrap();
        usual.into_iter().map(|usual| (usual.name, usual.window.to_string())).collect()
    }

    #[test]
    fn what_is_usual_depends_on_how_many_there_are() {
        let shown = |count| named(count).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(shown(30), ["the last 20", "the mean of all", "the last checkpoint"]);
        assert_eq!(shown(20), ["the mean of all", "the last checkpoint"]);
        assert_eq!(named(30)[0].1, "e = 30, I = 20, s = 1");
        assert_eq!(named(2)[1].1, "e = 2, I = 1, s = 1");
    }
}
