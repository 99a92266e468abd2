//! MPI as the transport of a run.

use std::thread::sleep;
use std::time::{Duration, Instant};

use hwa_train::{Incoming, Outgoing, RanksError, Transport};
use mpi::environment::{Universe, processor_name};
use mpi::point_to_point::Status;
use mpi::request::{LocalScope, Request};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Equivalence, MatchedReceiveVec, Source};
use mpi::{Rank, Tag, Threading};

/// Small messages that come unasked.
const NOTICE: Tag = 1;
/// Bytes that both sides have agreed upon.
const BYTES: Tag = 2;

/// The shortest and the longest sleep between two looks at what is under way.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);

/// All ranks that a launcher started. When it is dropped, MPI is finalized.
pub struct World {
    // Before the universe: it must be gone when MPI is finalized.
    world: SimpleCommunicator,
    deadline: Duration,
    last_words: fn(&str),
    _universe: Universe,
}

/// Why MPI cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MpiError {
    /// It was initialized before.
    #[error("MPI is initialized already")]
    Twice,
    /// The library does not allow other threads beside the one that calls it.
    #[error("this MPI library allows no threads beside the one that calls it")]
    SingleThreaded,
}

/// Something under way, and who it is waited for.
type Pending<'a, 's> = (usize, Option<usize>, Request<'a, [u8], &'s LocalScope<'a>>);

impl World {
    /// Initializes MPI, for the thread that calls this and no other. An exchange that is not
    /// over after `deadline` ends all ranks, after `last_words` has said why.
    pub fn new(deadline: Duration, last_words: fn(&str)) -> Result<Self, MpiError> {
        let (universe, threading) =
            mpi::initialize_with_threading(Threading::Funneled).ok_or(MpiError::Twice)?;
        if threading < Threading::Funneled {
            return Err(MpiError::SingleThreaded);
        }
        Ok(Self { world: universe.world(), deadline, last_words, _universe: universe })
    }

    /// The name of this machine.
    pub fn host(&self) -> String {
        processor_name().unwrap_or_else(|_| "an unnamed host".to_owned())
    }

    /// Ends all ranks at once.
    pub fn abort(&self, code: i32) -> ! {
        self.world.abort(code)
    }

    /// Requests cannot be taken back: the rank that waits in vain ends, and all others with it.
    fn give_up(&self, waiting_for: &[usize]) -> ! {
        let ranks: Vec<String> = waiting_for.iter().map(usize::to_string).collect();
        let seconds = self.deadline.as_secs();
        let (mine, ranks) = (self.world.rank(), ranks.join(", "));
        (self.last_words)(&format!(
            "rank {mine} on {} has waited {seconds} seconds for rank {ranks}",
            self.host()
        ));
        self.world.abort(1)
    }

    /// Looks at what is under way until it is over. Gives the sender of a message that was
    /// shorter than expected, if there was one.
    fn complete(&self, mut pending: Vec<Pending<'_, '_>>) -> Option<usize> {
        let (began, mut short) = (Instant::now(), None);
        loop {
            let mut left = Vec::with_capacity(pending.len());
            for (rank, expected, request) in pending {
                match request.test() {
                    Err(request) => left.push((rank, expected, request)),
                    Ok(status) if expected.is_some_and(|bytes| bytes != count(&status)) => {
                        short = Some(rank);
                    }
                    Ok(_) => {}
                }
            }
            if left.is_empty() {
                return short;
            }
            if began.elapsed() > self.deadline {
                let mut ranks: Vec<usize> = left.iter().map(|(rank, ..)| *rank).collect();
                ranks.sort_unstable();
                ranks.dedup();
                self.give_up(&ranks);
            }
            pending = left;
            sleep((began.elapsed() / 16).clamp(SHORTEST, LONGEST));
        }
    }
}

fn count(status: &Status) -> usize {
    usize::try_from(status.count(u8::equivalent_datatype())).unwrap_or(usize::MAX)
}

fn number(rank: Rank) -> usize {
    usize::try_from(rank).unwrap_or(usize::MAX)
}

impl Transport for World {
    fn rank(&self) -> usize {
        number(self.world.rank())
    }

    fn size(&self) -> usize {
        number(self.world.size())
    }

    fn exchange(
        &mut self,
        outgoing: &[Outgoing<'_>],
        incoming: &mut [Incoming<'_>],
    ) -> Result<(), RanksError> {
        let short = mpi::request::scope(|scope| {
            let mut pending: Vec<Pending<'_, '_>> = Vec::new();
            // First what is sent: long messages are announced, and an announcement must not stand in
            // line behind the bytes that the other side is already allowed to send.
            for (to, bytes) in outgoing {
                let target = self.world.process_at_rank(*to as Rank);
                pending.push((*to, None, target.immediate_send_with_tag(scope, *bytes, BYTES)));
            }
            for (from, room) in incoming {
                let (source, size) = (self.world.process_at_rank(*from as Rank), room.len());
                let request = source.immediate_receive_into_with_tag(scope, &mut **room, BYTES);
                pending.push((*from, Some(size), request));
            }
            self.complete(pending)
        });
        match short {
            None => Ok(()),
            Some(rank) => {
                Err(RanksError::Garbled { rank, reason: "it is shorter than agreed".to_owned() })
            }
        }
    }

    fn notify(&mut self, to: usize, notice: &[u8]) -> Result<(), RanksError> {
        mpi::request::scope(|scope| {
            let target = self.world.process_at_rank(to as Rank);
            let request = target.immediate_send_with_tag(scope, notice, NOTICE);
            self.complete(vec![(to, None, request)]);
        });
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<(usize, Vec<u8>)>, RanksError> {
        let found = self.world.any_process().immediate_matched_probe_with_tag(NOTICE);
        Ok(found.map(|message| {
            let (bytes, status) = message.matched_receive_vec::<u8>();
            (number(status.source_rank()), bytes)
        }))
    }
}
