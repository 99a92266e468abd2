//! Algorithm 1, as one model runs it, with the seams where methods differ.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use hwa_core::{Cycle, InnerWeights, Weights};
use hwa_data::{Ahead, Position, Subset, TrainingBatches, Transform};
use hwa_store::InnerPosition;

use crate::archive::Archive;
use crate::collective::{
    Collective, CollectiveError, Contribution, Interrupt, Synchronized, Verdict,
};
use crate::error::TrainError;
use crate::event::{CycleTime, Event, ModelReport, ModelTime, Observer, Stepped, announce};
use crate::leader::{Closing, Leader};
use crate::replica::{Replica, ReplicaError, Step};
use crate::settings::{Init, Settings};
use crate::state::{CycleLosses, ModelState, Occasion};
use crate::technique::{Technique, TechniqueError};

/// Batches that a loader prepares ahead of its model.
const AHEAD: usize = 3;

/// What all models of a run share.
pub(crate) struct Session<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) train: &'a Subset,
    pub(crate) transform: &'a Transform,
    pub(crate) archive: &'a dyn Archive,
    pub(crate) observer: &'a Mutex<dyn Observer>,
    pub(crate) interrupt: &'a Interrupt,
}

/// How a model's training ended.
pub(crate) enum Ending {
    /// The budget is used up or the judge stopped it; the leading model closes.
    Done(Option<Box<Closing>>),
    /// Interrupted; there is a state to go on from.
    Interrupted,
    /// The model failed, and the others go on without it.
    Lost,
}

/// A model that is going to be trained.
pub(crate) struct Model {
    pub(crate) number: usize,
    pub(crate) replica: Box<dyn Replica>,
    pub(crate) technique: Box<dyn Technique>,
}

/// One model on its way through the cycles.
pub(crate) struct Trainer<'a, C> {
    session: &'a Session<'a>,
    collective: C,
    /// The model's number. It stays, whoever takes part in the collective.
    number: usize,
    replica: Box<dyn Replica>,
    technique: Box<dyn Technique>,
    batches: Ahead,
    step: u64,
    losses: CycleLosses,
    time: ModelTime,
    images: usize,
    /// Only the first model leads: it stores, logs, and talks to the judge.
    leader: Option<Leader<'a>>,
}

impl<'a, C: Collective> Trainer<'a, C> {
    /// A model at its beginning, or where a saved state left it. The state is let go of: it is as
    /// large as the model.
    pub(crate) fn new(
        session: &'a Session<'a>,
        collective: C,
        Model { number, mut replica, mut technique }: Model,
        resumed: Option<ModelState>,
        leader: Option<Leader<'a>>,
    ) -> Result<Self, TrainError> {
        let step = resumed.as_ref().map_or(0, |part| part.step);
        let losses = resumed.as_ref().map_or_else(CycleLosses::default, |part| part.losses);
        let failed = |source| TrainError::Replica { replica: number, step, source };
        match resumed {
            None => technique.begin(replica.as_ref()).map_err(failed)?,
            Some(part) => {
                replica.restore(&part.state).map_err(failed)?;
                technique.restore(part.method)?;
            }
        }
        let batches = TrainingBatches::new(
            session.train.clone(),
            session.transform.clone(),
            session.settings.batch,
            position(session.settings, number, step),
        )?;
        Ok(Self {
            session,
            collective,
            number,
            replica,
            technique,
            batches: Ahead::spawn(batches, AHEAD)?,
            step,
            losses,
            time: ModelTime::default(),
            images: 0,
            leader,
        })
    }

    /// Algorithm 1: H steps, average, restart from the average; again.
    pub(crate) fn train(mut self) -> Result<Ending, TrainError> {
        if self.step == 0 && self.session.settings.init == Init::Shared {
            self.ensure_same_beginning()?;
            // It is part of no cycle.
            let _ = self.leader.as_ref().and_then(|_| self.collective.traffic());
        }
        for cycle in self.session.settings.plan.cycles_after(self.step) {
            if self.run_inner_steps(&cycle)? == Pace::Interrupted {
                return self.leave();
            }
            if self.await_verdict()? == Pace::Interrupted {
                return self.leave();
            }
            let Some((synchronized, took)) = self.synchronize(&cycle)? else {
                return self.leave();
            };
            let verdict = match &mut self.leader {
                // Stores, logs and hands over to the judge; answers for the cycle before.
                Some(leader) => leader.consider(&cycle, &synchronized, took)?,
                None => Verdict::Continue,
            };
            if self.collective.agree(verdict)? == Verdict::Stop {
                break;
            }
        }
        let Some(leader) = self.leader else { return Ok(Ending::Done(None)) };
        match leader.close(|| self.collective.check())? {
            Some(closing) => Ok(Ending::Done(Some(Box::new(closing)))),
            // What follows the newest state comes again, the last judgement included.
            None => Ok(Ending::Interrupted),
        }
    }

    /// The leading model waits for the judge here, not after the synchronization:
    /// here it can still save a state. The others wait for it at the average.
    fn await_verdict(&mut self) -> Result<Pace, TrainError> {
        let Some(leader) = &mut self.leader else { return Ok(Pace::Done) };
        match leader.await_verdict(|| self.collective.check()) {
            Ok(()) => Ok(Pace::Done),
            Err(CollectiveError::Interrupted) => Ok(Pace::Interrupted),
            Err(other) => Err(other.into()),
        }
    }

    /// A builder that draws from a generator of its own would give each model other
    /// initial weights, and nobody would notice.
    fn ensure_same_beginning(&mut self) -> Result<(), TrainError> {
        let mine = self.replica.weights().map_err(|source| self.failed(source))?;
        let mean = self.collective.average(mine.clone())?;
        let differs = mine.iter().find(|(name, tensor)| mean.get(name) != Some(tensor));
        match differs {
            None => Ok(()),
            Some((tensor, _)) => Err(TrainError::DifferentBeginnings {
                replica: self.number,
                tensor: tensor.to_owned(),
            }),
        }
    }

    fn run_inner_steps(&mut self, cycle: &Cycle) -> Result<Pace, TrainError> {
        while self.step < cycle.end {
            // Never before a cycle's first step: a state that stands at a cycle's end
            // means that its synchronization is still to come.
            if self.step > cycle.start && self.session.interrupt.is_requested() {
                return Ok(Pace::Interrupted);
            }
            self.collective.check()?;
            self.one_step()?;
            self.save_what_is_due(cycle)?;
        }
        Ok(Pace::Done)
    }

    fn one_step(&mut self) -> Result<(), TrainError> {
        let replica = self.number;
        let waiting = Instant::now();
        let ended = TrainError::LoaderEnded { replica, step: self.step };
        let batch = self.batches.next().ok_or(ended)??;
        let stepping = Instant::now();
        let rate = self.technique.rate(self.session.settings.plan.schedule.rate(self.step));
        // The model's own number, not that of the model whose initial weights it has.
        let position = position(self.session.settings, replica, self.step);
        let (model, descent) = (self.replica.as_mut(), self.session.settings.descent);
        let stats = self.technique.step(model, &batch, Step { rate, position }, descent);
        let stats = stats.map_err(|source| self.failed(source))?;
        self.step += 1;
        self.time.data += (stepping - waiting).as_secs_f64();
        self.time.steps += stepping.elapsed().as_secs_f64();
        self.images += batch.len();
        if !stats.loss.is_finite() {
            return Err(TrainError::Diverged { replica, step: self.step, loss: stats.loss, rate });
        }
        self.losses.add(stats.loss);
        let (step, loss, images) = (self.step, stats.loss, batch.len());
        let event = Event::Stepped(Stepped { replica, step, loss, rate, images });
        announce(self.session.observer, &event);
        Ok(())
    }

    fn save_what_is_due(&mut self, cycle: &Cycle) -> Result<(), TrainError> {
        let settings = self.session.settings;
        if settings.checkpoints.wants_inner(cycle, self.step) {
            let replica = self.number;
            let at = InnerPosition { cycle: cycle.number, replica, step: self.step };
            self.session.archive.save_inner(at, self.inner_weights()?)?;
        }
        let every = settings.checkpoints.state_every.get();
        if self.step.is_multiple_of(every) || self.step == settings.plan.max_steps.get() {
            self.save_state(Occasion::Step(self.step))?;
        }
        Ok(())
    }

    fn save_state(&mut self, occasion: Occasion) -> Result<(), TrainError> {
        let state = self.replica.state().map_err(|source| self.failed(source))?;
        self.ensure_finite(&state.weights)?;
        let method = self.technique.state()?;
        self.ensure_finite(&method)?;
        let part = ModelState { step: self.step, losses: self.losses, state, method };
        let lead = self.leader.as_mut().map(Leader::snapshot).transpose()?;
        self.session.archive.deliver(occasion, self.number, part, lead)
    }

    /// Interrupted: saves where this model is.
    fn leave(mut self) -> Result<Ending, TrainError> {
        self.save_state(Occasion::Interrupt)?;
        Ok(Ending::Interrupted)
    }

    /// Averages the models and lets the method go on. Nothing, if an interrupt came
    /// before all models had arrived.
    fn synchronize(
        &mut self,
        cycle: &Cycle,
    ) -> Result<Option<(Arc<Synchronized>, CycleTime)>, TrainError> {
        let began = Instant::now();
        let contribution = self.contribution(cycle)?;
        let synchronized = match self.collective.synchronize(contribution) {
            Err(CollectiveError::Interrupted) => return Ok(None),
            other => other?,
        };
        let (model, outer) = (self.replica.as_mut(), &synchronized.outer);
        match self.technique.go_on(model, outer, &mut self.collective) {
            Err(TechniqueError::Replica(source)) => return Err(self.failed(source)),
            Err(TechniqueError::Collective(error)) => return Err(error.into()),
            Ok(()) => {}
        }
        self.losses = CycleLosses::default();
        self.time = ModelTime::default();
        self.images = 0;
        let synchronization = began.elapsed().as_secs_f64();
        // Once: the models of a process share what they exchange with others.
        let traffic = self.leader.as_ref().and_then(|_| self.collective.traffic());
        Ok(Some((synchronized, CycleTime { synchronization, traffic, ..CycleTime::default() })))
    }

    fn contribution(&self, cycle: &Cycle) -> Result<Contribution, TrainError> {
        let settings = self.session.settings;
        let last = cycle.number == settings.plan.num_cycles();
        // Whenever this cycle may turn out to be the last, its models are looked at later.
        let surely = last || settings.judges_models();
        let model = match surely || settings.patience.is_some() {
            true => Some(self.replica.state().map_err(|source| self.failed(source))?.weights),
            false => None,
        };
        let seconds = self.time.steps + self.time.data;
        let images_per_second = if seconds > 0.0 { self.images as f64 / seconds } else { 0.0 };
        let time = ModelTime { images_per_second, ..self.time.clone() };
        let offered = self.technique.offered(self.replica.as_ref());
        let offered = offered.map_err(|source| self.failed(source))?;
        self.ensure_finite(&offered)?;
        let inner = InnerWeights::new(offered);
        // The verdict on the cycle before is there, and says whether this is the last.
        let stops = self.leader.as_ref().is_some_and(Leader::will_stop);
        let (report, models_wanted) = (self.losses.report(time), surely || stops);
        Ok(Contribution { inner, report, model, models_wanted })
    }

    fn inner_weights(&self) -> Result<Weights, TrainError> {
        let weights = self.replica.weights().map_err(|source| self.failed(source))?;
        self.ensure_finite(&weights)?;
        Ok(weights)
    }

    fn ensure_finite(&self, weights: &Weights) -> Result<(), TrainError> {
        match weights.first_non_finite() {
            None => Ok(()),
            Some(tensor) => Err(TrainError::NotFinite {
                replica: self.number,
                step: self.step,
                tensor: tensor.to_owned(),
            }),
        }
    }

    fn failed(&self, source: ReplicaError) -> TrainError {
        TrainError::Replica { replica: self.number, step: self.step, source }
    }
}

/// Where a model is after so many steps.
fn position(settings: &Settings, rank: usize, step: u64) -> Position {
    Position { seed: settings.seed, replica: rank as u32, step }
}

/// How a cycle's steps ended.
#[derive(Debug, PartialEq, Eq)]
enum Pace {
    Done,
    Interrupted,
}

impl CycleLosses {
    fn add(&mut self, loss: f64) {
        if self.steps == 0 {
            self.first = loss;
        }
        self.steps += 1;
        self.sum += loss;
        self.last = loss;
    }

    fn report(&self, time: ModelTime) -> ModelReport {
        ModelReport {
            loss: self.sum / self.steps.max(1) as f64,
            first_loss: self.first,
            last_loss: self.last,
            distance: 0.0,
            time,
        }
    }
}
