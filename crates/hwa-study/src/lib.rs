//! Why averages of weights work, measured on weights that were trained.
//!
//! A [`Frame`] is a line or a plane in the space of all weights: through given weights, along
//! random directions or along those in which a run has moved most ([`principal`]). A [`Survey`]
//! measures loss and accuracy at its points, with batch-norm statistics re-estimated at each.
//!
//! A [`Probe`] measures both sides of the paper's convergence [`Condition`], and [`Angles`] tell
//! how far weights are apart and in which directions they have moved.
//!
//! The picture is that of Li et al., "Visualizing the Loss Landscape of Neural Nets" (2018).

mod angles;
mod condition;
mod direction;
mod error;
mod frame;
mod principal;
mod slope;
mod sums;
mod survey;

pub use angles::Angles;
pub use condition::{Condition, Gradients, Probe};
pub use direction::Direction;
pub use error::StudyError;
pub use frame::{Frame, Place};
pub use principal::{Principal, principal};
pub use survey::{Build, Reading, Survey};
