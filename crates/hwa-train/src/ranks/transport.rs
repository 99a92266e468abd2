//! What carries bytes from one process to another.

use super::error::RanksError;
use super::terms::Terms;

/// Bytes that go to a rank.
pub type Outgoing<'a> = (usize, &'a [u8]);

/// Room for bytes that come from a rank: as many as it will send.
pub type Incoming<'a> = (usize, &'a mut [u8]);

/// Why all ranks are ended at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason<'a> {
    /// Something has failed: what.
    Failed(&'a str),
    /// There was an interrupt before there was anything to be saved.
    Interrupted,
}

/// The other ranks of a run, as the main thread of one reaches them.
///
/// There are two ways. *Notices* are small and come unasked. An *exchange* moves bytes whose
/// number both sides know; both have agreed on it by notices before, so that neither waits
/// longer than the bytes take. No message is longer than [`BUFFER`](super::BUFFER).
pub trait Transport {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// Sends and receives; comes back when all of it is done. Messages between two ranks keep
    /// their order. Whoever waits sleeps, and not for ever.
    fn exchange(
        &mut self,
        outgoing: &[Outgoing<'_>],
        incoming: &mut [Incoming<'_>],
    ) -> Result<(), RanksError>;

    /// Sends a notice. If it only leaves when the other side takes it, notices that come
    /// meanwhile are taken too, and kept for [`Self::poll`].
    fn notify(&mut self, to: usize, notice: &[u8]) -> Result<(), RanksError>;

    /// The next notice, and who sent it, if one has come. Does not wait.
    fn poll(&mut self) -> Result<Option<(usize, Vec<u8>)>, RanksError>;

    /// Goes by these from now on, as far as they concern it.
    fn keep_to(&mut self, _terms: &Terms) {}

    /// Says why, and ends all ranks at once. Comes back where processes cannot be ended.
    fn end_all(&mut self, _reason: Reason<'_>) {}
}
