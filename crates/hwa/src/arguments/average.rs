//! What can be written after `hwa average` and `hwa bench average`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hwa_core::ValueType;
use hwa_store::Order;

use super::search::Scoring;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hwa average checkpoints/ -o mean.safetensors              all of a folder
  hwa average epoch-*.pt -o mean.safetensors                PyTorch's files; nothing in them is run
  hwa average epoch-*.pt --key ema -o mean.safetensors      of each, the weights under that key
  hwa average checkpoint-*/ -o mean.safetensors             model folders, in one file or several
  hwa average runs/digits-hwa --window 20 -o hwa.safetensors      the last 20 cycles of a run
  hwa average runs/digits-hwa --window 20 --stride 2 --at 60 -o hwa.safetensors
  hwa average checkpoints/ --window 10 --all-windows -o windows/
  hwa average a.pt b.pt c.pt --weights 0.2,0.3,0.5 -o mix.safetensors
  hwa average checkpoints/ --ema 0.9 --dtype bf16 -o ema.safetensors
  hwa average tuned-*.pt --soup --eval 'python eval.py {weights}' --maximize -o soup.safetensors
  hwa average runs/digits-hwa --soup -o soup.safetensors        the run's network and data

A window takes the checkpoints whose number is a multiple of the stride, from --at back. Numbers
are cycles of a run, and places in the order of any other series, from 1 on. Sums run in f64,
oldest first, and are rounded once. Integers are taken from the newest. Batch-norm statistics
are averaged like all else, which is not what they should be: `hwa recalibrate`, or PyTorch's
`update_bn`, re-estimates them.")]
pub(crate) struct Average {
    /// Checkpoints of safetensors or PyTorch, model folders, or one folder of them, or a run
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) series: Vec<PathBuf>,
    /// The file to write, of safetensors; with --all-windows a folder
    #[arg(short, long)]
    pub(crate) out: PathBuf,
    /// Average the last so many checkpoints; by default all
    #[arg(long, value_name = "LENGTH")]
    pub(crate) window: Option<NonZeroUsize>,
    /// Of these, every so many
    #[arg(long)]
    pub(crate) stride: Option<NonZeroUsize>,
    /// The number of the newest checkpoint to take; by default the last
    #[arg(long, value_name = "NUMBER", conflicts_with = "all_windows")]
    pub(crate) at: Option<usize>,
    /// Write the window at every checkpoint, to window-<number>.safetensors
    #[arg(long)]
    pub(crate) all_windows: bool,
    /// Weights of the checkpoints in their order, of several files as they are named: 0.2,0.3,0.5.
    /// Their sum is divided by
    #[arg(
        long, value_name = "WEIGHTS", value_delimiter = ',', allow_hyphen_values = true,
        conflicts_with_all = ["ema", "all_windows"]
    )]
    pub(crate) weights: Vec<f64>,
    /// A moving average that keeps so much of what was, from 0 to below 1
    #[arg(long, value_name = "DECAY", allow_negative_numbers = true)]
    pub(crate) ema: Option<f64>,
    /// A greedy soup: from the best checkpoint on, keep each with which the average scores no worse
    #[arg(
        long, conflicts_with_all = ["window", "stride", "at", "all_windows", "weights", "ema"]
    )]
    pub(crate) soup: bool,
    #[command(flatten)]
    pub(crate) scoring: Scoring,
    /// The type of the result; by default that of the checkpoints
    #[arg(long, value_enum)]
    pub(crate) dtype: Option<FloatType>,
    /// What tells which checkpoint is older; by default name, and given if --weights has several
    /// files
    #[arg(long, value_enum)]
    pub(crate) order: Option<OrderBy>,
    /// Where in training checkpoints of PyTorch the weights are, such as ema or ema.shadow; by
    /// default where they usually are
    #[arg(long, value_name = "NAME")]
    pub(crate) key: Option<String>,
    /// Leave out checkpoints that hold NaN or infinities, with their --weights; everything is read
    /// twice
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Average NaN and infinities like all numbers
    #[arg(long, conflicts_with = "skip_bad")]
    pub(crate) allow_non_finite: bool,
    /// Memory for buffers, such as 64MB; more is rarely faster
    #[arg(long, value_name = "BYTES", default_value = "256MB", value_parser = bytes)]
    pub(crate) max_memory: usize,
    /// Threads; by default one per core. They change no bit
    #[arg(long)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Overwrite what exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON: out, members, statistics, left_out, seconds, and more
    #[arg(long)]
    pub(crate) json: bool,
}

impl Average {
    /// The order that is asked for. Weights belong to files as they are named.
    pub(crate) fn order(&self) -> OrderBy {
        let by_place = !self.weights.is_empty() && self.series.len() > 1;
        self.order.unwrap_or(if by_place { OrderBy::Given } else { OrderBy::Name })
    }
}

/// What tells which checkpoint is older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderBy {
    /// Their names, with numbers compared as numbers
    Name,
    /// When they were last written
    Mtime,
    /// The training step in the file, or else in its name
    Step,
    /// They are named in order
    Given,
}

impl From<OrderBy> for Order {
    fn from(order: OrderBy) -> Self {
        match order {
            OrderBy::Name => Self::Name,
            OrderBy::Mtime => Self::Time,
            OrderBy::Step => Self::Step,
            OrderBy::Given => Self::Given,
        }
    }
}

/// A type of floating-point numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FloatType {
    /// Double precision
    F64,
    /// Single precision
    F32,
    /// Half precision
    F16,
    /// bfloat16
    Bf16,
}

impl From<FloatType> for ValueType {
    fn from(float: FloatType) -> Self {
        match float {
            FloatType::F64 => Self::F64,
            FloatType::F32 => Self::F32,
            FloatType::F16 => Self::F16,
            FloatType::Bf16 => Self::BF16,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hwa bench average --json                    20 made-up checkpoints of a ResNet-50: 2 GB
  hwa bench average checkpoints/ --window 10

The files are in the page cache after a first round that does not count. In each round they are
read as they are, opened, averaged and written (not flushed to the disk), and opened and averaged
over every window without writing. Medians count.")]
pub(crate) struct BenchAverage {
    /// A folder of checkpoints; by default made-up ones, in the folder for temporary files
    pub(crate) series: Option<PathBuf>,
    /// How many to make up
    #[arg(long, default_value = "20", conflicts_with = "series")]
    pub(crate) count: NonZeroUsize,
    /// Of which network
    #[arg(long, default_value = "resnet50", conflicts_with = "series")]
    pub(crate) model: String,
    /// The length of the windows; by default that of the series
    #[arg(long, value_name = "LENGTH")]
    pub(crate) window: Option<NonZeroUsize>,
    /// Rounds
    #[arg(long, default_value = "5")]
    pub(crate) rounds: NonZeroUsize,
    /// Memory for buffers
    #[arg(long, value_name = "BYTES", default_value = "256MB", value_parser = bytes)]
    pub(crate) max_memory: usize,
    /// Threads; by default one per core
    #[arg(long)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Print JSON: seconds, gb_per_second, read_gb_per_second, ratio, windows_seconds, and more
    #[arg(long)]
    pub(crate) json: bool,
}

/// A number of bytes, such as 1000, 64MB or 1.5GiB.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_lowercase();
    let unit = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1_048_576.0,
        "gib" => 1_073_741_824.0,
        _ => return Err(format!("{unit:?} is no unit; expected kB, MB, GB, KiB, MiB or GiB")),
    };
    let number: f64 = digits.trim().parse().map_err(|_| "expected a number such as 64MB")?;
    match (number * unit).is_finite() && number >= 0.0 {
        true => Ok((number * unit) as usize),
        false => Err("expected a number such as 64MB".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_their_units() {
        let read = |text: &str| bytes(text).unwrap();
        assert_eq!(
            [read("1000"), read("64MB"), read("1.5 GiB")],
            [1000, 64_000_000, 1_610_612_736]
        );
        assert_eq!([read("2k"), read("2KiB"), read("0")], [2000, 2048, 0]);
        for wrong in ["", "MB", "3 parsecs", "-1", "1e400"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
