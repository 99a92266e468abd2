//! Why a picture could not be read or resized.

use super::{MAX_PIXELS, MAX_SIDE, Rectangle};

/// Why there is no picture. The caller knows the file and names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// Nothing to decode.
    #[error("the file is empty")]
    Empty,

    /// The content is something else.
    #[error("not a picture but {content}")]
    NotAPicture {
        /// What it looks like.
        content: &'static str,
    },

    /// The content is of no known kind.
    #[error("not a picture: it begins with `{begin}`")]
    Unknown {
        /// The first bytes.
        begin: String,
    },

    /// A picture, in a format that is not read.
    #[error("{format} is not read: save the picture as JPEG or PNG")]
    Unsupported {
        /// The format.
        format: &'static str,
    },

    /// A picture without rows or columns.
    #[error("the picture has no pixels: its size is {width} x {height}")]
    NoPixels {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },

    /// A picture that would take too much memory.
    #[error(
        "the picture is too large: {width} x {height}, expected at most {} million pixels and \
         {MAX_SIDE} in a row or column",
        MAX_PIXELS / 1_000_000
    )]
    TooLarge {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },

    /// Pixels of a kind that is not resized.
    #[error("pixels of {channels} channels cannot be resized, only of 1 and 3")]
    Channels {
        /// How many there are.
        channels: usize,
    },

    /// A file that is too small for the picture it announces.
    #[error("{format}: {bytes} bytes cannot hold the {width} x {height} pixels they announce")]
    Implausible {
        /// The format.
        format: &'static str,
        /// The size of the file.
        bytes: usize,
        /// Rows announced.
        height: usize,
        /// Columns announced.
        width: usize,
    },

    /// A file that is not all there.
    #[error("{format}: the file ends after {bytes} bytes, before the picture does")]
    Truncated {
        /// The format.
        format: &'static str,
        /// The size of the file.
        bytes: usize,
    },

    /// A file that breaks the rules of its format, or uses a part of them that is not read.
    #[error("{format}: {reason}")]
    Broken {
        /// The format.
        format: &'static str,
        /// What its decoder says.
        reason: String,
    },

    /// Pixels do not fill a picture of their size.
    #[error("{found} bytes are not {width} x {height} pixels of three")]
    PixelsDiffer {
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// How many bytes there are.
        found: usize,
    },

    /// A part of a picture was asked for that it does not have.
    #[error("{rectangle} is not inside of a picture of {width} x {height}")]
    Outside {
        /// What was asked for.
        rectangle: Rectangle,
        /// Rows of the picture.
        height: usize,
        /// Columns of the picture.
        width: usize,
    },

    /// Resizing failed.
    #[error("cannot resize: {reason}")]
    Resize {
        /// What the library says.
        reason: String,
    },
}
