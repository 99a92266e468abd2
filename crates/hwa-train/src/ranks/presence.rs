//! Showing that a rank is there, and missing those that are not.
//!
//! Whatever takes long is done in another thread, so that the main thread can show life. What
//! does not end at all is not waited for: then all ranks are ended.

use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use super::clerk::Clerk;
use super::courier::{PATROL, Ranks, Service};
use super::error::RanksError;
use super::notice::Notice;
use super::time_awake::suspended;
use super::transport::Reason;
use crate::collective::Interrupt;

/// How long the models of a rank may take to leave when something there has failed.
const GRACE: Duration = Duration::from_secs(3);

impl Ranks<'_> {
    /// Does something that takes long and needs no other rank, in another thread, and shows the
    /// others meanwhile that this rank is there.
    pub fn busy<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> Result<T, RanksError> {
        self.looking(Self::look_out, work)
    }

    /// Before training: the same, and gives way to an interrupt of any rank. There is nothing to be
    /// saved: the work is not waited for.
    pub fn prepare<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> Result<T, RanksError> {
        let look = |ranks: &mut Self| ranks.look_out().and_then(|()| ranks.give_way());
        self.looking(look, work)
    }

    /// Looks out while something is done.
    fn looking<T: Send>(
        &mut self,
        look: impl Fn(&mut Self) -> Result<(), RanksError>,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, RanksError> {
        thread::scope(|scope| {
            let worker = scope.spawn(work);
            while !worker.is_finished() {
                // Whatever the worker is at, it may never end.
                look(self).inspect_err(|error| match error {
                    RanksError::Interrupted => self.wire.end_all(Reason::Interrupted),
                    error => self.wire.end_all(Reason::Failed(&error.to_string())),
                })?;
                thread::sleep(PATROL);
            }
            Ok(worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }

    /// Before training: an interrupt of any rank ends all. Rank 0 hears of it and decides, so that
    /// one of them says so.
    pub(super) fn give_way(&mut self) -> Result<(), RanksError> {
        let here = self.interrupt.is_requested();
        if self.rank() == 0 {
            let elsewhere = self.unheeded.iter().any(|(_, notice)| *notice == Notice::Interrupt);
            return if here || elsewhere { Err(RanksError::Interrupted) } else { Ok(()) };
        }
        if here && !self.interrupted {
            self.interrupted = true;
            self.tell(0, &Notice::Interrupt)?;
        }
        Ok(())
    }

    /// Keeps what comes for later, and shows life.
    fn look_out(&mut self) -> Result<(), RanksError> {
        while let Some((from, notice)) = self.arrived()? {
            if notice != Notice::Beat {
                self.unheeded.push_back((from, notice));
            }
        }
        self.show_life()
    }

    /// Rank 0, while it does something that takes long and needs no other rank. If ranks are
    /// missed meanwhile, an interrupt is requested so that the work need not be waited for.
    pub(crate) fn while_busy<T: Send>(
        &mut self,
        interrupt: &Interrupt,
        work: impl FnOnce() -> T + Send,
    ) -> Result<thread::Result<T>, RanksError> {
        thread::scope(|scope| {
            let worker = scope.spawn(work);
            let mut haste = Haste(Some(interrupt));
            while !worker.is_finished() {
                while let Some((_, notice)) = self.next_notice()? {
                    if notice == Notice::Interrupt {
                        interrupt.request();
                    }
                }
                self.show_life()?;
                thread::sleep(PATROL);
            }
            haste.0 = None;
            Ok(worker.join())
        })
    }

    /// Tells the others that this rank is there, and misses those who do not.
    pub(super) fn show_life(&mut self) -> Result<(), RanksError> {
        self.wire.beat()?;
        // Whoever was stopped itself has heard nothing of anybody.
        let (deadline, now) = (self.wire.terms().deadline, Instant::now());
        if now.saturating_duration_since(self.looked) > deadline / 2 {
            self.heard.fill(now);
        }
        self.looked = now;
        let needed = if self.rank() == 0 { 1..self.size() } else { 0..1 };
        for rank in needed {
            if now.saturating_duration_since(self.heard[rank]) > deadline {
                let seconds = deadline.as_secs();
                return Err(RanksError::Silent { who: self.who(rank), seconds });
            }
        }
        Ok(())
    }

    /// Something here has failed, and tells why when all models have left. They may be in the
    /// middle of a long step: the others, and whoever watches, need not wait for it.
    pub(super) fn let_leave(&mut self, service: &Service<'_>, reason: &str) {
        self.leave(service, reason, |ranks| {
            // What becomes of the others meanwhile changes nothing.
            let _ = ranks.look_out();
        });
    }

    /// The same if the courier itself has failed: then it does not look at what comes any more.
    pub(crate) fn let_leave_unheard(&mut self, service: &Service<'_>, reason: &str) {
        self.leave(service, reason, |_| {});
    }

    fn leave(&mut self, service: &Service<'_>, reason: &str, meanwhile: impl Fn(&mut Self)) {
        let began = Instant::now();
        while !service.hall.is_left() && began.elapsed() < GRACE {
            meanwhile(self);
            thread::sleep(PATROL);
        }
        if !service.hall.is_left() {
            self.wire.end_all(Reason::Failed(reason));
        }
    }

    /// A model that makes no step any more, or a clerk that never has written, cannot be joined:
    /// there is nothing but to end all. `looked` is when this was last called: wherever the
    /// process was suspended since, it counts for nobody.
    pub(super) fn miss_steps(
        &mut self,
        service: &Service<'_>,
        looked: &mut Instant,
    ) -> Result<(), RanksError> {
        let Some(deadline) = self.wire.terms().step_deadline else { return Ok(()) };
        let now = Instant::now();
        // A courier sleeps for milliseconds between its looks.
        let suspended = suspended(now.saturating_duration_since(*looked));
        *looked = now;
        if suspended > Duration::ZERO {
            service.hall.forgive(suspended, now);
            service.clerk.iter().for_each(|clerk| clerk.forgive(suspended));
        }
        let seconds = deadline.as_secs();
        let is_stalled = |clerk: &Clerk<'_>| clerk.is_stalled(deadline, now);
        let error = match service.hall.stalled(deadline, now) {
            Some(model) => RanksError::Stalled { model, seconds },
            None if service.clerk.as_ref().is_some_and(is_stalled) => {
                RanksError::Unwritten { seconds }
            }
            None => return Ok(()),
        };
        self.wire.end_all(Reason::Failed(&error.to_string()));
        Err(error)
    }
}

/// Does something that takes long. If there are other processes, they are shown meanwhile that
/// this one is there.
pub fn beside<T: Send>(
    ranks: &mut Option<&mut Ranks<'_>>,
    work: impl FnOnce() -> T + Send,
) -> Result<T, RanksError> {
    match ranks {
        None => Ok(work()),
        Some(ranks) => ranks.busy(work),
    }
}

/// Requests an interrupt when it is dropped, also by a panic.
struct Haste<'a>(Option<&'a Interrupt>);

impl Drop for Haste<'_> {
    fn drop(&mut self) {
        if let Some(interrupt) = self.0 {
            interrupt.request();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::super::blocks::Blocks;
    use super::super::hall::Hall;
    use super::super::parcel::Parcel;
    use super::super::rehearsal::{Rehearsal, rehearsal};
    use super::super::terms::Terms;
    use super::super::transport::{Incoming, Outgoing, Transport};
    use super::*;
    use crate::crew::served;

    /// A way to others that may be suspended before a look for notices, or while it sends one,
    /// and remembers whether all were ended.
    struct Watched {
        way: Rehearsal,
        looks: usize,
        suspended: Option<(usize, Duration)>,
        suspended_sending: Option<Duration>,
        ended: Option<String>,
    }

    impl Watched {
        fn new(way: Rehearsal) -> Self {
            Self { way, looks: 0, suspended: None, suspended_sending: None, ended: None }
        }
    }

    impl Transport for Watched {
        fn rank(&self) -> usize {
            self.way.rank()
        }

        fn size(&self) -> usize {
            self.way.size()
        }

        fn exchange(
            &mut self,
            outgoing: &[Outgoing<'_>],
            incoming: &mut [Incoming<'_>],
        ) -> Result<(), RanksError> {
            self.way.exchange(outgoing, incoming)
        }

        fn notify(&mut self, to: usize, notice: &[u8]) -> Result<(), RanksError> {
            self.suspended_sending.take().into_iter().for_each(thread::sleep);
            self.way.notify(to, notice)
        }

        fn poll(&mut self) -> Result<Option<(usize, Vec<u8>)>, RanksError> {
            self.looks += 1;
            if let Some((_, length)) = self.suspended.filter(|(look, _)| *look == self.looks) {
                thread::sleep(length);
            }
            self.way.poll()
        }

        fn end_all(&mut self, reason: Reason<'_>) {
            self.ended = Some(match reason {
                Reason::Failed(reason) => reason.to_owned(),
                Reason::Interrupted => "an interrupt".to_owned(),
            });
        }
    }

    #[test]
    fn nobody_waits_for_a_long_step_after_a_rank_has_fallen_silent() {
        let mut ends = rehearsal(2).into_iter().map(Watched::new);
        let (mut first, _second) = (ends.next().unwrap(), ends.next().unwrap());
        let (hall, interrupt) = (Arc::new(Hall::new(0..1, &[0, 1])), Interrupt::new());
        let busy = AtomicBool::new(false);
        let (clerk, _desk) = Clerk::new(&busy);
        thread::scope(|scope| {
            let member = hall.member(0);
            let model = scope.spawn(move || {
                thread::sleep(Duration::from_secs(6));
                drop(member);
            });
            let (interrupt, models) = (&interrupt, Blocks::new(2, 2));
            let service = Service { hall: &hall, interrupt, models, clerk: Some(clerk) };
            let mut ranks = Ranks::new(&mut first, Duration::from_millis(500));
            let endings = served(&mut ranks, &service, || {
                assert!(!model.is_finished(), "the step goes on");
                Vec::new()
            });
            assert!(matches!(&endings[..], [Err(_)]));
        });
        let why = first.ended.unwrap();
        assert_eq!(why, "rank 1 has not been heard of for 0 seconds");
    }

    /// A rank whose model takes 2.2 s for a step, of which it may take 1.4 s.
    fn rank_with_a_long_step(second: &mut Watched) -> Result<(), RanksError> {
        let (hall, interrupt) = (Arc::new(Hall::new(1..2, &[0, 1])), Interrupt::new());
        thread::scope(|scope| {
            let member = hall.member(1);
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(2200));
                drop(member);
            });
            // It shows life after 0.4 s.
            let deadline = Duration::from_secs(4);
            let mut ranks = Ranks::new(second, deadline);
            let step_deadline = Some(Duration::from_millis(1400));
            ranks.keep_to(Terms { hosts: Vec::new(), deadline, step_deadline });
            let (interrupt, models) = (&interrupt, Blocks::new(2, 2));
            let service = Service { hall: &hall, interrupt, models, clerk: None };
            ranks.serve(&service)
        })
    }

    #[test]
    fn a_model_is_not_missed_for_what_its_process_was_suspended() {
        let second = || {
            let mut ends = rehearsal(2).into_iter().map(Watched::new);
            (ends.next().unwrap(), ends.next().unwrap())
        };
        let while_asleep = Duration::from_millis(1500);
        let (_first, mut looking) = second();
        looking.suspended = Some((20, while_asleep));
        rank_with_a_long_step(&mut looking).unwrap();
        let (_first, mut sending) = second();
        sending.suspended_sending = Some(while_asleep);
        rank_with_a_long_step(&mut sending).unwrap();
        let (_first, mut awake) = second();
        rank_with_a_long_step(&mut awake).unwrap_err();
    }

    #[test]
    fn a_clerk_that_does_not_end_writing_is_missed() {
        let mut ends = rehearsal(2);
        let deadline = Duration::from_secs(600);
        let mut ranks = Ranks::new(&mut ends[0], deadline);
        let step_deadline = Some(Duration::from_millis(10));
        ranks.keep_to(Terms { hosts: Vec::new(), deadline, step_deadline });
        let (hall, interrupt) = (Arc::new(Hall::new(0..1, &[0, 1])), Interrupt::new());
        // Its model has ended; nobody works at the desk.
        drop(hall.member(0));
        let busy = AtomicBool::new(false);
        let (clerk, _desk) = Clerk::new(&busy);
        clerk.keep(1, Parcel { about: String::new(), tensors: Vec::new() });
        let (interrupt, models) = (&interrupt, Blocks::new(2, 2));
        let service = Service { hall: &hall, interrupt, models, clerk: Some(clerk) };
        let error = ranks.serve(&service).unwrap_err().to_string();
        assert!(error.starts_with("what a rank has sent is not written after 0 s"), "{error}");
    }

    #[test]
    fn a_model_that_makes_no_step_is_missed() {
        let mut ends = rehearsal(2);
        let long = Duration::from_secs(600);
        let mut ranks = Ranks::new(&mut ends[1], long);
        let step_deadline = Some(Duration::from_millis(10));
        ranks.keep_to(Terms { hosts: Vec::new(), deadline: long, step_deadline });
        let (hall, interrupt) = (Hall::new(1..2, &[3, 5]), Interrupt::new());
        let (hall, interrupt, models) = (&hall, &interrupt, Blocks::new(2, 2));
        let service = Service { hall, interrupt, models, clerk: None };
        let error = ranks.serve(&service).unwrap_err().to_string();
        assert!(error.starts_with("model 5 has made no step for 0 seconds"), "{error}");
    }

    #[test]
    fn a_rank_that_is_busy_is_there_and_misses_nothing() {
        let mut ends = rehearsal(2);
        let (mut second, mut first) = (ends.remove(1), ends.remove(0));
        let deadline = Duration::from_millis(1500);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut ranks = Ranks::new(&mut second, deadline);
                ranks.gather("of rank 1".to_owned()).unwrap();
                assert_eq!(ranks.broadcast(String::new()).unwrap(), "of rank 0");
            });
            let mut ranks = Ranks::new(&mut first, deadline);
            ranks.busy(|| thread::sleep(3 * deadline)).unwrap();
            assert_eq!(ranks.gather("mine".to_owned()).unwrap(), ["mine", "of rank 1"]);
            ranks.broadcast("of rank 0".to_owned()).unwrap();
        });
    }

    #[test]
    fn an_interrupt_of_any_rank_ends_all_before_training() {
        let deadline = Duration::from_secs(60);
        for interrupted in [0, 1] {
            let requests: [Interrupt; 2] = Default::default();
            requests[interrupted].request();
            let mut ends = rehearsal(2).into_iter().map(Watched::new);
            let (mut first, mut second) = (ends.next().unwrap(), ends.next().unwrap());
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut ranks = Ranks::new(&mut second, deadline);
                    ranks.interrupted_by(requests[1].clone());
                    ranks.prepare(|| thread::sleep(5 * PATROL)).unwrap();
                });
                let mut ranks = Ranks::new(&mut first, deadline);
                ranks.interrupted_by(requests[0].clone());
                let preparing = ranks.prepare(|| thread::sleep(50 * PATROL)).unwrap_err();
                let waiting = ranks.gather(String::new()).unwrap_err();
                for error in [preparing, waiting] {
                    assert!(matches!(error, RanksError::Interrupted), "{error}");
                }
            });
            assert_eq!((first.ended.as_deref(), second.ended), (Some("an interrupt"), None));
        }
    }

    #[test]
    fn a_rank_that_says_nothing_at_the_beginning_is_named() {
        let mut ends = rehearsal(2);
        let deadline = Duration::from_millis(50);
        let mut ranks = Ranks::new(&mut ends[0], deadline);
        let hosts = vec!["a".to_owned(), "b".to_owned()];
        ranks.keep_to(Terms { hosts, deadline, step_deadline: None });
        let error = ranks.gather(String::new()).unwrap_err().to_string();
        assert_eq!(error, "rank 1 on b has not been heard of for 0 seconds");
    }
}
