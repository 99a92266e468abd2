//! What can be written after the commands that look into weights.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};

use super::Split;
use crate::shelf::{NAMES, Name};

/// Points along a side of a landscape, if nothing else is said.
const SIZE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(24);
/// And at most.
const MOST: usize = 2000;
/// Images of each split that a point is evaluated on.
const IMAGES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2559);
/// Where a line begins, where it ends, and its points.
const FROM: f64 = -1.0;
const TO: f64 = 2.0;
const POINTS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(60);
/// How far random directions reach.
const REACH: f64 = 1.0;
/// What chooses directions.
const SEED: u64 = 1;

/// So many points along a side as make a line, and as a machine can keep.
fn points(text: &str) -> Result<NonZeroUsize, String> {
    let found = text.parse().ok().filter(|count: &NonZeroUsize| (2..=MOST).contains(&count.get()));
    found.ok_or_else(|| format!("expected a number from 2 to {MOST}"))
}

/// A network and a data set, with the weights of a run or of files.
#[derive(Debug, Default, Args)]
pub(crate) struct StudyOf {
    /// A run: its network, its data set with its splits, and its weights
    #[arg(long, value_name = "DIR", conflicts_with_all = ["model", "data"])]
    pub(crate) run: Option<PathBuf>,
    /// The network, see `hwa models`; weights are files then
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The data set, see `hwa data list`
    #[arg(long)]
    pub(crate) data: Option<String>,
    /// Its folder; by default that of the run, or the cache folder
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Images per batch; by default as in training, or 128
    #[arg(long)]
    pub(crate) batch: Option<NonZeroUsize>,
    /// Threads; by default one per core
    #[arg(long)]
    pub(crate) threads: Option<NonZeroUsize>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LandscapeCommand {
    /// The line through two sets of weights
    Line(LandscapeLine),
    /// The plane through three sets of weights
    Plane(LandscapePlane),
    /// Two random directions, filter by filter as long as the weights
    Random(LandscapeRandom),
    /// The plane in which a run has moved most
    Pca(LandscapePca),
}

impl LandscapeCommand {
    /// Where it is not as usual: words for each setting that decides what is measured.
    pub(crate) fn settings(&self) -> Vec<String> {
        let mut settings = Vec::new();
        let mut add = |name: &str, value: &dyn ToString, usual: &dyn ToString| {
            if value.to_string() != usual.to_string() {
                settings.push(format!("{name}{}", value.to_string()));
            }
        };
        match self {
            Self::Line(line) => {
                add("from", &line.from, &FROM);
                add("to", &line.to, &TO);
                add("points", &line.points, &POINTS);
            }
            Self::Plane(plane) => {
                add("size", &plane.size, &SIZE);
                add("seed", &plane.seed, &SEED);
            }
            Self::Random(random) => {
                add("reach", &random.reach, &REACH);
                add("size", &random.size, &SIZE);
                add("seed", &random.seed, &SEED);
            }
            Self::Pca(pca) => add("size", &pca.size, &SIZE),
        }
        let options = self.options();
        add("images", &options.images, &IMAGES);
        settings.extend(options.split.iter().map(|split| split.word().to_owned()));
        if let Self::Plane(plane) = self {
            settings.extend(plane.mark.iter().map(|name| format!("mark_{name}")));
        }
        settings
    }

    /// What they have in common.
    pub(crate) fn options(&self) -> &LandscapeOptions {
        match self {
            Self::Line(line) => &line.options,
            Self::Plane(plane) => &plane.options,
            Self::Random(random) => &random.options,
            Self::Pca(pca) => &pca.options,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct LandscapeOptions {
    #[command(flatten)]
    pub(crate) subject: StudyOf,
    /// Images of each split that are evaluated; statistics are from as many, in whole batches
    #[arg(long, default_value_t = IMAGES)]
    pub(crate) images: NonZeroUsize,
    /// Which images; by default train, and for lines test as well. Can be given several times
    #[arg(long, value_enum)]
    pub(crate) split: Vec<Split>,
    /// Where figures, data and page go; by default a folder in landscape/ of the run
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Plain lines instead of progress bars
    #[arg(long)]
    pub(crate) plain: bool,
    /// End with one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  hwa landscape line --run runs/digits-hwa
  hwa landscape line --run runs/digits-hwa best outer:10
  hwa landscape line --model resnet20 --data cifar100 a.pt b.pt

Without names it is the line from best to the first model at its end; of a run under way, to
the last outer weights. Ctrl-C and the same command again: it goes on.

{}", NAMES))]
pub(crate) struct LandscapeLine {
    /// The weights at 0 and at 1
    #[arg(num_args = 2, value_names = ["FROM", "TO"])]
    pub(crate) weights: Vec<Name>,
    /// Where the line begins
    #[arg(long, default_value_t = FROM, allow_negative_numbers = true)]
    pub(crate) from: f64,
    /// Where it ends
    #[arg(long, default_value_t = TO, allow_negative_numbers = true)]
    pub(crate) to: f64,
    /// Points on it
    #[arg(long, default_value_t = POINTS, value_parser = points)]
    pub(crate) points: NonZeroUsize,
    #[command(flatten)]
    pub(crate) options: LandscapeOptions,
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  hwa landscape plane --run runs/digits-hwa
  hwa landscape plane --run runs/digits-hwa outer:5 outer:10 best --mark outer:8
  hwa landscape plane --run runs/digits-hwa inner:7:0 inner:7:1 outer:6 --mark outer:7

Without names it is the plane of two models and where they came from, with their average; if
none were kept, of two outer weights and the best. Ctrl-C and the same command again: it
goes on.

{}", NAMES))]
pub(crate) struct LandscapePlane {
    /// The weights that span it
    #[arg(num_args = 3, value_names = ["FIRST", "SECOND", "THIRD"])]
    pub(crate) weights: Vec<Name>,
    /// Other weights to mark, where they are nearest to the plane
    #[arg(long, value_name = "WEIGHTS")]
    pub(crate) mark: Vec<Name>,
    /// Points along each side
    #[arg(long, default_value_t = SIZE, value_parser = points)]
    pub(crate) size: NonZeroUsize,
    /// Chooses the random direction, if the three lie on a line
    #[arg(long, default_value_t = SEED)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) options: LandscapeOptions,
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  hwa landscape random --run runs/digits-hwa
  hwa landscape random --run runs/digits-hwa outer:10 --reach 0.5 --seed 2

{}", NAMES))]
pub(crate) struct LandscapeRandom {
    /// The weights in the middle
    #[arg(default_value = "best", value_name = "WEIGHTS")]
    pub(crate) centre: Name,
    /// How far it goes to each side; 1 is as far as the weights are long
    #[arg(long, default_value_t = REACH)]
    pub(crate) reach: f64,
    /// Points along each side
    #[arg(long, default_value_t = SIZE, value_parser = points)]
    pub(crate) size: NonZeroUsize,
    /// Chooses the directions
    #[arg(long, default_value_t = SEED)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) options: LandscapeOptions,
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  hwa landscape pca --run runs/digits-hwa
  hwa landscape pca --run runs/digits-hwa hwa --size 40

The way is that of the outer weights which the run keeps, of 64 of them at most.

{}", NAMES))]
pub(crate) struct LandscapePca {
    /// The weights that the way is seen from
    #[arg(default_value = "outer", value_name = "WEIGHTS")]
    pub(crate) centre: Name,
    /// Points along each side
    #[arg(long, default_value_t = SIZE, value_parser = points)]
    pub(crate) size: NonZeroUsize,
    #[command(flatten)]
    pub(crate) options: LandscapeOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hwa figures --list
  hwa figures interpolation --network resnet20 --scale 0.1 --data-dir ~/data
  hwa figures all --scale 0.2 --network resnet20 --data-dir ~/data --dry-run
  hwa figures restart --data digits --network resnet8 --set schedule.epochs=20

Without --network and --scale a figure is that of the paper: its networks, 200 or 400 epochs.
Runs are kept and shared between figures; Ctrl-C and the same command again: it goes on.")]
pub(crate) struct Figures {
    /// Figures of the paper, or all
    #[arg(required_unless_present = "list", value_name = "FIGURE")]
    pub(crate) names: Vec<String>,
    /// Take this share of the epochs and of the training images; as many cycles
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    /// This network in place of the paper's
    #[arg(long, value_name = "NETWORK")]
    pub(crate) network: Option<String>,
    /// The data set
    #[arg(long, default_value = "cifar100")]
    pub(crate) data: String,
    /// Its folder (the same as --set data.dir=DIR)
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Train these seeds only: 1,2; every figure must have one of them, and most have 1 alone
    #[arg(long, value_name = "SEEDS", value_delimiter = ',')]
    pub(crate) seeds: Vec<u64>,
    /// Override a key of all experiments, e.g. schedule.epochs=10
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Points along each side of a landscape
    #[arg(long, default_value_t = SIZE, value_parser = points)]
    pub(crate) size: NonZeroUsize,
    /// Images that a point of a landscape is evaluated on
    #[arg(long, default_value = "2560")]
    pub(crate) images: NonZeroUsize,
    /// Where runs and figures are; by default runs/figures
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Cores to use; by default all
    #[arg(long)]
    pub(crate) cores: Option<NonZeroUsize>,
    /// Train nothing: say how many runs are missing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// List the figures
    #[arg(long)]
    pub(crate) list: bool,
    /// Plain lines instead of progress bars
    #[arg(long)]
    pub(crate) plain: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hwa train --set \"checkpoints.inner_cycles=[10, 30, 60]\" --out runs/inner
  hwa analyze --run runs/inner                         the cycles whose inner weights are kept
  hwa analyze --run runs/inner --cycles 10,60 --images all --json

A step of SGD is expected to lower the training loss R if
  (L/2) E|g - ∇R|² <= (1/rate - L/2) |∇R|²
with the gradient g of a mini-batch, ∇R of all training images, and the Lipschitz constant L of
∇R along the step. Both sides are measured where a cycle starts (outer:E-1), for each model at
its end (inner:E:K) and for their average (outer:E). Every point takes a pass over the images,
and one for each of --steps. Points that are measured are kept in gradients.jsonl: Ctrl-C loses
only the one under way. What the figures mean: docs/analyze.md in the repository.")]
// Of files it is not known in which cycles and with which rates they were trained.
#[command(mut_arg("model", |arg| arg.hide(true)), mut_arg("data", |arg| arg.hide(true)))]
pub(crate) struct Analyze {
    #[command(flatten)]
    pub(crate) subject: StudyOf,
    /// Cycles, such as 10,30,60; by default those whose inner weights are kept
    #[arg(long, value_name = "CYCLES", value_delimiter = ',')]
    pub(crate) cycles: Vec<usize>,
    /// Training images to take gradients on, or all of them; in whole batches
    #[arg(long, value_name = "N|all", default_value = "5000")]
    pub(crate) images: Images,
    /// Steps along which the Lipschitz constant is measured; the mean counts
    #[arg(long, default_value = "3")]
    pub(crate) steps: NonZeroUsize,
    /// Augment images as in training; by default they are as they are
    #[arg(long)]
    pub(crate) augment: bool,
    /// Where tables and figures go; by default analysis/ in the run
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Plain lines instead of progress bars
    #[arg(long)]
    pub(crate) plain: bool,
    /// Print JSON: points with both sides of the condition, angles, files
    #[arg(long)]
    pub(crate) json: bool,
}

/// How many images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Images {
    /// All that there are.
    All,
    /// At most so many.
    Most(NonZeroUsize),
}

impl FromStr for Images {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.parse().map(NonZeroUsize::new)) {
            ("all", _) => Ok(Self::All),
            (_, Ok(Some(most))) => Ok(Self::Most(most)),
            (_, Ok(None) | Err(_)) => Err("expected a number of images, or all".to_owned()),
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  hwa bench landscape --model resnet20 --points 25 --json")]
pub(crate) struct BenchLandscape {
    /// The network
    #[arg(long, default_value = "resnet20")]
    pub(crate) model: String,
    /// Points of a plane
    #[arg(long, default_value = "10")]
    pub(crate) points: NonZeroUsize,
    /// Images that each is evaluated on, and as many for statistics
    #[arg(long, default_value = "2560")]
    pub(crate) images: NonZeroUsize,
    /// Images per batch
    #[arg(long, default_value = "128")]
    pub(crate) batch: NonZeroUsize,
    /// Classes
    #[arg(long, default_value = "100")]
    pub(crate) classes: NonZeroUsize,
    /// Threads; by default one per core
    #[arg(long)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Times that both are measured, in turn; the median counts
    #[arg(long, default_value = "3")]
    pub(crate) rounds: NonZeroUsize,
    /// Print JSON: landscape_seconds, forward_seconds, ratio, images_per_second
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_point_is_no_line() {
        for text in ["0", "1", "2001", "-3", "many"] {
            assert_eq!(points(text).unwrap_err(), "expected a number from 2 to 2000", "{text}");
        }
        assert_eq!((points("2").unwrap().get(), points("2000").unwrap().get()), (2, 2000));
    }
}
