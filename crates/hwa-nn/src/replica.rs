//! A Burn module as a replica.
//!
//! Training runs with autodiff; evaluation and re-estimation run on a copy without
//! it that shares the tensors, so they cannot touch parameters or momentum.
//! Nothing here is global: Burn's CPU backend uses the rayon pool of the thread
//! that calls it, so each replica's thread brings a pool of its own.

use std::collections::{HashMap, HashSet};

use burn::module::{ModuleMapper, Param, ParamId};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use hwa_core::{Role, Weights, WeightsError};
use hwa_data::{Batch, DataError, ImageShape, Position};
use hwa_kernels::Precision;
use hwa_kernels::simd::Level;
use hwa_train::{
    Recalibration, Replica, ReplicaError, RunningStatistics, State, Step, StepStats, Tally,
};

use crate::error::{NnError, ensure_some};
use crate::names::{self, Found};
use crate::network::{Network, ensure_large_enough};
use crate::ops::cross_entropy;
use crate::pass::{Mode, Pass, Pool};
use crate::score::tally;
use crate::sgd::{Sgd, SgdConfig};

/// Re-estimation believes its measured error only after this many batches.
const FEWEST_BATCHES: u64 = 4;

/// What a model is to do: images of one shape, sorted into classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The shape of every image.
    pub images: ImageShape,
    /// The number of classes.
    pub classes: usize,
}

impl Task {
    /// Checks that there are pixels and classes.
    pub fn validate(&self) -> Result<(), NnError> {
        ensure_some([
            ("image height", self.images.height),
            ("image width", self.images.width),
            ("image channels", self.images.channels),
            ("number of classes", self.classes),
        ])
    }
}

/// A network with its optimizer.
#[derive(Debug)]
pub struct BurnReplica<N> {
    network: N,
    sgd: Sgd,
    task: Task,
    /// Without autodiff.
    device: Device,
    /// The name of the first batch-norm statistic, if there are any.
    statistic: Option<String>,
    precision: Precision,
    standard: bool,
    dropout: bool,
}

impl<N: Network> BurnReplica<N> {
    /// A replica of a network as it is, with momentum zero.
    ///
    /// Refused are images too small for the network; a network with clones of one layer,
    /// whose gradients, momentum and statistics Burn could not tell apart; one with
    /// batch-norm statistics of a layer other than this crate's
    /// [`BatchNorm`](crate::layers::BatchNorm), which could not be re-estimated for
    /// averaged weights; and one on several devices.
    ///
    /// The replica works on the device that the network is on. This crate's kernels are for
    /// [`Device::flex`]; on others a network runs on Burn's own operations.
    pub fn new(network: N, task: Task, config: SgdConfig) -> Result<Self, NnError> {
        task.validate()?;
        Level::chosen()?;
        ensure_large_enough(task.images, network.smallest())?;
        let device = one_device(&network.devices())?;
        let mut tensors = names::tensors(&network);
        ensure_distinct(&tensors)?;
        ensure_own_statistics(&tensors)?;
        ensure_named_once(&tensors)?;
        tensors.retain(|tensor| tensor.role == Role::Statistic);
        Ok(Self {
            network: network.train(),
            sgd: Sgd::new(config),
            task,
            precision: Precision::default(),
            standard: false,
            dropout: true,
            device,
            statistic: tensors.into_iter().next().map(|tensor| tensor.name),
        })
    }

    /// With convolutions that are this precise.
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// On Burn's own operations, even where there are kernels: to compare the two.
    pub fn on_standard_operations(self) -> Self {
        Self { standard: true, ..self }
    }

    /// Leaves out nothing in training, whatever dropout the network has: to compare with
    /// another framework, which has other masks.
    pub fn without_dropout(self) -> Self {
        Self { dropout: false, ..self }
    }

    /// The network, in training state.
    pub fn network(&self) -> &N {
        &self.network
    }

    /// What the replica does.
    pub fn task(&self) -> Task {
        self.task
    }

    fn check(&self, batch: &Batch) -> Result<(), ReplicaError> {
        let mismatch = |what, expected: String, found: String| {
            Err(ReplicaError::Batch { what, expected, found })
        };
        let (expected, found) = (self.task.images, batch.shape);
        if found.channels != expected.channels {
            return mismatch("channels", expected.channels.to_string(), found.channels.to_string());
        }
        if found != expected {
            let size = |shape: ImageShape| format!("{} x {}", shape.height, shape.width);
            return mismatch("image size", size(expected), size(found));
        }
        if batch.is_empty() {
            return mismatch("number of images", "at least 1".to_owned(), "0".to_owned());
        }
        let values = batch.len() * expected.len();
        if batch.images.len() != values {
            let found = batch.images.len().to_string();
            return mismatch("number of pixel values", values.to_string(), found);
        }
        match batch.labels.iter().find(|&&label| label as usize >= self.task.classes) {
            Some(label) => {
                mismatch("label", format!("below {}", self.task.classes), label.to_string())
            }
            None => Ok(()),
        }
    }

    /// Scores of a checked batch, by the training network or a validation copy.
    fn forward(
        &self,
        network: &N,
        batch: &Batch,
        pass: &mut Pass,
    ) -> Result<Tensor<2>, ReplicaError> {
        let ImageShape { height, width, channels } = batch.shape;
        let shape = [batch.len(), height, width, channels];
        let device = self.device_for(pass.mode());
        let images = Tensor::from_data(TensorData::new(batch.images.clone(), shape), &device);
        let scores = network.forward(images, pass);
        let (found, expected) = (scores.dims(), [batch.len(), self.task.classes]);
        if found != expected {
            let reason = format!("the network gives scores {found:?}, expected {expected:?}");
            return Err(ReplicaError::Framework { operation: "the forward pass", reason });
        }
        Ok(scores)
    }

    /// A forward and a backward pass on a batch, in training mode.
    fn forth_and_back(&self, batch: &Batch, at: Position) -> Result<Passed, ReplicaError> {
        self.check(batch)?;
        let pass = self.pass(Mode::Train);
        let mut pass = if self.dropout { pass.at(at) } else { pass };
        let scores = self.forward(&self.network, batch, &mut pass)?;
        let loss = cross_entropy(scores, &batch.labels, &pass);
        if !loss.is_tracked() {
            let reason = "no parameter of the network takes part in its scores".to_owned();
            return Err(ReplicaError::Framework { operation: "the backward pass", reason });
        }
        let gradients = loss.backward();
        Ok(Passed { gradients, pass, stats: StepStats { loss: loss.into_scalar::<f64>() } })
    }

    /// The network, for what gives it back changed. Nothing else holds its tensors then, so
    /// that they can be changed where they are.
    fn take_network(&mut self) -> N {
        let hollow = self.network.clone().map(&mut Hollow);
        std::mem::replace(&mut self.network, hollow)
    }

    fn pass(&self, mode: Mode) -> Pass {
        let pass = Pass::new(mode).with_precision(self.precision);
        if self.standard { pass.on_standard_operations() } else { pass }
    }

    fn device_for(&self, mode: Mode) -> Device {
        match mode {
            Mode::Train => self.device.clone().autodiff(),
            Mode::Recalibrate | Mode::Evaluate => self.device.clone(),
        }
    }
}

impl<N: Network> Replica for BurnReplica<N> {
    fn weights(&self) -> Result<Weights, ReplicaError> {
        Ok(names::export_parameters(&self.network)?)
    }

    fn load(&mut self, weights: &Weights) -> Result<(), ReplicaError> {
        self.network = names::load_parameters(&self.network, weights)?;
        Ok(())
    }

    fn gradient(
        &mut self,
        batch: &Batch,
        at: Position,
        statistics: RunningStatistics,
    ) -> Result<(StepStats, Weights), ReplicaError> {
        let Passed { gradients, pass, stats } = self.forth_and_back(batch, at)?;
        let gradient = Sgd::gradient(&self.network, gradients)?;
        if statistics == RunningStatistics::Move {
            let network = self.take_network();
            self.network = pass.move_statistics(network);
        }
        Ok((stats, gradient))
    }

    fn descend(&mut self, gradient: &Weights, rate: f64) -> Result<(), ReplicaError> {
        // A clone: what is refused must leave the network as it was.
        self.network = self.sgd.descend(self.network.clone(), gradient, rate)?;
        Ok(())
    }

    /// In one go: gradients never become named tensors.
    fn step(&mut self, batch: &Batch, at: Step) -> Result<StepStats, ReplicaError> {
        let Passed { gradients, pass, stats } = self.forth_and_back(batch, at.position)?;
        let network = self.take_network();
        let network = self.sgd.step(network, gradients, at.rate);
        self.network = pass.move_statistics(network);
        Ok(stats)
    }

    fn parameters(&self) -> Result<Vec<String>, ReplicaError> {
        let tensors = names::tensors(&self.network).into_iter();
        Ok(tensors.filter(|t| t.role == Role::Parameter).map(|t| t.name).collect())
    }

    fn momentum(&self) -> Result<Weights, ReplicaError> {
        Ok(self.sgd.momentum(&self.network)?)
    }

    fn load_momentum(&mut self, momentum: &Weights) -> Result<(), ReplicaError> {
        Ok(self.sgd.load_momentum(&self.network, momentum)?)
    }

    fn recalibrate(
        &mut self,
        batches: &mut dyn Iterator<Item = Result<Batch, DataError>>,
        tolerance: f64,
    ) -> Result<Recalibration, ReplicaError> {
        let Some(statistic) = &self.statistic else {
            return Ok(Recalibration::default());
        };
        let network = self.network.valid();
        let mut pool = Pool::default();
        let (mut taken, mut images) = (0, 0);
        let settled = |pool: &Pool| pool.relative_error().is_some_and(|e| e <= tolerance);
        while taken < FEWEST_BATCHES || !settled(&pool) {
            let Some(batch) = batches.next() else { break };
            let batch = batch?;
            self.check(&batch)?;
            let mut pass = self.pass(Mode::Recalibrate);
            self.forward(&network, &batch, &mut pass)?;
            pool.add(pass).map_err(|error| not_re_estimated(error.to_string()))?;
            taken += 1;
            images += batch.len() as u64;
        }
        if taken == 0 {
            return Err(ReplicaError::Batch {
                what: "number of batches for re-estimation",
                expected: "at least 1".to_owned(),
                found: "0".to_owned(),
            });
        }
        if pool.is_empty() {
            // The statistics of the weights before would stay, and nobody would notice.
            let reason = "the forward pass showed no batch-norm layer to its `Pass`, expected that";
            return Err(not_re_estimated(format!("{reason} of `{statistic}` at least")));
        }
        let relative_error = pool.relative_error();
        self.network = pool.replace_statistics(self.network.clone());
        Ok(Recalibration { images, relative_error })
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Tally, ReplicaError> {
        self.check(batch)?;
        let mut pass = self.pass(Mode::Evaluate);
        let scores = self.forward(&self.network.valid(), batch, &mut pass)?;
        let scores: Vec<f64> = scores.into_data().iter::<f64>().collect();
        Ok(tally(&scores, &batch.labels))
    }

    fn state(&self) -> Result<State, ReplicaError> {
        Ok(State { weights: names::export(&self.network)?, momentum: self.momentum()? })
    }

    fn restore(&mut self, state: &State) -> Result<(), ReplicaError> {
        let network = names::load(&self.network, &state.weights)?;
        self.sgd.load_momentum(&network, &state.momentum)?;
        self.network = network;
        Ok(())
    }
}

/// What a forward and a backward pass leave behind.
struct Passed {
    gradients: Gradients,
    pass: Pass,
    stats: StepStats,
}

/// Puts one zero, seen everywhere, in the place of every tensor.
struct Hollow;

impl ModuleMapper for Hollow {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|old| {
            let (shape, device) = (old.shape(), old.device());
            Tensor::<D>::zeros([1; D], (&device, old.dtype())).expand(shape)
        })
    }
}

fn not_re_estimated(reason: String) -> ReplicaError {
    ReplicaError::Framework { operation: "re-estimation of batch-norm statistics", reason }
}

/// The device of a network, without autodiff; the CPU if it has no tensors.
fn one_device(devices: &[Device]) -> Result<Device, NnError> {
    let first = devices.first().cloned().unwrap_or(Device::flex());
    match devices.iter().find(|device| **device != first) {
        Some(other) => {
            let (first, other) = (format!("{first:?}"), format!("{other:?}"));
            Err(NnError::Devices { first, other })
        }
        None => Ok(first.without_autodiff()),
    }
}

/// Clones of a layer share their tensors' ids, by which Burn finds gradients.
fn ensure_distinct(tensors: &[Found]) -> Result<(), NnError> {
    let mut names: HashMap<ParamId, &str> = HashMap::new();
    for tensor in tensors {
        if let Some(first) = names.insert(tensor.id, &tensor.name) {
            let (first, second) = (first.to_owned(), tensor.name.clone());
            return Err(NnError::SharedTensor { first, second });
        }
    }
    Ok(())
}

/// Names that cannot be exported are better found now than at the first checkpoint.
fn ensure_named_once(tensors: &[Found]) -> Result<(), WeightsError> {
    let mut names = HashSet::new();
    match tensors.iter().find(|tensor| !names.insert(&tensor.name)) {
        Some(tensor) => Err(WeightsError::Duplicate { name: tensor.name.clone() }),
        None => Ok(()),
    }
}

/// This crate's batch norm counts its batches, Burn's does not.
fn ensure_own_statistics(tensors: &[Found]) -> Result<(), NnError> {
    let is_there = |name: &str| tensors.iter().any(|tensor| tensor.name == name);
    for Found { name, .. } in tensors.iter().filter(|tensor| tensor.role == Role::Statistic) {
        let layer = name.rfind('.').map_or("", |dot| &name[..=dot]);
        if !is_there(&format!("{layer}num_batches_tracked")) {
            return Err(NnError::ForeignStatistic { name: name.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::thread_pool;
    use crate::zoo::{ModelSpec, Origin};

    fn batch(images: usize, shape: ImageShape) -> Batch {
        let pixel = |i: usize| (i * 7919 % 1000) as f32 / 500.0 - 1.0;
        let labels = (0..images as u32).map(|i| i % 10).collect();
        Batch { images: (0..images * shape.len()).map(pixel).collect(), labels, shape }
    }

    /// What the thread's pool has made after each step on batches of these sizes.
    fn held_by_steps(model: &str, sizes: &[usize]) -> Vec<hwa_kernels::Held> {
        let images = ImageShape { height: 32, width: 32, channels: 3 };
        let task = Task { images, classes: 10 };
        let spec: ModelSpec = model.parse().unwrap();
        let network = spec.network(task, Origin { seed: 1, replica: 0 }).unwrap();
        let sgd = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };
        let mut replica = BurnReplica::new(network, task, sgd).unwrap();
        let steps = sizes.iter().enumerate().map(|(step, &size)| {
            let position = Position { seed: 1, replica: 0, step: step as u64 };
            replica.step(&batch(size, images), Step { rate: 0.01, position }).unwrap();
            replica.evaluate(&batch(size, images)).unwrap();
            thread_pool().held()
        });
        steps.collect()
    }

    #[test]
    fn buffers_do_not_grow_from_step_to_step() {
        for model in ["resnet8", "mobilenet_v2_cifar"] {
            let made = held_by_steps(model, &[8; 5]);
            assert!(made[0].buffers > 10, "{model}: {made:?}");
            assert!(made[1..].iter().all(|later| *later == made[1]), "{model}: {made:?}");
        }
    }

    #[test]
    fn buffers_do_not_grow_when_sizes_of_batches_take_turns() {
        for model in ["resnet8", "mobilenet_v2_cifar"] {
            // More than half of a batch finds room in the buffers of the whole, less does not. Which
            // buffers a size finds free depends on the other's, so both get a second turn.
            for sizes in [[8, 5], [8, 3]] {
                let made = held_by_steps(model, &sizes.repeat(4));
                let settled = made[3..].iter().all(|later| *later == made[3]);
                assert!(settled, "{model}, {sizes:?}: {made:?}");
            }
        }
    }
}
