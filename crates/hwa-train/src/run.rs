//! A run: K models and a judge in threads, from the beginning or a saved state.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

use hwa_core::SlideWindow;
use hwa_data::{Part, Subset, Transform, steps_per_epoch};
use hwa_store::{CheckpointStore, Metadata, RunDir, StoreError, read_to_string, write_atomically};

use crate::collective::{Interrupt, ThreadGroup};
use crate::disk::DiskUse;
use crate::error::TrainError;
use crate::event::{EVENTS_FORMAT, Event, JudgeTime, Observer, Started, Summary, announce};
use crate::final_pass::{FinalPass, SealedTest};
use crate::judge::{Judge, JudgeSeat, JudgeState, desk};
use crate::leader::{Closing, Leader};
use crate::log::EventLog;
use crate::measure::Bench;
use crate::replica::{Replica, ReplicaError};
use crate::settings::{Init, Settings};
use crate::state::{Identity, Lead, Manifest, SavedState, StateStore};
use crate::technique::BuildTechnique;
use crate::trainer::{Ending, Session, Trainer};
use crate::usage::Usage;

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
    /// What the file of the chosen weights tells about them: the network, its classes, and the
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
        let checkpoints = self.dir.checkpoints();
        let mut states = self.states(checkpoints.clone());
        let manifest = states.newest()?;
        if let Some(summary) = self.finished()? {
            // Once more: the process may have been killed before it was through.
            states.tidy(summary.last_cycle)?;
            announce(self.observer, &Event::Finished(Box::new(summary.clone())));
            return Ok(Outcome::Finished(Box::new(summary)));
        }
        let beginning = || Lead {
            events_bytes: 0,
            judge: JudgeState::new(self.settings),
            pending: None,
            elapsed: 0.0,
            judging: 0.0,
            used: Usage::default(),
        };
        let lead = manifest.as_ref().map_or_else(beginning, |m| m.lead.clone());
        let mut log = EventLog::open(&self.dir.events(), lead.events_bytes)?;
        match &manifest {
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
        let session = Session {
            settings: self.settings,
            train: &self.train,
            transform: &self.transform,
            states: &states,
            checkpoints,
            observer: self.observer,
            interrupt: &self.interrupt,
        };
        if let Some(closing) = self.run_threads(&session, manifest.as_ref(), &lead, log)?
            && let Some(summary) = self.finish(closing, &states)?
        {
            return Ok(Outcome::Finished(Box::new(summary)));
        }
        // What was under way comes again after a resume from the newest state.
        let steps = states.newest()?.map_or_else(Vec::new, |manifest| manifest.steps());
        announce(self.observer, &Event::Interrupted { steps: steps.clone() });
        Ok(Outcome::Interrupted { steps })
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

    /// Trains in threads; nothing, if it was interrupted.
    fn run_threads(
        &self,
        session: &Session<'_>,
        manifest: Option<&Manifest>,
        lead: &Lead,
        log: EventLog,
    ) -> Result<Option<Closing>, TrainError> {
        let size = self.settings.plan.num_models.get();
        let group = ThreadGroup::new(size, self.interrupt.clone());
        let dismissed = AtomicBool::new(false);
        let (desk, seat) = desk(&self.interrupt, &dismissed);
        let mut leader = Some(Leader::new(session, log, desk, lead)?);
        let endings: Vec<Result<Ending, TrainError>> = thread::scope(|scope| {
            let judge = || {
                let served = self.serve_as_judge(seat, lead, &dismissed);
                if served.is_err() {
                    group.abort();
                }
                served
            };
            let judge = match spawn(scope, "the judge", judge) {
                Ok(handle) => handle,
                Err(error) => return vec![Err(error)],
            };
            let mut models = Vec::new();
            for rank in 0..size {
                let (leader, group) = (leader.take(), &group);
                let model = move || {
                    let ending = self.run_model(session, group, rank, manifest, leader);
                    if ending.is_err() {
                        group.abort();
                    }
                    ending
                };
                match spawn(scope, &format!("model {rank}"), model) {
                    Ok(handle) => models.push(handle),
                    Err(error) => {
                        group.abort();
                        return vec![Err(error)];
                    }
                }
            }
            let join = |(rank, model): (usize, ScopedJoinHandle<'_, _>)| {
                model
                    .join()
                    .unwrap_or_else(|panic| Err(panicked(&format!("model {rank}"), &*panic)))
            };
            let mut endings: Vec<_> = models.into_iter().enumerate().map(join).collect();
            let served = judge.join().unwrap_or_else(|panic| Err(panicked("the judge", &*panic)));
            if let Err(error) = served {
                // First: what follows the judge's failure are its echoes.
                endings.insert(0, Err(error));
            }
            endings
        });
        ended(endings)
    }

    fn run_model(
        &self,
        session: &Session<'_>,
        group: &ThreadGroup,
        rank: usize,
        manifest: Option<&Manifest>,
        leader: Option<Leader<'_>>,
    ) -> Result<Ending, TrainError> {
        let who = format!("model {rank}");
        on_its_own_threads(&who, self.threads_per_model, || {
            let init = match self.settings.init {
                Init::Shared => 0,
                Init::Independent => rank as u32,
            };
            let replica = self.build(&who, init)?;
            let resumed = manifest.map(|m| session.states.load(m, rank)).transpose()?;
            let member = group.member(rank);
            let model = (replica, (self.technique)(rank));
            Trainer::new(session, member, model, resumed.as_ref(), leader)?.train()
        })
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

    /// The final pass; nothing, if it was interrupted.
    fn finish(
        &self,
        mut closing: Closing,
        states: &StateStore,
    ) -> Result<Option<Summary>, TrainError> {
        // The models are done: their threads are free.
        let threads = self.threads_per_model * self.settings.plan.num_models.get();
        let summary = on_its_own_threads("the final pass", threads, || {
            let checkpoints = self.dir.checkpoints();
            let cancelled = || self.interrupt.is_requested();
            let pass = FinalPass {
                bench: self.bench(&cancelled),
                replica: self.build("the final pass's model", 0)?,
                validation: &self.validation,
                test: &self.test,
                best: &self.dir.best(),
                checkpoints: &checkpoints,
            };
            pass.run(&closing)
        });
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
}

/// How all models ended together.
fn ended(endings: Vec<Result<Ending, TrainError>>) -> Result<Option<Closing>, TrainError> {
    let (mut closing, mut echo) = (None, None);
    for ending in endings {
        match ending {
            Ok(Ending::Done(mine)) => closing = closing.or(mine),
            Ok(Ending::Interrupted) => {}
            Err(error) if error.is_echo() => echo = Some(error),
            Err(error) => return Err(error),
        }
    }
    echo.map_or(Ok(closing.map(|closing| *closing)), Err)
}

/// Runs `work` in a pool of its own: a shared pool would serialise the models.
/// The work starts and ends inside the pool, because a replica never moves. A
/// panic becomes an error that names who panicked.
fn on_its_own_threads<T: Send>(
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
    catch_unwind(AssertUnwindSafe(|| pool.install(work)))
        .unwrap_or_else(|panic| Err(panicked(who, &*panic)))
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    who: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, TrainError> {
    let started = thread::Builder::new().name(who.to_owned()).spawn_scoped(scope, work);
    started.map_err(|e| TrainError::Threads { who: who.to_owned(), reason: e.to_string() })
}

fn panicked(who: &str, panic: &(dyn Any + Send)) -> TrainError {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let message = text.unwrap_or_else(|| "without a message".to_owned());
    TrainError::Panicked { who: who.to_owned(), message }
}
