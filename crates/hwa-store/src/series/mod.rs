//! Averages over a series of checkpoints that somebody trained, on disk.
//!
//! ```no_run
//! use std::path::Path;
//! use hwa_store::{Averaging, Order, Series};
//!
//! let series = Series::open(&["checkpoints".into()], Order::Name)?;
//! Averaging::new(&series).write(&series.everything(), Path::new("mean.safetensors"))?;
//! # Ok::<_, hwa_store::SeriesError>(())
//! ```

mod arithmetic;
mod averaging;
mod buffers;
mod error;
mod header;
mod index;
mod layout;
mod listing;
mod order;
mod output;
mod positioned;
mod scan;
mod scheme;
mod source;
mod stream;
mod tensor;
mod verify;
mod watch;
mod window;
mod workers;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hwa_core::{Role, WindowSpec};

pub use averaging::Averaging;
pub use buffers::Limits;
pub use error::{Difference, SeriesError};
pub use order::Order;
pub use scheme::Scheme;
pub use stream::NonFinite;
pub use watch::Watch;
pub use window::Window;

use listing::{Listed, Listing};
use positioned::{Keep, PositionedFile};
use source::Source;

/// Files that stay open, shards counted; the others are opened for each read. Systems allow some
/// hundred, and others need theirs.
const MOST_OPEN: usize = 64;
/// The bytes read at a time when files are read as they are.
const PLAIN_PIECE: usize = 256 << 10;

/// Checkpoints of one model, oldest first, opened but not read.
#[derive(Debug)]
pub struct Series {
    sources: Vec<Source>,
    /// What tells them apart.
    names: Vec<String>,
    /// The cycles of a run, or places in the series from 1 on.
    numbers: Vec<usize>,
    by_cycle: bool,
    by_number_in_name: bool,
    passed_over: Vec<PathBuf>,
}

/// A member that holds NaN or infinities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadMember {
    /// Its place in the series.
    pub member: usize,
    /// The first tensor that holds one.
    pub tensor: String,
}

impl Series {
    /// Opens files, model folders, or all checkpoints of one folder, and checks that they have
    /// the same tensors.
    pub fn open(paths: &[PathBuf], order: Order) -> Result<Self, SeriesError> {
        Self::open_entry(paths, order, None)
    }

    /// As [`open`](Self::open), with the weights of training checkpoints taken from an entry:
    /// `ema`, or `ema.shadow` for an entry of an entry.
    pub fn open_entry(
        paths: &[PathBuf],
        order: Order,
        entry: Option<&str>,
    ) -> Result<Self, SeriesError> {
        let Listing { members: listed, passed_over } = listing::list(paths)?;
        if let [only] = listed.as_slice() {
            // If it is one.
            Source::open(&only.path, Keep::Closed, entry)?;
            return Err(SeriesError::Single { path: only.path.clone(), passed_over });
        }
        let mut members: Vec<(Listed, Source)> = opened(listed, entry)?;
        let mut by_number_in_name = false;
        match order {
            Order::Name => members.sort_by(|(a, _), (b, _)| order::by_name(&a.path, &b.path)),
            Order::Time => members.sort_by_key(|(_, source)| source.written()),
            Order::Step => {
                let steps;
                (steps, by_number_in_name) = self::steps(&members)?;
                let mut stepped: Vec<_> = steps.into_iter().zip(members).collect();
                stepped.sort_by_key(|(step, _)| *step);
                members = stepped.into_iter().map(|(_, member)| member).collect();
            }
            Order::Given => {}
        }
        let cycles: Option<Vec<usize>> = members.iter().map(|(listed, _)| listed.cycle).collect();
        // Windows need numbers that ascend.
        let cycles = cycles.filter(|cycles| cycles.is_sorted_by(|a, b| a < b));
        let by_cycle = cycles.is_some();
        let numbers = cycles.unwrap_or_else(|| (1..=members.len()).collect());
        let sources: Vec<Source> = members.into_iter().map(|(_, source)| source).collect();
        layout::ensure_equal(&sources)?;
        let paths: Vec<&Path> = sources.iter().map(Source::path).collect();
        let names = order::names(&paths);
        Ok(Self { sources, names, numbers, by_cycle, by_number_in_name, passed_over })
    }

    /// Whether [`Order::Step`] had to take the last numbers in their names for steps.
    pub fn is_by_number_in_name(&self) -> bool {
        self.by_number_in_name
    }

    /// Files of the folder that were taken for something else than checkpoints of the series:
    /// states of a training, and the model that a library saves beside its checkpoints at the end.
    pub fn passed_over(&self) -> &[PathBuf] {
        &self.passed_over
    }

    /// The number of checkpoints; two or more.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Never: an empty series cannot be opened.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// The checkpoints' places, oldest first.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.sources.iter().map(Source::path)
    }

    /// The checkpoints' names: those of their files, with their folders' if the files are called
    /// alike.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// All files that are read: of a model in several files, each, and its index.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = self.sources.iter().flat_map(Source::files);
        self.paths().chain(files.map(PositionedFile::path))
    }

    /// Whether the numbers are cycles of a run.
    pub fn is_by_cycle(&self) -> bool {
        self.by_cycle
    }

    /// The checkpoints' numbers: cycles of a run, or places in the series from 1 on.
    pub fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    /// The number of tensors of each.
    pub fn num_tensors(&self) -> usize {
        self.sources.first().map_or(0, |source| source.tensors().len())
    }

    /// The bytes of all files.
    pub fn num_file_bytes(&self) -> u64 {
        self.sources.iter().map(Source::num_file_bytes).sum()
    }

    /// Whether batch-norm statistics are among the tensors.
    pub fn has_statistics(&self) -> bool {
        let mut tensors = self.sources.iter().flat_map(Source::tensors);
        tensors.any(|tensor| tensor.role == Role::Statistic)
    }

    /// All checkpoints.
    pub fn everything(&self) -> Window {
        let at = self.numbers.last().copied().unwrap_or_default();
        Window { spec: None, at, members: (0..self.len()).collect(), chosen_by: None }
    }

    /// Some checkpoints by their places in the series, in any order.
    pub fn selection(&self, places: &[usize]) -> Result<Window, SeriesError> {
        let mut members = places.to_vec();
        members.sort_unstable();
        members.dedup();
        match members.last().map(|newest| (*newest, self.numbers.get(*newest))) {
            Some((_, Some(at))) => Ok(Window { spec: None, at: *at, members, chosen_by: None }),
            Some((place, None)) => Err(SeriesError::NoPlace { place, count: self.len() }),
            None => Err(SeriesError::Nothing),
        }
    }

    /// The window that ends at a checkpoint's number, or at the last one.
    pub fn window(&self, spec: WindowSpec, at: Option<usize>) -> Result<Window, SeriesError> {
        let last = self.numbers.last().copied().unwrap_or_default();
        let at = at.unwrap_or(last);
        let window = self.window_at(spec, at);
        if window.members.is_empty() || at > last {
            let first = self.numbers.first().copied().unwrap_or_default();
            let mut have = format!("there are {} checkpoints, {first} to {last}", self.len());
            if spec.stride.get() > 1 && at <= last {
                have.push_str(&format!(
                    ", and none that it covers is a multiple of {}",
                    spec.stride
                ));
            }
            return Err(SeriesError::EmptyWindow { at, have });
        }
        Ok(window)
    }

    /// The windows at all checkpoints, without those that have no members.
    pub fn windows(&self, spec: WindowSpec) -> Vec<Window> {
        let windows = self.numbers.iter().map(|at| self.window_at(spec, *at));
        windows.filter(|window| !window.members.is_empty()).collect()
    }

    fn window_at(&self, spec: WindowSpec, at: usize) -> Window {
        let covered = |number: usize| (spec.oldest(at)..=at).contains(&number);
        let members = self.numbers.iter().enumerate();
        let members = members.filter(|(_, number)| covered(**number) && spec.admits(**number));
        let members = members.map(|(place, _)| place).collect();
        Window { spec: Some(spec), at, members, chosen_by: None }
    }

    /// Reads everything to find the members that hold NaN or infinities.
    pub fn bad_members(
        &self,
        limits: Limits,
        watch: Watch<'_>,
    ) -> Result<Vec<BadMember>, SeriesError> {
        let sources: Vec<&Source> = self.sources.iter().collect();
        let tensors = self.sources.first().map_or(&[][..], Source::tensors);
        let planned = layout::planned(tensors, None);
        let found = scan::first_bad_tensors(&sources, &planned, limits, watch)?;
        let named = |(member, tensor): (usize, Option<usize>)| {
            Some(BadMember { member, tensor: tensors[tensor?].name.clone() })
        };
        Ok(found.into_iter().enumerate().filter_map(named).collect())
    }

    /// Takes members out of the series. The others keep their numbers.
    pub fn leave_out(&mut self, bad: &[BadMember]) -> Result<(), SeriesError> {
        let all = self.len();
        let mut is_kept = (0..all).map(|place| bad.iter().all(|bad| bad.member != place));
        let (mut also, mut too) = (is_kept.clone(), is_kept.clone());
        self.sources.retain(|_| is_kept.next().unwrap_or(true));
        self.numbers.retain(|_| also.next().unwrap_or(true));
        self.names.retain(|_| too.next().unwrap_or(true));
        match self.len() {
            left @ 0..2 => Err(SeriesError::TooFewLeft { left, all }),
            _ => Ok(()),
        }
    }

    /// Of each checkpoint a number that tells it from others: by its layout, the length of its
    /// files, what every tensor begins and ends with, and the checksums that it has. Weights that
    /// were trained anew are others in all tensors.
    pub fn digests(&self) -> Result<Vec<u32>, SeriesError> {
        let digests: Vec<Mutex<u32>> = self.sources.iter().map(|_| Mutex::new(0)).collect();
        let threads = Limits::default().threads.get();
        workers::share(threads, self.len(), Vec::new, |buffer, number| {
            let digest = self.sources[number].digest(buffer)?;
            *digests[number].lock().unwrap_or_else(PoisonError::into_inner) = digest;
            Ok::<(), SeriesError>(())
        })?;
        let of = |digest: Mutex<u32>| digest.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(digests.into_iter().map(of).collect())
    }

    /// Reads all files as they are and does nothing with them: how fast this machine reads.
    pub fn read_plainly(&self, limits: Limits) -> Result<u64, SeriesError> {
        let files = self.sources.iter().flat_map(Source::files);
        let pieces: Vec<_> = files
            .flat_map(|file| (0..file.length()).step_by(PLAIN_PIECE).map(move |at| (file, at)))
            .collect();
        let buffer = || vec![0; PLAIN_PIECE];
        workers::share(limits.threads.get(), pieces.len(), buffer, |buffer, number| {
            let (file, at) = pieces[number];
            let length = usize::try_from(file.length() - at).unwrap_or(PLAIN_PIECE);
            let bytes = &mut buffer[..length.min(PLAIN_PIECE)];
            file.read(at, bytes)?;
            std::hint::black_box(bytes);
            Ok::<(), SeriesError>(())
        })?;
        Ok(self.num_file_bytes())
    }
}

/// The steps of all checkpoints: all as they state them, or all by the last numbers in their
/// names, which may count something else; and whether it is the latter.
fn steps(members: &[(Listed, Source)]) -> Result<(Vec<u64>, bool), SeriesError> {
    let sources = || members.iter().map(|(_, source)| source);
    let stated: Option<Vec<u64>> = sources().map(Source::step).collect();
    if let Some(stated) = stated {
        return Ok((stated, false));
    }
    let paths: Vec<&Path> = sources().map(Source::path).collect();
    let named = order::numbers(&paths);
    if let Some(named) = named.iter().copied().collect() {
        return Ok((named, true));
    }
    let without =
        sources().zip(&named).find(|(source, named)| source.step().is_none() && named.is_none());
    let stated = sources().find(|source| source.step().is_some());
    let path = |source: &Source| source.path().to_owned();
    match (stated, without) {
        (Some(stated), None) => {
            let silent = sources().find(|source| source.step().is_none());
            let silent = silent.map(path).unwrap_or_default();
            Err(SeriesError::MixedSteps { stated: path(stated), silent })
        }
        (_, without) => {
            let path = without.map(|(source, _)| path(source)).unwrap_or_default();
            Err(SeriesError::NoStep { path })
        }
    }
}

/// Opens checkpoints, several at a time.
fn opened(listed: Vec<Listed>, entry: Option<&str>) -> Result<Vec<(Listed, Source)>, SeriesError> {
    let mut files = 0;
    let mut keeps = Vec::with_capacity(listed.len());
    for Listed { path, .. } in &listed {
        files += if index::is_index(path) { index::shards(path)?.len() } else { 1 };
        keeps.push(if files > MOST_OPEN { Keep::Closed } else { Keep::Open });
    }
    let slots: Vec<Mutex<Option<Source>>> = listed.iter().map(|_| Mutex::new(None)).collect();
    let threads = Limits::default().threads.get();
    workers::share(
        threads,
        listed.len(),
        || (),
        |(), number| {
            let source = Source::open(&listed[number].path, keeps[number], entry)?;
            *slots[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
            Ok::<(), SeriesError>(())
        },
    )?;
    let sources = slots.into_iter();
    let sources = sources.map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    Ok(listed.into_iter().zip(sources.flatten()).collect())
}
