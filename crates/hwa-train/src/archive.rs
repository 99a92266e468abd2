//! Where models leave what is to be kept.

use hwa_core::{InnerWeights, Weights};
use hwa_store::{CheckpointStore, InnerPosition};

use crate::collective::Loss;
use crate::error::TrainError;
use crate::state::{Lead, ModelState, Occasion, StateStore};

/// Where models leave what is to be kept: the files of the run, or the way to them.
pub(crate) trait Archive: Sync {
    /// One model's part of a state.
    fn deliver(
        &self,
        occasion: Occasion,
        model: usize,
        part: ModelState,
        lead: Option<Lead>,
    ) -> Result<(), TrainError>;

    /// A model is lost: states are complete without it.
    fn lose(&self, loss: Loss) -> Result<(), TrainError>;

    /// Inner weights that were asked for.
    fn save_inner(&self, at: InnerPosition, weights: Weights) -> Result<(), TrainError>;
}

/// The files of a run directory.
pub(crate) struct Files {
    pub(crate) states: StateStore,
    pub(crate) checkpoints: CheckpointStore,
}

impl Archive for Files {
    fn deliver(
        &self,
        occasion: Occasion,
        model: usize,
        part: ModelState,
        lead: Option<Lead>,
    ) -> Result<(), TrainError> {
        self.states.deliver(occasion, model, part, lead)
    }

    fn lose(&self, loss: Loss) -> Result<(), TrainError> {
        self.states.lose(loss)
    }

    fn save_inner(&self, at: InnerPosition, weights: Weights) -> Result<(), TrainError> {
        Ok(self.checkpoints.save_inner(at, &InnerWeights::new(weights))?)
    }
}
