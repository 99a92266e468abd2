//! Windows over a series: which members are averaged.

use hwa_core::WindowSpec;

/// Some members of a series, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub(crate) spec: Option<WindowSpec>,
    pub(crate) at: usize,
    pub(crate) members: Vec<usize>,
    pub(crate) chosen_by: Option<String>,
}

impl Window {
    /// The number of the newest checkpoint that it can hold.
    pub fn at(&self) -> usize {
        self.at
    }

    /// How long it is and which checkpoints it takes; without, it takes all.
    pub fn spec(&self) -> Option<WindowSpec> {
        self.spec
    }

    /// The same window, with what has chosen its members: it is written into averages of it.
    pub fn chosen_by(self, what: &str) -> Self {
        Self { chosen_by: Some(what.to_owned()), ..self }
    }

    /// Its members, by their places in the series.
    pub fn members(&self) -> &[usize] {
        &self.members
    }
}
