//! Stochastic gradient descent as PyTorch does it: coupled weight decay, momentum,
//! no dampening.
//!
//! ```text
//! g = gradient + weight_decay * w
//! m = momentum * m + g
//! w = w - rate * m
//! ```
//!
//! Momentum starts at zero, which gives PyTorch's first step, where `m` is `g`.

use std::collections::{HashMap, HashSet};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Gradients, Tensor};
use hwa_core::{Role, Weights, WeightsError};

use crate::names;

/// The settings of SGD that do not change from step to step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SgdConfig {
    /// How much of the last step's direction is kept, 0.9 as a rule.
    pub momentum: f64,
    /// How much of the weights is added to their gradient.
    pub weight_decay: f64,
}

/// SGD over all parameters of a module.
#[derive(Debug)]
pub struct Sgd {
    config: SgdConfig,
    /// Flattened, without autodiff. A parameter that is not here has momentum zero.
    momentum: HashMap<ParamId, Tensor<1>>,
}

impl Sgd {
    /// An optimizer with momentum zero.
    pub fn new(config: SgdConfig) -> Self {
        Self { config, momentum: HashMap::new() }
    }

    /// One step. A parameter without a gradient stays, as in PyTorch.
    pub fn step<M: Module>(&mut self, module: M, gradients: Gradients, rate: f64) -> M {
        module.map(&mut Step { sgd: self, gradients, rate })
    }

    /// The momentum of every parameter of the module, under its name.
    pub fn momentum<M: Module>(&self, module: &M) -> Result<Weights, WeightsError> {
        let shown = module.valid().map(&mut Show { momentum: &self.momentum });
        Ok(names::export(&shown)?.only(Role::Parameter))
    }

    /// Takes over the momentum of every parameter of the module, or nothing.
    pub fn load_momentum<M: Module>(
        &mut self,
        module: &M,
        momentum: &Weights,
    ) -> Result<(), WeightsError> {
        let shown = names::load_parameters(&module.valid(), momentum)?;
        let wanted = names::tensors(module).into_iter().filter(|t| t.role == Role::Parameter);
        let mut collect = Collect { wanted: wanted.map(|t| t.id).collect(), found: HashMap::new() };
        shown.visit(&mut collect);
        self.momentum = collect.found;
        Ok(())
    }
}

/// Puts momentum in the place of weights.
struct Show<'a> {
    momentum: &'a HashMap<ParamId, Tensor<1>>,
}

impl ModuleMapper for Show<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let kept = self.momentum.get(&param.id).cloned();
        param.map(|weights| match kept {
            Some(momentum) => momentum.reshape(weights.shape()),
            None => weights.zeros_like(),
        })
    }
}

/// Takes momentum from the place of weights.
struct Collect {
    wanted: HashSet<ParamId>,
    found: HashMap<ParamId, Tensor<1>>,
}

impl ModuleVisitor for Collect {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.wanted.contains(&param.id) {
            let momentum = param.base();
            let elements = momentum.shape().num_elements();
            self.found.insert(param.id, momentum.reshape([elements]));
        }
    }
}

struct Step<'a> {
    sgd: &'a mut Sgd,
    gradients: Gradients,
    rate: f64,
}

impl ModuleMapper for Step<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = param.base().grad_remove(&mut self.gradients) else { return param };
        let SgdConfig { momentum, weight_decay } = self.sgd.config;
        let id = param.id;
        param.map(|weights| {
            let (shape, weights) = (weights.shape(), weights.inner());
            let mut direction = gradient + weights.clone() * weight_decay;
            if momentum != 0.0 {
                if let Some(kept) = self.sgd.momentum.remove(&id) {
                    direction = kept.reshape(shape.clone()) * momentum + direction;
                }
                let flat = direction.clone().reshape([shape.num_elements()]);
                self.sgd.momentum.insert(id, flat);
            }
            Tensor::from_inner(weights - direction * self.rate).require_grad()
        })
    }
}
