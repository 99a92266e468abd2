//! A transport that counts, and the sizes of what goes through it.

use super::error::RanksError;
use super::transport::{Incoming, Outgoing, Transport};

/// Bytes that a rank has in buffers at once while weights are exchanged, whatever the size of
/// the model: 32 MiB. What is sent is cut up accordingly.
pub const BUFFER: usize = 32 << 20;

/// The widest element.
pub(crate) const ELEMENT: usize = 8;

/// The way to the other ranks, and what has gone over it.
pub(crate) struct Wire<'t> {
    transport: &'t mut dyn Transport,
    /// Bytes sent and received in exchanges.
    bytes: u64,
}

impl<'t> Wire<'t> {
    pub(crate) fn new(transport: &'t mut dyn Transport) -> Self {
        Self { transport, bytes: 0 }
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
        self.transport.exchange(&outgoing, &mut incoming)
    }

    pub(crate) fn notify(&mut self, to: usize, notice: &[u8]) -> Result<(), RanksError> {
        self.transport.notify(to, notice)
    }

    pub(crate) fn poll(&mut self) -> Result<Option<(usize, Vec<u8>)>, RanksError> {
        self.transport.poll()
    }
}
