//! Models that are lost, and the others that go on without them.
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod toy;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hwa_core::OuterWeights;
use hwa_data::Batch;
use hwa_train::{
    Averaging, BuildTechnique, Collective, Descent, Interrupt, OnLostReplica, Outcome, Replica,
    ReplicaError, Settings, Step, StepStats, Technique, TechniqueError, TrainError, models_left,
};
use serde_json::Value;
use toy::{Fault, Rank, Recorder, Seat, fingerprint, settings, timeless_events};
use toy::{leave_out, train_by, train_in_ranks};

/// Three models, T = 24, H = 5, a state after every third step.
fn going_on() -> Settings {
    let mut settings = settings();
    settings.plan.num_models = NonZeroUsize::new(3).unwrap();
    settings.on_lost_replica = OnLostReplica::Continue;
    settings
}

/// Averaging, by a model that breaks down before one of its steps, whenever it gets there.
struct Breaking {
    step: u64,
}

impl Technique for Breaking {
    fn step(
        &mut self,
        model: &mut dyn Replica,
        batch: &Batch,
        at: Step,
        descent: Descent,
    ) -> Result<StepStats, ReplicaError> {
        if at.position.step == self.step {
            let reason = "it broke down".to_owned();
            return Err(ReplicaError::Framework { operation: "a step", reason });
        }
        descent.step(model, batch, at)
    }

    fn go_on(
        &mut self,
        model: &mut dyn Replica,
        outer: &OuterWeights,
        others: &mut dyn Collective,
    ) -> Result<(), TechniqueError> {
        Averaging::default().go_on(model, outer, others)
    }
}

/// Model 1 breaks down before its step 8: in the second cycle.
fn breaking(number: usize) -> Box<dyn Technique> {
    Box::new(Breaking { step: if number == 1 { 7 } else { u64::MAX } })
}

fn train(path: &Path, settings: &Settings, technique: &BuildTechnique<'_>) -> Outcome {
    train_by(path, settings, technique, &|_| None, &Default::default()).unwrap()
}

fn interrupted(path: &Path, settings: &Settings, technique: &BuildTechnique<'_>, step: u64) {
    let interrupt_at = Some((0, step, Interrupt::new()));
    let recorder = Recorder { interrupt_at, ..Recorder::default() }.into();
    let outcome = train_by(path, settings, technique, &|_| None, &recorder).unwrap();
    assert!(matches!(outcome, Outcome::Interrupted { .. }));
}

/// Names of the events, and the models of each cycle.
fn story(run: &Path) -> Vec<String> {
    let told = |event: &Value| match event["event"].as_str().unwrap() {
        "cycle_ended" => format!("{} models", event["models"].as_array().unwrap().len()),
        "replica_lost" => format!("model {} lost: {}", event["replica"], event["reason"]),
        other => other.to_owned(),
    };
    timeless_events(run).iter().map(told).filter(|name| name != "judged").collect()
}

#[test]
fn the_others_go_on_and_the_log_tells_since_when() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &going_on(), &breaking);
    let lost = "model 1 lost: \"model 1 failed after step 7: a step failed: it broke down\"";
    let two = "2 models";
    let expected = ["started", "3 models", lost, two, two, two, two, "finished"];
    assert_eq!(story(&run), expected);
}

#[test]
fn a_run_that_lost_a_model_resumes_to_itself_from_every_step() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let mut settings = going_on();
    settings.evaluate.inner = true;
    train(&whole, &settings, &breaking);
    for step in 1..24 {
        let run = folder.path().join(format!("run-{step}"));
        interrupted(&run, &settings, &breaking, step);
        train(&run, &settings, &breaking);
        assert_eq!(fingerprint(&run), fingerprint(&whole), "interrupted after step {step}");
    }
}

#[test]
fn without_the_wish_to_go_on_and_without_a_leader_the_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    for (number, on_lost_replica) in [(1, OnLostReplica::Stop), (0, OnLostReplica::Continue)] {
        let settings = Settings { on_lost_replica, ..going_on() };
        let faults = |seat| (seat == Seat::Model(number)).then_some(Fault::PanicAtStep(4));
        let path = folder.path().join(format!("run-{number}"));
        let technique = |_| Box::new(Averaging::default()) as Box<dyn Technique>;
        let failed = train_by(&path, &settings, &technique, &faults, &Default::default());
        let error = failed.unwrap_err().to_string();
        assert!(error.contains(&format!("model {number} panicked")), "{error}");
    }
}

#[test]
fn a_model_that_is_left_out_stays_out_in_threads_and_in_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { on_lost_replica: OnLostReplica::Stop, ..going_on() };
    let technique = |_| Box::new(Averaging::default()) as Box<dyn Technique>;
    let mut ends = Vec::new();
    for ranks in [0, 1, 2] {
        let run = folder.path().join(format!("run-{ranks}"));
        let failed = train_by(&run, &settings, &breaking, &|_| None, &Default::default());
        assert!(matches!(failed, Err(TrainError::Replica { replica: 1, step: 7, .. })));
        leave_out(&run, &settings, &[1], 1).unwrap();
        interrupted(&run, &settings, &breaking, 12);
        match ranks {
            0 => drop(train(&run, &settings, &technique)),
            ranks => {
                let rank = |_| Rank { technique: &technique, interrupt: Interrupt::new() };
                let ranks = (0..ranks).map(rank).collect();
                for outcome in train_in_ranks(&run, &settings, &|_| None, ranks) {
                    outcome.unwrap();
                }
            }
        }
        let lost = "model 1 lost: \"it was left out\"";
        assert_eq!(story(&run)[..4], ["started", "3 models", lost, "2 models"]);
        ends.push(fingerprint(&run));
    }
    assert!(ends[0] == ends[1] && ends[0] == ends[2]);
}

#[test]
fn a_single_rank_goes_on_without_a_model_as_threads_do() {
    let folder = tempfile::tempdir().unwrap();
    let (threads, rank) = (folder.path().join("threads"), folder.path().join("rank"));
    train(&threads, &going_on(), &breaking);
    let alone = Rank { technique: &breaking, interrupt: Interrupt::new() };
    let outcomes = train_in_ranks(&rank, &going_on(), &|_| None, vec![alone]);
    assert!(matches!(outcomes[..], [Ok(Outcome::Finished(_))]), "{outcomes:?}");
    assert_eq!(fingerprint(&rank), fingerprint(&threads));
    assert_eq!(models_left(&rank), Some(vec![0, 2]));
}

#[test]
fn the_first_model_can_be_left_out_too_and_another_leads() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let settings = going_on();
    let technique = |_| Box::new(Averaging::default()) as Box<dyn Technique>;
    interrupted(&run, &settings, &technique, 8);
    leave_out(&run, &settings, &[0], 1).unwrap();
    assert!(matches!(train(&run, &settings, &technique), Outcome::Finished(_)));
    assert_eq!(story(&run)[2..4], ["model 0 lost: \"it was left out\"", "2 models"]);
}

#[test]
fn what_is_not_there_cannot_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let settings = going_on();
    let technique = |_| Box::new(Averaging::default()) as Box<dyn Technique>;
    interrupted(&run, &settings, &technique, 8);
    let refused = |models: &[usize]| leave_out(&run, &settings, models, 1).unwrap_err().to_string();
    assert_eq!(refused(&[3]), "there is no model 3; there are 0, 1, 2");
    assert_eq!(refused(&[0, 1, 2]), "no model would be left");
    leave_out(&run, &settings, &[2], 1).unwrap();
    // Once more is no mistake: a job that is started again says the same again.
    let before = contents(&run);
    leave_out(&run, &settings, &[2], 1).unwrap();
    // Nor does anything change before it is known that the others can go on.
    let error = leave_out(&run, &settings, &[1], 2).unwrap_err().to_string();
    assert!(error.starts_with("2 ranks are too many for 1 models"), "{error}");
    assert!(contents(&run) == before);
    assert!(matches!(train(&run, &settings, &technique), Outcome::Finished(_)));
    let finished = contents(&run);
    leave_out(&run, &settings, &[1], 1).unwrap();
    assert!(contents(&run) == finished);
}

/// The log, and every file of the state.
fn contents(run: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(run.join("state")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.push(run.join("events.jsonl"));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn a_rank_without_a_model_is_one_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let settings = going_on();
    let technique = |_| Box::new(Averaging::default()) as Box<dyn Technique>;
    interrupted(&run, &settings, &technique, 8);
    leave_out(&run, &settings, &[1], 1).unwrap();
    let rank = |_| Rank { technique: &technique, interrupt: Interrupt::new() };
    let outcomes = train_in_ranks(&run, &settings, &|_| None, (0..3).map(rank).collect());
    let error = outcomes[0].as_ref().unwrap_err().to_string();
    assert!(error.starts_with("3 ranks are too many for 2 models"), "{error}");
}
