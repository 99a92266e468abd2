//! Ranks that are threads of one process: for tests, and to try things out without MPI.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::error::RanksError;
use super::transport::{Incoming, Outgoing, Transport};

/// How long an exchange waits for bytes that were agreed upon.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often a waiting thread looks whether the others are still there.
const PATROL: Duration = Duration::from_millis(2);

/// One of several ranks that are threads of one process.
pub struct Rehearsal {
    rank: usize,
    to: Vec<Sender<Letter>>,
    from: Receiver<Letter>,
    /// What has come and was not taken, by sender.
    bytes: Vec<VecDeque<Vec<u8>>>,
    notices: VecDeque<(usize, Vec<u8>)>,
    left: Arc<Vec<AtomicBool>>,
}

struct Letter {
    from: usize,
    kind: Kind,
    bytes: Vec<u8>,
}

enum Kind {
    Notice,
    Bytes,
}

/// So many ranks that can reach each other.
pub fn rehearsal(ranks: usize) -> Vec<Rehearsal> {
    let (to, from): (Vec<_>, Vec<_>) = (0..ranks).map(|_| channel()).unzip();
    let left: Arc<Vec<AtomicBool>> = Arc::new((0..ranks).map(|_| AtomicBool::default()).collect());
    let endpoint = |(rank, from)| Rehearsal {
        rank,
        to: to.clone(),
        from,
        bytes: (0..ranks).map(|_| VecDeque::new()).collect(),
        notices: VecDeque::new(),
        left: Arc::clone(&left),
    };
    from.into_iter().enumerate().map(endpoint).collect()
}

impl Rehearsal {
    fn send(&self, to: usize, kind: Kind, bytes: &[u8]) -> Result<(), RanksError> {
        let letter = Letter { from: self.rank, kind, bytes: bytes.to_vec() };
        self.to[to].send(letter).map_err(|_| RanksError::Gone { rank: to })
    }

    fn sort(&mut self, letter: Letter) {
        match letter.kind {
            Kind::Notice => self.notices.push_back((letter.from, letter.bytes)),
            Kind::Bytes => self.bytes[letter.from].push_back(letter.bytes),
        }
    }

    fn sort_all(&mut self) {
        while let Ok(letter) = self.from.try_recv() {
            self.sort(letter);
        }
    }

    fn has_left(&self, rank: usize) -> bool {
        self.left[rank].load(Ordering::Acquire)
    }

    fn next_bytes(&mut self, from: usize) -> Result<Vec<u8>, RanksError> {
        let began = Instant::now();
        loop {
            let left = self.has_left(from);
            self.sort_all();
            if let Some(bytes) = self.bytes[from].pop_front() {
                return Ok(bytes);
            }
            if left {
                return Err(RanksError::Gone { rank: from });
            }
            if began.elapsed() > DEADLINE {
                let (who, seconds) = (format!("rank {from}"), DEADLINE.as_secs());
                return Err(RanksError::Silent { who, seconds });
            }
            match self.from.recv_timeout(PATROL) {
                Ok(letter) => self.sort(letter),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }
}

impl Transport for Rehearsal {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn exchange(
        &mut self,
        outgoing: &[Outgoing<'_>],
        incoming: &mut [Incoming<'_>],
    ) -> Result<(), RanksError> {
        for (to, bytes) in outgoing {
            self.send(*to, Kind::Bytes, bytes)?;
        }
        for (from, room) in incoming {
            let bytes = self.next_bytes(*from)?;
            if bytes.len() != room.len() {
                let reason = format!("it has {} bytes, expected {}", bytes.len(), room.len());
                return Err(RanksError::Garbled { rank: *from, reason });
            }
            room.copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn notify(&mut self, to: usize, notice: &[u8]) -> Result<(), RanksError> {
        self.send(to, Kind::Notice, notice)
    }

    fn poll(&mut self) -> Result<Option<(usize, Vec<u8>)>, RanksError> {
        // Looked at first: what was sent before leaving is still read.
        let left = (0..self.size()).find(|rank| {
            let needed = self.rank == 0 || *rank == 0;
            needed && *rank != self.rank && self.has_left(*rank)
        });
        self.sort_all();
        match (self.notices.pop_front(), left) {
            (Some(notice), _) => Ok(Some(notice)),
            (None, Some(rank)) => Err(RanksError::Gone { rank }),
            (None, None) => Ok(None),
        }
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        self.left[self.rank].store(true, Ordering::Release);
    }
}
