//! What the models do together: average, and agree.
//!
//! The loop is written against [`Collective`]; threads implement it here, other
//! transports elsewhere. Every implementation gives the same bits: members are
//! summed in the order of their ranks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hwa_core::{InnerWeights, OuterWeights, Statistics, Weights, WeightsError, mean};
use serde::{Deserialize, Serialize};

use crate::event::{ModelReport, Traffic};

/// Whether training goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Continue,
    /// The averaged curve has stopped getting better.
    Stop,
}

/// What a synchronization gives to every model.
#[derive(Debug, Clone)]
pub struct Synchronized {
    /// The mean over the models.
    pub outer: OuterWeights,
    /// What each model reports of the cycle, in the order of the models.
    pub reports: Vec<ModelReport>,
    /// The complete models before they were averaged, where they were handed in; in several
    /// processes only in that of the first model, and if it wants them. Whoever looks at them
    /// shares them: they are as large as all models together.
    pub models: Vec<Arc<Weights>>,
    /// The models that were lost so far, and are in none of the above.
    pub lost: Vec<Loss>,
}

/// A model that failed, while the others went on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The model's number.
    pub model: usize,
    /// Its steps so far, if they are known.
    pub step: Option<u64>,
    /// Why.
    pub reason: String,
}

/// What a model brings to a synchronization.
#[derive(Debug, Clone)]
pub struct Contribution {
    /// Its inner weights.
    pub inner: InnerWeights,
    /// Its report; the distance is filled in by the synchronization.
    pub report: ModelReport,
    /// The complete model, if it may be looked at later.
    pub model: Option<Weights>,
    /// Whether this model knows that complete models are looked at later. The first one does
    /// know: otherwise they need not travel.
    pub models_wanted: bool,
}

/// The models' common operations, as one of them sees them.
///
/// Every model calls the same operations in the same order. When one of them
/// fails, all that wait return [`CollectiveError::Aborted`]: nobody waits for ever.
pub trait Collective {
    /// This model's number, from 0.
    fn rank(&self) -> usize;

    /// The number of models.
    fn size(&self) -> usize;

    /// Averages inner weights into outer weights and exchanges reports. Each
    /// report comes back with the distance of its model to the average.
    fn synchronize(
        &mut self,
        contribution: Contribution,
    ) -> Result<Arc<Synchronized>, CollectiveError>;

    /// Averages other tensors, such as momentum.
    fn average(&mut self, tensors: Weights) -> Result<Arc<Weights>, CollectiveError>;

    /// Hands tensors on to the next model, and gives those of the model before this one; the
    /// last comes before the first.
    fn shift(&mut self, tensors: Weights) -> Result<Arc<Weights>, CollectiveError>;

    /// Stops if any model says so.
    fn agree(&mut self, verdict: Verdict) -> Result<Verdict, CollectiveError>;

    /// What was exchanged with other processes since the last call of any model here, if there
    /// are other processes.
    fn traffic(&mut self) -> Option<Traffic> {
        None
    }

    /// An error if another model has failed; cheap, for use between steps.
    fn check(&self) -> Result<(), CollectiveError>;
}

/// Why a common operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum CollectiveError {
    /// Another model failed; its own error tells more.
    #[error("another model failed")]
    Aborted,
    /// An interrupt came while not all models had arrived.
    #[error("interrupted")]
    Interrupted,
    /// The models' weights do not match.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// A request to stop soon, set by Ctrl-C or a test.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Not requested yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests it.
    pub fn request(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was requested.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// K threads of one process.
#[derive(Debug, Clone)]
pub struct ThreadGroup {
    shared: Arc<Shared>,
    interrupt: Interrupt,
}

#[derive(Debug)]
struct Shared {
    failed: AtomicBool,
    /// Whether a thread has left for good: nobody can meet it any more.
    left: AtomicBool,
    tables: Mutex<Tables>,
    wake: Condvar,
    size: usize,
    /// Whether the others go on when one is lost. Then nobody is taken to have failed because
    /// it has left.
    tolerant: bool,
}

#[derive(Debug)]
struct Tables {
    /// By seat: whether it stays empty.
    empty: Vec<bool>,
    losses: Vec<Loss>,
    synchronizations: Table<Contribution, Synchronized>,
    averages: Table<Weights, Weights>,
    /// By seat, in their order.
    shifts: Table<Weights, Vec<(usize, Arc<Weights>)>>,
    verdicts: Table<Verdict, Verdict>,
}

/// Where K threads meet: each puts something down, the last one combines.
#[derive(Debug)]
struct Table<T, R> {
    seats: Vec<Option<T>>,
    round: u64,
    outcome: Option<Result<Arc<R>, WeightsError>>,
}

impl<T, R> Table<T, R> {
    fn new(size: usize) -> Self {
        Self { seats: (0..size).map(|_| None).collect(), round: 0, outcome: None }
    }

    /// Whether everybody is there who can come.
    fn is_full(&self, empty: &[bool]) -> bool {
        self.seats.iter().zip(empty).all(|(seat, empty)| seat.is_some() || *empty)
    }

    /// What was put down, with the seats, in their order.
    fn clear(&mut self) -> Vec<(usize, T)> {
        let seats = self.seats.iter_mut().enumerate();
        seats.filter_map(|(seat, item)| Some((seat, item.take()?))).collect()
    }
}

/// How often a waiting thread looks for an interrupt, which cannot wake it.
const PATROL: Duration = Duration::from_millis(50);

impl ThreadGroup {
    /// A group of `size` threads that heeds `interrupt`.
    pub fn new(size: usize, interrupt: Interrupt) -> Self {
        Self::with(size, interrupt, false)
    }

    /// A group in which the others go on when one is lost: [`Self::lose`] or [`Self::abort`] has
    /// to be called for whoever fails.
    pub fn tolerant(size: usize, interrupt: Interrupt) -> Self {
        Self::with(size, interrupt, true)
    }

    fn with(size: usize, interrupt: Interrupt, tolerant: bool) -> Self {
        let tables = Tables {
            empty: vec![false; size],
            losses: Vec::new(),
            synchronizations: Table::new(size),
            averages: Table::new(size),
            shifts: Table::new(size),
            verdicts: Table::new(size),
        };
        let shared = Shared {
            failed: AtomicBool::new(false),
            left: AtomicBool::new(false),
            tables: tables.into(),
            wake: Condvar::new(),
            size,
            tolerant,
        };
        Self { shared: Arc::new(shared), interrupt }
    }

    /// Lets the others go on without the thread of this rank, which does not come any more.
    pub fn lose(&self, rank: usize, loss: Loss) {
        let mut tables = self.lock();
        tables.empty[rank] = true;
        tables.losses.push(loss);
        tables.losses.sort_by_key(|loss| loss.model);
        drop(tables);
        self.shared.wake.notify_all();
    }

    /// The group as one of its threads sees it.
    pub fn member(&self, rank: usize) -> ThreadMember {
        ThreadMember { group: self.clone(), rank }
    }

    /// Ends every wait, now and later, with [`CollectiveError::Aborted`].
    pub fn abort(&self) {
        self.shared.failed.store(true, Ordering::Release);
        self.wake_all();
    }

    fn wake_all(&self) {
        // Taken so that no thread is between its look at a flag and its wait.
        drop(self.lock());
        self.shared.wake.notify_all();
    }

    fn failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
    }

    /// A thread that panicked while it held the lock has failed anyway: what it
    /// left is never used, because the group is aborted.
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meet<T, R>(
        &self,
        rank: usize,
        item: T,
        heeds_interrupt: bool,
        table: impl Fn(&mut Tables) -> &mut Table<T, R>,
        combine: impl FnOnce(Vec<(usize, T)>, &[Loss]) -> Result<R, WeightsError>,
    ) -> Result<Arc<R>, CollectiveError> {
        let mut tables = self.lock();
        if self.failed() {
            return Err(CollectiveError::Aborted);
        }
        // Before taking a seat: the last one to come would go on without a look.
        if heeds_interrupt && self.interrupt.is_requested() {
            return Err(CollectiveError::Interrupted);
        }
        let mine = table(&mut tables);
        let round = mine.round;
        mine.seats[rank] = Some(item);
        let mut combine = Some(combine);
        loop {
            let empty = std::mem::take(&mut tables.empty);
            let mine = table(&mut tables);
            let full = mine.round == round && mine.is_full(&empty);
            let items = if full { mine.clear() } else { Vec::new() };
            tables.empty = empty;
            // The last one to come; or anyone, if the last one is not coming.
            if let (true, Some(combine)) = (full, combine.take_if(|_| full)) {
                let outcome = combine(items, &tables.losses).map(Arc::new);
                let mine = table(&mut tables);
                mine.outcome = Some(outcome);
                mine.round += 1;
                self.shared.wake.notify_all();
            }
            let mine = table(&mut tables);
            if let (true, Some(outcome)) = (mine.round > round, &mine.outcome) {
                return outcome.clone().map_err(CollectiveError::from);
            }
            if self.failed() {
                return Err(CollectiveError::Aborted);
            }
            if heeds_interrupt && self.interrupt.is_requested() {
                // Not everyone has come, and from now on not everyone will.
                mine.seats[rank] = None;
                return Err(CollectiveError::Interrupted);
            }
            if self.shared.left.load(Ordering::Acquire) {
                return Err(CollectiveError::Aborted);
            }
            let waited = self.shared.wake.wait_timeout(tables, PATROL);
            tables = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// One thread's view of its [`ThreadGroup`].
#[derive(Debug)]
pub struct ThreadMember {
    group: ThreadGroup,
    rank: usize,
}

impl Drop for ThreadMember {
    fn drop(&mut self) {
        if !self.group.shared.tolerant {
            self.group.shared.left.store(true, Ordering::Release);
            self.group.wake_all();
        }
    }
}

impl Collective for ThreadMember {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.group.shared.size
    }

    fn synchronize(
        &mut self,
        contribution: Contribution,
    ) -> Result<Arc<Synchronized>, CollectiveError> {
        self.group.meet(
            self.rank,
            contribution,
            true,
            |t| &mut t.synchronizations,
            |models, losses| {
                let models: Vec<Contribution> = models.into_iter().map(|(_, mine)| mine).collect();
                let inner: Vec<&InnerWeights> = models.iter().map(|m| &m.inner).collect();
                let outer = OuterWeights::average(&inner)?;
                let mut reports: Vec<ModelReport> =
                    models.iter().map(|m| m.report.clone()).collect();
                for (report, inner) in reports.iter_mut().zip(inner) {
                    report.distance = distance(inner, &outer);
                }
                let models = models.into_iter().filter_map(|m| m.model.map(Arc::new)).collect();
                Ok(Synchronized { outer, reports, models, lost: losses.to_vec() })
            },
        )
    }

    fn average(&mut self, tensors: Weights) -> Result<Arc<Weights>, CollectiveError> {
        self.group.meet(
            self.rank,
            tensors,
            false,
            |t| &mut t.averages,
            |members, _| {
                let members: Vec<&Weights> = members.iter().map(|(_, mine)| mine).collect();
                mean(&members, Statistics::Average)
            },
        )
    }

    fn shift(&mut self, tensors: Weights) -> Result<Arc<Weights>, CollectiveError> {
        let all = self.group.meet(
            self.rank,
            tensors,
            false,
            |t| &mut t.shifts,
            |all, _| Ok(all.into_iter().map(|(seat, mine)| (seat, Arc::new(mine))).collect()),
        )?;
        let before = all.iter().rev().find(|(seat, _)| *seat < self.rank).or(all.last());
        let (_, tensors) = before.ok_or(WeightsError::Empty)?;
        Ok(Arc::clone(tensors))
    }

    fn agree(&mut self, verdict: Verdict) -> Result<Verdict, CollectiveError> {
        let agreed = self.group.meet(
            self.rank,
            verdict,
            false,
            |t| &mut t.verdicts,
            |all, _| {
                let stop = all.iter().any(|(_, verdict)| *verdict == Verdict::Stop);
                Ok(if stop { Verdict::Stop } else { Verdict::Continue })
            },
        )?;
        Ok(*agreed)
    }

    fn check(&self) -> Result<(), CollectiveError> {
        if self.group.failed() { Err(CollectiveError::Aborted) } else { Ok(()) }
    }
}

/// The Euclidean distance between two sets of weights, over all `f32` tensors.
pub(crate) fn distance(a: &Weights, b: &Weights) -> f64 {
    let squares = a.iter().map(|(name, tensor)| {
        let other = b.get(name).and_then(|t| t.as_f32()).unwrap_or_default();
        let mine = tensor.as_f32().unwrap_or_default();
        mine.iter().zip(other).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum::<f64>()
    });
    squares.sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use hwa_core::Tensor;

    use super::*;

    fn contribution(x: f32) -> Contribution {
        let mut weights = Weights::new();
        weights.insert("w", Tensor::parameter(vec![1], vec![x]).unwrap()).unwrap();
        let inner = InnerWeights::new(weights);
        let report = ModelReport::default();
        Contribution { inner, report, model: None, models_wanted: false }
    }

    fn value(weights: &Weights) -> f32 {
        weights.get("w").unwrap().as_f32().unwrap()[0]
    }

    /// Runs `work` in every thread of a group and returns the results by rank.
    fn together<T: Send>(group: &ThreadGroup, work: impl Fn(ThreadMember) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let size = group.shared.size;
            let threads: Vec<_> = (0..size)
                .map(|rank| {
                    scope.spawn({
                        let work = &work;
                        move || work(group.member(rank))
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }

    #[test]
    fn everyone_gets_the_mean_and_the_distances_every_time() {
        let group = ThreadGroup::new(3, Interrupt::new());
        let results = together(&group, |mut member| {
            let start = member.rank() as f32;
            (0..100)
                .map(|round| {
                    let synced = member.synchronize(contribution(start + round as f32)).unwrap();
                    let distances = synced.reports.iter().map(|r| r.distance).collect::<Vec<_>>();
                    assert_eq!(distances, [1.0, 0.0, 1.0]);
                    value(&synced.outer)
                })
                .collect::<Vec<_>>()
        });
        let expected: Vec<f32> = (0..100).map(|round| round as f32 + 1.0).collect();
        assert!(results.iter().all(|r| *r == expected));
    }

    #[test]
    fn everyone_gets_what_the_one_before_brought() {
        let group = ThreadGroup::new(3, Interrupt::new());
        let results = together(&group, |mut member| {
            let mine: Weights = (*contribution(member.rank() as f32).inner).clone();
            (0..20).map(|_| value(&member.shift(mine.clone()).unwrap())).collect::<Vec<_>>()
        });
        for (rank, found) in results.into_iter().enumerate() {
            assert!(found.iter().all(|from| *from == ((rank + 2) % 3) as f32));
        }
    }

    #[test]
    fn one_stop_stops_all() {
        let group = ThreadGroup::new(2, Interrupt::new());
        let verdicts = together(&group, |mut member| {
            let mine = if member.rank() == 0 { Verdict::Stop } else { Verdict::Continue };
            member.agree(mine).unwrap()
        });
        assert_eq!(verdicts, [Verdict::Stop; 2]);
    }

    #[test]
    fn a_failure_wakes_those_who_wait() {
        let group = ThreadGroup::new(2, Interrupt::new());
        let results = together(&group, |mut member| {
            if member.rank() == 1 {
                thread::sleep(Duration::from_millis(20));
                member.group.abort();
                return true;
            }
            let waited = member.synchronize(contribution(0.0));
            matches!(waited, Err(CollectiveError::Aborted))
        });
        assert_eq!(results, [true, true]);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_has_left() {
        let group = ThreadGroup::new(2, Interrupt::new());
        let results = together(&group, |mut member| {
            member.rank() == 1 // leaves at once
                || matches!(member.agree(Verdict::Continue), Err(CollectiveError::Aborted))
        });
        assert_eq!(results, [true, true]);
    }

    #[test]
    fn the_others_go_on_without_a_thread_that_is_lost() {
        let loss = Loss { model: 1, step: Some(7), reason: "it broke".to_owned() };
        let group = ThreadGroup::tolerant(3, Interrupt::new());
        let results = together(&group, |mut member| {
            if member.rank() == 1 {
                // The others wait for it by now, or will come.
                thread::sleep(Duration::from_millis(20));
                member.group.lose(1, loss.clone());
                return Vec::new();
            }
            let mine: Weights = (*contribution(member.rank() as f32).inner).clone();
            let synced = member.synchronize(contribution(member.rank() as f32)).unwrap();
            assert_eq!((synced.reports.len(), &synced.lost), (2, &vec![loss.clone()]));
            let average = member.average(mine.clone()).unwrap();
            let before = member.shift(mine).unwrap();
            vec![value(&synced.outer), value(&average), value(&before)]
        });
        // The mean of 0 and 2 is 1; each follows the other.
        assert_eq!(results, [vec![1.0, 1.0, 2.0], vec![], vec![1.0, 1.0, 0.0]]);
    }

    #[test]
    fn an_interrupt_frees_those_who_wait_for_an_average() {
        let interrupt = Interrupt::new();
        let group = ThreadGroup::new(2, interrupt.clone());
        let results = together(&group, |mut member| {
            if member.rank() == 1 {
                interrupt.request(); // and never arrives
                return true;
            }
            let waited = member.synchronize(contribution(0.0));
            matches!(waited, Err(CollectiveError::Interrupted))
        });
        assert_eq!(results, [true, true]);
    }
}
