//! What ranks say to each other before they train.

use std::thread;
use std::time::Instant;

use hwa_core::{Statistics, Weights};

use super::blocks::Blocks;
use super::contents::Contents;
use super::courier::{LONGEST, Ranks};
use super::error::RanksError;
use super::mean::mean_over;
use super::notice::{Notice, Opening};
use super::parcel::Parcel;
use super::pause::pause_after;
use crate::error::TrainError;
use crate::state::{ModelState, Occasion};

impl Ranks<'_> {
    /// Before training: gives rank 0 what every rank says, and the others nothing.
    pub fn gather(&mut self, word: String) -> Result<Vec<String>, RanksError> {
        if self.rank() != 0 {
            self.tell(0, &Notice::Word(word))?;
            return Ok(Vec::new());
        }
        let mut words: Vec<Option<String>> = vec![None; self.size()];
        words[0] = Some(word);
        while words.iter().any(Option::is_none) {
            let (from, notice) = self.await_notice()?;
            match notice {
                Notice::Word(word) if words[from].is_none() => words[from] = Some(word),
                other => return Err(self.unexpected(from, "a word", &other)),
            }
        }
        Ok(words.into_iter().flatten().collect())
    }

    /// Before training: gives every rank what rank 0 says.
    pub fn broadcast(&mut self, word: String) -> Result<String, RanksError> {
        if self.rank() == 0 {
            self.tell_all(&Notice::Word(word.clone()))?;
            return Ok(word);
        }
        match self.await_notice()? {
            (_, Notice::Word(word)) => Ok(word),
            (from, other) => Err(self.unexpected(from, "a word", &other)),
        }
    }

    /// Before training: gives every rank the tensors of rank 0, if it has some.
    pub fn hand_out(&mut self, tensors: Option<&Weights>) -> Result<Option<Weights>, RanksError> {
        if self.rank() == 0 {
            let tensors = tensors.into_iter().cloned().collect();
            let parcel = Parcel { about: String::new(), tensors };
            let header = parcel.header().len();
            for rank in self.wire.others() {
                self.tell(rank, &Notice::Parcel { header })?;
                parcel.send(&mut self.wire, rank)?;
            }
            return Ok(parcel.tensors.into_iter().next());
        }
        match self.await_notice()? {
            (_, Notice::Parcel { header }) => {
                let parcel = Parcel::receive(&mut self.wire, 0, header)?;
                Ok(parcel.tensors.into_iter().next())
            }
            (from, other) => Err(self.unexpected(from, "tensors", &other)),
        }
    }

    /// The mean of one model of every rank. All ranks call this at once.
    pub fn mean(&mut self, mine: &Weights) -> Result<Weights, RanksError> {
        let models = Blocks::new(self.size(), self.size());
        mean_over(&mut self.wire, models, &[mine], Statistics::Omit)
    }

    /// Bytes sent and received so far, notices not counted.
    pub fn bytes(&self) -> u64 {
        self.wire.bytes()
    }

    /// Rank 0 begins. Each rank gets the states of its models, if they go on from some.
    pub(crate) fn open(
        &mut self,
        opening: &Opening,
        state: impl Fn(usize) -> Result<Option<ModelState>, TrainError> + Sync,
    ) -> Result<(), TrainError> {
        self.tell_all(&Notice::Opening(opening.clone()))?;
        let blocks = Blocks::new(opening.models.len(), self.size());
        for rank in self.wire.others() {
            for model in &opening.models[blocks.of(rank)] {
                // The disk may take long.
                let Some(part) = self.busy(|| state(*model))?? else { continue };
                let parcel = Contents::pack_state(Occasion::Step(part.step), *model, part);
                self.tell(rank, &Notice::Parcel { header: parcel.header().len() })?;
                parcel.send(&mut self.wire, rank)?;
            }
        }
        Ok(())
    }

    /// How rank 0 begins; nothing, if there is nothing left to do.
    pub(crate) fn await_opening(
        &mut self,
    ) -> Result<Option<(Opening, Vec<ModelState>)>, TrainError> {
        let opening = match self.await_notice()? {
            (_, Notice::Opening(opening)) => opening,
            (_, Notice::Over { .. }) => return Ok(None),
            (from, other) => return Err(self.unexpected(from, "a beginning", &other).into()),
        };
        let mut states = Vec::new();
        let mine = Blocks::new(opening.models.len(), self.size()).of(self.rank());
        for _ in mine.filter(|_| opening.resumed) {
            let header = match self.await_notice()? {
                (_, Notice::Parcel { header }) => header,
                (from, other) => return Err(self.unexpected(from, "a state", &other).into()),
            };
            let parcel = Parcel::receive(&mut self.wire, 0, header)?;
            let state = Contents::state_in(0, parcel);
            states.push(state.map_err(|error| self.wire.named(error))?);
        }
        Ok(Some((opening, states)))
    }

    /// Before training: the next notice. Whoever takes long over something shows life meanwhile,
    /// so that nobody is given more time than later.
    fn await_notice(&mut self) -> Result<(usize, Notice), RanksError> {
        let began = Instant::now();
        loop {
            match self.next_notice()? {
                Some((_, Notice::Beat)) => {}
                Some((_, Notice::Interrupt)) => return Err(RanksError::Interrupted),
                Some(notice) => return Ok(notice),
                None => {
                    self.give_way()?;
                    self.show_life()?;
                    thread::sleep(pause_after(began, LONGEST));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::rehearsal::rehearsal;
    use super::*;
    use crate::replica::State;
    use crate::state::CycleLosses;

    #[test]
    fn rank_0_is_there_while_it_reads_states() {
        let mut ends = rehearsal(2);
        let (mut second, mut first) = (ends.remove(1), ends.remove(0));
        let deadline = Duration::from_millis(500);
        let opening = Opening { models: vec![0, 1], resumed: true };
        let read = |_| {
            thread::sleep(3 * deadline);
            let (weights, momentum, method) = (Weights::new(), Weights::new(), Weights::new());
            let (state, losses) = (State { weights, momentum }, CycleLosses::default());
            Ok(Some(ModelState { step: 5, losses, state, method }))
        };
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                let opened = Ranks::new(&mut second, deadline).await_opening();
                opened.map(|opened| opened.unwrap().1[0].step)
            });
            Ranks::new(&mut first, deadline).open(&opening, read).unwrap();
            assert_eq!(other.join().unwrap().unwrap(), 5);
        });
    }
}
