//! What all ranks go by.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What all ranks go by: rank 0 says it, so that none goes by its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Terms {
    /// The names of the ranks' hosts, for messages.
    pub hosts: Vec<String>,
    /// After so long without a sign of life of a rank the run is given up.
    pub deadline: Duration,
    /// After so long without a step of a model the run is given up; never, if there is none. A
    /// step must not take longer.
    pub step_deadline: Option<Duration>,
}
