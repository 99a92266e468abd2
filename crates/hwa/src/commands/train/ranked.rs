//! `hwa train` in several processes, started by an MPI launcher.
//!
//! Rank 0 reads the experiment, and is the only one that writes and shows anything. The others
//! get the experiment from it, and open their data by themselves. Whoever fails says so, with
//! its rank and its host, and ends all.

mod data;
mod forwarded;

use std::env;
use std::fs;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hwa_mpi::{Launch, World};
use hwa_train::{
    Assistant, Blocks, Experiment, OnLostReplica, Ranks, Reason, Terms, TrainError, Transport,
    called,
};
use serde::{Deserialize, Serialize};

use super::signals::Signals;
use super::{Asked, Planned, Sources, quiet_panics_of_models};
use crate::arguments::Train;
use crate::environment::{self, RankPlace};
use crate::failure::Failure;
use crate::notices;
use crate::output::tell;

/// After so many seconds without a sign of life of a rank the run is given up. Where rank 0 has
/// the variable, it holds for all.
const DEADLINE: Limit = Limit { variable: "HWA_MPI_DEADLINE", seconds: 120 };

/// After so many seconds in which a model makes no step the run is given up.
const STEP_DEADLINE: Limit = Limit { variable: "HWA_MPI_STEP_DEADLINE", seconds: 1800 };

/// Trains as one of the ranks that a launcher started.
pub(super) fn train(arguments: &Train, launch: Launch) -> Result<(), Failure> {
    let (deadline, step_deadline) = deadlines()?;
    // Before MPI starts threads of its own.
    forwarded::hold()?;
    let last_words = |reason: Reason<'_>| Failure::from(reason).report_code();
    let mut world = World::new(deadline, last_words).map_err(|error| Failure::Run(error.into()))?;
    let host = world.host();
    launch
        .ensure_complete(Transport::size(&world))
        .map_err(|alone| Failure::usage(alone.to_string()))?;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut ranks = Ranks::new(&mut world, deadline);
        let terms = Terms { hosts: Vec::new(), deadline, step_deadline };
        take_part(arguments, (&host, terms), &mut ranks).map_err(|failure| (failure, ranks.rank()))
    }));
    match ended {
        Ok(Ok(())) => Ok(()),
        // All others end too: there is nobody to be stopped.
        Ok(Err((failure @ Failure::Interrupted { .. }, _))) => Err(failure),
        // How the command was used is the matter of no rank.
        Ok(Err((failure @ Failure::Usage(_), 0))) => world.abort(failure.report_code().into()),
        Ok(Err((failure, rank))) => {
            let code = failure.of(&called(rank, Some(&host))).report_code();
            world.abort(code.into())
        }
        // The hook has said what there is to say.
        Err(_) => world.abort(1),
    }
}

fn take_part(
    arguments: &Train,
    (host, terms): (&str, Terms),
    ranks: &mut Ranks<'_>,
) -> Result<(), Failure> {
    let signals = match ranks.rank() {
        0 if ranks.size() > 1 => Signals::heed_among_ranks()?,
        0 => Signals::heed()?,
        // Rank 0 says when to leave, and whoever started the ranks can end them.
        _ => Signals::pass_on()?,
    };
    forwarded::interrupt_when_forwarded(signals.interrupt.clone())?;
    ranks.interrupted_by(signals.interrupt.clone());
    let hellos = meet(host, terms, ranks)?;
    match ranks.rank() {
        0 => lead(arguments, &hellos, signals, ranks),
        _ => assist(arguments, signals, ranks),
    }
}

/// A number of seconds, and the variable that is another.
struct Limit {
    variable: &'static str,
    seconds: u64,
}

impl Limit {
    fn get(&self) -> Result<u64, Failure> {
        let Self { variable, seconds } = self;
        let Ok(text) = env::var(variable) else { return Ok(*seconds) };
        let wrong = |_| format!("{variable} must be a number of seconds, found {text:?}");
        text.parse().map_err(wrong).map_err(Failure::usage)
    }
}

/// Without a sign of life, which there must be one of, and without a step.
fn deadlines() -> Result<(Duration, Option<Duration>), Failure> {
    let deadline = DEADLINE.get()?;
    if deadline == 0 {
        return Err(Failure::usage(format!("{} must be one second or more", DEADLINE.variable)));
    }
    let step = Some(STEP_DEADLINE.get()?).filter(|seconds| *seconds > 0);
    Ok((Duration::from_secs(deadline), step.map(Duration::from_secs)))
}

/// What a rank says of itself first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Hello {
    program: String,
    /// What tells builds of one commit apart; nothing, if the program cannot be read.
    build: Option<u32>,
    host: String,
    /// The cores that it may use, as the system lists them.
    cores: String,
    arithmetic: String,
}

impl Hello {
    fn from(host: String) -> Self {
        let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("HWA_COMMIT"));
        Self {
            program: format!("hwa {version} of commit {commit}"),
            build: build(),
            host,
            cores: allowed_cores().unwrap_or_default(),
            arithmetic: environment::arithmetic(),
        }
    }
}

/// A checksum of the program itself: what was built of changes that are in no commit, or by
/// another compiler, is another.
fn build() -> Option<u32> {
    // Where it is there: also of a program whose file was replaced since it was started.
    let running = PathBuf::from("/proc/self/exe");
    let path = Some(running).filter(|path| path.exists()).or_else(|| env::current_exe().ok())?;
    let (mut file, mut hasher) = (fs::File::open(path).ok()?, crc32fast::Hasher::new());
    let mut bytes = vec![0; 1 << 20];
    loop {
        match file.read(&mut bytes).ok()? {
            0 => return Some(hasher.finalize()),
            count => hasher.update(&bytes[..count]),
        }
    }
}

/// `0-7`, on systems that tell. Ranks whose lists differ do not share cores.
fn allowed_cores() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// What all ranks say of themselves, at rank 0. From here on all go by the terms of rank 0: only
/// then may anything take long.
fn meet(host: &str, mut terms: Terms, ranks: &mut Ranks<'_>) -> Result<Vec<Hello>, Failure> {
    // The program may be on a disk that takes long.
    let hello = ranks.prepare(|| Hello::from(host.to_owned()))?;
    let hellos: Vec<Hello> = understood(ranks.gather(told(&hello)?)?)?;
    terms.hosts = hellos.iter().map(|hello| hello.host.clone()).collect();
    let terms = serde_json::from_str(&ranks.broadcast(told(&terms)?)?)?;
    ranks.keep_to(terms);
    Ok(hellos)
}

/// What rank 0 tells the others to do.
#[derive(Debug, Serialize, Deserialize)]
struct Assignment {
    experiment: String,
    /// Models that share the cores of each rank.
    sharing: Vec<usize>,
}

fn lead(
    arguments: &Train,
    hellos: &[Hello],
    signals: Signals,
    ranks: &mut Ranks<'_>,
) -> Result<(), Failure> {
    for (rank, hello) in hellos.iter().enumerate() {
        ensure_same_program(hello, &hellos[0], &ranks.who(rank), arguments)?;
    }
    let mut plan = ranks.prepare(|| Planned::new(arguments))??;
    let places = places(hellos, &plan.models)?;
    let assignment = Assignment {
        experiment: plan.experiment.to_toml()?,
        sharing: places.iter().map(|place| place.sharing).collect(),
    };
    ranks.broadcast(told(&assignment)?)?;
    ranks.hand_out(plan.initial.as_ref())?;
    data::compare(&plan, ranks)?;
    for (rank, hello) in hellos.iter().enumerate() {
        if hello.arithmetic != hellos[0].arithmetic {
            let (who, theirs) = (ranks.who(rank), &hello.arithmetic);
            tell(format_args!("{who} computes with {theirs}: bits depend on who trains what"));
        }
    }
    if plan.settings.on_lost_replica == OnLostReplica::Continue && ranks.size() > 1 {
        tell(
            "hwa.on_lost_replica = \"continue\" holds within one process: over several ranks a model \
             that fails ends the run, and --resume RUN --without-replica NUMBER goes on without it",
        );
    }
    (plan.ranks, plan.signals) = (places, Some(signals));
    plan.run(arguments, Some(ranks))
}

/// That a rank is the same program as rank 0; another build of it, if that is allowed.
fn ensure_same_program(
    theirs: &Hello,
    mine: &Hello,
    who: &str,
    arguments: &Train,
) -> Result<(), Failure> {
    if theirs.program != mine.program {
        let (theirs, mine) = (&theirs.program, &mine.program);
        return Err(Failure::usage(format!("{who} is {theirs}, rank 0 is {mine}")));
    }
    if theirs.build == mine.build {
        return Ok(());
    }
    let other = format!("{who} is another build of {} than rank 0", mine.program);
    if !arguments.allow_other_arithmetic {
        return Err(Failure::usage(format!(
            "{other}: all need the same one; --allow-other-arithmetic goes on, and bits may differ"
        )));
    }
    tell(format_args!("{other}: bits may depend on who trains what"));
    Ok(())
}

/// Where each rank is, and which of the models that train it has.
fn places(hellos: &[Hello], models: &[usize]) -> Result<Vec<RankPlace>, Failure> {
    let ranks = hellos.len();
    if ranks > models.len() {
        return Err(TrainError::TooManyRanks { ranks, models: models.len() }.into());
    }
    let blocks = Blocks::new(models.len(), ranks);
    let sharing = |mine: &Hello| {
        let same = |other: &Hello| (&other.host, &other.cores) == (&mine.host, &mine.cores);
        let here = hellos.iter().enumerate().filter(|(_, other)| same(other));
        here.map(|(rank, _)| blocks.of(rank).len()).sum()
    };
    let place = |(rank, hello): (usize, &Hello)| RankPlace {
        host: hello.host.clone(),
        models: models[blocks.of(rank)].to_vec(),
        arithmetic: hello.arithmetic.clone(),
        sharing: sharing(hello),
    };
    Ok(hellos.iter().enumerate().map(place).collect())
}

fn assist(arguments: &Train, signals: Signals, ranks: &mut Ranks<'_>) -> Result<(), Failure> {
    let assignment: Assignment = serde_json::from_str(&ranks.broadcast(String::new())?)?;
    // What is left out here must not go unnoticed: rank 0 may be able to read it.
    notices::show_of(ranks.who(ranks.rank()));
    let initial = ranks.hand_out(None)?;
    let Assignment { experiment, sharing } = assignment;
    let plan = ranks.prepare(|| planned(experiment, arguments.data_dir.as_deref()))??;
    let plan = Planned { initial, ..plan };
    data::compare(&plan, ranks)?;
    quiet_panics_of_models();
    let assistant = Assistant {
        settings: &plan.settings,
        train: plan.source.splits.train.clone(),
        transform: plan.source.transform.clone(),
        build: &|init| plan.build(init),
        technique: &*plan.technique,
        threads_per_model: plan.threads_for(sharing[ranks.rank()]),
        interrupt: signals.interrupt,
    };
    // Also after an interrupt, of which rank 0 tells: a launcher ends all ranks when one of them
    // does not end well, and rank 0 may not be through.
    assistant.train(ranks)?;
    Ok(())
}

/// The experiment of rank 0. The data may be elsewhere here.
fn planned(text: String, data_dir: Option<&Path>) -> Result<Planned, Failure> {
    let path = PathBuf::from("the experiment of rank 0");
    let mut experiment = Experiment::parse(&text, &path, &[])?;
    if let Some(dir) = data_dir {
        experiment.data.dir = Some(std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()));
    }
    let (folder, sets) = (String::new(), Vec::new());
    let asked = Asked { experiment, folder, text, path, sets };
    // As if it were trained already: what it begins with comes from rank 0.
    Planned::with(asked, true, &mut Sources::default())
}

fn told<T: Serialize>(message: &T) -> Result<String, Failure> {
    Ok(serde_json::to_string(message)?)
}

fn understood<T: for<'a> Deserialize<'a>>(messages: Vec<String>) -> Result<Vec<T>, Failure> {
    Ok(messages.iter().map(|text| serde_json::from_str(text)).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(host: &str, cores: &str) -> Hello {
        Hello { cores: cores.to_owned(), ..Hello::from(host.to_owned()) }
    }

    #[test]
    fn models_share_the_cores_that_their_ranks_share() {
        let hellos = [hello("a", "0-3"), hello("a", "0-3"), hello("a", "4-7"), hello("b", "0-3")];
        // Model 3 was left out.
        let places = places(&hellos, &[0, 1, 2, 4, 5, 6, 7]).unwrap();
        let models: Vec<usize> = places.iter().map(|place| place.models.len()).collect();
        assert_eq!(models, [2, 2, 2, 1]);
        assert_eq!(places[1].models, [2, 4], "by number, not by place");
        let sharing: Vec<usize> = places.iter().map(|place| place.sharing).collect();
        assert_eq!(sharing, [4, 4, 2, 1]);
    }

    #[test]
    fn more_ranks_than_models_are_refused() {
        let refused = places(&[hello("a", ""), hello("b", "")], &[1]).unwrap_err();
        assert!(matches!(refused, Failure::Usage(_)));
        assert!(refused.to_string().starts_with("2 ranks are too many for 1 models"));
    }
}
