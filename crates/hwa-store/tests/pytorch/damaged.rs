//! Files that were cut off, overwritten or put together wrongly.

use std::fs;
use std::io::{Seek, SeekFrom, Write};

use hwa_store::{CheckpointError, StoreError, read_checkpoint};
use proptest::prelude::*;

use crate::torch_file::{
    Entry, View, archive, entry, floats, golden, one_tensor, read, refused, saved,
};

/// The entries of a small, honest file.
fn honest() -> Vec<Entry> {
    vec![
        entry("data.pkl", &one_tensor(&View::PAIR)),
        entry("byteorder", b"little"),
        entry("data/0", &floats(&[1.0, 2.0])),
    ]
}

#[test]
fn the_archives_of_these_tests_are_read_as_they_are() {
    let weights = read(&archive(&honest())).unwrap().weights;
    assert_eq!(weights.get("w").unwrap().as_f32().unwrap(), [1.0, 2.0]);
    // PyTorch before 2.1 does not state the order of bytes.
    let mut old = honest();
    old.remove(1);
    assert_eq!(read(&archive(&old)).unwrap().weights, weights);
    // A comment may follow the directory.
    let mut commented = archive(&honest());
    let at = commented.len() - 2;
    commented[at] = 5;
    commented.extend(b"hello");
    assert_eq!(read(&commented).unwrap().weights, weights);
}

#[test]
fn a_storage_beyond_four_gigabytes_is_read_where_it_is() {
    // 2^30 + 2 floats, of which the last two are not a hole in the file.
    let length = (1 << 32) + 8;
    let view = View { length: length / 4, offset: length / 4 - 2, ..View::PAIR };
    let pickle = entry("data.pkl", &one_tensor(&view));
    let mut storage = entry("data/0", &[]);
    storage.checksum = 0; // as if PyTorch had been told not to compute it
    let small = archive(&[pickle, storage]);
    // Of the small archive: its entries, the entry of the pickle in its directory.
    let directory = small.len() - 22 - 2 * 46 - "archive/data.pklarchive/data/0".len();
    let mut listed = small[directory..small.len() - 22].to_vec();
    let second = listed.len() - 46 - "archive/data/0".len();
    listed[second + 20..second + 28].fill(0xff);
    listed[second + 30] = 20;
    for field in [[1, 0, 16, 0].as_slice(), &length.to_le_bytes(), &length.to_le_bytes()] {
        listed.extend(field);
    }
    let start = directory as u64 + length as u64;
    let record_64 = start + listed.len() as u64;
    let mut end = [b"PK\x06\x06".as_slice(), &44u64.to_le_bytes(), &[0; 12]].concat();
    for number in [2, 2, listed.len() as u64, start] {
        end.extend(number.to_le_bytes());
    }
    end.extend(
        [b"PK\x06\x07".as_slice(), &[0; 4], &record_64.to_le_bytes(), &[1, 0, 0, 0]].concat(),
    );
    end.extend([b"PK\x05\x06".as_slice(), &[0; 4], &[0xff; 12], &[0; 2]].concat());

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.pt");
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&small[..directory]).unwrap();
    file.seek(SeekFrom::Start(start - 8)).unwrap();
    file.write_all(&[floats(&[5.0, 7.0]), listed, end].concat()).unwrap();
    let weights = read_checkpoint(&path).unwrap().weights;
    assert_eq!(weights.get("w").unwrap().as_f32().unwrap(), [5.0, 7.0]);
}

#[test]
fn a_file_that_is_cut_off_is_refused_at_every_length() {
    let whole = fs::read(golden("plain.pt")).unwrap();
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "at {length} of {}", whole.len());
    }
}

#[test]
fn a_changed_byte_is_refused_or_changes_nothing() {
    // Padding, times and versions mean nothing; everything else is covered by a check.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("changed.pt");
    let mut bytes = fs::read(golden("plain.pt")).unwrap();
    let expected = read(&bytes).unwrap().weights;
    let mut refused = 0;
    for at in 0..bytes.len() {
        let change = 1 << (at % 8);
        bytes[at] ^= change;
        fs::write(&path, &bytes).unwrap();
        match read_checkpoint(&path) {
            Ok(found) => assert_eq!(found.weights, expected, "byte {at} by {change:#x}"),
            Err(_) => refused += 1,
        }
        bytes[at] ^= change;
    }
    // 814 bytes are the pickle, and 376 are numbers.
    assert!(refused >= 814 + 376, "{refused} of {}", bytes.len());
}

#[test]
fn storages_must_have_the_length_that_the_pickle_says() {
    for values in [&[1.0][..], &[1.0, 2.0, 3.0]] {
        let error = refused(&saved(&one_tensor(&View::PAIR), &[("0", &floats(values))]));
        let CheckpointError::StorageLength { expected, found, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!((expected, found), (8, values.len() as u64 * 4));
    }
    let error =
        refused(&saved(&one_tensor(&View { length: i64::MAX, ..View::PAIR }), &[("0", &[])]));
    assert!(matches!(error, CheckpointError::StorageLength { .. }), "{error:?}");
    let error = refused(&saved(&one_tensor(&View::PAIR), &[]));
    assert_eq!(error.to_string(), "the entry `data/0` is missing");
}

#[test]
fn an_entry_is_there_once() {
    let mut twice = honest();
    twice.push(entry("data/0", &floats(&[3.0, 4.0])));
    let error = refused(&archive(&twice));
    assert_eq!(error.to_string(), "the entry `archive/data/0` is there twice");
}

#[test]
fn entries_do_not_overlap() {
    // The directory gives a second entry the place of the first, which agrees.
    let mut overlapping = honest();
    let inner = archive(&[entry("data/1", &floats(&[3.0, 4.0]))]);
    let inner = inner[..inner.len() - 22].to_vec();
    let outer = entry("data/0", &inner);
    let place = archive(&overlapping[..2]).len() as u32;
    overlapping[2] = outer.clone();
    let mut second = entry("data/1", &floats(&[3.0, 4.0]));
    // Inside of `data/0`: after the entries before it, its header and its name.
    let directory = (46 + "archive/data.pkl".len() + 46 + "archive/byteorder".len() + 22) as u32;
    second.place = Some(place - directory + 30 + outer.name.len() as u32);
    overlapping.push(second);
    let error = refused(&archive(&overlapping));
    assert!(matches!(error, CheckpointError::Overlap { .. }), "{error:?}");
}

#[test]
fn an_entry_and_the_directory_agree() {
    let mut renamed = honest();
    renamed[2].local_name = "archive/data/1".to_owned();
    let error = refused(&archive(&renamed));
    assert!(matches!(error, CheckpointError::HeadersDisagree { .. }), "{error:?}");

    let mut elsewhere = honest();
    elsewhere[2].place = Some(u32::MAX - 1);
    let error = refused(&archive(&elsewhere));
    assert!(matches!(error, CheckpointError::OutsideFile { .. }), "{error:?}");
}

#[test]
fn numbers_that_were_changed_do_not_pass_their_checksum() {
    let mut damaged = honest();
    damaged[2].bytes[3] ^= 1;
    let error = refused(&archive(&damaged));
    assert_eq!(error.to_string(), "the entry `data/0` is damaged: its checksum is wrong");
}

#[test]
fn another_byte_order_is_refused() {
    let mut big = honest();
    big[1] = entry("byteorder", b"big");
    let error = refused(&archive(&big)).to_string();
    assert!(error.starts_with("saved on a machine with byte order `big`, expected"), "{error}");
}

#[test]
fn archives_of_others_are_told_apart() {
    let foreign = refused(&archive(&[entry("readme.txt", b"hello")]));
    assert!(matches!(foreign, CheckpointError::NoPickle), "{foreign:?}");
    let mut flat = entry("data.pkl", b"\x80\x02}.");
    (flat.name, flat.local_name) = ("data.pkl".to_owned(), "data.pkl".to_owned());
    assert!(matches!(refused(&archive(&[flat])), CheckpointError::NoPickle));
    assert!(matches!(refused(&archive(&[])), CheckpointError::NoPickle));
    let mut program = honest();
    program.push(entry("code/__torch__.py", b""));
    assert!(matches!(refused(&archive(&program)), CheckpointError::TorchScript));
}

proptest! {
    #[test]
    fn no_damage_makes_the_reader_panic(
        file in prop::sample::select(vec!["plain.pt", "training.pth", "parameters.pt", "unchecked.pt"]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let mut bytes = fs::read(golden(file)).unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        match read(&bytes) {
            Ok(found) => prop_assert!(found.weights.num_bytes() < 32 << 20),
            Err(error) => prop_assert!(!matches!(error, StoreError::Io { .. }), "{error}"),
        }
    }
}
