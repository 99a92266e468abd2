//! Series of checkpoints, as several commands open them.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hwa_store::{BadMember, Limits, Series, Watch};

use crate::arguments::OrderBy;
use crate::counting::{A_LINE_EVERY, Counting};
use crate::environment;
use crate::failure::Failure;
use crate::output::tell;

/// What a pass may use.
pub(crate) fn limits(max_memory: usize, threads: Option<NonZeroUsize>) -> Limits {
    let cores = NonZeroUsize::new(environment::cores()).unwrap_or(NonZeroUsize::MIN);
    Limits { max_memory, threads: threads.unwrap_or(cores) }
}

/// The run that a series is of, if it is one.
pub(crate) fn run_of(series: &[PathBuf]) -> Option<PathBuf> {
    match series {
        [only] if is_run(only) => Some(only.clone()),
        _ => None,
    }
}

fn is_run(folder: &Path) -> bool {
    folder.join("experiment.toml").is_file()
}

/// An average among the checkpoints, or in a folder among them, would be one of them the next
/// time. Of a run only its outer weights are taken.
pub(crate) fn ensure_apart(series: &[PathBuf], out: &Path) -> Result<(), Failure> {
    let file = real(out);
    if let Some(run) = run_that_owns(&file) {
        return Err(Failure::usage(format!(
            "{} is a place for files of the run {}; --out names another one",
            out.display(),
            run.display()
        )));
    }
    let near: Vec<&Path> = file.ancestors().skip(1).take(2).collect();
    let is_of_run = |folder: &Path| {
        is_run(folder) || folder.ends_with("checkpoints") && folder.parent().is_some_and(is_run)
    };
    let holds = |folder: &PathBuf| {
        let folder = real(folder);
        folder.is_dir() && !is_of_run(&folder) && near.contains(&folder.as_path())
    };
    match series.iter().any(holds) {
        true => Err(Failure::usage(format!(
            "{} lies in the folder of the checkpoints, and would be one of them the next time; \
             --out names another place",
            out.display()
        ))),
        false => Ok(()),
    }
}

/// The run whose own files are at such a place: its checkpoints, its states and its result.
fn run_that_owns(file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    let inside = folder.ends_with("checkpoints") || folder.ends_with("state");
    let result = file.file_name().is_some_and(|name| name == "best.safetensors");
    let run = if inside { folder.parent() } else { Some(folder).filter(|_| result) };
    run.filter(|run| is_run(run))
}

/// What can be asked for by mistake where runs are concerned.
fn ensure_sensible(paths: &[PathBuf]) -> Result<(), Failure> {
    for path in paths {
        let shown = path.display();
        let folder = real(path);
        if !folder.exists() {
            return Err(Failure::usage(format!(
                "{shown} is not there; expected a file, a folder of checkpoints or a run"
            )));
        }
        if paths.len() > 1 && is_run(&folder) {
            return Err(Failure::usage(format!(
                "{shown} is a run, and a run is averaged alone; name files in its checkpoints/ to \
                 take them beside others"
            )));
        }
        if folder.ends_with("state") && folder.parent().is_some_and(is_run) {
            return Err(Failure::usage(format!(
                "{shown} is where a run keeps what it goes on from; name the run itself for its \
                 outer weights"
            )));
        }
    }
    Ok(())
}

/// Opens a series, and says what is not as one may think.
pub(crate) fn open(
    paths: &[PathBuf],
    order: OrderBy,
    key: Option<&str>,
) -> Result<Series, Failure> {
    ensure_sensible(paths)?;
    let series = Series::open_entry(paths, order.into(), key)?;
    tell_of_names_without_number(&series);
    if series.is_by_number_in_name() {
        tell("the files state no steps: they are ordered by the last number in their names");
    }
    for line in twice(&series.paths().collect::<Vec<_>>()) {
        tell(line);
    }
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    match series.passed_over().iter().filter_map(name).collect::<Vec<_>>().as_slice() {
        [] => {}
        names => tell(format_args!(
            "passed over, as no checkpoints of the series: {}; name the files to take others",
            names.join(", ")
        )),
    }
    Ok(series)
}

/// An average beside checkpoints that were named is not one of them, but may be taken for one.
pub(crate) fn tell_of_neighbours(series: &Series, out: &Path) {
    let (folder, ending) = (real(out).parent().map(Path::to_owned), out.extension());
    let is_beside = |path: &Path| {
        path.extension() == ending && real(path).parent().map(Path::to_owned) == folder
    };
    if series.paths().any(is_beside) && !series.is_by_cycle() {
        tell(format_args!(
            "{} lies among the checkpoints: a pattern that names them may name it too, the next \
             time",
            out.display()
        ));
    }
}

/// `best.pt` beside `epoch-1.pt` is a checkpoint like all others, and by its name the oldest. Not
/// everybody who names their folder means that.
fn tell_of_names_without_number(series: &Series) {
    let named = without_number(series.paths());
    if let Some(first) = named.first() {
        let others = match named.len() {
            1 => "has no number in its name, as the others have: it is".to_owned(),
            count => format!("and {} more have no number in their names: they are", count - 1),
        };
        tell(format_args!(
            "{} {others} taken all the same; name the files to leave some out",
            first.display()
        ));
    }
}

/// What looks as if weights were there twice: one file under two names, one name with two endings.
fn twice(paths: &[&Path]) -> Vec<String> {
    let (mut files, mut stems) = (HashMap::new(), HashMap::new());
    let mut lines = Vec::new();
    for path in paths {
        let shown = path.display();
        if let Some(other) = files.insert(real(path), path) {
            lines.push(format!("{} and {shown} are one file: it counts twice", other.display()));
        } else if let Some(other) = stems.insert(path.with_extension(""), path)
            && stands_for_itself(path)
        {
            lines.push(format!(
                "{} and {shown} differ in their endings alone: if they are the same weights, name \
                 the files of one kind",
                other.display()
            ));
        }
    }
    // The first of many is enough.
    let more = lines.len().saturating_sub(1);
    lines.truncate(1);
    lines.extend((more > 0).then(|| format!("... and {more} more like that")));
    lines
}

/// An index stands for other files, and the 10 of `model.10` is no ending.
fn stands_for_itself(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().into_owned());
    ending.is_some_and(|ending| ending != "json" && !ending.contains(char::is_numeric))
}

/// Those whose names have no digit, where most have one.
fn without_number<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<&'a Path> {
    let has_digit = |path: &Path| {
        path.file_stem().is_some_and(|name| name.to_string_lossy().contains(char::is_numeric))
    };
    let (numbered, others): (Vec<&Path>, Vec<&Path>) = paths.partition(|path| has_digit(path));
    if numbered.len() > others.len() { others } else { Vec::new() }
}

/// What is written must not take the place of what is read.
pub(crate) fn ensure_no_member(series: &Series, outputs: &[PathBuf]) -> Result<(), Failure> {
    let members: Vec<PathBuf> = series.files().map(real).collect();
    match outputs.iter().find(|out| members.contains(&real(out))) {
        Some(out) => {
            let shown = out.display();
            Err(Failure::usage(format!(
                "{shown} is one of the checkpoints; --out names another file"
            )))
        }
        None => Ok(()),
    }
}

/// A path without links, also of what is not there yet.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = absolute.ancestors().find_map(|there| {
        let rest = absolute.strip_prefix(there).ok()?;
        Some(fs::canonicalize(there).ok()?.join(rest))
    });
    known.map_or(absolute.clone(), |known| known.components().collect())
}

/// A checkpoint that was left out.
pub(crate) struct LeftOut {
    /// Its place in the series, as it was.
    pub(crate) place: usize,
    pub(crate) file: String,
    /// Its first tensor that is to blame.
    pub(crate) tensor: String,
}

/// Takes bad members out of a series.
pub(crate) fn left_out(
    series: &mut Series,
    limits: Limits,
    progress: &Progress,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<LeftOut>, Failure> {
    progress.expect(series.num_file_bytes());
    let report = |done| progress.show("looking for NaN", done);
    let bad = series.bad_members(limits, Watch { progress: &report, cancelled })?;
    let name = |bad: &BadMember| {
        let path = series.paths().nth(bad.member).map(|path| path.display().to_string());
        let (file, tensor) = (path.unwrap_or_default(), bad.tensor.clone());
        LeftOut { place: bad.member, file, tensor }
    };
    let names: Vec<LeftOut> = bad.iter().map(name).collect();
    for LeftOut { file, tensor, .. } in &names {
        tell(format_args!("left out: {file}, `{tensor}` holds NaN or infinite values"));
    }
    series.leave_out(&bad)?;
    Ok(names)
}

/// A bar on a terminal, lines elsewhere.
pub(crate) struct Progress {
    bar: Counting,
    total: Mutex<u64>,
    told: Mutex<Instant>,
    is_ended: AtomicBool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            bar: Counting::bytes(),
            total: Mutex::new(0),
            told: Mutex::new(Instant::now()),
            is_ended: AtomicBool::new(false),
        }
    }

    pub(crate) fn expect(&self, bytes: u64) {
        if let Ok(mut total) = self.total.lock() {
            *total = bytes;
        }
    }

    /// Called by many threads: whoever finds another one at it goes on working.
    pub(crate) fn show(&self, what: &str, done: u64) {
        let (Ok(total), Ok(mut told)) = (self.total.try_lock(), self.told.try_lock()) else {
            return;
        };
        if self.is_ended.load(Ordering::Relaxed) {
            return;
        }
        if self.bar.is_shown() {
            self.bar.name(what);
            self.bar.show(done, Some(*total));
        } else if told.elapsed() >= A_LINE_EVERY {
            *told = Instant::now();
            let (done, total) = (done as f64 / 1e9, *total as f64 / 1e9);
            tell(format_args!("{what}: {done:.1} of {total:.1} GB"));
        }
    }

    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.bar.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_the_same_twice_is_told_of() {
        let told = |names: &[&str]| twice(&names.iter().map(Path::new).collect::<Vec<_>>());
        assert!(told(&["e-1.pt", "e-2.pt", "x/e-1.pt"]).is_empty());
        assert!(told(&["model.10", "model.20"]).is_empty());
        let same = told(&["e-1.pt", "./e-1.pt"]);
        assert_eq!(same, ["e-1.pt and ./e-1.pt are one file: it counts twice"]);
        let kinds = told(&["e-1.pt", "e-1.safetensors", "e-2.pt", "e-2.safetensors"]);
        assert!(kinds[0].starts_with("e-1.pt and e-1.safetensors differ in their endings alone"));
        assert_eq!(kinds[1..], ["... and 1 more like that"]);
    }

    #[test]
    fn places_of_a_run_are_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let run = real(folder.path()).join("run");
        for below in ["checkpoints", "state"] {
            fs::create_dir_all(run.join(below)).unwrap();
        }
        let owner = |name: &str| run_that_owns(&run.join(name)).map(Path::to_owned);
        let series = [run.join("checkpoints")];
        assert_eq!(owner("checkpoints/mean.safetensors"), None, "any folder of checkpoints");
        fs::write(run.join("experiment.toml"), "").unwrap();
        for name in ["checkpoints/outer-000013.safetensors", "state/a", "best.safetensors"] {
            assert_eq!(owner(name), Some(run.clone()), "{name}");
            assert!(ensure_apart(&series, &run.join(name)).is_err(), "{name}");
        }
        assert_eq!(owner("mean.safetensors"), None);
        let refused = |paths: &[PathBuf]| ensure_sensible(paths).unwrap_err().to_string();
        assert!(refused(&[run.clone(), folder.path().to_owned()]).contains("averaged alone"));
        assert!(refused(&[run.join("state")]).contains("name the run itself"));
        assert!(refused(&[run.join("nothing")]).contains("is not there"));
        assert!(ensure_sensible(&[run]).is_ok());
    }

    #[test]
    fn names_without_a_number_stand_out_among_those_with_one() {
        let named = |names: &[&str]| {
            let paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
            let found = without_number(paths.iter().map(PathBuf::as_path));
            found.into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(named(&["best.pt", "epoch-1.pt", "epoch-2.pt"]), ["best.pt"]);
        assert!(named(&["a.pt", "b.pt", "c1.pt"]).is_empty());
        assert!(named(&["a/model.safetensors", "b/model.safetensors"]).is_empty());
    }
}
