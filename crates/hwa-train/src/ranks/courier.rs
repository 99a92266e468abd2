//! The main thread of a rank: it alone reaches the other ranks.
//!
//! It looks for notices, for models that have met and for parcels, and sleeps in between. Rank
//! 0 decides: when the models of all ranks have come it says go, and after an interrupt it
//! never says so again, so that all models leave in the same cycle. Bytes only move when both
//! sides have agreed on it; whoever waits for bytes does not wait for a model.

use std::collections::{BTreeMap, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use super::blocks::Blocks;
use super::clerk::Clerk;
use super::error::RanksError;
use super::hall::{Ask, Hall};
use super::images::Images;
use super::notice::{Kind, Notice, Ready, Word};
use super::parcel::Parcel;
use super::pause::pause_after;
use super::terms::Terms;
use super::transport::Transport;
use super::wire::Wire;
use crate::collective::Interrupt;
use crate::error::TrainError;
use crate::event::Traffic;
use crate::run::Outcome;

/// How often a courier looks for notices while the models here are at work.
pub(super) const PATROL: Duration = Duration::from_millis(10);

/// The longest sleep of a courier between two looks for something that is to come at once.
pub(super) const LONGEST: Duration = Duration::from_millis(5);

/// The ranks of a run, as the main thread of one sees them.
pub struct Ranks<'t> {
    pub(super) wire: Wire<'t>,
    /// Notices that came while nobody waited for them.
    pub(super) unheeded: VecDeque<(usize, Notice)>,
    /// When each rank was last heard of.
    pub(super) heard: Vec<Instant>,
    pub(super) looked: Instant,
    /// Whether rank 0 knows of an interrupt here; at rank 0, whether all know.
    pub(super) interrupted: bool,
    /// Who may interrupt before training.
    pub(super) interrupt: Interrupt,
    pub(super) images: Option<Box<dyn Images>>,
    /// How many were left out here when the others were last told of them.
    pub(super) told_left_out: usize,
    /// Images that were left out, as far as this rank has heard, and why.
    pub(super) left_out: BTreeMap<String, String>,
}

impl<'t> Ranks<'t> {
    /// The ranks that a transport reaches. After `deadline` without a sign of life of one of
    /// them the run is given up.
    pub fn new(transport: &'t mut dyn Transport, deadline: Duration) -> Self {
        let (wire, now) = (Wire::new(transport, deadline), Instant::now());
        let heard = vec![now; wire.size()];
        Self {
            wire,
            unheeded: VecDeque::new(),
            heard,
            looked: now,
            interrupted: false,
            interrupt: Interrupt::new(),
            images: None,
            told_left_out: 0,
            left_out: BTreeMap::new(),
        }
    }

    /// Goes by these from now on.
    pub fn keep_to(&mut self, terms: Terms) {
        self.wire.keep_to(terms);
    }

    /// Gives way to this before training. When training has begun it is that of the run or of the
    /// assistant that counts.
    pub fn interrupted_by(&mut self, interrupt: Interrupt) {
        self.interrupt = interrupt;
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.wire.rank()
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.wire.size()
    }

    /// A rank as messages name it.
    pub fn who(&self, rank: usize) -> String {
        self.wire.who(rank)
    }

    /// An error with the host of the rank that it names.
    pub(crate) fn named(&self, error: TrainError) -> TrainError {
        match error {
            TrainError::Ranks(error) => self.wire.named(error).into(),
            other => other,
        }
    }

    /// Serves the models here until they have ended; at rank 0, until all have.
    pub(crate) fn serve(&mut self, service: &Service<'_>) -> Result<(), RanksError> {
        let mut duty = Duty::new(self.size());
        self.heard.fill(Instant::now());
        self.looked = Instant::now();
        loop {
            while let Some((from, notice)) = self.next_notice()? {
                duty.idle = if notice == Notice::Beat { duty.idle } else { Instant::now() };
                self.heed(from, notice, service, &mut duty)?;
            }
            if let Some(reason) = service.hall.failure() {
                self.let_leave(service, &reason);
                return Ok(());
            }
            self.miss_steps(service, &mut duty.looked)?;
            self.pass_on_interrupt(service)?;
            let met = self.meet(service, &mut duty)?;
            let carried = self.carry(service, &mut duty)?;
            self.show_life()?;
            if self.all_ended(service, &mut duty)? {
                return Ok(());
            }
            if met || carried {
                duty.idle = Instant::now();
            } else {
                service.hall.wait(duty.pause(), duty.announced.is_some());
            }
        }
    }

    /// Rank 0: the run is over, and this is its outcome. What takes long comes before: the others
    /// do not miss this rank any more.
    pub fn end(&mut self, outcome: &Outcome) -> Result<(), RanksError> {
        let interrupted = matches!(outcome, Outcome::Interrupted { .. });
        self.tell_all(&Notice::Over { interrupted })
    }

    /// Waits until rank 0 says that the run is over, and whether it was interrupted.
    pub(crate) fn await_end(&mut self, interrupt: &Interrupt) -> Result<bool, RanksError> {
        loop {
            while let Some((from, notice)) = self.next_notice()? {
                match notice {
                    Notice::Over { interrupted } => return Ok(interrupted),
                    Notice::Beat | Notice::Leave => {}
                    Notice::LeftOut(images) => self.compare_left_out(from, images)?,
                    other => return Err(self.unexpected(from, "the end", &other)),
                }
            }
            if interrupt.is_requested() && !self.interrupted {
                self.interrupted = true;
                self.tell(0, &Notice::Interrupt)?;
            }
            self.show_life()?;
            thread::sleep(PATROL);
        }
    }

    fn heed(
        &mut self,
        from: usize,
        notice: Notice,
        service: &Service<'_>,
        duty: &mut Duty,
    ) -> Result<(), RanksError> {
        match (notice, self.rank()) {
            (Notice::Beat, _) => {}
            (Notice::LeftOut(images), _) => self.compare_left_out(from, images)?,
            (Notice::Interrupt, 0) => service.interrupt.request(),
            (Notice::Ready(ready), 0) => duty.ready[from] = Some(ready),
            (Notice::Parcel { header }, 0) => duty.announcements.push_back((from, header)),
            (Notice::Done { parcels }, 0) => duty.done[from] = Some(parcels),
            (Notice::Leave, _) => {
                self.interrupted = true;
                service.interrupt.request();
                service.hall.leave();
            }
            (Notice::Go { round, word }, _) => duty.go = Some((round, word)),
            (Notice::Send, _) => duty.wanted = true,
            (other, _) => return Err(self.unexpected(from, "work", &other)),
        }
        Ok(())
    }

    /// An interrupt anywhere is one everywhere.
    fn pass_on_interrupt(&mut self, service: &Service<'_>) -> Result<(), RanksError> {
        if self.interrupted || !service.interrupt.is_requested() {
            return Ok(());
        }
        self.interrupted = true;
        if self.rank() != 0 {
            return self.tell(0, &Notice::Interrupt);
        }
        // From here on nobody is told to go and synchronize.
        service.hall.leave();
        self.tell_all(&Notice::Leave)
    }

    /// Tells rank 0 that the models here have met, and does what they ask for when all have.
    fn meet(&mut self, service: &Service<'_>, duty: &mut Duty) -> Result<bool, RanksError> {
        if duty.announced.is_none() {
            let Some(ready) = service.hall.look(described) else { return Ok(false) };
            let ready = ready?;
            self.tell_left_out()?;
            duty.announced = Some(ready);
            duty.idle = Instant::now();
            match self.rank() {
                0 => duty.ready[0] = Some(ready),
                _ => self.tell(0, &Notice::Ready(ready))?,
            }
        }
        let Some(mine) = duty.announced else { return Ok(false) };
        let word = match self.rank() {
            0 => match self.all_ready(mine, duty)? {
                Some(word) => word,
                None => return Ok(false),
            },
            _ => match duty.go.take() {
                Some((round, word)) if round == mine.round => word,
                Some((round, _)) => {
                    let (expected, found) = (mine.round.to_string(), round.to_string());
                    return Err(RanksError::OutOfStep { who: self.who(0), expected, found });
                }
                None => return Ok(false),
            },
        };
        duty.announced = None;
        let asks = service.hall.take();
        let began = (Instant::now(), self.wire.bytes());
        let answer = self.done_together(service.models, asks, word)?;
        let (bytes, seconds) = (self.wire.bytes() - began.1, began.0.elapsed().as_secs_f64());
        service.hall.answer(answer, Traffic { bytes, seconds, ..Traffic::default() });
        Ok(true)
    }

    /// Rank 0: what all models say, if all have come to one meeting.
    fn all_ready(&mut self, mine: Ready, duty: &mut Duty) -> Result<Option<Word>, RanksError> {
        let Some(all) = duty.ready.iter().copied().collect::<Option<Vec<Ready>>>() else {
            return Ok(None);
        };
        for (rank, ready) in all.iter().enumerate() {
            let who = || self.who(rank);
            if (ready.round, ready.kind) != (mine.round, mine.kind) {
                let told = |ready: &Ready| format!("{:?} {}", ready.kind, ready.round);
                let (expected, found) = (told(&mine), told(ready));
                return Err(RanksError::OutOfStep { who: who(), expected, found });
            }
            if ready.digest != mine.digest {
                return Err(RanksError::OtherTensors { who: who() });
            }
        }
        if mine.kind == Kind::Synchronize && self.interrupted {
            return Ok(None); // Everybody was told to leave.
        }
        duty.ready.fill(None);
        let word = all.iter().fold(Word::default(), |word, ready| word.or(ready.word));
        self.tell_all(&Notice::Go { round: mine.round, word })?;
        Ok(Some(word))
    }

    /// Sends or receives a parcel, if there is one.
    fn carry(&mut self, service: &Service<'_>, duty: &mut Duty) -> Result<bool, RanksError> {
        if let Some(clerk) = &service.clerk {
            if clerk.is_busy() {
                return Ok(false);
            }
            let Some((from, header)) = duty.announcements.pop_front() else { return Ok(false) };
            let began = (Instant::now(), self.wire.bytes());
            self.tell(from, &Notice::Send)?;
            let parcel = Parcel::receive(&mut self.wire, from, header)?;
            let bytes = self.wire.bytes() - began.1;
            service.hall.note_kept(bytes, began.0.elapsed().as_secs_f64());
            duty.received[from] += 1;
            clerk.keep(from, parcel);
            return Ok(true);
        }
        if !duty.offered
            && let Some(header) = service.hall.next_header()
        {
            duty.offered = true;
            self.tell_left_out()?;
            self.tell(0, &Notice::Parcel { header: header.len() })?;
        }
        if !duty.wanted {
            return Ok(false);
        }
        (duty.offered, duty.wanted) = (false, false);
        if let Some(parcel) = service.hall.next_parcel() {
            parcel.send(&mut self.wire, 0)?;
            duty.sent += 1;
            service.hall.parcel_sent();
        }
        Ok(true)
    }

    fn all_ended(&mut self, service: &Service<'_>, duty: &mut Duty) -> Result<bool, RanksError> {
        if !service.hall.is_empty() {
            return Ok(false);
        }
        let Some(clerk) = &service.clerk else {
            self.tell_left_out()?;
            self.tell(0, &Notice::Done { parcels: duty.sent })?;
            return Ok(true);
        };
        let others = self.wire.others();
        let all = others.into_iter().all(|rank| duty.done[rank] == Some(duty.received[rank]));
        Ok(all && !clerk.is_busy())
    }

    pub(super) fn next_notice(&mut self) -> Result<Option<(usize, Notice)>, RanksError> {
        match self.unheeded.pop_front() {
            Some(notice) => Ok(Some(notice)),
            None => self.arrived(),
        }
    }

    pub(super) fn arrived(&mut self) -> Result<Option<(usize, Notice)>, RanksError> {
        let Some((from, bytes)) = self.wire.poll()? else { return Ok(None) };
        self.heard[from] = Instant::now();
        let notice = Notice::from_bytes(from, &bytes);
        Ok(Some((from, notice.map_err(|error| self.wire.named(error))?)))
    }

    pub(super) fn tell(&mut self, to: usize, notice: &Notice) -> Result<(), RanksError> {
        self.wire.notify(to, &notice.to_bytes())
    }

    pub(super) fn tell_all(&mut self, notice: &Notice) -> Result<(), RanksError> {
        let bytes = notice.to_bytes();
        self.wire.others().try_for_each(|rank| self.wire.notify(rank, &bytes))
    }

    pub(super) fn unexpected(&self, from: usize, expected: &str, found: &Notice) -> RanksError {
        let found = format!("{found:?}").chars().take(80).collect();
        RanksError::OutOfStep { who: self.who(from), expected: expected.to_owned(), found }
    }
}

/// What a courier serves.
pub(crate) struct Service<'a> {
    pub(crate) hall: &'a Hall,
    pub(crate) interrupt: &'a Interrupt,
    /// How the models are shared out among the ranks.
    pub(crate) models: Blocks,
    /// At rank 0: who keeps what others send.
    pub(crate) clerk: Option<Clerk<'a>>,
}

/// What a courier has to remember.
struct Duty {
    /// The meeting that rank 0 was told about.
    announced: Option<Ready>,
    /// Since when nothing has happened.
    idle: Instant,
    /// When it last looked whether the models here make steps.
    looked: Instant,
    /// What rank 0 said to it.
    go: Option<(u64, Word)>,
    /// At rank 0: the meetings of the others.
    ready: Vec<Option<Ready>>,
    /// Whether rank 0 knows of the next parcel here, and wants it.
    offered: bool,
    wanted: bool,
    sent: u64,
    /// At rank 0: parcels that others have, and parcels that have come from them.
    announcements: VecDeque<(usize, usize)>,
    received: Vec<u64>,
    /// At rank 0: how many parcels came from those who have ended.
    done: Vec<Option<u64>>,
}

impl Duty {
    fn new(ranks: usize) -> Self {
        Self {
            announced: None,
            idle: Instant::now(),
            looked: Instant::now(),
            go: None,
            ready: vec![None; ranks],
            offered: false,
            wanted: false,
            sent: 0,
            announcements: VecDeque::new(),
            received: vec![0; ranks],
            done: vec![None; ranks],
        }
    }

    /// How long to sleep: shortly, if the models here wait for those of others.
    fn pause(&self) -> Duration {
        if self.announced.is_some() { pause_after(self.idle, LONGEST) } else { PATROL }
    }
}

/// What all models of a rank have come for, who are given by their numbers.
fn described(round: u64, asks: &[(usize, &Ask)]) -> Result<Ready, RanksError> {
    let Some(((_, first), rest)) = asks.split_first() else {
        return Ok(Ready { round, kind: Kind::Agree, digest: 0, word: Word::default() });
    };
    let (kind, digest, mut word) = (first.kind(), first.digest(), first.word());
    for (number, ask) in rest {
        if ask.kind() != kind {
            let (expected, found) = (format!("{kind:?}"), format!("{:?}", ask.kind()));
            return Err(RanksError::OutOfStep { who: format!("model {number}"), expected, found });
        }
        if ask.digest() != digest {
            ask.ensure_like(first)?;
        }
        word = word.or(ask.word());
    }
    Ok(Ready { round, kind, digest, word })
}

#[cfg(test)]
mod tests {
    use hwa_core::Weights;

    use super::*;
    use crate::collective::Verdict;

    #[test]
    fn models_of_one_rank_that_do_different_things_are_out_of_step() {
        let (average, shift) = (Ask::Average(Weights::new()), Ask::Shift(Weights::new()));
        let (go_on, stop) = (Ask::Agree(Verdict::Continue), Ask::Agree(Verdict::Stop));
        // The first pair has the same tensors.
        for (first, second, found) in [
            (&average, &shift, "Average was expected, Shift came"),
            (&go_on, &average, "Agree was expected, Average came"),
        ] {
            let error = described(7, &[(3, first), (5, second)]).unwrap_err().to_string();
            assert_eq!(error, format!("model 5 is out of step: {found}"));
        }
        let ready = described(7, &[(3, &go_on), (5, &stop)]).unwrap();
        assert_eq!((ready.round, ready.kind, ready.word.stop), (7, Kind::Agree, true));
    }
}
