//! What a pickle would call in Python, and what it comes to here.
//!
//! Only names of the list reach this place (`globals`). Tensors and storages become
//! descriptions of themselves, dicts are made, everything else is inert.

use super::MAX_TENSORS;
use super::globals::Global;
use super::pickle::{MAX_VALUES, Machine, too_many};
use super::strided::StridedTensor;
use super::value::{Id, Storage, Value};
use crate::checkpoint_error::CheckpointError;

const MAX_KEY: usize = 64;

impl<'a> Machine<'a> {
    /// An instruction that calls, or makes an object of a class.
    pub(super) fn call(&mut self, code: u8) -> Result<(), CheckpointError> {
        if code == 0x92 {
            self.pop()?; // arguments by name
        }
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let Value::Global(global) = *self.objects.get(callee) else {
            return Err(self.senseless("a name to call"));
        };
        let result = match global {
            Global::Dict { arguments: expected } if self.count(arguments)? <= expected => {
                self.objects.add(Value::Dict(Vec::new()), MAX_VALUES)
            }
            // A dict that is made of another one: no state dict is.
            Global::Dict { .. } | Global::Inert => Some(Id::INERT),
            Global::Size => Some(self.argument(arguments, 0)?),
            Global::RebuildFromType => {
                let function = self.argument(arguments, 0)?;
                let Value::Global(function) = *self.objects.get(function) else {
                    return Err(self.senseless("a function that builds tensors"));
                };
                let arguments = self.argument(arguments, 2)?;
                Some(self.rebuilt(function, arguments)?)
            }
            other => Some(self.rebuilt(other, arguments)?),
        };
        match result {
            Some(id) => self.push(id),
            None => Err(too_many("values", MAX_VALUES)),
        }
    }

    /// A tensor, by one of PyTorch's functions that build them.
    fn rebuilt(&mut self, function: Global, arguments: Id) -> Result<Id, CheckpointError> {
        if function == Global::RebuildParameter {
            let tensor = self.argument(arguments, 0)?;
            return match self.objects.get(tensor) {
                Value::Tensor(_) => Ok(tensor),
                _ => Err(self.senseless("a tensor in a parameter")),
            };
        }
        let Value::Tuple(items) = self.objects.get(arguments) else {
            return Err(self.senseless("arguments"));
        };
        let tensor = match function {
            Global::RebuildTensor => StridedTensor::from_arguments(&self.objects, items),
            Global::RebuildTensorV3 => StridedTensor::from_arguments_v3(&self.objects, items),
            _ => return Err(self.senseless("a function that builds tensors")),
        };
        let tensor = tensor.ok_or_else(|| self.senseless("storage, offset, shape and strides"))?;
        self.tensors += 1;
        if self.tensors > MAX_TENSORS {
            return Err(too_many("tensors", MAX_TENSORS));
        }
        let tensor = self.objects.add(Value::Tensor(Box::new(tensor)), MAX_VALUES);
        tensor.ok_or_else(|| too_many("values", MAX_VALUES))
    }

    /// A storage, which a pickle refers to by a description.
    pub(super) fn storage(&mut self) -> Result<(), CheckpointError> {
        let id = self.pop()?;
        let storage = match self.objects.get(id) {
            Value::Tuple(items) => self.described(items),
            _ => None,
        };
        match storage {
            Some(storage) => self.create(Value::Storage(Box::new(storage))),
            None => Err(self.senseless("the description of a storage")),
        }
    }

    /// `("storage", type, key, device, length)`, where keys are short: they count storages.
    fn described(&self, items: &[Id]) -> Option<Storage<'a>> {
        let &[word, kind, key, _, length] = items else {
            return None;
        };
        let get = |id| self.objects.get(id);
        match (get(word), get(kind), get(key), get(length)) {
            (
                Value::Text("storage"),
                Value::Global(Global::Storage(element)),
                Value::Text(key),
                Value::Int(length),
            ) if key.len() <= MAX_KEY => {
                Some(Storage { key, element: *element, length: u64::try_from(*length).ok()? })
            }
            _ => None,
        }
    }

    fn count(&self, arguments: Id) -> Result<usize, CheckpointError> {
        match self.objects.get(arguments) {
            Value::Tuple(items) => Ok(items.len()),
            _ => Err(self.senseless("arguments")),
        }
    }

    fn argument(&self, arguments: Id, index: usize) -> Result<Id, CheckpointError> {
        let found = match self.objects.get(arguments) {
            Value::Tuple(items) => items.get(index).copied(),
            _ => None,
        };
        found.ok_or_else(|| self.senseless("arguments"))
    }
}
