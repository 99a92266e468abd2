//! Training in several ranks is training in threads, bit for bit. The ranks are threads here
//! that play at being processes; the command's tests start real ones.
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod toy;

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hwa_core::{OuterWeights, Weights};
use hwa_data::Batch;
use hwa_train::{
    Averaging, BuildTechnique, Candidates, Collective, Descent, Grafting, Incoming, Init,
    Interrupt, MomentumAtSync, Outcome, Outgoing, RanksError, Reason, Rehearsal, Replica,
    ReplicaError, Settings, Step, StepStats, Technique, TechniqueError, TrainError, Transport,
    rehearsal, rendezvous,
};
use proptest::prelude::*;
use toy::{
    Fault, Pace, Rank, Seat, fingerprint, settings, train_at, train_by, train_in_ranks, train_over,
};

fn of_models(models: usize) -> Settings {
    let mut settings = settings();
    settings.plan.num_models = NonZeroUsize::new(models).unwrap();
    settings
}

fn averaged() -> Box<dyn Technique> {
    Box::new(Averaging { momentum: MomentumAtSync::Average })
}

fn in_threads(path: &Path, settings: &Settings, technique: &BuildTechnique<'_>) {
    let outcome = train_by(path, settings, technique, &|_| None, &Default::default()).unwrap();
    assert!(matches!(outcome, Outcome::Finished(_)));
}

fn in_ranks(path: &Path, settings: &Settings, technique: &BuildTechnique<'_>, count: usize) {
    let rank = || Rank { technique, interrupt: Interrupt::new() };
    let ranks = (0..count).map(|_| rank()).collect();
    for outcome in train_in_ranks(path, settings, &|_| None, ranks) {
        assert!(matches!(outcome.unwrap(), Outcome::Finished(_)));
    }
}

fn assert_same_in_ranks(settings: &Settings, technique: &BuildTechnique<'_>, counts: &[usize]) {
    let folder = tempfile::tempdir().unwrap();
    let threads = folder.path().join("threads");
    in_threads(&threads, settings, technique);
    for count in counts {
        let ranks = folder.path().join(format!("ranks-{count}"));
        in_ranks(&ranks, settings, technique, *count);
        assert_eq!(fingerprint(&ranks), fingerprint(&threads), "{count} ranks");
    }
}

#[test]
fn ranks_equal_threads_bit_for_bit() {
    assert_same_in_ranks(&of_models(5), &|_| Box::new(Averaging::default()), &[1, 2, 3, 4, 5]);
}

#[test]
fn momentum_is_averaged_and_inner_weights_are_judged_and_saved_over_ranks() {
    let mut settings = of_models(4);
    settings.evaluate.inner = true;
    settings.checkpoints.inner_cycles = vec![1, 3];
    settings.checkpoints.inner_every = NonZeroU64::new(2);
    assert_same_in_ranks(&settings, &|_| averaged(), &[2, 3, 4]);
}

#[test]
fn averaging_after_every_step_stops_early_alike() {
    let mut settings = of_models(3);
    settings.plan.sync_period = NonZeroU64::MIN;
    settings.patience = Some(2);
    assert_same_in_ranks(&settings, &|_| averaged(), &[2, 3]);
}

#[test]
fn filters_are_grafted_from_the_model_before_also_if_it_is_elsewhere() {
    let mut settings = of_models(4);
    settings.init = Init::Independent;
    settings.candidates = Candidates::Models;
    settings.plan.windows.clear();
    let technique = |number| Box::new(Grafting::new(0.4, 500.0, number, 4)) as Box<dyn Technique>;
    assert_same_in_ranks(&settings, &technique, &[2, 3, 4]);
}

/// Averaging with something that happens before a step of one model.
struct Before<'a> {
    averaging: Box<dyn Technique>,
    step: u64,
    happens: &'a (dyn Fn() + Sync),
}

impl Technique for Before<'_> {
    fn step(
        &mut self,
        model: &mut dyn Replica,
        batch: &Batch,
        at: Step,
        descent: Descent,
    ) -> Result<StepStats, ReplicaError> {
        if at.position.step == self.step {
            (self.happens)();
        }
        self.averaging.step(model, batch, at, descent)
    }

    fn go_on(
        &mut self,
        model: &mut dyn Replica,
        outer: &OuterWeights,
        others: &mut dyn Collective,
    ) -> Result<(), TechniqueError> {
        self.averaging.go_on(model, outer, others)
    }

    fn state(&self) -> Result<Weights, hwa_core::WeightsError> {
        self.averaging.state()
    }
}

/// Interrupts the rank of one model before one of its steps.
fn interrupted_in_ranks(
    path: &Path,
    settings: &Settings,
    count: usize,
    (model, step): (usize, u64),
) -> bool {
    let interrupts: Vec<Interrupt> = (0..count).map(|_| Interrupt::new()).collect();
    let techniques: Vec<Box<BuildTechnique<'static>>> = interrupts
        .iter()
        .map(|interrupt| {
            let interrupt: &'static Interrupt = Box::leak(Box::new(interrupt.clone()));
            let technique = move |number: usize| -> Box<dyn Technique> {
                if number != model {
                    return averaged();
                }
                let happens: &'static (dyn Fn() + Sync) =
                    Box::leak(Box::new(|| interrupt.request()));
                Box::new(Before { averaging: averaged(), step, happens })
            };
            Box::new(technique) as Box<BuildTechnique<'static>>
        })
        .collect();
    let ranks = techniques.iter().zip(&interrupts);
    let ranks = ranks.map(|(technique, interrupt)| Rank {
        technique: &**technique,
        interrupt: interrupt.clone(),
    });
    let outcomes = train_in_ranks(path, settings, &|_| None, ranks.collect());
    let ends: Vec<bool> = outcomes
        .into_iter()
        .map(|outcome| matches!(outcome.unwrap(), Outcome::Interrupted { .. }))
        .collect();
    assert!(ends.iter().all(|end| *end == ends[0]), "all ranks hear of it: {ends:?}");
    ends[0]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn an_interrupt_on_any_rank_leaves_a_state_that_any_number_of_ranks_goes_on_from(
        models in 2usize..5,
        period in 1u64..7,
        inner in any::<bool>(),
        interrupts in prop::collection::vec((1usize..5, 0usize..5, 0u64..24), 1..4),
        last in 0usize..5,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = of_models(models);
        settings.plan.sync_period = NonZeroU64::new(period).unwrap();
        settings.evaluate.inner = inner;
        let whole = folder.path().join("whole");
        in_threads(&whole, &settings, &|_| averaged());
        let parts = folder.path().join("parts");
        for (count, model, step) in interrupts {
            let (count, model) = (count.min(models), model % models);
            interrupted_in_ranks(&parts, &settings, count, (model, step));
        }
        match last.min(models) {
            0 => in_threads(&parts, &settings, &|_| averaged()),
            count => in_ranks(&parts, &settings, &|_| averaged(), count),
        }
        prop_assert_eq!(fingerprint(&parts), fingerprint(&whole));
    }
}

#[test]
fn a_model_that_fails_on_any_rank_ends_the_run_and_costs_nothing_but_time() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, whole) = (of_models(3), folder.path().join("whole"));
    in_threads(&whole, &settings, &|_| averaged());
    for (number, fault) in
        [Fault::PanicAtStep(9), Fault::NanAtStep(8), Fault::ErrorAtStep(11)].into_iter().enumerate()
    {
        let path = folder.path().join(format!("failed-{number}"));
        let faults = move |seat| (seat == Seat::Model(number)).then_some(fault);
        let rank = || Rank { technique: &|_| averaged(), interrupt: Interrupt::new() };
        let outcomes = train_in_ranks(&path, &settings, &faults, (0..3).map(|_| rank()).collect());
        let named = outcomes.iter().filter(|outcome| {
            let error = outcome.as_ref().unwrap_err().to_string();
            error.contains(&format!("model {number} "))
        });
        assert_eq!(named.count(), 1, "one rank has the reason: {outcomes:?}");
        in_ranks(&path, &settings, &|_| averaged(), 2);
        assert_eq!(fingerprint(&path), fingerprint(&whole));
    }
}

#[test]
fn models_that_begin_elsewhere_are_found_over_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let faults = |seat| (seat == Seat::Model(1)).then_some(Fault::StartsElsewhere);
    let rank = || Rank { technique: &|_| averaged(), interrupt: Interrupt::new() };
    let outcomes =
        train_in_ranks(&folder.path().join("run"), &of_models(2), &faults, vec![rank(), rank()]);
    assert!(
        outcomes
            .iter()
            .any(|outcome| { matches!(outcome, Err(TrainError::DifferentBeginnings { .. })) })
    );
}

#[test]
fn a_cycle_counts_its_own_bytes_and_those_of_states_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    // States after steps 3, 6, ...: with cycles of 5 steps there is one in every cycle.
    in_ranks(&path, &of_models(2), &|_| Box::new(Averaging::default()), 2);
    let log = std::fs::read_to_string(path.join("events.jsonl")).unwrap();
    let events = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let cycles: Vec<serde_json::Value> =
        events.filter(|event: &serde_json::Value| event["event"] == "cycle_ended").collect();
    let count = |cycle: usize, what: &str| cycles[cycle]["time"]["traffic"][what].as_u64().unwrap();
    assert_eq!(cycles.len(), 5);
    assert_eq!(count(0, "bytes"), count(1, "bytes"), "the beginning is not counted");
    assert!((0..5).all(|cycle| count(cycle, "kept_bytes") > 0));
}

/// A way to other ranks that panics after so many exchanges, and remembers why it was ended.
struct Fragile {
    way: Rehearsal,
    exchanges: usize,
    ended: Arc<Mutex<Vec<String>>>,
}

impl Transport for Fragile {
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
        assert!(self.exchanges > 0, "the way is broken");
        self.exchanges -= 1;
        self.way.exchange(outgoing, incoming)
    }

    fn notify(&mut self, to: usize, notice: &[u8]) -> Result<(), RanksError> {
        self.way.notify(to, notice)
    }

    fn poll(&mut self) -> Result<Option<(usize, Vec<u8>)>, RanksError> {
        self.way.poll()
    }

    fn end_all(&mut self, reason: Reason<'_>) {
        let Reason::Failed(reason) = reason else { panic!("nobody has interrupted") };
        self.ended.lock().unwrap().push(reason.to_owned());
    }
}

#[test]
fn a_courier_that_panics_ends_the_run_on_all_ranks() {
    for broken in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let fragile = |(rank, way)| {
            let exchanges = if rank == broken { 5 } else { usize::MAX };
            let seat = Rank { technique: &|_| averaged(), interrupt: Interrupt::new() };
            (Fragile { way, exchanges, ended: Arc::default() }, seat)
        };
        let ranks = rehearsal(2).into_iter().enumerate().map(fragile).collect();
        let path = folder.path().join("run");
        let outcomes = train_over(&path, &of_models(4), &|_| None, ranks);
        let errors: Vec<String> =
            outcomes.into_iter().map(|outcome| outcome.unwrap_err().to_string()).collect();
        assert_eq!(errors[broken], "the courier panicked: the way is broken");
        assert!(errors[1 - broken].contains("has left"), "{errors:?}");
    }
}

#[test]
fn a_failure_does_not_wait_for_a_long_step_of_another_model() {
    let folder = tempfile::tempdir().unwrap();
    let ended: Arc<Mutex<Vec<String>>> = Arc::default();
    // Models 2 and 3 are on rank 1: one fails while the other is at a step of seconds.
    let slow = |number| -> Box<dyn Technique> {
        let happens: &(dyn Fn() + Sync) = match number {
            2 => &|| std::thread::sleep(Duration::from_secs(1)),
            3 => &|| std::thread::sleep(Duration::from_secs(7)),
            _ => &|| {},
        };
        Box::new(Before { averaging: averaged(), step: 0, happens })
    };
    let faults = |seat| (seat == Seat::Model(2)).then_some(Fault::ErrorAtStep(2));
    let rank = |way| {
        let way = Fragile { way, exchanges: usize::MAX, ended: Arc::clone(&ended) };
        (way, Rank { technique: &slow, interrupt: Interrupt::new() })
    };
    let ranks = rehearsal(2).into_iter().map(rank).collect();
    let outcomes = train_over(&folder.path().join("run"), &of_models(4), &faults, ranks);
    assert!(outcomes.iter().all(Result::is_err));
    let ended = ended.lock().unwrap();
    let told = matches!(&ended[..], [why] if why.starts_with("model 2 failed after step 1"));
    assert!(told, "{ended:?} {outcomes:?}");
}

#[test]
fn ranks_whose_messages_leave_when_they_are_taken_equal_threads() {
    let folder = tempfile::tempdir().unwrap();
    let (threads, path) = (folder.path().join("threads"), folder.path().join("ranks"));
    let settings = of_models(3);
    in_threads(&threads, &settings, &|_| averaged());
    let rank = |way| (way, Rank { technique: &|_| averaged(), interrupt: Interrupt::new() });
    let ranks = rendezvous(3).into_iter().map(rank).collect();
    for outcome in train_over(&path, &settings, &|_| None, ranks) {
        outcome.unwrap();
    }
    assert_eq!(fingerprint(&path), fingerprint(&threads));
}

#[test]
fn rank_0_is_there_while_it_begins_and_ends_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, resumed) = (folder.path().join("whole"), folder.path().join("resumed"));
    assert!(interrupted_in_ranks(&resumed, &of_models(2), 2, (1, 7)));
    let pace = Pace { deadline: Duration::from_secs(1), pause: Duration::from_millis(2500) };
    // The last one is finished already.
    for path in [&whole, &resumed, &resumed] {
        let rank = |way| (way, Rank { technique: &|_| averaged(), interrupt: Interrupt::new() });
        let ranks = rehearsal(2).into_iter().map(rank).collect();
        for outcome in train_at(pace, path, &of_models(2), (&|_| None, ranks)) {
            assert!(matches!(outcome.unwrap(), Outcome::Finished(_)));
        }
    }
}
