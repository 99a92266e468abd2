//! How long the page of ten runs of two hundred cycles takes, from their events to HTML, SVG and
//! CSV: `cargo bench -p hwa-report --bench page`.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // it is a benchmark

use std::num::NonZeroUsize;
use std::time::Instant;

use hwa_core::WindowSpec;
use hwa_report::{PageOptions, Record, page};
use hwa_train::{CycleEnded, Evaluation, Event, Judged, ModelReport, Started, WindowEvaluation};

const RUNS: usize = 10;
const CYCLES: usize = 200;
const ROUNDS: usize = 5;

/// What a run with two models and two windows tells, line by line.
fn events(run: usize) -> String {
    let window = |length| WindowSpec::sliding(NonZeroUsize::new(length).unwrap());
    let windows = vec![window(20), window(50)];
    let started = Started { num_models: 2, num_cycles: CYCLES, windows, ..Started::default() };
    let mut events = vec![Event::Started(started)];
    for cycle in 1..=CYCLES {
        let part = cycle as f64 / CYCLES as f64;
        let model = ModelReport { loss: 4.6 - 4.0 * part, distance: 1.0, ..ModelReport::default() };
        let models = vec![model.clone(), model];
        events.push(Event::CycleEnded(CycleEnded { cycle, models, ..CycleEnded::default() }));
        let evaluation = |more: f64| Evaluation {
            top1: 60.0 * part.sqrt() + more + run as f64 / 10.0,
            loss: 4.6 - 3.0 * part,
            images: 5000,
            ..Evaluation::default()
        };
        let of_window = |window: usize, length: usize| WindowEvaluation {
            window,
            length: Some(length),
            members: length,
            evaluation: evaluation(2.0),
        };
        events.push(Event::Judged(Box::new(Judged {
            cycle,
            inner: vec![evaluation(0.0); 2],
            outer: Some(evaluation(1.0)),
            hwa: vec![of_window(0, 20), of_window(1, 50)],
            ..Judged::default()
        })));
    }
    let lines: Vec<String> = events.iter().map(|e| serde_json::to_string(e).unwrap()).collect();
    lines.join("\n") + "\n"
}

fn main() {
    let texts: Vec<String> = (0..RUNS).map(events).collect();
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let records: Vec<Record> = texts
            .iter()
            .enumerate()
            .map(|(run, text)| Record::from_events(&format!("run {run}"), text).unwrap())
            .collect();
        let page = page(&records, PageOptions { files: true, ..PageOptions::default() }).unwrap();
        bytes = page.html.len();
        for figure in &page.figures {
            bytes += figure.to_svg().unwrap().len() + figure.to_csv().len();
        }
        times.push(began.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let (median, kib) = (times[ROUNDS / 2], bytes / 1024);
    println!("{RUNS} runs of {CYCLES} cycles: {median:.3} s (median of {ROUNDS}), {kib} KiB");
}
