//! What can be wrong with a series of checkpoints.

use std::path::PathBuf;

use hwa_core::ValueType;

use crate::error::StoreError;

/// The files that a message names.
const NAMED: usize = 4;

/// Why a series could not be opened or averaged.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    /// There is no checkpoint.
    #[error(
        "{} holds no checkpoints: expected files ending in .safetensors, .pt, .pth, .bin or .ckpt, \
         model folders, or a run with checkpoints/outer-*.safetensors", path.display()
    )]
    Empty {
        /// Where they were looked for.
        path: PathBuf,
    },
    /// A model folder holds several files that may be its checkpoint.
    #[error(
        "{} holds {}: which of them is the checkpoint? name the files, or move the others away",
        folder.display(), names(files)
    )]
    Ambiguous {
        /// The folder.
        folder: PathBuf,
        /// The files.
        files: Vec<PathBuf>,
    },
    /// Nothing was named.
    #[error("no checkpoints to average")]
    Nothing,
    /// There is one checkpoint.
    #[error(
        "{} is the only checkpoint: an average needs two or more{}", path.display(),
        if passed_over.is_empty() { String::new() } else { format!("; passed over: {}", names(passed_over)) }
    )]
    Single {
        /// The checkpoint.
        path: PathBuf,
        /// Files beside it that were taken for something else.
        passed_over: Vec<PathBuf>,
    },
    /// All, or all but one, hold NaN or infinities.
    #[error("only {left} of {all} checkpoints are without NaN or infinite values")]
    TooFewLeft {
        /// Those without.
        left: usize,
        /// All of them.
        all: usize,
    },
    /// Two checkpoints are not of one model.
    #[error("{} and {} differ: {difference}", first.display(), other.display())]
    Differ {
        /// The oldest.
        first: PathBuf,
        /// The one that is not like it.
        other: PathBuf,
        /// The first difference.
        difference: Box<Difference>,
    },
    /// A number is none.
    #[error("{}: `{tensor}` holds NaN or infinite values", path.display())]
    NonFinite {
        /// The checkpoint.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// A finite average that the type it is written in cannot hold.
    #[error("the average of `{tensor}` is too large for {value_type:?}")]
    TooLarge {
        /// The tensor.
        tensor: String,
        /// The type that was asked for.
        value_type: ValueType,
    },
    /// The step of a checkpoint is not to be known.
    #[error(
        "cannot tell the step of {}: neither in the file nor in its name is one", path.display()
    )]
    NoStep {
        /// The checkpoint.
        path: PathBuf,
    },
    /// Some checkpoints state their steps, others have them in their names only.
    #[error(
        "{} states its step and {} does not: a step and a number in a name may count different \
         things", stated.display(), silent.display()
    )]
    MixedSteps {
        /// One that states it.
        stated: PathBuf,
        /// One that does not.
        silent: PathBuf,
    },
    /// An index of shards cannot be followed.
    #[error("{}: {reason}", path.display())]
    Index {
        /// The index.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A window lies where no checkpoints are.
    #[error("no checkpoint is in the window at {at}: {have}")]
    EmptyWindow {
        /// The number of its last checkpoint.
        at: usize,
        /// What there is.
        have: String,
    },
    /// A series has no such place.
    #[error("there is no checkpoint at place {place}: there are {count}, from place 0 on")]
    NoPlace {
        /// The place asked for.
        place: usize,
        /// How many there are.
        count: usize,
    },
    /// As many weights as members are needed.
    #[error("{found} weights for {expected} checkpoints")]
    WeightCount {
        /// The members.
        expected: usize,
        /// The weights given.
        found: usize,
    },
    /// A mean needs weights that add up to something.
    #[error("weights must be numbers with a sum above zero, found {found:?}")]
    BadWeights {
        /// The weights given.
        found: Vec<f64>,
    },
    /// A moving average needs a decay below one.
    #[error("the decay must be at least 0 and below 1, found {found}")]
    BadDecay {
        /// The decay given.
        found: f64,
    },
    /// The buffers do not fit.
    #[error("{allowed} bytes of memory are too few: at least {needed} are needed")]
    TooLittleMemory {
        /// The bytes allowed.
        allowed: usize,
        /// The bytes of the smallest buffers.
        needed: usize,
    },
    /// Whoever asked for it does not want it any more.
    #[error("interrupted")]
    Interrupted,
    /// A file could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The names of the first few files.
fn names(files: &[PathBuf]) -> String {
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let shown: Vec<String> = files.iter().take(NAMED).filter_map(name).collect();
    match files.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// How two checkpoints differ.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// A tensor is only in the first.
    #[error("`{name}` is only in the first")]
    OnlyInFirst {
        /// The tensor.
        name: String,
    },
    /// A tensor is only in the second.
    #[error("`{name}` is only in the second")]
    OnlyInSecond {
        /// The tensor.
        name: String,
    },
    /// Shapes differ.
    #[error("`{name}` has shape {first:?} in the first, {second:?} in the second")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape in the first.
        first: Vec<usize>,
        /// Its shape in the second.
        second: Vec<usize>,
    },
    /// Types differ.
    #[error("`{name}` has type {first} in the first, {second} in the second")]
    Type {
        /// The tensor.
        name: String,
        /// Its type in the first.
        first: String,
        /// Its type in the second.
        second: String,
    },
}
