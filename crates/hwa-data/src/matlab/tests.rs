use std::io::Write;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;

use super::*;
use crate::fixtures::folder;

static PLAIN: &[u8] = include_bytes!("../../tests/golden/meta.mat");
static SMALL: &[u8] = include_bytes!("../../tests/golden/meta_compressed.mat");
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
    let head = [element(UINT32, &flags), element(INT32, &sides), element(INT8, name.as_bytes())];
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
    assert!(read("large.mat").to_string().ends_with("large.mat`: has more than 16777216 bytes"));
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
