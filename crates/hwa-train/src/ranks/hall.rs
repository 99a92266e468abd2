//! Where the models of one rank meet, and where its courier finds them.
//!
//! A model that asks for a common operation takes its seat and waits. When all models of the
//! rank are seated, the courier takes what they brought to the other ranks, and comes back with
//! an answer for all. What models want to be kept they leave with the courier too.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hwa_core::Weights;
use hwa_store::InnerPosition;

use super::contents::Contents;
use super::notice::Kind;
use super::parcel::Parcel;
use crate::archive::Archive;
use crate::collective::{Collective, CollectiveError, Contribution, Loss, Synchronized, Verdict};
use crate::error::TrainError;
use crate::event::Traffic;
use crate::state::{Lead, ModelState, Occasion};

/// Where the models of one rank meet.
pub(crate) struct Hall {
    inside: Mutex<Inside>,
    /// Wakes the courier.
    bell: Condvar,
    /// Wakes the models.
    wake: Condvar,
    /// How many models there are on all ranks.
    everywhere: usize,
    /// The place of the first one here among them.
    first: usize,
    /// The numbers of those here.
    numbers: Vec<usize>,
}

struct Inside {
    seats: Vec<Option<Ask>>,
    /// By seat: since when the model is at something of its own.
    since: Vec<Option<Instant>>,
    round: u64,
    answer: Option<Answer>,
    /// What was exchanged since somebody asked.
    traffic: Traffic,
    parcels: VecDeque<Parcel>,
    /// Parcels that were left here, and that were sent.
    left: u64,
    sent: u64,
    /// Models that are still at work.
    working: usize,
    /// Nobody will meet any more to synchronize.
    leaving: bool,
    /// Why nobody goes on, if something has failed.
    failed: Option<String>,
}

/// What a model brings.
pub(crate) enum Ask {
    Synchronize(Box<Contribution>),
    Average(Weights),
    Shift(Weights),
    Agree(Verdict),
}

impl Ask {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Synchronize(_) => Kind::Synchronize,
            Self::Average(_) => Kind::Average,
            Self::Shift(_) => Kind::Shift,
            Self::Agree(_) => Kind::Agree,
        }
    }
}

/// What the models get.
#[derive(Clone)]
pub(crate) enum Answer {
    Synchronized(Arc<Synchronized>),
    Averaged(Arc<Weights>),
    /// By seat.
    Shifted(Vec<Arc<Weights>>),
    Agreed(Verdict),
}

impl Hall {
    /// For those `here` of all `models`, which are given by their numbers.
    pub(crate) fn new(here: Range<usize>, models: &[usize]) -> Self {
        let inside = Inside {
            seats: here.clone().map(|_| None).collect(),
            since: vec![Some(Instant::now()); here.len()],
            round: 0,
            answer: None,
            traffic: Traffic::default(),
            parcels: VecDeque::new(),
            left: 0,
            sent: 0,
            working: here.len(),
            leaving: false,
            failed: None,
        };
        Self {
            inside: inside.into(),
            bell: Condvar::new(),
            wake: Condvar::new(),
            everywhere: models.len(),
            first: here.start,
            numbers: models[here].to_vec(),
        }
    }

    /// The hall as one of the models here sees it, by its place among all models.
    pub(crate) fn member(self: &Arc<Self>, place: usize) -> RankMember {
        RankMember { hall: Arc::clone(self), seat: place - self.first }
    }

    /// Ends every wait, now and later, with [`CollectiveError::Aborted`]. What came first is why.
    pub(crate) fn abort(&self, reason: &str) {
        self.lock().failed.get_or_insert_with(|| reason.to_owned());
        self.wake.notify_all();
        self.bell.notify_all();
    }

    /// Why nobody goes on, if something has failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.lock().failed.clone()
    }

    /// Whether no model is at work any more.
    pub(crate) fn is_left(&self) -> bool {
        self.lock().working == 0
    }

    /// A model here that has been at one step, or whatever else it does by itself, for longer
    /// than this.
    pub(crate) fn stalled(&self, longest: Duration, now: Instant) -> Option<usize> {
        let inside = self.lock();
        let stalled = |since: &Option<Instant>| {
            since.is_some_and(|at| now.saturating_duration_since(at) > longest)
        };
        inside.since.iter().position(stalled).map(|seat| self.numbers[seat])
    }

    /// This process was suspended for so long: no model could do anything.
    pub(crate) fn forgive(&self, suspended: Duration, now: Instant) {
        for since in self.lock().since.iter_mut().flatten() {
            // Whoever went on before this was called has begun anew.
            *since = since.checked_add(suspended).map_or(now, |later| later.min(now));
        }
    }

    /// Notes that a model goes on, and tells whether it may.
    fn check(&self, seat: usize) -> Result<(), CollectiveError> {
        let mut inside = self.lock();
        inside.since[seat] = Some(Instant::now());
        if inside.failed.is_some() { Err(CollectiveError::Aborted) } else { Ok(()) }
    }

    /// Sends home whoever waits to synchronize, and whoever comes.
    pub(crate) fn leave(&self) {
        self.lock().leaving = true;
        self.wake.notify_all();
    }

    /// Whether all models have ended, and nothing is to be sent for them any more.
    pub(crate) fn is_empty(&self) -> bool {
        let inside = self.lock();
        inside.working == 0 && inside.parcels.is_empty()
    }

    /// Looks at what the models have brought, by their numbers, if all of them are seated.
    pub(crate) fn look<T>(&self, see: impl FnOnce(u64, &[(usize, &Ask)]) -> T) -> Option<T> {
        let inside = self.lock();
        let seats = self.numbers.iter().zip(&inside.seats);
        let asks: Option<Vec<(usize, &Ask)>> =
            seats.map(|(number, ask)| Some((*number, ask.as_ref()?))).collect();
        asks.map(|asks| see(inside.round, &asks))
    }

    /// Takes what the models have brought.
    pub(crate) fn take(&self) -> Vec<Ask> {
        self.lock().seats.iter_mut().filter_map(Option::take).collect()
    }

    /// Gives the models their answer, and notes what it took to get it.
    pub(crate) fn answer(&self, answer: Answer, took: Traffic) {
        let mut inside = self.lock();
        inside.answer = Some(answer);
        inside.round += 1;
        inside.traffic.bytes += took.bytes;
        inside.traffic.seconds += took.seconds;
        drop(inside);
        self.wake.notify_all();
    }

    /// Notes what it took to get something that is to be kept.
    pub(crate) fn note_kept(&self, bytes: u64, seconds: f64) {
        let mut inside = self.lock();
        inside.traffic.kept_bytes += bytes;
        inside.traffic.kept_seconds += seconds;
    }

    /// The description of the next parcel.
    pub(crate) fn next_header(&self) -> Option<Vec<u8>> {
        self.lock().parcels.front().map(Parcel::header)
    }

    /// Takes the next parcel, to send it.
    pub(crate) fn next_parcel(&self) -> Option<Parcel> {
        self.lock().parcels.pop_front()
    }

    /// The next parcel was sent.
    pub(crate) fn parcel_sent(&self) {
        self.lock().sent += 1;
        self.wake.notify_all();
    }

    /// Waits until something happens here, but not longer than `pause`.
    pub(crate) fn wait(&self, pause: Duration, expected: bool) {
        let inside = self.lock();
        let seated = inside.seats.iter().all(Option::is_some);
        let something = inside.failed.is_some()
            || !inside.parcels.is_empty()
            || inside.working == 0
            || (seated && !expected);
        // What is there already rings no bell.
        let pause = if something { pause.min(Duration::from_millis(1)) } else { pause };
        drop(self.bell.wait_timeout(inside, pause).unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is waited for here is none of the model's own doing.
    fn meet(&self, seat: usize, ask: Ask) -> Result<Answer, CollectiveError> {
        self.lock().since[seat] = None;
        let answer = self.met(seat, ask);
        self.lock().since[seat] = Some(Instant::now());
        answer
    }

    fn met(&self, seat: usize, ask: Ask) -> Result<Answer, CollectiveError> {
        let heeds_interrupt = ask.kind() == Kind::Synchronize;
        let mut inside = self.lock();
        let round = inside.round;
        inside.seats[seat] = Some(ask);
        if inside.seats.iter().all(Option::is_some) {
            self.bell.notify_all();
        }
        loop {
            if let (true, Some(answer)) = (inside.round > round, &inside.answer) {
                return Ok(answer.clone());
            }
            if inside.failed.is_some() {
                return Err(CollectiveError::Aborted);
            }
            // A seat that was cleared is at the other ranks already: everybody has come.
            if heeds_interrupt && inside.leaving && inside.seats[seat].is_some() {
                inside.seats[seat] = None;
                return Err(CollectiveError::Interrupted);
            }
            inside = self.wake.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Leaves a parcel with the courier, and waits until it is sent.
    fn send(&self, model: usize, parcel: Parcel) -> Result<(), CollectiveError> {
        let seat = self.numbers.iter().position(|number| *number == model);
        let mut inside = self.lock();
        if let Some(seat) = seat {
            inside.since[seat] = None;
        }
        inside.left += 1;
        let number = inside.left;
        inside.parcels.push_back(parcel);
        self.bell.notify_all();
        while inside.sent < number {
            if inside.failed.is_some() {
                return Err(CollectiveError::Aborted);
            }
            inside = self.wake.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(seat) = seat {
            inside.since[seat] = Some(Instant::now());
        }
        Ok(())
    }

    fn goodbye(&self, seat: usize) {
        let mut inside = self.lock();
        inside.since[seat] = None;
        inside.working = inside.working.saturating_sub(1);
        drop(inside);
        self.bell.notify_all();
        self.wake.notify_all();
    }
}

/// One model's view of its [`Hall`].
pub(crate) struct RankMember {
    hall: Arc<Hall>,
    seat: usize,
}

impl Drop for RankMember {
    fn drop(&mut self) {
        self.hall.goodbye(self.seat);
    }
}

impl Collective for RankMember {
    fn rank(&self) -> usize {
        self.hall.first + self.seat
    }

    fn size(&self) -> usize {
        self.hall.everywhere
    }

    fn synchronize(
        &mut self,
        contribution: Contribution,
    ) -> Result<Arc<Synchronized>, CollectiveError> {
        match self.hall.meet(self.seat, Ask::Synchronize(Box::new(contribution)))? {
            Answer::Synchronized(synchronized) => Ok(synchronized),
            _ => Err(CollectiveError::Aborted),
        }
    }

    fn average(&mut self, tensors: Weights) -> Result<Arc<Weights>, CollectiveError> {
        match self.hall.meet(self.seat, Ask::Average(tensors))? {
            Answer::Averaged(mean) => Ok(mean),
            _ => Err(CollectiveError::Aborted),
        }
    }

    fn shift(&mut self, tensors: Weights) -> Result<Arc<Weights>, CollectiveError> {
        match self.hall.meet(self.seat, Ask::Shift(tensors))? {
            Answer::Shifted(all) if self.seat < all.len() => Ok(Arc::clone(&all[self.seat])),
            _ => Err(CollectiveError::Aborted),
        }
    }

    fn agree(&mut self, verdict: Verdict) -> Result<Verdict, CollectiveError> {
        match self.hall.meet(self.seat, Ask::Agree(verdict))? {
            Answer::Agreed(verdict) => Ok(verdict),
            _ => Err(CollectiveError::Aborted),
        }
    }

    fn traffic(&mut self) -> Option<Traffic> {
        Some(std::mem::take(&mut self.hall.lock().traffic))
    }

    fn check(&self) -> Result<(), CollectiveError> {
        self.hall.check(self.seat)
    }
}

/// Away from the files: what is to be kept is sent.
impl Archive for Hall {
    fn deliver(
        &self,
        occasion: Occasion,
        model: usize,
        part: ModelState,
        _lead: Option<Lead>,
    ) -> Result<(), TrainError> {
        Ok(self.send(model, Contents::pack_state(occasion, model, part))?)
    }

    /// With other processes a model that fails ends the run.
    fn lose(&self, _loss: Loss) -> Result<(), TrainError> {
        Err(CollectiveError::Aborted.into())
    }

    fn save_inner(&self, at: InnerPosition, weights: Weights) -> Result<(), TrainError> {
        let contents = Contents::Inner { cycle: at.cycle, model: at.replica, step: at.step };
        Ok(self.send(at.replica, contents.packed(vec![weights]))?)
    }
}
