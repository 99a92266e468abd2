//! A server for tests: one thread, one request per connection, any answer.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::http::{Client, Patience, Trust};

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    headers: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The first byte asked for.
    pub(crate) fn start(&self) -> Option<usize> {
        let range = self.header("range")?.strip_prefix("bytes=")?;
        range.strip_suffix('-')?.parse().ok()
    }
}

/// A server that answers for as long as the test runs.
pub(crate) struct Server {
    base: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// `answer` is given the number of the request, counted from 0, and the connection.
    pub(crate) fn start(
        mut answer: impl FnMut(usize, &Request, TcpStream) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(request) = read(&stream) else { continue };
                let number = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(request.clone());
                    seen.len() - 1
                };
                answer(number, &request, stream);
            }
        });
        Self { base, requests }
    }

    pub(crate) fn url(&self, name: &str) -> &'static str {
        format!("{}{name}", self.base).leak()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// A client that may ask this server, and is not patient.
    pub(crate) fn client(&self) -> Client {
        let patience = Patience {
            connect: Duration::from_secs(20),
            silence: Duration::from_secs(20),
            retries: 2,
            pause: Duration::from_millis(1),
        };
        Client { trust: Trust::Only(self.base.clone()), patience }
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers = lines.take_while(|line| !line.is_empty());
    let headers = headers.filter_map(|line| {
        line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
    });
    Some(Request { path, headers: headers.collect() })
}

/// A file as a good server has it.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) body: Vec<u8>,
    /// The header that tells its version, if any.
    pub(crate) version: Option<(&'static str, String)>,
    pub(crate) ranges: bool,
}

impl Served {
    pub(crate) fn new(body: &[u8], tag: &str) -> Self {
        let version = Some(("ETag", format!("\"{tag}\"")));
        Self { body: body.to_vec(), version, ranges: true }
    }

    /// The answer to a request, in full: head and body.
    pub(crate) fn answer(&self, request: &Request) -> (String, &[u8]) {
        let same = self.version.as_ref().map(|(_, v)| v.as_str()) == request.header("if-range");
        let start = request.start().filter(|start| self.ranges && same && *start < self.body.len());
        let total = self.body.len();
        let (status, start) = match start {
            Some(start) => ("206 Partial Content", start),
            None => ("200 OK", 0),
        };
        let mut head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", total - start);
        if status.starts_with("206") {
            head += &format!("Content-Range: bytes {start}-{}/{total}\r\n", total - 1);
        }
        if let Some((name, value)) = &self.version {
            head += &format!("{name}: {value}\r\n");
        }
        (head + "Connection: close\r\n\r\n", &self.body[start..])
    }

    /// Answers, and cuts the connection after so many bytes of the body.
    pub(crate) fn send(&self, request: &Request, mut stream: &TcpStream, cut: usize) {
        let (head, body) = self.answer(request);
        // Whoever cancels does not listen any more.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&body[..cut.min(body.len())]);
    }
}

/// Sends text.
pub(crate) fn say(mut stream: &TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes());
}
