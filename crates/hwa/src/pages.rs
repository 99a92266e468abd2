//! Pages about runs: read from their folders, written beside them.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use hwa_report::{Page, PageOptions, Process, Record, ReportError, page};
use hwa_store::{RunDir, StoreError, read_to_string, write_atomically};
use hwa_train::{Event, Observer};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::tell;

/// How a run without a result ended, in its folder.
const ENDED: &str = "ended.json";
/// How deep runs are looked for below a folder.
const DEEPEST: usize = 5;
/// A page is made again at most so often while a run is under way.
const PAUSE: Duration = Duration::from_secs(2);
/// And after so many times what it took.
const REST: u32 = 20;

/// Reads what a run tells of itself. One that has just begun tells nothing yet.
pub(crate) fn record(run: &Path, name: &str) -> Result<Record, Failure> {
    let events = run.join("events.jsonl");
    let text = match events.exists() {
        true => read_to_string(&events)?,
        false => String::new(),
    };
    let located = |error: ReportError| anyhow::anyhow!("{}: {error}", events.display());
    let mut record = Record::from_events(name, &text).map_err(|e| Failure::Run(located(e)))?;
    record.folder = run.display().to_string();
    record.experiment = read_to_string(&run.join("experiment.toml"))?;
    record.environment = read_to_string(&run.join("environment.json")).unwrap_or_default();
    if record.summary.is_none() {
        let there = RunDir::is_in_use(run);
        record.process = if there { Process::There } else { how_it_ended(run) };
        record.heard = changed(&events);
    }
    Ok(record)
}

/// When a file was written last, in seconds since 1970.
fn changed(path: &Path) -> Option<u64> {
    let at = fs::metadata(path).and_then(|about| about.modified()).ok()?;
    Some(at.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

/// What became of a run that has no result and no process.
fn how_it_ended(run: &Path) -> Process {
    let told = read_to_string(&run.join(ENDED)).ok();
    let ended = told.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    match ended {
        Some(ended) => match ended.get("failed").and_then(Value::as_str) {
            Some(reason) => Process::Failed(reason.to_owned()),
            None => Process::Interrupted,
        },
        None => Process::Gone,
    }
}

/// A run that goes on has not ended.
pub(crate) fn goes_on(run: &Path) {
    drop(fs::remove_file(run.join(ENDED)));
}

/// Writes the page of a run that its own process leaves without a result, and for later pages how
/// it ended.
pub(crate) fn write_left(run: &Path, process: Process) -> Result<(), Failure> {
    let ended = match &process {
        Process::Failed(reason) => json!({ "failed": reason }),
        _ => json!({ "failed": null }),
    };
    write_atomically(&run.join(ENDED), |file| writeln!(file, "{ended}"))?;
    let name = names(&[run.to_owned()]).remove(0);
    let record = Record { process, ..record(run, &name)? };
    let page = page(&[record], PageOptions::default()).map_err(|e| Failure::Run(e.into()))?;
    write_index(&page, &run.join("report"))
}

/// The runs that are named: run directories themselves, or folders with some in them.
pub(crate) fn runs(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut runs = Vec::new();
    for folder in named {
        if !folder.is_dir() {
            let folder = folder.display();
            return Err(Failure::usage(format!("{folder} is no folder; expected a run, or runs")));
        }
        let before = runs.len();
        collect(folder, DEEPEST, &mut runs)?;
        if runs.len() == before {
            let folder = folder.display();
            return Err(Failure::usage(format!(
                "{folder} is no run, and has none in it; expected experiment.toml and events.jsonl"
            )));
        }
    }
    let (once, again) = apart(runs);
    for run in again {
        tell(format_args!("{} is named twice, and shown once", run.display()));
    }
    Ok(once)
}

/// A page about what is there at this moment. What cannot be read is left out.
pub(crate) fn now(named: &[PathBuf], options: PageOptions) -> Result<Page, Failure> {
    let mut runs = Vec::new();
    for folder in named {
        collect(folder, DEEPEST, &mut runs)?;
    }
    let (read, mut failures) = read_all(apart(runs).0);
    match (read.is_empty(), failures.pop()) {
        (true, Some(failure)) => Err(failure),
        _ => page_of(read, options),
    }
}

/// Runs with what they tell. One that cannot be read does not keep the others from being seen.
pub(crate) fn readable(runs: Vec<PathBuf>) -> Result<Vec<(PathBuf, Record)>, Failure> {
    let (read, mut failures) = read_all(runs);
    if read.is_empty()
        && let Some(failure) = failures.pop()
    {
        return Err(failure);
    }
    for failure in failures {
        tell(format_args!("left out: {failure}"));
    }
    for (run, record) in &read {
        if record.summary.is_none() && run.join("summary.json").is_file() {
            let log = run.join("events.jsonl");
            let log = log.display();
            tell(format_args!("{log} has no end, but the run is finished: it is not whole"));
        }
    }
    Ok(read)
}

/// Runs that can be read, under names that tell them apart, and why others cannot.
fn read_all(runs: Vec<PathBuf>) -> (Vec<(PathBuf, Record)>, Vec<Failure>) {
    let (mut read, mut failures) = (Vec::new(), Vec::new());
    for run in runs {
        match record(&run, "") {
            Ok(record) => read.push((run, record)),
            Err(failure) => failures.push(failure),
        }
    }
    let places: Vec<PathBuf> = read.iter().map(|(run, _)| run.clone()).collect();
    for ((_, record), name) in read.iter_mut().zip(names(&places)) {
        record.name = name;
    }
    (read, failures)
}

/// Each run once, and those that are named again.
fn apart(runs: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut known = HashSet::new();
    let place = |run: &PathBuf| fs::canonicalize(run).unwrap_or_else(|_| run.clone());
    runs.into_iter().partition(|run| known.insert(place(run)))
}

fn collect(folder: &Path, deep: usize, runs: &mut Vec<PathBuf>) -> Result<(), Failure> {
    // A comparison keeps experiments beside its runs: those have nothing else.
    let told = ["events.jsonl", "environment.json"];
    let told = told.iter().any(|name| folder.join(name).is_file());
    if told && folder.join("experiment.toml").is_file() {
        runs.push(folder.to_owned());
        return Ok(());
    }
    if deep == 0 {
        return Ok(());
    }
    let entries = fs::read_dir(folder).map_err(StoreError::io("read", folder))?;
    let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    below.sort();
    for path in below.iter().filter(|path| path.is_dir()) {
        collect(path, deep - 1, runs)?;
    }
    Ok(())
}

/// Names that tell runs apart: of the ends of their paths the shortest that do.
pub(crate) fn names(runs: &[PathBuf]) -> Vec<String> {
    let parts: Vec<Vec<String>> = runs.iter().map(|run| parts(run)).collect();
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    let end =
        |parts: &Vec<String>, count: usize| parts[parts.len().saturating_sub(count)..].join("/");
    let tells_apart = |count: &usize| {
        let mut ends: Vec<String> = parts.iter().map(|parts| end(parts, *count)).collect();
        ends.sort();
        ends.dedup();
        ends.len() == parts.len()
    };
    let count = (1..=longest).find(tells_apart).unwrap_or(longest);
    parts.iter().map(|parts| end(parts, count)).collect()
}

fn parts(run: &Path) -> Vec<String> {
    let run = fs::canonicalize(run).unwrap_or_else(|_| run.to_owned());
    let parts = run.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    parts.filter(|part| part != "/").collect()
}

/// A page about some runs, all of which can be read.
pub(crate) fn of_runs(runs: &[PathBuf], options: PageOptions) -> Result<Page, Failure> {
    let (read, mut failures) = read_all(runs.to_vec());
    match failures.pop() {
        Some(failure) => Err(failure),
        None => page_of(read, options),
    }
}

/// A page about runs that were read.
pub(crate) fn page_of(read: Vec<(PathBuf, Record)>, options: PageOptions) -> Result<Page, Failure> {
    let records: Vec<Record> = read.into_iter().map(|(_, record)| record).collect();
    page(&records, options).map_err(|error| Failure::Run(error.into()))
}

/// Writes a page with its figures and data into a folder, and tells which files.
pub(crate) fn write(page: &Page, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    let before = page_before(folder)?;
    let mut files: Vec<(String, String)> = Vec::new();
    for figure in &page.figures {
        let svg = figure.to_svg().map_err(|error| Failure::Run(error.into()))?;
        files.push((format!("{}.svg", figure.name), svg));
        files.push((format!("{}.csv", figure.name), figure.to_csv()));
    }
    files.extend(page.files.iter().map(|file| (file.name.clone(), file.text.clone())));
    let files = files.into_iter().map(|(name, text)| (folder.join(name), text));
    let files: Vec<(PathBuf, String)> = files.collect();
    // Beside a page of ours, or a figure, files of these names are its own.
    let is_ours = |path: &Path| {
        let text = || read_to_string(path).is_ok_and(|text| hwa_report::is_our_figure(&text));
        path.extension().is_some_and(|kind| kind == "svg") && text()
    };
    if before.is_empty()
        && !files.iter().any(|(path, _)| is_ours(path))
        && let Some((path, _)) = files.iter().find(|(path, _)| path.exists())
    {
        return Err(Failure::usage(format!(
            "{} is of no page of hwa, and would be overwritten; move it, or name another folder",
            path.display()
        )));
    }
    for (path, text) in &files {
        write_atomically(path, |file| file.write_all(text.as_bytes()))?;
    }
    // After them: it leads to them.
    write_index(page, folder)?;
    // What only the page before had is of no page now.
    for name in links(&before).difference(&links(&page.html)) {
        let _ = fs::remove_file(folder.join(name));
    }
    Ok(files.into_iter().map(|(path, _)| path).chain([folder.join("index.html")]).collect())
}

/// The page that is there already. One that somebody else made is not overwritten.
pub(crate) fn page_before(folder: &Path) -> Result<String, Failure> {
    let index = folder.join("index.html");
    if !index.exists() {
        return Ok(String::new());
    }
    let before = read_to_string(&index)?;
    if hwa_report::is_ours(&before) {
        return Ok(before);
    }
    Err(Failure::usage(format!(
        "{} is no page of hwa, and would be overwritten; name another folder",
        index.display()
    )))
}

/// The files of figures that a page leads to.
fn links(html: &str) -> BTreeSet<String> {
    let ends = html.split("<a href=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    let names = ends.map(|(name, _)| name).filter(|name| {
        let (stem, kind) = name.rsplit_once('.').unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        matches!(kind, "svg" | "csv") && !stem.is_empty() && stem.chars().all(plain)
    });
    names.map(str::to_owned).collect()
}

/// Writes a page without its figures as files.
pub(crate) fn write_index(page: &Page, folder: &Path) -> Result<(), Failure> {
    let index = folder.join("index.html");
    Ok(write_atomically(&index, |file| file.write_all(page.html.as_bytes()))?)
}

/// Makes a run's page again while the run is under way, in a thread of its own: training does
/// not wait for it, and goes on without it.
pub(crate) struct Refresher<O> {
    /// Who else watches.
    observer: O,
    ticks: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl<O: Observer> Refresher<O> {
    /// For the run in this folder, beside another observer.
    pub(crate) fn new(observer: O, run: &Path) -> Self {
        let (ticks, inbox) = channel();
        let run = run.to_owned();
        let refresh = move || {
            let mut last: Option<Instant> = None;
            let mut pause = PAUSE;
            while inbox.recv().is_ok() {
                // What comes meanwhile is one page later on.
                let wait = last.map_or(Duration::ZERO, |last| pause.saturating_sub(last.elapsed()));
                let until = Instant::now() + wait;
                loop {
                    match inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                        Ok(()) => {}
                        Err(RecvTimeoutError::Timeout) => break,
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
                let began = Instant::now();
                let page = of_runs(std::slice::from_ref(&run), PageOptions::default());
                // The next one may succeed, and the last one says why it does not.
                drop(page.and_then(|page| write_index(&page, &run.join("report"))));
                // A page of very many cycles is made less often: it is not what cores are for.
                pause = PAUSE.max(began.elapsed().saturating_mul(REST));
                last = Some(Instant::now());
            }
        };
        let thread = thread::Builder::new().name("the page".to_owned()).spawn(refresh).ok();
        Self { observer, ticks: Some(ticks), thread }
    }
}

impl<O: Observer> Observer for Refresher<O> {
    fn observe(&mut self, event: &Event) {
        self.observer.observe(event);
        if let (Event::CycleEnded(_) | Event::Judged(_), Some(ticks)) = (event, &self.ticks) {
            let _ = ticks.send(());
        }
    }
}

impl<O> Drop for Refresher<O> {
    fn drop(&mut self) {
        self.ticks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_named_twice_is_one_seed() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        for run in [&a, &b] {
            fs::create_dir(run).unwrap();
        }
        let around = b.join("..").join("a");
        let (once, again) = apart(vec![a.clone(), b.clone(), around.clone(), a.clone()]);
        assert_eq!((once, again), (vec![a.clone(), b], vec![around, a]));
    }

    #[test]
    fn a_page_in_the_place_of_another_leaves_none_of_its_figures() {
        use hwa_report::{Bars, Chart, Figure, Part, Sheet};

        let folder = tempfile::tempdir().unwrap();
        let make = |names: &[&str]| {
            let figure = |name: &&str| {
                let (name, chart) = ((*name).to_owned(), Chart::Bars(Bars::default()));
                Part::Figure(Figure { title: name.clone(), caption: name.clone(), name, chart })
            };
            let parts = names.iter().map(figure).collect();
            let options = PageOptions { files: true, ..PageOptions::default() };
            write(&Sheet { parts, ..Sheet::default() }.page(options).unwrap(), folder.path())
        };
        fs::write(folder.path().join("mine.svg"), "").unwrap();
        let refused = make(&["mine"]).unwrap_err().to_string();
        assert!(refused.contains("mine.svg is of no page of hwa"), "{refused}");
        assert!(!folder.path().join("mine.csv").exists(), "nothing is written then");
        make(&["loss", "rate"]).unwrap();
        make(&["loss", "time"]).unwrap();
        // A page that was removed, or never came to be written, is made again.
        fs::remove_file(folder.path().join("index.html")).unwrap();
        make(&["loss", "time"]).unwrap();
        let there = |name: &str| folder.path().join(name).exists();
        assert!(there("loss.svg") && there("time.csv") && there("mine.svg"));
        assert!(!there("rate.svg") && !there("rate.csv"));
        fs::write(folder.path().join("index.html"), "<a href=\"loss.svg\">").unwrap();
        assert!(make(&["time"]).unwrap_err().to_string().contains("is no page of hwa"));
        assert!(there("loss.svg") && there("time.csv"));
        let hostile =
            "<a href=\"../a.svg\"> <a href=\"/b.csv\"> <a href=\".svg\"> <a href=\"c.rs\">";
        assert!(links(hostile).is_empty());
    }

    #[test]
    fn runs_are_named_by_the_ends_of_their_paths() {
        let name = |paths: &[&str]| names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(name(&["/no/such/runs/a"]), ["a"]);
        assert_eq!(name(&["/no/runs/a/seed1", "/no/runs/a/seed2"]), ["seed1", "seed2"]);
        assert_eq!(name(&["/no/runs/a/seed1", "/no/runs/b/seed1"]), ["a/seed1", "b/seed1"]);
        // The same twice cannot be told apart, and is no reason to fail.
        assert_eq!(name(&["/no/a", "/no/a"]), ["no/a", "no/a"]);
    }
}
