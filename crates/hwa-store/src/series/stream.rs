//! One pass over a series: tensor by tensor, in pieces that stay in the cache.
//!
//! A piece of every member is read, summed and handed on before the next piece is begun, so that
//! memory is bounded by the buffers and not by the models. Threads take pieces in turn; every
//! element is summed by one of them, oldest member first, so that their number changes no bit.

use std::sync::atomic::{AtomicU64, Ordering};

use hwa_core::ValueType;

use super::arithmetic::{GROUP, all_finite, finish, is_finite};
use super::buffers::{Buffers, Limits};
use super::error::SeriesError;
use super::layout::{Planned, in_file_order};
use super::scheme::Scheme;
use super::source::Source;
use super::verify::verify;
use super::watch::Watch;
use super::workers::share;
use crate::error::StoreError;

/// What is done about NaN and infinities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// They are an error that names file and tensor.
    #[default]
    Refuse,
    /// They are summed like all numbers.
    Allow,
}

/// Where averages go, piece by piece and from several threads.
pub(crate) trait Sink: Sync {
    /// Takes the bytes of a tensor from element `first` on.
    fn put(&self, piece: Piece, window: usize, bytes: &[u8]) -> Result<(), StoreError>;
}

/// Averages that nobody wants, such as when the time is measured.
pub(crate) struct Nowhere;

impl Sink for Nowhere {
    fn put(&self, _: Piece, _: usize, bytes: &[u8]) -> Result<(), StoreError> {
        std::hint::black_box(bytes);
        Ok(())
    }
}

/// Some elements of a tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) tensor: usize,
    pub(crate) first: usize,
    pub(crate) length: usize,
}

/// A pass: what is averaged, and how.
pub(crate) struct Pass<'a> {
    /// All members of the series.
    pub(crate) sources: &'a [&'a Source],
    /// The tensors of a result.
    pub(crate) planned: &'a [Planned],
    /// The members of each average, oldest first.
    pub(crate) windows: &'a [&'a [usize]],
    pub(crate) scheme: &'a Scheme,
    pub(crate) non_finite: NonFinite,
    pub(crate) limits: Limits,
    pub(crate) watch: Watch<'a>,
}

/// The buffers of a thread.
struct Scratch {
    members: Vec<u8>,
    sums: Vec<f64>,
    result: Vec<u8>,
    gathered: Vec<u8>,
}

impl Pass<'_> {
    /// Computes all averages.
    pub(crate) fn run(&self, sink: &dyn Sink) -> Result<(), SeriesError> {
        for window in self.windows {
            self.scheme.check(window.len())?;
        }
        let used = self.used();
        let members = used.iter().map(|member| self.sources[*member]);
        verify(&members.collect::<Vec<_>>(), self.limits.threads.get(), self.watch)?;
        let held = match self.windows {
            [_] => used.len().min(GROUP),
            _ => used.len(),
        };
        let buffers = self.buffers(held)?;
        let pieces = pieces(self.planned, buffers.piece);
        let scratch = || Scratch {
            members: vec![0; held * buffers.piece * self.widest()],
            sums: vec![0.0; buffers.piece],
            result: vec![0; buffers.piece * size_of::<f64>()],
            gathered: Vec::new(),
        };
        let read = AtomicU64::new(0);
        share(buffers.threads, pieces.len(), scratch, |scratch, number| {
            if (self.watch.cancelled)() {
                return Err(SeriesError::Interrupted);
            }
            let piece = pieces[number];
            let bytes = match (self.float(piece), self.windows) {
                (None, _) => self.take_newest(piece, scratch, sink)?,
                (Some(_), [window]) => self.stream(piece, window, scratch, sink)?,
                (Some(_), _) => self.slide(piece, &used, scratch, sink)?,
            };
            let before = read.fetch_add(bytes as u64, Ordering::Relaxed);
            (self.watch.progress)(before + bytes as u64);
            Ok(())
        })?;
        for member in used {
            self.sources[member].ensure_unchanged()?;
        }
        Ok(())
    }

    /// The bytes that a run reads.
    pub(crate) fn num_bytes(&self) -> u64 {
        let used = self.used().len();
        let of = |(number, planned): (usize, &Planned)| {
            let tensor = &self.sources[0].tensors()[number];
            let times = if planned.float.is_some() { used } else { self.windows.len() };
            (times * tensor.num_elements() * tensor.width()) as u64
        };
        self.planned.iter().enumerate().map(of).sum()
    }

    /// The members of any window, in order.
    fn used(&self) -> Vec<usize> {
        let mut used: Vec<usize> = self.windows.iter().flat_map(|w| w.iter().copied()).collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    fn buffers(&self, held: usize) -> Result<Buffers, SeriesError> {
        let tensors = || self.sources.iter().flat_map(|source| source.tensors());
        let gathered = tensors().map(|tensor| tensor.num_gathered_bytes()).max();
        Buffers::plan(self.limits, held, self.widest(), gathered.unwrap_or(0))
    }

    /// The bytes of the widest element.
    fn widest(&self) -> usize {
        let widths = self.sources[0].tensors().iter().map(|tensor| tensor.width());
        widths.max().unwrap_or(1)
    }

    /// The type that is summed.
    fn float(&self, piece: Piece) -> Option<ValueType> {
        self.sources[0].tensors()[piece.tensor].float()
    }

    fn num_piece_bytes(&self, piece: Piece) -> usize {
        piece.length * self.sources[0].tensors()[piece.tensor].width()
    }

    /// Counters are those of the newest member.
    fn take_newest(
        &self,
        piece: Piece,
        scratch: &mut Scratch,
        sink: &dyn Sink,
    ) -> Result<usize, SeriesError> {
        let length = self.num_piece_bytes(piece);
        for (number, window) in self.windows.iter().enumerate() {
            let Some(newest) = window.last() else {
                continue;
            };
            let bytes = &mut scratch.members[..length];
            self.read(*newest, piece, bytes, &mut scratch.gathered)?;
            sink.put(piece, number, bytes)?;
        }
        Ok(self.windows.len() * length)
    }

    /// One average: some members are read and summed, then the next ones.
    fn stream(
        &self,
        piece: Piece,
        window: &[usize],
        scratch: &mut Scratch,
        sink: &dyn Sink,
    ) -> Result<usize, SeriesError> {
        let (length, mut before) = (self.num_piece_bytes(piece), 0);
        let value_type = self.float(piece).unwrap_or(ValueType::I64);
        let Scratch { members, sums, gathered, .. } = scratch;
        for group in window.chunks(GROUP) {
            for (member, bytes) in group.iter().zip(members.chunks_exact_mut(length)) {
                self.read(*member, piece, bytes, gathered)?;
            }
            let pieces: Vec<&[u8]> = members.chunks_exact(length).take(group.len()).collect();
            self.scheme.take(value_type, &mut sums[..piece.length], &pieces, before);
            before += group.len();
        }
        self.hand_on(piece, 0, scratch, sink)?;
        Ok(window.len() * length)
    }

    /// Several averages: all members are read once. A window that begins with the members of the
    /// one before goes on with its sums, which are the same sums; others are summed afresh.
    fn slide(
        &self,
        piece: Piece,
        used: &[usize],
        scratch: &mut Scratch,
        sink: &dyn Sink,
    ) -> Result<usize, SeriesError> {
        let length = self.num_piece_bytes(piece);
        let value_type = self.float(piece).unwrap_or(ValueType::I64);
        let Scratch { members, gathered, .. } = scratch;
        for (member, bytes) in used.iter().zip(members.chunks_exact_mut(length)) {
            self.read(*member, piece, bytes, gathered)?;
        }
        let mut summed: &[usize] = &[];
        for (number, window) in self.windows.iter().enumerate() {
            let before = if window.starts_with(summed) { summed.len() } else { 0 };
            let slot = |member: &usize| {
                let slot = used.binary_search(member).unwrap_or(0);
                &scratch.members[slot * length..(slot + 1) * length]
            };
            let pieces: Vec<&[u8]> = window[before..].iter().map(slot).collect();
            self.scheme.take(value_type, &mut scratch.sums[..piece.length], &pieces, before);
            summed = window;
            self.hand_on(piece, number, scratch, sink)?;
        }
        Ok(used.len() * length)
    }

    /// Divides, rounds, and hands the piece to whoever wants it.
    fn hand_on(
        &self,
        piece: Piece,
        window: usize,
        scratch: &mut Scratch,
        sink: &dyn Sink,
    ) -> Result<(), SeriesError> {
        let planned = &self.planned[piece.tensor];
        let sums = &scratch.sums[..piece.length];
        let members = self.windows[window];
        let is_summed = all_finite(sums);
        if self.non_finite == NonFinite::Refuse && !is_summed {
            self.ensure_finite(piece, members)?;
        }
        let result = &mut scratch.result[..piece.length * planned.width()];
        let value_type = planned.float.unwrap_or(ValueType::I64);
        finish(value_type, sums, self.scheme.divisor(members.len()), result);
        // A mean lies between its members. Sums of the largest numbers, weights below zero and
        // narrow types need a look.
        let is_mean = matches!(self.scheme, Scheme::Mean) && self.float(piece) == planned.float;
        let may_not_be = !(is_summed && is_mean) && self.non_finite == NonFinite::Refuse;
        if may_not_be && !is_finite(value_type, result) {
            let tensor = self.sources[0].tensors()[piece.tensor].name.clone();
            return Err(SeriesError::TooLarge { tensor, value_type });
        }
        Ok(sink.put(piece, window, result)?)
    }

    /// Names the member that made a sum infinite; finite numbers may do so together.
    fn ensure_finite(&self, piece: Piece, members: &[usize]) -> Result<(), SeriesError> {
        let value_type = self.float(piece).unwrap_or(ValueType::I64);
        let mut bytes = vec![0; self.num_piece_bytes(piece)];
        for member in members {
            self.read(*member, piece, &mut bytes, &mut Vec::new())?;
            if !is_finite(value_type, &bytes) {
                let source = self.sources[*member];
                let tensor = source.tensors()[piece.tensor].name.clone();
                return Err(SeriesError::NonFinite { path: source.path().to_owned(), tensor });
            }
        }
        Ok(())
    }

    fn read(
        &self,
        member: usize,
        piece: Piece,
        into: &mut [u8],
        gathered: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        self.sources[member].read(piece.tensor, piece.first, into, gathered)
    }
}

/// All elements of all tensors in pieces, in the order of a file.
pub(crate) fn pieces(planned: &[Planned], length: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for tensor in in_file_order(planned) {
        let elements: usize = planned[tensor].shape.iter().product();
        for first in (0..elements).step_by(length) {
            pieces.push(Piece { tensor, first, length: length.min(elements - first) });
        }
    }
    pieces
}
