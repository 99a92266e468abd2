//! What ranks tell each other in a few bytes.

use serde::{Deserialize, Serialize};

use super::error::RanksError;
use super::images::Unread;

/// What a rank tells another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Notice {
    /// Of the command, before training; the text is its own.
    Word(String),
    /// Rank 0: this is how training begins.
    Opening(Opening),
    /// To rank 0: all models here have come to a meeting.
    Ready(Ready),
    /// Rank 0: all models have come; begin.
    Go {
        /// The meeting.
        round: u64,
        /// What all models together say.
        word: Word,
    },
    /// To rank 0: there was an interrupt here.
    Interrupt,
    /// Rank 0: there was an interrupt; nobody will meet any more to average.
    Leave,
    /// To rank 0: there is something to keep, whose description has so many bytes.
    Parcel {
        /// Bytes of the description.
        header: usize,
    },
    /// Rank 0: send what you have to keep.
    Send,
    /// To rank 0: the models here have ended, and so many parcels were sent.
    Done {
        /// Parcels sent.
        parcels: u64,
    },
    /// Rank 0: the run is over.
    Over {
        /// Whether it was interrupted, and can be gone on with.
        interrupted: bool,
    },
    /// To rank 0, and from there to the others: images that were left out.
    LeftOut(Vec<Unread>),
    /// Still here.
    Beat,
}

/// A meeting that all models of a rank have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// The number of the meeting.
    pub(crate) round: u64,
    /// What it is for.
    pub(crate) kind: Kind,
    /// Which tensors the models have brought.
    pub(crate) digest: u64,
    /// What the models here say.
    pub(crate) word: Word,
}

/// What models say when they meet, apart from their tensors: of several, whatever any says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Word {
    /// Training is to stop.
    pub(crate) stop: bool,
    /// The complete models are looked at later.
    pub(crate) models: bool,
}

impl Word {
    /// What either says.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { stop: self.stop || other.stop, models: self.models || other.models }
    }
}

/// What a meeting is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Inner weights are averaged.
    Synchronize,
    /// Other tensors are averaged.
    Average,
    /// Tensors are handed on.
    Shift,
    /// Go on or stop.
    Agree,
}

/// How training begins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Opening {
    /// The numbers of the models that train.
    pub(crate) models: Vec<usize>,
    /// Whether they go on from a state, which follows.
    pub(crate) resumed: bool,
}

impl Notice {
    /// As it is sent.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // A notice has neither maps with other keys than text nor anything else that cannot be
        // written as JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// As it was sent by `rank`.
    pub(crate) fn from_bytes(rank: usize, bytes: &[u8]) -> Result<Self, RanksError> {
        let garbled = |error: serde_json::Error| RanksError::garbled(rank, error.to_string());
        serde_json::from_slice(bytes).map_err(garbled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_comes_back_and_nonsense_is_refused() {
        let word = Word { stop: true, models: false };
        let ready = Ready { round: 7, kind: Kind::Shift, digest: u64::MAX, word };
        for notice in [Notice::Ready(ready), Notice::Beat, Notice::Word("ü".to_owned())] {
            assert_eq!(Notice::from_bytes(0, &notice.to_bytes()).unwrap(), notice);
        }
        for nonsense in [&b""[..], b"{", b"\"Hello\"", b"{\"Done\":{}}", &[0xff; 9]] {
            let error = Notice::from_bytes(3, nonsense).unwrap_err().to_string();
            assert!(error.starts_with("a message of rank 3 cannot be read: "), "{error}");
        }
    }
}
