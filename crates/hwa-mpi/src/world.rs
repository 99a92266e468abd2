//! MPI as the transport of a run.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hwa_train::{
    Incoming, Outgoing, RanksError, Reason, Terms, TimeAwake, Transport, called, pause_after,
};
use mpi::environment::{Universe, processor_name};
use mpi::point_to_point::Status;
use mpi::request::{LocalScope, Request};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Equivalence, Source};
use mpi::{Rank, Tag, Threading};

/// Small messages that come unasked.
const NOTICE: Tag = 1;
/// Bytes that both sides have agreed upon.
const BYTES: Tag = 2;

/// The longest sleep between two looks at what is under way.
const LONGEST: Duration = Duration::from_millis(1);

/// All ranks that a launcher started. When it is dropped, MPI is finalized.
pub struct World {
    // Before the universe: it must be gone when MPI is finalized.
    world: SimpleCommunicator,
    deadline: Duration,
    /// The hosts of the ranks, once they are known.
    hosts: Vec<String>,
    /// Notices that came while something else was waited for, in their order.
    inbox: RefCell<VecDeque<(usize, Vec<u8>)>>,
    last_words: fn(Reason<'_>) -> u8,
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
    /// over after `deadline` ends all ranks, after `last_words` has said why, with the code that it
    /// gives.
    pub fn new(deadline: Duration, last_words: fn(Reason<'_>) -> u8) -> Result<Self, MpiError> {
        let (universe, threading) =
            mpi::initialize_with_threading(Threading::Funneled).ok_or(MpiError::Twice)?;
        if threading < Threading::Funneled {
            return Err(MpiError::SingleThreaded);
        }
        let (world, hosts, inbox) = (universe.world(), Vec::new(), RefCell::default());
        Ok(Self { world, deadline, hosts, inbox, last_words, _universe: universe })
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
    fn give_up(&self, waiting_for: &[usize], what: &str) -> ! {
        let who = |rank: &usize| called(*rank, self.hosts.get(*rank).map(String::as_str));
        let ranks: Vec<String> = waiting_for.iter().map(who).collect();
        let seconds = self.deadline.as_secs();
        self.end(&format!(" has waited {seconds} seconds for {} {what}", ranks.join(", ")))
    }

    /// Ends all ranks, after this one has said what happened to it.
    fn end(&self, what: &str) -> ! {
        let what = format!("{}{what}", called(self.rank(), Some(&self.host())));
        self.world.abort((self.last_words)(Reason::Failed(&what)).into())
    }

    /// Looks at what is under way until it is over, and does something else in between. Gives the
    /// sender of a message that was shorter than expected, if there was one. If it is not over in
    /// time, all ranks end, and this one says `what` the others should have done.
    fn complete(
        &self,
        mut pending: Vec<Pending<'_, '_>>,
        what: &str,
        mut meanwhile: impl FnMut(),
    ) -> Option<usize> {
        let (mut idle, mut short) = (Instant::now(), None);
        let mut waited = TimeAwake::from(idle);
        loop {
            let before = pending.len();
            let mut left = Vec::with_capacity(before);
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
            meanwhile();
            if waited.until(Instant::now()) > self.deadline {
                let mut ranks: Vec<usize> = left.iter().map(|(rank, ..)| *rank).collect();
                ranks.sort_unstable();
                ranks.dedup();
                self.give_up(&ranks, what);
            }
            // What follows something that has come may be near.
            if left.len() < before {
                idle = Instant::now();
            }
            pending = left;
            sleep(pause_after(idle, LONGEST));
        }
    }

    /// The next notice that has come and is in no inbox.
    fn next_notice(&self) -> Option<(usize, Vec<u8>)> {
        let (message, status) =
            self.world.any_process().immediate_matched_probe_with_tag(NOTICE)?;
        let (from, mut bytes) = (number(status.source_rank()), vec![0; count(&status)]);
        // A long notice is only announced so far: its sender may have stopped since. No other is
        // looked for meanwhile, so that they keep their order.
        mpi::request::scope(|scope| {
            let request = message.immediate_matched_receive_into(scope, &mut bytes[..]);
            self.complete(vec![(from, None, request)], "to send the rest of a notice", || {});
        });
        Some((from, bytes))
    }

    /// Takes in the notices that have come. A long one leaves its sender only when it is taken:
    /// two ranks that told each other something, and took nothing in, would wait for ever.
    fn take_in(&self) {
        while let Some(notice) = self.next_notice() {
            self.inbox.borrow_mut().push_back(notice);
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
            self.complete(pending, "in the middle of an exchange", || self.take_in())
        });
        match short {
            None => Ok(()),
            Some(rank) => Err(RanksError::garbled(rank, "it is shorter than agreed")),
        }
    }

    fn notify(&mut self, to: usize, notice: &[u8]) -> Result<(), RanksError> {
        mpi::request::scope(|scope| {
            let target = self.world.process_at_rank(to as Rank);
            let request = target.immediate_send_with_tag(scope, notice, NOTICE);
            self.complete(vec![(to, None, request)], "to take a notice", || self.take_in());
        });
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<(usize, Vec<u8>)>, RanksError> {
        let kept = self.inbox.get_mut().pop_front();
        Ok(kept.or_else(|| self.next_notice()))
    }

    fn keep_to(&mut self, terms: &Terms) {
        self.deadline = terms.deadline;
        self.hosts.clone_from(&terms.hosts);
    }

    fn end_all(&mut self, reason: Reason<'_>) {
        match reason {
            Reason::Failed(reason) => self.end(&format!(": {reason}")),
            Reason::Interrupted => self.world.abort((self.last_words)(reason).into()),
        }
    }
}
