//! Scores: looked up if they are known, measured and written down if they are not.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use hwa_core::search::Candidate;
use hwa_store::Series;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::counting::Counting;
use crate::failure::Failure;
use crate::journal::Journal;
use crate::output::tell;
use crate::scoring::{Look, Measured, Scorer};

/// How often a line tells the progress where there is no terminal.
const A_LINE_EVERY: Duration = Duration::from_secs(15);

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
    known: HashMap<(Look, Candidate), Measured>,
    /// What measuring has taken, in earlier sessions too.
    spent: Duration,
    progress: Progress,
}

impl<'a> Ledger<'a> {
    /// Opens the journal of this search.
    pub(crate) fn open(
        path: &Path,
        identity: &Value,
        session: Session<'a>,
    ) -> Result<Self, Failure> {
        let (journal, mut entries) = Journal::open::<Entry>(path, identity)?;
        let tested = session.scorer.tests().ok();
        entries.retain(|entry| entry.look != Look::Test || entry.by == tested);
        if !entries.is_empty() {
            tell(format_args!("{} scores are known from before", entries.len()));
        }
        let seconds: f64 = entries.iter().map(|entry| entry.seconds).sum();
        let spent = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let known = entries.into_iter().map(|e| ((e.look, e.window), e.measured)).collect();
        let progress = Progress::new(session.plain);
        Ok(Self { session, journal, known, spent, progress })
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

    /// The windows that were tested.
    pub(crate) fn tested(&self) -> impl Iterator<Item = &Candidate> {
        self.known.keys().filter(|(look, _)| *look == Look::Test).map(|(_, window)| window)
    }

    /// Whether no evaluation should be begun any more.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.session.bounds.time.is_some_and(|most| self.spent >= most)
    }

    /// What a window is worth, unless there is no time left to find out.
    pub(crate) fn within_time(
        &mut self,
        window: &Candidate,
        look: Look,
    ) -> Result<Option<Measured>, Failure> {
        match self.is_out_of_time() && !self.known.contains_key(&(look, *window)) {
            true => Ok(None),
            false => self.measure(window, look).map(Some),
        }
    }

    /// What a window is worth.
    pub(crate) fn measure(&mut self, window: &Candidate, look: Look) -> Result<Measured, Failure> {
        if let Some(known) = self.known.get(&(look, *window)) {
            return Ok(*known);
        }
        let members = self.session.series.window(window.spec(), Some(window.at))?;
        let began = Instant::now();
        self.progress.begin(look, self.spent().0, self.session.bounds.evaluations);
        let measured = self.session.scorer.measure(&members, look)?;
        let seconds = began.elapsed().as_secs_f64();
        let by = self.session.scorer.tests().ok().filter(|_| look == Look::Test);
        self.journal.add(&Entry { look, window: *window, measured, seconds, by })?;
        self.spent += began.elapsed();
        self.known.insert((look, *window), measured);
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
            tell(format_args!("{word}, {done} of at most {most}: {window}: {score:.4}"));
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
