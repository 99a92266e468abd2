//! A run that was cut off and resumed is the uninterrupted run, bit for bit.

#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod toy;

use std::path::Path;
use std::sync::Mutex;

use hwa_core::seed::{Purpose, Random};
use hwa_train::{
    Averaging, BuildTechnique, Descent, Interrupt, Method, MomentumAtSync, Outcome, Settings,
    TrainError,
};
use toy::{
    Fault, Faults, Recorder, Seat, fingerprint, of_written, settings, train, train_by, train_with,
};

/// A way to train.
struct Variant {
    name: &'static str,
    settings: Settings,
    technique: Box<BuildTechnique<'static>>,
}

impl Variant {
    fn new(name: &'static str, settings: Settings) -> Self {
        Self { name, settings, technique: Box::new(|_| Box::new(Averaging::default())) }
    }

    /// Another method, as an experiment makes it.
    fn of(method: Method) -> Self {
        let (settings, technique) = of_written(method);
        Self { name: method.name(), settings, technique }
    }

    fn train(
        &self,
        path: &Path,
        faults: Faults<'_>,
        recorder: &Mutex<Recorder>,
    ) -> Result<Outcome, TrainError> {
        train_by(path, &self.settings, &*self.technique, faults, recorder)
    }

    fn uninterrupted(&self) -> (Vec<(String, Vec<u8>)>, Vec<serde_json::Value>) {
        let folder = tempfile::tempdir().unwrap();
        self.train(folder.path(), &|_| None, &Mutex::default()).unwrap();
        fingerprint(folder.path())
    }

    /// Resumes until the run is through.
    fn resume_to_the_end(&self, path: &Path) {
        let outcome = self.train(path, &|_| None, &Mutex::default()).unwrap();
        assert!(matches!(outcome, Outcome::Finished(_)));
    }
}

fn uninterrupted(settings: &Settings) -> (Vec<(String, Vec<u8>)>, Vec<serde_json::Value>) {
    Variant::new("usual", settings.clone()).uninterrupted()
}

fn resume_to_the_end(path: &Path, settings: &Settings) {
    Variant::new("usual", settings.clone()).resume_to_the_end(path);
}

/// Every method that there is, so that what a new one remembers is not forgotten here.
fn methods() -> impl Iterator<Item = Variant> {
    let mut sam_in_hwa = Variant::new("sam in hwa", settings());
    sam_in_hwa.settings.descent = Descent::SharpnessAware { rho: 0.05 };
    Method::ALL.into_iter().map(Variant::of).chain([sam_in_hwa])
}

fn variants() -> Vec<Variant> {
    let momentum = MomentumAtSync::Average;
    let mut averaged = Variant::new("averaged momentum", settings());
    averaged.settings.evaluate.inner = true;
    averaged.technique = Box::new(move |_| Box::new(Averaging { momentum }));
    let mut patient = settings();
    patient.patience = Some(2);
    patient.plan.sync_period = std::num::NonZeroU64::MIN;
    let mut one_shot = settings();
    one_shot.plan.sync_period = one_shot.plan.max_steps;
    // Stage II begins late, and hardly any outer weights are kept.
    let mut swa = settings();
    swa.plan.num_models = std::num::NonZeroUsize::MIN;
    swa.plan.windows = vec![hwa_core::WindowSpec::everything_from(4)];
    swa.checkpoints.outer_every = std::num::NonZeroUsize::new(5).unwrap();
    let mut alone = settings();
    alone.plan.num_models = std::num::NonZeroUsize::MIN;
    alone.plan.sync_period = std::num::NonZeroU64::MIN;
    // Windows need more outer weights than are kept; which, depends on the states.
    let mut sparse = settings();
    sparse.plan.sync_period = std::num::NonZeroU64::new(2).unwrap();
    sparse.checkpoints.outer_every = std::num::NonZeroUsize::new(4).unwrap();
    let mut variants = vec![
        Variant::new("usual", settings()),
        averaged,
        Variant::new("patient", patient),
        Variant::new("one shot", one_shot),
        Variant::new("swa", swa),
        Variant::new("alone", alone),
        Variant::new("sparse", sparse),
    ];
    variants.extend(methods());
    variants
}

#[test]
fn a_model_that_dies_at_any_step_costs_nothing_but_time() {
    for variant in variants() {
        let expected = variant.uninterrupted();
        for step in 1..=24 {
            let folder = tempfile::tempdir().unwrap();
            let dying = step as usize % variant.settings.plan.num_models.get();
            let faults = |seat| (seat == Seat::Model(dying)).then_some(Fault::PanicAtStep(step));
            if variant.train(folder.path(), &faults, &Mutex::default()).is_err() {
                variant.resume_to_the_end(folder.path());
            }
            assert!(fingerprint(folder.path()) == expected, "{}, step {step}", variant.name);
        }
    }
}

#[test]
fn an_interrupt_at_any_step_saves_each_model_where_it_is() {
    for (number, variant) in variants().into_iter().enumerate() {
        let (expected, settings) = (variant.uninterrupted(), &variant.settings);
        let mut random = Random::new(number as u64, 0, Purpose::Split, [0, 0]);
        for _ in 0..12 {
            let folder = tempfile::tempdir().unwrap();
            let mut sessions = 0;
            loop {
                let models = settings.plan.num_models.get() as u64;
                let (replica, step) = (random.below(models) as usize, 1 + random.below(24));
                let interrupt_at = Some((replica, step, Interrupt::new()));
                let recorder = Mutex::new(Recorder { interrupt_at, ..Recorder::default() });
                let outcome = variant.train(folder.path(), &|_| None, &recorder).unwrap();
                sessions += 1;
                if matches!(outcome, Outcome::Finished(_)) || sessions == 5 {
                    break;
                }
            }
            variant.resume_to_the_end(folder.path());
            assert!(fingerprint(folder.path()) == expected, "{}", variant.name);
        }
    }
}

#[test]
fn an_interrupt_ends_a_judgement_before_its_next_batch() {
    for (number, variant) in variants().into_iter().enumerate() {
        let expected = variant.uninterrupted();
        // A look at one set of weights takes 5 batches of re-estimation and 5 of
        // evaluation. The default variant has 9 looks: batch 85 is in the last.
        for batch in [1, 8, 23, 85] {
            let folder = tempfile::tempdir().unwrap();
            // In the judge's batch, while the models wait; one more would be a panic.
            let faults = |seat| (seat == Seat::Judge).then_some(Fault::InterruptInBatch(batch));
            let outcome = variant.train(folder.path(), &faults, &Mutex::default()).unwrap();
            let finished = matches!(outcome, Outcome::Finished(_));
            assert!(number > 0 || !finished, "batch {batch}");
            if !finished {
                variant.resume_to_the_end(folder.path());
            }
            assert!(fingerprint(folder.path()) == expected, "{}, batch {batch}", variant.name);
        }
    }
}

#[test]
fn a_finished_run_resumes_to_itself() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &settings());
    let before = fingerprint(folder.path());
    resume_to_the_end(folder.path(), &settings());
    assert!(fingerprint(folder.path()) == before);
    // Without its summary it is a run that was killed just before its end.
    std::fs::remove_file(folder.path().join("summary.json")).unwrap();
    resume_to_the_end(folder.path(), &settings());
    assert!(fingerprint(folder.path()) == before);
}

#[test]
fn an_interrupted_run_keeps_the_same_outer_weights_as_the_uninterrupted_one() {
    let mut settings = settings();
    settings.plan.sync_period = std::num::NonZeroU64::MIN;
    settings.checkpoints.outer_every = std::num::NonZeroUsize::new(10).unwrap();
    for patience in [None, Some(3)] {
        settings.patience = patience;
        let expected = uninterrupted(&settings);
        for step in [2, 11, 13, 20, 22, 23, 24] {
            let folder = tempfile::tempdir().unwrap();
            let interrupt_at = Some((0, step, Interrupt::new()));
            let recorder = Mutex::new(Recorder { interrupt_at, ..Recorder::default() });
            train_with(folder.path(), &settings, &|_| None, &recorder).unwrap();
            resume_to_the_end(folder.path(), &settings);
            assert!(fingerprint(folder.path()) == expected, "step {step}, {patience:?}");
        }
    }
}

#[test]
fn outer_weights_younger_than_the_state_may_be_lost() {
    // A power failure may take what was not flushed: all that no state relies on.
    for variant in variants() {
        let expected = variant.uninterrupted();
        for step in [5, 9, 14, 24] {
            let folder = tempfile::tempdir().unwrap();
            let faults = |seat| (seat == Seat::Model(0)).then_some(Fault::PanicAtStep(step));
            if variant.train(folder.path(), &faults, &Mutex::default()).is_ok() {
                continue; // stopped before that step
            }
            // There may be no state yet: another model may have been slower than its first one.
            let manifest = manifests(folder.path()).pop().map_or_else(Default::default, |path| {
                let text = std::fs::read_to_string(path).unwrap();
                serde_json::from_str::<serde_json::Value>(&text).unwrap()
            });
            let pending = manifest["lead"]["pending"].as_u64().unwrap_or(0) as usize;
            let store = hwa_store::CheckpointStore::new(folder.path().join("checkpoints"));
            for cycle in store.outer_cycles().unwrap().into_iter().filter(|c| *c > pending) {
                std::fs::write(store.outer_path(cycle), "").unwrap();
            }
            variant.resume_to_the_end(folder.path());
            assert!(fingerprint(folder.path()) == expected, "{}, step {step}", variant.name);
        }
    }
}

#[test]
fn one_model_that_synchronizes_every_step_heeds_an_interrupt() {
    let mut settings = settings();
    settings.plan.num_models = std::num::NonZeroUsize::MIN;
    settings.plan.sync_period = std::num::NonZeroU64::MIN;
    let folder = tempfile::tempdir().unwrap();
    let interrupt_at = Some((0, 12, Interrupt::new()));
    let recorder = Mutex::new(Recorder { interrupt_at, ..Recorder::default() });
    let outcome = train_with(folder.path(), &settings, &|_| None, &recorder).unwrap();
    assert_eq!(outcome, Outcome::Interrupted { steps: vec![12] });
}

/// A run that was interrupted once, and so has a state.
fn interrupted_run(path: &Path) {
    let interrupt_at = Some((0, 12, Interrupt::new()));
    let recorder = Mutex::new(Recorder { interrupt_at, ..Recorder::default() });
    let outcome = train_with(path, &settings(), &|_| None, &recorder).unwrap();
    assert!(matches!(outcome, Outcome::Interrupted { .. }));
}

/// The manifests of a run's states, oldest first.
fn manifests(path: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(path.join("state")).unwrap();
    let mut manifests: Vec<_> = entries
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .collect();
    manifests.sort();
    manifests
}

fn newest_manifest(path: &Path) -> std::path::PathBuf {
    manifests(path).pop().unwrap()
}

fn resume_error(path: &Path) -> TrainError {
    train_with(path, &settings(), &|_| None, &Mutex::default()).unwrap_err()
}

#[test]
fn states_of_other_versions_experiments_and_arithmetic_are_refused() {
    for (find, replace, expected) in [
        ("\"version\":1", "\"version\":99", "the state has version 99, expected 1"),
        ("\"experiment\":\"toy\"", "\"experiment\":\"x\"", "belongs to another experiment"),
        ("\"arithmetic\":\"toy\"", "\"arithmetic\":\"sse\"", "was computed with sse"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        interrupted_run(folder.path());
        let path = newest_manifest(folder.path());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(find), "{text}");
        std::fs::write(&path, text.replace(find, replace)).unwrap();
        let message = resume_error(folder.path()).to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_damaged_state_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    interrupted_run(folder.path());
    let manifest = newest_manifest(folder.path());
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    assert!(resume_error(folder.path()).to_string().contains("manifest-"));
    std::fs::write(&manifest, &text).unwrap();
    for entry in std::fs::read_dir(folder.path().join("state")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "safetensors") {
            std::fs::write(&path, b"not tensors").unwrap();
        }
    }
    assert!(resume_error(folder.path()).to_string().contains("replica-"));
}

#[test]
fn only_the_newest_two_states_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &settings());
    let count = |extension: &str| {
        let entries = std::fs::read_dir(folder.path().join("state")).unwrap();
        entries.filter(|e| e.as_ref().unwrap().path().extension().unwrap() == extension).count()
    };
    assert_eq!((count("json"), count("safetensors")), (2, 4));
}
