//! A model of one's own, without any framework: softmax regression on the embedded
//! digits, trained by hierarchical weight averaging.
//!
//! Run: `cargo run -p hwa-train --example own_model`

#![allow(clippy::print_stdout)] // an example shows its result

use std::error::Error;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;
use std::sync::Mutex;

use hwa_core::seed::{Purpose, Random};
use hwa_core::{Decay, Plan, Schedule, Tensor, Weights, WeightsError, WindowSpec};
use hwa_data::{Batch, DataError, OpenOptions, Position};
use hwa_store::{RunDir, write_atomically};
use hwa_train::{
    Averaging, Candidates, Checkpoints, Descent, Evaluate, Event, Every, Identity, Init, Interrupt,
    Observer, OnLostReplica, Outcome, Recalibration, Replica, ReplicaError, Run, RunningStatistics,
    SealedTest, Settings, State, StepStats, Tally,
};

// ANCHOR: replica
const PIXELS: usize = 64;
const CLASSES: usize = 10;
const MOMENTUM: f32 = 0.9;

/// Scores are `weight * image + bias`; the optimizer is SGD with momentum.
struct Softmax {
    weight: Vec<f32>, // [CLASSES, PIXELS]
    bias: Vec<f32>,   // [CLASSES]
    weight_momentum: Vec<f32>,
    bias_momentum: Vec<f32>,
}

impl Replica for Softmax {
    fn weights(&self) -> Result<Weights, ReplicaError> {
        Ok(named(&self.weight, &self.bias)?)
    }

    fn load(&mut self, weights: &Weights) -> Result<(), ReplicaError> {
        // Check first: after this, names, shapes and types are known to fit.
        self.weights()?.ensure_same_layout(weights)?;
        (self.weight, self.bias) = (values(weights, "fc.weight")?, values(weights, "fc.bias")?);
        Ok(())
    }

    /// There are no statistics that could move, and nothing is drawn.
    fn gradient(
        &mut self,
        batch: &Batch,
        _at: Position,
        _statistics: RunningStatistics,
    ) -> Result<(StepStats, Weights), ReplicaError> {
        let (mut loss, share) = (0.0, 1.0 / batch.len() as f32);
        let mut weight_gradient = vec![0.0; self.weight.len()];
        let mut bias_gradient = vec![0.0; self.bias.len()];
        for (image, &label) in batch.images.chunks(PIXELS).zip(&batch.labels) {
            let mut errors = self.probabilities(image);
            loss -= f64::from(errors[label as usize].ln());
            errors[label as usize] -= 1.0;
            for (class, error) in errors.into_iter().enumerate() {
                bias_gradient[class] += share * error;
                let row = &mut weight_gradient[class * PIXELS..][..PIXELS];
                row.iter_mut().zip(image).for_each(|(g, x)| *g += share * error * x);
            }
        }
        let stats = StepStats { loss: loss / batch.len() as f64 };
        Ok((stats, named(&weight_gradient, &bias_gradient)?))
    }

    fn descend(&mut self, gradient: &Weights, rate: f64) -> Result<(), ReplicaError> {
        let [weight, bias] = [values(gradient, "fc.weight")?, values(gradient, "fc.bias")?];
        descend(&mut self.weight, &mut self.weight_momentum, &weight, rate as f32);
        descend(&mut self.bias, &mut self.bias_momentum, &bias, rate as f32);
        Ok(())
    }

    fn momentum(&self) -> Result<Weights, ReplicaError> {
        Ok(named(&self.weight_momentum, &self.bias_momentum)?)
    }

    fn load_momentum(&mut self, momentum: &Weights) -> Result<(), ReplicaError> {
        self.weights()?.ensure_same_layout(momentum)?;
        self.weight_momentum = values(momentum, "fc.weight")?;
        self.bias_momentum = values(momentum, "fc.bias")?;
        Ok(())
    }

    /// There is no batch norm: no batch is taken.
    fn recalibrate(
        &mut self,
        _batches: &mut dyn Iterator<Item = Result<Batch, DataError>>,
        _tolerance: f64,
    ) -> Result<Recalibration, ReplicaError> {
        Ok(Recalibration::default())
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Tally, ReplicaError> {
        let mut tally = Tally::default();
        for (image, &label) in batch.images.chunks(PIXELS).zip(&batch.labels) {
            let probabilities = self.probabilities(image);
            let mine = probabilities[label as usize];
            let better = probabilities.iter().filter(|&&p| p > mine).count();
            let (top1, top5) = (u64::from(better < 1), u64::from(better < 5));
            tally.add(&Tally { images: 1, top1, top5, loss: -f64::from(mine.ln()) });
        }
        Ok(tally)
    }

    /// Without statistics and counters, the parameters are the complete model.
    fn state(&self) -> Result<State, ReplicaError> {
        Ok(State { weights: self.weights()?, momentum: self.momentum()? })
    }

    fn restore(&mut self, state: &State) -> Result<(), ReplicaError> {
        self.load(&state.weights)?;
        self.load_momentum(&state.momentum)
    }
}
// ANCHOR_END: replica

impl Softmax {
    /// Initial weights, by address: those of model `model` in a run with this seed.
    fn new(seed: u64, model: u32) -> Self {
        let mut random = Random::new(seed, model, Purpose::Init, [0, 0]);
        Self {
            weight: (0..CLASSES * PIXELS).map(|_| 0.01 * random.normal() as f32).collect(),
            bias: vec![0.0; CLASSES],
            weight_momentum: vec![0.0; CLASSES * PIXELS],
            bias_momentum: vec![0.0; CLASSES],
        }
    }

    fn probabilities(&self, image: &[f32]) -> Vec<f32> {
        let score = |(row, bias): (&[f32], &f32)| {
            bias + row.iter().zip(image).map(|(w, x)| w * x).sum::<f32>()
        };
        let scores: Vec<f32> = self.weight.chunks(PIXELS).zip(&self.bias).map(score).collect();
        let highest = scores.iter().copied().fold(f32::MIN, f32::max);
        let powers: Vec<f32> = scores.iter().map(|s| (s - highest).exp()).collect();
        let sum: f32 = powers.iter().sum();
        powers.iter().map(|p| (p / sum).max(f32::MIN_POSITIVE)).collect()
    }
}

fn descend(weights: &mut [f32], momentum: &mut [f32], gradient: &[f32], rate: f32) {
    for ((w, m), g) in weights.iter_mut().zip(momentum).zip(gradient) {
        *m = MOMENTUM * *m + g;
        *w -= rate * *m;
    }
}

fn named(weight: &[f32], bias: &[f32]) -> Result<Weights, WeightsError> {
    let mut weights = Weights::new();
    weights.insert("fc.weight", Tensor::parameter(vec![CLASSES, PIXELS], weight.to_vec())?)?;
    weights.insert("fc.bias", Tensor::parameter(vec![CLASSES], bias.to_vec())?)?;
    Ok(weights)
}

fn values(weights: &Weights, name: &str) -> Result<Vec<f32>, WeightsError> {
    Ok(weights.require(name)?.as_f32().unwrap_or_default().to_vec())
}

// ANCHOR: run
/// Shows the averaged curve.
struct Show;

impl Observer for Show {
    fn observe(&mut self, event: &Event) {
        if let Event::Judged(judged) = event {
            let hwa = judged.hwa.first().map_or(f64::NAN, |w| w.evaluation.top1);
            let outer = judged.outer.map_or(f64::NAN, |e| e.top1);
            println!("cycle {}: outer {outer:.2} %, HWA {hwa:.2} %", judged.cycle);
        }
    }
}

fn train(folder: &Path, settings: &Settings) -> Result<Outcome, Box<dyn Error>> {
    let digits = hwa_data::open("digits", None, &OpenOptions::default())?;
    let dir = RunDir::create(folder)?;
    // What makes the folder a run that `RunDir::open` opens again, to resume it.
    write_atomically(&dir.experiment(), |file| writeln!(file, "# softmax on digits"))?;
    let run = Run {
        settings,
        train: digits.splits.train,
        validation: digits.splits.validation,
        test: SealedTest::new(digits.splits.test),
        transform: digits.transform,
        build: &|model| Ok(Box::new(Softmax::new(settings.seed, model))),
        technique: &|_| Box::new(Averaging::default()),
        about: Default::default(),
        dir: &dir,
        identity: Identity {
            experiment: format!("softmax {settings:?}"),
            arithmetic: std::env::consts::ARCH.to_owned(),
            allow_other_arithmetic: false,
        },
        threads_per_model: 1,
        observer: &Mutex::new(Show),
        interrupt: Interrupt::new(),
    };
    Ok(run.train()?)
}
// ANCHOR_END: run

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    if let Outcome::Finished(summary) = train(&folder.path().join("run"), &settings()?)? {
        let test = summary.test.chosen.map_or(f64::NAN, |e| e.top1);
        println!("chosen: {:?}; on test {test:.2} %", summary.chosen);
    }
    Ok(())
}

/// K = 2 models, H = 34 steps (one epoch), T = 340, I = 3.
fn settings() -> Result<Settings, Box<dyn Error>> {
    let steps = |n| NonZeroU64::new(n).ok_or("there must be a step");
    let count = |n| NonZeroUsize::new(n).ok_or("there must be one");
    Ok(Settings {
        seed: 1,
        plan: Plan {
            num_models: count(2)?,
            max_steps: steps(340)?,
            sync_period: steps(34)?,
            schedule: Schedule::new(0.05, Decay::Cosine { floor: 0.0 }, 340)?,
            windows: vec![WindowSpec::sliding(count(3)?)],
        },
        batch: count(32)?,
        init: Init::Shared,
        descent: Descent::Plain,
        candidates: Candidates::Averages,
        patience: None,
        evaluate: Evaluate {
            every: Every::Cycles(count(1)?),
            tolerance: 0.01,
            augment: true,
            inner: false,
            train_images: None,
            test_curve: false,
        },
        checkpoints: Checkpoints {
            outer_every: count(1)?,
            inner_cycles: Vec::new(),
            inner_every: None,
            state_every: steps(34)?,
        },
        on_lost_replica: OnLostReplica::Stop,
    })
}
