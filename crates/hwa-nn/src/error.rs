//! What can go wrong when a model is built.

use hwa_core::WeightsError;
use hwa_kernels::graph::ProgramError;
use hwa_kernels::simd::LevelError;

/// Why a model could not be built.
#[derive(Debug, thiserror::Error)]
pub enum NnError {
    /// No such model.
    #[error(
        "there is no model `{name}`{}: known are {known}, and resnet<d> for any depth d = 6n + 2 but 50 and 152",
        near.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?"))
    )]
    UnknownModel {
        /// The name given.
        name: String,
        /// The name that was probably meant.
        near: Option<String>,
        /// The names that could have been given.
        known: String,
    },
    /// Images or classes that do not exist.
    #[error("{what} is 0, expected at least 1")]
    Nothing {
        /// What there has to be, such as "classes".
        what: &'static str,
    },
    /// Images that nothing would be left of on the way through the network.
    #[error(
        "images are {height} x {width}, expected at least {smallest} x {smallest} for this network"
    )]
    TooSmall {
        /// The height of an image.
        height: usize,
        /// Its width.
        width: usize,
        /// The least height and width.
        smallest: usize,
    },
    /// A network whose layers do not fit together.
    #[error("the network cannot be run: {0}")]
    Layers(#[from] ProgramError),
    /// Channels that cannot be shared out among groups.
    #[error("{what} are {found}, expected a multiple of the {groups} groups")]
    Groups {
        /// Which channels, such as "input channels".
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many groups there are.
        groups: usize,
    },
    /// Dropout that leaves out everything, or more, or less than nothing.
    #[error("dropout rate is {rate}, expected at least 0 and below 1")]
    DropoutRate {
        /// The rate given.
        rate: f64,
    },
    /// A model in parts.
    #[error("the model is on {first} and on {other}, expected one device for all of it")]
    Devices {
        /// The device of its first tensor.
        first: String,
        /// The device of another.
        other: String,
    },
    /// `HWA_SIMD` asks for what there is not.
    #[error("HWA_SIMD: {0}")]
    Simd(#[from] LevelError),
    /// A statistic that no pass would report.
    #[error("`{name}` belongs to a layer that cannot be re-estimated: use hwa_nn's BatchNorm")]
    ForeignStatistic {
        /// The tensor.
        name: String,
    },
    /// Two tensors of the model are clones of one.
    #[error("`{second}` is a clone of `{first}`: build each layer, do not clone it")]
    SharedTensor {
        /// The tensor.
        first: String,
        /// Its clone.
        second: String,
    },
    /// Weights that do not fit.
    #[error("the weights do not fit the network: {0}")]
    Weights(#[source] WeightsError),
    /// Weights of another network.
    #[error("the weights are not those of this network; {}", other_tensors(missing, unexpected))]
    OtherTensors {
        /// What the network has and the weights have not.
        missing: Vec<String>,
        /// What the weights have and the network has not.
        unexpected: Vec<String>,
    },
    /// Weights for other classes.
    #[error("the head `{head}` is for {found} classes, expected {expected}")]
    OtherClasses {
        /// The layer that makes scores.
        head: String,
        /// The classes that the weights are for.
        found: usize,
        /// The classes of the network.
        expected: usize,
    },
    /// Weights for images with other channels.
    #[error("input channels of `{name}` are {found}, expected {expected}")]
    OtherChannels {
        /// The tensor.
        name: String,
        /// The channels that the weights are for.
        found: usize,
        /// The channels of the network.
        expected: usize,
    },
    /// A number of double precision that single precision cannot hold.
    #[error("`{name}` has the value {value:e}, which is too large for single precision")]
    TooLarge {
        /// The tensor.
        name: String,
        /// The number.
        value: f64,
    },
    /// Two tensors of the model share a name, or one cannot be named.
    #[error("the model's tensors cannot be named: {0}")]
    Names(#[from] WeightsError),
}

/// The most tensors that a message names of one kind.
const NAMED: usize = 3;

fn other_tensors(missing: &[String], unexpected: &[String]) -> String {
    let told = |what: &str, names: &[String]| {
        let first: Vec<String> = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{what}: {}{more}", first.join(", "))
    };
    let parts = [("missing", missing), ("not expected", unexpected)];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = parts.map(|(what, names)| told(what, names)).collect();
    parts.join("; ")
}

/// Checks that there is at least one of each thing.
pub(crate) fn ensure_some<const N: usize>(
    parts: [(&'static str, usize); N],
) -> Result<(), NnError> {
    match parts.into_iter().find(|(_, size)| *size == 0) {
        Some((what, _)) => Err(NnError::Nothing { what }),
        None => Ok(()),
    }
}
