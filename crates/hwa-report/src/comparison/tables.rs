//! A comparison as tables: for a terminal, as Markdown and as comma-separated values.

use std::fmt::Write as _;

use super::{Comparison, Group, Row, Spread};
use crate::chart::cell;
use crate::numbers::thousands;

/// A table with a heading.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What it shows.
    pub heading: String,
    /// Its rows, all of the same length; the first has the names of the columns.
    pub rows: Vec<Vec<String>>,
}

const NOTHING: &str = "–";
const EPOCHS: &str = "equal epochs of each model";
const GRADIENTS: &str = "equal gradients of all models";

impl Comparison {
    /// With several networks a table of methods by networks for each data set, and then one
    /// with everything for each network and budget.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        let all = self.rows_and_windows();
        for dataset in distinct(all.iter().map(|row| row.dataset.as_str())) {
            let rows: Vec<&Row> = all.iter().filter(|row| row.dataset == dataset).collect();
            let networks = distinct(rows.iter().map(|row| row.network.as_str()));
            if networks.len() > 1 {
                let per_model = |row: &Row| row.per_model.clone();
                tables.extend(overview(dataset, EPOCHS, &networks, &rows, &per_model));
                let total = |row: &Row| row.total.clone();
                tables.extend(overview(dataset, GRADIENTS, &networks, &rows, &total));
            }
            for network in networks {
                let rows: Vec<&Row> =
                    rows.iter().copied().filter(|row| row.network == network).collect();
                let heading = format!("{dataset}, {network}");
                let of = self.reference.as_deref();
                tables.extend(detailed(&heading, EPOCHS, &rows, of, |row| row.per_model.as_ref()));
                tables.extend(detailed(&heading, GRADIENTS, &rows, of, |row| row.total.as_ref()));
            }
        }
        tables
    }

    /// As a page in Markdown.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("# {}\n", self.title);
        for table in self.tables() {
            let _ = write!(text, "\n## {}\n\n", table.heading);
            for (index, row) in table.rows.iter().enumerate() {
                let cells: Vec<String> = row.iter().map(|cell| in_markdown(cell)).collect();
                let _ = writeln!(text, "| {} |", cells.join(" | "));
                if index == 0 {
                    let rule = std::iter::once("---").chain(row.iter().skip(1).map(|_| "--:"));
                    let _ = writeln!(text, "|{}|", rule.collect::<Vec<_>>().join("|"));
                }
            }
        }
        text.push('\n');
        for line in self.legend() {
            let _ = writeln!(text, "- {line}");
        }
        text
    }

    /// What explains the tables.
    pub fn legend(&self) -> Vec<String> {
        let mut lines = vec![
            "Accuracy on test of the weights that validation chose, in percent: the mean over n \
             seeds ± the standard deviation of one run."
                .to_owned(),
            "Gradients: of one batch each, of all models together. Core time: that of all cores \
             together, judging and the final pass included, per run. Memory: the most that a run \
             held."
                .to_owned(),
        ];
        if self.rows.iter().any(|row| row.total.is_some()) {
            lines.push(
                "Equal gradients: all models of a method together compute as many gradients as \
                 one model does in its whole budget; SAM takes two for a step."
                    .to_owned(),
            );
        }
        if let Some(reference) = &self.reference {
            lines.push(format!(
                "Over {reference}: the mean difference from the run of {reference} with the same \
                 seed, ± its standard error."
            ));
        }
        lines.extend(self.notes.iter().cloned());
        let groups = || {
            let groups = self
                .rows
                .iter()
                .flat_map(|row| [&row.per_model, &row.total].map(move |group| (row, group)));
            groups.filter_map(|(row, group)| Some((row, group.as_ref()?)))
        };
        let runs = || groups().flat_map(|(_, group)| &group.runs);
        if groups().any(|(_, group)| !group.diverged.is_empty()) {
            lines.push(
                "Diverged: losses or weights were not finite; the means are of the others."
                    .to_owned(),
            );
        }
        let lost = groups().flat_map(|(row, group)| {
            let lost = group.runs.iter().filter(|run| run.lost > 0);
            lost.map(|run| {
                let (method, seed, models) = (&row.method, run.seed, run.models);
                format!(
                    "{method}, seed {seed}: ended with {} of {models} models.",
                    models.saturating_sub(run.lost)
                )
            })
        });
        let lost: Vec<String> = lost.collect();
        lines.extend(distinct(lost.iter().map(String::as_str)).into_iter().map(str::to_owned));
        let machines = distinct(runs().flat_map(|run| run.machines.iter().map(String::as_str)));
        let commits = distinct(runs().flat_map(|run| run.commits.iter().map(String::as_str)));
        match machines.as_slice() {
            [] => {}
            [machine] => lines.push(format!("Machine: {machine}.")),
            several => {
                let several = several.join("; ");
                lines.push(format!(
                    "Machines: {several}. Core times of different ones cannot be compared."
                ));
            }
        }
        if !commits.is_empty() {
            lines.push(format!("Commit: {}.", commits.join(", ")));
        }
        lines
    }

    /// As comma-separated values: a line for each method and budget.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "dataset,network,method,budget,planned,n,top1_mean,top1_std,top5_mean,top5_std,\
             over_reference_mean,over_reference_error,over_reference_n,diverged,paper_top1,paper_top5,models,steps,gradients,core_seconds,seconds,peak_memory_mb\n",
        );
        let all = self.rows_and_windows();
        for row in &all {
            let of = all.iter().find(|of| {
                let is_other = of.method != row.method;
                let same = (&of.dataset, &of.network) == (&row.dataset, &row.network);
                is_other && same && Some(&of.method) == self.reference.as_ref()
            });
            let groups = [
                ("per-model", &row.per_model, of.map(|of| &of.per_model)),
                ("total", &row.total, of.map(|of| &of.total)),
            ];
            for (budget, group, of) in groups {
                let Some(group) = group else { continue };
                let over = of.and_then(|of| group.over(of.as_ref()?));
                let steps = group.steps.map(|steps| steps.mean);
                let models = group.runs.first().map(|run| run.models as f64);
                let cells = [
                    cell(&row.dataset),
                    cell(&row.network),
                    cell(&row.method),
                    budget.to_owned(),
                    group.planned.to_string(),
                    group.runs.len().to_string(),
                    number(group.top1.map(|s| s.mean)),
                    number(group.top1.and_then(|s| s.std)),
                    number(group.top5.map(|s| s.mean)),
                    number(group.top5.and_then(|s| s.std)),
                    number(over.map(|s| s.mean)),
                    number(over.and_then(|s| s.error())),
                    number(over.map(|s| s.n as f64)),
                    group.diverged.len().to_string(),
                    number(row.paper.top1.filter(|_| budget == "per-model")),
                    number(row.paper.top5.filter(|_| budget == "per-model")),
                    number(models),
                    number(steps),
                    number(steps.map(|steps| steps * row.gradients_per_step as f64)),
                    number(group.cpu.map(|s| s.mean)),
                    number(group.seconds.map(|s| s.mean)),
                    number(group.peak_memory_mb),
                ];
                let _ = writeln!(text, "{}", cells.join(","));
            }
        }
        text
    }

    /// The rows, each followed by those of its windows.
    fn rows_and_windows(&self) -> Vec<Row> {
        let with_windows = |row: &Row| [vec![row.clone()], row.by_window()].concat();
        self.rows.iter().flat_map(with_windows).collect()
    }
}

/// Each once, in the order of their first.
fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// Methods by networks under one budget; nothing, if nothing was asked for under it.
fn overview(
    dataset: &str,
    budget: &str,
    networks: &[&str],
    rows: &[&Row],
    group: &dyn Fn(&Row) -> Option<Group>,
) -> Option<Table> {
    if rows.iter().all(|row| group(row).is_none()) {
        return None;
    }
    let mut head = vec!["method".to_owned()];
    head.extend(networks.iter().map(|network| (*network).to_owned()));
    let mut table = vec![head];
    for method in distinct(rows.iter().map(|row| row.method.as_str())) {
        let mut cells = vec![method.to_owned()];
        for network in networks {
            let row = rows.iter().find(|row| row.method == method && row.network == *network);
            let group = row.and_then(|row| group(row));
            let mut cell = spread(group.as_ref().and_then(|group| group.top1));
            let partly = |g: &Group| {
                g.runs.len() < g.planned && !(g.runs.is_empty() && g.diverged.is_empty())
            };
            if let Some(group) = group.filter(partly) {
                let _ = write!(cell, ", {}", count(&group));
            }
            // The paper's are at equal epochs.
            if let Some(paper) = row.filter(|_| budget == EPOCHS).and_then(|row| row.paper.top1) {
                let _ = write!(cell, " (paper {paper:.2})");
            }
            cells.push(cell);
        }
        table.push(cells);
    }
    Some(Table { heading: format!("{dataset}: top-1 accuracy, {budget}"), rows: table })
}

/// The rows under one budget; nothing, if there are none.
fn detailed(
    heading: &str,
    budget: &str,
    rows: &[&Row],
    reference: Option<&str>,
    group: impl Fn(&Row) -> Option<&Group>,
) -> Option<Table> {
    let rows: Vec<(&Row, &Group)> =
        rows.iter().filter_map(|row| Some((*row, group(row)?))).collect();
    if rows.is_empty() {
        return None;
    }
    // The paper's are at equal epochs.
    let paper = |figure: fn(&Row) -> Option<f64>| {
        budget == EPOCHS && rows.iter().any(|(row, _)| figure(row).is_some())
    };
    let mut table = vec![vec!["method".to_owned()]];
    table.extend(rows.iter().map(|(row, _)| vec![row.method.clone()]));
    let mut column = |name: &str, cell: &dyn Fn(&Row, &Group) -> String| {
        table[0].push(name.to_owned());
        for (line, (row, group)) in table.iter_mut().skip(1).zip(&rows) {
            line.push(cell(row, group));
        }
    };
    column("top-1", &|_, group| spread(group.top1));
    if let Some((row, of)) = rows.iter().find(|(row, _)| Some(row.method.as_str()) == reference) {
        column(&format!("over {}", row.method), &|row, group| {
            let over = group.over(of).filter(|_| Some(row.method.as_str()) != reference);
            over.map_or(NOTHING.to_owned(), |over| difference(over, group.runs.len()))
        });
    }
    column("top-5", &|_, group| spread(group.top5));
    column("n", &|_, group| count(group));
    if paper(|row| row.paper.top1) {
        column("paper", &|row, _| two_digits(row.paper.top1));
    }
    if paper(|row| row.paper.top5) {
        column("paper, top-5", &|row, _| two_digits(row.paper.top5));
    }
    column("gradients", &|row, group| {
        let gradients = |steps: Spread| steps.mean * row.gradients_per_step as f64;
        group.steps.map_or(NOTHING.to_owned(), |steps| thousands(gradients(steps) as u64))
    });
    column("core time", &|_, group| group.cpu.map_or(NOTHING.to_owned(), |cpu| duration(cpu.mean)));
    column("memory", &|_, group| {
        group.peak_memory_mb.map_or(NOTHING.to_owned(), |peak| format!("{peak:.0} MB"))
    });
    Some(Table { heading: format!("{heading}: {budget}"), rows: table })
}

fn spread(spread: Option<Spread>) -> String {
    match spread {
        None => NOTHING.to_owned(),
        Some(Spread { mean, std: None, .. }) => format!("{mean:.2}"),
        Some(Spread { mean, std: Some(std), .. }) => format!("{mean:.2} ± {std:.2}"),
    }
}

/// A mean difference and its standard error, and how many of the runs have a partner if not all.
fn difference(over: Spread, runs: usize) -> String {
    // Never -0.00.
    let mean = (over.mean * 100.0).round() / 100.0 + 0.0;
    let mut text = format!("{mean:+.2}");
    if let Some(error) = over.error() {
        let _ = write!(text, " ± {error:.2}");
    }
    if over.n < runs {
        let _ = write!(text, " (n = {})", over.n);
    }
    text
}

fn count(group: &Group) -> String {
    let mut text = match group.runs.len() == group.planned {
        true => group.planned.to_string(),
        false => format!("{} of {}", group.runs.len(), group.planned),
    };
    if !group.diverged.is_empty() {
        let _ = write!(text, ", {} diverged", group.diverged.len());
    }
    text
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

fn two_digits(value: Option<f64>) -> String {
    value.map_or(NOTHING.to_owned(), |value| format!("{value:.2}"))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A text in which nothing means anything to Markdown.
fn in_markdown(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if matches!(letter, '|' | '`' | '*' | '_' | '<' | '[' | '\\') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
