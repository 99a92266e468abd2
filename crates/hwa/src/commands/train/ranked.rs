//! `hwa train` in several processes, started by an MPI launcher.
//!
//! Rank 0 reads the experiment, and is the only one that writes and shows anything. The others
//! get the experiment from it, and open their data by themselves. Whoever fails says so, with
//! its rank and its host, and ends all.

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crc32fast::Hasher;
use hwa_data::{DataError, OnBadImage, Source, Subset};
use hwa_mpi::{Launch, World};
use hwa_train::{Assistant, Blocks, Experiment, Ranks, TrainError, Transport};
use serde::{Deserialize, Serialize};

use super::{Asked, Planned, Sources, interrupt_with, quiet_panics_of_models};
use crate::arguments::Train;
use crate::environment::{self, RankPlace};
use crate::failure::Failure;
use crate::notices;
use crate::output::tell;

/// After so many seconds without a sign of life of a rank the run is given up.
const DEADLINE: u64 = 120;

/// Another number of seconds.
const DEADLINE_VARIABLE: &str = "HWA_MPI_DEADLINE";

/// Images that tell whether two ranks have the same data.
const COMPARED: usize = 64;

/// Trains as one of the ranks that a launcher started.
pub(super) fn train(arguments: &Train, launch: Launch) -> Result<(), Failure> {
    let deadline = deadline()?;
    let said = |error: &str| tell(format_args!("error: {error}"));
    let mut world = World::new(deadline, said).map_err(|error| Failure::Run(error.into()))?;
    let host = world.host();
    launch
        .ensure_complete(Transport::size(&world))
        .map_err(|alone| Failure::usage(alone.to_string()))?;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut ranks = Ranks::new(&mut world, deadline);
        let hello = Hello::from(host.clone());
        let ended = match ranks.rank() {
            0 => lead(arguments, hello, &mut ranks),
            _ => assist(arguments, hello, &mut ranks),
        };
        ended.map_err(|failure| (failure, ranks.rank()))
    }));
    match ended {
        Ok(Ok(())) => Ok(()),
        // All others end too: there is nobody to be stopped.
        Ok(Err((failure @ Failure::Interrupted { .. }, _))) => Err(failure),
        // How the command was used is the matter of no rank.
        Ok(Err((failure @ Failure::Usage(_), 0))) => world.abort(failure.report_code().into()),
        Ok(Err((failure, rank))) => {
            let code = failure.on(&format!("rank {rank} on {host}")).report_code();
            world.abort(code.into())
        }
        // The hook has said what there is to say.
        Err(_) => world.abort(1),
    }
}

fn deadline() -> Result<Duration, Failure> {
    let Ok(text) = env::var(DEADLINE_VARIABLE) else { return Ok(Duration::from_secs(DEADLINE)) };
    match text.parse() {
        Ok(seconds @ 1..) => Ok(Duration::from_secs(seconds)),
        _ => {
            let wrong = format!("{DEADLINE_VARIABLE} must be a number of seconds, found {text:?}");
            Err(Failure::usage(wrong))
        }
    }
}

/// What a rank says of itself first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Hello {
    program: String,
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
            host,
            cores: allowed_cores().unwrap_or_default(),
            arithmetic: environment::arithmetic(),
        }
    }
}

/// `0-7`, on systems that tell. Ranks whose lists differ do not share cores.
fn allowed_cores() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// What rank 0 tells the others to do.
#[derive(Debug, Serialize, Deserialize)]
struct Assignment {
    experiment: String,
    hosts: Vec<String>,
    /// Models that share the cores of each rank.
    sharing: Vec<usize>,
}

/// What a rank has found in its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Found {
    /// Training, validation and test images.
    images: [usize; 3],
    classes: usize,
    /// Of some training images.
    checksum: u32,
}

impl Found {
    fn of(plan: &Planned) -> Result<Self, DataError> {
        let Source { splits, num_classes, .. } = &plan.source;
        Ok(Self {
            images: [splits.train.len(), splits.validation.len(), splits.test.len()],
            classes: *num_classes,
            checksum: checksum(&splits.train, plan.experiment.data.on_bad_image)?,
        })
    }
}

/// Of images from the whole set and their labels. An image that may be left out must be
/// unreadable for all.
fn checksum(images: &Subset, on_bad_image: OnBadImage) -> Result<u32, DataError> {
    let mut hasher = Hasher::new();
    let step = images.len().div_ceil(COMPARED).max(1);
    for index in (0..images.len()).step_by(step) {
        match images.get(index) {
            Ok(example) => {
                hasher.update(&example.pixels);
                hasher.update(&example.label.to_le_bytes());
            }
            Err(_) if on_bad_image == OnBadImage::Skip => hasher.update(b"unreadable"),
            Err(error) => return Err(error),
        }
    }
    Ok(hasher.finalize())
}

fn lead(arguments: &Train, hello: Hello, ranks: &mut Ranks<'_>) -> Result<(), Failure> {
    let hellos: Vec<Hello> = understood(ranks.gather(told(&hello)?)?)?;
    ranks.name(hellos.iter().map(|hello| hello.host.clone()).collect());
    for (rank, hello) in hellos.iter().enumerate() {
        if hello.program != hellos[0].program {
            let (who, theirs, mine) = (ranks.who(rank), &hello.program, &hellos[0].program);
            return Err(Failure::usage(format!("{who} is {theirs}, rank 0 is {mine}")));
        }
    }
    let mut plan = Planned::new(arguments)?;
    let places = places(&hellos, plan.settings.plan.num_models.get())?;
    let assignment = Assignment {
        experiment: plan.experiment.to_toml()?,
        hosts: hellos.iter().map(|hello| hello.host.clone()).collect(),
        sharing: places.iter().map(|place| place.sharing).collect(),
    };
    ranks.broadcast(told(&assignment)?)?;
    ranks.hand_out(plan.initial.as_ref())?;
    let found: Vec<Found> = understood(ranks.gather(told(&Found::of(&plan)?)?)?)?;
    for (rank, theirs) in found.iter().enumerate() {
        if *theirs != found[0] {
            let who = ranks.who(rank);
            let error = format!("{who} has other data: {theirs:?}, rank 0 has {:?}", found[0]);
            return Err(Failure::Run(anyhow::Error::msg(error)));
        }
    }
    for (rank, hello) in hellos.iter().enumerate() {
        if hello.arithmetic != hellos[0].arithmetic {
            let (who, theirs) = (ranks.who(rank), &hello.arithmetic);
            tell(format_args!("{who} computes with {theirs}: bits depend on who trains what"));
        }
    }
    plan.ranks = places;
    plan.run(arguments, Some(ranks))
}

/// Where each rank is, and which models it has.
fn places(hellos: &[Hello], models: usize) -> Result<Vec<RankPlace>, Failure> {
    let ranks = hellos.len();
    if ranks > models {
        return Err(TrainError::TooManyRanks { ranks, models }.into());
    }
    let blocks = Blocks::new(models, ranks);
    let sharing = |mine: &Hello| {
        let same = |other: &Hello| (&other.host, &other.cores) == (&mine.host, &mine.cores);
        let here = hellos.iter().enumerate().filter(|(_, other)| same(other));
        here.map(|(rank, _)| blocks.of(rank).len()).sum()
    };
    let place = |(rank, hello): (usize, &Hello)| RankPlace {
        host: hello.host.clone(),
        models: blocks.of(rank).collect(),
        arithmetic: hello.arithmetic.clone(),
        sharing: sharing(hello),
    };
    Ok(hellos.iter().enumerate().map(place).collect())
}

fn assist(arguments: &Train, hello: Hello, ranks: &mut Ranks<'_>) -> Result<(), Failure> {
    ranks.gather(told(&hello)?)?;
    let assignment: Assignment = serde_json::from_str(&ranks.broadcast(String::new())?)?;
    ranks.name(assignment.hosts);
    // What is left out here must not go unnoticed: rank 0 may be able to read it.
    notices::show_of(ranks.who(ranks.rank()));
    let initial = ranks.hand_out(None)?;
    let plan = planned(assignment.experiment, arguments.data_dir.as_deref())?;
    let plan = Planned { initial, ..plan };
    ranks.gather(told(&Found::of(&plan)?)?)?;
    quiet_panics_of_models();
    let assistant = Assistant {
        settings: &plan.settings,
        train: plan.source.splits.train.clone(),
        transform: plan.source.transform.clone(),
        build: &|init| plan.build(init),
        technique: &*plan.technique,
        threads_per_model: plan.threads_for(assignment.sharing[ranks.rank()]),
        // Rank 0 says when to leave, and whoever started the ranks can end them.
        interrupt: interrupt_with(|_| {})?,
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
        let places = places(&hellos, 7).unwrap();
        let models: Vec<usize> = places.iter().map(|place| place.models.len()).collect();
        assert_eq!(models, [2, 2, 2, 1]);
        let sharing: Vec<usize> = places.iter().map(|place| place.sharing).collect();
        assert_eq!(sharing, [4, 4, 2, 1]);
    }

    #[test]
    fn more_ranks_than_models_are_refused() {
        let refused = places(&[hello("a", ""), hello("b", "")], 1).unwrap_err();
        assert!(matches!(refused, Failure::Usage(_)));
        assert!(refused.to_string().starts_with("2 ranks are too many for 1 models"));
    }
}
