//! What a network does to its images, and the two ways of running it.
//!
//! The kernels run it as one operation. They are there on Burn's CPU backend, in single
//! precision, for all but a few limits; everywhere else Burn's own operations run it one by
//! one. Shapes that do not fit are the same error either way.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::Dispatch;
use burn::tensor::{DType, Device, Tensor};
use hwa_kernels::graph::{Graph, Parameter, Program, ProgramError};
use hwa_kernels::simd::Level;
use hwa_kernels::{Moments, Pool, Precision, Shape};

use crate::ops::dispatch::Operations;
use crate::ops::network::Call;
use crate::ops::standard::{Standard, Statistics};
use crate::pass::{BatchNormId, Mode, Pass, Seen};

/// What a network does, up to now.
#[derive(Debug)]
pub(crate) struct Recording {
    pub images: Tensor<4>,
    pub graph: Graph,
    /// Flattened.
    parameters: Vec<Tensor<1>>,
    norms: Vec<Norm>,
}

/// A batch norm of the recording.
#[derive(Debug)]
pub(crate) struct Norm {
    pub layer: BatchNormId,
    pub momentum: f64,
    pub running_mean: Tensor<1>,
    pub running_variance: Tensor<1>,
}

/// A result, and what the batch norms saw, in how many values.
type Run = (Tensor<4>, Vec<(Moments, usize)>);

impl Recording {
    /// Nothing but the images.
    pub(crate) fn new(images: Tensor<4>) -> Self {
        Self { images, graph: Graph::default(), parameters: Vec::new(), norms: Vec::new() }
    }

    /// Takes in a parameter.
    pub(crate) fn parameter<const D: usize>(&mut self, tensor: Tensor<D>) -> Parameter {
        let elements = tensor.shape().num_elements();
        self.parameters.push(tensor.reshape([elements]));
        Parameter(self.parameters.len() - 1)
    }

    /// Takes in a batch norm.
    pub(crate) fn norm(&mut self, norm: Norm) {
        self.norms.push(norm);
    }

    /// The steps for these images.
    pub(crate) fn plan(&self, level: Level, precision: Precision) -> Result<Program, ProgramError> {
        let [images, height, width, channels] = self.images.dims();
        let (shape, way) = (Shape { images, height, width, channels }, (level, precision));
        if self.images.is_tracked() {
            Program::with_image_gradient(&self.graph, shape, way)
        } else {
            Program::new(&self.graph, shape, way)
        }
    }

    /// Runs the network, and leaves in the pass what its batch norms saw.
    #[allow(clippy::panic)] // As Burn's own operations do when shapes do not fit.
    pub(crate) fn run(&self, pass: &mut Pass) -> Tensor<4> {
        let level = Level::chosen().unwrap_or(Level::best());
        let program = self
            .plan(level, pass.precision())
            .unwrap_or_else(|error| panic!("the network cannot be run: {error}"));
        let given = pass.mode() == Mode::Evaluate;
        let (result, seen) = if pass.is_on_standard_operations() || !self.is_covered(&program) {
            self.run_standard(given)
        } else {
            self.run_kernels(program, given)
        };
        for (norm, (moments, count)) in self.norms.iter().zip(seen) {
            let (layer, momentum) = (norm.layer, norm.momentum);
            pass.record(Seen { layer, momentum, count, moments });
        }
        result
    }

    fn run_standard(&self, given: bool) -> Run {
        let given = given.then(|| self.norms.iter().map(Norm::running).collect());
        let network = Standard { graph: &self.graph, parameters: &self.parameters, given };
        network.run(self.images.clone())
    }

    fn run_kernels(&self, program: Program, given: bool) -> Run {
        let running = || self.norms.iter().map(|norm| norm.running().moments()).collect();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let call = Call {
            program: Arc::new(program),
            sizes: self.parameters.iter().map(|p| p.shape().num_elements()).collect(),
            given: given.then(|| Arc::new(running())),
            seen: seen.clone(),
            pool: thread_pool(),
        };
        let (images, parameters) = (self.images.clone(), self.flat());
        let result =
            Dispatch::run_network(images.into_dispatch(), parameters.into_dispatch(), call);
        let seen = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
        (Tensor::from_dispatch(result), seen)
    }

    /// Whether the kernels can run the network. Where they are expected to and cannot, that
    /// is told: it costs time.
    fn is_covered(&self, program: &Program) -> bool {
        if self.images.device() != Device::flex() {
            return false;
        }
        let types = self.parameters.iter().map(Tensor::dtype);
        let foreign = [self.images.dtype()].into_iter().chain(types).find(|t| *t != DType::F32);
        let limit = program.limit().map(|limit| limit.to_string());
        let reason = limit.or(foreign.map(|t| format!("numbers are {t:?}, the kernels have F32")));
        if let Some(reason) = &reason {
            tell_once(reason);
        }
        reason.is_none()
    }

    /// All parameters one after the other: one operation has few inputs.
    fn flat(&self) -> Tensor<1> {
        match &self.parameters[..] {
            [] => Tensor::zeros([1], &self.images.device()),
            parameters => Tensor::cat(parameters.to_vec(), 0),
        }
    }
}

impl Norm {
    fn running(&self) -> Statistics {
        let (mean, variance) = (self.running_mean.clone(), self.running_variance.clone());
        Statistics { mean, variance }
    }
}

/// Warns, by the `log` crate, once for each reason in a process: every step of every replica
/// comes by here.
fn tell_once(reason: &str) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.insert(reason.to_owned()) {
        log::warn!("the network runs on Burn's own operations, which are slower: {reason}");
    }
}

/// Buffers that a thread's networks hand on from step to step.
pub(crate) fn thread_pool() -> Pool {
    thread_local! {
        static POOL: Pool = Pool::default();
    }
    POOL.with(Pool::clone)
}
