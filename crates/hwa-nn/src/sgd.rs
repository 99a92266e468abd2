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
use burn::tensor::{DType, Device, Gradients, Tensor};
use hwa_core::{Role, Tensor as NamedTensor, Values, Weights, WeightsError};
use hwa_kernels::simd::Level;

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
        module.map(&mut Step { sgd: self, gradients: Computed::Now(gradients), rate })
    }

    /// One step along a gradient that is given by name. A parameter that it does not name
    /// stays; what is no parameter, or has another shape, is refused.
    pub fn descend<M: Module>(
        &mut self,
        module: M,
        gradient: &Weights,
        rate: f64,
    ) -> Result<M, WeightsError> {
        let parameters = names::export_parameters(&module)?;
        let mut left: HashMap<ParamId, &NamedTensor> = HashMap::new();
        let ids: HashMap<String, ParamId> =
            names::tensors(&module).into_iter().map(|found| (found.name, found.id)).collect();
        for (name, tensor) in gradient.iter() {
            let unexpected = || WeightsError::Unexpected { name: name.to_owned() };
            let parameter = parameters.get(name).ok_or_else(unexpected)?;
            if parameter.shape() != tensor.shape() {
                let (expected, found) = (parameter.shape().to_vec(), tensor.shape().to_vec());
                return Err(WeightsError::ShapesDiffer { name: name.to_owned(), expected, found });
            }
            left.insert(*ids.get(name).ok_or_else(unexpected)?, tensor);
        }
        Ok(module.map(&mut Step { sgd: self, gradients: Computed::Before(left), rate }))
    }

    /// Gradients by the names of their parameters; a parameter without one is not there.
    pub fn gradient<M: Module>(module: &M, gradients: Gradients) -> Result<Weights, WeightsError> {
        let mut found = Found { gradients, values: HashMap::new() };
        module.visit(&mut found);
        let mut gradient = Weights::new();
        for tensor in names::tensors(module) {
            if let Some((shape, values)) = found.values.remove(&tensor.id) {
                gradient.insert(tensor.name, NamedTensor::new(Role::Parameter, shape, values)?)?;
            }
        }
        Ok(gradient)
    }

    /// The momentum of every parameter of the module, under its name.
    pub fn momentum<M: Module>(&self, module: &M) -> Result<Weights, WeightsError> {
        let shown = module.valid().map(&mut Show { momentum: &self.momentum });
        names::export_parameters(&shown)
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

/// Takes gradients out, by parameter.
struct Found {
    gradients: Gradients,
    values: HashMap<ParamId, (Vec<usize>, Values)>,
}

impl ModuleVisitor for Found {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = param.base().grad_remove(&mut self.gradients) {
            let data = gradient.into_data();
            self.values.insert(param.id, (data.shape().to_vec(), names::values(&data)));
        }
    }
}

/// Where a step's gradients come from.
enum Computed<'a> {
    /// From a backward pass.
    Now(Gradients),
    /// By parameter.
    Before(HashMap<ParamId, &'a NamedTensor>),
}

impl Computed<'_> {
    fn take<const D: usize>(&mut self, param: &Param<Tensor<D>>) -> Option<Tensor<D>> {
        let weights = param.base();
        match self {
            Self::Now(gradients) => weights.grad_remove(gradients),
            Self::Before(left) => {
                let data = names::tensor_data(left.remove(&param.id)?, weights.dims().to_vec());
                let device = weights.device().without_autodiff();
                Some(Tensor::from_data(data, (&device, weights.dtype())))
            }
        }
    }
}

struct Step<'a, 'g> {
    sgd: &'a mut Sgd,
    gradients: Computed<'g>,
    rate: f64,
}

impl ModuleMapper for Step<'_, '_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.take(&param) else { return param };
        let kept = self.sgd.momentum.remove(&param.id);
        let id = param.id;
        param.map(|weights| {
            let (device, weights) = (weights.device(), weights.inner());
            let types = [weights.dtype(), gradient.dtype()];
            let kept_type = kept.as_ref().map_or(DType::F32, Tensor::dtype);
            let on_kernels = device == Device::flex()
                && types.into_iter().chain([kept_type]).all(|of| of == DType::F32);
            let (weights, momentum) = match on_kernels {
                true => self.on_kernels((weights, kept), gradient),
                false => self.on_standard_operations((weights, kept), gradient),
            };
            if self.sgd.config.momentum != 0.0 {
                self.sgd.momentum.insert(id, momentum);
            }
            Tensor::from_inner(weights).require_grad()
        })
    }
}

impl Step<'_, '_> {
    /// In one pass; weights and momentum after the step.
    fn on_kernels<const D: usize>(
        &self,
        (weights, momentum): (Tensor<D>, Option<Tensor<1>>),
        gradient: Tensor<D>,
    ) -> (Tensor<D>, Tensor<1>) {
        let device = weights.device();
        let momentum = momentum.unwrap_or_else(|| {
            Tensor::zeros([weights.shape().num_elements()], (&device, DType::F32))
        });
        let (mut weights, mut momentum) = (weights.into_data(), momentum.into_data());
        let gradient = gradient.into_data();
        let SgdConfig { momentum: kept, weight_decay } = self.sgd.config;
        let sgd = hwa_kernels::Sgd {
            level: Level::chosen().unwrap_or(Level::best()),
            rate: self.rate as f32,
            momentum: kept as f32,
            decay: weight_decay as f32,
        };
        // All three are `f32`: other types have gone the other way.
        if let (Ok(weights), Ok(momentum), Ok(gradient)) =
            (weights.as_mut_slice(), momentum.as_mut_slice(), gradient.as_slice())
        {
            sgd.step(weights, momentum, gradient);
        }
        (Tensor::from_data(weights, &device), Tensor::from_data(momentum, &device))
    }

    fn on_standard_operations<const D: usize>(
        &self,
        (weights, momentum): (Tensor<D>, Option<Tensor<1>>),
        gradient: Tensor<D>,
    ) -> (Tensor<D>, Tensor<1>) {
        let (shape, config) = (weights.shape(), self.sgd.config);
        let mut direction = gradient + weights.clone() * config.weight_decay;
        if let Some(kept) = momentum {
            direction = kept.reshape(shape.clone()) * config.momentum + direction;
        }
        let momentum = direction.clone().reshape([shape.num_elements()]);
        (weights - direction * self.rate, momentum)
    }
}
