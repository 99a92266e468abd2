//! `hwa report`, the page that training leaves, and both in a real browser.
#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod command;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use command::{hwa, succeeded, text, wait_until};

/// A training of a second: 6 cycles of 8 steps on 160 digits.
const SHORT: [&str; 5] = [
    "data.train_examples=160",
    "optimizer.batch=20",
    "schedule.epochs=6",
    "hwa.window_length=[1, 2]",
    "evaluate.every=1",
];

fn train(run: &Path, sets: &[&str]) -> Command {
    let mut command = hwa(&["train", "--plain", "--out"]);
    command.arg(run);
    for set in SHORT.iter().chain(sets) {
        command.args(["--set", set]);
    }
    command
}

/// That it is XML: every element that is opened is closed, in order.
fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if tag.ends_with('/') {
            continue;
        }
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{tag}"),
            None => open.push(tag.split_whitespace().next().unwrap()),
        }
        if tag == "style" {
            rest = &rest[rest.find("</style>").unwrap()..];
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn training_leaves_a_page_with_its_figures_and_their_data() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let said = succeeded(&train(&run, &[]).output().unwrap());
    assert!(said.contains("report/index.html"), "{said}");
    let page = fs::read_to_string(run.join("report/index.html")).unwrap();
    let figures =
        ["accuracy", "validation-loss", "training-loss", "restarts", "distances", "rate", "time"];
    for figure in figures {
        assert!(page.contains(&format!("<figure id=\"{figure}\">")), "{figure}");
        let svg = fs::read_to_string(run.join(format!("report/{figure}.svg"))).unwrap();
        assert_well_formed(&svg);
        let csv = fs::read_to_string(run.join(format!("report/{figure}.csv"))).unwrap();
        assert!(csv.lines().count() > 1, "{figure}: {csv}");
    }
    // The data is that of the events: six cycles of outer weights and of each window.
    let csv = fs::read_to_string(run.join("report/accuracy.csv")).unwrap();
    for series in ["outer,", "\"HWA, window 1\",", "\"HWA, window 2\","] {
        assert_eq!(csv.lines().filter(|line| line.starts_with(series)).count(), 6, "{csv}");
    }
    // Nothing is loaded from elsewhere.
    let addresses = page.matches("://").count();
    assert_eq!(addresses, page.matches("http://www.w3.org/2000/svg").count(), "only names of XML");
    assert!(!page.contains("<script"), "nothing moves on a page of its own");

    // The same page again, made from the run.
    fs::remove_dir_all(run.join("report")).unwrap();
    succeeded(&hwa(&["report"]).arg(&run).output().unwrap());
    assert_eq!(fs::read_to_string(run.join("report/index.html")).unwrap(), page);
}

#[test]
fn runs_beside_each_other_have_boxes_over_seeds() {
    let folder = tempfile::tempdir().unwrap();
    for (name, sets) in [
        ("runs/hwa/seed1", ["method=hwa", "seed=1"]),
        ("runs/hwa/seed2", ["method=hwa", "seed=2"]),
        ("runs/sgd/seed1", ["method=sgd", "seed=1"]),
    ] {
        succeeded(&train(&folder.path().join(name), &sets).output().unwrap());
    }
    // Half a line of a run that is writing.
    let sgd = folder.path().join("runs/sgd/seed1");
    fs::remove_file(sgd.join("summary.json")).unwrap();
    let events = fs::read_to_string(sgd.join("events.jsonl")).unwrap();
    let cut = events.rfind("{\"event\":\"finished\"").unwrap() + 9;
    fs::write(sgd.join("events.jsonl"), &events[..cut]).unwrap();
    let mut report = hwa(&["report", "runs", "-o", "page"]);
    let said = succeeded(&report.current_dir(folder.path()).output().unwrap());
    assert_eq!(said.trim(), Path::new("page/index.html").display().to_string());
    let page = fs::read_to_string(folder.path().join("page/index.html")).unwrap();
    for expected in ["3 runs", "hwa/seed1", "hwa/seed2", "sgd/seed1", "6 of 6", "id=\"seeds\""] {
        assert!(page.contains(expected), "{expected}");
    }
    let boxes = fs::read_to_string(folder.path().join("page/seeds.csv")).unwrap();
    assert_eq!(boxes.lines().filter(|line| line.starts_with("hwa,")).count(), 2, "{boxes}");
}

#[test]
fn what_is_no_run_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = hwa(&["report"]).arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is no run, and has none in it"));
    let nowhere = hwa(&["report"]).arg(folder.path().join("nowhere")).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(text(&nowhere.stderr).contains("nowhere is no folder; expected a run"));
    let run = folder.path().join("run");
    succeeded(&train(&run, &["schedule.epochs=1"]).output().unwrap());
    let mut events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    events.insert_str(0, "[[[\n");
    fs::write(run.join("events.jsonl"), events).unwrap();
    let output = hwa(&["report"]).arg(&run).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("events.jsonl: line 1 of the events: "), "{message}");
    // Beside another it is left out, and named.
    succeeded(&train(&folder.path().join("good"), &["schedule.epochs=1"]).output().unwrap());
    let mut report = hwa(&["report", ".", "-o", "page"]);
    let output = report.current_dir(folder.path()).output().unwrap();
    succeeded(&output);
    let message = text(&output.stderr);
    assert!(
        message.contains("left out: ") && message.contains("line 1 of the events"),
        "{message}"
    );
}

/// A server that is stopped with the test.
struct Served {
    process: Child,
    port: u16,
}

impl Served {
    fn new(run: &Path) -> Self {
        let mut process = hwa(&["report", "--serve", "--port", "0"])
            .arg(run)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().trim_end_matches('/').rsplit_once(':').unwrap().1.parse().unwrap();
        Self { process, port }
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", self.port))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_run_is_served_to_this_machine_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    succeeded(&train(&run, &[]).output().unwrap());
    let served = Served::new(&run);
    let page = served.get("/");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("<script>"), "{page}");
    assert!(served.get("/rate.svg").contains("image/svg+xml"));
    assert!(served.get("/rate.csv").contains("rate,"));
    for path in ["/nothing", "/../experiment.toml", "/experiment.toml", "/rate.exe", "//", "x"] {
        assert!(served.get(path).starts_with("HTTP/1.1 404"), "{path}");
    }
    assert!(served.get("/?again=1").contains("<html"), "a question does not matter");
    let head = served.ask("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && !head.contains("<html"), "{head}");
    let post = served.ask("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(post.starts_with("HTTP/1.1 405"), "{post}");
    let elsewhere = served.ask("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n");
    assert!(elsewhere.starts_with("HTTP/1.1 403"), "{elsewhere}");
    for nonsense in ["\r\n\r\n", "\u{0}\u{1}\r\n\r\n", "GET\r\n\r\n"] {
        assert!(served.ask(nonsense).starts_with("HTTP/1.1 4"), "{nonsense:?}");
    }
    assert!(served.get("/").starts_with("HTTP/1.1 200"), "it is still there");
}

#[test]
fn the_page_of_a_training_that_is_under_way_is_kept_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut training =
        train(&run, &["schedule.epochs=2000"]).stderr(Stdio::null()).spawn().unwrap();
    let index = run.join("report/index.html");
    let cycle = || {
        let page = fs::read_to_string(&index).unwrap_or_default();
        let after = page.split("cycle ").nth(1)?;
        after.split_whitespace().next()?.parse::<usize>().ok()
    };
    wait_until(|| cycle().is_some());
    let first = cycle();
    wait_until(|| cycle() > first);
    assert!(fs::read_to_string(&index).unwrap().contains("under way</span>: cycle "));
    training.kill().unwrap();
    training.wait().unwrap();
    // Nobody could say so; the lock does.
    succeeded(
        &hwa(&["report"]).arg(&run).arg(&run).arg("-o").arg(run.join("report")).output().unwrap(),
    );
    let page = fs::read_to_string(&index).unwrap();
    assert!(page.contains("not running</span>: cycle ") && page.contains("; last heard of 2"));
    assert!(!page.contains("under way"), "and the run that is named twice is shown once");
}

/// A page as chromium leaves it after so many seconds, and what it had to complain of.
fn browsed(address: &str, seconds: u64, extra: &[&str]) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .args(["--enable-logging=stderr", "--window-size=400,800"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--virtual-time-budget={}", 1000 * seconds))
        .args(extra)
        .arg(address)
        .output()
        .unwrap();
    let told = text(&output.stderr);
    let complaints: Vec<&str> = told.lines().filter(|line| line.contains("CONSOLE")).collect();
    (text(&output.stdout), complaints.join("\n"))
}

#[test]
#[ignore = "needs chromium: cargo test -p hwa --test report -- --ignored"]
fn a_browser_shows_the_page_by_day_by_night_and_on_a_narrow_screen() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    succeeded(&train(&run, &[]).output().unwrap());
    // A page around it that measures it in a frame.
    let measure = "<script>onload = () => { const f = document.querySelector('iframe'); \
        const d = f.contentDocument; const s = f.contentWindow.getComputedStyle(d.body); \
        const seen = [...d.querySelectorAll('figure svg')].filter((f) => f.getClientRects().length); \
        const texts = seen.flatMap((f) => [...f.querySelectorAll('text')].map((t) => \
        ({ t: t.getBoundingClientRect(), f: f.getBoundingClientRect() }))); \
        document.title = JSON.stringify({ figures: seen.length, \
        wide: d.documentElement.scrollWidth, back: s.backgroundColor, \
        aside: seen.filter((f) => f.parentNode.scrollWidth > f.parentNode.clientWidth + 1).length, \
        cut: texts.filter(({ t, f }) => t.left < f.left - 1 || t.right > f.right + 1).length, \
        low: Math.min(...texts.map(({ t }) => Math.min(t.width, t.height))) }); }</script>";
    let frame = format!(
        "{measure}<iframe src=\"report/index.html\" width=\"360\" height=\"700\"></iframe>"
    );
    fs::write(run.join("frame.html"), frame).unwrap();
    let address = format!("file://{}", run.join("frame.html").display());
    for (night, back) in [(false, "rgb(255, 255, 255)"), (true, "rgb(22, 25, 31)")] {
        let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!night));
        let (dom, complaints) = browsed(&address, 5, &["--allow-file-access-from-files", &scheme]);
        assert_eq!(complaints, "");
        let title = dom.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
        let found: serde_json::Value = serde_json::from_str(title).unwrap();
        // Each is there twice, and one of them is shown: whole, with text that can be read.
        assert_eq!((&found["figures"], &found["cut"]), (&7.into(), &0.into()), "{found}");
        assert_eq!(found["aside"], 0, "nothing is moved aside: {found}");
        assert!(found["low"].as_f64().unwrap() > 5.0, "{found}");
        assert_eq!(found["back"], back, "{found}");
        assert!(found["wide"].as_u64().unwrap() <= 360, "nothing sticks out: {found}");
    }
}

#[test]
#[ignore = "needs chromium: cargo test -p hwa --test report -- --ignored"]
fn a_browser_draws_the_surface_of_a_landscape_and_turns_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    succeeded(&train(&run, &[]).output().unwrap());
    let mut plane = hwa(&["landscape", "plane", "--size", "5", "--images", "40", "--run"]);
    succeeded(&plane.arg(&run).arg("-o").arg(run.join("plane")).output().unwrap());
    let measure = "<script>onload = () => { const f = document.querySelector('iframe'); \
        const d = f.contentDocument; const c = d.querySelector('.surface canvas'); \
        const seen = () => c.toDataURL(); const before = seen(); \
        const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
        let edge = 0; for (let y = 0; y < c.height; y++) for (let x = 0; x < c.width; x++) \
        if (x % (c.width - 1) === 0 || y % (c.height - 1) === 0) \
        edge += pixels[4 * (y * c.width + x) + 3]; \
        c.dispatchEvent(new f.contentWindow.KeyboardEvent('keydown', { key: 'ArrowLeft', \
        bubbles: true })); \
        setTimeout(() => { const blank = d.createElement('canvas'); blank.width = c.width; \
        blank.height = c.height; document.title = JSON.stringify({ edge, \
        drawn: before !== blank.toDataURL(), turned: before !== seen(), \
        wide: d.documentElement.scrollWidth, canvases: d.querySelectorAll('canvas').length }); \
        }, 500); }</script>";
    let frame =
        format!("{measure}<iframe src=\"plane/index.html\" width=\"360\" height=\"700\"></iframe>");
    fs::write(run.join("frame.html"), frame).unwrap();
    let address = format!("file://{}", run.join("frame.html").display());
    let (dom, complaints) = browsed(&address, 5, &["--allow-file-access-from-files"]);
    assert_eq!(complaints, "");
    let title = dom.split("<title>").nth(1).unwrap().split("</title>").next().unwrap();
    let found: serde_json::Value = serde_json::from_str(title).unwrap();
    assert_eq!((&found["drawn"], &found["turned"]), (&true.into(), &true.into()), "{found}");
    assert_eq!(found["edge"], 0, "it is drawn whole: {found}");
    assert_eq!(found["canvases"], 2, "one for the loss, one for the accuracy: {found}");
    assert!(found["wide"].as_u64().unwrap() <= 360, "nothing sticks out: {found}");
}

#[test]
#[ignore = "needs chromium: cargo test -p hwa --test report -- --ignored"]
fn a_served_page_updates_by_itself_while_a_training_runs() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut training =
        train(&run, &["schedule.epochs=5000"]).stderr(Stdio::null()).spawn().unwrap();
    wait_until(|| run.join("events.jsonl").exists());
    let served = Served::new(&run);
    let cycle = |page: &str| -> usize {
        let after = page.split("under way</span>: cycle ").nth(1).unwrap();
        after.split_whitespace().next().unwrap().parse().unwrap()
    };
    wait_until(|| served.get("/").contains("under way</span>: cycle "));
    let before = cycle(&served.get("/"));
    let (dom, complaints) = browsed(&format!("http://localhost:{}/", served.port), 12, &[]);
    training.kill().unwrap();
    training.wait().unwrap();
    assert_eq!(complaints, "");
    assert!(dom.contains("data-state=\"up\""), "it has asked again");
    assert!(cycle(&dom) > before, "{before}");
}

/// The messages of the only event file of a run.
fn messages(run: &Path) -> Vec<Vec<u8>> {
    let files: Vec<_> = fs::read_dir(run.join("tensorboard")).unwrap().flatten().collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let data = fs::read(files[0].path()).unwrap();
    let (mut rest, mut messages) = (data.as_slice(), Vec::new());
    while let Some((head, after)) = rest.split_at_checked(12) {
        let length = u64::from_le_bytes(head[..8].try_into().unwrap()) as usize;
        messages.push(after[..length].to_vec());
        rest = &after[length + 4..];
    }
    assert!(rest.is_empty(), "whole records");
    messages
}

fn count(messages: &[Vec<u8>], tag: &str) -> usize {
    let holds = |message: &&Vec<u8>| message.windows(tag.len()).any(|part| part == tag.as_bytes());
    messages.iter().filter(holds).count()
}

#[test]
fn tensorboard_has_every_cycle_once_also_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let sets = ["log.tensorboard=true", "checkpoints.state_every=3", "schedule.epochs=40"];
    let mut training = train(&run, &sets).stderr(Stdio::null()).spawn().unwrap();
    let logged = || fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
    wait_until(|| logged().matches("cycle_ended").count() > 5);
    training.kill().unwrap();
    training.wait().unwrap();
    assert!(!run.join("summary.json").exists(), "it was killed on the way");
    let notes = run.join("tensorboard/notes.txt");
    fs::write(&notes, "mine").unwrap();
    succeeded(&hwa(&["train", "--plain", "--resume"]).arg(&run).output().unwrap());
    assert!(notes.exists(), "what others keep there stays");
    fs::remove_file(&notes).unwrap();
    let messages = messages(&run);
    assert_eq!(count(&messages, "brain.Event:2"), 1);
    // A message begins with its time: what is replayed has that of its cycle.
    let times = messages.iter().filter(|message| count(&[message.to_vec()], "loss/train") == 1);
    let times: Vec<f64> =
        times.map(|message| f64::from_le_bytes(message[1..9].try_into().unwrap())).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    for tag in ["loss/train", "accuracy/outer", "loss/window 2"] {
        assert_eq!(count(&messages, tag), 40, "{tag}");
    }
}
