//! The algorithm, over traits.

mod replica;

pub use replica::{Recalibration, Replica, ReplicaError, State, StepStats, Tally};
