//! Who keeps what other ranks send.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use hwa_store::InnerPosition;

use super::contents::Contents;
use super::parcel::Parcel;
use crate::archive::{Archive, Files};
use crate::error::TrainError;

/// Keeps what other ranks send, in a thread of its own: no courier waits for the disk. A model
/// waits until what it sends is taken, and one parcel is taken after the other.
pub(crate) struct Clerk<'a> {
    inbox: SyncSender<(usize, Parcel)>,
    busy: &'a AtomicBool,
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
        (Self { inbox, busy }, Desk { parcels, busy })
    }

    /// Whether it has something to write.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Gives it something to keep; it must not be busy.
    pub(super) fn keep(&self, from: usize, parcel: Parcel) {
        self.busy.store(true, Ordering::Release);
        // If the desk is empty, whoever left it says why.
        let _ = self.inbox.send((from, parcel));
    }
}

impl Desk<'_> {
    /// Keeps one parcel after the other until no more can come.
    pub(crate) fn keep_all(self, files: &Files) -> Result<(), TrainError> {
        for (from, parcel) in &self.parcels {
            keep(from, parcel, files)?;
            self.busy.store(false, Ordering::Release);
        }
        Ok(())
    }
}

fn keep(from: usize, parcel: Parcel, files: &Files) -> Result<(), TrainError> {
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
