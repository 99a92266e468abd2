//! A method of one's own: steps are taken from a point beside the weights.
//!
//! Run: `cargo run -p hwa-train --example own_method`

#![allow(clippy::print_stdout)] // an example shows its result

// ANCHOR: technique
use hwa_core::OuterWeights;
use hwa_core::seed::{Purpose, Random};
use hwa_data::Batch;
use hwa_train::{
    Averaging, Collective, Descent, Replica, ReplicaError, RunningStatistics, Step, StepStats,
    Technique, TechniqueError,
};

/// Gradients are taken where noise of this size has moved the weights.
struct WeightNoise {
    size: f64,
}

impl Technique for WeightNoise {
    fn step(
        &mut self,
        model: &mut dyn Replica,
        batch: &Batch,
        at: Step,
        _descent: Descent, // it makes its own: `optimizer.rho` has no say
    ) -> Result<StepStats, ReplicaError> {
        let weights = model.weights()?;
        // At an address: neither threads nor an interruption can change what is drawn.
        let (seed, replica, step) = (at.position.seed, at.position.replica, at.position.step);
        let random =
            std::cell::RefCell::new(Random::new(seed, replica, Purpose::Method, [step, 0]));
        let noisy =
            weights.combined(&weights, |w, _| w + self.size * random.borrow_mut().normal())?;
        model.load(&noisy)?;
        let (stats, gradient) = model.gradient(batch, at.position, RunningStatistics::Move)?;
        model.load(&weights)?;
        model.descend(&gradient, at.rate)?;
        Ok(stats)
    }

    /// As online averaging: from the average.
    fn go_on(
        &mut self,
        model: &mut dyn Replica,
        outer: &OuterWeights,
        others: &mut dyn Collective,
    ) -> Result<(), TechniqueError> {
        Averaging::default().go_on(model, outer, others)
    }
}
// ANCHOR_END: technique

use hwa_core::{Tensor, Weights};
use hwa_data::{DataError, ImageShape, Position};
use hwa_train::{Interrupt, Recalibration, State, Tally, ThreadGroup};

/// One weight, whose loss is the square of its distance to the mean of a batch.
struct Point {
    w: f32,
    momentum: f32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shape = ImageShape { height: 1, width: 1, channels: 1 };
    let batch = Batch { images: vec![2.0, 4.0], labels: vec![0, 0], shape };
    let (mut model, mut method) = (Point { w: 0.0, momentum: 0.0 }, WeightNoise { size: 0.01 });
    // A run calls these for you: see `Run::technique` and the example `own_model`.
    let mut alone = ThreadGroup::new(1, Interrupt::new()).member(0);
    for step in 0..200 {
        let position = Position { seed: 1, replica: 0, step };
        let stats =
            method.step(&mut model, &batch, Step { rate: 0.05, position }, Descent::Plain)?;
        if (step + 1) % 50 == 0 {
            let outer = OuterWeights::from_checkpoint(method.offered(&model)?);
            method.go_on(&mut model, &outer, &mut alone)?;
            println!("step {}: loss {:.4}, weight {:.3}", step + 1, stats.loss, model.w);
        }
    }
    Ok(())
}

impl Replica for Point {
    fn weights(&self) -> Result<Weights, ReplicaError> {
        named(self.w)
    }

    fn load(&mut self, weights: &Weights) -> Result<(), ReplicaError> {
        self.w = value(weights)?;
        Ok(())
    }

    fn gradient(
        &mut self,
        batch: &Batch,
        _at: Position,
        _statistics: RunningStatistics,
    ) -> Result<(StepStats, Weights), ReplicaError> {
        let pull = self.w - batch.images.iter().sum::<f32>() / batch.len() as f32;
        Ok((StepStats { loss: f64::from(pull * pull) }, named(2.0 * pull)?))
    }

    fn descend(&mut self, gradient: &Weights, rate: f64) -> Result<(), ReplicaError> {
        self.momentum = 0.9 * self.momentum + value(gradient)?;
        self.w -= rate as f32 * self.momentum;
        Ok(())
    }

    fn momentum(&self) -> Result<Weights, ReplicaError> {
        named(self.momentum)
    }

    fn load_momentum(&mut self, momentum: &Weights) -> Result<(), ReplicaError> {
        self.momentum = value(momentum)?;
        Ok(())
    }

    fn recalibrate(
        &mut self,
        _batches: &mut dyn Iterator<Item = Result<Batch, DataError>>,
        _tolerance: f64,
    ) -> Result<Recalibration, ReplicaError> {
        Ok(Recalibration::default())
    }

    fn evaluate(&mut self, _batch: &Batch) -> Result<Tally, ReplicaError> {
        Ok(Tally::default())
    }

    fn state(&self) -> Result<State, ReplicaError> {
        Ok(State { weights: self.weights()?, momentum: self.momentum()? })
    }

    fn restore(&mut self, state: &State) -> Result<(), ReplicaError> {
        self.load(&state.weights)?;
        self.load_momentum(&state.momentum)
    }
}

fn named(value: f32) -> Result<Weights, ReplicaError> {
    let mut weights = Weights::new();
    weights.insert("w", Tensor::parameter(vec![1], vec![value])?)?;
    Ok(weights)
}

fn value(weights: &Weights) -> Result<f32, ReplicaError> {
    Ok(weights.require("w")?.as_f32().map_or(f32::NAN, |values| values[0]))
}
