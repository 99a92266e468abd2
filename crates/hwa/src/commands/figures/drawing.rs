//! What figures are drawn from: runs that were trained, and how landscapes are measured.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hwa_report::Record;

use crate::arguments::StudyOf;
use crate::failure::Failure;
use crate::pages;
use crate::studied::Studied;

/// What a figure is drawn from.
pub(super) struct Drawing<'a> {
    /// What was trained.
    pub(super) runs: Vec<Trained>,
    /// Where the figure and what it measures are kept.
    pub(super) folder: &'a Path,
    /// Points along a side of a landscape.
    pub(super) size: NonZeroUsize,
    /// Images that a point is evaluated on.
    pub(super) images: NonZeroUsize,
    /// Cores to use; by default all.
    pub(super) cores: Option<NonZeroUsize>,
    /// Whether lines take the place of bars.
    pub(super) plain: bool,
    /// Asked before every batch; true ends the work.
    pub(super) cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// A run that is finished.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::commands) struct Trained {
    /// The network's label.
    pub(in crate::commands) network: String,
    /// The method's label.
    pub(in crate::commands) method: String,
    /// Its seed.
    pub(in crate::commands) seed: u64,
    /// Its run directory.
    pub(in crate::commands) dir: PathBuf,
}

impl Trained {
    /// What it tells of itself.
    pub(super) fn record(&self) -> Result<Record, Failure> {
        pages::record(&self.dir, &self.method)
    }

    /// Its network, images and weights.
    pub(super) fn studied(&self) -> Result<Studied, Failure> {
        Studied::new(&StudyOf { run: Some(self.dir.clone()), ..StudyOf::default() })
    }
}

impl Drawing<'_> {
    /// The networks, each once.
    pub(super) fn networks(&self) -> Vec<&str> {
        let mut networks: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !networks.contains(&run.network.as_str()) {
                networks.push(&run.network);
            }
        }
        networks
    }

    /// The runs of a network by a method.
    pub(super) fn of<'a>(
        &'a self,
        network: &'a str,
        method: &'a str,
    ) -> impl Iterator<Item = &'a Trained> {
        self.runs.iter().filter(move |run| run.network == network && run.method == method)
    }

    /// A name for a figure of a network, if there are several of them.
    pub(super) fn named(&self, name: &str, network: &str) -> String {
        match self.networks().len() {
            0 | 1 => name.to_owned(),
            _ => format!("{name}-{}", network.replace(|c: char| !c.is_ascii_alphanumeric(), "-")),
        }
    }

    /// A title that says of which network, if there are several.
    pub(super) fn titled(&self, title: &str, network: &str) -> String {
        match self.networks().len() {
            0 | 1 => title.to_owned(),
            _ => format!("{title}: {network}"),
        }
    }
}
