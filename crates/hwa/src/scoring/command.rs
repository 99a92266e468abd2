//! What a command says that an average is worth: the number that it prints last.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use hwa_store::{Averaging, Window};
use serde_json::{Map, Value};

use super::process::{self, Ended};
use super::words::CommandLine;
use super::{AVERAGED, Goal, Look, Measured, Scorer, Subject};
use crate::arguments::Scoring;
use crate::failure::Failure;
use crate::output::tell;

/// The lines of a message that are shown, from its end.
const LINES: usize = 8;

/// Runs a command on the file of each average.
pub(super) struct CommandScorer<'a> {
    averaging: &'a Averaging<'a>,
    goal: Goal,
    text: &'a str,
    eval: CommandLine,
    test: Option<CommandLine>,
    test_text: Option<&'a str>,
    patience: Duration,
    /// The average that is being looked at.
    candidate: PathBuf,
    /// Whether this process has written it: another one may be at work there.
    is_written: bool,
    /// Files that the command names and changes.
    changing: BTreeSet<String>,
    cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl<'a> CommandScorer<'a> {
    pub(super) fn new(how: &'a Scoring, subject: Subject<'a>) -> Result<Self, Failure> {
        let text = how.eval.as_deref().unwrap_or_default();
        let parsed = |option: &'static str, text: &str| {
            let wrong = |reason| Failure::usage(format!("{option} {text:?}: {reason}"));
            CommandLine::parse(text).map_err(wrong)
        };
        let goal = match (how.maximize, how.minimize) {
            (true, _) => Goal::High,
            (_, true) => Goal::Low,
            _ => {
                return Err(Failure::usage(
                    "--eval needs --maximize or --minimize: whether high or low numbers are good",
                ));
            }
        };
        let candidate = &subject.candidate;
        let candidate = std::path::absolute(candidate).unwrap_or_else(|_| candidate.clone());
        Ok(Self {
            averaging: subject.averaging,
            goal,
            text,
            eval: parsed("--eval", text)?,
            test: subject.test_eval.map(|text| parsed("--test-eval", text)).transpose()?,
            test_text: subject.test_eval,
            patience: how.eval_timeout,
            candidate,
            is_written: false,
            changing: BTreeSet::new(),
            cancelled: subject.cancelled,
        })
    }

    /// Says once what the command has to do.
    fn begin(&mut self) {
        if !self.is_written && self.statistics() == AVERAGED {
            tell(
                "averages are given to the command with averaged batch-norm statistics, which fit \
                 no weights: re-estimate them there (`update_bn` in PyTorch), or all but single \
                 checkpoints score too low",
            );
        }
        self.is_written = true;
    }

    fn command(&self, look: Look) -> &CommandLine {
        match (look, &self.test) {
            (Look::Test, Some(test)) => test,
            _ => &self.eval,
        }
    }

    /// The number for the file that is there.
    fn number(&self, command: &CommandLine) -> Result<f64, Failure> {
        let words = command.words_for(self.candidate.as_os_str());
        let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let shown = shown.join(" ");
        let failed = |reason: String| Failure::Run(anyhow::anyhow!("`{shown}` {reason}"));
        let ended = process::run(&words, self.patience, self.cancelled)
            .map_err(|error| failed(format!("cannot be run: {error}")))?;
        match ended {
            Ended::Cancelled => {
                Err(Failure::Cancelled { advice: "nothing was written".to_owned() })
            }
            Ended::TimedOut { stderr } => {
                let seconds = self.patience.as_secs_f64();
                let limit = format!("took longer than {seconds} s (--eval-timeout) and was ended");
                Err(failed(format!("{limit}{}", said(&stderr))))
            }
            Ended::Exited { status, stderr, .. } if !status.success() => {
                Err(failed(format!("{}{}", how_it_ended(status), said(&stderr))))
            }
            Ended::Exited { stdout, stderr, .. } => {
                last_number(&stdout).map_err(|reason| failed(format!("{reason}{}", said(&stderr))))
            }
        }
    }
}

impl Scorer for CommandScorer<'_> {
    fn goal(&self) -> Goal {
        self.goal
    }

    fn unit(&self) -> &'static str {
        "score"
    }

    fn screens(&self) -> bool {
        false
    }

    fn tests(&self) -> Result<String, String> {
        let missing = || "no --test-eval was given".to_owned();
        self.test_text.map(str::to_owned).ok_or_else(missing)
    }

    fn statistics(&self) -> &'static str {
        if self.averaging.series.has_statistics() { AVERAGED } else { "none" }
    }

    fn identity(&self) -> Map<String, Value> {
        Map::from_iter([
            ("eval".to_owned(), self.text.into()),
            ("goal".to_owned(), self.goal.word().into()),
        ])
    }

    fn version(&self, look: Look) -> Vec<String> {
        let files = self.command(look).files().into_iter();
        files.filter(|(path, _)| !self.changing.contains(path)).map(|(_, of)| of).collect()
    }

    fn measure(&mut self, window: &Window, look: Look) -> Result<Measured, Failure> {
        self.begin();
        self.averaging.write_unflushed(window, &self.candidate)?;
        let before = self.command(look).files();
        let score = self.number(self.command(look))?;
        let after = self.command(look).files();
        // A log that it writes, say.
        let changed = before.into_iter().filter(|(path, of)| after.get(path) != Some(of));
        self.changing.extend(changed.map(|(path, _)| path));
        if !score.is_finite() {
            let last = window.at();
            let count = window.members().len();
            tell(format_args!("{score} for the average of {count} up to {last}: it cannot win"));
        }
        Ok(Measured { score, loss: None, images: None })
    }

    fn save(&mut self, window: &Window, path: &Path) -> Result<(), Failure> {
        Ok(self.averaging.write(window, path)?)
    }
}

impl Drop for CommandScorer<'_> {
    fn drop(&mut self) {
        if self.is_written {
            let _ = fs::remove_file(&self.candidate);
        }
    }
}

/// The last word of the last line that is not empty; a percent sign may follow it.
fn last_number(stdout: &str) -> Result<f64, String> {
    let line = stdout.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let Some(line) = line else { return Err("printed nothing, expected a number".to_owned()) };
    let before = line.trim_end_matches(|c: char| c == '%' || c.is_whitespace());
    let number = before.split_whitespace().next_back().unwrap_or(before).parse();
    number.map_err(|_| format!("printed no number last: its last line is {line:?}"))
}

fn how_it_ended(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => format!("was ended: {status}"),
    }
}

/// The last lines of what it told.
fn said(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    match &lines[lines.len().saturating_sub(LINES)..] {
        [] => "; it said nothing on standard error".to_owned(),
        last => format!("; it said:\n  {}", last.join("\n  ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_what_is_printed_last() {
        for (text, number) in [
            ("0.5\n", 0.5),
            ("epoch 3\naccuracy: 93.25 %x 71.5%\n\n", 71.5),
            ("accuracy: 73.12 %", 73.12),
            ("-1e-3", -1e-3),
        ] {
            assert_eq!(last_number(text), Ok(number));
        }
        assert!(last_number("nan\n").unwrap().is_nan());
        assert!(last_number("loss 3\ndone\n").unwrap_err().contains("last line is \"done\""));
        assert!(last_number("%\n").unwrap_err().contains("last line is \"%\""));
        assert!(last_number("\n \n").unwrap_err().contains("printed nothing"));
    }

    #[test]
    fn of_a_long_message_the_end_is_shown() {
        let long: String = (1..=20).map(|i| format!("line {i}\n")).collect();
        let said = said(&long);
        assert!(said.contains("line 13\n") && !said.contains("line 12\n") && said.ends_with("20"));
    }
}
