//! What can be written after `hwa search`, and what tells what an average is worth.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::average::{OrderBy, bytes};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hwa search runs/digits-hwa                     a run: its network, its data, its own splits
  hwa search runs/digits-hwa --max-evals 60 --max-time 10m
  hwa search runs/digits-hwa --resume            go on after Ctrl-C or a kill
  hwa search checkpoints/ --model resnet20 --data cifar100 --data-dir ~/data -o found
  hwa search checkpoints/ --eval 'python eval.py {weights}' --maximize -o found
  hwa search checkpoints/ --eval 'python loss.py {weights}' --minimize \\
      --test-eval 'python loss.py --test {weights}' --eval-timeout 10m -o found

A window is e, its newest checkpoint; I, its length; and s: of those it covers, the checkpoints
whose number is a multiple of s. Windows are spread over the series, and then the neighbours of
the best are tried. Networks of the zoo are scored by accuracy on validation images, with
batch-norm statistics re-estimated for each; a command by the number that it prints last.
Validation chooses; test is read once, for the found window and for the usual ones.

A command is split into words as a shell does, and run without one: {weights} is always one
word. For a shell: sh -c 'python eval.py \"$1\" | tail -1' sh {weights}

In the folder: winner.safetensors, scores.svg, scores.csv, result.json, journal.jsonl.")]
pub(crate) struct Search {
    /// A run, a folder of checkpoints, or checkpoints of safetensors or PyTorch
    #[arg(required = true, value_name = "RUN|DIR")]
    pub(crate) series: Vec<PathBuf>,
    /// The folder for what is found; by default search/ of the run, or here
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) scoring: Scoring,
    /// A command for the found window and the usual ones, run once, after the choice
    #[arg(long, value_name = "COMMAND", requires = "eval")]
    pub(crate) test_eval: Option<String>,
    /// Evaluations on validation, at most
    #[arg(long, default_value = "120", value_name = "COUNT")]
    pub(crate) max_evals: NonZeroUsize,
    /// Begin no evaluation after so much time of them, such as 90s, 10m or 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_time: Option<Duration>,
    /// Try only these strides: 1,2,5
    #[arg(long, value_delimiter = ',')]
    pub(crate) strides: Vec<NonZeroUsize>,
    /// Training images for statistics before the shortlist
    #[arg(long, default_value = "1280", value_name = "COUNT", conflicts_with = "eval")]
    pub(crate) screening_images: NonZeroUsize,
    /// Go on with the search that is in the folder
    #[arg(long, conflicts_with = "force")]
    pub(crate) resume: bool,
    /// What tells which checkpoint is older
    #[arg(long, value_enum, default_value = "name")]
    pub(crate) order: OrderBy,
    /// Where in training checkpoints of PyTorch the weights are, such as ema or ema.shadow; by
    /// default where they usually are
    #[arg(long, value_name = "NAME")]
    pub(crate) key: Option<String>,
    /// Leave out checkpoints that hold NaN or infinities; everything is read twice
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Memory for buffers and for prefix sums, which speed up screening if they fit
    #[arg(long, value_name = "BYTES", default_value = "1GB", value_parser = bytes)]
    pub(crate) max_memory: usize,
    /// Threads; by default one per core
    #[arg(long)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Overwrite what an earlier search has left in the folder
    #[arg(long)]
    pub(crate) force: bool,
    /// Plain lines instead of a progress bar
    #[arg(long)]
    pub(crate) plain: bool,
    /// End with one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// What tells what an average is worth.
#[derive(Debug, Default, Args)]
pub(crate) struct Scoring {
    /// The network, see `hwa models`; that of a run by default
    #[arg(long, requires = "data", conflicts_with = "eval")]
    pub(crate) model: Option<String>,
    /// The data set, see `hwa data list`; that of a run by default
    #[arg(long, requires = "model", conflicts_with = "eval")]
    pub(crate) data: Option<String>,
    /// Its folder; by default that of the run, or the cache folder
    #[arg(long, value_name = "DIR", conflicts_with = "eval")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Images per batch; by default as in training, or 128
    #[arg(long, conflicts_with = "eval")]
    pub(crate) batch: Option<NonZeroUsize>,
    /// A command that is given an average as {weights} and prints a number last
    #[arg(long, value_name = "COMMAND")]
    pub(crate) eval: Option<String>,
    /// High numbers of --eval are good
    #[arg(long, requires = "eval", conflicts_with = "minimize")]
    pub(crate) maximize: bool,
    /// Low numbers of --eval are good
    #[arg(long, requires = "eval")]
    pub(crate) minimize: bool,
    /// End a command that takes longer, with all that it has started
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    pub(crate) eval_timeout: Duration,
}

/// A time, such as 90, 90s, 1.5m or 2h.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 90s, 10m or 2h".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        let seconds = |text: &str| duration(text).unwrap().as_secs_f64();
        assert_eq!([seconds("90"), seconds("1.5s"), seconds("2m")], [90.0, 1.5, 120.0]);
        assert_eq!([seconds("0.5h"), seconds("1d"), seconds("3 min")], [1800.0, 86_400.0, 180.0]);
        for wrong in ["", "s", "-1s", "1e400", "5 weeks", "NaN"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
