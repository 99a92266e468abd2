//! A transport that counts and shows that its rank is there, and the sizes of what goes through it.

use std::time::{Duration, Instant};

use super::error::{RanksError, called};
use super::notice::Notice;
use super::terms::Terms;
use super::transport::{Incoming, Outgoing, Reason, Transport};

/// Bytes that a rank has in buffers at once while weights are exchanged, whatever the size of
/// the model: 32 MiB. What is sent is cut up accordingly.
pub const BUFFER: usize = 32 << 20;

/// The widest element.
pub(crate) const ELEMENT: usize = 8;

/// How often a rank shows that it is there at least, before it knows what the others go by. They
/// may go by less than it does itself, but not by less than a second.
const AT_FIRST: Duration = Duration::from_millis(100);

/// The way to the other ranks, and what has gone over it.
pub(crate) struct Wire<'t> {
    transport: &'t mut dyn Transport,
    /// Bytes sent and received in exchanges.
    bytes: u64,
    terms: Terms,
    /// How often this rank shows that it is there.
    pulse: Duration,
    /// When the others were last shown that this rank is there.
    beaten: Instant,
}

impl<'t> Wire<'t> {
    /// Shows ten times in a `deadline` that this rank is there, and in a second at first.
    pub(crate) fn new(transport: &'t mut dyn Transport, deadline: Duration) -> Self {
        let terms = Terms { deadline, ..Terms::default() };
        let pulse = AT_FIRST.min(deadline / 10);
        Self { transport, bytes: 0, terms, pulse, beaten: Instant::now() }
    }

    /// What this rank goes by.
    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Goes by these from now on.
    pub(crate) fn keep_to(&mut self, terms: Terms) {
        self.transport.keep_to(&terms);
        self.pulse = terms.deadline / 10;
        self.terms = terms;
    }

    /// Ends all ranks, where processes can be ended.
    pub(crate) fn end_all(&mut self, reason: Reason<'_>) {
        self.transport.end_all(reason);
    }

    /// A rank as messages name it.
    pub(crate) fn who(&self, rank: usize) -> String {
        called(rank, self.terms.hosts.get(rank).map(String::as_str))
    }

    /// An error with the host of the rank that it names.
    pub(crate) fn named(&self, error: RanksError) -> RanksError {
        error.at(&self.terms.hosts)
    }

    pub(crate) fn rank(&self) -> usize {
        self.transport.rank()
    }

    pub(crate) fn size(&self) -> usize {
        self.transport.size()
    }

    /// All ranks but this one.
    pub(crate) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.rank();
        (0..self.size()).filter(move |rank| *rank != me)
    }

    /// Bytes sent and received in exchanges so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sends and receives; what is empty is not sent, and not waited for.
    pub(crate) fn exchange(
        &mut self,
        outgoing: &[Outgoing<'_>],
        incoming: &mut [Incoming<'_>],
    ) -> Result<(), RanksError> {
        let outgoing: Vec<_> = outgoing.iter().copied().filter(|(_, b)| !b.is_empty()).collect();
        let mut incoming: Vec<Incoming<'_>> = incoming
            .iter_mut()
            .filter(|(_, room)| !room.is_empty())
            .map(|(from, room)| (*from, &mut **room))
            .collect();
        let sent: usize = outgoing.iter().map(|(_, bytes)| bytes.len()).sum();
        let received: usize = incoming.iter().map(|(_, room)| room.len()).sum();
        self.bytes += (sent + received) as u64;
        let exchanged = self.transport.exchange(&outgoing, &mut incoming);
        exchanged.map_err(|error| self.named(error))?;
        // Models may take long in all their pieces, and others than their receiver wait.
        self.beat()
    }

    /// Shows rank 0 that this rank is there, and rank 0 all others, if it is time to.
    pub(crate) fn beat(&mut self) -> Result<(), RanksError> {
        if self.beaten.elapsed() <= self.pulse {
            return Ok(());
        }
        self.beaten = Instant::now();
        let beat = Notice::Beat.to_bytes();
        match self.rank() {
            0 => self.others().try_for_each(|rank| self.notify(rank, &beat)),
            _ => self.notify(0, &beat),
        }
    }

    pub(crate) fn notify(&mut self, to: usize, notice: &[u8]) -> Result<(), RanksError> {
        self.transport.notify(to, notice).map_err(|error| error.at(&self.terms.hosts))
    }

    pub(crate) fn poll(&mut self) -> Result<Option<(usize, Vec<u8>)>, RanksError> {
        self.transport.poll().map_err(|error| error.at(&self.terms.hosts))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::rehearsal::rehearsal;
    use super::*;

    #[test]
    fn whoever_does_not_know_the_terms_yet_is_there_for_the_shortest_deadline() {
        let mut ranks = rehearsal(2);
        let (mut second, mut first) = (ranks.remove(1), ranks.remove(0));
        let deadline = Duration::from_secs(600);
        let mut wire = Wire::new(&mut first, deadline);
        thread::sleep(2 * AT_FIRST);
        wire.beat().unwrap();
        assert!(second.poll().unwrap().is_some(), "another may go by a second");
        wire.keep_to(Terms { deadline, ..Terms::default() });
        thread::sleep(2 * AT_FIRST);
        wire.beat().unwrap();
        assert_eq!(second.poll().unwrap(), None);
    }

    #[test]
    fn whoever_sends_for_long_is_still_there_for_the_others() {
        let pulse = Duration::from_millis(5);
        let mut ranks = rehearsal(3);
        let (mut third, mut second, mut first) =
            (ranks.remove(2), ranks.remove(1), ranks.remove(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut wire, mut room) = (Wire::new(&mut second, Duration::MAX), [0]);
                (0..4).for_each(|_| wire.exchange(&[], &mut [(0, &mut room)]).unwrap());
            });
            let mut wire = Wire::new(&mut first, 10 * pulse);
            for piece in 0..4 {
                thread::sleep(2 * pulse);
                wire.exchange(&[(1, &[piece])], &mut []).unwrap();
            }
        });
        let mut heard = Vec::new();
        while let Some((from, bytes)) = third.poll().unwrap() {
            heard.push((from, Notice::from_bytes(from, &bytes).unwrap()));
        }
        assert_eq!(heard, vec![(0, Notice::Beat); 4]);
    }
}
