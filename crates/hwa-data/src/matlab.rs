//! Arrays of structs in MATLAB files of level 5, as far as ImageNet's development kit needs
//! them: of each struct the fields asked for, if they are one number or one line of text.
//!
//! Files are taken for hostile. Nothing is allocated by a length that a file claims, values
//! are read where they lie, nothing recurses, and what is compressed may become so large and
//! no larger. Fields that nobody asked for are passed over unread.
//!
//! The format is that of "MAT-File Format" by The MathWorks.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::ZlibDecoder;

use crate::error::DataError;

/// The bytes of a file, and of all that is compressed in it. ImageNet's needs a tenth.
const LARGEST: usize = 16 << 20;
/// Text, version and byte order.
const HEADER: usize = 128;
/// The fields of a struct. ImageNet's have eight.
const MOST_FIELDS: usize = 1 << 10;

// The types of elements.
const INT8: u32 = 1;
const UINT8: u32 = 2;
const INT16: u32 = 3;
const UINT16: u32 = 4;
const INT32: u32 = 5;
const UINT32: u32 = 6;
const SINGLE: u32 = 7;
const DOUBLE: u32 = 9;
const INT64: u32 = 12;
const UINT64: u32 = 13;
const MATRIX: u32 = 14;
const COMPRESSED: u32 = 15;
const UTF8: u32 = 16;
const UTF16: u32 = 17;

// The classes of arrays.
const STRUCT: u8 = 2;
const CHAR: u8 = 4;
const FIRST_NUMERIC: u8 = 6;
const LAST_NUMERIC: u8 = 15;
/// The flag of complex numbers.
const COMPLEX: u8 = 8;

/// What a field of a struct holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// One real number, of whatever type.
    Number(f64),
    /// One line of text.
    Text(String),
    /// Anything else.
    Other,
}

impl Value {
    /// The number, if it is a whole one that is not negative.
    pub(crate) fn whole(&self) -> Option<u32> {
        match *self {
            Self::Number(number) if f64::from(number as u32) == number => Some(number as u32),
            _ => None,
        }
    }

    /// The text.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Reads an array of structs from a file: of each struct the fields asked for, in that order.
pub(crate) fn read_structs<const FIELDS: usize>(
    path: &Path,
    variable: &str,
    fields: [&str; FIELDS],
) -> Result<Vec<[Value; FIELDS]>, DataError> {
    let failed = |source| DataError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LARGEST as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let found = match bytes.len() > LARGEST {
        true => Err(MatlabError::TooLarge),
        false => structs(&bytes, variable, fields),
    };
    found.map_err(|error| DataError::WrongContent {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
enum MatlabError {
    #[error("is no MATLAB file of level 5")]
    NotMatlab,
    #[error("is a MATLAB file in big-endian order, expected little-endian")]
    BigEndian,
    #[error("is a MATLAB file of version 7.3 (HDF5), expected level 5 (`save -v7`)")]
    Hdf5,
    #[error("has more than {LARGEST} bytes")]
    TooLarge,
    #[error("has more than {LARGEST} bytes when inflated")]
    InflatedTooLarge,
    #[error("cannot be inflated: {0}")]
    NotInflated(io::Error),
    #[error("ends too early: {needed} bytes expected, {left} left")]
    CutShort { needed: usize, left: usize },
    #[error("has an element of {found} bytes where there is room for 4")]
    SmallTooLarge { found: usize },
    #[error("{what} are {bytes} bytes of type {kind}")]
    WrongElement { what: &'static str, kind: u32, bytes: usize },
    #[error("has an array with more values than can be counted")]
    TooManyValues,
    #[error("has structs of {found} fields, expected at most {MOST_FIELDS}")]
    TooManyFields { found: usize },
    #[error("has a text of {found} characters, expected {expected}")]
    WrongLength { expected: usize, found: usize },
    #[error("has no array of structs named `{0}`")]
    NoVariable(String),
    #[error("the structs of `{variable}` have no field `{field}`")]
    NoField { variable: String, field: String },
}

/// Finds an array of structs, as itself or compressed.
fn structs<const FIELDS: usize>(
    bytes: &[u8],
    variable: &str,
    fields: [&str; FIELDS],
) -> Result<Vec<[Value; FIELDS]>, MatlabError> {
    let mut file = Elements { left: after_header(bytes)? };
    let mut room = LARGEST;
    while !file.left.is_empty() {
        let mut element = file.next()?;
        let inflated;
        if element.kind == COMPRESSED {
            inflated = inflate(element.bytes, room)?;
            room -= inflated.len();
            element = Elements { left: &inflated }.next()?;
        }
        if element.kind != MATRIX {
            continue;
        }
        let mut parts = Elements { left: element.bytes };
        // Classes that are no concern of ours need not have a shape and a name.
        if parts.class()?.number != STRUCT {
            continue;
        }
        let shape = parts.shape()?;
        if parts.next()?.bytes == variable.as_bytes() {
            return rows(parts, shape.values, variable, fields);
        }
    }
    Err(MatlabError::NoVariable(variable.to_owned()))
}

fn after_header(bytes: &[u8]) -> Result<&[u8], MatlabError> {
    let (header, rest) = bytes.split_at_checked(HEADER).ok_or(MatlabError::NotMatlab)?;
    match header[HEADER - 4..] {
        [_, 1, b'I', b'M'] => Ok(rest),
        [_, 2, b'I', b'M'] => Err(MatlabError::Hdf5),
        [1, _, b'M', b'I'] => Err(MatlabError::BigEndian),
        _ => Err(MatlabError::NotMatlab),
    }
}

fn inflate(bytes: &[u8], room: usize) -> Result<Vec<u8>, MatlabError> {
    let mut inflated = Vec::new();
    let mut decoder = ZlibDecoder::new(bytes).take(room as u64 + 1);
    decoder.read_to_end(&mut inflated).map_err(MatlabError::NotInflated)?;
    match inflated.len() > room {
        true => Err(MatlabError::InflatedTooLarge),
        false => Ok(inflated),
    }
}

/// The structs of an array, of which class, shape and name are read already.
fn rows<const FIELDS: usize>(
    mut parts: Elements<'_>,
    count: usize,
    variable: &str,
    fields: [&str; FIELDS],
) -> Result<Vec<[Value; FIELDS]>, MatlabError> {
    let names = parts.field_names()?;
    let missing = fields.iter().find(|field| !names.contains(&field.as_bytes()));
    if let Some(field) = missing {
        let (variable, field) = (variable.to_owned(), (*field).to_owned());
        return Err(MatlabError::NoField { variable, field });
    }
    let mut rows = Vec::new();
    // A struct has a field at least, and a field 8 bytes: no count makes this go on for long.
    for _ in 0..count {
        let mut row = [const { Value::Other }; FIELDS];
        for name in &names {
            let element = parts.next()?;
            if let Some(place) = fields.iter().position(|field| field.as_bytes() == *name) {
                row[place] = value(element)?;
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Reads the array that is the value of a field.
fn value(element: Element<'_>) -> Result<Value, MatlabError> {
    if element.kind != MATRIX {
        return Err(element.wrong("the values of a field"));
    }
    // An empty array may be nothing at all.
    if element.bytes.is_empty() {
        return Ok(Value::Other);
    }
    let mut parts = Elements { left: element.bytes };
    let class = parts.class()?;
    let is_number = (FIRST_NUMERIC..=LAST_NUMERIC).contains(&class.number) && !class.is_complex;
    if !is_number && class.number != CHAR {
        return Ok(Value::Other);
    }
    let shape = parts.shape()?;
    let _name = parts.next()?;
    match is_number {
        true if shape.values == 1 => Ok(Value::Number(parts.next()?.number()?)),
        false if shape.is_line => Ok(Value::Text(parts.next()?.text(shape.values)?)),
        _ => Ok(Value::Other),
    }
}

/// A part of a file, with its type.
#[derive(Debug, Clone, Copy)]
struct Element<'a> {
    kind: u32,
    bytes: &'a [u8],
}

/// What an array is of.
#[derive(Debug, Clone, Copy)]
struct Class {
    number: u8,
    is_complex: bool,
}

/// How many values an array has.
#[derive(Debug, Clone, Copy)]
struct Shape {
    values: usize,
    /// Whether they are one row.
    is_line: bool,
}

impl Element<'_> {
    /// One number, which may be stored in a smaller type than that of its array.
    fn number(self) -> Result<f64, MatlabError> {
        Ok(match (self.kind, self.bytes) {
            (INT8, &[a]) => f64::from(i8::from_le_bytes([a])),
            (UINT8, &[a]) => f64::from(a),
            (INT16, &[a, b]) => f64::from(i16::from_le_bytes([a, b])),
            (UINT16, &[a, b]) => f64::from(u16::from_le_bytes([a, b])),
            (INT32, &[a, b, c, d]) => f64::from(i32::from_le_bytes([a, b, c, d])),
            (UINT32, &[a, b, c, d]) => f64::from(u32::from_le_bytes([a, b, c, d])),
            (SINGLE, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
            (DOUBLE | INT64 | UINT64, &[a, b, c, d, e, f, g, h]) => {
                let bytes = [a, b, c, d, e, f, g, h];
                match self.kind {
                    DOUBLE => f64::from_le_bytes(bytes),
                    INT64 => i64::from_le_bytes(bytes) as f64,
                    _ => u64::from_le_bytes(bytes) as f64,
                }
            }
            _ => return Err(self.wrong("the digits of a number")),
        })
    }

    /// Text of so many characters.
    fn text(self, characters: usize) -> Result<String, MatlabError> {
        let text = match self.kind {
            INT8 | UINT8 | UTF8 => str::from_utf8(self.bytes).ok().map(str::to_owned),
            UINT16 | UTF16 if self.bytes.len().is_multiple_of(2) => {
                let unit = |pair: &[u8]| u16::from_le_bytes([pair[0], pair[1]]);
                let units = self.bytes.chunks_exact(2).map(unit);
                char::decode_utf16(units).collect::<Result<_, _>>().ok()
            }
            _ => None,
        };
        let text = text.ok_or_else(|| self.wrong("the characters of a text"))?;
        match text.chars().count() {
            found if found == characters => Ok(text),
            found => Err(MatlabError::WrongLength { expected: characters, found }),
        }
    }

    fn wrong(self, what: &'static str) -> MatlabError {
        MatlabError::WrongElement { what, kind: self.kind, bytes: self.bytes.len() }
    }
}

/// Elements one after the other.
#[derive(Debug)]
struct Elements<'a> {
    left: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The next element, without what fills it up to a multiple of 8 bytes.
    fn next(&mut self) -> Result<Element<'a>, MatlabError> {
        let tag = self.word()?;
        let (kind, small) = (tag & 0xffff, (tag >> 16) as usize);
        if small > 4 {
            return Err(MatlabError::SmallTooLarge { found: small });
        }
        // Up to 4 bytes have room in the tag; then their number stands beside their type.
        if small > 0 {
            return Ok(Element { kind, bytes: &self.take(4)?[..small] });
        }
        let count = self.word()? as usize;
        let bytes = self.take(count)?;
        if kind != COMPRESSED {
            // The last element of an array may end with it.
            let filling = count.next_multiple_of(8) - count;
            self.take(filling.min(self.left.len()))?;
        }
        Ok(Element { kind, bytes })
    }

    fn class(&mut self) -> Result<Class, MatlabError> {
        let element = self.next()?;
        match (element.kind, element.bytes) {
            (UINT32, &[number, flags, _, _, _, _, _, _]) => {
                Ok(Class { number, is_complex: flags & COMPLEX != 0 })
            }
            _ => Err(element.wrong("the flags of an array")),
        }
    }

    fn shape(&mut self) -> Result<Shape, MatlabError> {
        let element = self.next()?;
        let (sides, rest) = element.bytes.as_chunks::<4>();
        if element.kind != INT32 || sides.len() < 2 || !rest.is_empty() {
            return Err(element.wrong("the sides of an array"));
        }
        let mut values: usize = 1;
        for side in sides {
            let side = usize::try_from(i32::from_le_bytes(*side)).ok();
            let product = side.and_then(|side| values.checked_mul(side));
            values = product.ok_or(MatlabError::TooManyValues)?;
        }
        Ok(Shape { values, is_line: sides.len() == 2 && sides[0] == [1, 0, 0, 0] })
    }

    /// The names of a struct's fields: all of one length, filled up with zeros.
    fn field_names(&mut self) -> Result<Vec<&'a [u8]>, MatlabError> {
        let element = self.next()?;
        let length = match (element.kind, element.bytes) {
            (INT32, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => return Err(element.wrong("the length of field names")),
        };
        let names = self.next()?;
        if names.kind != INT8 || length == 0 || !names.bytes.len().is_multiple_of(length) {
            return Err(names.wrong("the names of fields"));
        }
        if names.bytes.len() / length > MOST_FIELDS {
            return Err(MatlabError::TooManyFields { found: names.bytes.len() / length });
        }
        let name = |name: &'a [u8]| name.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(names.bytes.chunks_exact(length).map(name).collect())
    }

    fn word(&mut self) -> Result<u32, MatlabError> {
        let cut_short = MatlabError::CutShort { needed: 4, left: self.left.len() };
        let (word, left) = self.left.split_first_chunk().ok_or(cut_short)?;
        self.left = left;
        Ok(u32::from_le_bytes(*word))
    }

    fn take(&mut self, needed: usize) -> Result<&'a [u8], MatlabError> {
        let cut_short = MatlabError::CutShort { needed, left: self.left.len() };
        let (taken, left) = self.left.split_at_checked(needed).ok_or(cut_short)?;
        self.left = left;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
