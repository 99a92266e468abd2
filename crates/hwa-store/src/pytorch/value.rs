//! What a pickle can build here: plain data, and descriptions of tensors.
//!
//! Values refer to each other by number. A list that contains itself is a number that
//! leads back, not a structure that a walk or a drop could get lost in. What carries no
//! meaning for weights, such as floats, flags, dates and an optimizer's settings, is one
//! value, [`Id::INERT`], however much of it there is.

use super::globals::Global;
use super::strided::StridedTensor;

/// The number of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(u32);

impl Id {
    /// Python's `None`.
    pub(super) const NONE: Self = Self(0);
    /// Anything without a meaning here. It takes whatever is done to it.
    pub(super) const INERT: Self = Self(1);
}

/// A value; texts are those of the pickle.
#[derive(Debug)]
pub(super) enum Value<'a> {
    None,
    Inert,
    Int(i64),
    Text(&'a str),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global),
    Storage(Box<Storage<'a>>),
    Tensor(Box<StridedTensor<'a>>),
}

/// Numbers in an entry of the archive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Storage<'a> {
    /// The entry is `data/<key>`.
    pub(super) key: &'a str,
    /// `None` for raw bytes: the tensor says what they are.
    pub(super) element: Option<Element>,
    /// The number of elements, or of bytes.
    pub(super) length: u64,
}

/// The type of stored numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    F64,
    F32,
    F16,
    BF16,
    I64,
    I32,
    /// A type that weights do not have.
    Other(&'static str),
}

/// All values of a pickle, and the one that it is.
#[derive(Debug)]
pub(super) struct Objects<'a> {
    values: Vec<Value<'a>>,
    root: Id,
}

impl<'a> Objects<'a> {
    /// The values that are always there.
    pub(super) fn new() -> Self {
        Self { values: vec![Value::None, Value::Inert], root: Id::NONE }
    }

    /// Adds a value, unless there are `limit` already.
    pub(super) fn add(&mut self, value: Value<'a>, limit: usize) -> Option<Id> {
        let id = u32::try_from(self.values.len()).ok().filter(|id| (*id as usize) < limit)?;
        self.values.push(value);
        Some(Id(id))
    }

    /// The value of that number.
    pub(super) fn get(&self, id: Id) -> &Value<'a> {
        self.values.get(id.0 as usize).unwrap_or(&Value::Inert)
    }

    /// The value of that number, to be filled.
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Value<'a>> {
        self.values.get_mut(id.0 as usize)
    }

    /// The value that the pickle is.
    pub(super) fn root(&self) -> &Value<'a> {
        self.get(self.root)
    }

    /// Says which value the pickle is.
    pub(super) fn set_root(&mut self, root: Id) {
        self.root = root;
    }
}
