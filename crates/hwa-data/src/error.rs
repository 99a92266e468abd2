//! What can go wrong with data.

use std::path::PathBuf;

use hwa_picture::PictureError;

use crate::dataset::ImageShape;

/// Why data could not be read, split or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// An example that does not exist was asked for.
    #[error("example {index} does not exist: there are {count}")]
    NoSuchExample {
        /// The number asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },

    /// A subset was to hold an example more than once: it would count double, and
    /// two halves of a split could share it.
    #[error("example {index} is named more than once")]
    Repeated {
        /// The smallest such number.
        index: usize,
    },

    /// A data set that is not in the catalogue was asked for.
    #[error("unknown data set `{name}`; known are {}", known.join(", "))]
    UnknownName {
        /// The name asked for.
        name: String,
        /// Every name in the catalogue.
        known: Vec<&'static str>,
    },

    /// A file of a data set is not where it should be.
    #[error(
        "{dataset}: `{}` is missing{}; download and unpack {archive}, then name the folder \
         (`data.dir`, or --data-dir) or set HWA_DATA_DIR",
        path.display(),
        elsewhere(also_looked_in)
    )]
    MissingFile {
        /// The data set that the file belongs to.
        dataset: &'static str,
        /// Where the file was looked for.
        path: PathBuf,
        /// The other folders in which it was looked for.
        also_looked_in: Vec<PathBuf>,
        /// Where the archive that holds it is published.
        archive: &'static str,
    },

    /// No folder was named, and none can be found from the environment.
    #[error(
        "{dataset}: no folder to look in; name one (`data.dir`, or --data-dir) or set HWA_DATA_DIR"
    )]
    NoFolder {
        /// The data set asked for.
        dataset: &'static str,
    },

    /// A file does not have the size that its format prescribes.
    #[error("`{}` has {found} bytes, expected {expected}: fetch it again", path.display())]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// What the format prescribes.
        expected: u64,
        /// What the file has.
        found: u64,
    },

    /// A file is not the one that was published.
    #[error("`{}` has md5 {found}, expected {expected}: fetch it again", path.display())]
    WrongChecksum {
        /// The file.
        path: PathBuf,
        /// What its authors give.
        expected: &'static str,
        /// What the file has.
        found: String,
    },

    /// A label in a file is not a class of the data set.
    #[error("`{}`: record {record} has label {found}, allowed are 0 to {largest}", path.display())]
    LabelOutOfRange {
        /// The file.
        path: PathBuf,
        /// The record, counted from 0.
        record: usize,
        /// The label found.
        found: u32,
        /// The largest label allowed.
        largest: u32,
    },

    /// A value in a text file is not a number in its range.
    #[error("`{file}`, line {line}: `{found}` is not a number from 0 to {largest}")]
    BadValue {
        /// The file.
        file: &'static str,
        /// The line, counted from 1.
        line: usize,
        /// What stands there.
        found: String,
        /// The largest value allowed.
        largest: u32,
    },

    /// A line of a text file has too few or too many values.
    #[error("`{file}`, line {line}: {found} values, expected {expected}")]
    WrongColumns {
        /// The file.
        file: &'static str,
        /// The line, counted from 1.
        line: usize,
        /// What the format prescribes.
        expected: usize,
        /// What the line has.
        found: usize,
    },

    /// Reading failed.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// An option does not fit the data set or another option.
    #[error("`{key}` {reason}")]
    BadOption {
        /// The option, as an experiment calls it.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// A line of a data set's list is not as its authors write it.
    #[error("`{}`, line {line}: {reason}", path.display())]
    BadLine {
        /// The list.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },

    /// A file or folder does not hold what its data set has there.
    #[error("`{}`: {reason}", path.display())]
    WrongContent {
        /// The file or folder.
        path: PathBuf,
        /// What was expected and what was found.
        reason: String,
    },

    /// An image cannot be read.
    #[error("`{}`: {reason}", path.display())]
    BadImage {
        /// Its file.
        path: PathBuf,
        /// Why.
        reason: String,
    },

    /// An image cannot be resized.
    #[error("cannot resize an image")]
    Resize(#[from] PictureError),

    /// So many images cannot be read that the data itself must be at fault.
    #[error("{bad} of {images} images of a batch cannot be read; the first: {first}")]
    TooManyBadImages {
        /// How many.
        bad: usize,
        /// The images of the batch.
        images: usize,
        /// What the first one says.
        first: Box<DataError>,
    },

    /// An example's label is not a class of its data set.
    #[error("example {index} has label {label}, but there are {classes} classes")]
    NotAClass {
        /// The example.
        index: usize,
        /// Its label.
        label: u32,
        /// How many classes there are.
        classes: usize,
    },

    /// A class has fewer examples than a split takes from it.
    #[error("class {class} has {found} examples, the split needs {needed}")]
    ClassTooSmall {
        /// The class.
        class: usize,
        /// How many examples the split takes.
        needed: usize,
        /// How many there are.
        found: usize,
    },

    /// A split would take everything, or more.
    #[error("cannot hold {needed} examples out of {found} and keep some")]
    TooFewExamples {
        /// How many examples the split takes.
        needed: usize,
        /// How many there are.
        found: usize,
    },

    /// Training was asked for on no examples.
    #[error("there are no examples to train on")]
    NoExamples,

    /// The number of labels is not the number of images.
    #[error("{labels} labels for {images} images")]
    LabelsDiffer {
        /// How many images there are.
        images: usize,
        /// How many labels there are.
        labels: usize,
    },

    /// Pixels do not fill images of their shape.
    #[error("{found} bytes are not whole images of {shape}")]
    PixelsDiffer {
        /// The shape of an image.
        shape: ImageShape,
        /// How many bytes there are.
        found: usize,
    },

    /// Images of different shapes cannot share a batch.
    #[error("example {index} is {found}, the others of its batch are {expected}")]
    ShapesDiffer {
        /// The example.
        index: usize,
        /// The shape of the batch's first image.
        expected: ImageShape,
        /// The shape of this one.
        found: ImageShape,
    },

    /// The normalisation is for another number of channels.
    #[error("an image of {found} channels cannot be normalised with {expected} means")]
    ChannelsDiffer {
        /// The channels of the normalisation.
        expected: usize,
        /// The channels of the image.
        found: usize,
    },

    /// A mean or standard deviation to normalise with is not usable.
    #[error("channel {channel}: cannot normalise with mean {mean} and standard deviation {std}")]
    BadNormalisation {
        /// The channel.
        channel: usize,
        /// Its mean.
        mean: f32,
        /// Its standard deviation.
        std: f32,
    },

    /// A crop is padded by more than the image.
    #[error("padding {pad} is larger than the image ({shape})")]
    PaddingTooLarge {
        /// Pixels on each side.
        pad: usize,
        /// The image.
        shape: ImageShape,
    },

    /// A crop is larger than the padded image.
    #[error("a crop of {side} pixels does not fit into {image} (padding {pad})")]
    CropTooLarge {
        /// Pixels of the crop in one direction.
        side: usize,
        /// Pixels of the image in that direction.
        image: usize,
        /// Pixels on each side.
        pad: usize,
    },

    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,

    /// The loading thread could not be started.
    #[error("cannot start the loading thread")]
    Thread {
        /// What the system said.
        source: std::io::Error,
    },

    /// The loading thread panicked.
    #[error("the loading thread panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
}

fn elsewhere(folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return String::new();
    }
    let folders: Vec<String> = folders.iter().map(|f| format!("`{}`", f.display())).collect();
    format!(" (looked in {} as well)", folders.join(", "))
}

impl DataError {
    /// The message with its cause.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Resize(cause) => format!("{self}: {cause}"),
            _ => self.to_string(),
        }
    }
}
