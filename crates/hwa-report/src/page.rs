//! A page about a run, or about several: one file, nothing to load, by day and by night.

use std::fmt::Write as _;

use hwa_train::{Evaluation, Levels, Summary};

use crate::ReportError;
use crate::chart::Figure;
use crate::figures::{compared, window_name};
use crate::record::Record;
use crate::svg::{escaped, style_sheet};

const STYLE: &str = include_str!("page.css");
const LIVE: &str = include_str!("page.js");

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
        body.push_str("<h2>Figures</h2>\n<div class=\"figures\">\n");
        for figure in &figures {
            let svg = figure.inline()?;
            let (name, caption) = (escaped(&figure.name), escaped(&figure.caption));
            let files = match options.files {
                true => format!(" <a href=\"{name}.svg\">SVG</a> <a href=\"{name}.csv\">CSV</a>"),
                false => String::new(),
            };
            let _ = writeln!(
                body,
                "<figure id=\"{name}\">{svg}<figcaption>{caption}{files}</figcaption></figure>"
            );
        }
        body.push_str("</div>\n");
    }
    for record in records {
        settings(&mut body, record, records.len() == 1);
    }
    let script = match options.live {
        true => format!("<script>{LIVE}</script>\n"),
        false => String::new(),
    };
    let (title, colours) = (escaped(&title), style_sheet(".page"));
    let version = env!("CARGO_PKG_VERSION");
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{title} – hwa</title>\n<style>{colours}\n{STYLE}</style>\n</head>\n\
         <body class=\"page\">\n<main>\n{body}<footer>hwa {version}</footer>\n</main>\n\
         {script}</body>\n</html>\n"
    );
    Ok(Page { html, figures })
}

fn one_run(body: &mut String, record: &Record) {
    let _ = writeln!(body, "<h1>{}</h1>", escaped(&record.name));
    let _ = writeln!(body, "<p class=\"lead\">{}</p>", escaped(&lead(record)));
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
    let _ = writeln!(
        body,
        "<p><span class=\"live\">under way</span>: cycle {done} of {total}<br>\
         <progress value=\"{done}\" max=\"{total}\"></progress></p>"
    );
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
        cards.push((format!("{speed:.0}"), "images a second, all models".to_owned()));
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
    let cell = |evaluation: Option<&Evaluation>, of: fn(&Evaluation) -> f64| {
        evaluation.map_or("–".to_owned(), |evaluation| format!("{:.2}", of(evaluation)))
    };
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
    body.push_str(
        "<div class=\"scroll\"><table>\n<tr><th></th><th>validation, top-1 %</th>\
         <th>test, top-1 %</th><th>test, top-5 %</th><th>test loss</th></tr>\n",
    );
    for (number, model) in summary.test.inner.iter().enumerate() {
        let validation = summary.validation.inner.get(number);
        let _ = writeln!(
            body,
            "<tr><td>model {number}, last weights</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td></tr>",
            cell(validation, |e| e.top1),
            cell(Some(model), |e| e.top1),
            cell(Some(model), |e| e.top5),
            cell(Some(model), |e| e.loss),
        );
    }
    for (name, level) in rows {
        let (validation, test) = (level(&summary.validation), level(&summary.test));
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&name),
            cell(validation, |e| e.top1),
            cell(test, |e| e.top1),
            cell(test, |e| e.top5),
            cell(test, |e| e.loss),
        );
    }
    body.push_str("</table></div>\n");
}

fn several_runs(body: &mut String, records: &[Record]) {
    let _ = writeln!(body, "<h1>{} runs</h1>", records.len());
    body.push_str(
        "<p class=\"lead\">Beside each other; test accuracy is that of the weights which \
         validation chose.</p>\n<div class=\"scroll\"><table>\n<tr><th>run</th><th>method</th>\
         <th>seed</th><th>cycles</th><th>validation, %</th><th>test, top-1 %</th>\
         <th>test, top-5 %</th><th>training</th></tr>\n",
    );
    for record in records {
        let summary = record.summary.as_ref();
        let validation = summary.and_then(|s| s.validation.chosen);
        let test = summary.and_then(|s| s.test.chosen);
        let percent = |evaluation: Option<Evaluation>, of: fn(&Evaluation) -> f64| {
            evaluation.map_or("–".to_owned(), |e| format!("{:.2}", of(&e)))
        };
        let time = summary.map(|s| s.time.seconds);
        let time = time.or_else(|| record.cycles.last().map(|cycle| cycle.time.elapsed));
        let key = |path: &str| escaped(&record.key(path).unwrap_or_else(|| "–".to_owned()));
        let cycles = match summary {
            Some(_) => record.cycles.len().to_string(),
            None => format!("{} of {}", record.cycles.len(), record.started.num_cycles),
        };
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{cycles}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            escaped(&record.name),
            key("method"),
            key("seed"),
            percent(validation, |e| e.top1),
            percent(test, |e| e.top1),
            percent(test, |e| e.top5),
            time.map_or("–".to_owned(), duration),
        );
    }
    body.push_str("</table></div>\n");
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
        let _ = writeln!(body, "<h2>{heading}</h2>");
    }
    let summary = if alone { "the experiment, every key".to_owned() } else { heading };
    let (experiment, environment) = (escaped(&record.experiment), escaped(&record.environment));
    let _ = writeln!(
        body,
        "<details><summary>{summary}</summary>\n<pre>{experiment}</pre>\n\
         <pre>{environment}</pre>\n</details>"
    );
}
