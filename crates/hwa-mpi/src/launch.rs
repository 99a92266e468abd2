//! Whether a process was started by an MPI launcher.
//!
//! MPI itself cannot be asked: a process that was started by hand would begin a world of its own.

use std::env;

/// What the launchers of Open MPI, and of MPICH and what descends from it, tell a process about
/// the number of ranks. `srun` speaks as the library does that it was built with.
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/// What tells a rank without a size.
const RANKS: [&str; 2] = ["PMIX_RANK", "PMI_RANK"];

/// A start by an MPI launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// How many ranks were started, if the launcher tells.
    pub ranks: Option<usize>,
}

/// How this process was started, if an MPI launcher did.
pub fn launched() -> Option<Launch> {
    launch(|name| env::var(name).ok())
}

fn launch(variable: impl Fn(&str) -> Option<String>) -> Option<Launch> {
    let size = SIZES.iter().find_map(|name| variable(name)?.parse().ok());
    let rank = RANKS.iter().find_map(|name| variable(name));
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
    }
}
