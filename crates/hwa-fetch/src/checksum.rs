//! MD5, as the authors of data sets publish it. It tells damage apart, and with HTTPS in
//! front of it that is what is asked of it.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use md5::{Digest, Md5};

use crate::error::FetchError;
use crate::progress::{Phase, Watch};

/// Whether a file has the published checksum.
pub(crate) fn verify(
    path: &Path,
    name: &str,
    expected: &'static str,
    watch: &Watch<'_>,
) -> Result<(), FetchError> {
    let read = || FetchError::io("read", path);
    let mut file = File::open(path).map_err(read())?;
    let total = file.metadata().map_err(read())?.len();
    let (mut md5, mut buffer, mut done) = (Md5::new(), vec![0; 1 << 18], 0);
    loop {
        watch.go_on()?;
        watch.report(Phase::Verify, name, done, Some(total));
        let count = file.read(&mut buffer).map_err(read())?;
        if count == 0 {
            break;
        }
        md5.update(&buffer[..count]);
        done += count as u64;
    }
    let found = hexadecimal(md5);
    if found == expected {
        Ok(())
    } else {
        Err(FetchError::WrongChecksum { path: path.to_owned(), expected, found })
    }
}

/// The checksum as it is written down.
pub(crate) fn hexadecimal(md5: Md5) -> String {
    md5.finalize().iter().fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
