//! MPI between the ranks of a run.
//!
//! With the feature `mpi` this crate has a `World`: the [`Transport`] of `hwa-train` over an MPI
//! library. It is called by one thread alone (funneled), it only uses immediate operations, and
//! whoever waits sleeps, looks again, and after a deadline ends all ranks. Without the feature it
//! only tells whether the process was started by an MPI launcher, and needs no MPI library.
//!
//! [`Transport`]: https://docs.rs/hwa-train

mod launch;
#[cfg(feature = "mpi")]
mod world;

pub use launch::{Incomplete, Launch, launched};
#[cfg(feature = "mpi")]
pub use world::{MpiError, World};
