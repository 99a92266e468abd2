//! The models of one process, in threads; and a process that does not lead.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};

use hwa_data::{Subset, Transform};

use crate::collective::{Collective, Interrupt, Loss, ThreadGroup};
use crate::error::TrainError;
use crate::event::{Event, Observer};
use crate::leader::{Closing, Leader};
use crate::ranks::{Blocks, Hall, Ranks, Service};
use crate::run::BuildReplica;
use crate::settings::{Init, OnLostReplica, Settings};
use crate::state::ModelState;
use crate::technique::BuildTechnique;
use crate::trainer::{Ending, Model, Session, Trainer};

/// The models of one process.
pub(crate) struct Crew<'a> {
    pub(crate) session: &'a Session<'a>,
    pub(crate) build: &'a BuildReplica<'a>,
    pub(crate) technique: &'a BuildTechnique<'a>,
    pub(crate) threads_per_model: usize,
    /// Where they meet.
    pub(crate) meeting: Meeting,
    /// The numbers of all models of the run.
    pub(crate) models: Vec<usize>,
    /// Which of them are here.
    pub(crate) here: Range<usize>,
    /// The state that a model goes on from, if it does.
    pub(crate) resumed: &'a (dyn Fn(usize) -> Result<Option<ModelState>, TrainError> + Sync),
}

/// A model at work, and its number.
pub(crate) type Running<'scope> = (usize, ScopedJoinHandle<'scope, Result<Ending, TrainError>>);

/// Where the models of a process meet: among themselves, or with those of others.
pub(crate) enum Meeting {
    Threads(ThreadGroup),
    Ranks(Arc<Hall>),
}

impl Meeting {
    /// Ends every wait, because of this.
    pub(crate) fn abort(&self, error: &TrainError) {
        match self {
            Self::Threads(group) => group.abort(),
            Self::Ranks(hall) => hall.abort(&error.to_string()),
        }
    }
}

impl<'a> Crew<'a> {
    /// Starts the models that are here; the first of all leads.
    pub(crate) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        mut leader: Option<Leader<'a>>,
    ) -> Result<Vec<Running<'scope>>, TrainError>
    where
        'a: 'scope,
    {
        let mut models = Vec::new();
        for place in self.here.clone() {
            let (number, leader) = (self.models[place], leader.take());
            let model = move || {
                let ending = guarded(&format!("model {number}"), || {
                    let ending = self.run_model(place, leader);
                    ending.or_else(|error| self.go_on_without(place, error))
                });
                ending.inspect_err(|error| self.meeting.abort(error))
            };
            match spawn(scope, &format!("model {number}"), model) {
                Ok(handle) => models.push((number, handle)),
                Err(error) => {
                    self.meeting.abort(&error);
                    return Err(error);
                }
            }
        }
        Ok(models)
    }

    /// The others go on, if they shall, and if the one that failed does not lead them.
    fn go_on_without(&self, place: usize, error: TrainError) -> Result<Ending, TrainError> {
        let shall = self.session.settings.on_lost_replica == OnLostReplica::Continue;
        match (&self.meeting, error.lost_model()) {
            (Meeting::Threads(group), Some(step)) if shall && place > 0 => {
                let loss = Loss { model: self.models[place], step, reason: error.to_string() };
                // First: a state that the others save knows of it.
                self.session.archive.lose(loss.clone())?;
                group.lose(place, loss);
                Ok(Ending::Lost)
            }
            _ => Err(error),
        }
    }

    fn run_model(&self, place: usize, leader: Option<Leader<'_>>) -> Result<Ending, TrainError> {
        match &self.meeting {
            Meeting::Threads(group) => self.run_with(place, leader, || group.member(place)),
            Meeting::Ranks(hall) => self.run_with(place, leader, || hall.member(place)),
        }
    }

    fn run_with<C: Collective + Send>(
        &self,
        place: usize,
        leader: Option<Leader<'_>>,
        member: impl FnOnce() -> C + Send,
    ) -> Result<Ending, TrainError> {
        let number = self.models[place];
        let who = format!("model {number}");
        on_its_own_threads(&who, self.threads_per_model, || {
            // First: whoever fails leaves its seat, so that its reason is told at once.
            let member = member();
            let init = match self.session.settings.init {
                Init::Shared => 0,
                Init::Independent => number as u32,
            };
            let build = (self.build)(init);
            let replica = build.map_err(|source| TrainError::Build { who: who.clone(), source })?;
            let resumed = (self.resumed)(number)?;
            let model = Model { number, replica, technique: (self.technique)(number) };
            Trainer::new(self.session, member, model, resumed, leader)?.train()
        })
    }
}

/// How the models ended, each by itself.
pub(crate) fn joined(models: Vec<Running<'_>>) -> Vec<Result<Ending, TrainError>> {
    let join = |(number, model): Running<'_>| {
        model.join().unwrap_or_else(|panic| Err(panicked(&format!("model {number}"), &*panic)))
    };
    models.into_iter().map(join).collect()
}

/// How all models ended together.
pub(crate) fn ended(
    endings: Vec<Result<Ending, TrainError>>,
) -> Result<Option<Closing>, TrainError> {
    let (mut closing, mut echo) = (None, None);
    for ending in endings {
        match ending {
            Ok(Ending::Done(mine)) => closing = closing.or(mine),
            Ok(Ending::Interrupted | Ending::Lost) => {}
            Err(error) if error.is_echo() => echo = Some(error),
            Err(error) => return Err(error),
        }
    }
    echo.map_or(Ok(closing.map(|closing| *closing)), Err)
}

/// What a process needs that trains some of the models, and leads none: it has neither a run
/// directory nor a judge.
pub struct Assistant<'a> {
    /// What to do.
    pub settings: &'a Settings,
    /// Training images.
    pub train: Subset,
    /// From bytes to floats.
    pub transform: Transform,
    /// The models.
    pub build: &'a BuildReplica<'a>,
    /// What the method does in steps and at the end of cycles.
    pub technique: &'a BuildTechnique<'a>,
    /// Threads for the arithmetic of one model.
    pub threads_per_model: usize,
    /// Who may interrupt.
    pub interrupt: Interrupt,
}

/// Nobody watches a process that does not lead.
struct Nobody;

impl Observer for Nobody {
    fn observe(&mut self, _event: &Event) {}
}

impl Assistant<'_> {
    /// Trains this process's share of the models. Tells whether the run was interrupted.
    pub fn train(&self, ranks: &mut Ranks<'_>) -> Result<bool, TrainError> {
        self.assist(ranks).map_err(|error| ranks.named(error))
    }

    fn assist(&self, ranks: &mut Ranks<'_>) -> Result<bool, TrainError> {
        let Some((opening, states)) = ranks.await_opening()? else { return Ok(false) };
        let blocks = Blocks::new(opening.models.len(), ranks.size());
        let here = blocks.of(ranks.rank());
        let hall = Arc::new(Hall::new(here.clone(), &opening.models));
        let numbers = opening.models[here.clone()].iter().copied();
        let states: Mutex<Vec<(usize, ModelState)>> = Mutex::new(numbers.zip(states).collect());
        let resumed = |number: usize| {
            let mut states = states.lock().unwrap_or_else(PoisonError::into_inner);
            let found = states.iter().position(|(mine, _)| *mine == number);
            Ok(found.map(|at| states.swap_remove(at).1))
        };
        let observer: Mutex<Nobody> = Mutex::new(Nobody);
        let session = Session {
            settings: self.settings,
            train: &self.train,
            transform: &self.transform,
            archive: &*hall,
            observer: &observer,
            interrupt: &self.interrupt,
        };
        let crew = Crew {
            session: &session,
            build: self.build,
            technique: self.technique,
            threads_per_model: self.threads_per_model,
            meeting: Meeting::Ranks(Arc::clone(&hall)),
            models: opening.models,
            here,
            resumed: &resumed,
        };
        let interrupt = &self.interrupt;
        let service = Service { hall: &hall, interrupt, models: blocks, clerk: None };
        let endings = thread::scope(|scope| match crew.start(scope, None) {
            Ok(models) => served(ranks, &service, || joined(models)),
            Err(error) => vec![Err(error)],
        });
        ended(endings)?;
        Ok(ranks.await_end(interrupt)?)
    }
}

/// Serves, and tells how the models ended. If the courier fails or panics, that comes first, and
/// what the models say are its echoes: they wait for nobody who is not coming, and nobody waits
/// for those that are in the middle of a long step.
pub(crate) fn served(
    ranks: &mut Ranks<'_>,
    service: &Service<'_>,
    join: impl FnOnce() -> Vec<Result<Ending, TrainError>>,
) -> Vec<Result<Ending, TrainError>> {
    let outcome = guarded("the courier", || Ok(ranks.serve(service)?));
    let outcome = outcome.map_err(|error| ranks.named(error));
    if let Err(error) = &outcome {
        let reason = error.to_string();
        service.hall.abort(&reason);
        ranks.let_leave_unheard(service, &reason);
    }
    let mut endings = join();
    if let Err(error) = outcome {
        endings.insert(0, Err(error));
    }
    endings
}

/// Does `work`. A panic becomes an error that names who panicked, so that whoever waits for the
/// outcome gets one.
pub(crate) fn guarded<T>(
    who: &str,
    work: impl FnOnce() -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(who, &*panic)))
}

/// Runs `work` in a pool of its own: a shared pool would serialise the models.
/// The work starts and ends inside the pool, because a replica never moves. A
/// panic becomes an error that names who panicked.
pub(crate) fn on_its_own_threads<T: Send>(
    who: &str,
    threads: usize,
    work: impl FnOnce() -> Result<T, TrainError> + Send,
) -> Result<T, TrainError> {
    let label = who.to_owned();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.max(1))
        .thread_name(move |index| format!("{label} #{index}"))
        .build()
        .map_err(|e| TrainError::Threads { who: who.to_owned(), reason: e.to_string() })?;
    guarded(who, || pool.install(work))
}

pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    who: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, TrainError> {
    let started = thread::Builder::new().name(who.to_owned()).spawn_scoped(scope, work);
    started.map_err(|e| TrainError::Threads { who: who.to_owned(), reason: e.to_string() })
}

pub(crate) fn panicked(who: &str, panic: &(dyn Any + Send)) -> TrainError {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let message = text.unwrap_or_else(|| "without a message".to_owned());
    TrainError::Panicked { who: who.to_owned(), message }
}
