//! The command `hwa`.

mod about;
mod arguments;
mod commands;
mod console;
mod counting;
mod environment;
mod failure;
mod journal;
mod landscape;
mod left_out;
mod notices;
mod opened;
mod output;
mod pages;
mod scoring;
mod search;
mod series;
mod shelf;
mod sparkline;
mod studied;
mod summary;
mod table;
mod tensorboard;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, BenchCommand, Command, DataCommand};
use crate::failure::Failure;

// glibc returns large tensors to the system after every step and pays for it in page
// faults at the next one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => match output::unwritten() {
            None => ExitCode::SUCCESS,
            Some(reason) => {
                Failure::Run(anyhow::anyhow!("cannot write to standard output: {reason}")).report()
            }
        },
        Err(failure) => failure.report(),
    }
}

/// Several ranks of any other command would do the same at once.
fn ensure_alone(command: &Command) -> Result<(), Failure> {
    let knows_ranks = match command {
        Command::Train(_) => true,
        #[cfg(feature = "mpi")]
        Command::Bench(BenchCommand::Sync(_)) => true,
        _ => false,
    };
    match hwa_mpi::launched().and_then(|launch| launch.ranks) {
        Some(ranks @ 2..) if !knows_ranks => Err(Failure::usage(format!(
            "{ranks} ranks were started, and would all do the same; only `hwa train` shares its work"
        ))),
        _ => Ok(()),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    ensure_alone(&command)?;
    match command {
        Command::Train(arguments) => commands::train::run(&arguments),
        Command::Compare(arguments) => commands::compare::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Figures(arguments) => commands::figures::run(&arguments),
        Command::Landscape(command) => commands::landscape::run(&command),
        Command::Analyze(arguments) => commands::analyze::run(&arguments),
        Command::Average(arguments) => commands::average::run(&arguments),
        Command::Search(arguments) => commands::search::run(&arguments),
        Command::Evaluate(arguments) => commands::evaluate::run(&arguments),
        Command::Recalibrate(arguments) => commands::recalibrate::run(&arguments),
        Command::Models(arguments) => commands::models::run(&arguments),
        Command::Data(DataCommand::List(arguments)) => commands::data::list(&arguments),
        Command::Data(DataCommand::Check(arguments)) => commands::data::check(&arguments),
        Command::Data(DataCommand::Fetch(arguments)) => commands::fetch::run(&arguments),
        Command::Bench(BenchCommand::Step(arguments)) => commands::bench::step(&arguments),
        #[cfg(feature = "mpi")]
        Command::Bench(BenchCommand::Sync(arguments)) => commands::bench::sync(&arguments),
        Command::Bench(BenchCommand::Recalibrate(arguments)) => {
            commands::bench::recalibrate(&arguments)
        }
        Command::Bench(BenchCommand::Average(arguments)) => commands::bench::average(&arguments),
        Command::Bench(BenchCommand::Landscape(arguments)) => {
            commands::bench::landscape(&arguments)
        }
        Command::Bench(BenchCommand::Loader(arguments)) => commands::bench::loader(&arguments),
    }
}
