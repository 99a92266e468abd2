//! Named weights: tensors with a name, a shape, a type and a role.
//!
//! Everything that is averaged, stored or loaded travels as [`Weights`]. Tensors
//! are matched by name and shape, never by position, and each carries a
//! [`Role`]: what may be averaged is written on the tensor, not guessed later.

use std::collections::BTreeMap;

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// What a tensor is for, and so what averaging may do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Learned by the optimizer; averaged.
    Parameter,
    /// A running batch-norm statistic: re-estimated for averaged weights.
    Statistic,
    /// An integer count such as `num_batches_tracked`; never averaged.
    Counter,
}

impl Role {
    /// The role of a tensor that comes without one, by PyTorch's conventions:
    /// integers count, `running_mean` and `running_var` are statistics.
    pub fn infer(name: &str, value_type: ValueType) -> Self {
        let last = name.rsplit('.').next().unwrap_or(name);
        if value_type == ValueType::I64 {
            Self::Counter
        } else if matches!(last, "running_mean" | "running_var") {
            Self::Statistic
        } else {
            Self::Parameter
        }
    }
}

/// The element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ValueType {
    /// IEEE double precision.
    F64,
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    BF16,
    /// Signed 64-bit integers, for counters.
    I64,
}

impl ValueType {
    /// The bytes of one element.
    pub fn num_bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }
}

/// The elements of a tensor, in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Double precision.
    F64(Vec<f64>),
    /// Single precision.
    F32(Vec<f32>),
    /// Half precision.
    F16(Vec<f16>),
    /// bfloat16.
    BF16(Vec<bf16>),
    /// Integers.
    I64(Vec<i64>),
}

impl Values {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F64(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F16(v) => v.len(),
            Self::BF16(v) => v.len(),
            Self::I64(v) => v.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::F64(_) => ValueType::F64,
            Self::F32(_) => ValueType::F32,
            Self::F16(_) => ValueType::F16,
            Self::BF16(_) => ValueType::BF16,
            Self::I64(_) => ValueType::I64,
        }
    }

    /// The elements in double precision.
    pub fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::F64(v) => v.clone(),
            Self::F32(v) => v.iter().map(|x| f64::from(*x)).collect(),
            Self::F16(v) => v.iter().map(|x| x.to_f64()).collect(),
            Self::BF16(v) => v.iter().map(|x| x.to_f64()).collect(),
            Self::I64(v) => v.iter().map(|x| *x as f64).collect(),
        }
    }

    /// Elements of a type, rounded once from double precision.
    pub fn rounded(value_type: ValueType, wide: Vec<f64>) -> Self {
        match value_type {
            ValueType::F64 => Self::F64(wide),
            ValueType::F32 => Self::F32(wide.into_iter().map(|x| x as f32).collect()),
            ValueType::F16 => Self::F16(wide.into_iter().map(crate::mean::to_f16).collect()),
            ValueType::BF16 => Self::BF16(wide.into_iter().map(crate::mean::to_bf16).collect()),
            ValueType::I64 => Self::I64(wide.into_iter().map(|x| x as i64).collect()),
        }
    }

    /// The index of the first NaN or infinity, if there is one.
    pub fn first_non_finite(&self) -> Option<usize> {
        match self {
            Self::F64(v) => v.iter().position(|x| !x.is_finite()),
            Self::F32(v) => v.iter().position(|x| !x.is_finite()),
            Self::F16(v) => v.iter().position(|x| !x.is_finite()),
            Self::BF16(v) => v.iter().position(|x| !x.is_finite()),
            Self::I64(_) => None,
        }
    }
}

/// One tensor: role, shape, elements. A scalar has the empty shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    role: Role,
    shape: Vec<usize>,
    values: Values,
}

impl Tensor {
    /// A tensor whose element count agrees with its shape.
    pub fn new(role: Role, shape: Vec<usize>, values: Values) -> Result<Self, WeightsError> {
        let expected = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        if expected != Some(values.len()) {
            return Err(WeightsError::WrongLength { shape, found: values.len() });
        }
        if (role == Role::Counter) != (values.value_type() == ValueType::I64) {
            return Err(WeightsError::RoleType { role, found: values.value_type() });
        }
        Ok(Self { role, shape, values })
    }

    /// A single-precision parameter.
    pub fn parameter(shape: Vec<usize>, values: Vec<f32>) -> Result<Self, WeightsError> {
        Self::new(Role::Parameter, shape, Values::F32(values))
    }

    /// What the tensor is for.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The sizes of its dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its elements.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Its elements as `f32`, if that is their type.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match &self.values {
            Values::F32(v) => Some(v),
            _ => None,
        }
    }

    /// A tensor of the same role, shape and type, filled with zeros.
    pub fn zeros_like(&self) -> Self {
        let n = self.values.len();
        let values = match self.values.value_type() {
            ValueType::F64 => Values::F64(vec![0.0; n]),
            ValueType::F32 => Values::F32(vec![0.0; n]),
            ValueType::F16 => Values::F16(vec![f16::ZERO; n]),
            ValueType::BF16 => Values::BF16(vec![bf16::ZERO; n]),
            ValueType::I64 => Values::I64(vec![0; n]),
        };
        Self { role: self.role, shape: self.shape.clone(), values }
    }

    /// Element by element of two tensors of one shape, computed in `f64` and rounded once to
    /// the type of this one. Counters stay as they are.
    pub fn combined(
        &self,
        other: &Self,
        combine: impl Fn(f64, f64) -> f64,
    ) -> Result<Self, WeightsError> {
        if self.shape != other.shape {
            let (shape, found) = (self.shape.clone(), other.values.len());
            return Err(WeightsError::WrongLength { shape, found });
        }
        let (role, shape) = (self.role, self.shape.clone());
        let values = match (&self.values, &other.values) {
            // By far the most usual.
            (Values::F32(a), Values::F32(b)) => {
                let pairs = a.iter().zip(b);
                Values::F32(
                    pairs.map(|(a, b)| combine(f64::from(*a), f64::from(*b)) as f32).collect(),
                )
            }
            (Values::I64(counts), _) => Values::I64(counts.clone()),
            (mine, theirs) => {
                let pairs = mine.to_f64().into_iter().zip(theirs.to_f64());
                let wide: Vec<f64> = pairs.map(|(a, b)| combine(a, b)).collect();
                Values::rounded(mine.value_type(), wide)
            }
        };
        Ok(Self { role, shape, values })
    }

    /// Its elements, taken out.
    pub fn into_values(self) -> Values {
        self.values
    }
}

/// Tensors by name, in the order of their names.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Weights {
    tensors: BTreeMap<String, Tensor>,
}

impl Weights {
    /// No tensors yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor; a name can be given once.
    pub fn insert(&mut self, name: impl Into<String>, tensor: Tensor) -> Result<(), WeightsError> {
        let name = name.into();
        if self.tensors.contains_key(&name) {
            return Err(WeightsError::Duplicate { name });
        }
        self.tensors.insert(name, tensor);
        Ok(())
    }

    /// The tensor of that name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The tensor of that name, or an error that names it.
    pub fn require(&self, name: &str) -> Result<&Tensor, WeightsError> {
        self.get(name).ok_or_else(|| WeightsError::Missing { name: name.to_owned() })
    }

    /// Names and tensors, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there is no tensor.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The number of elements over all tensors.
    pub fn num_elements(&self) -> usize {
        self.tensors.values().map(|t| t.values.len()).sum()
    }

    /// The bytes of all elements.
    pub fn num_bytes(&self) -> usize {
        let bytes = |t: &Tensor| t.values.len() * t.values.value_type().num_bytes();
        self.tensors.values().map(bytes).sum()
    }

    /// Only the tensors of one role.
    pub fn only(&self, role: Role) -> Self {
        let kept = self.tensors.iter().filter(|(_, t)| t.role == role);
        Self { tensors: kept.map(|(n, t)| (n.clone(), t.clone())).collect() }
    }

    /// Element by element of two sets of tensors with the same names and shapes, computed in
    /// `f64` and rounded once.
    ///
    /// ```
    /// use hwa_core::{Tensor, Weights};
    ///
    /// let weights = |value| {
    ///     let mut weights = Weights::new();
    ///     weights.insert("w", Tensor::parameter(vec![1], vec![value])?)?;
    ///     Ok::<_, hwa_core::WeightsError>(weights)
    /// };
    /// let between = weights(1.0)?.combined(&weights(3.0)?, |a, b| a + 0.25 * (b - a))?;
    /// assert_eq!(between, weights(1.5)?);
    /// # Ok::<_, hwa_core::WeightsError>(())
    /// ```
    pub fn combined(
        &self,
        other: &Self,
        combine: impl Fn(f64, f64) -> f64,
    ) -> Result<Self, WeightsError> {
        let mut all = Self::new();
        for (name, tensor) in self.iter() {
            all.insert(name, tensor.combined(other.require(name)?, &combine)?)?;
        }
        Ok(all)
    }

    /// The name of the first tensor that holds a NaN or an infinity.
    pub fn first_non_finite(&self) -> Option<&str> {
        let bad = self.iter().find(|(_, t)| t.values.first_non_finite().is_some());
        bad.map(|(name, _)| name)
    }

    /// Checks that `other` has the same names, shapes, types and roles.
    pub fn ensure_same_layout(&self, other: &Self) -> Result<(), WeightsError> {
        for (name, tensor) in self.iter() {
            let found = other.require(name)?;
            if found.shape != tensor.shape {
                return Err(WeightsError::ShapesDiffer {
                    name: name.to_owned(),
                    expected: tensor.shape.clone(),
                    found: found.shape.clone(),
                });
            }
            let (expected, found_type) = (tensor.values.value_type(), found.values.value_type());
            if expected != found_type {
                let name = name.to_owned();
                return Err(WeightsError::TypesDiffer { name, expected, found: found_type });
            }
            if found.role != tensor.role {
                let name = name.to_owned();
                let (expected, found) = (tensor.role, found.role);
                return Err(WeightsError::RolesDiffer { name, expected, found });
            }
        }
        match other.tensors.keys().find(|name| !self.tensors.contains_key(*name)) {
            Some(name) => Err(WeightsError::Unexpected { name: name.clone() }),
            None => Ok(()),
        }
    }
}

impl IntoIterator for Weights {
    type Item = (String, Tensor);
    type IntoIter = std::collections::btree_map::IntoIter<String, Tensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.tensors.into_iter()
    }
}

/// Why weights could not be built or matched.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WeightsError {
    /// A mean of nothing was asked for.
    #[error("no weights to average")]
    Empty,
    /// A tensor's element count does not agree with its shape.
    #[error("a tensor of shape {shape:?} cannot hold {found} elements")]
    WrongLength {
        /// The shape given.
        shape: Vec<usize>,
        /// The number of elements given.
        found: usize,
    },
    /// Counters are integers, and nothing else is.
    #[error("a {role:?} cannot have the type {found:?}")]
    RoleType {
        /// The role given.
        role: Role,
        /// The type given.
        found: ValueType,
    },
    /// A name was given twice.
    #[error("`{name}` is there twice")]
    Duplicate {
        /// The tensor.
        name: String,
    },
    /// A tensor that should be there is not.
    #[error("`{name}` is missing")]
    Missing {
        /// The tensor.
        name: String,
    },
    /// A tensor that should not be there is.
    #[error("`{name}` is not expected here")]
    Unexpected {
        /// The tensor.
        name: String,
    },
    /// Pieces to average differ in their type or their length.
    #[error(
        "a piece has {} elements of {:?}, expected {} of {:?}",
        found.1, found.0, expected.1, expected.0
    )]
    PiecesDiffer {
        /// What it should be.
        expected: (ValueType, usize),
        /// What it is.
        found: (ValueType, usize),
    },
    /// Slices that are averaged differ in their lengths.
    #[error("a member has {found} elements, expected {expected}")]
    LengthsDiffer {
        /// The elements of the first.
        expected: usize,
        /// Those of another one.
        found: usize,
    },
    /// Two shapes differ.
    #[error("`{name}` has shape {found:?}, expected {expected:?}")]
    ShapesDiffer {
        /// The tensor.
        name: String,
        /// The shape it should have.
        expected: Vec<usize>,
        /// The shape it has.
        found: Vec<usize>,
    },
    /// Two types differ.
    #[error("`{name}` has type {found:?}, expected {expected:?}")]
    TypesDiffer {
        /// The tensor.
        name: String,
        /// The type it should have.
        expected: ValueType,
        /// The type it has.
        found: ValueType,
    },
    /// Two roles differ.
    #[error("`{name}` is a {found:?}, expected a {expected:?}")]
    RolesDiffer {
        /// The tensor.
        name: String,
        /// The role it should have.
        expected: Role,
        /// The role it has.
        found: Role,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, shape: Vec<usize>, values: Vec<f32>) -> Weights {
        let mut weights = Weights::new();
        weights.insert(name, Tensor::parameter(shape, values).unwrap()).unwrap();
        weights
    }

    #[test]
    fn a_tensor_must_fill_its_shape() {
        assert!(Tensor::parameter(vec![2, 2], vec![0.0; 4]).is_ok());
        let short = Tensor::parameter(vec![2, 2], vec![0.0; 3]).unwrap_err();
        assert_eq!(short.to_string(), "a tensor of shape [2, 2] cannot hold 3 elements");
        let overflow = Tensor::parameter(vec![usize::MAX, 2], vec![]).unwrap_err();
        assert!(matches!(overflow, WeightsError::WrongLength { found: 0, .. }));
    }

    #[test]
    fn only_integers_count_and_integers_only_count() {
        assert!(Tensor::new(Role::Counter, vec![], Values::I64(vec![7])).is_ok());
        assert!(Tensor::new(Role::Counter, vec![], Values::F32(vec![7.0])).is_err());
        assert!(Tensor::new(Role::Parameter, vec![], Values::I64(vec![7])).is_err());
    }

    #[test]
    fn roles_follow_pytorchs_names() {
        assert_eq!(Role::infer("bn1.running_mean", ValueType::F32), Role::Statistic);
        assert_eq!(Role::infer("running_var", ValueType::F16), Role::Statistic);
        assert_eq!(Role::infer("bn1.num_batches_tracked", ValueType::I64), Role::Counter);
        assert_eq!(Role::infer("bn1.weight", ValueType::F32), Role::Parameter);
    }

    #[test]
    fn a_mismatch_names_the_tensor() {
        let a = one("conv1.weight", vec![2], vec![1.0, 2.0]);
        let b = one("conv1.weight", vec![1, 2], vec![1.0, 2.0]);
        let c = one("conv2.weight", vec![2], vec![1.0, 2.0]);
        let text = |w: &Weights| a.ensure_same_layout(w).unwrap_err().to_string();
        assert_eq!(text(&b), "`conv1.weight` has shape [1, 2], expected [2]");
        assert_eq!(text(&c), "`conv1.weight` is missing");
        let mut more = a.clone();
        more.insert("extra", Tensor::parameter(vec![], vec![1.0]).unwrap()).unwrap();
        assert_eq!(text(&more), "`extra` is not expected here");
        assert!(a.ensure_same_layout(&a.clone()).is_ok());
    }

    #[test]
    fn a_name_can_be_given_once() {
        let mut weights = one("w", vec![], vec![1.0]);
        let again = weights.insert("w", Tensor::parameter(vec![], vec![2.0]).unwrap());
        assert_eq!(again.unwrap_err().to_string(), "`w` is there twice");
    }
}
