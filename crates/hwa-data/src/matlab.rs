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
mod tests {
    use std::io::Write;
    use std::time::{Duration, Instant};

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::folder;

    static PLAIN: &[u8] = include_bytes!("../tests/golden/meta.mat");
    static SMALL: &[u8] = include_bytes!("../tests/golden/meta_compressed.mat");
    /// Where the array begins in the first of them.
    const SYNSETS: usize = HEADER + 80;
    const FIELDS: [&str; 3] = ["ILSVRC2012_ID", "WNID", "num_children"];

    fn synsets(bytes: &[u8]) -> Result<Vec<[Value; 3]>, String> {
        structs(bytes, "synsets", FIELDS).map_err(|error| error.to_string())
    }

    /// An element, with its number of bytes in a word of its own.
    fn element(kind: u32, bytes: &[u8]) -> Vec<u8> {
        let mut all = [kind.to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat();
        all.extend(bytes);
        if kind != COMPRESSED {
            all.resize(all.len().next_multiple_of(8), 0);
        }
        all
    }

    /// An element of 1 to 4 bytes in its tag.
    fn small(kind: u32, bytes: &[u8]) -> Vec<u8> {
        let mut all = (kind | (bytes.len() as u32) << 16).to_le_bytes().to_vec();
        all.extend(bytes);
        all.resize(8, 0);
        all
    }

    /// An array: its class with its flags, its sides, its name and what comes then.
    fn array(class: [u8; 2], sides: &[i32], name: &str, rest: &[Vec<u8>]) -> Vec<u8> {
        let flags = [class[0], class[1], 0, 0, 0, 0, 0, 0];
        let sides: Vec<u8> = sides.iter().flat_map(|side| side.to_le_bytes()).collect();
        let head =
            [element(UINT32, &flags), element(INT32, &sides), element(INT8, name.as_bytes())];
        element(MATRIX, &[head.concat(), rest.concat()].concat())
    }

    /// A file with the array `s` of structs with the fields `a` and `bc`.
    fn file(sides: &[i32], values: &[Vec<u8>]) -> Vec<u8> {
        let names = [small(INT32, &3u32.to_le_bytes()), element(INT8, b"a\0\0bc\0")];
        let body = [names.concat(), values.concat()];
        with_header(&array([STRUCT, 0], sides, "s", &body))
    }

    fn with_header(bytes: &[u8]) -> Vec<u8> {
        let mut all = vec![b' '; HEADER - 4];
        all.extend(b"\0\x01IM");
        all.extend(bytes);
        all
    }

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        element(COMPRESSED, &encoder.finish().unwrap())
    }

    /// The fields of the first struct of `s`.
    fn first(values: &[Vec<u8>]) -> Result<[Value; 2], String> {
        match structs(&file(&[1, 1], values), "s", ["a", "bc"]) {
            Ok(rows) => Ok(rows.into_iter().next().unwrap()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn files_of_scipy_are_read_as_they_are_and_compressed() {
        let row = |number: f64, name: &str, children: f64| {
            [Value::Number(number), Value::Text(name.to_owned()), Value::Number(children)]
        };
        let expected = [
            row(1.0, "n02119789", 0.0),
            row(3.0, "n02100735", 0.0),
            row(2.0, "n07753592", 0.0),
            row(4.0, "n02075296", 2.0),
        ];
        assert_eq!(synsets(PLAIN).unwrap(), expected);
        assert_eq!(synsets(SMALL).unwrap(), expected);
        let others = structs(PLAIN, "synsets", ["children", "gloss"]).unwrap();
        // No children, or two of them: no number either way.
        assert_eq!(others[0], [Value::Other, Value::Text("small grey fox".to_owned())]);
        assert_eq!(others[3], [Value::Other, Value::Text("a café's cat".to_owned())]);
    }

    #[test]
    fn a_number_may_be_stored_in_any_type() {
        // MATLAB stores doubles that are small and whole in the smallest type that has them.
        const IN_A_DOUBLE: [u8; 2] = [6, 0];
        let number = |data: Vec<u8>| {
            let value = array(IN_A_DOUBLE, &[1, 1], "", &[data]);
            first(&[value.clone(), value]).map(|[number, _]| number)
        };
        assert_eq!(number(small(UINT8, &[200])), Ok(Value::Number(200.0)));
        assert_eq!(number(small(INT8, &[200])), Ok(Value::Number(-56.0)));
        assert_eq!(number(small(UINT16, &[232, 3])), Ok(Value::Number(1000.0)));
        assert_eq!(number(element(INT16, &[255, 255])), Ok(Value::Number(-1.0)));
        assert_eq!(number(small(INT32, &[1, 0, 0, 0])), Ok(Value::Number(1.0)));
        assert_eq!(number(small(UINT32, &[0, 0, 1, 0])), Ok(Value::Number(65536.0)));
        assert_eq!(number(small(SINGLE, &1.5f32.to_le_bytes())), Ok(Value::Number(1.5)));
        assert_eq!(number(element(INT64, &(-7i64).to_le_bytes())), Ok(Value::Number(-7.0)));
        assert_eq!(number(element(UINT64, &7u64.to_le_bytes())), Ok(Value::Number(7.0)));
        let wrong = "the digits of a number are 2 bytes of type 9";
        assert_eq!(number(small(DOUBLE, &[0, 0])).unwrap_err(), wrong);
        assert!(number(element(UTF8, b"1")).is_err());
    }

    #[test]
    fn text_is_one_line_of_utf_8_or_utf_16() {
        let text = |sides: &[i32], data: Vec<u8>| {
            let value = array([CHAR, 0], sides, "", &[data]);
            first(&[value.clone(), value]).map(|[_, text]| text)
        };
        let is = |text: &str| Ok(Value::Text(text.to_owned()));
        assert_eq!(text(&[1, 2], small(UTF8, b"n1")), is("n1"));
        assert_eq!(text(&[1, 2], small(UINT16, b"n\x001\0")), is("n1"));
        assert_eq!(text(&[1, 2], element(UTF16, b"\xe9\x001\0")), is("é1"));
        assert_eq!(text(&[1, 0], element(UINT8, b"")), is(""));
        assert_eq!(text(&[2, 1], small(UTF8, b"n1")), Ok(Value::Other));
        let short = "has a text of 2 characters, expected 3";
        assert_eq!(text(&[1, 3], small(UTF8, b"n1")).unwrap_err(), short);
        for data in [small(UTF8, &[0xff]), small(UTF16, b"n"), small(UTF16, b"\0\xd8")] {
            assert!(text(&[1, 1], data).unwrap_err().starts_with("the characters of a text are"));
        }
    }

    #[test]
    fn other_values_are_told_as_such() {
        let number = |class: [u8; 2], sides: &[i32]| array(class, sides, "", &[small(UINT8, &[1])]);
        let others = [
            number([6, COMPLEX], &[1, 1]),
            number([6, 0], &[1, 2]),
            number([6, 0], &[0, 0]),
            number([1, 0], &[1, 1]),
            number([STRUCT, 0], &[1, 1]),
            number([255, 0], &[1, 1]),
            element(MATRIX, &[]),
        ];
        for other in others {
            assert_eq!(first(&[other.clone(), other]), Ok([Value::Other, Value::Other]));
        }
        let numbers = [0.0, 7.0, -1.0, 0.5, 5e9, f64::NAN, f64::INFINITY];
        let whole = numbers.map(|number| Value::Number(number).whole());
        assert_eq!(whole, [Some(0), Some(7), None, None, None, None, None]);
    }

    #[test]
    fn other_files_are_refused_by_what_they_are() {
        let ended = |end: &[u8; 4]| {
            let mut bytes = PLAIN.to_vec();
            bytes[HEADER - 4..HEADER].copy_from_slice(end);
            synsets(&bytes).unwrap_err()
        };
        let big = "is a MATLAB file in big-endian order, expected little-endian";
        assert_eq!(ended(b"\x01\0MI"), big);
        assert!(ended(b"\0\x02IM").starts_with("is a MATLAB file of version 7.3 (HDF5)"));
        assert_eq!(ended(b"PK\x03\x04"), "is no MATLAB file of level 5");
        assert_eq!(synsets(b"").unwrap_err(), "is no MATLAB file of level 5");
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = |variable, field| structs(PLAIN, variable, [field]).unwrap_err().to_string();
        // There is a variable of that name, but of text.
        assert_eq!(missing("note", "WNID"), "has no array of structs named `note`");
        assert_eq!(missing("synset", "WNID"), "has no array of structs named `synset`");
        assert_eq!(missing("synsets", "wnid"), "the structs of `synsets` have no field `wnid`");
        let dir = folder([("large.mat", vec![0; LARGEST + 1])]);
        let read = |name: &str| read_structs(&dir.path().join(name), "s", ["a"]).unwrap_err();
        assert!(
            read("large.mat").to_string().ends_with("large.mat`: has more than 16777216 bytes")
        );
        assert!(matches!(read("none.mat"), DataError::Io { .. }));
    }

    #[test]
    fn a_file_that_ends_early_is_refused_wherever_it_ends() {
        for bytes in [PLAIN, SMALL] {
            for length in 0..bytes.len() {
                assert!(synsets(&bytes[..length]).is_err(), "{length} of {}", bytes.len());
            }
        }
        // As does what was compressed.
        for end in SYNSETS..PLAIN.len() {
            let bytes = with_header(&deflated(&PLAIN[SYNSETS..end]));
            assert!(synsets(&bytes).is_err(), "{end} of {}", PLAIN.len());
        }
        assert_eq!(synsets(&with_header(&deflated(&PLAIN[SYNSETS..]))), synsets(PLAIN));
    }

    #[test]
    fn what_inflates_beyond_all_bounds_is_refused() {
        let zeros = deflated(&vec![0; LARGEST + 1]);
        assert!(zeros.len() < 20_000);
        let refused = "has more than 16777216 bytes when inflated";
        assert_eq!(synsets(&with_header(&zeros)).unwrap_err(), refused);
        // Nor may several be together what one may not be.
        let half = deflated(&array([6, 0], &[1, 1], "x", &[vec![0; LARGEST / 2]]));
        assert_eq!(synsets(&with_header(&half.repeat(1000))).unwrap_err(), refused);
    }

    #[test]
    fn counts_that_lie_end_at_once() {
        let begun = Instant::now();
        let refused =
            |sides: &[i32]| structs(&file(sides, &[]), "s", ["a", "bc"]).unwrap_err().to_string();
        let short = "ends too early: 4 bytes expected, 0 left";
        assert_eq!(refused(&[i32::MAX, i32::MAX]), short);
        assert_eq!(refused(&[i32::MAX; 3]), "has an array with more values than can be counted");
        assert_eq!(refused(&[-1, 1]), "has an array with more values than can be counted");
        assert_eq!(refused(&[1]), "the sides of an array are 4 bytes of type 5");
        // Without fields, so many structs are no bytes.
        let none = [small(INT32, &[1, 0, 0, 0]), element(INT8, b"")];
        let none = with_header(&array([STRUCT, 0], &[i32::MAX, i32::MAX], "s", &none));
        assert!(structs(&none, "s", ["a"]).unwrap_err().to_string().contains("no field `a`"));
        let many = [small(INT32, &[1, 0, 0, 0]), element(INT8, &[b'a'; MOST_FIELDS + 1])];
        let many = with_header(&array([STRUCT, 0], &[1, 1], "s", &many));
        let many = structs(&many, "s", ["a"]).unwrap_err().to_string();
        assert_eq!(many, "has structs of 1025 fields, expected at most 1024");
        let zero = [small(INT32, &[0; 4]), element(INT8, b"a")];
        let zero = with_header(&array([STRUCT, 0], &[1, 1], "s", &zero));
        assert!(structs(&zero, "s", ["a"]).unwrap_err().to_string().starts_with("the names of"));
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn no_flipped_bit_makes_it_panic() {
        for bytes in [PLAIN, SMALL] {
            for place in 0..8 * bytes.len() {
                let mut bytes = bytes.to_vec();
                bytes[place / 8] ^= 1 << (place % 8);
                let _ = synsets(&bytes);
            }
        }
    }

    proptest! {
        #[test]
        fn no_changed_bytes_make_it_panic(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut plain = PLAIN.to_vec();
            for (place, value) in changes {
                *place.get_mut(&mut plain) = value;
            }
            let _ = synsets(&plain);
            // Compressed, they get past the checksum.
            let _ = synsets(&with_header(&deflated(&plain[SYNSETS..])));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = synsets(&bytes);
            let _ = synsets(&with_header(&bytes));
            let _ = synsets(&with_header(&element(MATRIX, &bytes)));
            let _ = synsets(&with_header(&element(COMPRESSED, &bytes)));
            let _ = synsets(&with_header(&deflated(&bytes)));
            let _ = synsets(&with_header(&array([STRUCT, 0], &[4, 1], "synsets", &[bytes])));
        }
    }
}
