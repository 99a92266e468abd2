//! `hwa train`, started by an MPI launcher but built without MPI.

use hwa_mpi::Launch;

use super::Planned;
use crate::arguments::Train;
use crate::failure::Failure;

/// One rank is as good as none. Several would train all models each, into the same folder.
pub(super) fn train(arguments: &Train, launch: Launch) -> Result<(), Failure> {
    match launch.ranks {
        Some(2..) => Err(Failure::usage(
            "this hwa was built without MPI: cargo build --release --features mpi",
        )),
        _ => Planned::new(arguments)?.run(arguments, None),
    }
}
