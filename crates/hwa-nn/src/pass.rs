//! One forward pass: what it is for, and what its batch-norm layers saw.
//!
//! Layers are not changed by a forward pass. A batch-norm layer that normalises by
//! its batch leaves what it saw in the [`Pass`], and whoever started the pass puts
//! it to use: a training step moves the running statistics, re-estimation pools.
//! So clones of a module share nothing, and evaluation cannot move a statistic.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::tensor::{Int, Tensor, TensorData};
use hwa_core::seed::{Purpose, Random};
use hwa_core::{Moments, MomentsError};
use hwa_data::Position;

use hwa_kernels::{Moments as BatchMoments, Precision};

/// What a forward pass is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A training step: batch norm uses its batch's statistics, dropout leaves out.
    Train,
    /// Re-estimation of running statistics: batch norm behaves as in training,
    /// dropout as in evaluation.
    Recalibrate,
    /// Evaluation: batch norm uses its running statistics.
    Evaluate,
}

/// One forward pass.
#[derive(Debug)]
pub struct Pass {
    mode: Mode,
    precision: Precision,
    standard: bool,
    position: Option<Position>,
    /// Layers that have drawn random numbers.
    drawn: u64,
    seen: Vec<Seen>,
}

/// What one batch-norm layer saw in a pass.
#[derive(Debug)]
pub(crate) struct Seen {
    pub layer: BatchNormId,
    pub momentum: f64,
    /// Values per channel.
    pub count: usize,
    /// Of the batch; the variance is divided by the number of values.
    pub moments: BatchMoments,
}

/// The tensors of a batch-norm layer that the optimizer does not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BatchNormId {
    pub mean: ParamId,
    pub variance: ParamId,
    pub batches: ParamId,
}

impl Pass {
    /// A pass that has seen nothing.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            precision: Precision::default(),
            standard: false,
            position: None,
            drawn: 0,
            seen: Vec::new(),
        }
    }

    /// At a position in a run, which gives the pass its random numbers. Without one, training
    /// leaves nothing out: to compare with another framework, which has other masks.
    pub fn at(self, position: Position) -> Self {
        Self { position: Some(position), ..self }
    }

    /// The random numbers of the next layer that wants some in training: by their address, so
    /// that a second pass at the same position draws the same. None if the pass is for
    /// something else, or has no position.
    pub fn random(&mut self) -> Option<Random> {
        let Position { seed, replica, step } =
            self.position.filter(|_| self.mode == Mode::Train)?;
        let layer = self.drawn;
        self.drawn += 1;
        Some(Random::new(seed, replica, Purpose::Dropout, [step, layer]))
    }

    /// With convolutions that are this precise.
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// How precise convolutions are.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// On Burn's own operations, even where there are kernels: to compare the two. They
    /// multiply everything by itself, whatever the precision.
    pub fn on_standard_operations(self) -> Self {
        Self { standard: true, ..self }
    }

    /// Whether Burn's own operations were asked for.
    pub(crate) fn is_on_standard_operations(&self) -> bool {
        self.standard
    }

    /// What the pass is for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn record(&mut self, seen: Seen) {
        self.seen.push(seen);
    }

    /// Moves the running statistics of `module` towards what this pass saw, as
    /// PyTorch does: by the layer's momentum, with the unbiased variance. Where
    /// PyTorch refuses, at a single value per channel, the variance is zero.
    pub fn move_statistics<M: Module>(self, module: M) -> M {
        let mut mapper = Rewrite::default();
        for seen in self.seen {
            let BatchNormId { mean, variance, batches } = seen.layer;
            let unbias = seen.count as f64 / seen.count.saturating_sub(1).max(1) as f64;
            let batch_mean = seen.moments.mean;
            let mut batch_variance = seen.moments.variance;
            batch_variance.iter_mut().for_each(|v| *v *= unbias);
            mapper.floats.entry(mean).or_default().push(Change::Towards(batch_mean, seen.momentum));
            let towards = Change::Towards(batch_variance, seen.momentum);
            mapper.floats.entry(variance).or_default().push(towards);
            let counter = mapper.counters.entry(batches).or_insert(Count::MoreBy(0));
            if let Count::MoreBy(more) = counter {
                *more += 1;
            }
        }
        module.map(&mut mapper)
    }
}

/// Statistics of every batch-norm layer of a module, pooled over passes.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    layers: HashMap<BatchNormId, Moments>,
}

impl Pool {
    /// Adds what a pass saw.
    pub(crate) fn add(&mut self, pass: Pass) -> Result<(), MomentsError> {
        for seen in pass.seen {
            let (mean, variance) = (seen.moments.mean, seen.moments.variance);
            let moments = self.layers.entry(seen.layer).or_insert_with(|| Moments::new(mean.len()));
            moments.add(seen.count as u64, &mean, &variance)?;
        }
        Ok(())
    }

    /// Whether no layer was seen in any pass.
    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The relative standard error of the worst layer, if all of them know theirs.
    pub(crate) fn relative_error(&self) -> Option<f64> {
        let mut errors = self.layers.values().map(Moments::relative_error);
        errors.try_fold(0.0, |worst: f64, error| {
            let error = error?;
            // A NaN stays: `max` would drop it.
            Some(if worst.is_nan() || worst > error { worst } else { error })
        })
    }

    /// Replaces the running statistics of `module` by the pooled ones.
    ///
    /// `num_batches_tracked` becomes the number of batches pooled, which is where
    /// PyTorch's `update_bn` leaves it: it resets the layer and then counts.
    pub(crate) fn replace_statistics<M: Module>(self, module: M) -> M {
        let mut mapper = Rewrite::default();
        for (layer, moments) in self.layers {
            mapper.floats.insert(layer.mean, vec![Change::To(moments.mean().to_vec())]);
            mapper.floats.insert(layer.variance, vec![Change::To(moments.unbiased_variance())]);
            mapper.counters.insert(layer.batches, Count::To(moments.batches() as i64));
        }
        module.map(&mut mapper)
    }
}

/// Rewrites statistics and counters, found by their parameter ids.
#[derive(Default)]
struct Rewrite {
    floats: HashMap<ParamId, Vec<Change>>,
    counters: HashMap<ParamId, Count>,
}

/// What happens to a statistic. A layer that is used twice in a pass is changed twice.
enum Change {
    To(Vec<f64>),
    Towards(Vec<f64>, f64),
}

/// What happens to a counter.
enum Count {
    To(i64),
    MoreBy(i64),
}

impl ModuleMapper for Rewrite {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(changes) = self.floats.remove(&param.id) else { return param };
        param.map(|old| {
            // In f64, rounded once, as PyTorch does on the CPU.
            let mut values: Vec<f64> = old.to_data().iter::<f64>().collect();
            for change in changes {
                match change {
                    Change::To(new) => values = new,
                    Change::Towards(new, momentum) => {
                        for (value, new) in values.iter_mut().zip(new) {
                            *value = momentum * new + (1.0 - momentum) * *value;
                        }
                    }
                }
            }
            let values: Vec<f32> = values.into_iter().map(|v| v as f32).collect();
            Tensor::from_data(TensorData::new(values, old.shape()), &old.device())
        })
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        match self.counters.remove(&param.id) {
            Some(Count::To(batches)) => param.map(|old| old.zeros_like() + batches),
            Some(Count::MoreBy(batches)) => param.map(|old| old + batches),
            None => param,
        }
    }
}
