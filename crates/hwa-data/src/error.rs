//! What can go wrong with data.

/// Why data could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// An example that does not exist was asked for.
    #[error("example {index} does not exist: there are {count}")]
    NoSuchExample {
        /// The number asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
}
