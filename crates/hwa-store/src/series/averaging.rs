//! Averages of a series, written, kept in memory, or only computed.

use std::path::{Path, PathBuf};

use hwa_core::{ValueType, Weights};
use serde_json::{Value, json};

use super::Series;
use super::buffers::Limits;
use super::error::SeriesError;
use super::layout::{self, Planned};
use super::output::{About, FinishedFile, InMemory, OutputFile, OutputFiles};
use super::scheme::Scheme;
use super::source::Source;
use super::stream::{NonFinite, Nowhere, Pass, Sink};
use super::watch::Watch;
use super::window::Window;
use crate::tensor_file::Metadata;

/// Averages that are written in one pass; each is an open file.
const FILES_AT_ONCE: usize = 32;
/// What was said about one checkpoint and is not so about an average.
const OF_ONE: [&str; 4] = ["cycle", "step", "replica", "n_averaged"];
/// The same, as others say it.
const OF_ONE_BY_OTHERS: [&str; 3] = ["global_step", "step", "epoch"];
/// What says whose tensors these are: `transformers` refuses a file with metadata but without it.
const FORMAT: (&str, &str) = ("format", "pt");

/// How a series is averaged.
#[derive(Debug, Clone)]
pub struct Averaging<'a> {
    /// The checkpoints.
    pub series: &'a Series,
    /// The mean, or another way.
    pub scheme: Scheme,
    /// The type of the result; by default that of the checkpoints.
    pub value_type: Option<ValueType>,
    /// What is done about NaN and infinities.
    pub non_finite: NonFinite,
    /// What a pass may use.
    pub limits: Limits,
    /// Who watches.
    pub watch: Watch<'a>,
}

impl<'a> Averaging<'a> {
    /// The mean, in the type of the checkpoints.
    pub fn new(series: &'a Series) -> Self {
        let (limits, watch) = (Limits::default(), Watch::nobody());
        let (scheme, value_type, non_finite) = (Scheme::Mean, None, NonFinite::Refuse);
        Self { series, scheme, value_type, non_finite, limits, watch }
    }

    /// Writes the average of a window, beside its place until it is whole.
    pub fn write(&self, window: &Window, path: &Path) -> Result<(), SeriesError> {
        self.write_all(&[(window.clone(), path.to_owned())])
    }

    /// Writes the average of a window for a short time: it appears whole, but nobody waits for
    /// the disk, so that a power failure may leave half of it.
    pub fn write_unflushed(&self, window: &Window, path: &Path) -> Result<(), SeriesError> {
        for file in self.begin(&[(window.clone(), path.to_owned())])?.0 {
            file.unflushed().appear()?;
        }
        Ok(())
    }

    /// Writes the averages of several windows. All of them appear, or none.
    pub fn write_all(&self, outputs: &[(Window, PathBuf)]) -> Result<(), SeriesError> {
        let mut finished: Vec<FinishedFile> = Vec::new();
        let mut before = 0;
        for outputs in outputs.chunks(FILES_AT_ONCE) {
            let progress = |done| (self.watch.progress)(before + done);
            let watch = Watch { progress: &progress, ..self.watch };
            let files = Averaging { watch, ..self.clone() }.begin(outputs)?;
            let windows: Vec<Window> = outputs.iter().map(|(window, _)| window.clone()).collect();
            before += self.num_bytes(&windows);
            for file in files.0 {
                finished.push(file.flush()?);
            }
        }
        for file in finished {
            file.rename()?;
        }
        Ok(())
    }

    /// The average of a window in memory.
    pub fn weights(&self, window: &Window) -> Result<Weights, SeriesError> {
        let planned = self.planned();
        let memory = InMemory::new(&planned);
        self.pass(&planned, &[window.members()], &memory)?;
        let newest = window.members().last().and_then(|member| self.series.sources.get(*member));
        memory.weights(newest.map_or(Path::new(""), Source::path))
    }

    /// What is written about the average of a window, beside it.
    pub fn metadata(&self, window: &Window) -> Metadata {
        self.about(window).metadata
    }

    /// Computes the averages of windows in one pass and keeps none: how long that takes.
    pub fn compute(&self, windows: &[Window]) -> Result<(), SeriesError> {
        let members: Vec<&[usize]> = windows.iter().map(Window::members).collect();
        self.pass(&self.planned(), &members, &Nowhere)
    }

    /// The bytes that are read for windows of which each is written.
    pub fn num_bytes(&self, windows: &[Window]) -> u64 {
        let planned = self.planned();
        let sources: Vec<&Source> = self.series.sources.iter().collect();
        let bytes = |windows: &[Window]| {
            let members: Vec<&[usize]> = windows.iter().map(Window::members).collect();
            self.of(&sources, &planned, &members).num_bytes()
        };
        windows.chunks(FILES_AT_ONCE).map(bytes).sum()
    }

    /// Averages in files beside their places, not flushed.
    fn begin(&self, outputs: &[(Window, PathBuf)]) -> Result<OutputFiles, SeriesError> {
        let planned = self.planned();
        let create = |(window, path): &(Window, PathBuf)| {
            OutputFile::create(path, &planned, &self.about(window))
        };
        let files = OutputFiles(outputs.iter().map(create).collect::<Result<_, _>>()?);
        let members: Vec<&[usize]> = outputs.iter().map(|(window, _)| window.members()).collect();
        self.pass(&planned, &members, &files)?;
        Ok(files)
    }

    fn planned(&self) -> Vec<Planned> {
        let tensors = self.series.sources.first().map_or(&[][..], Source::tensors);
        layout::planned(tensors, self.value_type)
    }

    fn pass(
        &self,
        planned: &[Planned],
        windows: &[&[usize]],
        sink: &dyn Sink,
    ) -> Result<(), SeriesError> {
        // A window may be of another series.
        let (count, newest) = (self.series.len(), windows.iter().flat_map(|w| w.iter()).max());
        if let Some(place) = newest.copied().filter(|newest| *newest >= count) {
            return Err(SeriesError::NoPlace { place, count });
        }
        let sources: Vec<&Source> = self.series.sources.iter().collect();
        self.of(&sources, planned, windows).run(sink)
    }

    fn of<'p>(
        &'p self,
        sources: &'p [&'p Source],
        planned: &'p [Planned],
        windows: &'p [&'p [usize]],
    ) -> Pass<'p> {
        let Self { scheme, non_finite, limits, watch, .. } = self;
        let (non_finite, limits, watch) = (*non_finite, *limits, *watch);
        Pass { sources, planned, windows, scheme, non_finite, limits, watch }
    }

    /// Whose batch-norm statistics the average of a window has: those of its only member fit.
    pub fn statistics(&self, window: &Window) -> &'static str {
        match (self.series.has_statistics(), window.members()) {
            (false, _) => "none",
            (true, [_]) => "of the checkpoint",
            (true, _) => "averaged",
        }
    }

    /// What the newest member says about its network goes on to be true; the rest is new.
    fn about(&self, window: &Window) -> About {
        let sources = &self.series.sources;
        let newest = window.members().last().and_then(|member| sources.get(*member));
        let Some(newest) = newest else {
            return About::default();
        };
        let mut metadata = newest.metadata().clone();
        metadata.retain(|key, _| !OF_ONE.contains(&key.as_str()));
        let statistics = self.statistics(window);
        let spec = window
            .spec()
            .map(|spec| json!({ "length": spec.length, "stride": spec.stride, "at": window.at() }));
        let how = match &self.scheme {
            Scheme::Mean => json!({ "how": "mean" }),
            Scheme::Weighted(weights) => json!({ "how": "weighted", "weights": weights }),
            Scheme::Moving { decay } => json!({ "how": "moving", "decay": decay }),
        };
        let names = window.members().iter().filter_map(|member| self.series.names.get(*member));
        let names: Vec<&str> = names.map(String::as_str).collect();
        metadata.remove("chosen_by");
        let chosen_by = window.chosen_by.clone();
        metadata.extend(chosen_by.map(|what| ("chosen_by".to_owned(), what.into())));
        metadata.extend([
            ("kind".to_owned(), Value::from("average")),
            ("average".to_owned(), how),
            ("members".to_owned(), names.into()),
            ("window".to_owned(), spec.into()),
            ("statistics".to_owned(), statistics.into()),
            ("tool".to_owned(), concat!("hwa ", env!("CARGO_PKG_VERSION")).into()),
        ]);
        let mut foreign = newest.foreign().clone();
        foreign.retain(|key, _| !OF_ONE_BY_OTHERS.contains(&key.as_str()));
        foreign.entry(FORMAT.0.to_owned()).or_insert_with(|| FORMAT.1.to_owned());
        About { metadata, foreign }
    }
}
