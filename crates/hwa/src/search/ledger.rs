//! Scores: looked up if they are known, measured and written down if they are not.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use hwa_core::search::Candidate;
use hwa_store::Series;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::counting::{A_LINE_EVERY, Counting};
use crate::failure::Failure;
use crate::journal::Journal;
use crate::output::tell;
use crate::scoring::{Look, Measured, Scorer};
use crate::table::digits;

/// What has tested in a search that was begun anew.
const BEFORE: &str = "an earlier search";

/// A line of the journal.
#[derive(Serialize, Deserialize)]
struct Entry {
    look: Look,
    window: Candidate,
    measured: Measured,
    seconds: f64,
    /// What has tested, if it is a test: commands for that may differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    /// The versions of the files that have scored it, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    version: Vec<String>,
}

/// What may be used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) evaluations: usize,
    pub(crate) time: Option<Duration>,
}

/// What is scored, by whom and how long.
pub(crate) struct Session<'a> {
    pub(crate) series: &'a Series,
    pub(crate) scorer: Box<dyn Scorer + 'a>,
    pub(crate) bounds: Bounds,
    /// Whether lines take the place of a bar.
    pub(crate) plain: bool,
}

/// All scores so far.
pub(crate) struct Ledger<'a> {
    session: Session<'a>,
    journal: Journal,
    /// By their members: windows that hold the same are one.
    known: HashMap<(Look, Vec<usize>), (Candidate, Measured)>,
    /// Windows that were ever tested, by whatever.
    tested: Vec<Candidate>,
    /// How many scores are by another version of the scorer.
    older: usize,
    /// What measuring has taken, in earlier sessions too.
    spent: Duration,
    progress: Progress,
}

/// Begins a journal anew. Scores go, but what was tested is not forgotten: whoever has seen it may
/// have begun anew because of it.
pub(crate) fn begin_anew(path: &Path, identity: &Value) -> Result<(), Failure> {
    let before = Journal::peek::<Entry>(path);
    Journal::clear(path)?;
    let Some((of, entries)) = before else { return Ok(()) };
    let is_test = |entry: &Entry| entry.look == Look::Test;
    // Windows of other checkpoints are others.
    if of.get("members") != identity.get("members") || !entries.iter().any(is_test) {
        return Ok(());
    }
    let (mut journal, _) = Journal::open::<Entry>(path, identity)?;
    for entry in entries.into_iter().filter(is_test) {
        journal.add(&Entry { by: Some(BEFORE.to_owned()), ..entry })?;
    }
    Ok(())
}

impl<'a> Ledger<'a> {
    /// Opens the journal of this search.
    pub(crate) fn open(
        path: &Path,
        identity: &Value,
        session: Session<'a>,
    ) -> Result<Self, Failure> {
        let (journal, mut entries) = Journal::open::<Entry>(path, identity)?;
        let by = session.scorer.tests().ok();
        let tests = entries.iter().filter(|entry| entry.look == Look::Test);
        let tested = tests.map(|entry| entry.window).collect();
        entries.retain(|entry| entry.look != Look::Test || entry.by == by);
        if !entries.is_empty() {
            tell(format_args!("{} scores are known from before", entries.len()));
        }
        let now = [Look::Full, Look::Test].map(|look| session.scorer.version(look)).concat();
        let is_older = |entry: &&Entry| entry.version.iter().any(|file| !now.contains(file));
        let older = entries.iter().filter(is_older).count();
        if older > 0 {
            tell(format_args!(
                "{older} of them are by another version of a file that the command names: if its \
                 numbers are others now, --force begins anew"
            ));
        }
        let seconds: f64 = entries.iter().map(|entry| entry.seconds).sum();
        let spent = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let mut known = HashMap::new();
        for Entry { look, window, measured, .. } in entries {
            let members = session.series.window(window.spec(), Some(window.at))?;
            known.insert((look, members.members().to_vec()), (window, measured));
        }
        let progress = Progress::new(session.plain);
        Ok(Self { session, journal, known, tested, older, spent, progress })
    }

    /// Who scores.
    pub(crate) fn scorer(&mut self) -> &mut (dyn Scorer + 'a) {
        self.session.scorer.as_mut()
    }

    /// How many scores on validation there are, and what they have taken.
    pub(crate) fn spent(&self) -> (usize, Duration) {
        let count = self.known.keys().filter(|(look, _)| *look != Look::Test).count();
        (count, self.spent)
    }

    /// How many scores are by another version of the scorer.
    pub(crate) fn older(&self) -> usize {
        self.older
    }

    /// The windows that were tested before, by whatever.
    pub(crate) fn tested(&self) -> &[Candidate] {
        &self.tested
    }

    /// All windows that were looked at in this way, the oldest first.
    pub(crate) fn known(&self, look: Look) -> Vec<(Candidate, Measured)> {
        let known = self.known.iter().filter(|((known, _), _)| *known == look);
        let mut known: Vec<(Candidate, Measured)> = known.map(|(_, found)| *found).collect();
        known.sort_by_key(|(window, _)| (window.at, window.length, window.stride));
        known
    }

    /// What a window was found to be worth, if it was looked at.
    pub(crate) fn found(&self, window: &Candidate, look: Look) -> Option<Measured> {
        let members = self.session.series.window(window.spec(), Some(window.at)).ok()?;
        self.known.get(&(look, members.members().to_vec())).map(|(_, measured)| *measured)
    }

    /// Whether no evaluation should be begun any more.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.session.bounds.time.is_some_and(|most| self.spent >= most)
    }

    /// How many more evaluations there may be; those of earlier sessions count.
    pub(crate) fn room(&self) -> usize {
        self.session.bounds.evaluations.saturating_sub(self.spent().0)
    }

    /// What a window is worth, unless there is no time left to find out, or no more room than
    /// is kept for others.
    pub(crate) fn within(
        &mut self,
        window: &Candidate,
        look: Look,
        kept: usize,
    ) -> Result<Option<Measured>, Failure> {
        if let Some(known) = self.found(window, look) {
            return Ok(Some(known));
        }
        match self.is_out_of_time() || self.room() <= kept {
            true => Ok(None),
            false => self.measure(window, look).map(Some),
        }
    }

    /// What a window is worth.
    pub(crate) fn measure(&mut self, window: &Candidate, look: Look) -> Result<Measured, Failure> {
        let members = self.session.series.window(window.spec(), Some(window.at))?;
        let key = (look, members.members().to_vec());
        if let Some((_, known)) = self.known.get(&key) {
            return Ok(*known);
        }
        let began = Instant::now();
        self.progress.begin(look, self.spent().0, self.session.bounds.evaluations);
        let measured = self.session.scorer.measure(&members, look)?;
        let seconds = began.elapsed().as_secs_f64();
        let by = self.session.scorer.tests().ok().filter(|_| look == Look::Test);
        let version = self.session.scorer.version(look);
        self.journal.add(&Entry { look, window: *window, measured, seconds, by, version })?;
        self.spent += began.elapsed();
        self.known.insert(key, (*window, measured));
        self.progress.ended(window, look, &measured, self.spent().0);
        Ok(measured)
    }

    /// Takes the bar away.
    pub(crate) fn end_progress(&self) {
        if let Some(bar) = &self.progress.bar {
            bar.end();
        }
    }
}

/// How far it is: a bar on a terminal, a line now and then elsewhere.
struct Progress {
    bar: Option<Counting>,
    told: Option<Instant>,
    most: usize,
}

impl Progress {
    fn new(plain: bool) -> Self {
        let bar = Some(Counting::new("windows")).filter(|bar| !plain && bar.is_shown());
        Self { bar, told: None, most: 0 }
    }

    fn begin(&mut self, look: Look, done: usize, most: usize) {
        self.most = most;
        if let Some(bar) = &self.bar {
            bar.name(word(look));
            bar.show(done as u64, Some(most as u64));
        }
    }

    fn ended(&mut self, window: &Candidate, look: Look, measured: &Measured, done: usize) {
        if let Some(bar) = &self.bar {
            bar.show(done as u64, Some(self.most as u64));
        } else if self.told.is_none_or(|told| told.elapsed() >= A_LINE_EVERY) {
            self.told = Some(Instant::now());
            let (word, most, score) = (word(look), self.most, measured.score);
            let digits = digits(std::iter::once(score));
            tell(format_args!("{word}, {done} of at most {most}: {window}: {score:.digits$}"));
        }
    }
}

fn word(look: Look) -> &'static str {
    match look {
        Look::Screening => "screening",
        Look::Full => "evaluating",
        Look::Test => "testing",
    }
}
