//! What can be written after `hwa`.

mod average;
mod bench;
mod search;
mod study;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use average::{Average, BenchAverage, OrderBy};
pub(crate) use bench::{BenchCommand, BenchLoader, BenchRecalibrate, BenchStep};
#[cfg(feature = "mpi")]
pub(crate) use bench::{BenchSync, Steps};
pub(crate) use search::{Scoring, Search};
pub(crate) use study::{
    Analyze, BenchLandscape, Figures, Images, LandscapeCommand, LandscapeOptions, StudyOf,
};

/// Hierarchical weight averaging: K models in parallel, averaged every H steps,
/// and a slide window over the averages.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "\
Example:
  hwa train                      some seconds on the built-in digits
  hwa evaluate --run runs/digits-hwa

Each command's --help has more. The README tells what it does and how to get data:
the file README.md beside the source, or in its repository."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train an experiment; without one, two small ResNets on the built-in digits
    Train(Train),
    /// Compare methods: train what is not done yet, and make a table
    Compare(Compare),
    /// Make a page about runs: curves, tables, settings
    Report(Report),
    /// Draw the figures of the paper from runs of your own
    Figures(Figures),
    /// Draw loss and accuracy around weights: on lines and planes
    #[command(subcommand)]
    Landscape(LandscapeCommand),
    /// Measure a run's gradients: the convergence condition, and where its weights lie
    Analyze(Analyze),
    /// Average checkpoints, whoever trained them
    Average(Average),
    /// Find the best window over a series of checkpoints
    Search(Search),
    /// Measure weights on a split of a data set
    Evaluate(Evaluate),
    /// Re-estimate the batch-norm statistics of weights
    Recalibrate(Recalibrate),
    /// List the networks
    Models(Models),
    /// List, fetch or check data sets
    #[command(subcommand)]
    Data(DataCommand),
    /// Measure speed
    #[command(subcommand)]
    Bench(BenchCommand),
}

#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  hwa train                                     some seconds on the built-in digits
  hwa train --set method=sgd --set seed=2       the same data, plain SGD; other methods:
                                                online swa lawa hwa sam fg repr lookahead ema sgdr
  hwa train experiments/cifar100/resnet20-hwa.toml --data-dir ~/data
  hwa train mine.toml --weights resnet18.pth --new-head   fine-tune
  hwa train --resume runs/digits-hwa            go on after Ctrl-C or a crash
  mpirun -n 4 hwa train --set hwa.num_models=8  two models on each of four ranks; needs a build
                                                with --features mpi; see docs/cluster.md

Every key of an experiment, with its default: docs/experiment.md in the repository.
Ctrl-C finishes the step, saves and says how to resume. Exit codes: 0 done, 1 failed,
2 bad usage or configuration, 130 interrupted.")]
pub(crate) struct Train {
    /// The experiment's file
    pub(crate) experiment: Option<PathBuf>,
    /// Override a key with a TOML value or a bare word, e.g. hwa.window_length=50
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// The folder of the data set (the same as --set data.dir=DIR)
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Begin with the weights in this file, of safetensors or PyTorch (model.weights)
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(crate) weights: Option<PathBuf>,
    /// Draw the last layer anew: for other classes than the file's (model.new_head)
    #[arg(long, conflicts_with = "resume")]
    pub(crate) new_head: bool,
    /// The run directory; by default a new one under runs/
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the run in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,
    /// Resume on a CPU whose arithmetic differs, or train with ranks that are other builds of
    /// the same version: the bits will differ too
    #[arg(long)]
    pub(crate) allow_other_arithmetic: bool,
    /// Go on without this model, counted from 0; again for more
    #[arg(long, value_name = "MODEL", requires = "resume", conflicts_with = "out")]
    pub(crate) without_replica: Vec<usize>,
    /// Plain lines instead of progress bars
    #[arg(long)]
    pub(crate) plain: bool,
    /// End with one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Save and stop when standard input ends
    #[arg(long, hide = true)]
    pub(crate) leash: bool,
}

#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  hwa compare table1 --scale 0.1 --data-dir ~/data   the paper's first table, small
  hwa compare table1 --scale 0.1 --data-dir ~/data --dry-run   how much work that is
  hwa compare mine.toml                              run what is not done yet
  hwa compare mine.toml --tables                     only the tables of what is done
  hwa compare mine.toml --with other.json            go on with what another machine finished
  hwa compare table1 --print > mine.toml             a file to begin with: change its name
  hwa compare --list

A file to begin with:
  name = \"mine\"
  seeds = [1, 2]
  methods = [\"sgd\", { label = \"HWA, K = 3\", method = \"hwa\", hwa.num_models = 3 }]
  networks = [\"resnet8\"]
  datasets = [\"digits\"]
  experiment = { schedule.epochs = 10, hwa.window_length = 3 }

Runs are kept in runs/<name> (with --scale 0.1: runs/<name>-scale0.1), with the tables <name>.md,
.csv and .json, which are written again after every run. Ctrl-C leaves runs that the same command
goes on with. A run that diverges is counted in the table.
Exit codes: 0 done, 1 a run failed, 2 bad usage or configuration, 130 interrupted.
What can stand in such a file: docs/compare.md in the repository.")]
pub(crate) struct Compare {
    /// The comparison's file, or a table of the paper: table1 to table8
    #[arg(required_unless_present = "list")]
    pub(crate) comparison: Option<String>,
    /// Take this share of the epochs and of the training images; as many cycles
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    /// Train and show these seeds only, of the file's: 1,2
    #[arg(long, value_name = "SEEDS", value_delimiter = ',')]
    pub(crate) seeds: Vec<u64>,
    /// Train and show only methods, networks or data sets with this label
    #[arg(long, value_name = "LABEL")]
    pub(crate) only: Vec<String>,
    /// Override a key of all experiments, e.g. schedule.epochs=10
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// The folder of the data sets (the same as --set data.dir=DIR)
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Where runs and tables are; by default runs/<name>, with --scale S runs/<name>-scaleS.
    /// Comparisons can share it
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// A table (.json) of runs that another machine finished: they count as done
    #[arg(long = "with", value_name = "TABLE")]
    pub(crate) with: Vec<PathBuf>,
    /// Cores to use; by default all. A run takes one for each of its models, or more
    #[arg(long)]
    pub(crate) cores: Option<NonZeroUsize>,
    /// Train nothing: write the tables of what is done
    #[arg(long)]
    pub(crate) tables: bool,
    /// Train nothing: say what would be trained, and how much work it is
    #[arg(long, conflicts_with_all = ["tables", "json"])]
    pub(crate) dry_run: bool,
    /// Print the comparison's file
    #[arg(long, conflicts_with_all = ["scale", "sets", "tables", "dry_run"])]
    pub(crate) print: bool,
    /// List the tables of the paper
    #[arg(long)]
    pub(crate) list: bool,
    /// Plain lines instead of progress bars
    #[arg(long)]
    pub(crate) plain: bool,
    /// End with one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hwa report runs/digits-hwa                   runs/digits-hwa/report/index.html
  hwa report runs/digits-* -o report           several beside each other
  hwa report runs/mine                         all runs of a comparison
  hwa report runs/digits-hwa --serve           a training that is under way

The page is one file that needs nothing else; beside it each figure is an SVG and a CSV.")]
pub(crate) struct Report {
    /// Run directories, or folders with runs in them
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Where the page goes; by default report/ in the run, or here for several
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Show it to a browser on this machine instead, as it is at every moment
    #[arg(long, conflicts_with = "out")]
    pub(crate) serve: bool,
    /// The port for that; 0 is any that is free
    #[arg(long, default_value = "8080", requires = "serve")]
    pub(crate) port: u16,
}

/// Weights of a network, and a data set for them.
#[derive(Debug, Args)]
pub(crate) struct Subject {
    /// A run: its network, its data set with its splits, and its best weights
    #[arg(
        long, value_name = "DIR", conflicts_with_all = ["model", "data"],
        required_unless_present = "model"
    )]
    pub(crate) run: Option<PathBuf>,
    /// The network, see `hwa models`
    #[arg(long, requires_all = ["data", "weights"])]
    pub(crate) model: Option<String>,
    /// A file of safetensors or PyTorch (.pt); by default the run's best weights
    #[arg(long, value_name = "FILE", required_unless_present = "run")]
    pub(crate) weights: Option<PathBuf>,
    /// The data set, see `hwa data list`
    #[arg(long, requires = "model")]
    pub(crate) data: Option<String>,
    /// Its folder; by default that of the run, or the cache folder
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Images per batch; by default those of the run, or 128
    #[arg(long)]
    pub(crate) batch: Option<NonZeroUsize>,
    /// Threads; by default one per core
    #[arg(long)]
    pub(crate) threads: Option<NonZeroUsize>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hwa evaluate --run runs/digits-hwa
  hwa evaluate --run runs/digits-hwa --split validation
  hwa evaluate --model resnet8 --weights runs/digits-hwa/best.safetensors --data digits

Without a run, training and validation images are those of the data set's default split.
Weights without batch-norm statistics, such as outer checkpoints, get them re-estimated
on training images first, as the run itself does it.")]
pub(crate) struct Evaluate {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Which images
    #[arg(long, value_enum, default_value = "test")]
    pub(crate) split: Split,
    /// Print JSON: top1 and top5 in percent, loss, split, images, statistics
    #[arg(long)]
    pub(crate) json: bool,
}

/// A part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Split {
    /// Training images, without augmentation
    Train,
    /// Images held out of the training set
    Validation,
    /// Test images
    Test,
}

impl Split {
    /// Its name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hwa recalibrate --run runs/digits-hwa -o ready.safetensors \\
      --weights runs/digits-hwa/checkpoints/outer-000060.safetensors
  hwa recalibrate --model resnet20 --weights average.safetensors --data cifar100 \\
      --data-dir ~/data -o ready.safetensors")]
pub(crate) struct Recalibrate {
    #[command(flatten)]
    pub(crate) subject: Subject,
    /// Every image of the published training set once, without augmentation
    #[arg(long)]
    pub(crate) all: bool,
    /// Stop at this relative standard error; by default that of the run, or 0.01
    #[arg(long, conflicts_with = "all")]
    pub(crate) tolerance: Option<f64>,
    /// Chooses the order and the augmentation of the images; by default that of the run, or 1
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Where to write the complete weights
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON: images, relative_error, out
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  hwa models --data cifar10 --json")]
pub(crate) struct Models {
    /// Count for this data set's images and classes; by default for those that each network was
    /// made for, CIFAR-100's or ImageNet's
    #[arg(long)]
    pub(crate) data: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// What data sets there are, and where they are looked for
    List(DataList),
    /// Verify a data set's files and count its images
    Check(DataCheck),
    /// Download, verify and unpack a data set
    Fetch(DataFetch),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  hwa data list\n  hwa data list --data-dir ~/data")]
pub(crate) struct DataList {
    /// Where they are looked for; by default the cache folder
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  hwa data check cifar100 --data-dir ~/data")]
pub(crate) struct DataCheck {
    /// The data set
    pub(crate) name: String,
    /// Its folder; by default the cache folder
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Count the images of each class, however many there are
    #[arg(long)]
    pub(crate) classes: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hwa data fetch cifar10
  hwa data fetch cub200 --data-dir ~/data

What was downloaded is kept when it is interrupted, and fetching again goes on there. The
folder appears when it is complete and verified, not before.")]
pub(crate) struct DataFetch {
    /// The data set
    pub(crate) name: String,
    /// The folder to put its folder in; by default the cache folder
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Fetch it even if it is there, and replace it
    #[arg(long)]
    pub(crate) again: bool,
    /// Print JSON: data, folder, how
    #[arg(long)]
    pub(crate) json: bool,
}
