//! A toy replica and a toy run: the whole algorithm in milliseconds.
//!
//! The model is a point `w`; the loss of an image `x` is `|w - x|^2 / 2`, so the
//! gradient over a batch is `w` minus the batch's mean, and everything can be
//! computed by hand. It has a running statistic and a counter, like batch norm.
#![allow(dead_code)] // each test file uses its own part
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hwa_core::seed::{Purpose, Random};
use hwa_core::{Decay, Plan, Role, Schedule, Tensor, Values, Weights, WindowSpec};
use hwa_data::{
    Batch, Channel, DataError, ImageShape, InMemory, Normalise, Position, Subset, Transform,
};
use hwa_store::RunDir;
use hwa_train::{
    Assistant, Averaging, BuildReplica, BuildTechnique, Candidates, Checkpoints, Descent, Evaluate,
    Event, Every, Experiment, Identity, Init, Interrupt, Method, Observer, OnLostReplica, Outcome,
    Ranks, Recalibration, Replica, ReplicaError, Run, RunningStatistics, SealedTest, Settings,
    State, StepStats, Tally, TrainError, Transport, rehearsal,
};

pub(crate) const SIZE: usize = 4;
const MOMENTUM: f32 = 0.9;

pub(crate) struct Toy {
    w: Vec<f32>,
    v: Vec<f32>,
    running_mean: f32,
    batches: i64,
    steps: u64,
    /// Batches that it has re-estimated or evaluated on.
    looks: u64,
    fault: Option<Fault>,
    interrupt: Interrupt,
}

/// What goes wrong, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    PanicAtStep(u64),
    ErrorAtStep(u64),
    NanAtStep(u64),
    PanicInEvaluate,
    /// Asks for an interrupt in the n-th batch that is not a step, after a while,
    /// and panics if it is given another one.
    InterruptInBatch(u64),
    StartsElsewhere,
    /// No fault, but a loss that is not quadratic, and by how much is random: steps are no
    /// longer linear, and depend on their position.
    Bent,
}

impl Toy {
    pub(crate) fn new(init: u32, fault: Option<Fault>) -> Self {
        let elsewhere = if fault == Some(Fault::StartsElsewhere) { 0.5 } else { 0.0 };
        let start = |i: usize| (i as f32 + 1.0) * (init as f32 + 1.0) + elsewhere;
        let w = (0..SIZE).map(start).collect();
        Self {
            w,
            v: vec![0.0; SIZE],
            running_mean: 0.0,
            batches: 0,
            steps: 0,
            looks: 0,
            fault,
            interrupt: Interrupt::new(),
        }
    }

    fn with_interrupt(self, interrupt: Interrupt) -> Self {
        Self { interrupt, ..self }
    }

    fn look(&mut self) {
        self.looks += 1;
        if let Some(Fault::InterruptInBatch(at)) = self.fault
            && self.looks >= at
        {
            assert!(self.looks == at, "the toy was interrupted and is judged on");
            // Long enough for the models to come to the cycle's end and wait for the verdict.
            std::thread::sleep(Duration::from_millis(100));
            self.interrupt.request();
        }
    }

    /// Goes wrong, if that is due.
    fn begin_step(&mut self, at: Position) -> Result<(), ReplicaError> {
        assert_eq!(at.step, self.batches as u64, "the steps that this model has made");
        if let Seat::Model(number) = seat() {
            assert_eq!(at.replica as usize, number, "the model of this thread");
        }
        self.steps += 1;
        match self.fault {
            Some(Fault::PanicAtStep(at)) if at == self.steps => panic!("toy out of order"),
            Some(Fault::NanAtStep(at)) if at == self.steps => self.w[0] = f32::NAN,
            Some(Fault::ErrorAtStep(at)) if at == self.steps => {
                let (expected, found) = ("a working toy".into(), "a broken one".into());
                return Err(ReplicaError::Batch { what: "the toy", expected, found });
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn point(&self) -> &[f32] {
        &self.w
    }

    fn distance(&self, image: &[f32]) -> f64 {
        self.w.iter().zip(image).map(|(w, x)| f64::from(w - x).powi(2)).sum()
    }
}

fn vector(role: Role, values: &[f32]) -> Tensor {
    Tensor::new(role, vec![values.len()], Values::F32(values.to_vec())).unwrap()
}

/// Two filters of two weights: methods that look for layers find one.
fn filters(values: &[f32]) -> Tensor {
    Tensor::parameter(vec![2, SIZE / 2, 1, 1], values.to_vec()).unwrap()
}

fn named(name: &str, tensor: Tensor) -> Weights {
    let mut weights = Weights::new();
    weights.insert(name, tensor).unwrap();
    weights
}

fn values(weights: &Weights, name: &str) -> Result<Vec<f32>, ReplicaError> {
    Ok(weights.require(name)?.as_f32().unwrap().to_vec())
}

impl Replica for Toy {
    fn weights(&self) -> Result<Weights, ReplicaError> {
        Ok(named("w", filters(&self.w)))
    }

    fn parameters(&self) -> Result<Vec<String>, ReplicaError> {
        Ok(vec!["w".to_owned()])
    }

    fn load(&mut self, weights: &Weights) -> Result<(), ReplicaError> {
        self.w = values(weights, "w")?;
        Ok(())
    }

    fn gradient(
        &mut self,
        batch: &Batch,
        at: Position,
        statistics: RunningStatistics,
    ) -> Result<(StepStats, Weights), ReplicaError> {
        if statistics == RunningStatistics::Move {
            self.begin_step(at)?;
        }
        let images: Vec<&[f32]> = batch.images.chunks(SIZE).collect();
        let count = images.len() as f32;
        let loss = images.iter().map(|x| self.distance(x) / 2.0).sum::<f64>() / f64::from(count);
        let bend = if self.fault == Some(Fault::Bent) { 0.01 } else { 0.0 };
        let Position { seed, replica, step } = at;
        let mut random = Random::new(seed, replica, Purpose::Dropout, [step, 0]);
        let mut gradient = Vec::new();
        for i in 0..SIZE {
            let mean = images.iter().map(|x| x[i]).sum::<f32>() / count;
            let pull = self.w[i] - mean;
            let noise = 1.0 + random.unit() as f32;
            gradient.push(pull + bend * noise * pull * pull * pull);
        }
        if statistics == RunningStatistics::Move {
            self.running_mean = 0.9 * self.running_mean + 0.1 * images[0][0];
            self.batches += 1;
        }
        Ok((StepStats { loss }, named("w", filters(&gradient))))
    }

    fn descend(&mut self, gradient: &Weights, rate: f64) -> Result<(), ReplicaError> {
        for (i, pull) in values(gradient, "w")?.into_iter().enumerate() {
            self.v[i] = MOMENTUM * self.v[i] + pull;
            self.w[i] -= rate as f32 * self.v[i];
        }
        Ok(())
    }

    fn momentum(&self) -> Result<Weights, ReplicaError> {
        Ok(named("w", filters(&self.v)))
    }

    fn load_momentum(&mut self, momentum: &Weights) -> Result<(), ReplicaError> {
        self.v = values(momentum, "w")?;
        Ok(())
    }

    fn recalibrate(
        &mut self,
        batches: &mut dyn Iterator<Item = Result<Batch, DataError>>,
        _tolerance: f64,
    ) -> Result<Recalibration, ReplicaError> {
        let (mut sum, mut images) = (0.0, 0);
        for batch in batches {
            let batch = batch?;
            self.look();
            sum += batch.images.iter().map(|x| f64::from(*x)).sum::<f64>();
            images += batch.len() as u64;
        }
        self.running_mean = (sum / (images as f64 * SIZE as f64)) as f32;
        Ok(Recalibration { images, relative_error: Some(0.0) })
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Tally, ReplicaError> {
        assert!(self.fault != Some(Fault::PanicInEvaluate), "the toy does not like to be judged");
        self.look();
        let mut tally = Tally::default();
        for image in batch.images.chunks(SIZE) {
            let loss = self.distance(image) / 2.0;
            let near = u64::from(loss < 0.5);
            tally.add(&Tally { images: 1, top1: near, top5: near, loss });
        }
        Ok(tally)
    }

    fn state(&self) -> Result<State, ReplicaError> {
        let mut weights = self.weights()?;
        weights.insert("bn.running_mean", vector(Role::Statistic, &[self.running_mean])).unwrap();
        let count = Tensor::new(Role::Counter, vec![], Values::I64(vec![self.batches])).unwrap();
        weights.insert("bn.num_batches_tracked", count).unwrap();
        Ok(State { weights, momentum: self.momentum()? })
    }

    fn restore(&mut self, state: &State) -> Result<(), ReplicaError> {
        self.load(&state.weights)?;
        self.load_momentum(&state.momentum)?;
        self.running_mean = values(&state.weights, "bn.running_mean")?[0];
        if let Values::I64(count) = state.weights.require("bn.num_batches_tracked")?.values() {
            self.batches = count[0];
        }
        Ok(())
    }
}

/// 40 images of four pixels around the middle of the scale.
pub(crate) fn images(seed: u8) -> Subset {
    let shape = ImageShape { height: 1, width: SIZE, channels: 1 };
    let pixels = (0..40 * SIZE).map(|i| 96 + ((i * 37 + i / 7 + usize::from(seed)) % 64) as u8);
    let data = InMemory::new(shape, 2, pixels.collect(), (0..40).map(|i| i % 2).collect());
    Subset::all(Arc::new(data.unwrap()))
}

pub(crate) fn transform() -> Transform {
    let channels = vec![Channel { mean: 0.5, std: 0.1 }];
    Transform::plain(Normalise::new(channels).unwrap())
}

/// T = 24 steps of batch 8 (5 steps an epoch), H = 5, K = 2, windows of 1 and 3.
pub(crate) fn settings() -> Settings {
    let window = |length| WindowSpec::sliding(NonZeroUsize::new(length).unwrap());
    Settings {
        seed: 1,
        plan: Plan {
            num_models: NonZeroUsize::new(2).unwrap(),
            max_steps: NonZeroU64::new(24).unwrap(),
            sync_period: NonZeroU64::new(5).unwrap(),
            schedule: Schedule::new(0.1, Decay::Cosine { floor: 0.0 }, 24).unwrap(),
            windows: vec![window(1), window(3)],
        },
        batch: NonZeroUsize::new(8).unwrap(),
        init: Init::Shared,
        descent: Descent::Plain,
        candidates: Candidates::Averages,
        patience: None,
        evaluate: Evaluate {
            every: Every::Cycles(NonZeroUsize::MIN),
            tolerance: 0.01,
            augment: true,
            inner: false,
            train_images: None,
            test_curve: false,
        },
        checkpoints: Checkpoints {
            outer_every: NonZeroUsize::MIN,
            inner_cycles: vec![],
            inner_every: None,
            state_every: NonZeroU64::new(3).unwrap(),
        },
        on_lost_replica: OnLostReplica::Stop,
    }
}

/// The same run as a user writes it, by any method: with keys of its own that are no defaults.
pub(crate) fn written(method: Method) -> Experiment {
    let text = format!(
        "method = {:?}\nschedule.steps = 24\noptimizer.batch = 8\nevaluate.every = 1\n\
         checkpoints.state_every = 3\n\
         [hwa]\nnum_models = 3\nwindow_length = [1, 3]\nmomentum_at_sync = \"average\"\n\
         [lookahead]\nperiod = 4\nalpha = 0.5\n[ema]\ndecay = 0.5\n[fg]\na = 0.3\nc = 50.0\n\
         [repr]\nshare = 0.5\nfull = 5\npruned = 4\ntimes = 2\n",
        method.name()
    );
    Experiment::parse(&text, Path::new("written.toml"), &[]).unwrap()
}

/// What trains that.
pub(crate) fn of_written(method: Method) -> (Settings, Box<BuildTechnique<'static>>) {
    let experiment = written(method);
    let images = images(0).len();
    (experiment.settings(images).unwrap(), experiment.technique(images).unwrap())
}

/// Records everything, and can request an interrupt at a model's step.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) events: Vec<Event>,
    pub(crate) interrupt_at: Option<(usize, u64, Interrupt)>,
    /// How long the first and the last event of a process take.
    pub(crate) pause: Duration,
}

impl Observer for Recorder {
    fn observe(&mut self, event: &Event) {
        if let (Event::Stepped(s), Some((replica, step, interrupt))) = (event, &self.interrupt_at)
            && (s.replica, s.step) == (*replica, *step)
        {
            interrupt.request();
        }
        if let Event::Started(_) | Event::Resumed { .. } | Event::Finished(_) = event {
            std::thread::sleep(self.pause);
        }
        self.events.push(event.clone());
    }
}

/// What a run does wrong, by what it builds: models by number, then the judge.
pub(crate) type Faults<'a> = &'a (dyn Fn(Seat) -> Option<Fault> + Sync);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Seat {
    Model(usize),
    Judge,
    Other,
}

fn seat() -> Seat {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    if name.starts_with("the judge") {
        return Seat::Judge;
    }
    let number = name.strip_prefix("model ").and_then(|n| n.split(' ').next());
    number.and_then(|n| n.parse().ok()).map_or(Seat::Other, Seat::Model)
}

/// Starts or resumes a run in `path`.
pub(crate) fn train_with(
    path: &Path,
    settings: &Settings,
    faults: Faults<'_>,
    observer: &Mutex<Recorder>,
) -> Result<Outcome, TrainError> {
    train_by(path, settings, &|_| Box::new(Averaging::default()), faults, observer)
}

/// Leaves models out of the newest state of a run.
pub(crate) fn leave_out(
    path: &Path,
    settings: &Settings,
    models: &[usize],
    ranks: usize,
) -> Result<(), TrainError> {
    let dir = RunDir::open(path)?;
    let observer: Mutex<Recorder> = Mutex::default();
    let technique: &BuildTechnique<'_> = &|_| Box::new(Averaging::default());
    let build = |init| Ok(Box::new(Toy::new(init, None)) as Box<dyn Replica>);
    let run = a_run(settings, technique, (&build, &dir), (&observer, Interrupt::new()));
    run.leave_out(models, ranks)
}

/// Starts or resumes a run of any method.
pub(crate) fn train_by(
    path: &Path,
    settings: &Settings,
    technique: &BuildTechnique<'_>,
    faults: Faults<'_>,
    observer: &Mutex<Recorder>,
) -> Result<Outcome, TrainError> {
    let interrupt = observer.lock().unwrap().interrupt_at.as_ref().map(|(_, _, i)| i.clone());
    let interrupt = interrupt.unwrap_or_default();
    lead(path, settings, technique, faults, (observer, interrupt), None)
}

/// One of the ranks of a run: what its models do, and who interrupts it.
pub(crate) struct Rank<'a> {
    pub(crate) technique: &'a BuildTechnique<'a>,
    pub(crate) interrupt: Interrupt,
}

/// Starts or resumes a run in as many ranks as there are.
pub(crate) fn train_in_ranks(
    path: &Path,
    settings: &Settings,
    faults: Faults<'_>,
    ranks: Vec<Rank<'_>>,
) -> Vec<Result<Outcome, TrainError>> {
    let ends = rehearsal(ranks.len()).into_iter();
    train_over(path, settings, faults, ends.zip(ranks).collect())
}

/// The same, over ways to other ranks that may be broken.
pub(crate) fn train_over<T: Transport + Send>(
    path: &Path,
    settings: &Settings,
    faults: Faults<'_>,
    ranks: Vec<(T, Rank<'_>)>,
) -> Vec<Result<Outcome, TrainError>> {
    let pace = Pace { deadline: Duration::from_secs(60), pause: Duration::ZERO };
    train_at(pace, path, settings, (faults, ranks))
}

/// How long a rank may be silent, and how long rank 0 takes over its first and its last event,
/// and over what comes after it.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) deadline: Duration,
    pub(crate) pause: Duration,
}

/// The same with a pace of its own.
pub(crate) fn train_at<T: Transport + Send>(
    Pace { deadline, pause }: Pace,
    path: &Path,
    settings: &Settings,
    (faults, ranks): (Faults<'_>, Vec<(T, Rank<'_>)>),
) -> Vec<Result<Outcome, TrainError>> {
    let mut ends = ranks.into_iter();
    std::thread::scope(|scope| {
        let (mut first, leading) = ends.next().unwrap();
        let others: Vec<_> = ends
            .map(|(mut end, rank)| {
                scope.spawn(move || {
                    let assistant = Assistant {
                        settings,
                        train: images(0),
                        transform: transform(),
                        build: &|init| Ok(Box::new(Toy::new(init, faults(seat())))),
                        technique: rank.technique,
                        threads_per_model: 1,
                        interrupt: rank.interrupt,
                    };
                    let interrupted = assistant.train(&mut Ranks::new(&mut end, deadline))?;
                    let steps = Vec::new();
                    Ok(match interrupted {
                        true => Outcome::Interrupted { steps },
                        false => Outcome::Finished(Box::default()),
                    })
                })
            })
            .collect();
        let outcome = {
            let mut ranks = Ranks::new(&mut first, deadline);
            let observer = Mutex::new(Recorder { pause, ..Recorder::default() });
            let Rank { technique, interrupt } = leading;
            lead(path, settings, technique, faults, (&observer, interrupt), Some(&mut ranks))
        };
        // A process that has failed is gone.
        drop(first);
        let others = others.into_iter().map(|other| other.join().unwrap());
        std::iter::once(outcome).chain(others).collect()
    })
}

fn lead(
    path: &Path,
    settings: &Settings,
    technique: &BuildTechnique<'_>,
    faults: Faults<'_>,
    (observer, interrupt): (&Mutex<Recorder>, Interrupt),
    ranks: Option<&mut Ranks<'_>>,
) -> Result<Outcome, TrainError> {
    let fresh = !path.join("experiment.toml").exists();
    let dir = if fresh { RunDir::create(path)? } else { RunDir::open(path)? };
    std::fs::write(dir.experiment(), "").unwrap();
    let build = |init| {
        let toy = Toy::new(init, faults(seat()));
        Ok(Box::new(toy.with_interrupt(interrupt.clone())) as Box<dyn Replica>)
    };
    let run = a_run(settings, technique, (&build, &dir), (observer, interrupt.clone()));
    match ranks {
        None => run.train(),
        Some(ranks) => {
            let outcome = run.train_with(ranks)?;
            // Something is left to do.
            ranks.busy(|| std::thread::sleep(observer.lock().unwrap().pause))?;
            ranks.end(&outcome)?;
            Ok(outcome)
        }
    }
}

fn a_run<'a>(
    settings: &'a Settings,
    technique: &'a BuildTechnique<'a>,
    (build, dir): (&'a BuildReplica<'a>, &'a RunDir),
    (observer, interrupt): (&'a Mutex<Recorder>, Interrupt),
) -> Run<'a> {
    Run {
        settings,
        train: images(0),
        validation: images(1),
        test: SealedTest::new(images(2)),
        transform: transform(),
        build,
        technique,
        about: Default::default(),
        dir,
        identity: Identity {
            experiment: "toy".into(),
            arithmetic: "toy".into(),
            allow_other_arithmetic: false,
        },
        threads_per_model: 1,
        observer,
        interrupt,
    }
}

/// A run that works.
pub(crate) fn train(path: &Path, settings: &Settings) -> Outcome {
    train_with(path, settings, &|_| None, &Mutex::default()).unwrap()
}

/// The bits of a tensor in a file.
pub(crate) fn bits(path: &Path, name: &str) -> Vec<u32> {
    let (weights, _) = hwa_store::read_tensors(path).unwrap();
    weights.get(name).unwrap().as_f32().unwrap().iter().map(|x| x.to_bits()).collect()
}

/// The outer weights of a cycle.
pub(crate) fn outer(run: &Path, cycle: usize) -> Vec<u32> {
    bits(&run.join(format!("checkpoints/outer-{cycle:06}.safetensors")), "w")
}

/// All events of a run, without what depends on the clock.
pub(crate) fn timeless_events(run: &Path) -> Vec<serde_json::Value> {
    fn strip(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(map) => {
                map.remove("time");
                map.values_mut().for_each(strip);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let text = std::fs::read_to_string(run.join("events.jsonl")).unwrap();
    let parse = |line: &str| {
        let mut event = serde_json::from_str(line).unwrap();
        strip(&mut event);
        event
    };
    text.lines().map(parse).collect()
}

/// Everything of a finished run that must not depend on how it came about.
pub(crate) fn fingerprint(run: &Path) -> (Vec<(String, Vec<u8>)>, Vec<serde_json::Value>) {
    let mut files = vec![("best".to_owned(), std::fs::read(run.join("best.safetensors")).unwrap())];
    for entry in std::fs::read_dir(run.join("checkpoints")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        files.push((name, std::fs::read(path).unwrap()));
    }
    files.sort();
    (files, timeless_events(run))
}
