use std::fmt::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use md5::{Digest, Md5};
use proptest::prelude::*;

use super::*;
use crate::checksum::hexadecimal;
use crate::http::Trust;
use crate::progress::Progress;
use crate::test_server::{Request, Served, Server, say};

const NAME: &str = "set.tar";
const WHOLE: usize = usize::MAX;

/// Different in every place, and longer than one piece.
fn body() -> Vec<u8> {
    (0..100_003_u32).flat_map(|i| i.to_le_bytes()).take(200_003).collect()
}

fn md5_of(bytes: &[u8]) -> &'static str {
    hexadecimal(Md5::new_with_prefix(bytes)).leak()
}

fn remote(server: &Server, body: &[u8]) -> RemoteFile {
    let (url, bytes) = (server.url(NAME), body.len() as u64);
    RemoteFile { url, name: NAME, bytes, md5: Some(md5_of(body)) }
}

/// A server that answers the requests in turn, cut after so many bytes; whole after that.
fn cutting(served: Served, cuts: Vec<usize>) -> Server {
    Server::start(move |number, request, stream| {
        served.send(request, &stream, cuts.get(number).copied().unwrap_or(WHOLE));
    })
}

fn obtain(server: &Server, file: &RemoteFile, dir: &Path) -> Result<Obtained, FetchError> {
    let cancel = AtomicBool::new(false);
    let watch = Watch { progress: &|_| {}, cancel: &cancel };
    server.client().obtain(file, dir, &watch)
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn starts(server: &Server) -> Vec<Option<usize>> {
    server.requests().iter().map(Request::start).collect()
}

#[test]
fn a_file_comes_whole_and_is_told_of() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let server = cutting(Served::new(&body, "v1"), vec![]);
    let cancel = AtomicBool::new(false);
    let seen = std::cell::RefCell::new(Vec::new());
    let progress = |p: Progress<'_>| {
        assert_eq!((p.name, p.total), (NAME, Some(200_003)));
        seen.borrow_mut().push((p.phase, p.done));
    };
    let watch = Watch { progress: &progress, cancel: &cancel };
    let obtained = server.client().obtain(&remote(&server, &body), dir.path(), &watch).unwrap();
    assert_eq!(fs::read(obtained.path()).unwrap(), body);
    assert_eq!(names(dir.path()), ["set.tar.part", "set.tar.part.json"]);
    let seen = seen.into_inner();
    assert!(seen.contains(&(Phase::Download, 0)) && seen.contains(&(Phase::Download, 200_003)));
    assert!(seen.contains(&(Phase::Verify, 200_003)));
    let request = &server.requests()[0];
    assert_eq!(request.header("accept-encoding"), Some("identity"));
    // Once there, it is not asked for again.
    obtain(&server, &remote(&server, &body), dir.path()).unwrap();
    assert_eq!(server.requests().len(), 1);
    obtained.discard().unwrap();
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_download_goes_on_where_the_connection_was_cut() {
    let body = body();
    for cut in [0, 1, 65_536, 65_537, 100_000, 200_002] {
        let dir = tempfile::tempdir().unwrap();
        let server = cutting(Served::new(&body, "v1"), vec![cut]);
        let obtained = obtain(&server, &remote(&server, &body), dir.path()).unwrap();
        assert_eq!(fs::read(obtained.path()).unwrap(), body, "{cut}");
        assert_eq!(starts(&server), [None, Some(cut).filter(|cut| *cut > 0)]);
        let if_range = server.requests()[1].header("if-range").map(str::to_owned);
        assert_eq!(if_range.is_some(), cut > 0);
    }
}

#[test]
fn a_connection_cut_in_the_head_gains_nothing_and_loses_nothing() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let served = Served::new(&body, "v1");
    let server = Server::start(move |number, request, stream| match number {
        0 => served.send(request, &stream, 5),
        1 => say(&stream, "HTTP/1.1 206 Partial Content\r\nContent-Le"),
        2 => {}
        _ => served.send(request, &stream, WHOLE),
    });
    obtain(&server, &remote(&server, &body), dir.path()).unwrap();
    assert_eq!(starts(&server), [None, Some(5), Some(5), Some(5)]);
}

#[test]
fn losses_do_not_add_up_as_long_as_something_is_gained() {
    // Two losses in a row are forgiven. Here are nine, each after 20,000 bytes.
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let server = cutting(Served::new(&body, "v1"), vec![20_000; 9]);
    obtain(&server, &remote(&server, &body), dir.path()).unwrap();
    assert_eq!(server.requests().len(), 10);
}

#[test]
fn losses_without_gain_are_the_end_and_the_part_is_kept() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let mut cuts = vec![7];
    cuts.extend([0; 3]);
    let server = cutting(Served::new(&body, "v1"), cuts);
    let error = obtain(&server, &remote(&server, &body), dir.path()).unwrap_err();
    assert!(matches!(error, FetchError::ConnectionLost { received: 7, .. }), "{error}");
    // One that gained, two that were forgiven, one that was not.
    assert_eq!(server.requests().len(), 4);
    assert_eq!(fs::read(dir.path().join("set.tar.part")).unwrap(), body[..7]);
}

#[test]
fn a_changed_file_is_begun_afresh() {
    let (old, dir) = (body(), tempfile::tempdir().unwrap());
    let new: Vec<u8> = old.iter().map(|byte| !byte).collect();
    let (first, second) = (Served::new(&old, "v1"), Served::new(&new, "v2"));
    let server = Server::start(move |number, request, stream| match number {
        0 => first.send(request, &stream, 1000),
        1 => second.send(request, &stream, 10),
        _ => second.send(request, &stream, WHOLE),
    });
    let obtained = obtain(&server, &remote(&server, &new), dir.path()).unwrap();
    assert_eq!(fs::read(obtained.path()).unwrap(), new);
    assert_eq!(starts(&server), [None, Some(1000), Some(10)]);
    assert_eq!(server.requests()[2].header("if-range"), Some("\"v2\""));
}

#[test]
fn the_rest_of_another_version_is_not_taken() {
    // A server that does not know If-Range, and gives the rest of what it has now.
    let (old, dir) = (body(), tempfile::tempdir().unwrap());
    let new: Vec<u8> = old.iter().map(|byte| !byte).collect();
    let (first, second) = (Served::new(&old, "v1"), Served::new(&new, "v2"));
    let server = Server::start(move |number, request, stream| match number {
        0 => first.send(request, &stream, 1000),
        1 => {
            let head = "HTTP/1.1 206 Partial Content\r\nContent-Length: 199003\r\n\
                Content-Range: bytes 1000-200002/200003\r\nETag: \"v2\"\r\n\r\n";
            say(&stream, head);
            let _ = (&stream).write_all(&second.body[1000..]);
        }
        _ => second.send(request, &stream, WHOLE),
    });
    let obtained = obtain(&server, &remote(&server, &new), dir.path()).unwrap();
    assert_eq!(fs::read(obtained.path()).unwrap(), new);
    assert_eq!(starts(&server), [None, Some(1000), None]);
}

#[test]
fn a_server_that_knows_no_ranges_or_no_versions_sends_everything_again() {
    let (body, no_tag) = (body(), ("X-Tag", "1".to_owned()));
    let ranges = Served { ranges: false, ..Served::new(&body, "v1") };
    let versions = Served { version: Some(no_tag), ..Served::new(&body, "v1") };
    let weak = Served { version: Some(("ETag", "W/\"v1\"".to_owned())), ..ranges.clone() };
    for (served, second) in [(ranges, Some(50_000)), (versions, None), (weak, None)] {
        let dir = tempfile::tempdir().unwrap();
        let server = cutting(served, vec![50_000]);
        let obtained = obtain(&server, &remote(&server, &body), dir.path()).unwrap();
        assert_eq!(fs::read(obtained.path()).unwrap(), body);
        assert_eq!(starts(&server), [None, second]);
    }
}

#[test]
fn a_date_is_a_version_too() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let date = "Thu, 04 Jun 2009 12:00:00 GMT".to_owned();
    let served =
        Served { version: Some(("Last-Modified", date.clone())), ..Served::new(&body, "") };
    let server = cutting(served, vec![50_000]);
    obtain(&server, &remote(&server, &body), dir.path()).unwrap();
    assert_eq!(starts(&server), [None, Some(50_000)]);
    assert_eq!(server.requests()[1].header("if-range"), Some(date.as_str()));
}

#[test]
fn ranges_that_were_not_asked_for_are_not_taken() {
    let body = body();
    let answers = [
        "206 Partial Content\r\nContent-Range: bytes 999-200002/200003",
        "206 Partial Content\r\nContent-Range: bytes 1000-1009/200003",
        "206 Partial Content",
        "416 Range Not Satisfiable\r\nContent-Range: bytes */200003",
    ];
    for answer in answers {
        let (dir, served) = (tempfile::tempdir().unwrap(), Served::new(&body, "v1"));
        let server = Server::start(move |number, request, stream| match number {
            0 => served.send(request, &stream, 1000),
            1 => say(&stream, &format!("HTTP/1.1 {answer}\r\nContent-Length: 3\r\n\r\nxyz")),
            _ => served.send(request, &stream, WHOLE),
        });
        let obtained = obtain(&server, &remote(&server, &body), dir.path()).unwrap();
        assert_eq!(fs::read(obtained.path()).unwrap(), body, "{answer}");
        assert_eq!(starts(&server), [None, Some(1000), None], "{answer}");
    }
}

#[test]
fn a_file_of_another_length_is_refused_before_it_comes() {
    let body = body();
    let longer = [body.as_slice(), b"x"].concat();
    for other in [&body[1..], &longer, b"<html>please log in</html>"] {
        let dir = tempfile::tempdir().unwrap();
        let server = cutting(Served::new(other, "v1"), vec![]);
        let error = obtain(&server, &remote(&server, &body), dir.path()).unwrap_err();
        let length = other.len() as u64;
        assert!(
            matches!(error, FetchError::WrongLength { expected: 200_003, found, .. } if found == length),
            "{error}"
        );
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

#[test]
fn a_body_without_a_length_ends_where_the_file_must() {
    let body = body();
    let send = |stream: &TcpStream, body: &[u8]| {
        let mut text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
        write!(text, "{:x}\r\n", body.len()).unwrap();
        say(stream, &text);
        let _ = (&*stream).write_all(body);
        say(stream, "\r\n0\r\n\r\n");
    };
    let (dir, whole) = (tempfile::tempdir().unwrap(), body.clone());
    let server = Server::start(move |_, _, stream| send(&stream, &whole));
    obtain(&server, &remote(&server, &body), dir.path()).unwrap();

    let (dir, longer) = (tempfile::tempdir().unwrap(), [body.as_slice(), b"x"].concat());
    let server = Server::start(move |_, _, stream| send(&stream, &longer));
    let error = obtain(&server, &remote(&server, &body), dir.path()).unwrap_err();
    assert!(matches!(error, FetchError::WrongLength { .. }), "{error}");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_wrong_file_is_removed_and_begun_afresh_the_next_time() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let mut wrong = body.clone();
    wrong[77] ^= 1;
    let (first, second) = (Served::new(&wrong, "v1"), Served::new(&body, "v1"));
    let server = Server::start(move |number, request, stream| {
        let served = if number == 0 { &first } else { &second };
        served.send(request, &stream, WHOLE);
    });
    let file = remote(&server, &body);
    let error = obtain(&server, &file, dir.path()).unwrap_err();
    let FetchError::WrongChecksum { path, expected, found } = &error else { panic!("{error}") };
    assert_eq!(*path, dir.path().join("set.tar.part"));
    assert_eq!((*expected, found.as_str()), (md5_of(&body), md5_of(&wrong)));
    assert_eq!(names(dir.path()), [""; 0]);
    obtain(&server, &file, dir.path()).unwrap();
    assert_eq!(starts(&server), [None, None]);
}

#[test]
fn redirections_are_followed_on_the_way_that_is_allowed() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let served = Served::new(&body, "v1");
    let server = Server::start(move |number, request, stream| match request.path.as_str() {
        "/set.tar" => say(&stream, "HTTP/1.1 302 Found\r\nLocation: /mirror/x\r\n\r\n"),
        "/mirror/x" => say(&stream, "HTTP/1.1 307 Later\r\nLocation: y?key=1#z\r\n\r\n"),
        // The way is gone again after a loss, with its range.
        "/mirror/y?key=1" => served.send(request, &stream, if number == 2 { 9 } else { WHOLE }),
        other => panic!("{other}"),
    });
    obtain(&server, &remote(&server, &body), dir.path()).unwrap();
    assert_eq!(starts(&server), [None, None, None, Some(9), Some(9), Some(9)]);
}

#[test]
fn a_redirection_to_another_scheme_is_refused_before_anything_is_asked() {
    let other = Server::start(|_, _, stream| say(&stream, "HTTP/1.1 200 OK\r\n\r\n"));
    let to = other.url("set.tar");
    let server = Server::start(move |_, _, stream| {
        say(&stream, &format!("HTTP/1.1 301 Moved\r\nLocation: {to}\r\n\r\n"));
    });
    let dir = tempfile::tempdir().unwrap();
    let error = obtain(&server, &remote(&server, b"x"), dir.path()).unwrap_err();
    let message = error.to_string();
    assert!(message.ends_with(&format!("leads to {to}, which is not https")), "{message}");
    assert!(other.requests().is_empty());
}

#[test]
fn plain_http_is_refused_from_the_beginning() {
    let server = Server::start(|_, _, stream| say(&stream, "HTTP/1.1 200 OK\r\n\r\n"));
    let dir = tempfile::tempdir().unwrap();
    let client = Client { trust: Trust::Https, ..server.client() };
    let cancel = AtomicBool::new(false);
    let watch = Watch { progress: &|_| {}, cancel: &cancel };
    let error = client.obtain(&remote(&server, b"x"), dir.path(), &watch).unwrap_err();
    assert!(matches!(error, FetchError::NotHttps { .. }), "{error}");
    assert!(server.requests().is_empty());
}

#[test]
fn redirections_without_end_or_aim_are_refused() {
    for (location, asked) in
        [("Location: /set.tar\r\n", 11), ("", 1), ("Location: file:///x\r\n", 1)]
    {
        let server = Server::start(move |_, _, stream| {
            say(&stream, &format!("HTTP/1.1 302 Found\r\n{location}\r\n"));
        });
        let dir = tempfile::tempdir().unwrap();
        let error = obtain(&server, &remote(&server, b"x"), dir.path()).unwrap_err();
        assert!(matches!(error, FetchError::BadRedirect { .. }), "{error}");
        assert_eq!(server.requests().len(), asked);
    }
}

#[test]
fn a_refusal_is_told_at_once_and_a_busy_server_is_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(|_, _, stream| say(&stream, "HTTP/1.1 404 Not Found\r\n\r\n"));
    let error = obtain(&server, &remote(&server, b"x"), dir.path()).unwrap_err();
    assert!(matches!(error, FetchError::Status { status: 404, .. }), "{error}");
    assert_eq!(server.requests().len(), 1);

    let server = Server::start(|_, _, stream| say(&stream, "HTTP/1.1 503 Busy\r\n\r\n"));
    let error = obtain(&server, &remote(&server, b"x"), dir.path()).unwrap_err();
    assert!(matches!(error, FetchError::Status { status: 503, .. }), "{error}");
    assert_eq!(server.requests().len(), 3);

    let (body, served) = (body(), Served::new(&body(), "v1"));
    let server = Server::start(move |number, request, stream| match number {
        0 => say(&stream, "HTTP/1.1 429 Slow down\r\n\r\n"),
        _ => served.send(request, &stream, WHOLE),
    });
    obtain(&server, &remote(&server, &body), dir.path()).unwrap();
}

#[test]
fn a_silent_server_is_given_up_and_asked_for_the_rest() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let served = Served::new(&body, "v1");
    let mut held = Vec::new();
    let server = Server::start(move |number, request, stream| match number {
        0 => {
            served.send(request, &stream, 1000);
            held.push(stream);
        }
        // Not even a head.
        1 => held.push(stream),
        _ => served.send(request, &stream, WHOLE),
    });
    let mut client = server.client();
    client.patience.silence = Duration::from_millis(200);
    let cancel = AtomicBool::new(false);
    let watch = Watch { progress: &|_| {}, cancel: &cancel };
    let obtained = client.obtain(&remote(&server, &body), dir.path(), &watch).unwrap();
    assert_eq!(fs::read(obtained.path()).unwrap(), body);
    assert_eq!(starts(&server), [None, Some(1000), Some(1000)]);
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let server = cutting(Served::new(&body, "v1"), vec![]);
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url: &str = format!("http://{free}/{NAME}").leak();
    let client = Client { trust: Trust::Only(format!("http://{free}/")), ..server.client() };
    let cancel = AtomicBool::new(false);
    let watch = Watch { progress: &|_| {}, cancel: &cancel };
    let file = RemoteFile { url, ..remote(&server, &body) };
    let error = client.obtain(&file, dir.path(), &watch).unwrap_err();
    assert!(
        matches!(&error, FetchError::Unreachable { url: asked, .. } if asked == url),
        "{error}"
    );
}

#[test]
fn a_cancelled_download_goes_on_later() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let served = Served::new(&body, "v1");
    let mut held = Vec::new();
    let server = Server::start(move |number, request, stream| {
        served.send(request, &stream, if number == 0 { 150_000 } else { WHOLE });
        // The first connection stays open, with nothing more to come.
        held.push(stream);
    });
    let cancel = AtomicBool::new(false);
    let progress = |p: Progress<'_>| cancel.store(p.done == 150_000, Ordering::Relaxed);
    let watch = Watch { progress: &progress, cancel: &cancel };
    let file = remote(&server, &body);
    let mut client = server.client();
    // Whoever does not look at the flag waits for an hour.
    client.patience.silence = Duration::from_secs(3600);
    let error = client.obtain(&file, dir.path(), &watch).unwrap_err();
    assert!(matches!(error, FetchError::Cancelled), "{error}");
    let obtained = obtain(&server, &file, dir.path()).unwrap();
    assert_eq!(fs::read(obtained.path()).unwrap(), body);
    assert_eq!(starts(&server), [None, Some(150_000)]);
}

#[test]
fn a_fetch_that_is_cancelled_asks_nothing() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let server = Server::start(|_, _, _| {});
    let cancel = AtomicBool::new(true);
    let watch = Watch { progress: &|_| {}, cancel: &cancel };
    let error = server.client().obtain(&remote(&server, &body), dir.path(), &watch).unwrap_err();
    assert!(matches!(error, FetchError::Cancelled), "{error}");
}

#[test]
fn a_file_put_there_by_hand_is_checked_and_never_removed() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let server = Server::start(|_, _, _| {});
    let (file, path) = (remote(&server, &body), dir.path().join(NAME));
    fs::write(&path, &body).unwrap();
    let obtained = obtain(&server, &file, dir.path()).unwrap();
    obtained.discard().unwrap();
    assert_eq!(fs::read(&path).unwrap(), body);

    let wrong: Vec<u8> = body.iter().map(|byte| !byte).collect();
    fs::write(&path, &wrong).unwrap();
    let error = obtain(&server, &file, dir.path()).unwrap_err();
    assert!(matches!(error, FetchError::WrongChecksum { .. }), "{error}");
    fs::write(&path, b"short").unwrap();
    let error = obtain(&server, &file, dir.path()).unwrap_err();
    assert!(matches!(error, FetchError::WrongSize { found: 5, .. }), "{error}");
    assert!(path.exists() && server.requests().is_empty());
}

#[test]
fn a_whole_part_of_another_address_is_not_taken() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let server = cutting(Served::new(&body, "v1"), vec![]);
    let note = Note { url: server.url("other.tar").to_owned(), validator: None };
    let mut part = Part::new(dir.path(), NAME).restart(&note).unwrap();
    part.write_all(&vec![0; body.len()]).unwrap();
    let obtained = obtain(&server, &remote(&server, &body), dir.path()).unwrap();
    assert_eq!(fs::read(obtained.path()).unwrap(), body);
    assert_eq!(starts(&server), [None]);
}

#[test]
fn a_part_longer_than_the_file_is_thrown_away() {
    let (body, dir) = (body(), tempfile::tempdir().unwrap());
    let server = cutting(Served::new(&body, "v1"), vec![]);
    let file = remote(&server, &body);
    let note = Note { url: file.url.to_owned(), validator: Some("\"v1\"".to_owned()) };
    let mut part = Part::new(dir.path(), NAME).restart(&note).unwrap();
    part.write_all(&[body.as_slice(), b"x"].concat()).unwrap();
    let obtained = obtain(&server, &file, dir.path()).unwrap();
    assert_eq!(fs::read(obtained.path()).unwrap(), body);
    assert_eq!(starts(&server), [None]);
}

/// What a server does with one request.
#[derive(Debug, Clone)]
enum Turn {
    Cut(usize),
    Change(usize),
    IgnoreRange(usize),
    Busy,
    Garbage,
    NoSuchRange,
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        (0_usize..400).prop_map(Turn::Cut),
        (0_usize..400).prop_map(Turn::Change),
        (0_usize..400).prop_map(Turn::IgnoreRange),
        Just(Turn::Busy),
        Just(Turn::Garbage),
        Just(Turn::NoSuchRange),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No checksum helps here: what comes out must be one version, or nothing.
    #[test]
    fn versions_are_never_mixed(turns in prop::collection::vec(turn(), 0..8)) {
        let version = |number: u8| vec![number; 400];
        let mut number = 0_u8;
        let server = Server::start(move |count, request, stream| {
            let serve = |number, ranges, cut| {
                let served = Served::new(&version(number), &number.to_string());
                Served { ranges, ..served }.send(request, &stream, cut);
            };
            match turns.get(count) {
                None => serve(number, true, WHOLE),
                Some(Turn::Cut(cut)) => serve(number, true, *cut),
                Some(Turn::IgnoreRange(cut)) => serve(number, false, *cut),
                Some(Turn::Change(cut)) => {
                    number += 1;
                    serve(number, true, *cut);
                }
                Some(Turn::Busy) => say(&stream, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
                Some(Turn::Garbage) => say(&stream, "SSH-2.0-x\r\n\r\n"),
                Some(Turn::NoSuchRange) if request.start().is_some() => {
                    say(&stream, "HTTP/1.1 416 No\r\nContent-Length: 0\r\n\r\n");
                }
                Some(Turn::NoSuchRange) => serve(number, true, 0),
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let file = RemoteFile { md5: None, ..remote(&server, &[0; 400]) };
        // Several fetches, as a user would call them.
        let obtained = (0..9).find_map(|_| obtain(&server, &file, dir.path()).ok()).unwrap();
        let bytes = fs::read(obtained.path()).unwrap();
        prop_assert_eq!(&bytes, &version(bytes[0]));
    }
}
