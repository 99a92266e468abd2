//! What parcels hold.

use hwa_core::Weights;
use serde::{Deserialize, Serialize};

use super::error::RanksError;
use super::parcel::Parcel;
use crate::replica::State;
use crate::state::{CycleLosses, ModelState, Occasion};

/// What a parcel holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Contents {
    /// A model's part of a state.
    State { occasion: Occasion, model: usize, step: u64, losses: CycleLosses },
    /// Inner weights of a model.
    Inner { cycle: usize, model: usize, step: u64 },
}

impl Contents {
    /// A parcel with these tensors.
    pub(super) fn packed(self, tensors: Vec<Weights>) -> Parcel {
        Parcel { about: serde_json::to_string(&self).unwrap_or_default(), tensors }
    }

    /// A parcel with a model's part of a state.
    pub(super) fn pack_state(occasion: Occasion, model: usize, part: ModelState) -> Parcel {
        let ModelState { step, losses, state: State { weights, momentum }, method } = part;
        let contents = Self::State { occasion, model, step, losses };
        contents.packed(vec![weights, momentum, method])
    }

    /// What a parcel of `from` says that it holds.
    pub(super) fn of(from: usize, parcel: &Parcel) -> Result<Self, RanksError> {
        let garbled = |error: serde_json::Error| RanksError::garbled(from, error.to_string());
        serde_json::from_str(&parcel.about).map_err(garbled)
    }

    /// The model's part of a state that a parcel holds.
    pub(super) fn state_in(from: usize, parcel: Parcel) -> Result<ModelState, RanksError> {
        let garbled = || RanksError::garbled(from, "it is no state");
        let Self::State { step, losses, .. } = Self::of(from, &parcel)? else {
            return Err(garbled());
        };
        let tensors: [Weights; 3] = parcel.tensors.try_into().map_err(|_| garbled())?;
        let [weights, momentum, method] = tensors;
        Ok(ModelState { step, losses, state: State { weights, momentum }, method })
    }
}
