//! Archives, unpacked as if they were hostile.
//!
//! Files and folders are made, and nothing else: links are left out, devices are refused.
//! Names, sizes and counts are checked before anything is written. Nothing is ever
//! overwritten, and of the permissions in an archive none is taken over.

mod entry_name;
mod tar_archive;
mod writer;
mod zip_archive;

use std::path::Path;

use crate::error::FetchError;
use crate::progress::Watch;
use crate::recipe::{Form, Limits};
use writer::Writer;

/// An archive, and where it is unpacked to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unpacking<'a> {
    pub(crate) archive: &'a Path,
    pub(crate) form: Form,
    /// What to call it.
    pub(crate) name: &'a str,
    /// An empty folder.
    pub(crate) into: &'a Path,
    /// Only what is in this folder of the archive is unpacked.
    pub(crate) folder: &'a str,
    pub(crate) limits: Limits,
}

impl Unpacking<'_> {
    /// Unpacks, and tells how many entries were left out: links, and what is not in the
    /// folder.
    pub(crate) fn run(&self, watch: &Watch<'_>) -> Result<u64, FetchError> {
        let mut writer = Writer::new(*self, watch);
        match self.form {
            Form::Plain => {}
            Form::Tar => tar_archive::unpack_tar(self.archive, &mut writer)?,
            Form::TarGz => tar_archive::unpack_tar_gz(self.archive, &mut writer)?,
            Form::Zip => zip_archive::unpack_zip(self.archive, &mut writer)?,
        }
        Ok(writer.left_out())
    }
}

#[cfg(test)]
pub(crate) mod tests;
