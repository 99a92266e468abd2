//! The mean over the models of all ranks, with the bits of [`hwa_core::mean`].
//!
//! The elements of a model are in a row, and the row is cut into blocks. Of every block each
//! rank owns a slice: it receives that slice of every model, takes the mean of them in the
//! order of the models, and sends it to the others. While the slices of one block are on their
//! way, so are the means of the block before.

use std::ops::Range;

use hwa_core::{Statistics, Values, Weights, WeightsError, mean, mean_of_values};

use super::blocks::Blocks;
use super::error::RanksError;
use super::layout::{Assembly, Layout};
use super::wire::{BUFFER, ELEMENT, Wire};

/// The mean over the models of all ranks, of which `members` are this rank's, in order.
pub(crate) fn mean_over(
    wire: &mut Wire<'_>,
    models: Blocks,
    members: &[&Weights],
    statistics: Statistics,
) -> Result<Weights, RanksError> {
    let (first, rest) = members.split_first().ok_or(WeightsError::Empty)?;
    if wire.size() == 1 {
        return Ok(mean(members, statistics)?);
    }
    for other in rest {
        first.ensure_same_layout(other)?;
    }
    let layout = Layout::of_mean(first, statistics);
    let slices = Slices::new(layout.num_elements(), wire.size(), slice_for(models, wire.size()));
    let mut exchange = Exchange { models, members, slices, assembly: Assembly::new(layout) };
    let mut finished = Vec::new();
    for block in 0..=slices.num_blocks() {
        finished = exchange.step(wire, block, finished)?;
    }
    Ok(exchange.assembly.finish()?)
}

/// Elements of a slice: so that what a rank sends, receives, widens and collects of one block
/// is no more than [`BUFFER`].
fn slice_for(models: Blocks, ranks: usize) -> usize {
    (BUFFER / ELEMENT / (3 * (models.total() + ranks))).max(1)
}

/// A row of elements, cut into blocks, and each block into a slice for every rank.
#[derive(Debug, Clone, Copy)]
struct Slices {
    elements: usize,
    ranks: usize,
    block: usize,
}

impl Slices {
    fn new(elements: usize, ranks: usize, longest: usize) -> Self {
        Self { elements, ranks, block: longest.saturating_mul(ranks) }
    }

    fn num_blocks(&self) -> usize {
        self.elements.div_ceil(self.block)
    }

    /// What a rank owns of a block; nothing, of a block that is not there.
    fn of(&self, block: usize, rank: usize) -> Range<usize> {
        let start = (block * self.block).min(self.elements);
        let length = self.block.min(self.elements - start);
        let slice = Blocks::new(length, self.ranks).of(rank);
        start + slice.start..start + slice.end
    }
}

struct Exchange<'a> {
    models: Blocks,
    members: &'a [&'a Weights],
    slices: Slices,
    assembly: Assembly,
}

impl Exchange<'_> {
    /// Sends slices of a block and means of the block before, which are `finished` here; gives
    /// this rank's mean of the block.
    fn step(
        &mut self,
        wire: &mut Wire<'_>,
        block: usize,
        finished: Vec<u8>,
    ) -> Result<Vec<u8>, RanksError> {
        let (me, ranks) = (wire.rank(), wire.size());
        let layout = self.assembly.layout();
        let mine = self.slices.of(block, me);
        let mut parts = Vec::with_capacity(ranks);
        for rank in 0..ranks {
            parts.push(self.encoded(&self.slices.of(block, rank))?);
        }
        let room = |rank: usize| match rank == me {
            true => Vec::new(),
            false => vec![0; self.models.of(rank).len() * layout.num_bytes(&mine)],
        };
        let mut slices: Vec<Vec<u8>> = (0..ranks).map(room).collect();
        let before = |rank| match block {
            0 => 0..0,
            block => self.slices.of(block - 1, rank),
        };
        let room = |rank: usize| match rank == me {
            true => Vec::new(),
            false => vec![0; layout.num_bytes(&before(rank))],
        };
        let mut means: Vec<Vec<u8>> = (0..ranks).map(room).collect();

        let outgoing: Vec<(usize, &[u8])> = wire
            .others()
            .map(|rank| (rank, parts[rank].as_slice()))
            .chain(wire.others().map(|rank| (rank, finished.as_slice())))
            .collect();
        let incoming = slices.iter_mut().enumerate().chain(means.iter_mut().enumerate());
        let mut incoming: Vec<(usize, &mut [u8])> =
            incoming.map(|(rank, room)| (rank, room.as_mut_slice())).collect();
        wire.exchange(&outgoing, &mut incoming)?;

        means[me] = finished;
        for (rank, bytes) in means.iter().enumerate() {
            let elements = before(rank).len();
            self.assembly.push(elements, bytes);
        }
        slices[me] = std::mem::take(&mut parts[me]);
        let by_rank: Vec<&[u8]> = slices.iter().map(Vec::as_slice).collect();
        Ok(combined(self.assembly.layout(), &mine, self.models, &by_rank)?)
    }

    /// These positions of this rank's models, one model after the other.
    fn encoded(&self, positions: &Range<usize>) -> Result<Vec<u8>, WeightsError> {
        let layout = self.assembly.layout();
        let mut bytes = Vec::with_capacity(self.members.len() * layout.num_bytes(positions));
        for member in self.members {
            layout.encode(member, positions, &mut bytes)?;
        }
        Ok(bytes)
    }
}

/// The mean of a slice, given the slices of all models: rank after rank, and so in the order of
/// the models.
fn combined(
    layout: &Layout,
    slice: &Range<usize>,
    models: Blocks,
    by_rank: &[&[u8]],
) -> Result<Vec<u8>, WeightsError> {
    let size = layout.num_bytes(slice);
    if size == 0 {
        return Ok(Vec::new());
    }
    let of_models: Vec<&[u8]> = by_rank.iter().flat_map(|bytes| bytes.chunks(size)).collect();
    debug_assert_eq!(of_models.len(), models.total());
    let (mut result, mut at) = (Vec::with_capacity(size), 0);
    for piece in layout.pieces(slice) {
        let end = at + piece.num_bytes();
        let values: Vec<Values> =
            of_models.iter().map(|model| piece.decode(&model[at..end])).collect();
        let average = mean_of_values(&values.iter().collect::<Vec<_>>())?;
        average.write_le_bytes(0..average.len(), &mut result);
        at = end;
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use hwa_core::{Role, Tensor};
    use proptest::prelude::*;

    use super::super::layout::tests::sample;
    use super::super::rehearsal::{Rehearsal, rehearsal};
    use super::*;

    /// What every rank gets, if `models` are shared out among as many as there are.
    fn over(ranks: Vec<Rehearsal>, models: &[Weights], statistics: Statistics) -> Vec<Weights> {
        let blocks = Blocks::new(models.len(), ranks.len());
        thread::scope(|scope| {
            let work = |(rank, mut end): (usize, Rehearsal)| {
                let mine: Vec<&Weights> = models[blocks.of(rank)].iter().collect();
                scope.spawn(move || {
                    let mut wire = Wire::new(&mut end, Duration::MAX);
                    let mean = mean_over(&mut wire, blocks, &mine, statistics).unwrap();
                    // No rank leaves before all are done: slow ones show that they are there.
                    (mean, end)
                })
            };
            let threads: Vec<_> = ranks.into_iter().enumerate().map(work).collect();
            let ends: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            ends.into_iter().map(|(mean, _)| mean).collect()
        })
    }

    fn bits(weights: &Weights) -> Vec<u8> {
        let mut bytes = Vec::new();
        let layout = Layout::of(weights);
        layout.encode(weights, &(0..layout.num_elements()), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_row_is_cut_into_blocks_and_blocks_into_slices() {
        // 23 elements, 2 ranks, slices of at most 5: blocks of 10, 10 and 3.
        let slices = Slices::new(23, 2, 5);
        assert_eq!(slices.num_blocks(), 3);
        let all: Vec<_> =
            (0..4).flat_map(|block| [slices.of(block, 0), slices.of(block, 1)]).collect();
        assert_eq!(all[..6], [0..5, 5..10, 10..15, 15..20, 20..22, 22..23]);
        assert!(all[6].is_empty() && all[7].is_empty());
        assert_eq!(Slices::new(0, 3, 5).num_blocks(), 0);
    }

    #[test]
    fn slices_of_a_model_of_any_size_fit_into_the_buffer() {
        for (models, ranks) in [(2, 2), (8, 4), (512, 512), (1000, 8)] {
            let slice = slice_for(Blocks::new(models, ranks), ranks) * ELEMENT;
            let here = models.div_ceil(ranks);
            // Sent, received, widened, and the means of the block before.
            assert!(slice * (here * ranks + 2 * models + ranks) <= BUFFER);
            assert!(slice * here <= i32::MAX as usize);
        }
        // 5 * 10^9 elements: more than an int can count.
        let slices = Slices::new(5_000_000_000, 4, 1 << 20);
        let last = slices.num_blocks() - 1;
        assert_eq!(slices.of(last, 3).end, 5_000_000_000);
        assert!(slices.of(last, 0).start > i32::MAX as usize);
    }

    proptest! {
        #[test]
        fn the_mean_over_ranks_is_the_mean_bit_for_bit(
            models in 1usize..7, ranks in 1usize..7, statistics in any::<bool>(),
            values in prop::collection::vec(any::<f32>(), 7 * 11)
        ) {
            let ranks = ranks.min(models);
            let statistics = if statistics { Statistics::Average } else { Statistics::Omit };
            let model = |number: usize| {
                let mut weights = sample(number as u32);
                let mine = values[number * 11..][..11].to_vec();
                let tensor = Tensor::new(Role::Parameter, vec![11], Values::F32(mine)).unwrap();
                weights.insert("x", tensor).unwrap();
                weights
            };
            let all: Vec<Weights> = (0..models).map(model).collect();
            let expected = mean(&all.iter().collect::<Vec<_>>(), statistics).unwrap();
            for found in over(rehearsal(ranks), &all, statistics) {
                prop_assert_eq!(bits(&found), bits(&expected));
                prop_assert!(found.ensure_same_layout(&expected).is_ok());
            }
        }
    }

    #[test]
    fn weights_of_many_blocks_are_averaged_as_well() {
        // 3 blocks and a bit for two models on two ranks.
        let block = 2 * slice_for(Blocks::new(2, 2), 2);
        let weights = |factor: f32| {
            let values = (0..3 * block + 17).map(|i| factor * (i % 1013) as f32).collect();
            let mut weights = Weights::new();
            weights.insert("w", Tensor::parameter(vec![3 * block + 17], values).unwrap()).unwrap();
            weights
        };
        let all = [weights(0.1), weights(0.7)];
        let expected = mean(&[&all[0], &all[1]], Statistics::Omit).unwrap();
        for found in over(rehearsal(2), &all, Statistics::Omit) {
            assert!(found == expected);
        }
    }
}
