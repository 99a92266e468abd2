//! A module's tensors by name: its fields' dotted path, as in `layer1.0.conv1.weight`.
//!
//! With the fields of this crate's models these are the names of PyTorch's state
//! dict; with Burn's own layers, or a user's, they are the names of their fields.
//! The variant of an enum is no part of a name: it says what a thing is, not where.
//! Boolean tensors are constants to training and are left out.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{DType, Int, Tensor, TensorData};
use hwa_core::{Role, Tensor as NamedTensor, ValueType, Values, Weights, WeightsError};

/// PyTorch stores this as a scalar; Burn's smallest tensor has one dimension.
const SCALAR_COUNTER: &str = "num_batches_tracked";

/// All tensors of a module: parameters, statistics and counters.
pub fn export<M: Module>(module: &M) -> Result<Weights, WeightsError> {
    Reader::default().read(module)
}

/// The parameters of a module, without statistics and counters.
pub fn export_parameters<M: Module>(module: &M) -> Result<Weights, WeightsError> {
    Reader { only: Some(Role::Parameter), ..Reader::default() }.read(module)
}

/// The module with all of its tensors replaced.
///
/// Names, shapes, types and roles have to be the module's, or nothing is loaded.
pub fn load<M: Module>(module: &M, weights: &Weights) -> Result<M, WeightsError> {
    export(module)?.ensure_same_layout(weights)?;
    Ok(replace(module, weights))
}

/// The module with its parameters replaced; statistics and counters stay.
///
/// `weights` holds all parameters and nothing else, or nothing is loaded.
pub fn load_parameters<M: Module>(module: &M, weights: &Weights) -> Result<M, WeightsError> {
    export_parameters(module)?.ensure_same_layout(weights)?;
    Ok(replace(module, weights))
}

/// One tensor of a module.
pub(crate) struct Found {
    pub name: String,
    pub id: ParamId,
    pub role: Role,
    pub elements: usize,
}

/// The tensors of a module, in the order of its fields.
pub(crate) fn tensors<M: Module>(module: &M) -> Vec<Found> {
    let mut finder = Finder::default();
    module.visit(&mut finder);
    finder.found
}

fn replace<M: Module>(module: &M, weights: &Weights) -> M {
    let mut finder = Finder::default();
    module.visit(&mut finder);
    let mut writer = Writer { path: Path::default(), weights };
    // A validation copy shares no running statistics with the module and has none pending.
    let loaded = module.valid().map(&mut writer);
    if finder.autodiff { loaded.train() } else { loaded }
}

/// Where a traversal is.
#[derive(Default)]
struct Path(Vec<String>);

impl Path {
    fn enter(&mut self, name: &str, container: &str) {
        if !is_enum(container) {
            self.0.push(name.to_owned());
        }
    }

    fn exit(&mut self, container: &str) {
        if !is_enum(container) {
            self.0.pop();
        }
    }

    fn name(&self) -> String {
        self.0.join(".")
    }
}

/// Whether Burn tells of a variant, and not of a field or an element.
fn is_enum(container: &str) -> bool {
    container.starts_with("Enum:")
}

struct Reader {
    path: Path,
    /// The role that is read; without, all are.
    only: Option<Role>,
    weights: Weights,
    outcome: Result<(), WeightsError>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { path: Path::default(), only: None, weights: Weights::new(), outcome: Ok(()) }
    }
}

impl Reader {
    fn read<M: Module>(mut self, module: &M) -> Result<Weights, WeightsError> {
        // Burn's own batch norm keeps updates pending; a validation copy has them applied.
        module.valid().visit(&mut self);
        self.outcome.map(|()| self.weights)
    }

    fn wants(&self, value_type: ValueType) -> bool {
        self.only.is_none_or(|role| role == Role::infer(&self.path.name(), value_type))
    }

    fn take(&mut self, shape: Vec<usize>, values: Values) {
        let name = self.path.name();
        let is_scalar = name.rsplit('.').next() == Some(SCALAR_COUNTER) && shape == [1];
        let shape = if is_scalar { Vec::new() } else { shape };
        let role = Role::infer(&name, values.value_type());
        let inserted =
            NamedTensor::new(role, shape, values).and_then(|t| self.weights.insert(name, t));
        if self.outcome.is_ok() {
            self.outcome = inserted;
        }
    }
}

impl ModuleVisitor for Reader {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !self.wants(ValueType::F32) {
            return;
        }
        let data = param.base().into_data();
        self.take(data.shape().to_vec(), values(&data));
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        if !self.wants(ValueType::I64) {
            return;
        }
        let data = param.base().into_data();
        self.take(data.shape().to_vec(), Values::I64(data.iter().collect()));
    }
}

/// Finds tensors, and whether the module is set up for training.
#[derive(Default)]
struct Finder {
    path: Path,
    found: Vec<Found>,
    autodiff: bool,
}

impl Finder {
    fn take(&mut self, id: ParamId, value_type: ValueType, elements: usize) {
        let name = self.path.name();
        let role = Role::infer(&name, value_type);
        self.found.push(Found { name, id, role, elements });
    }
}

impl ModuleVisitor for Finder {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.autodiff |= param.base().is_autodiff();
        self.take(param.id, ValueType::F32, param.base().shape().num_elements());
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.take(param.id, ValueType::I64, param.base().shape().num_elements());
    }
}

struct Writer<'a> {
    path: Path,
    weights: &'a Weights,
}

impl ModuleMapper for Writer<'_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(tensor) = self.weights.get(&self.path.name()) else { return param };
        param.map(|old| {
            let data = tensor_data(tensor, old.dims().to_vec());
            Tensor::from_data(data, (&old.device(), old.dtype()))
        })
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        let Some(tensor) = self.weights.get(&self.path.name()) else { return param };
        let Values::I64(values) = tensor.values() else { return param };
        param.map(|old| {
            // Burn panics at what its type cannot hold; a counter that large has no meaning.
            let (low, high) = range(old.dtype());
            let values: Vec<i64> = values.iter().map(|v| (*v).clamp(low, high)).collect();
            let data = TensorData::new(values, old.dims().to_vec());
            Tensor::from_data(data, (&old.device(), old.dtype()))
        })
    }
}

/// What an integer type can hold, as far as a counter can.
fn range(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::I64 => (i64::MIN, i64::MAX),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::U64 => (0, i64::MAX),
        DType::U32 => (0, u32::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        _ => (0, u8::MAX.into()),
    }
}

/// The elements of a tensor of floats.
pub(crate) fn values(data: &TensorData) -> Values {
    match data.dtype() {
        DType::F64 => Values::F64(data.iter().collect()),
        DType::F16 => Values::F16(data.iter().collect()),
        DType::BF16 => Values::BF16(data.iter().collect()),
        // All at once where that is the type already: the values may be hundreds of millions.
        _ => Values::F32(data.as_slice().map_or_else(|_| data.iter().collect(), <[f32]>::to_vec)),
    }
}

pub(crate) fn tensor_data(tensor: &NamedTensor, shape: Vec<usize>) -> TensorData {
    match tensor.values() {
        Values::F64(v) => TensorData::new(v.clone(), shape),
        Values::F32(v) => TensorData::new(v.clone(), shape),
        Values::F16(v) => TensorData::new(v.clone(), shape),
        Values::BF16(v) => TensorData::new(v.clone(), shape),
        Values::I64(v) => TensorData::new(v.clone(), shape),
    }
}
