//! What the first model does for all: store, log, and talk to the judge.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use hwa_core::{Cycle, OuterWeights, Weights};

use crate::archive::Files;
use crate::collective::{CollectiveError, Loss, Synchronized, Verdict};
use crate::error::TrainError;
use crate::event::{CycleEnded, CycleTime, Event, announce};
use crate::judge::{Case, JudgeDesk, JudgeState};
use crate::log::EventLog;
use crate::state::{Lead, oldest_needed};
use crate::trainer::Session;
use crate::usage::Usage;

/// The first model's additional duties.
pub(crate) struct Leader<'a> {
    session: &'a Session<'a>,
    files: &'a Files,
    log: EventLog,
    desk: JudgeDesk<'a>,
    judge: JudgeState,
    /// Seconds of training before this session.
    earlier: f64,
    began: Instant,
    /// What was used of the machine before this session.
    used: Usage,
    /// What this process had used when it began.
    beginning: Usage,
    judge_seconds: f64,
    last: Option<LastCycle>,
    /// The cycle whose models were last saved for its judgement.
    models_saved: Option<usize>,
    /// How many models the cycle had whose verdict is out, if some are lost.
    pending_models: Option<usize>,
    /// Losses of earlier sessions that are not in the log yet.
    unrecorded: Vec<Loss>,
    /// Models whose loss this session has put there.
    recorded: BTreeSet<usize>,
}

/// What is known when training is over.
pub(crate) struct Closing {
    pub(crate) log: EventLog,
    pub(crate) judge: JudgeState,
    pub(crate) last: Option<LastCycle>,
    pub(crate) seconds: f64,
    pub(crate) judge_seconds: f64,
    /// What was used before this session, and by this process before it began.
    pub(crate) used: Usage,
    pub(crate) beginning: Usage,
}

impl Closing {
    /// What was used of the machine until now.
    pub(crate) fn usage(&self) -> Usage {
        Usage::of_this_process().since(self.beginning, self.used)
    }
}

/// The models and their average at the end of the last cycle.
pub(crate) struct LastCycle {
    pub(crate) cycle: usize,
    pub(crate) outer: OuterWeights,
    pub(crate) inner: Vec<Arc<Weights>>,
}

impl<'a> Leader<'a> {
    /// Takes up the duties, at the beginning or where `lead` left them.
    pub(crate) fn new(
        session: &'a Session<'a>,
        files: &'a Files,
        log: EventLog,
        desk: JudgeDesk<'a>,
        lead: &Lead,
    ) -> Result<Self, TrainError> {
        let mut leader = Self {
            session,
            files,
            log,
            desk,
            judge: lead.judge.clone(),
            earlier: lead.elapsed,
            began: Instant::now(),
            used: lead.used,
            beginning: Usage::of_this_process(),
            judge_seconds: lead.judging,
            last: None,
            // The state that is gone on from has them.
            models_saved: lead.pending,
            pending_models: lead.pending_models,
            unrecorded: lead.unrecorded.clone(),
            recorded: BTreeSet::new(),
        };
        if let Some(number) = lead.pending {
            leader.hand_in_again(number, lead.pending_models)?;
        }
        Ok(leader)
    }

    /// A verdict that was still out when the state was saved is asked for again.
    fn hand_in_again(&mut self, number: usize, models: Option<usize>) -> Result<(), TrainError> {
        let Some(cycle) = self.session.settings.plan.cycle(number) else { return Ok(()) };
        let outer = self.files.checkpoints.load_outer(number)?;
        let inner = match self.session.settings.judges_models() {
            true => self.files.states.load_pending(number, models)?,
            false => Vec::new(),
        };
        self.desk.hand_in(Case { cycle, outer, inner });
        Ok(())
    }

    /// Waits for the verdict on the cycle before. An interrupt ends the wait, and
    /// leaves a state in which that verdict is still out.
    pub(crate) fn await_verdict(
        &mut self,
        check: impl Fn() -> Result<(), CollectiveError>,
    ) -> Result<(), CollectiveError> {
        self.desk.wait(check)
    }

    /// Whether the verdict that was waited for ends the run after this cycle.
    pub(crate) fn will_stop(&self) -> bool {
        self.desk.verdict() == Some(Verdict::Stop)
    }

    /// Stores and logs a cycle, hands it to the judge, and returns the verdict on
    /// the cycle before, which was waited for.
    pub(crate) fn consider(
        &mut self,
        cycle: &Cycle,
        synchronized: &Synchronized,
        took: CycleTime,
    ) -> Result<Verdict, TrainError> {
        let settings = self.session.settings;
        let outer = &synchronized.outer;
        self.files.checkpoints.save_outer(cycle.number, cycle.end, outer)?;
        self.record_losses(&synchronized.lost)?;
        let ended = Event::CycleEnded(CycleEnded {
            cycle: cycle.number,
            step: cycle.end,
            rate: settings.plan.schedule.rate(cycle.end - 1),
            models: synchronized.reports.clone(),
            time: CycleTime { elapsed: self.elapsed(), ..took },
        });
        self.log.record(&ended)?;
        announce(self.session.observer, &ended);

        let verdict = self.hear()?;
        let inner = if settings.judges_models() { synchronized.models.clone() } else { Vec::new() };
        self.desk.hand_in(Case { cycle: *cycle, outer: outer.clone(), inner });
        self.pending_models = self.files.states.fewer(synchronized.reports.len());
        self.last = Some(LastCycle {
            cycle: cycle.number,
            outer: outer.clone(),
            inner: synchronized.models.clone(),
        });
        Ok(verdict)
    }

    fn record_losses(&mut self, lost: &[Loss]) -> Result<(), TrainError> {
        let earlier = std::mem::take(&mut self.unrecorded);
        for Loss { model, step, reason } in earlier.into_iter().chain(lost.iter().cloned()) {
            if self.recorded.insert(model) {
                let event = Event::ReplicaLost { replica: model, step, reason };
                self.log.record(&event)?;
                announce(self.session.observer, &event);
            }
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<Verdict, TrainError> {
        let Some(answer) = self.desk.take() else { return Ok(Verdict::Continue) };
        if let Some(judged) = answer.judged {
            self.log.record(&Event::Judged(Box::new(judged)))?;
        }
        self.judge = answer.state;
        self.judge_seconds += answer.seconds;
        Ok(answer.verdict)
    }

    /// The run's part of a state. What the state needs is on the disk before it.
    pub(crate) fn snapshot(&mut self) -> Result<Lead, TrainError> {
        let settings = self.session.settings;
        let pending = self.desk.pending();
        let needed = oldest_needed(&settings.plan, pending);
        let keeps = |cycle| settings.checkpoints.keeps(cycle, &settings.plan);
        self.files.checkpoints.flush_outer(|cycle| cycle >= needed || keeps(cycle))?;
        if let Some(last) = &self.last
            && settings.judges_models()
            && pending == Some(last.cycle)
            && pending != self.models_saved
        {
            self.files.states.save_pending(last.cycle, &last.inner)?;
            self.models_saved = pending;
        }
        Ok(Lead {
            events_bytes: self.log.synced_bytes()?,
            judge: self.judge.clone(),
            pending,
            pending_models: pending.and(self.pending_models),
            unrecorded: Vec::new(),
            recorded: self.recorded.clone(),
            elapsed: self.elapsed(),
            judging: self.judge_seconds,
            used: self.usage(),
        })
    }

    /// Waits for the verdict on the last cycle. Nothing, if an interrupt came first.
    pub(crate) fn close(
        mut self,
        check: impl Fn() -> Result<(), CollectiveError>,
    ) -> Result<Option<Closing>, TrainError> {
        match self.desk.wait(check) {
            Err(CollectiveError::Interrupted) => return Ok(None),
            other => other?,
        }
        self.hear()?;
        let last = self.last.as_ref().map_or(0, |last| last.cycle);
        if last < self.session.settings.plan.num_cycles() {
            let event = Event::StoppedEarly { cycle: last };
            self.log.record(&event)?;
            announce(self.session.observer, &event);
        }
        let seconds = self.elapsed();
        let Self { log, judge, last, judge_seconds, used, beginning, .. } = self;
        Ok(Some(Closing { log, judge, last, seconds, judge_seconds, used, beginning }))
    }

    fn elapsed(&self) -> f64 {
        self.earlier + self.began.elapsed().as_secs_f64()
    }

    fn usage(&self) -> Usage {
        Usage::of_this_process().since(self.beginning, self.used)
    }
}
