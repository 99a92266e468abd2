//! A machine for pickles that builds data and calls nothing.
//!
//! It knows the instructions of protocols 2 to 5 that plain data needs. It does not
//! recurse, every step reads at least one byte, texts stay where they are in the pickle,
//! and a length is believed when as many bytes are there: time and memory are bounded by
//! the length of the pickle, and by the limits below.

use std::collections::HashMap;

use super::bytes::Bytes;
use super::globals::lookup;
use super::shown;
use super::value::{Id, Objects, Value};
use crate::checkpoint_error::CheckpointError;

/// The values that a pickle may build: some twenty per tensor.
pub(super) const MAX_VALUES: usize = 1 << 21;
/// What it may put onto the stack altogether. Long lists of losses are within it.
const MAX_PUSHES: usize = 1 << 24;
/// Containers inside containers.
const MAX_DEPTH: usize = 10_000;

/// Runs a pickle.
pub(super) fn run(program: &[u8]) -> Result<Objects<'_>, CheckpointError> {
    let mut machine = Machine {
        program: Bytes::new(program),
        at: 0,
        objects: Objects::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        pushes: 0,
        tensors: 0,
    };
    while machine.step()? == Next::Go {}
    Ok(machine.objects)
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Go,
    Stop,
}

/// The state of a pickle that is being run.
pub(super) struct Machine<'a> {
    program: Bytes<'a>,
    /// Where the current instruction stands.
    at: usize,
    pub(super) objects: Objects<'a>,
    stack: Vec<Id>,
    /// The heights of the stack where containers began.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    pushes: usize,
    /// Tensors so far.
    pub(super) tensors: usize,
}

impl<'a> Machine<'a> {
    fn step(&mut self) -> Result<Next, CheckpointError> {
        self.at = self.program.at();
        let code = self.read(Bytes::u8)?;
        match code {
            b'.' => {
                let root = self.pop()?;
                self.objects.set_root(root);
                return Ok(Next::Stop);
            }
            // Protocol and frame: nothing depends on them.
            0x80 => self.protocol()?,
            0x95 => drop(self.read(Bytes::u64)?),
            b'(' => self.mark()?,
            b'0' => drop(self.pop()?),
            b'1' => drop(self.pop_to_mark()?),
            b'2' => self.push(self.top()?)?,
            b'N' => self.push(Id::NONE)?,
            b'J' | b'K' | b'M' | 0x8a | 0x8b => self.integer(code)?,
            b'X' | 0x8c | 0x8d => self.text(code)?,
            b'G' | b'B' | b'C' | 0x88 | 0x89 | 0x8e | 0x96 => self.inert(code)?,
            b')' => self.create(Value::Tuple(Vec::new()))?,
            b']' => self.create(Value::List(Vec::new()))?,
            b'}' => self.create(Value::Dict(Vec::new()))?,
            0x8f => self.push(Id::INERT)?,
            b't' | 0x85..=0x87 => self.tuple(code)?,
            b'a' | b'e' | 0x90 => self.append(code)?,
            0x91 => {
                self.pop_to_mark()?;
                self.push(Id::INERT)?;
            }
            b's' | b'u' => self.set_items(code)?,
            b'q' | b'r' | 0x94 => self.memoize(code)?,
            b'h' | b'j' => self.recall(code)?,
            b'c' | 0x93 => self.global(code)?,
            b'R' | 0x81 | 0x92 => self.call(code)?,
            b'b' => self.build()?,
            b'Q' => self.storage()?,
            code => return Err(CheckpointError::Instruction { code, at: self.at }),
        }
        Ok(Next::Go)
    }

    fn protocol(&mut self) -> Result<(), CheckpointError> {
        match self.read(Bytes::u8)? {
            2..=5 => Ok(()),
            _ => Err(self.senseless("protocol 2, 3, 4 or 5")),
        }
    }

    fn integer(&mut self, code: u8) -> Result<(), CheckpointError> {
        let number = match code {
            b'J' => i64::from(self.read(Bytes::u32)?.cast_signed()),
            b'K' => self.read(Bytes::u8)?.into(),
            b'M' => self.read(Bytes::u16)?.into(),
            _ => {
                let length = match code {
                    0x8a => self.read(Bytes::u8)?.into(),
                    _ => self.read(Bytes::u32)?.into(),
                };
                match long(self.take(length)?) {
                    Some(number) => number,
                    None => return self.push(Id::INERT),
                }
            }
        };
        self.create(Value::Int(number))
    }

    fn text(&mut self, code: u8) -> Result<(), CheckpointError> {
        let length = match code {
            b'X' => self.read(Bytes::u32)?.into(),
            0x8c => self.read(Bytes::u8)?.into(),
            _ => self.read(Bytes::u64)?,
        };
        match std::str::from_utf8(self.take(length)?) {
            Ok(text) => self.create(Value::Text(text)),
            // Python lets lone surrogates pass. No name of a tensor has them.
            Err(_) => self.push(Id::INERT),
        }
    }

    /// Floats, flags and bytes.
    fn inert(&mut self, code: u8) -> Result<(), CheckpointError> {
        let length = match code {
            b'G' => 8,
            b'C' => self.read(Bytes::u8)?.into(),
            b'B' => self.read(Bytes::u32)?.into(),
            0x8e | 0x96 => self.read(Bytes::u64)?,
            _ => 0,
        };
        self.take(length)?;
        self.push(Id::INERT)
    }

    fn tuple(&mut self, code: u8) -> Result<(), CheckpointError> {
        let items = match code {
            b't' => self.pop_to_mark()?,
            _ => self.pop_last(usize::from(code - 0x84))?,
        };
        self.create(Value::Tuple(items))
    }

    fn append(&mut self, code: u8) -> Result<(), CheckpointError> {
        let items = match code {
            b'a' => self.pop_last(1)?,
            _ => self.pop_to_mark()?,
        };
        let list = self.top()?;
        match self.objects.get_mut(list) {
            Some(Value::List(list)) => list.extend(items),
            Some(Value::Inert) => {}
            _ => return Err(self.senseless("a list to append to")),
        }
        Ok(())
    }

    fn set_items(&mut self, code: u8) -> Result<(), CheckpointError> {
        let items = match code {
            b's' => self.pop_last(2)?,
            _ => self.pop_to_mark()?,
        };
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(self.senseless("keys with values"));
        };
        let dict = self.top()?;
        match self.objects.get_mut(dict) {
            Some(Value::Dict(dict)) => dict.extend(pairs.iter().map(|[key, value]| (*key, *value))),
            Some(Value::Inert) => {}
            _ => return Err(self.senseless("a dict to fill")),
        }
        Ok(())
    }

    fn memoize(&mut self, code: u8) -> Result<(), CheckpointError> {
        let index = match code {
            b'q' => self.read(Bytes::u8)?.into(),
            b'r' => self.read(Bytes::u32)?,
            _ => u32::try_from(self.memo.len()).unwrap_or(u32::MAX),
        };
        if self.memo.len() >= MAX_VALUES {
            return Err(too_many("values", MAX_VALUES));
        }
        let top = self.top()?;
        self.memo.insert(index, top);
        Ok(())
    }

    fn recall(&mut self, code: u8) -> Result<(), CheckpointError> {
        let index = match code {
            b'h' => self.read(Bytes::u8)?.into(),
            _ => self.read(Bytes::u32)?,
        };
        match self.memo.get(&index) {
            Some(id) => self.push(*id),
            None => Err(self.senseless("something remembered before")),
        }
    }

    fn global(&mut self, code: u8) -> Result<(), CheckpointError> {
        let (module, name) = match code {
            b'c' => {
                let module = String::from_utf8_lossy(self.read(Bytes::line)?);
                (module, String::from_utf8_lossy(self.read(Bytes::line)?))
            }
            _ => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (self.objects.get(module), self.objects.get(name)) {
                    (Value::Text(module), Value::Text(name)) => ((*module).into(), (*name).into()),
                    _ => return Err(self.senseless("a module and a name")),
                }
            }
        };
        match lookup(&module, &name) {
            Some(global) => self.create(Value::Global(global)),
            None => {
                let name = format!("{}.{}", shown(&module), shown(&name));
                Err(CheckpointError::Refused { name })
            }
        }
    }

    /// Attributes of an object, such as a state dict's `_metadata`: none has a meaning.
    fn build(&mut self) -> Result<(), CheckpointError> {
        self.pop()?;
        match self.objects.get(self.top()?) {
            Value::Dict(_) | Value::Inert => Ok(()),
            _ => Err(self.senseless("an object with attributes")),
        }
    }

    pub(super) fn create(&mut self, value: Value<'a>) -> Result<(), CheckpointError> {
        match self.objects.add(value, MAX_VALUES) {
            Some(id) => self.push(id),
            None => Err(too_many("values", MAX_VALUES)),
        }
    }

    pub(super) fn push(&mut self, id: Id) -> Result<(), CheckpointError> {
        self.pushes += 1;
        if self.pushes > MAX_PUSHES {
            return Err(too_many("values on the stack", MAX_PUSHES));
        }
        self.stack.push(id);
        Ok(())
    }

    fn mark(&mut self) -> Result<(), CheckpointError> {
        if self.marks.len() >= MAX_DEPTH {
            return Err(too_many("containers in each other", MAX_DEPTH));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    /// The height below which the container that is open must not reach.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Id, CheckpointError> {
        let above = self.stack.len() > self.floor();
        let top = self.stack.last().filter(|_| above).copied();
        top.ok_or_else(|| self.senseless("something on the stack"))
    }

    pub(super) fn pop(&mut self) -> Result<Id, CheckpointError> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_last(&mut self, n: usize) -> Result<Vec<Id>, CheckpointError> {
        let start = self.stack.len().checked_sub(n).filter(|start| *start >= self.floor());
        let start = start.ok_or_else(|| self.senseless("something on the stack"))?;
        Ok(self.stack.drain(start..).collect())
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Id>, CheckpointError> {
        let mark = self.marks.pop().ok_or_else(|| self.senseless("a mark on the stack"))?;
        Ok(self.stack.drain(mark..).collect())
    }

    fn read<T>(
        &mut self,
        read: impl FnOnce(&mut Bytes<'a>) -> Option<T>,
    ) -> Result<T, CheckpointError> {
        read(&mut self.program).ok_or(CheckpointError::PickleEnds { at: self.program.at() })
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], CheckpointError> {
        let ends = CheckpointError::PickleEnds { at: self.program.at() };
        let length = usize::try_from(length).ok();
        length.and_then(|length| self.program.take(length)).ok_or(ends)
    }

    pub(super) fn senseless(&self, expected: &'static str) -> CheckpointError {
        CheckpointError::Senseless { at: self.at, expected }
    }
}

pub(super) fn too_many(what: &'static str, limit: usize) -> CheckpointError {
    CheckpointError::TooMany { what, limit: limit as u64 }
}

/// An integer of up to eight bytes, in two's complement.
fn long(bytes: &[u8]) -> Option<i64> {
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(wide))
}
