//! What can be written after `hwa bench`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{BenchAverage, BenchLandscape};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Training steps per second, on made-up images
    Step(BenchStep),
    /// Steps that are averaged over MPI after each one, on made-up images
    #[cfg(feature = "mpi")]
    Sync(BenchSync),
    /// Images per second of re-estimated batch-norm statistics, on made-up images
    Recalibrate(BenchRecalibrate),
    /// Averages of checkpoints on disk, beside reading them alone
    Average(BenchAverage),
    /// What a point of a landscape costs beyond its forward passes, on made-up images
    Landscape(BenchLandscape),
    /// Images per second of loading and augmentation, and what they cost a training step
    Loader(BenchLoader),
}

/// Training steps on made-up images.
#[derive(Debug, Args)]
pub(crate) struct Steps {
    /// The network
    #[arg(long, default_value = "resnet20")]
    pub(crate) model: String,
    /// Images per step of one replica
    #[arg(long, default_value = "128")]
    pub(crate) batch: NonZeroUsize,
    /// Threads of each
    #[arg(long, default_value = "1")]
    pub(crate) threads: NonZeroUsize,
    /// Classes
    #[arg(long, default_value = "100")]
    pub(crate) classes: NonZeroUsize,
    /// Height and width of an image; by default 32 for networks for CIFAR, 64 for larger ones
    #[arg(long)]
    pub(crate) size: Option<NonZeroUsize>,
    /// Steps before the clock starts
    #[arg(long, default_value = "3")]
    pub(crate) warmup: usize,
    /// Steps measured; the median counts
    #[arg(long, default_value = "8")]
    pub(crate) steps: NonZeroUsize,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  hwa bench step --model resnet20 --batch 128 --replicas 2 --json")]
pub(crate) struct BenchStep {
    #[command(flatten)]
    pub(crate) steps: Steps,
    /// Replicas that train at the same time
    #[arg(long, default_value = "2")]
    pub(crate) replicas: NonZeroUsize,
    /// Print JSON: images_per_second (all replicas), step_ms, peak_rss_mb
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(feature = "mpi")]
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  mpirun -n 2 hwa bench sync --model resnet20 --batch 128 --json

Every rank has one replica. Measured is the exchange of the weights and what loading them takes.
What `hwa train` does beside it is not: telling rank 0 that all models have come, its word to go,
the reports of the models and the verdict, which are a few hundred bytes and five waits for the
network.")]
pub(crate) struct BenchSync {
    #[command(flatten)]
    pub(crate) steps: Steps,
    /// Print JSON: step_ms (with its synchronization), sync_ms, bytes, images_per_second
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  hwa bench recalibrate --model resnet20 --images 12800 --json

The images go the way of `hwa recalibrate`: they lie in memory as bytes, are cropped,
flipped and normalised, and the network normalises each batch by its own statistics.")]
pub(crate) struct BenchRecalibrate {
    /// The network
    #[arg(long, default_value = "resnet20")]
    pub(crate) model: String,
    /// Images in all, after three batches that are not counted
    #[arg(long, default_value = "12800")]
    pub(crate) images: NonZeroUsize,
    /// Images per batch
    #[arg(long, default_value = "128")]
    pub(crate) batch: NonZeroUsize,
    /// Threads; by default one per core
    #[arg(long)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Classes
    #[arg(long, default_value = "100")]
    pub(crate) classes: NonZeroUsize,
    /// Height and width of an image; by default 32 for networks for CIFAR, 64 for larger ones
    #[arg(long)]
    pub(crate) size: Option<NonZeroUsize>,
    /// Print JSON: images_per_second, threads, peak_rss_mb
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hwa bench loader --model resnet20 --json
  hwa bench loader --data folder --data-dir ~/photos --replicas 1

Each replica has its own loader, as in training. With a network, steps on one batch that lies
there and steps on loaded batches take turns: the difference is what loading costs.")]
pub(crate) struct BenchLoader {
    /// A data set; by default made-up images of 32 x 32 in memory
    #[arg(long)]
    pub(crate) data: Option<String>,
    /// Its folder; by default the cache folder
    #[arg(long, value_name = "DIR", requires = "data")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Take training steps of this network as well
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Images per batch
    #[arg(long, default_value = "128")]
    pub(crate) batch: NonZeroUsize,
    /// Loaders, and replicas, that run at the same time
    #[arg(long, default_value = "2")]
    pub(crate) replicas: NonZeroUsize,
    /// Threads of each replica
    #[arg(long, default_value = "1")]
    pub(crate) threads: NonZeroUsize,
    /// Images that each loader loads by itself
    #[arg(long, default_value = "100000")]
    pub(crate) images: NonZeroUsize,
    /// Steps of a turn
    #[arg(long, default_value = "10")]
    pub(crate) steps: NonZeroUsize,
    /// Print JSON: images_per_second (all loaders), cost_percent of a step, and more
    #[arg(long)]
    pub(crate) json: bool,
}
