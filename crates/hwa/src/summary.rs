//! The end of a run: its figures as a table, and as JSON.

use std::path::Path;

use hwa_core::{Choice, WindowSpec};
use hwa_train::{Experiment, Levels, Summary};
use serde_json::{Value, json};

use crate::console::{counted, percent};
use crate::table::aligned;

/// What a person reads: a table, what was chosen, what it took, where it is.
pub(crate) fn describe(
    run: &Path,
    summary: &Summary,
    windows: &[WindowSpec],
    (offers, curves): (&str, &str),
) -> String {
    let models = summary.test.inner.len();
    format!(
        "\n{}\n{}\n{}\n{curves}{}\nrun:     {}\nweights: {}\nreport:  {}\n",
        aligned(&rows(summary, windows, offers)),
        footnote(models, summary.chosen.is_some_and(|choice| choice.model.is_some())),
        choice(summary),
        times(summary, models),
        run.display(),
        run.join("best.safetensors").display(),
        run.join("report/index.html").display(),
    )
}

fn rows(summary: &Summary, windows: &[WindowSpec], offers: &str) -> Vec<Vec<String>> {
    let last = summary.last_cycle;
    let models = summary.test.inner.len();
    let row = |name: String, cell: &dyn Fn(&Levels) -> String| {
        vec![name, cell(&summary.validation), cell(&summary.test)]
    };
    let mut rows = vec![vec![String::new(), "validation".to_owned(), "test".to_owned()]];
    if models > 0 {
        let name = match models {
            1 => "last weights, running statistics".to_owned(),
            _ => format!("inner (mean of {models}), cycle {last}"),
        };
        let mean =
            |l: &Levels| l.inner_top1().map_or("–".to_owned(), |top1| format!("{top1:.2} %"));
        rows.push(row(name, &mean));
    }
    if summary.validation.outer.is_some() {
        rows.push(row(format!("outer, cycle {last}"), &|l| percent(l.outer.as_ref())));
    }
    if let Some(choice) = summary.chosen {
        let name = chosen_name(summary, &choice, windows, offers);
        rows.push(row(name, &|l| percent(l.chosen.as_ref())));
    }
    for window in &summary.windows {
        if summary.chosen.is_some_and(|choice| choice.window == Some(window.window)) {
            continue;
        }
        let length = window.length.map_or("of all".to_owned(), |length| length.to_string());
        let name = format!("window {length} alone, cycle {}", window.cycle);
        rows.push(vec![name, percent(Some(&window.validation)), percent(Some(&window.test))]);
    }
    if let Some(best) = &summary.best_on_test {
        let name = format!("best on test, cycle {} (not a choice)", best.cycle);
        rows.push(vec![name, "–".to_owned(), percent(Some(&best.evaluation))]);
    }
    rows
}

/// The chosen weights by what they are.
fn chosen_name(summary: &Summary, choice: &Choice, windows: &[WindowSpec], offers: &str) -> String {
    let (models, cycle) = (summary.test.inner.len(), choice.cycle);
    if let Some(model) = choice.model {
        return format!("model {model}, cycle {cycle}");
    }
    let Some(window) = choice.window else {
        return match models {
            1 if offers != "model" => format!("{offers}, cycle {cycle}"),
            1 if cycle == summary.last_cycle => "last weights, re-estimated statistics".to_owned(),
            1 => format!("weights of cycle {cycle}, re-estimated statistics"),
            _ => format!("chosen outer, cycle {cycle}"),
        };
    };
    let Some(length) = summary.chosen_length else {
        return format!("average of all samples, cycle {cycle}");
    };
    let level = if models > 1 { "HWA" } else { "average" };
    let members = windows.get(window).map_or(length, |spec| spec.num_members(cycle));
    match members == length {
        true => format!("{level}, cycle {cycle} (window {length})"),
        false => format!("{level}, cycle {cycle} (window {members} of {length})"),
    }
}

fn footnote(models: usize, of_models: bool) -> &'static str {
    match models {
        _ if of_models => "models are judged with the running statistics of training",
        1 => {
            "running statistics: of batch norm, as training left them;\n\
             all other weights are judged with statistics re-estimated on training images"
        }
        _ => {
            "inner weights are judged with the running statistics of training,\n\
             the others with statistics re-estimated on training images"
        }
    }
}

fn choice(summary: &Summary) -> String {
    let last = summary.last_cycle;
    match summary.chosen {
        Some(choice) => format!("validation chose cycle {} of {last}", choice.cycle),
        None => "nothing was chosen".to_owned(),
    }
}

fn times(summary: &Summary, models: usize) -> String {
    let (seconds, judge) = (summary.time.seconds, summary.time.judge);
    let work = seconds * models.max(1) as f64;
    let share = 100.0 * judge / work.max(1e-9);
    let of = match models {
        0 | 1 => "of that".to_owned(),
        _ => format!("of {} times that", models),
    };
    format!(
        "{seconds:.1} s of training by {}; {judge:.1} s of judging beside it ({share:.0} % {of})",
        counted(models as u64, "model")
    )
}

/// What a program reads. Its fields stay as they are.
pub(crate) fn json_summary(
    run: &Path,
    experiment: &Experiment,
    summary: &Summary,
    unreadable: usize,
) -> Value {
    let levels = |levels: &Levels| {
        json!({
            "inner": levels.inner_top1(),
            "outer": levels.outer.map(|e| e.top1),
            "hwa": levels.hwa.map(|e| e.top1),
            "chosen": levels.chosen.map(|e| e.top1),
        })
    };
    json!({
        "run": run.display().to_string(),
        "method": experiment.method.name(),
        "seed": experiment.seed,
        "seconds": summary.time.seconds,
        "chosen_cycle": summary.chosen.map(|c| c.cycle),
        "validation": levels(&summary.validation),
        "test": levels(&summary.test),
        "best_on_test": summary.best_on_test.as_ref().map(|b| b.evaluation.top1),
        "unreadable_images": unreadable,
    })
}

#[cfg(test)]
mod tests {
    use hwa_core::Score;
    use hwa_train::Evaluation;

    use super::*;

    fn summary(models: usize, window: Option<usize>, length: Option<usize>) -> Summary {
        let evaluation = Evaluation { top1: 97.5, ..Evaluation::default() };
        let levels = Levels {
            inner: vec![evaluation; models],
            outer: (models > 1).then_some(evaluation),
            hwa: window.map(|_| evaluation),
            chosen: Some(evaluation),
        };
        let score = Score { accuracy: 0.975, loss: 0.1 };
        Summary {
            last_cycle: 3,
            chosen: Some(Choice { cycle: 3, window, model: None, score }),
            chosen_length: length,
            validation: levels.clone(),
            test: levels,
            ..Summary::default()
        }
    }

    fn names(summary: &Summary, windows: &[WindowSpec]) -> Vec<String> {
        rows(summary, windows, "model").iter().skip(1).map(|row| row[0].clone()).collect()
    }

    #[test]
    fn rows_are_named_by_what_they_are_and_none_is_empty() {
        let sgd = summary(1, None, None);
        let both = ["last weights, running statistics", "last weights, re-estimated statistics"];
        assert_eq!(names(&sgd, &[]), both);
        assert_eq!(rows(&sgd, &[], "slow weights")[2][0], "slow weights, cycle 3");
        let swa = names(&summary(1, Some(0), None), &[WindowSpec::everything_from(2)]);
        assert_eq!(swa[1], "average of all samples, cycle 3");
        let online = names(&summary(2, None, None), &[]);
        assert_eq!(
            online,
            ["inner (mean of 2), cycle 3", "outer, cycle 3", "chosen outer, cycle 3"]
        );
        for line in describe(Path::new("run"), &sgd, &[], ("model", "")).lines() {
            assert!(line.chars().count() < 80 && !line.contains('–'), "{line}");
        }
    }

    #[test]
    fn a_window_that_is_not_full_says_how_many_it_holds() {
        let long = WindowSpec::sliding(500.try_into().unwrap());
        let hwa = names(&summary(2, Some(0), Some(500)), &[long]);
        assert_eq!(hwa[2], "HWA, cycle 3 (window 3 of 500)");
        let full = WindowSpec::sliding(2.try_into().unwrap());
        assert_eq!(names(&summary(2, Some(0), Some(2)), &[full])[2], "HWA, cycle 3 (window 2)");
    }
}
