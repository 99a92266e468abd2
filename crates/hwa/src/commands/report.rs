//! `hwa report`: pages about runs, written or served.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use hwa_report::PageOptions;

use crate::arguments::Report;
use crate::failure::Failure;
use crate::output::{give, tell};
use crate::pages;

/// How long a browser may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest line of a request that is read.
const LONGEST: u64 = 8192;

/// Runs the command.
pub(crate) fn run(arguments: &Report) -> Result<(), Failure> {
    let read = pages::readable(pages::runs(&arguments.runs)?)?;
    if arguments.serve {
        return serve(&arguments.runs, arguments.port);
    }
    let folder = match (&arguments.out, read.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [(run, _)]) => run.join("report"),
        (None, _) => PathBuf::from("report"),
    };
    let options = PageOptions { files: true, ..PageOptions::default() };
    let page = pages::page_of(read, options)?;
    pages::write(&page, &folder)?;
    give(folder.join("index.html").display());
    Ok(())
}

/// Shows the page as it is at every moment, to browsers on this machine.
fn serve(named: &[PathBuf], port: u16) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::Run(anyhow::anyhow!("cannot listen on port {port} of this machine: {error}"))
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    give(format_args!("http://localhost:{port}/"));
    tell("Ctrl-C ends it");
    for stream in listener.incoming().flatten() {
        let named = named.to_owned();
        // A browser that does not come to the point keeps no other one waiting.
        let answer = move || drop(answer(stream, &named));
        drop(thread::Builder::new().name("a browser".to_owned()).spawn(answer));
    }
    Ok(())
}

fn answer(mut stream: TcpStream, named: &[PathBuf]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?.take(8 * LONGEST));
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut host = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("host")
        {
            host = value.trim().to_owned();
        }
    }
    let (status, kind, body) = respond(&request, &host, named);
    let length = body.len();
    let body = if request.starts_with("HEAD ") { "" } else { body.as_str() };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(body.as_bytes())
}

fn respond(request: &str, host: &str, named: &[PathBuf]) -> (&'static str, &'static str, String) {
    let mut words = request.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(['?', '#']).next().unwrap_or_default();
    // A page from elsewhere that has our address under its own name is not let in.
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if !matches!(name, "localhost" | "127.0.0.1") {
        return ("403 Forbidden", "text/plain", "only from this machine\n".to_owned());
    }
    if !matches!(method, "GET" | "HEAD") {
        return ("405 Method Not Allowed", "text/plain", "only GET and HEAD\n".to_owned());
    }
    let file = Path::new(path.trim_start_matches('/'));
    let kind = file.extension().and_then(|kind| kind.to_str());
    let index = matches!(path, "/" | "/index.html");
    if !index && !matches!(kind, Some("svg" | "csv")) {
        return ("404 Not Found", "text/plain", "there is no such page\n".to_owned());
    }
    let options = PageOptions { live: true, files: true };
    // Looked for each time: in a folder of runs others may have begun.
    let page = match pages::now(named, options) {
        Ok(page) => page,
        Err(failure) => return ("500 Internal Server Error", "text/plain", format!("{failure}\n")),
    };
    if index {
        return ("200 OK", "text/html", page.html);
    }
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    let figure = page.figures.iter().find(|figure| Some(figure.name.as_str()) == stem);
    match (figure, kind) {
        (Some(figure), Some("svg")) => match figure.to_svg() {
            Ok(svg) => ("200 OK", "image/svg+xml", svg),
            Err(error) => ("500 Internal Server Error", "text/plain", format!("{error}\n")),
        },
        (Some(figure), Some("csv")) => ("200 OK", "text/csv", figure.to_csv()),
        _ => ("404 Not Found", "text/plain", "there is no such page\n".to_owned()),
    }
}
