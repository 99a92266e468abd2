//! What can go wrong between ranks.

use hwa_core::WeightsError;

/// Why ranks could not do something together.
#[derive(Debug, thiserror::Error)]
pub enum RanksError {
    /// Another rank ended in the middle of it; what it said itself tells more.
    #[error("{} has left", called(*rank, host.as_deref()))]
    Gone {
        /// The rank.
        rank: usize,
        /// Its host, where that is known.
        host: Option<String>,
    },
    /// Nothing was heard of a rank for too long.
    #[error("{who} has not been heard of for {seconds} seconds")]
    Silent {
        /// The rank and its host.
        who: String,
        /// For how long.
        seconds: u64,
    },
    /// Two ranks, or two models of one, do not do the same thing.
    #[error("{who} is out of step: {expected} was expected, {found} came")]
    OutOfStep {
        /// The rank and its host, or the model.
        who: String,
        /// What the others do.
        expected: String,
        /// What it does.
        found: String,
    },
    /// The models of a rank are not those of the others.
    #[error("the models of {who} have other tensors than those of rank 0")]
    OtherTensors {
        /// The rank and its host.
        who: String,
    },
    /// A message is not what it should be.
    #[error("a message of {} cannot be read: {reason}", called(*rank, host.as_deref()))]
    Garbled {
        /// Who sent it.
        rank: usize,
        /// Its host, where that is known.
        host: Option<String>,
        /// What is wrong with it.
        reason: String,
    },
    /// A model has made no step for too long.
    #[error(
        "model {model} has made no step for {seconds} seconds (HWA_MPI_STEP_DEADLINE is another \
         number of seconds, or 0)"
    )]
    Stalled {
        /// The model.
        model: usize,
        /// For how long.
        seconds: u64,
    },
    /// What another rank has sent to be kept is not written for too long.
    #[error(
        "what a rank has sent is not written after {seconds} seconds (HWA_MPI_STEP_DEADLINE is \
         another number of seconds, or 0)"
    )]
    Unwritten {
        /// For how long.
        seconds: u64,
    },
    /// An image that one rank has left out is another one here.
    #[error(
        "{who} has left out `{name}` ({reason}), and the file is another there: all ranks need the \
         same images"
    )]
    OtherImage {
        /// The rank and its host.
        who: String,
        /// The image.
        name: String,
        /// Why it was left out.
        reason: String,
    },
    /// There was an interrupt before training: nothing was begun.
    #[error("it was interrupted")]
    Interrupted,
    /// The models of one rank do not match.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

impl RanksError {
    /// That a rank has left.
    pub fn gone(rank: usize) -> Self {
        Self::Gone { rank, host: None }
    }

    /// That a message of a rank is not what it should be.
    pub fn garbled(rank: usize, reason: impl Into<String>) -> Self {
        Self::Garbled { rank, host: None, reason: reason.into() }
    }

    /// With the host of the rank that it names.
    pub(super) fn at(mut self, hosts: &[String]) -> Self {
        if let Self::Gone { rank, host } | Self::Garbled { rank, host, .. } = &mut self
            && host.is_none()
        {
            *host = hosts.get(*rank).cloned();
        }
        self
    }
}

/// A rank as messages name it, with its host, where that is known.
pub fn called(rank: usize, host: Option<&str>) -> String {
    match host {
        Some(host) => format!("rank {rank} on {host}"),
        None => format!("rank {rank}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_named_with_their_hosts_once_these_are_known() {
        let hosts = ["a".to_owned(), "b".to_owned()];
        assert_eq!(RanksError::gone(1).to_string(), "rank 1 has left");
        assert_eq!(RanksError::gone(1).at(&hosts).to_string(), "rank 1 on b has left");
        let garbled = RanksError::garbled(0, "it is short").at(&hosts).at(&[]).to_string();
        assert_eq!(garbled, "a message of rank 0 on a cannot be read: it is short");
    }
}
