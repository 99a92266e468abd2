//! A run: K models and a judge in threads, from the beginning or a saved state.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ScopedJoinHandle};

use hwa_core::SlideWindow;
use hwa_data::{Part, Subset, Transform, steps_per_epoch};
use hwa_store::{CheckpointStore, Metadata, RunDir, StoreError, read_to_string, write_atomically};

use crate::archive::Files;
use crate::collective::{Interrupt, ThreadGroup};
use crate::crew::{
    Crew, Meeting, ended, guarded, joined, on_its_own_threads, panicked, served, spawn,
};
use crate::disk::DiskUse;
use crate::error::TrainError;
use crate::event::{EVENTS_FORMAT, Event, JudgeTime, Observer, Started, Summary, announce};
use crate::final_pass::{FinalPass, SealedTest};
use crate::judge::{Judge, JudgeSeat, JudgeState, desk};
use crate::leader::{Closing, Leader};
use crate::log::EventLog;
use crate::measure::Bench;
use crate::ranks::{Blocks, Clerk, Hall, Opening, Ranks, Service, beside};
use crate::replica::{Replica, ReplicaError};
use crate::settings::{OnLostReplica, Settings};
use crate::state::{Identity, Lead, Manifest, SavedState, StateStore};
use crate::technique::BuildTechnique;
use crate::trainer::{Ending, Session};

/// Builds a replica in the thread that calls it, with the initial weights of the
/// given model number. Replicas are built, never cloned.
pub type BuildReplica<'a> = dyn Fn(u32) -> Result<Box<dyn Replica>, ReplicaError> + Sync + 'a;

/// Everything a run needs.
pub struct Run<'a> {
    /// What to do.
    pub settings: &'a Settings,
    /// Training images.
    pub train: Subset,
    /// Validation images: they choose.
    pub validation: Subset,
    /// Test images: read in the final pass.
    pub test: SealedTest,
    /// From bytes to floats.
    pub transform: Transform,
    /// The models.
    pub build: &'a BuildReplica<'a>,
    /// What the method does in steps and at the end of cycles.
    pub technique: &'a BuildTechnique<'a>,
    /// What files of weights tell about them: the network, its classes, and the
    /// like. Keys of the loop's own (`cycle`, `kind`, `members`, `statistics`) come first.
    pub about: Metadata,
    /// Where everything is kept. A state in it is gone on from.
    pub dir: &'a RunDir,
    /// What makes a saved state this run's own.
    pub identity: Identity,
    /// Threads for the arithmetic of one model.
    pub threads_per_model: usize,
    /// Who watches.
    pub observer: &'a Mutex<dyn Observer>,
    /// Who may interrupt.
    pub interrupt: Interrupt,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// With these figures.
    Finished(Box<Summary>),
    /// By an interrupt, after so many steps of each model; it can be resumed.
    Interrupted {
        /// Steps by model.
        steps: Vec<u64>,
    },
}

impl Run<'_> {
    /// Trains to the end, to an interrupt, or to an error. A run that is finished
    /// is not trained again: it gives its figures.
    pub fn train(&self) -> Result<Outcome, TrainError> {
        self.conduct(None)
    }

    /// The same with other processes, of which this is the leading one: it has the first
    /// models, the judge and the files. The others are [`Assistant`](crate::Assistant)s, and stay
    /// until [`Ranks::end`] tells them that nothing is left to do. If there is no other, it is as
    /// [`Self::train`].
    pub fn train_with(&self, ranks: &mut Ranks<'_>) -> Result<Outcome, TrainError> {
        if ranks.size() == 1 {
            return self.train();
        }
        self.conduct(Some(&mut *ranks)).map_err(|error| ranks.named(error))
    }

    fn conduct(&self, ranks: Option<&mut Ranks<'_>>) -> Result<Outcome, TrainError> {
        self.attempt(ranks).inspect_err(|error| {
            if let TrainError::Diverged { step, .. } | TrainError::NotFinite { step, .. } = error {
                let event = Event::Diverged { step: *step, reason: error.to_string() };
                // The error is told anyhow. A resumed run forgets this, and gets there again.
                let _ = EventLog::append(&self.dir.events(), &event);
            }
        })
    }

    fn attempt(&self, mut ranks: Option<&mut Ranks<'_>>) -> Result<Outcome, TrainError> {
        let Beginning { files, manifest, lead, log } = match beside(&mut ranks, || self.begin())?? {
            ControlFlow::Continue(beginning) => beginning,
            ControlFlow::Break(summary) => return Ok(Outcome::Finished(summary)),
        };
        let part = |number: usize| {
            let load = |m| files.states.load(m, number);
            manifest.as_ref().map(load).transpose()
        };
        let session = Session {
            settings: self.settings,
            train: &self.train,
            transform: &self.transform,
            archive: &files,
            observer: self.observer,
            interrupt: &self.interrupt,
        };
        let all = || (0..self.settings.plan.num_models.get()).collect();
        let models: Vec<usize> = manifest.as_ref().map_or_else(all, |m| m.models());
        let total = models.len();
        let mut crew = Crew {
            session: &session,
            build: self.build,
            technique: self.technique,
            threads_per_model: self.threads_per_model,
            meeting: Meeting::Threads(self.group(total)),
            here: 0..total,
            models,
            resumed: &part,
        };
        let closing = match &mut ranks {
            None => self.run_threads(&crew, None, (&files, &lead, log))?,
            Some(ranks) if ranks.size() > total => {
                return Err(TrainError::TooManyRanks { ranks: ranks.size(), models: total });
            }
            Some(ranks) => {
                let resumed = manifest.is_some();
                let opening = Opening { models: crew.models.clone(), resumed };
                ranks.open(&opening, part)?;
                crew.here = Blocks::new(total, ranks.size()).of(0);
                crew.meeting = Meeting::Ranks(Arc::new(Hall::new(crew.here.clone(), &crew.models)));
                self.run_threads(&crew, Some(ranks), (&files, &lead, log))?
            }
        };
        if let Some(closing) = closing
            && let Some(summary) =
                self.finish(closing, &files.states, &mut ranks, crew.here.len())?
        {
            return Ok(Outcome::Finished(Box::new(summary)));
        }
        // What was under way comes again after a resume from the newest state.
        let newest = beside(&mut ranks, || files.states.saved())??;
        let steps = newest.map_or_else(Vec::new, |state| state.steps);
        announce(self.observer, &Event::Interrupted { steps: steps.clone() });
        Ok(Outcome::Interrupted { steps })
    }

    /// Looks at what is there, and begins the log; gives the figures of a run that is finished.
    fn begin(&self) -> Result<ControlFlow<Box<Summary>, Beginning>, TrainError> {
        let checkpoints = self.dir.checkpoints().telling(self.about.clone());
        let mut states = self.states(checkpoints.clone());
        let manifest = states.newest()?;
        if let Some(summary) = self.finished()? {
            // Once more: the process may have been killed before it was through.
            states.tidy(summary.last_cycle)?;
            let summary = Box::new(summary);
            announce(self.observer, &Event::Finished(summary.clone()));
            return Ok(ControlFlow::Break(summary));
        }
        let lead = match &manifest {
            Some(manifest) => manifest.lead.clone(),
            None => Lead::beginning(JudgeState::new(self.settings)),
        };
        let log = self.open_log(manifest.as_ref(), &lead)?;
        let files = Files { states, checkpoints };
        Ok(ControlFlow::Continue(Beginning { files, manifest, lead, log }))
    }

    /// The log, up to where the state left it; of a new run, with its first event.
    fn open_log(&self, manifest: Option<&Manifest>, lead: &Lead) -> Result<EventLog, TrainError> {
        let mut log = EventLog::open(&self.dir.events(), lead.events_bytes)?;
        match manifest {
            None => {
                let started = self.started()?;
                log.record(&started)?;
                announce(self.observer, &started);
            }
            Some(manifest) => {
                let steps = manifest.steps();
                announce(self.observer, &Event::Resumed { steps });
            }
        }
        Ok(log)
    }

    fn group(&self, models: usize) -> ThreadGroup {
        match self.settings.on_lost_replica {
            OnLostReplica::Stop => ThreadGroup::new(models, self.interrupt.clone()),
            OnLostReplica::Continue => ThreadGroup::tolerant(models, self.interrupt.clone()),
        }
    }

    /// Leaves models out of the newest state, so that [`Self::train`] goes on without them, in so
    /// many `ranks`. That they are left out is recorded. Models that were left out before, and runs
    /// that are finished, stay as they are.
    pub fn leave_out(&self, models: &[usize], ranks: usize) -> Result<(), TrainError> {
        if self.finished()?.is_some() {
            return Ok(());
        }
        let mut states = self.states(self.dir.checkpoints());
        let manifest = states.newest()?.ok_or(TrainError::NoState)?;
        let there = manifest.models();
        let mut models: BTreeSet<usize> = models.iter().copied().collect();
        models.retain(|model| !manifest.has_lost(*model));
        if let Some(model) = models.iter().find(|model| !there.contains(model)) {
            return Err(TrainError::NoSuchModel { model: *model, there });
        }
        if models.len() == there.len() {
            return Err(TrainError::NoModelLeft);
        }
        let left = there.len() - models.len();
        if ranks > left {
            return Err(TrainError::TooManyRanks { ranks, models: left });
        }
        if models.is_empty() {
            return Ok(());
        }
        let mut log = EventLog::open(&self.dir.events(), manifest.lead.events_bytes)?;
        let steps: BTreeMap<usize, u64> = there.into_iter().zip(manifest.steps()).collect();
        for model in &models {
            let (replica, step) = (*model, steps.get(model).copied());
            let reason = "it was left out".to_owned();
            log.record(&Event::ReplicaLost { replica, step, reason })?;
        }
        states.leave_out(manifest, &models, log.synced_bytes()?)
    }

    /// The state that [`Self::train`] would go on from, if there is one.
    pub fn saved_state(&self) -> Result<Option<SavedState>, TrainError> {
        self.states(self.dir.checkpoints()).saved()
    }

    /// The manifests of the states that are kept, oldest first. Without the last one,
    /// [`Self::train`] goes on from the one before.
    pub fn manifests(&self) -> Result<Vec<PathBuf>, TrainError> {
        self.states(self.dir.checkpoints()).all()
    }

    fn states(&self, checkpoints: CheckpointStore) -> StateStore {
        StateStore::new(self.dir.state(), self.identity.clone(), self.settings, checkpoints)
    }

    /// The figures of a run that is finished.
    fn finished(&self) -> Result<Option<Summary>, TrainError> {
        let path = self.dir.summary();
        if !path.is_file() {
            return Ok(None);
        }
        let json = |source| StoreError::Json { path: path.clone(), source };
        Ok(Some(serde_json::from_str(&read_to_string(&path)?).map_err(json)?))
    }

    fn started(&self) -> Result<Event, TrainError> {
        let plan = &self.settings.plan;
        let (parameters, disk) =
            on_its_own_threads("the first model", self.threads_per_model, || {
                let replica = self.build("the first model", 0)?;
                let failed = |source| TrainError::Replica { replica: 0, step: 0, source };
                let weights = replica.weights().map_err(failed)?;
                let state = replica.state().map_err(failed)?;
                let disk = DiskUse::expected(self.settings, &weights, &state);
                Ok((weights.num_elements(), disk))
            })?;
        Ok(Event::Started(Started {
            format: EVENTS_FORMAT,
            num_models: plan.num_models.get(),
            max_steps: plan.max_steps.get(),
            sync_period: plan.sync_period.get(),
            steps_per_epoch: steps_per_epoch(self.train.len(), self.settings.batch),
            num_cycles: plan.num_cycles(),
            windows: plan.windows.clone(),
            parameters,
            offers: (self.technique)(0).offers().to_owned(),
            images: [self.train.len(), self.validation.len(), self.test.len()],
            disk,
        }))
    }

    /// Trains the models that are here; nothing, if it was interrupted.
    fn run_threads<'c>(
        &self,
        crew: &'c Crew<'c>,
        mut ranks: Option<&mut Ranks<'_>>,
        (files, lead, log): (&'c Files, &Lead, EventLog),
    ) -> Result<Option<Closing>, TrainError> {
        let dismissed = AtomicBool::new(false);
        let busy = AtomicBool::new(false);
        let (desk, seat) = desk(&self.interrupt, &dismissed);
        let leader = beside(&mut ranks, || Leader::new(crew.session, files, log, desk, lead))??;
        let endings: Vec<Result<Ending, TrainError>> = thread::scope(|scope| {
            let judge = || {
                let served = guarded("the judge", || self.serve_as_judge(seat, lead, &dismissed));
                served.inspect_err(|error| crew.meeting.abort(error))
            };
            let judge = match spawn(scope, "the judge", judge) {
                Ok(handle) => handle,
                Err(error) => return vec![Err(error)],
            };
            let models = match crew.start(scope, Some(leader)) {
                Ok(models) => models,
                Err(error) => return vec![Err(error)],
            };
            let endings = match (ranks, &crew.meeting) {
                (Some(ranks), Meeting::Ranks(hall)) => {
                    let (clerk, desk) = Clerk::new(&busy);
                    let abort = |error: &TrainError| hall.abort(&error.to_string());
                    let keep = move || desk.keep_all(files).inspect_err(abort);
                    let kept = match spawn(scope, "the clerk", keep).inspect_err(abort) {
                        Ok(handle) => handle,
                        Err(error) => return vec![Err(error)],
                    };
                    let blocks = Blocks::new(crew.models.len(), ranks.size());
                    let (interrupt, clerk) = (&self.interrupt, Some(clerk));
                    let service = Service { hall, interrupt, models: blocks, clerk };
                    let endings = served(ranks, &service, || joined(models));
                    // Nothing more can come to be kept.
                    drop(service);
                    with(endings, kept, "the clerk")
                }
                _ => joined(models),
            };
            with(endings, judge, "the judge")
        });
        ended(endings)
    }

    fn serve_as_judge(
        &self,
        seat: JudgeSeat,
        lead: &Lead,
        dismissed: &AtomicBool,
    ) -> Result<(), TrainError> {
        let cancelled = || dismissed.load(Ordering::Acquire) || self.interrupt.is_requested();
        let cancelled: &(dyn Fn() -> bool + Sync) = &cancelled;
        on_its_own_threads("the judge", self.threads_per_model, move || {
            let mut judge = Judge {
                bench: self.bench(cancelled),
                validation: &self.validation,
                train_sample: self.train_sample()?,
                spent: JudgeTime::default(),
                replica: self.build("the judge's model", 0)?,
                windows: self.windows(),
                state: lead.judge.clone(),
                best_path: self.dir.best(),
                about: &self.about,
                observer: self.observer,
            };
            self.refill(&mut judge, lead)?;
            seat.judge_all(judge)
        })
    }

    /// The training images that results are evaluated on, if they are.
    fn train_sample(&self) -> Result<Option<Subset>, TrainError> {
        let Some(count) = self.settings.evaluate.train_images else { return Ok(None) };
        if count.get() >= self.train.len() {
            return Ok(Some(self.train.clone()));
        }
        Ok(Some(self.train.hold_out(count.get(), self.settings.seed, Part::Train)?.0))
    }

    /// Puts back the window's members that were there when the state was saved.
    fn refill(&self, judge: &mut Judge<'_>, lead: &Lead) -> Result<(), TrainError> {
        let answered = lead.pending.map_or(0, |cycle| cycle - 1);
        if answered == 0 || judge.windows.is_empty() {
            return Ok(());
        }
        let checkpoints = self.dir.checkpoints();
        for cycle in self.settings.plan.oldest_member(answered)..=answered {
            judge.push(cycle, &checkpoints.load_outer(cycle)?);
        }
        Ok(())
    }

    fn windows(&self) -> Vec<SlideWindow> {
        self.settings.plan.windows.iter().copied().map(SlideWindow::new).collect()
    }

    fn bench<'b>(&'b self, cancelled: &'b (dyn Fn() -> bool + Sync)) -> Bench<'b> {
        let (settings, transform) = (self.settings, &self.transform);
        Bench { settings, transform, train: &self.train, cancelled }
    }

    fn build(&self, who: &str, init: u32) -> Result<Box<dyn Replica>, TrainError> {
        let who = who.to_owned();
        (self.build)(init).map_err(|source| TrainError::Build { who, source })
    }

    /// The final pass, and what is written after it; nothing, if it was interrupted. Other
    /// processes wait for all of it.
    fn finish(
        &self,
        closing: Closing,
        states: &StateStore,
        ranks: &mut Option<&mut Ranks<'_>>,
        models_here: usize,
    ) -> Result<Option<Summary>, TrainError> {
        let close = || self.close(closing, states, models_here);
        match ranks {
            None => close(),
            Some(ranks) => {
                let closed = ranks.while_busy(&self.interrupt, close)?;
                closed.unwrap_or_else(|panic| Err(panicked("the final pass", &*panic)))
            }
        }
    }

    fn close(
        &self,
        mut closing: Closing,
        states: &StateStore,
        models_here: usize,
    ) -> Result<Option<Summary>, TrainError> {
        let summary = self.final_pass(&closing, models_here);
        // First: a pass that was cut short may also have failed of it.
        if self.interrupt.is_requested() {
            return Ok(None);
        }
        let summary = summary?;
        let finished = Event::Finished(Box::new(summary.clone()));
        states.flush_kept(summary.last_cycle)?;
        closing.log.record(&finished)?;
        closing.log.synced_bytes()?;
        // The summary comes last: where it is, a run is finished.
        let path = self.dir.summary();
        let text = serde_json::to_string_pretty(&summary)
            .map_err(|source| StoreError::Json { path: path.clone(), source })?;
        write_atomically(&path, |file| writeln!(file, "{text}"))?;
        // After it: a run without a summary may need outer weights that it will not keep.
        states.tidy(summary.last_cycle)?;
        announce(self.observer, &finished);
        Ok(Some(summary))
    }

    fn final_pass(&self, closing: &Closing, models_here: usize) -> Result<Summary, TrainError> {
        // The models are done: their threads are free.
        let threads = self.threads_per_model * models_here;
        on_its_own_threads("the final pass", threads, || {
            let checkpoints = self.dir.checkpoints();
            let cancelled = || self.interrupt.is_requested();
            let pass = FinalPass {
                bench: self.bench(&cancelled),
                replica: self.build("the final pass's model", 0)?,
                validation: &self.validation,
                test: &self.test,
                best: &self.dir.best(),
                checkpoints: &checkpoints,
                observer: self.observer,
            };
            pass.run(closing)
        })
    }
}

/// What a run begins with.
struct Beginning {
    files: Files,
    /// The state that it goes on from, if there is one.
    manifest: Option<Manifest>,
    lead: Lead,
    log: EventLog,
}

/// The endings of the models with that of somebody beside them. A failure comes first: what
/// follows it are its echoes.
fn with(
    mut endings: Vec<Result<Ending, TrainError>>,
    beside: ScopedJoinHandle<'_, Result<(), TrainError>>,
    who: &str,
) -> Vec<Result<Ending, TrainError>> {
    let outcome = beside.join().unwrap_or_else(|panic| Err(panicked(who, &*panic)));
    if let Err(error) = outcome {
        endings.insert(0, Err(error));
    }
    endings
}
