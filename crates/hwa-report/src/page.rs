//! A page about a run, or about several: one file, nothing to load, by day and by night.

use std::fmt::Write as _;

use hwa_train::{Evaluation, Levels, Summary};

use crate::ReportError;
use crate::chart::Figure;
use crate::figures::{compared, window_name};
use crate::html;
use crate::numbers::{thousands, utc};
use crate::record::{Process, Record};
use crate::svg::escaped;

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
    Ok(Page { html, figures })
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
    if let Some(seed) = key("seed") {
        parts.push(format!("from seed {seed}"));
    }
    parts.join(" ")
}

fn progress(body: &mut String, record: &Record) {
    let (done, total) = (record.cycles.len(), record.started.num_cycles.max(1));
    let begun = record.started.num_cycles > 0;
    let how = if begun { format!("cycle {done} of {total}") } else { "no cycle yet".to_owned() };
    let again = "; <code>hwa train --resume</code> goes on";
    let after = match &record.process {
        Process::Failed(reason) => format!("; {}", escaped(reason)),
        Process::Interrupted => again.to_owned(),
        Process::Gone if begun => format!("; it ended without a result{again}"),
        Process::Gone => "; it has told nothing, and no process is at it".to_owned(),
        Process::There | Process::Unknown => String::new(),
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
            cards.push((format!("{:.2} %", chosen.top5), "of them top-5".to_owned()));
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
    let models = record.cycles.last().map(|cycle| &cycle.models);
    let speed: f64 = models.into_iter().flatten().map(|m| m.time.images_per_second).sum();
    if speed > 0.0 {
        let speed = thousands(speed.round() as u64);
        cards.push((speed, "images a second, all models".to_owned()));
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

fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

fn result_table(body: &mut String, record: &Record, summary: &Summary) {
    type Level = fn(&Levels) -> Option<&Evaluation>;
    let single = record.is_single();
    let mut rows: Vec<(String, Level)> = Vec::new();
    if summary.validation.outer.is_some() {
        rows.push((format!("outer weights, cycle {}", summary.last_cycle), |l| l.outer.as_ref()));
    }
    if let Some(choice) = summary.chosen {
        let name = match (choice.model, choice.window) {
            (Some(model), _) => format!("model {model}, cycle {}", choice.cycle),
            (None, Some(_)) => {
                let name = window_name(single, summary.chosen_length);
                format!("{name}, cycle {} (chosen)", choice.cycle)
            }
            (None, None) => format!("weights of cycle {} (chosen)", choice.cycle),
        };
        rows.push((name, |l| l.chosen.as_ref()));
    }
    let row = |name: String, validation: Option<&Evaluation>, test: Option<&Evaluation>| {
        let numbers = [
            number(validation, |e| e.top1),
            number(test, |e| e.top1),
            number(test, |e| e.top5),
            number(test, |e| e.loss),
        ];
        std::iter::once(name).chain(numbers).collect()
    };
    let models = summary.test.inner.iter().enumerate().map(|(index, model)| {
        let name = format!("model {index}, last weights");
        row(name, summary.validation.inner.get(index), Some(model))
    });
    let levels = rows.into_iter();
    let levels = levels.map(|(name, of)| row(name, of(&summary.validation), of(&summary.test)));
    let rows: Vec<Vec<String>> = models.chain(levels).collect();
    let head = ["", "validation, top-1 %", "test, top-1 %", "test, top-5 %", "test loss"];
    html::table(body, &head.map(str::to_owned), &rows);
}

/// A cell of a table.
fn number(evaluation: Option<&Evaluation>, of: fn(&Evaluation) -> f64) -> String {
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
            number(validation, |e| e.top1),
            number(test, |e| e.top1),
            number(test, |e| e.top5),
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
    use super::*;

    #[test]
    fn a_run_that_nobody_trains_is_not_under_way() {
        let mut record = Record { process: Process::There, ..Record::default() };
        let told = |record: &Record| page(&[record.clone()], PageOptions::default()).unwrap().html;
        assert!(told(&record).contains("under way</span>: no cycle yet"));
        record.process = Process::Gone;
        assert!(told(&record).contains("not running</span>: no cycle yet; it has told nothing"));
        record.started.num_cycles = 3;
        record.heard = Some(0);
        let html = told(&record);
        assert!(html.contains("not running</span>: cycle 0 of 3; it ended without a result"));
        assert!(html.contains("last heard of 1970-01-01 00:00 UTC") && !html.contains("under way"));
        record.process = Process::Failed("loss <NaN>".to_owned());
        assert!(told(&record).contains("failed</span>: cycle 0 of 3; loss &lt;NaN&gt;"));
        record.process = Process::Interrupted;
        assert!(told(&record).contains("interrupted</span>: cycle 0 of 3; <code>hwa train"));
        let both = page(&[record.clone(), record], PageOptions::default()).unwrap().html;
        assert!(both.contains("0 of 3, interrupted"));
    }
}
