//! Hierarchical weight averaging over any model.
//!
//! K replicas train in parallel; every H steps they are averaged and restart from
//! the average (Algorithm 1); beside them a judge slides a window over the saved
//! averages, re-estimates batch-norm statistics and chooses on validation data
//! (Algorithm 2). The loop knows models only as [`Replica`]s, so all of it is
//! tested in milliseconds on a toy.

mod archive;
mod collective;
mod crew;
mod descent;
mod disk;
mod error;
mod event;
mod experiment;
mod final_pass;
mod judge;
mod keys;
mod last_models;
mod leader;
mod log;
mod measure;
mod method;
mod mistake;
mod parse;
mod ranks;
mod replica;
mod run;
mod same;
mod scale;
mod settings;
mod span;
mod state;
mod technique;
mod trainer;
mod usage;

pub use collective::{
    Collective, CollectiveError, Contribution, Interrupt, Loss, Synchronized, ThreadGroup,
    ThreadMember, Verdict,
};
pub use crew::Assistant;
pub use descent::Descent;
pub use disk::DiskUse;
pub use error::TrainError;
pub use event::{
    BestOnTest, CycleEnded, CycleTime, EVENTS_FORMAT, Evaluation, Event, JudgeTime, Judged, Levels,
    ModelReport, ModelTime, Observer, OnlineSummary, Started, Stepped, Summary, SummaryTime,
    Traffic, WindowEvaluation, WindowSummary,
};
pub use experiment::{
    Auto, Budget, CheckpointsTable, Convolution, Data, EmaTable, EvaluateTable, EveryText,
    Experiment, Fg, Hwa, LogTable, LookaheadTable, Method, Model, Optimizer, Per, Repr,
    ScheduleKind, ScheduleTable, Stop, Swa, WindowLengths, WindowText,
};
pub use final_pass::SealedTest;
pub use last_models::last_models;
pub use measure::evaluate;
pub use mistake::mistake_in;
pub use parse::{ExperimentError, line_of};
pub use ranks::{
    BUFFER, Blocks, Images, Incoming, Outgoing, Ranks, RanksError, Reason, Rehearsal, Terms,
    TimeAwake, Transport, beside, called, pause_after, rehearsal, rendezvous,
};
pub use replica::{
    Recalibration, Replica, ReplicaError, RunningStatistics, State, Step, StepStats, Tally,
};
pub use run::{BuildReplica, Outcome, Run};
pub use scale::{Scaled, scaled};
pub use settings::{
    Candidates, Checkpoints, Evaluate, Every, Init, JUDGE_SHARE, MomentumAtSync, OnLostReplica,
    Settings,
};
pub use span::{Span, SpanError};
pub use state::{Identity, SavedState, has_state, models_left};
pub use technique::{
    Averaging, BuildTechnique, Ema, Grafting, Lookahead, RePr, Stage, Technique, TechniqueError,
};
pub use usage::Usage;
