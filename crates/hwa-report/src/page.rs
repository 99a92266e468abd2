//! A page about a run, or about several: one file, nothing to load, by day and by night.

use std::fmt::Write as _;

use hwa_train::{Evaluation, Summary};

use crate::ReportError;
use crate::chart::Figure;
use crate::comparison::Spread;
use crate::differences::{differences, groups, settings as settings_of};
use crate::figures::window_name;
use crate::html;
use crate::numbers::{thousands, utc};
use crate::record::{Process, Record};
use crate::sheet::DataFile;
use crate::svg::escaped;
use crate::together::compared;

/// How a page is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageOptions {
    /// It asks for itself again and again, and shows what has changed.
    pub live: bool,
    /// The figures lie beside it as files, and captions lead to them.
    pub files: bool,
}

/// A page, with the figures that are on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The text.
    pub html: String,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Other data that it leads to.
    pub files: Vec<DataFile>,
}

/// Makes a page about one run, or about several beside each other.
pub fn page(records: &[Record], options: PageOptions) -> Result<Page, ReportError> {
    let figures = match records {
        [one] => one.figures(),
        several => compared(several),
    };
    let title = match records {
        [one] => one.name.clone(),
        several => format!("{} runs", several.len()),
    };
    let mut body = String::new();
    match records {
        [one] => one_run(&mut body, one),
        several => several_runs(&mut body, several),
    }
    if !figures.is_empty() {
        body.push_str("<h2>Figures</h2>\n");
        html::figures(&mut body, &figures, options)?;
    }
    for record in records {
        settings(&mut body, record, records.len() == 1);
    }
    let html = html::document(&title, &body, options);
    Ok(Page { html, figures, files: Vec::new() })
}

fn one_run(body: &mut String, record: &Record) {
    html::head(body, &record.name, &lead(record));
    if record.summary.is_none() {
        progress(body, record);
    }
    cards(body, record);
    if let Some(summary) = &record.summary {
        body.push_str("<h2>Result</h2>\n");
        result_table(body, record, summary);
    }
}

/// What was trained, in a sentence.
fn lead(record: &Record) -> String {
    let mut parts = Vec::new();
    let key = |path: &str| record.key(path);
    if let Some(network) = key("model.name") {
        parts.push(network);
    }
    if let Some(dataset) = key("data.dataset") {
        parts.push(format!("on {dataset}"));
    }
    if let Some(method) = key("method") {
        parts.push(format!("by {method}"));
    }
    let models = record.started.num_models;
    if models > 1 {
        parts.push(format!("with {models} models"));
    }
    if !record.lost.is_empty() {
        let lost: Vec<String> = record.lost.iter().map(usize::to_string).collect();
        parts.push(format!("(without model {} after a while)", lost.join(", ")));
    }
    if let Some(seed) = key("seed") {
        parts.push(format!("from seed {seed}"));
    }
    parts.join(" ")
}

fn progress(body: &mut String, record: &Record) {
    let (done, total) = (record.cycles.len(), record.started.num_cycles.max(1));
    let begun = record.started.num_cycles > 0;
    let how = if begun { format!("cycle {done} of {total}") } else { "no cycle yet".to_owned() };
    let again = match record.folder.as_str() {
        "" => "; <code>hwa train --resume</code> goes on".to_owned(),
        folder => format!("; <code>hwa train --resume {}</code> goes on", escaped(folder)),
    };
    let after = match &record.process {
        Process::Failed(reason) => format!("; {}", escaped(reason).replace('\n', "<br>")),
        Process::Interrupted => again,
        Process::Gone if begun => format!("; it ended without a result{again}"),
        Process::Gone => "; it has told nothing, and no process is at it".to_owned(),
        Process::There => left(record).map_or_else(String::new, |left| format!("; {left}")),
        Process::Unknown => String::new(),
    };
    let heard = record.heard.map_or_else(String::new, |at| format!("; last heard of {}", utc(at)));
    let class = if record.process == Process::There { "live" } else { "stopped" };
    let state = state(record);
    let _ = writeln!(
        body,
        "<p><span class=\"{class}\">{state}</span>: {how}{after}{heard}<br>\
         <progress value=\"{done}\" max=\"{total}\"></progress></p>"
    );
}

/// About how long it takes to the last cycle, as fast as the cycles so far.
fn left(record: &Record) -> Option<String> {
    let (done, total) = (record.cycles.len(), record.started.num_cycles);
    let left = total.checked_sub(done).filter(|left| *left > 0 && done > 0)?;
    let seconds = record.elapsed() / done as f64 * left as f64;
    (seconds > 0.0).then(|| format!("about {} of training left", duration(seconds)))
}

/// How a run stands that is not finished.
fn state(record: &Record) -> &'static str {
    match record.process {
        Process::There => "under way",
        Process::Interrupted => "interrupted",
        Process::Failed(_) => "failed",
        Process::Gone => "not running",
        Process::Unknown => "not finished",
    }
}

fn cards(body: &mut String, record: &Record) {
    let mut cards: Vec<(String, String)> = Vec::new();
    let percent = |evaluation: &Evaluation| format!("{:.2} %", evaluation.top1);
    if let Some(summary) = &record.summary {
        if let Some(chosen) = &summary.test.chosen {
            cards.push((percent(chosen), "test accuracy of the chosen weights".to_owned()));
            cards.push((format!("{:.2} %", chosen.top5), "top-5 accuracy on test".to_owned()));
        }
        if let Some(chosen) = &summary.validation.chosen {
            cards.push((percent(chosen), "validation accuracy".to_owned()));
        }
        cards.push((duration(summary.time.seconds), "of training".to_owned()));
    } else {
        if let Some(choice) = record.judged.iter().rev().find_map(|judged| judged.chosen) {
            let accuracy = format!("{:.2} %", 100.0 * choice.score.accuracy);
            cards.push((accuracy, format!("best on validation so far, cycle {}", choice.cycle)));
        }
        if let Some(last) = record.cycles.last() {
            cards.push((duration(last.time.elapsed), "of training so far".to_owned()));
        }
    }
    let speed = speed(record);
    if speed > 0.0 {
        let speed = thousands(speed.round() as u64);
        cards.push((speed, "images a second, all models, over the run".to_owned()));
    }
    if cards.is_empty() {
        return;
    }
    body.push_str("<div class=\"cards\">\n");
    for (index, (value, label)) in cards.iter().enumerate() {
        let first = if index == 0 { " first" } else { "" };
        let (value, label) = (escaped(value), escaped(label));
        let _ =
            writeln!(body, "<div class=\"card{first}\"><b>{value}</b><span>{label}</span></div>");
    }
    body.push_str("</div>\n");
}

/// Images that all models together trained on in a second, over the whole training.
fn speed(record: &Record) -> f64 {
    let times = record.cycles.iter().flat_map(|cycle| &cycle.models).map(|model| &model.time);
    let images: f64 = times.map(|time| time.images_per_second * (time.steps + time.data)).sum();
    let seconds = record.elapsed();
    if seconds > 0.0 { images / seconds } else { 0.0 }
}

fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

fn result_table(body: &mut String, record: &Record, summary: &Summary) {
    let row = |name: String, validation: Option<&Evaluation>, test: Option<&Evaluation>| {
        vec![
            name,
            percent(validation, |e| e.top1),
            percent(test, |e| e.top1),
            percent(test, |e| e.top5),
            test.map_or("–".to_owned(), |test| format!("{:.4}", test.loss)),
        ]
    };
    let (validation, test) = (&summary.validation, &summary.test);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (index, model) in test.inner.iter().enumerate() {
        let name = format!("model {index}, last weights");
        rows.push(row(name, validation.inner.get(index), Some(model)));
    }
    if validation.outer.is_some() {
        let name = format!("outer weights, cycle {}", summary.last_cycle);
        rows.push(row(name, validation.outer.as_ref(), test.outer.as_ref()));
    }
    if let Some(choice) = summary.chosen {
        let cycle = choice.cycle;
        let name = match (choice.model, choice.window) {
            (Some(model), _) => format!("model {model}, cycle {cycle}"),
            (None, Some(window)) => format!("{}, cycle {cycle}", full(record, window, cycle)),
            (None, None) => format!("weights of cycle {cycle}"),
        };
        let name = format!("{name} (chosen)");
        rows.push(row(name, validation.chosen.as_ref(), test.chosen.as_ref()));
    }
    let chosen = summary.chosen.and_then(|choice| choice.window);
    for window in summary.windows.iter().filter(|window| Some(window.window) != chosen) {
        let name = full(record, window.window, window.cycle);
        let name = format!("{name} alone, cycle {}", window.cycle);
        rows.push(row(name, Some(&window.validation), Some(&window.test)));
    }
    if let Some(best) = &summary.best_on_test {
        let name = format!("best on test, cycle {} (not a choice)", best.cycle);
        rows.push(row(name, None, Some(&best.evaluation)));
    }
    let head = ["", "validation, top-1 %", "test, top-1 %", "test, top-5 %", "test loss"];
    html::table(body, &head.map(str::to_owned), &rows);
}

/// A window, and how many cycles it holds where that is not its length.
fn full(record: &Record, window: usize, cycle: usize) -> String {
    let spec = record.started.windows.get(window);
    let length = spec.and_then(|spec| spec.length).map(|length| length.get());
    let members = spec.map(|spec| spec.num_members(cycle));
    match (length, members) {
        (Some(length), Some(members)) if members != length => {
            let name = if record.is_single() { "average" } else { "HWA" };
            format!("{name}, window {members} of {length}")
        }
        _ => window_name(record.is_single(), length),
    }
}

/// A cell of a table.
fn percent(evaluation: Option<&Evaluation>, of: fn(&Evaluation) -> f64) -> String {
    evaluation.map_or("–".to_owned(), |evaluation| format!("{:.2}", of(evaluation)))
}

fn several_runs(body: &mut String, records: &[Record]) {
    let lead = "Beside each other; test accuracy is that of the weights which validation chose.";
    html::head(body, &format!("{} runs", records.len()), lead);
    let row = |record: &Record| {
        let summary = record.summary.as_ref();
        let validation = summary.and_then(|s| s.validation.chosen.as_ref());
        let test = summary.and_then(|s| s.test.chosen.as_ref());
        let time = summary.map(|s| s.time.seconds);
        let time = time.or_else(|| record.cycles.last().map(|cycle| cycle.time.elapsed));
        let key = |path: &str| record.key(path).unwrap_or_else(|| "–".to_owned());
        let cycles = match summary {
            Some(_) => record.cycles.len().to_string(),
            None => {
                let (done, total) = (record.cycles.len(), record.started.num_cycles);
                format!("{done} of {total}, {}", state(record))
            }
        };
        vec![
            record.name.clone(),
            key("method"),
            key("seed"),
            cycles,
            percent(validation, |e| e.top1),
            percent(test, |e| e.top1),
            percent(test, |e| e.top5),
            time.map_or("–".to_owned(), duration),
        ]
    };
    let head = [
        "run",
        "method",
        "seed",
        "cycles",
        "validation, %",
        "test, top-1 %",
        "test, top-5 %",
        "training",
    ];
    let rows: Vec<Vec<String>> = records.iter().map(row).collect();
    html::table(body, &head.map(str::to_owned), &rows);
    over_seeds(body, records);
    what_differs(body, records);
}

/// Means over runs that differ by their seed alone, where there are some.
fn over_seeds(body: &mut String, records: &[Record]) {
    let groups = groups(records);
    if groups.iter().all(|(_, runs)| runs.len() < 2) {
        return;
    }
    let cell = |runs: &[&Record], of: &dyn Fn(&Summary) -> Option<f64>| {
        let summaries = runs.iter().filter_map(|run| run.summary.as_ref());
        let values: Vec<f64> = summaries.filter_map(of).collect();
        match Spread::of(&values) {
            Some(Spread { mean, std: Some(std), .. }) => format!("{mean:.2} ± {std:.2}"),
            Some(Spread { mean, .. }) => format!("{mean:.2}"),
            None => "–".to_owned(),
        }
    };
    let rows: Vec<Vec<String>> = groups
        .iter()
        .map(|(name, runs)| {
            let done = runs.iter().filter(|run| run.summary.is_some()).count();
            vec![
                name.clone(),
                done.to_string(),
                cell(runs, &|summary| Some(summary.validation.chosen?.top1)),
                cell(runs, &|summary| Some(summary.test.chosen?.top1)),
                cell(runs, &|summary| Some(summary.test.chosen?.top5)),
            ]
        })
        .collect();
    body.push_str("<h2>Over seeds</h2>\n");
    let head =
        ["mean ± standard deviation", "n", "validation, %", "test, top-1 %", "test, top-5 %"];
    html::table(body, &head.map(str::to_owned), &rows);
}

/// The keys in which the experiments differ.
fn what_differs(body: &mut String, records: &[Record]) {
    let groups = groups(records);
    let all: Vec<_> = groups.iter().map(|(_, runs)| settings_of(&runs[0].experiment)).collect();
    let differing = differences(&all);
    if differing.is_empty() {
        return;
    }
    body.push_str("<h2>What differs</h2>\n");
    let names = groups.iter().map(|(name, runs)| match runs.as_slice() {
        [one] => one.name.clone(),
        _ => name.clone(),
    });
    let head: Vec<String> = std::iter::once("key".to_owned()).chain(names).collect();
    let cell = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let rows: Vec<Vec<String>> = differing
        .into_iter()
        .map(|(key, values)| std::iter::once(key).chain(values.into_iter().map(cell)).collect())
        .collect();
    html::table(body, &head, &rows);
}

/// The experiment and what it ran on, folded away.
fn settings(body: &mut String, record: &Record, alone: bool) {
    if record.experiment.is_empty() {
        return;
    }
    let heading = match alone {
        true => "What was run".to_owned(),
        false => format!("What was run: {}", escaped(&record.name)),
    };
    if alone {
        let _ = writeln!(body, "<h2 class=\"run\">{heading}</h2>");
    }
    let summary = if alone { "the experiment, every key".to_owned() } else { heading };
    let (experiment, environment) = (escaped(&record.experiment), escaped(&record.environment));
    let _ = writeln!(
        body,
        "<details><summary>{summary}</summary>\n<pre>{experiment}</pre>\n\
         <pre>{environment}</pre>\n</details>"
    );
}

#[cfg(test)]
mod tests {
    use hwa_core::{Choice, Score, WindowSpec};
    use hwa_train::{BestOnTest, CycleEnded, CycleTime, ModelReport, ModelTime, WindowSummary};

    use super::*;

    #[test]
    fn the_speed_is_that_of_the_run_and_not_of_its_last_cycle() {
        let cycle = |elapsed, steps, images_per_second| {
            let time = ModelTime { steps, images_per_second, ..ModelTime::default() };
            let model = ModelReport { time, ..ModelReport::default() };
            let time = CycleTime { elapsed, ..CycleTime::default() };
            CycleEnded { models: vec![model.clone(), model], time, ..CycleEnded::default() }
        };
        // Two models, each 300 images in 3 seconds of steps and 100 in 2: 800 in 8 seconds in all.
        let cycles = vec![cycle(4.0, 3.0, 100.0), cycle(8.0, 2.0, 50.0)];
        assert_eq!(speed(&Record { cycles, ..Record::default() }), 100.0);
        assert_eq!(speed(&Record::default()), 0.0);
    }

    #[test]
    fn the_table_has_what_the_terminal_has() {
        let of = |top1| Evaluation { top1, loss: 0.00321, ..Evaluation::default() };
        let score = Score { accuracy: 0.9, loss: 0.1 };
        let mut record = Record::default();
        record.started.num_models = 2;
        record.started.windows =
            [3, 10].map(|length: usize| WindowSpec::sliding(length.try_into().unwrap())).to_vec();
        let (validation, test) = (of(90.0), of(88.0));
        let window =
            |window, cycle| WindowSummary { window, length: None, cycle, validation, test };
        let mut summary = Summary {
            chosen: Some(Choice { cycle: 4, window: Some(1), model: None, score }),
            windows: vec![window(0, 5), window(1, 4)],
            best_on_test: Some(BestOnTest { cycle: 7, evaluation: of(89.0), ..Default::default() }),
            ..Summary::default()
        };
        summary.test.chosen = Some(test);
        let mut body = String::new();
        result_table(&mut body, &record, &summary);
        for row in [
            "<td>HWA, window 4 of 10, cycle 4 (chosen)</td>",
            "<td>HWA, window 3 alone, cycle 5</td>",
            "<td>best on test, cycle 7 (not a choice)</td>",
            "<td>0.0032</td>",
        ] {
            assert!(body.contains(row), "{row}: {body}");
        }
        assert_eq!(body.matches("alone").count(), 1, "the chosen one is there once");
        summary.chosen = Some(Choice { cycle: 4, window: None, model: Some(1), score });
        result_table(&mut body, &record, &summary);
        assert!(body.contains("model 1, cycle 4 (chosen)"));
    }

    #[test]
    fn what_is_left_takes_as_long_as_what_was_done() {
        let time = CycleTime { elapsed: 30.0, ..CycleTime::default() };
        let cycles = vec![CycleEnded { cycle: 1, time, ..CycleEnded::default() }];
        let mut record = Record { cycles, process: Process::There, ..Record::default() };
        record.started.num_cycles = 4;
        // Three more of 30 seconds.
        assert_eq!(left(&record).as_deref(), Some("about 1 min 30 s of training left"));
        record.started.num_cycles = 1;
        assert_eq!(left(&record), None);
    }

    #[test]
    fn a_run_that_nobody_trains_is_not_under_way() {
        let mut record = Record { process: Process::There, ..Record::default() };
        let told = |record: &Record| {
            page(std::slice::from_ref(record), PageOptions::default()).unwrap().html
        };
        assert!(told(&record).contains("under way</span>: no cycle yet"));
        record.process = Process::Gone;
        assert!(told(&record).contains("not running</span>: no cycle yet; it has told nothing"));
        record.started.num_cycles = 3;
        record.heard = Some(0);
        let html = told(&record);
        assert!(html.contains("not running</span>: cycle 0 of 3; it ended without a result"));
        assert!(html.contains("last heard of 1970-01-01 00:00 UTC") && !html.contains("under way"));
        record.process = Process::Failed("loss <NaN>\nstart anew".to_owned());
        let failed = "failed</span>: cycle 0 of 3; loss &lt;NaN&gt;<br>start anew";
        assert!(told(&record).contains(failed));
        record.process = Process::Interrupted;
        assert!(told(&record).contains("interrupted</span>: cycle 0 of 3; <code>hwa train"));
        record.folder = "runs/a".to_owned();
        assert!(told(&record).contains("<code>hwa train --resume runs/a</code>"));
        let both = page(&[record.clone(), record], PageOptions::default()).unwrap().html;
        assert!(both.contains("0 of 3, interrupted"));
    }
}
