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
    /// Whether what is sent is waited for until it is taken.
    rendezvous: bool,
}

struct Letter {
    from: usize,
    kind: Kind,
    bytes: Vec<u8>,
    taken: Arc<AtomicBool>,
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
        rendezvous: false,
    };
    from.into_iter().enumerate().map(endpoint).collect()
}

/// The same, where whatever is sent is waited for until the other side takes it, as MPI does with
/// messages that are long.
pub fn rendezvous(ranks: usize) -> Vec<Rehearsal> {
    let mut ranks = rehearsal(ranks);
    ranks.iter_mut().for_each(|rank| rank.rendezvous = true);
    ranks
}

impl Rehearsal {
    /// Sends, and gives what tells whether it was taken.
    fn send(&self, to: usize, kind: Kind, bytes: &[u8]) -> Result<Arc<AtomicBool>, RanksError> {
        let taken = Arc::new(AtomicBool::new(false));
        let letter =
            Letter { from: self.rank, kind, bytes: bytes.to_vec(), taken: Arc::clone(&taken) };
        self.to[to].send(letter).map_err(|_| RanksError::gone(to))?;
        Ok(taken)
    }

    /// Waits until what was sent is taken, if it is to be waited for; takes what comes meanwhile.
    fn wait_until_taken(&mut self, to: usize, taken: &AtomicBool) -> Result<(), RanksError> {
        if !self.rendezvous {
            return Ok(());
        }
        let began = Instant::now();
        loop {
            // Looked at first: what was taken before leaving was taken.
            let left = self.has_left(to);
            if taken.load(Ordering::Acquire) {
                return Ok(());
            }
            if left {
                return Err(RanksError::gone(to));
            }
            if began.elapsed() > DEADLINE {
                return Err(silent(to));
            }
            if let Ok(letter) = self.from.recv_timeout(PATROL) {
                self.sort(letter);
            }
        }
    }

    fn sort(&mut self, letter: Letter) {
        letter.taken.store(true, Ordering::Release);
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
                return Err(RanksError::gone(from));
            }
            if began.elapsed() > DEADLINE {
                return Err(silent(from));
            }
            match self.from.recv_timeout(PATROL) {
                Ok(letter) => self.sort(letter),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }
}

fn silent(rank: usize) -> RanksError {
    RanksError::Silent { who: format!("rank {rank}"), seconds: DEADLINE.as_secs() }
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
        let mut sent = Vec::new();
        for (to, bytes) in outgoing {
            sent.push((*to, self.send(*to, Kind::Bytes, bytes)?));
        }
        for (from, room) in incoming {
            let bytes = self.next_bytes(*from)?;
            if bytes.len() != room.len() {
                let reason = format!("it has {} bytes, expected {}", bytes.len(), room.len());
                return Err(RanksError::garbled(*from, reason));
            }
            room.copy_from_slice(&bytes);
        }
        sent.iter().try_for_each(|(to, taken)| self.wait_until_taken(*to, taken))
    }

    fn notify(&mut self, to: usize, notice: &[u8]) -> Result<(), RanksError> {
        let taken = self.send(to, Kind::Notice, notice)?;
        self.wait_until_taken(to, &taken)
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
            (None, Some(rank)) => Err(RanksError::gone(rank)),
            (None, None) => Ok(None),
        }
    }
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        self.left[self.rank].store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn two_that_tell_each_other_something_at_once_do_not_wait_for_each_other() {
        let mut ranks = rendezvous(2);
        let (second, first) = (ranks.remove(1), ranks.remove(0));
        // What the other sends is taken by asking for it, so each asks until it has heard both.
        let tell = |mut mine: Rehearsal, to: usize| {
            mine.notify(to, &[7; 1 << 20])?;
            mine.notify(to, &[8])?;
            let mut heard = Vec::new();
            while heard.len() < 2 {
                heard.extend(mine.poll()?);
            }
            Ok::<_, RanksError>((heard, mine))
        };
        thread::scope(|scope| {
            let other = scope.spawn(move || tell(second, 0));
            let (heard, _mine) = tell(first, 1).unwrap();
            assert_eq!(heard, [(1, vec![7; 1 << 20]), (1, vec![8])], "in their order");
            let (heard, _other) = other.join().unwrap().unwrap();
            assert_eq!(heard, [(0, vec![7; 1 << 20]), (0, vec![8])], "in their order");
        });
    }

    #[test]
    fn what_was_taken_was_taken_even_if_the_other_left_since() {
        let mut ranks = rendezvous(2);
        let (mut second, mut first) = (ranks.remove(1), ranks.remove(0));
        let taken = first.send(1, Kind::Notice, &[7]).unwrap();
        assert_eq!(second.poll().unwrap(), Some((0, vec![7])));
        drop(second);
        first.wait_until_taken(1, &taken).unwrap();
    }

    #[test]
    fn what_is_not_taken_by_one_that_left_is_told() {
        let mut ranks = rendezvous(2);
        let (second, mut first) = (ranks.remove(1), ranks.remove(0));
        thread::scope(|scope| {
            let told = scope.spawn(move || first.notify(1, &[7]));
            drop(second);
            assert!(matches!(told.join().unwrap(), Err(RanksError::Gone { .. })));
        });
    }
}
