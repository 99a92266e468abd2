//! Training in several processes: the same loop, another collective.
//!
//! The models are shared out in contiguous blocks, one block for each process, which is called
//! a rank here as it is in MPI. Inside a rank every model has its thread, as always; the threads
//! meet in a [`Hall`], and what they ask for is done by the rank's main thread, the courier,
//! which is the only one that reaches other ranks. It reaches them through a [`Transport`]:
//! MPI is one, and threads that play at being processes are another, for tests.
//!
//! Every rank owns a slice of the weights, receives that slice of every model, takes the mean
//! of them in the order of the models, and shares the result: the bits are those of
//! [`hwa_core::mean`], whatever the number of ranks. See decision 0028.

mod beginning;
mod blocks;
mod clerk;
mod contents;
mod courier;
mod error;
mod hall;
mod images;
mod layout;
mod mean;
mod notice;
mod parcel;
mod pause;
mod presence;
mod rehearsal;
mod terms;
mod time_awake;
mod together;
mod transport;
mod wire;

pub use blocks::Blocks;
pub use courier::Ranks;
pub use error::{RanksError, called};
pub use images::Images;
pub use pause::pause_after;
pub use presence::beside;
pub use rehearsal::{Rehearsal, rehearsal, rendezvous};
pub use terms::Terms;
pub use time_awake::TimeAwake;
pub use transport::{Incoming, Outgoing, Reason, Transport};
pub use wire::BUFFER;

pub(crate) use clerk::Clerk;
pub(crate) use courier::Service;
pub(crate) use hall::Hall;
pub(crate) use notice::Opening;
