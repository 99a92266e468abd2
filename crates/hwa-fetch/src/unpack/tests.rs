use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::progress::Progress;

const LIMITS: Limits = Limits { entries: 10, bytes: 4000, bytes_per_entry: 3000 };

/// A header of 512 bytes and the data, padded to blocks.
pub(crate) fn tar_entry(name: &str, kind: u8, data: &[u8]) -> Vec<u8> {
    tar_entry_of(name, kind, data.len() as u64, data)
}

fn tar_entry_of(name: &str, kind: u8, size: u64, data: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0007777");
    header[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    header[156] = kind;
    header[157..168].copy_from_slice(b"/etc/passwd");
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut entry = header.to_vec();
    entry.extend(data);
    entry.resize(entry.len().next_multiple_of(512), 0);
    entry
}

pub(crate) fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    [entries.concat(), vec![0; 1024]].concat()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An entry of a zip archive, with a mode as Unix has it.
struct ZipEntry<'a> {
    name: &'a str,
    mode: u32,
    data: &'a [u8],
    /// What it says its size is, if that is not so.
    claims: Option<u32>,
}

fn zip_file<'a>(name: &'a str, data: &'a [u8]) -> ZipEntry<'a> {
    ZipEntry { name, mode: 0o100_777, data, claims: None }
}

/// Local headers with deflated data, the central directory, and its end.
fn zip(entries: &[ZipEntry<'_>]) -> Vec<u8> {
    let (mut bytes, mut central) = (Vec::new(), Vec::new());
    for ZipEntry { name, mode, data, claims } in entries {
        let mut crc = flate2::Crc::new();
        crc.update(data);
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        let packed = encoder.finish().unwrap();
        let mut common = Vec::new();
        common.extend([20, 0, 0, 0, 8, 0, 0, 0, 0x21, 0]);
        common.extend(crc.sum().to_le_bytes());
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend(claims.unwrap_or(data.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        let offset = bytes.len() as u32;
        bytes.extend([&b"PK\x03\x04"[..], &common, name.as_bytes(), &packed].concat());
        // Made on Unix.
        central.extend([&b"PK\x01\x02\x14\x03"[..], &common].concat());
        central.extend([0; 6]);
        central.extend((mode << 16).to_le_bytes());
        central.extend(offset.to_le_bytes());
        central.extend(name.as_bytes());
    }
    let (start, count) = (bytes.len() as u32, entries.len() as u16);
    bytes.extend(&central);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    bytes.extend((central.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

/// A folder with an archive, and a folder `into` beside a file that must not change.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("into")).unwrap();
        fs::write(dir.path().join("victim"), "untouched").unwrap();
        Self { dir }
    }

    fn inside(&self) -> PathBuf {
        self.dir.path().join("into")
    }

    fn unpack(&self, form: Form, bytes: &[u8]) -> Result<u64, FetchError> {
        let cancel = AtomicBool::new(false);
        self.unpack_watched(form, bytes, &Watch { progress: &|_| {}, cancel: &cancel })
    }

    fn unpack_watched(
        &self,
        form: Form,
        bytes: &[u8],
        watch: &Watch<'_>,
    ) -> Result<u64, FetchError> {
        let archive = self.dir.path().join("archive");
        fs::write(&archive, bytes).unwrap();
        let (archive, into) = (archive.as_path(), &self.inside());
        let unpacked =
            Unpacking { archive, form, name: "archive", into, folder: "set", limits: LIMITS }
                .run(watch);
        assert_eq!(fs::read(self.dir.path().join("victim")).unwrap(), b"untouched");
        let outside = fs::read_dir(self.dir.path()).unwrap().count();
        assert_eq!(outside, 3, "the archive, the victim and the folder");
        unpacked
    }

    fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.inside().join(path)).unwrap()
    }
}

#[test]
fn files_and_folders_are_unpacked_from_every_form() {
    let entries = [
        tar_entry("set/", b'5', b""),
        tar_entry("set/a/b.txt", b'0', b"hello"),
        // Old archives have a zero for a file.
        tar_entry("./set/empty", 0, b""),
        tar_entry("set/full", b'0', &[7; 512]),
        // Its authors put a file beside the folder.
        tar_entry("beside.txt", b'0', b"not wanted"),
    ];
    let zipped = [
        ZipEntry { mode: 0o040_755, ..zip_file("set/", b"") },
        zip_file("set/a/b.txt", b"hello"),
        ZipEntry { mode: 0, ..zip_file("set/empty", b"") },
        zip_file("set/full", &[7; 512]),
        zip_file("beside.txt", b"not wanted"),
    ];
    let plain = tar(&entries);
    let forms =
        [(Form::Tar, plain.clone()), (Form::TarGz, gzip(&plain)), (Form::Zip, zip(&zipped))];
    for (form, bytes) in forms {
        let place = Place::new();
        assert_eq!(place.unpack(form, &bytes).unwrap(), 1, "{form:?}");
        assert_eq!(place.read("set/a/b.txt"), b"hello");
        assert_eq!(place.read("set/empty"), b"");
        assert_eq!(place.read("set/full"), [7; 512]);
        assert!(!place.inside().join("beside.txt").exists());
    }
}

#[cfg(unix)]
#[test]
fn permissions_are_not_taken_over() {
    use std::os::unix::fs::PermissionsExt;
    // Both archives say 0777, and the tar has the bits that change the user as well.
    let tarred = tar(&[tar_entry("set/run", b'0', b"#!/bin/sh")]);
    for (form, bytes) in [(Form::Tar, tarred), (Form::Zip, zip(&[zip_file("set/run", b"x")]))] {
        let place = Place::new();
        place.unpack(form, &bytes).unwrap();
        let mode = fs::metadata(place.inside().join("set/run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7111, 0, "{mode:o}");
    }
}

#[test]
fn names_that_lead_out_are_refused_in_every_form() {
    let names = [
        "../victim",
        "set/../../victim",
        "/tmp/victim",
        "set/..\\..\\victim",
        "C:\\victim",
        "C:/victim",
        "\\\\server\\share\\x",
        "set/x:stream",
        "set/nul",
    ];
    for name in names {
        let tarred = tar(&[tar_entry(name, b'0', b"owned")]);
        let folder = tar(&[tar_entry(name, b'5', b"")]);
        // The same through the extensions for long names.
        let long = [name.as_bytes(), b"\0"].concat();
        let gnu =
            tar(&[tar_entry("././@LongLink", b'L', &long), tar_entry("set/x", b'0', b"owned")]);
        let length = format!("path={name}\n").len() + 3;
        let pax = format!("{length} path={name}\n");
        let pax =
            tar(&[tar_entry("pax", b'x', pax.as_bytes()), tar_entry("set/x", b'0', b"owned")]);
        let zipped = zip(&[zip_file(name, b"owned")]);
        let archives = [
            (Form::Tar, tarred.clone()),
            (Form::TarGz, gzip(&tarred)),
            (Form::Tar, folder),
            (Form::Tar, gnu),
            (Form::Tar, pax),
            (Form::Zip, zipped),
        ];
        for (number, (form, bytes)) in archives.into_iter().enumerate() {
            let place = Place::new();
            let error = place.unpack(form, &bytes).unwrap_err();
            assert!(
                matches!(&error, FetchError::Escapes { entry, .. } if entry == name),
                "{name} {number}: {error:?}"
            );
            assert_eq!(fs::read_dir(place.inside()).unwrap().count(), 0);
        }
    }
}

#[test]
fn links_are_left_out_and_nothing_is_written_through_them() {
    // A link to a folder outside, then a file in it.
    for kind in [b'1', b'2'] {
        let entries = [tar_entry("set/link", kind, b""), tar_entry("set/link/x", b'0', b"inside")];
        let place = Place::new();
        assert_eq!(place.unpack(Form::Tar, &tar(&entries)).unwrap(), 1);
        assert_eq!(place.read("set/link/x"), b"inside");
        assert!(fs::symlink_metadata(place.inside().join("set/link")).unwrap().is_dir());
    }
    let link = ZipEntry { mode: 0o120_777, ..zip_file("set/link", b"/etc") };
    let place = Place::new();
    let bytes = zip(&[link, zip_file("set/link/x", b"inside")]);
    assert_eq!(place.unpack(Form::Zip, &bytes).unwrap(), 1);
    assert_eq!(place.read("set/link/x"), b"inside");
    assert!(fs::symlink_metadata(place.inside().join("set/link")).unwrap().is_dir());
}

#[test]
fn devices_and_pipes_are_refused() {
    for kind in [b'3', b'4', b'6', b'S', b'?'] {
        let place = Place::new();
        let error = place.unpack(Form::Tar, &tar(&[tar_entry("set/dev", kind, b"")])).unwrap_err();
        let refused = matches!(error, FetchError::NotAFile { .. } | FetchError::Damaged { .. });
        assert!(refused, "{kind}: {error:?}");
        assert!(!place.inside().join("set/dev").exists());
    }
    for mode in [0o060_666, 0o020_666, 0o010_666, 0o140_666] {
        let place = Place::new();
        let entry = ZipEntry { mode, ..zip_file("set/dev", b"") };
        let error = place.unpack(Form::Zip, &zip(&[entry])).unwrap_err();
        assert!(matches!(error, FetchError::NotAFile { .. }), "{mode:o}: {error:?}");
    }
}

#[test]
fn nothing_is_written_twice() {
    let again = [
        [tar_entry("set/a", b'0', b"one"), tar_entry("set/a", b'0', b"two")],
        [tar_entry("set/a", b'0', b"one"), tar_entry("set/./a", b'0', b"two")],
        [tar_entry("set/a", b'0', b"one"), tar_entry("set/a/b", b'0', b"two")],
        [tar_entry("set/a", b'0', b"one"), tar_entry("set/a", b'5', b"")],
        [tar_entry("set/a", b'5', b""), tar_entry("set/a", b'0', b"two")],
    ];
    for (number, entries) in again.iter().enumerate() {
        let place = Place::new();
        let error = place.unpack(Form::Tar, &tar(entries)).unwrap_err();
        assert!(matches!(error, FetchError::Repeated { .. }), "{number}: {error:?}");
    }
    let place = Place::new();
    let bytes = zip(&[zip_file("set/a", b"one"), zip_file("set//a", b"two")]);
    let error = place.unpack(Form::Zip, &bytes).unwrap_err();
    assert!(matches!(error, FetchError::Repeated { .. }), "{error:?}");
    let bytes = zip(&[zip_file("set/a", b"one"), zip_file("set/a", b"two")]);
    let error = Place::new().unpack(Form::Zip, &bytes).unwrap_err();
    assert!(matches!(error, FetchError::Damaged { .. }), "{error:?}");
}

#[test]
fn names_that_differ_in_case_do_not_share_a_file() {
    let place = Place::new();
    let entries = [tar_entry("set/a", b'0', b"one"), tar_entry("set/A", b'0', b"two")];
    match place.unpack(Form::Tar, &tar(&entries)) {
        // Where case counts there are two files.
        Ok(_) => {
            assert_eq!((place.read("set/a"), place.read("set/A")), (b"one".into(), b"two".into()))
        }
        Err(FetchError::Repeated { .. }) => assert_eq!(place.read("set/a"), b"one"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn more_than_the_limits_is_not_written() {
    let too_large = |form, bytes: &[u8]| match Place::new().unpack(form, bytes) {
        Err(FetchError::TooLarge { what, limit, .. }) => (what, limit),
        other => panic!("{other:?}"),
    };
    // 3,001 bytes are more than one entry may have; twice 2,001 are more than all may have,
    // whether they are wanted or not.
    let (one, half) = (vec![0; 3001], vec![0; 2001]);
    let large = tar(&[tar_entry("set/a", b'0', &one)]);
    let sum = tar(&[tar_entry("set/a", b'0', &half), tar_entry("beside", b'0', &half)]);
    let names: Vec<String> = (0..11).map(|i| format!("set/{i}")).collect();
    let many: Vec<Vec<u8>> = names.iter().map(|name| tar_entry(name, b'0', b"")).collect();
    let links: Vec<Vec<u8>> = names.iter().map(|name| tar_entry(name, b'2', b"")).collect();
    let (per_entry, bytes, entries) =
        (("bytes in one entry", 3000), ("bytes", 4000), ("entries", 10));
    assert_eq!(too_large(Form::Tar, &large), per_entry);
    assert_eq!(too_large(Form::TarGz, &gzip(&sum)), bytes);
    assert_eq!(too_large(Form::Tar, &tar(&many)), entries);
    assert_eq!(too_large(Form::Tar, &tar(&links)), entries);
    assert_eq!(too_large(Form::Zip, &zip(&[zip_file("set/a", &one)])), per_entry);
    let zipped = [zip_file("set/a", &half), zip_file("beside", &half)];
    assert_eq!(too_large(Form::Zip, &zip(&zipped)), bytes);
    let zipped: Vec<ZipEntry<'_>> = names.iter().map(|name| zip_file(name, b"")).collect();
    assert_eq!(too_large(Form::Zip, &zip(&zipped)), entries);
    // A size that only the header has.
    let boast = tar(&[tar_entry_of("set/a", b'0', u64::from(u32::MAX), b"")]);
    assert_eq!(too_large(Form::Tar, &boast), per_entry);
}

#[test]
fn entries_that_lie_about_their_size_are_damage() {
    // Small in the directory, and without end in the data.
    let zeros = vec![0; 1 << 20];
    for claims in [Some(10), Some(2999), Some(0)] {
        let place = Place::new();
        let entry = ZipEntry { claims, ..zip_file("set/a", &zeros) };
        let error = place.unpack(Form::Zip, &zip(&[entry])).unwrap_err();
        assert!(matches!(error, FetchError::Damaged { .. }), "{error:?}");
        let written = fs::metadata(place.inside().join("set/a")).map_or(0, |m| m.len());
        assert!(written <= 3001, "{written}");
    }
    let short = ZipEntry { claims: Some(100), ..zip_file("set/a", b"ten bytes!") };
    let error = Place::new().unpack(Form::Zip, &zip(&[short])).unwrap_err();
    assert!(matches!(error, FetchError::Damaged { .. }), "{error:?}");
}

#[test]
fn names_and_links_of_any_length_stay_out_of_memory() {
    // A long name of 8 MB, which is 8 kB when compressed.
    let name = vec![b'x'; 8 << 20];
    for kind in [b'L', b'K', b'x', b'g', b'2'] {
        let bytes = gzip(&tar(&[tar_entry("a", kind, &name), tar_entry("set/a", b'0', b"")]));
        let error = Place::new().unpack(Form::TarGz, &bytes).unwrap_err();
        let FetchError::Damaged { source, .. } = &error else { panic!("{kind}: {error:?}") };
        assert_eq!(source.to_string(), "there is too much between two files");
    }
}

#[test]
fn a_changed_byte_of_compressed_data_is_noticed() {
    let data: Vec<u8> = (0..2000_u32).map(|i| (i * i) as u8).collect();
    let mut zipped = zip(&[zip_file("set/a", &data)]);
    zipped[14] ^= 1; // The checksum in the local header, which nobody reads.
    let central = zipped.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    zipped[central + 16] ^= 1;
    let mut gzipped = gzip(&tar(&[tar_entry("set/a", b'0', &data)]));
    let checksum = gzipped.len() - 8;
    gzipped[checksum] ^= 1;
    for (form, bytes) in [(Form::Zip, zipped), (Form::TarGz, gzipped)] {
        let error = Place::new().unpack(form, &bytes).unwrap_err();
        assert!(matches!(error, FetchError::Damaged { .. }), "{form:?}: {error:?}");
    }
}

#[test]
fn truncated_archives_are_damaged() {
    let data: Vec<u8> = (0..300_u32).map(|i| (i * i) as u8).collect();
    let tarred = tar(&[tar_entry("set/a", b'0', &data), tar_entry("set/b", b'0', &data)]);
    let zipped = zip(&[zip_file("set/a", &data), zip_file("set/b", &data)]);
    for (form, bytes) in [(Form::TarGz, gzip(&tarred)), (Form::Zip, zipped)] {
        for length in (0..bytes.len()).step_by(13) {
            let error = Place::new().unpack(form, &bytes[..length]).unwrap_err();
            assert!(matches!(error, FetchError::Damaged { .. }), "{form:?} {length}: {error:?}");
        }
    }
    // A plain tar that ends between two entries looks like a shorter one: what is missing
    // is noticed by the contents. Anywhere else it is damaged.
    let between = [0, 1024];
    for length in (0..2048).step_by(13).filter(|length| !between.contains(length)) {
        let error = Place::new().unpack(Form::Tar, &tarred[..length]).unwrap_err();
        assert!(matches!(error, FetchError::Damaged { .. }), "{length}: {error:?}");
    }
}

#[test]
fn a_cancelled_unpacking_stops_within_a_file() {
    let archives = [
        (Form::Tar, tar(&[tar_entry("set/a", b'0', b"x"), tar_entry("set/b", b'0', b"x")])),
        (Form::Zip, zip(&[zip_file("set/a", b"x"), zip_file("set/b", b"x")])),
    ];
    for (form, bytes) in archives {
        let place = Place::new();
        let cancel = AtomicBool::new(false);
        let first = place.inside().join("set/a");
        let progress = |_: Progress<'_>| cancel.store(first.exists(), Ordering::Relaxed);
        let watch = Watch { progress: &progress, cancel: &cancel };
        let error = place.unpack_watched(form, &bytes, &watch).unwrap_err();
        assert!(matches!(error, FetchError::Cancelled), "{error:?}");
        assert!(first.exists() && !place.inside().join("set/b").exists());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_as_such() {
    let place = Place::new();
    let cancel = AtomicBool::new(false);
    let watch = Watch { progress: &|_| {}, cancel: &cancel };
    let (archive, into, form) = (place.dir.path(), &place.inside(), Form::Tar);
    let (name, folder, limits) = ("archive", "set", LIMITS);
    let mut writer = Writer::new(Unpacking { archive, form, name, into, folder, limits }, &watch);
    let path = Path::new("/dev/full");
    let mut full = fs::File::options().write(true).open(path).unwrap();
    let error = writer.copy(&mut &b"x"[..], 1, &mut full, path).unwrap_err();
    assert!(matches!(error, FetchError::NoSpace { .. }), "{error:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Damage of any kind is an error or is harmless: no panic, nothing outside, and no
    /// more than the limits inside.
    #[test]
    fn corrupted_archives_stay_in_their_place(
        which in 0_usize..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let data: Vec<u8> = (0..900_u32).map(|i| (i * i) as u8).collect();
        let tarred = tar(&[
            tar_entry("set/", b'5', b""),
            tar_entry("././@LongLink", b'L', b"set/a/long/name\0"),
            tar_entry("set/a", b'0', &data),
            tar_entry("set/link", b'2', b""),
            tar_entry("set/b", b'0', b"short"),
        ]);
        let zipped = zip(&[zip_file("set/a", &data), zip_file("set/b/c", b"short")]);
        let archives = [(Form::Tar, tarred.clone()), (Form::TarGz, gzip(&tarred)), (Form::Zip, zipped)];
        let (form, mut bytes) = archives[which].clone();
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let place = Place::new();
        let _ = place.unpack(form, &bytes);
        let mut left = vec![place.inside()];
        let (mut files, mut total) = (0, 0);
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let metadata = fs::symlink_metadata(&path).unwrap();
                prop_assert!(metadata.is_dir() || metadata.is_file());
                if metadata.is_dir() {
                    left.push(path);
                } else {
                    (files, total) = (files + 1, total + metadata.len());
                }
            }
        }
        prop_assert!(files <= LIMITS.entries && total <= LIMITS.bytes);
    }
}
