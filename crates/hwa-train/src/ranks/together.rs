//! What the couriers of all ranks do at once, for models that have met.

use std::ops::Range;
use std::sync::Arc;

use hwa_core::{OuterWeights, Statistics, Weights, WeightsError};

use super::blocks::Blocks;
use super::courier::Ranks;
use super::error::RanksError;
use super::hall::{Answer, Ask};
use super::layout::{Assembly, Layout};
use super::mean::mean_over;
use super::notice::Word;
use super::wire::{BUFFER, ELEMENT};
use crate::collective::{Contribution, Synchronized, Verdict, distance};
use crate::event::{ModelReport, ModelTime};

impl Ask {
    /// What it says apart from its tensors.
    pub(super) fn word(&self) -> Word {
        match self {
            Self::Agree(verdict) => Word { stop: *verdict == Verdict::Stop, models: false },
            Self::Synchronize(mine) => Word { stop: false, models: mine.models_wanted },
            Self::Average(_) | Self::Shift(_) => Word::default(),
        }
    }

    /// Equal for tensors of the same names, shapes, types and roles.
    pub(super) fn digest(&self) -> u64 {
        match self {
            Self::Synchronize(mine) => {
                let model = mine.model.as_ref().map_or(0, |model| Layout::of(model).digest());
                Layout::of(&mine.inner).digest() ^ model.rotate_left(1)
            }
            Self::Average(tensors) | Self::Shift(tensors) => Layout::of(tensors).digest(),
            Self::Agree(_) => 0,
        }
    }

    /// Why its tensors are not those of another model, if they are not.
    pub(super) fn ensure_like(&self, other: &Self) -> Result<(), WeightsError> {
        match (self, other) {
            (Self::Synchronize(mine), Self::Synchronize(theirs)) => {
                theirs.inner.ensure_same_layout(&mine.inner)?;
                match (&theirs.model, &mine.model) {
                    (Some(theirs), Some(mine)) => theirs.ensure_same_layout(mine),
                    _ => Ok(()),
                }
            }
            (
                Self::Average(mine) | Self::Shift(mine),
                Self::Average(theirs) | Self::Shift(theirs),
            ) => theirs.ensure_same_layout(mine),
            // They are not there for the same, which is found out by their kinds.
            _ => Ok(()),
        }
    }
}

impl Ranks<'_> {
    /// Does what the models of all ranks ask for.
    pub(super) fn done_together(
        &mut self,
        models: Blocks,
        asks: Vec<Ask>,
        word: Word,
    ) -> Result<Answer, RanksError> {
        // All ask for the same: that was made sure of when they met.
        let (mut contributions, mut averaged, mut shifted) = (Vec::new(), Vec::new(), Vec::new());
        for ask in asks {
            match ask {
                Ask::Synchronize(mine) => contributions.push(*mine),
                Ask::Average(mine) => averaged.push(mine),
                Ask::Shift(mine) => shifted.push(mine),
                Ask::Agree(_) => {}
            }
        }
        if !contributions.is_empty() {
            let synchronized = self.synchronize(models, contributions, word)?;
            return Ok(Answer::Synchronized(Arc::new(synchronized)));
        }
        if !averaged.is_empty() {
            let members: Vec<&Weights> = averaged.iter().collect();
            let mean = mean_over(&mut self.wire, models, &members, Statistics::Average)?;
            return Ok(Answer::Averaged(Arc::new(mean)));
        }
        if !shifted.is_empty() {
            return Ok(Answer::Shifted(self.shift(shifted)?));
        }
        Ok(Answer::Agreed(if word.stop { Verdict::Stop } else { Verdict::Continue }))
    }

    fn synchronize(
        &mut self,
        models: Blocks,
        mut contributions: Vec<Contribution>,
        word: Word,
    ) -> Result<Synchronized, RanksError> {
        let inner: Vec<&Weights> = contributions.iter().map(|mine| &*mine.inner).collect();
        let outer = mean_over(&mut self.wire, models, &inner, Statistics::Omit)?;
        let outer = OuterWeights::from_checkpoint(outer);
        for mine in &mut contributions {
            mine.report.distance = distance(&mine.inner, &outer);
        }
        let reports: Vec<ModelReport> = contributions.iter().map(|m| m.report.clone()).collect();
        let reports = self.share_reports(models, &reports)?;
        let complete = contributions.into_iter().filter_map(|mine| mine.model.map(Arc::new));
        let models = match word.models {
            true => self.collect(models, complete.collect())?,
            false => Vec::new(),
        };
        Ok(Synchronized { outer, reports, models, lost: Vec::new() })
    }

    /// The reports of all models, in their order.
    fn share_reports(
        &mut self,
        models: Blocks,
        mine: &[ModelReport],
    ) -> Result<Vec<ModelReport>, RanksError> {
        let me = self.rank();
        let encoded: Vec<u8> = mine.iter().flat_map(to_bytes).collect();
        let room = |rank: usize| match rank == me {
            true => Vec::new(),
            false => vec![0; models.of(rank).len() * REPORT],
        };
        let mut rooms: Vec<Vec<u8>> = (0..self.size()).map(room).collect();
        let outgoing: Vec<(usize, &[u8])> =
            self.wire.others().map(|rank| (rank, encoded.as_slice())).collect();
        let rooms_by_rank = rooms.iter_mut().enumerate();
        let mut incoming: Vec<(usize, &mut [u8])> =
            rooms_by_rank.map(|(rank, room)| (rank, room.as_mut_slice())).collect();
        self.wire.exchange(&outgoing, &mut incoming)?;
        rooms[me] = encoded;
        Ok(rooms.iter().flat_map(|bytes| bytes.as_chunks::<REPORT>().0).map(from_bytes).collect())
    }

    /// The complete models of all ranks, at rank 0; nothing elsewhere. Piece by piece, from all
    /// ranks at once: none waits for the models of another.
    fn collect(
        &mut self,
        models: Blocks,
        mine: Vec<Arc<Weights>>,
    ) -> Result<Vec<Arc<Weights>>, RanksError> {
        let Some(layout) = mine.first().map(|model| Layout::of(model)) else {
            return Ok(Vec::new());
        };
        let most = models.of(0).len();
        if self.rank() != 0 {
            for model in &mine {
                for piece in self.collected_pieces(&layout) {
                    let mut bytes = Vec::with_capacity(layout.num_bytes(&piece));
                    layout.encode(model, &piece, &mut bytes)?;
                    self.wire.exchange(&[(0, &bytes)], &mut [])?;
                }
            }
            return Ok(Vec::new());
        }
        let mut by_rank: Vec<Vec<Arc<Weights>>> = vec![Vec::new(); self.size()];
        by_rank[0] = mine;
        for number in 0..most {
            let senders: Vec<usize> =
                self.wire.others().filter(|rank| number < models.of(*rank).len()).collect();
            let mut assemblies: Vec<Assembly> =
                senders.iter().map(|_| Assembly::new(layout.clone())).collect();
            for piece in self.collected_pieces(&layout) {
                let room = || vec![0; layout.num_bytes(&piece)];
                let mut rooms: Vec<Vec<u8>> = senders.iter().map(|_| room()).collect();
                let incoming = senders.iter().zip(&mut rooms);
                let mut incoming: Vec<(usize, &mut [u8])> =
                    incoming.map(|(rank, room)| (*rank, room.as_mut_slice())).collect();
                self.wire.exchange(&[], &mut incoming)?;
                for (assembly, bytes) in assemblies.iter_mut().zip(&rooms) {
                    assembly.push(piece.len(), bytes);
                }
            }
            for (rank, assembly) in senders.into_iter().zip(assemblies) {
                by_rank[rank].push(Arc::new(assembly.finish()?));
            }
        }
        Ok(by_rank.into_iter().flatten().collect())
    }

    /// A model in pieces of which rank 0 has room for one from every rank.
    fn collected_pieces(&self, layout: &Layout) -> Vec<Range<usize>> {
        let size = (BUFFER / ELEMENT / self.size()).max(1);
        pieces(layout.num_elements(), size)
    }

    /// What each model here gets from the one before it. Only the last of a rank has to be
    /// sent: to the first of the next one.
    fn shift(&mut self, mine: Vec<Weights>) -> Result<Vec<Arc<Weights>>, RanksError> {
        let mut from_before: Vec<Arc<Weights>> = mine.into_iter().map(Arc::new).collect();
        let Some(last) = from_before.last().cloned() else { return Ok(from_before) };
        from_before.rotate_right(1);
        let (me, size) = (self.rank(), self.size());
        if size == 1 {
            return Ok(from_before);
        }
        let (next, before) = ((me + 1) % size, (me + size - 1) % size);
        let mut assembly = Assembly::new(Layout::of(&last));
        for piece in pieces(assembly.layout().num_elements(), BUFFER / ELEMENT / 2) {
            let mut bytes = Vec::new();
            assembly.layout().encode(&last, &piece, &mut bytes)?;
            let mut room = vec![0; bytes.len()];
            self.wire.exchange(&[(next, &bytes)], &mut [(before, &mut room)])?;
            assembly.push(piece.len(), &room);
        }
        from_before[0] = Arc::new(assembly.finish()?);
        Ok(from_before)
    }
}

fn pieces(elements: usize, size: usize) -> Vec<Range<usize>> {
    (0..elements).step_by(size).map(|start| start..(start + size).min(elements)).collect()
}

/// Bytes of a report.
const REPORT: usize = 7 * 8;

fn to_bytes(report: &ModelReport) -> [u8; REPORT] {
    let ModelReport { loss, first_loss, last_loss, distance, time } = report;
    let ModelTime { steps, data, images_per_second } = time;
    let mut bytes = [0; REPORT];
    let numbers = [loss, first_loss, last_loss, distance, steps, data, images_per_second];
    for (eight, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
        *eight = number.to_le_bytes();
    }
    bytes
}

fn from_bytes(bytes: &[u8; REPORT]) -> ModelReport {
    let number =
        |at: usize| bytes.as_chunks::<8>().0.get(at).map_or(0.0, |b| f64::from_le_bytes(*b));
    let time = ModelTime { steps: number(4), data: number(5), images_per_second: number(6) };
    let (loss, first_loss, last_loss) = (number(0), number(1), number(2));
    ModelReport { loss, first_loss, last_loss, distance: number(3), time }
}
