//! One request over HTTPS, and its answer piece by piece.
//!
//! The request runs in a thread of its own. Name look-ups and connections cannot be
//! interrupted, and whoever waits for them must notice a cancellation all the same: the
//! thread is left behind then, and its connection is shut down.

use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use ureq::http::{HeaderMap, Response, StatusCode, header};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::error::FetchError;
use crate::progress::{TICK, Watch};
use crate::redirect::resolve;

const PIECE: usize = 1 << 16;
/// Pieces that may wait for the disk.
const AHEAD: usize = 16;
const REDIRECTIONS: usize = 10;

/// Asks servers.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) trust: Trust,
    pub(crate) patience: Patience,
}

/// Which addresses may be asked.
#[derive(Debug, Clone)]
pub(crate) enum Trust {
    Https,
    /// The server of a test, which speaks no TLS; and no other.
    #[cfg(test)]
    Only(String),
}

/// How long to wait, and how often to try.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For a connection to stand.
    pub(crate) connect: Duration,
    /// For the next byte.
    pub(crate) silence: Duration,
    /// Losses in a row, without a byte gained, that are followed by another attempt.
    pub(crate) retries: u32,
    /// Before the first further attempt; doubled before each one after it.
    pub(crate) pause: Duration,
}

impl Default for Client {
    fn default() -> Self {
        let patience = Patience {
            connect: Duration::from_secs(20),
            silence: Duration::from_secs(60),
            retries: 3,
            pause: Duration::from_millis(500),
        };
        Self { trust: Trust::Https, patience }
    }
}

/// Where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resume {
    /// How many bytes are there.
    pub(crate) offset: u64,
    /// Of which version of the file they are.
    pub(crate) validator: String,
}

/// What an answer says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Bytes of the answer's body.
    pub(crate) length: Option<u64>,
    /// Which part of the file the body is.
    pub(crate) range: Option<Range>,
    /// The version of the file: a strong `ETag`, else the date it was changed.
    pub(crate) validator: Option<String>,
}

/// `Content-Range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    /// Bytes of the whole file.
    pub(crate) total: u64,
}

/// Why a request has no answer, or an answer no end.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection; another attempt may do better.
    Lost(io::Error),
    /// Another attempt would not.
    Final(FetchError),
}

impl From<FetchError> for Trouble {
    fn from(error: FetchError) -> Self {
        Self::Final(error)
    }
}

impl From<ureq::Error> for Trouble {
    fn from(error: ureq::Error) -> Self {
        Self::Lost(error.into_io())
    }
}

/// An answer that is coming in.
pub(crate) struct Answer {
    pub(crate) head: Head,
    messages: Messages,
}

enum Message {
    Head(Head),
    Piece(Vec<u8>),
    End,
    Trouble(Trouble),
}

/// What the thread says. Dropped, it ends the connection.
struct Messages {
    receiver: Receiver<Message>,
    agent: Agent,
}

impl Client {
    /// Asks for a file, or for the rest of it.
    pub(crate) fn get(
        &self,
        url: &str,
        resume: Option<Resume>,
        watch: &Watch<'_>,
    ) -> Result<Answer, Trouble> {
        let agent = self.agent();
        let (sender, receiver) = mpsc::sync_channel(AHEAD);
        let messages = Messages { receiver, agent: agent.clone() };
        let request = Request { agent, trust: self.trust.clone(), url: url.to_owned(), resume };
        let thread = thread::Builder::new().name("fetch".to_owned());
        thread.spawn(move || request.run(&sender)).map_err(Trouble::Lost)?;
        match messages.next(watch)? {
            Message::Head(head) => Ok(Answer { head, messages }),
            // The head comes first or not at all.
            _ => Err(Trouble::Lost(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    fn agent(&self) -> Agent {
        let Patience { connect, silence, .. } = self.patience;
        let config = Agent::config_builder()
            .user_agent(concat!("hwa/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(connect))
            .timeout_connect(Some(connect))
            .timeout_per_read(Some(silence))
            .timeout_per_write(Some(silence))
            // The bytes as they are: a checksum is not that of an unpacked file.
            .accept_encoding("identity");
        match self.trust {
            Trust::Https => {
                let tls = TlsConfig::builder().root_certs(roots()).build();
                config.https_only(true).tls_config(tls).build().new_agent()
            }
            #[cfg(test)]
            Trust::Only(_) => config.proxy(None).build().new_agent(),
        }
    }
}

/// The system's roots, which a proxy of the house may have been added to. Where the system
/// has none, as in small containers, those that Mozilla trusts.
fn roots() -> RootCerts {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        return RootCerts::WebPki;
    }
    found.iter().map(|root| Certificate::from_der(root.as_ref()).to_owned()).into()
}

impl Trust {
    fn allows(&self, url: &str) -> bool {
        match self {
            // Schemes may be written in capitals.
            Self::Https => url.get(..8).is_some_and(|s| s.eq_ignore_ascii_case("https://")),
            #[cfg(test)]
            Self::Only(server) => url.starts_with(server.as_str()),
        }
    }
}

impl Answer {
    /// The next bytes, or none at the end.
    pub(crate) fn next(&self, watch: &Watch<'_>) -> Result<Option<Vec<u8>>, Trouble> {
        match self.messages.next(watch)? {
            Message::Piece(piece) => Ok(Some(piece)),
            _ => Ok(None),
        }
    }
}

impl Messages {
    fn next(&self, watch: &Watch<'_>) -> Result<Message, Trouble> {
        loop {
            watch.go_on()?;
            match self.receiver.recv_timeout(TICK) {
                Ok(Message::Trouble(trouble)) => return Err(trouble),
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Trouble::Lost(io::ErrorKind::UnexpectedEof.into()));
                }
            }
        }
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.agent.clone().shutdown();
    }
}

/// What the thread does. When nobody listens any more, it ends.
struct Request {
    agent: Agent,
    trust: Trust,
    url: String,
    resume: Option<Resume>,
}

impl Request {
    fn run(&self, sender: &SyncSender<Message>) {
        let last = match self.converse(sender) {
            Ok(()) => Message::End,
            Err(trouble) => Message::Trouble(trouble),
        };
        let _ = sender.send(last);
    }

    fn converse(&self, sender: &SyncSender<Message>) -> Result<(), Trouble> {
        let response = self.follow()?;
        let head = Head::of(response.status(), response.headers());
        if sender.send(Message::Head(head)).is_err() {
            return Ok(());
        }
        let mut body = response.into_body().into_reader();
        loop {
            let mut piece = vec![0; PIECE];
            let count = body.read(&mut piece).map_err(Trouble::Lost)?;
            piece.truncate(count);
            if count == 0 || sender.send(Message::Piece(piece)).is_err() {
                return Ok(());
            }
        }
    }

    /// The answer at the end of all redirections.
    fn follow(&self) -> Result<Response<Body>, Trouble> {
        let bad = |reason| FetchError::BadRedirect { url: self.url.clone(), reason };
        let mut url = self.url.clone();
        for _ in 0..=REDIRECTIONS {
            if !self.trust.allows(&url) {
                return Err(FetchError::NotHttps { url: self.url.clone(), to: url }.into());
            }
            let mut request = self.agent.get(&url);
            if let Some(Resume { offset, validator }) = &self.resume {
                request = request
                    .header(header::RANGE, format!("bytes={offset}-"))
                    .header(header::IF_RANGE, validator);
            }
            let response = request.call()?;
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            let location = text(response.headers(), header::LOCATION);
            let next = location.and_then(|location| resolve(&url, location));
            url = next.ok_or_else(|| bad("the redirection names no address"))?;
        }
        Err(bad("there are too many redirections").into())
    }
}

impl Head {
    fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        // A weak ETag is that of similar files, which need not be equal byte by byte.
        let strong = text(headers, header::ETAG).filter(|tag| tag.starts_with('"'));
        let validator = strong.or_else(|| text(headers, header::LAST_MODIFIED));
        Self {
            status: status.as_u16(),
            length: text(headers, header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
            range: text(headers, header::CONTENT_RANGE).and_then(Range::parse),
            validator: validator.map(str::to_owned),
        }
    }
}

impl Range {
    /// `bytes 5-99/100`.
    fn parse(text: &str) -> Option<Self> {
        let (span, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
        let (start, end) = span.trim().split_once('-')?;
        let range = Self { start: start.parse().ok()?, total: total.trim().parse().ok()? };
        // Anything but the whole rest was not asked for.
        let end: u64 = end.parse().ok()?;
        (end.checked_add(1) == Some(range.total)).then_some(range)
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_may_be_asked() {
        for url in ["https://a.org/x", "HTTPS://a.org/x"] {
            assert!(Trust::Https.allows(url), "{url}");
        }
        for url in ["http://a.org/x", "ftp://a.org/x", "https:/a.org", "", "äöüß://"] {
            assert!(!Trust::Https.allows(url), "{url}");
        }
    }

    #[test]
    fn a_range_is_the_whole_rest_or_none() {
        assert_eq!(Range::parse("bytes 5-99/100"), Some(Range { start: 5, total: 100 }));
        let bad = ["bytes 5-98/100", "bytes 5-99/*", "bytes */100", "5-99/100", "bytes 5", ""];
        for text in bad {
            assert_eq!(Range::parse(text), None, "{text}");
        }
        assert_eq!(Range::parse(&format!("bytes 0-{}/0", u64::MAX)), None);
    }

    #[test]
    fn a_weak_tag_is_no_validator() {
        let head = |pairs: &[(header::HeaderName, &'static str)]| {
            let pairs = pairs.iter().map(|(n, v)| (n.clone(), v.parse().unwrap()));
            Head::of(StatusCode::OK, &pairs.collect())
        };
        let date = (header::LAST_MODIFIED, "Thu, 04 Jun 2009 00:00:00 GMT");
        let (strong, weak) = ((header::ETAG, "\"a1\""), (header::ETAG, "W/\"a1\""));
        assert_eq!(head(&[strong, date.clone()]).validator.as_deref(), Some("\"a1\""));
        assert_eq!(head(&[weak.clone(), date.clone()]).validator.as_deref(), Some(date.1));
        assert_eq!(head(&[weak]).validator, None);
    }
}
