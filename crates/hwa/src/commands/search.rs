//! `hwa search`: the best window over a series of checkpoints, whoever trained them.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use hwa_core::search::{Candidate, Ended, Found, Ranking, Scored, Search as Windows, Space};
use hwa_store::{Averaging, Series, Watch, write_atomically};
use serde_json::{Map, Value};

use crate::arguments::Search;
use crate::counting::interrupt;
use crate::failure::Failure;
use crate::journal::Journal;
use crate::opened;
use crate::output::{give, tell};
use crate::scoring::{self, AVERAGED, Goal, Look, Scorer, Subject};
use crate::search::{
    Answer, BEST, Bounds, Budget, Heat, Ledger, Line, Session, Usual, begin_anew, files, usual,
};
use crate::series::{self, Progress, ensure_apart, ensure_no_member, left_out, limits, run_of};

/// The weights that are found.
const WINNER: &str = "winner.safetensors";

/// The head of the table of all scores.
const SCORES: &str = "e,I,s,members,screened,screened_loss,validation,validation_loss\n";

/// Runs the command.
pub(crate) fn run(arguments: &Search) -> Result<(), Failure> {
    let place = Place::new(arguments)?;
    let stop = interrupt()?;
    let cancelled = || stop.load(Ordering::Relaxed);
    let search = || search(arguments, &place, &cancelled);
    let Outcome { answer, heat, .. } = opened::on_threads(arguments.threads, search)
        .map_err(|failure| place.resumable(failure))?;
    if arguments.json {
        give(answer.json());
        return Ok(());
    }
    let (unit, screened) = (answer.unit, answer.screened());
    give(format_args!("the best {unit} in each cell{screened}\n\n{}", heat.text(answer.digits())));
    give(answer.table());
    give(answer.comparison());
    give(answer.members());
    give(answer.sentence());
    give(answer.file().display());
    if answer.statistics == AVERAGED && answer.winner.members.len() > 1 {
        tell(
            "its batch-norm statistics are averages, which fit no weights: re-estimate them before \
             use, as the command that scored it may have done",
        );
    }
    Ok(())
}

/// Where everything goes.
struct Place {
    folder: PathBuf,
    /// The run that the series is of, if it is one.
    run: Option<PathBuf>,
}

impl Place {
    /// Says what is in the way before anything is read.
    fn new(arguments: &Search) -> Result<Self, Failure> {
        let run = run_of(&arguments.series);
        let usual = || run.clone().unwrap_or_default().join("search");
        let folder = arguments.out.clone().unwrap_or_else(usual);
        let place = Self { folder, run };
        let shown = place.folder.display();
        if place.folder.is_file() {
            return Err(Failure::usage(format!("{shown} is a file; --out names a folder")));
        }
        ensure_apart(&arguments.series, &place.winner())?;
        if arguments.resume || arguments.force {
            return Ok(place);
        }
        if place.journal().exists() {
            return Err(Failure::usage(format!(
                "{shown} holds an earlier search: --resume goes on with it, --force begins anew"
            )));
        }
        let winner = place.winner();
        match winner.exists() {
            true => {
                Err(Failure::usage(format!("{} exists; --force overwrites it", winner.display())))
            }
            false => Ok(place),
        }
    }

    fn winner(&self) -> PathBuf {
        self.folder.join(WINNER)
    }

    fn journal(&self) -> PathBuf {
        self.folder.join("journal.jsonl")
    }

    /// Removes the results of an earlier search: with another journal they would be taken for its.
    fn clear(&self) {
        for name in [WINNER, "scores.svg", "scores.csv", "result.json"] {
            // Whatever stays is overwritten in the end, or says so.
            let _ = std::fs::remove_file(self.folder.join(name));
        }
    }

    /// What has begun can go on.
    fn resumable(&self, failure: Failure) -> Failure {
        let Ok(journal) = std::fs::read(self.journal()) else { return failure };
        let own = matches!(failure, Failure::Run(_) | Failure::Cancelled { .. });
        // Behind the first line are scores. Without one, nothing has begun.
        if own && journal.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()).count() < 2 {
            if Journal::remove(&self.journal()) {
                let _ = std::fs::remove_dir(&self.folder);
            }
            return failure;
        }
        let advice = "the same command with --resume goes on with it".to_owned();
        match failure {
            Failure::Cancelled { .. } => Failure::Cancelled { advice },
            Failure::Run(error) => Failure::Stopped { error, advice },
            other => other,
        }
    }
}

fn search(
    arguments: &Search,
    place: &Place,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, Failure> {
    let mut series = series::open(&arguments.series, arguments.order, arguments.key.as_deref())?;
    let candidate = place.folder.join("candidate.safetensors");
    ensure_no_member(&series, &[place.winner(), candidate.clone()])?;
    let limits = limits(arguments.max_memory, arguments.threads);
    let bad = match arguments.skip_bad {
        true => left_out(&mut series, limits, &Progress::new(), cancelled)?,
        false => Vec::new(),
    };
    let watch = Watch { progress: &|_| {}, cancelled };
    let averaging = Averaging { limits, watch, ..Averaging::new(&series) };
    let space = Space::new(series.numbers()).map_err(|error| Failure::Run(error.into()))?;
    // A run's choice is told by its cycle.
    let usual = usual(place.run.as_deref().filter(|_| series.is_by_cycle()), &space)?;
    let subject = Subject {
        averaging: &averaging,
        run: place.run.clone(),
        screening_images: arguments.screening_images,
        test_eval: arguments.test_eval.as_deref(),
        candidate,
        cancelled,
    };
    let scorer = scoring::open(&arguments.scoring, subject)?;
    let budget = Budget::new(arguments.max_evals.get(), usual.len(), scorer.screens())?;
    let identity = identity(&series, arguments.key.as_deref(), scorer.as_ref())?;
    if arguments.force {
        begin_anew(&place.journal(), &identity)?;
        place.clear();
    }
    let bounds = Bounds { evaluations: arguments.max_evals.get(), time: arguments.max_time };
    let session = Session { series: &series, scorer, bounds, plain: arguments.plain };
    let ledger = Ledger::open(&place.journal(), &identity, session)?;
    let strides = Some(arguments.strides.clone()).filter(|strides| !strides.is_empty());
    let finding = Finding { series: &series, space, usual, strides, budget, ledger };
    let mut outcome = finding.find(&place.folder)?;
    outcome.answer.left_out = bad.into_iter().map(|bad| bad.file).collect();
    outcome.write()?;
    Ok(outcome)
}

/// What scores are of: if any of it differs, they are of something else.
fn identity(series: &Series, key: Option<&str>, scorer: &dyn Scorer) -> Result<Value, Failure> {
    let mut identity = scorer.identity();
    identity.extend(key.map(|key| ("key".to_owned(), key.into())));
    identity.insert("checkpoints".to_owned(), series.len().into());
    let members = series.names().iter().cloned().zip(series.digests()?);
    let members = members.map(|(name, digest)| (name, format!("{digest:08x}").into()));
    identity.insert("members".to_owned(), Map::from_iter(members).into());
    identity.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
    Ok(identity.into())
}

/// A search on its way.
struct Finding<'a> {
    series: &'a Series,
    space: Space,
    usual: Vec<Usual>,
    strides: Option<Vec<NonZeroUsize>>,
    budget: Budget,
    ledger: Ledger<'a>,
}

impl Finding<'_> {
    /// Searches, looks closely at the best, chooses, and only then tests.
    fn find(mut self, folder: &Path) -> Result<Outcome, Failure> {
        let first: Vec<Candidate> = self.usual.iter().map(|usual| usual.window).collect();
        let goal = self.ledger.scorer().goal();
        let look = match self.budget.shortlist {
            Some(_) => Look::Screening,
            None => Look::Full,
        };
        let mut windows = Windows::new(self.space.clone(), self.budget.search);
        windows.first.clone_from(&first);
        windows.strides.clone_from(&self.strides);
        let found = self.walk(&windows, look)?;
        let closely = match self.budget.shortlist {
            Some(count) => {
                let mut closely = self.shortlist(&found.ranking, count)?;
                self.add_known(&mut closely, Look::Full, &windows);
                closely
            }
            None => found.ranking.clone(),
        };
        let Some(winner) = closely.best().map(|best| best.candidate) else {
            let count = found.ranking.all().len();
            return Err(Failure::Stopped {
                error: anyhow::anyhow!("none of {count} windows scored a finite number"),
                advice: "what was scored is kept; --force begins anew".to_owned(),
            });
        };
        let (heat, scores) = self.scores(&found.ranking, look)?;
        let best = closely.all().iter().take(BEST).filter(|scored| scored.worth.is_finite());
        let best = best.map(|scored| self.line(&scored.candidate)).collect::<Result<_, _>>()?;
        let read_before = self.has_read_test(&winner, &first);
        let (winner, usual, untested) = self.test(&winner, &first)?;
        let window = self.series.window(winner.window.spec(), Some(winner.window.at))?;
        self.ledger.scorer().save(&window, &folder.join(WINNER))?;
        self.ledger.end_progress();
        let (evaluations, spent) = self.ledger.spent();
        let unit = self.ledger.scorer().unit();
        let statistics = self.ledger.scorer().statistics();
        let answer = Answer {
            folder: folder.to_owned(),
            winner,
            usual,
            best,
            unit,
            goal,
            ended: found.ended,
            evaluations,
            seconds: spent.as_secs_f64(),
            untested,
            read_before,
            statistics,
            older: self.ledger.older(),
            left_out: Vec::new(),
        };
        Ok(Outcome { answer, heat, scores })
    }

    /// Asks for windows as long as there is room for them and time.
    fn walk(&mut self, windows: &Windows, look: Look) -> Result<Found, Failure> {
        let goal = self.ledger.scorer().goal();
        let mut found = windows.run(|window| {
            let measured = match windows.first.contains(window) {
                true => Some(self.ledger.measure(window, look)?),
                false => self.ledger.within(window, look, self.kept())?,
            };
            Ok::<_, Failure>(measured.map(|measured| goal.worth(&measured)))
        })?;
        if found.ended == Ended::Stopped && !self.ledger.is_out_of_time() {
            found.ended = Ended::Budget;
        }
        // A larger budget asks other questions; what is known from before is no worse for that.
        self.add_known(&mut found.ranking, look, windows);
        Ok(found)
    }

    /// Evaluations that are kept for the shortlist: those that it has had need no more.
    fn kept(&self) -> usize {
        let Some(shortlist) = self.budget.shortlist else { return 0 };
        let is_known = |usual: &&Usual| self.ledger.found(&usual.window, Look::Full).is_some();
        let known = self.usual.iter().filter(is_known).count();
        let others = self.ledger.known(Look::Full).len() - known;
        self.usual.len() - known + shortlist.saturating_sub(others).max(1)
    }

    /// Adds what was scored in earlier sessions and not asked for again.
    fn add_known(&mut self, ranking: &mut Ranking, look: Look, windows: &Windows) {
        let goal = self.ledger.scorer().goal();
        let places = |candidate: &Candidate| self.space.members(candidate);
        let mut there: HashSet<Vec<usize>> =
            ranking.all().iter().map(|scored| places(&scored.candidate)).collect();
        for (candidate, measured) in self.ledger.known(look) {
            let members = places(&candidate);
            let (count, worth) = (members.len(), goal.worth(&measured));
            if windows.allows(&candidate) && there.insert(members) {
                ranking.add(Scored { candidate, members: count, worth });
            }
        }
    }

    /// The best so many and the usual ones, with the bits and the statistics of a result.
    fn shortlist(&mut self, screened: &Ranking, count: usize) -> Result<Ranking, Failure> {
        let usual: Vec<Candidate> = self.usual.iter().map(|usual| usual.window).collect();
        let goal = self.ledger.scorer().goal();
        let mut closely = Ranking::default();
        for (rank, scored) in screened.all().iter().enumerate() {
            let Scored { candidate, members, .. } = *scored;
            // The best one is looked at whatever the time, if the evaluations are not used up.
            let measured = if usual.contains(&candidate) || (rank == 0 && self.ledger.room() > 0) {
                Some(self.ledger.measure(&candidate, Look::Full)?)
            } else if rank < count && scored.worth.is_finite() {
                self.ledger.within(&candidate, Look::Full, 0)?
            } else {
                None
            };
            if let Some(measured) = measured {
                let worth = goal.worth(&measured);
                closely.add(Scored { candidate, members, worth });
            }
        }
        Ok(closely)
    }

    /// All scores of the search, as a map and as comma-separated values.
    fn scores(&mut self, ranking: &Ranking, look: Look) -> Result<(Heat, String), Failure> {
        let (mut scored, mut text) = (Vec::new(), SCORES.to_owned());
        for Scored { candidate, worth, members } in ranking.all() {
            let measured = self.ledger.measure(candidate, look)?;
            scored.push((*candidate, *worth, measured.score));
            let Candidate { at, length, stride } = candidate;
            let _ = write!(text, "{at},{length},{stride},{members}");
            for look in [Look::Screening, Look::Full] {
                let measured = self.ledger.found(candidate, look);
                let score = measured.map_or(String::new(), |measured| measured.score.to_string());
                let loss = measured.and_then(|measured| measured.loss);
                let _ = write!(text, ",{score},{}", loss.map_or(String::new(), |l| l.to_string()));
            }
            text.push('\n');
        }
        Ok((Heat::new(&scored), text))
    }

    /// Whether test, by whatever it was read, has been read for another window than these. It is
    /// said once more in the answer.
    fn has_read_test(&self, winner: &Candidate, usual: &[Candidate]) -> bool {
        let members = |window: &Candidate| self.space.members(window);
        let now: Vec<Vec<usize>> = usual.iter().chain([winner]).map(members).collect();
        let read = self.ledger.tested().iter().any(|window| !now.contains(&members(window)));
        if read {
            tell(
                "test was read before, for another window: what is found now was found after a \
                 look at it",
            );
        }
        read
    }

    /// The final pass: the only place where test is read, after the choice.
    fn test(
        &mut self,
        winner: &Candidate,
        usual: &[Candidate],
    ) -> Result<(Line, Vec<Line>, Option<String>), Failure> {
        let untested = self.ledger.scorer().tests().err();
        let mut lines = Vec::new();
        // The winner last: then the network holds it when it is saved.
        for window in usual.iter().chain([winner]) {
            let mut line = self.line(window)?;
            if untested.is_none() {
                line.test = Some(self.ledger.measure(window, Look::Test)?);
            }
            lines.push(line);
        }
        let found = lines.split_off(usual.len());
        let found = found.into_iter().next().map_or_else(|| self.line(winner), Ok)?;
        Ok((found, lines, untested))
    }

    /// What is known of a window that was looked at closely.
    fn line(&mut self, window: &Candidate) -> Result<Line, Failure> {
        let named = self.usual.iter().find(|usual| usual.window == *window);
        let name = named.map(|usual| usual.name.clone());
        let members = files(self.series.paths(), &self.space.members(window));
        let screened = match self.budget.shortlist {
            Some(_) => self.ledger.found(window, Look::Screening),
            None => None,
        };
        let validation = self.ledger.measure(window, Look::Full)?;
        Ok(Line { name, window: *window, members, screened, validation, test: None })
    }
}

/// What there is to see and to keep.
struct Outcome {
    answer: Answer,
    heat: Heat,
    /// All scores, as comma-separated values.
    scores: String,
}

impl Outcome {
    /// Writes what there is beside the weights.
    fn write(&self) -> Result<(), Failure> {
        let answer = &self.answer;
        let mut spots = vec![("found".to_owned(), answer.winner.window)];
        let default = answer.best_usual().filter(|line| line.window != answer.winner.window);
        let name = |line: &Line| line.name.clone().unwrap_or("the default".to_owned());
        spots.extend(default.map(|line| (name(line), line.window)));
        let unit = match answer.goal {
            Goal::High => format!("{}{}", answer.unit, answer.screened()),
            Goal::Low => format!("{}, lower is better", answer.unit),
        };
        let svg = self.heat.figure(&unit, spots).to_svg();
        let svg = svg.map_err(|error| Failure::Run(error.into()))?;
        let json = serde_json::to_string_pretty(&answer.json())?;
        let texts = [("scores.svg", &svg), ("scores.csv", &self.scores), ("result.json", &json)];
        for (name, text) in texts {
            write_atomically(&answer.folder.join(name), |file| file.write_all(text.as_bytes()))?;
        }
        Ok(())
    }
}
