//! Who keeps what other ranks send.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use hwa_store::InnerPosition;

use super::contents::Contents;
use super::parcel::Parcel;
use crate::archive::Archive;
use crate::crew::guarded;
use crate::error::TrainError;

/// Keeps what other ranks send, in a thread of its own: no courier waits for the disk. A model
/// waits until what it sends is taken, and one parcel is taken after the other.
pub(crate) struct Clerk<'a> {
    inbox: SyncSender<(usize, Parcel)>,
    busy: &'a AtomicBool,
    /// When it got what it has to write.
    since: Cell<Instant>,
}

/// The clerk's side.
pub(crate) struct Desk<'a> {
    parcels: Receiver<(usize, Parcel)>,
    busy: &'a AtomicBool,
}

impl<'a> Clerk<'a> {
    /// A clerk, and the desk to work at.
    pub(crate) fn new(busy: &'a AtomicBool) -> (Self, Desk<'a>) {
        let (inbox, parcels) = sync_channel(1);
        (Self { inbox, busy, since: Instant::now().into() }, Desk { parcels, busy })
    }

    /// Whether it has something to write.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Whether it has been at one parcel for longer than this.
    pub(super) fn is_stalled(&self, longest: Duration, now: Instant) -> bool {
        self.is_busy() && now.saturating_duration_since(self.since.get()) > longest
    }

    /// This process was suspended for so long.
    pub(super) fn forgive(&self, suspended: Duration) {
        self.since.update(|since| since.checked_add(suspended).unwrap_or(since));
    }

    /// Gives it something to keep; it must not be busy.
    pub(super) fn keep(&self, from: usize, parcel: Parcel) {
        self.since.set(Instant::now());
        self.busy.store(true, Ordering::Release);
        // If the desk is empty, whoever left it says why.
        let _ = self.inbox.send((from, parcel));
    }
}

impl Desk<'_> {
    /// Keeps one parcel after the other until no more can come. A clerk that panics says so, and
    /// stays busy for whoever asks.
    pub(crate) fn keep_all(self, files: &dyn Archive) -> Result<(), TrainError> {
        guarded("the clerk", || {
            for (from, parcel) in &self.parcels {
                keep(from, parcel, files)?;
                self.busy.store(false, Ordering::Release);
            }
            Ok(())
        })
    }
}

fn keep(from: usize, parcel: Parcel, files: &dyn Archive) -> Result<(), TrainError> {
    match Contents::of(from, &parcel)? {
        Contents::State { occasion, model, .. } => {
            files.deliver(occasion, model, Contents::state_in(from, parcel)?, None)
        }
        Contents::Inner { cycle, model, step } => {
            let at = InnerPosition { cycle, replica: model, step };
            let weights = parcel.tensors.into_iter().next().unwrap_or_default();
            files.save_inner(at, weights)
        }
    }
}

#[cfg(test)]
mod tests {
    use hwa_core::Weights;

    use super::*;
    use crate::collective::Loss;
    use crate::state::{Lead, ModelState, Occasion};

    struct Broken;

    impl Archive for Broken {
        fn deliver(
            &self,
            _occasion: Occasion,
            _model: usize,
            _part: ModelState,
            _lead: Option<Lead>,
        ) -> Result<(), TrainError> {
            panic!("no shelf is left")
        }

        fn lose(&self, _loss: Loss) -> Result<(), TrainError> {
            Ok(())
        }

        fn save_inner(&self, _at: InnerPosition, _weights: Weights) -> Result<(), TrainError> {
            panic!("no shelf is left")
        }
    }

    #[test]
    fn a_clerk_that_panics_is_heard_of() {
        let busy = AtomicBool::new(false);
        let (clerk, desk) = Clerk::new(&busy);
        let inner = Contents::Inner { cycle: 1, model: 1, step: 1 };
        clerk.keep(1, inner.packed(vec![Weights::new()]));
        let error = desk.keep_all(&Broken).unwrap_err().to_string();
        assert_eq!(error, "the clerk panicked: no shelf is left");
        assert!(clerk.is_busy(), "nothing more is given to it");
    }
}
