//! What figures are drawn from: runs that were trained, and how landscapes are measured.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hwa_report::Record;
use hwa_report::paper::{HWA, Labelled, Networks};

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
    /// Where the data is, if not where it was.
    pub(super) data_dir: Option<&'a Path>,
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
}

impl Drawing<'_> {
    /// A run, as what is looked into.
    pub(super) fn subject(&self, run: &Trained) -> StudyOf {
        StudyOf {
            run: Some(run.dir.clone()),
            data_dir: self.data_dir.map(Path::to_owned),
            threads: self.cores,
            ..StudyOf::default()
        }
    }

    /// The network, images and weights of a run.
    pub(super) fn studied(&self, run: &Trained) -> Result<Studied, Failure> {
        Studied::new(&self.subject(run))
    }

    /// What the runs have told.
    pub(super) fn labelled(&self) -> Result<Vec<Labelled>, Failure> {
        let labelled = |run: &Trained| {
            let (network, method) = (run.network.clone(), run.method.clone());
            Ok(Labelled { network, method, record: run.record()? })
        };
        self.runs.iter().map(labelled).collect()
    }

    /// The networks, each once.
    pub(super) fn networks(&self) -> Networks {
        Networks::of(self.runs.iter().map(|run| run.network.as_str()))
    }

    /// The runs of HWA, network by network.
    pub(super) fn of_hwa(&self) -> impl Iterator<Item = &Trained> {
        self.runs.iter().filter(|run| run.method == HWA)
    }
}
