//! Whether a process was started by an MPI launcher.
//!
//! MPI itself cannot be asked: a process that was started by hand would begin a world of its own.

use std::env;

/// What the launchers of Open MPI, and of MPICH and what descends from it, tell a process about
/// the number of ranks. `srun` speaks as the library does that it was built with.
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// What tells a rank without a size.
const RANKS: [&str; 2] = ["PMIX_RANK", "PMI_RANK"];

/// How many tasks `srun` has started beside a rank. Tasks that are no ranks have it too.
const TASKS: &str = "SLURM_STEP_NUM_TASKS";

/// A start by an MPI launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// How many ranks were started, if the launcher tells.
    pub ranks: Option<usize>,
}

/// A launcher and the MPI library that do not know each other: every process would train alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the launcher started {started} ranks, but the MPI library that hwa was built with knows of {known}: \
     start it with the launcher of that library (with srun, see `srun --mpi=list`)"
)]
pub struct Incomplete {
    started: usize,
    known: usize,
}

impl Launch {
    /// That the MPI library knows of all ranks that were started.
    pub fn ensure_complete(&self, known: usize) -> Result<(), Incomplete> {
        match self.ranks {
            Some(started) if started != known => Err(Incomplete { started, known }),
            _ => Ok(()),
        }
    }
}

/// How this process was started, if an MPI launcher did.
pub fn launched() -> Option<Launch> {
    launch(|name| env::var(name).ok())
}

fn launch(variable: impl Fn(&str) -> Option<String>) -> Option<Launch> {
    let number = |name: &str| variable(name)?.parse().ok();
    let rank = RANKS.iter().find_map(|name| variable(name));
    let tasks = rank.as_ref().and_then(|_| number(TASKS));
    let size = SIZES.iter().find_map(|name| number(name)).or(tasks);
    (size.is_some() || rank.is_some()).then_some(Launch { ranks: size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_what_they_leave_in_the_environment() {
        let with = |set: &'static [(&str, &str)]| {
            launch(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("SLURM_NTASKS", "4")]), None, "a batch script is no rank");
        let four = Some(Launch { ranks: Some(4) });
        assert_eq!(with(&[("OMPI_COMM_WORLD_SIZE", "4")]), four);
        assert_eq!(with(&[("PMI_RANK", "0"), ("PMI_SIZE", "4")]), four);
        assert_eq!(with(&[("PMIX_RANK", "3")]), Some(Launch { ranks: None }));
        assert_eq!(with(&[("PMI_SIZE", "many")]), None);
        assert_eq!(with(&[("PMIX_RANK", "3"), ("SLURM_STEP_NUM_TASKS", "4")]), four);
        assert_eq!(with(&[("SLURM_STEP_NUM_TASKS", "4")]), None, "tasks need not be ranks");
        let both =
            [("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "3"), ("SLURM_STEP_NUM_TASKS", "2")];
        assert_eq!(launch(|name| both.iter().find(|b| b.0 == name).map(|b| b.1.to_owned())), four);
    }

    #[test]
    fn ranks_that_the_library_does_not_know_of_are_missed() {
        let four = Launch { ranks: Some(4) };
        assert_eq!(four.ensure_complete(4), Ok(()));
        assert_eq!(Launch { ranks: None }.ensure_complete(1), Ok(()), "nobody told");
        let alone = four.ensure_complete(1).unwrap_err().to_string();
        assert!(alone.contains("started 4 ranks") && alone.contains("knows of 1"), "{alone}");
    }
}
