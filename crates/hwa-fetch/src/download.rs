//! A published file, downloaded and verified.
//!
//! Bytes that came in once are not asked for again, as long as the server says that the
//! file is still the same. What it says is checked: the part of another version, a range
//! that was not asked for, a length that was not published are never put together.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::checksum::verify;
use crate::error::FetchError;
use crate::http::{Answer, Client, Head, Patience, Resume, Trouble};
use crate::part::{Note, Part};
use crate::progress::{Phase, Watch};
use crate::recipe::RemoteFile;

/// A verified file.
#[derive(Debug)]
pub(crate) enum Obtained {
    /// Downloaded here; ours to move or remove.
    Downloaded(Part),
    /// Put there by hand under its published name; not ours.
    Found(PathBuf),
}

impl Obtained {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Downloaded(part) => part.path(),
            Self::Found(path) => path,
        }
    }

    /// Removes it, if it is ours.
    pub(crate) fn discard(&self) -> Result<(), FetchError> {
        match self {
            Self::Downloaded(part) => part.discard(),
            Self::Found(_) => Ok(()),
        }
    }
}

impl Client {
    /// Downloads `file` into `dir`, or what is missing of it, and verifies it.
    ///
    /// A file that is there under its published name is taken instead, if it is the right
    /// one.
    pub(crate) fn obtain(
        &self,
        file: &RemoteFile,
        dir: &Path,
        watch: &Watch<'_>,
    ) -> Result<Obtained, FetchError> {
        let by_hand = dir.join(file.name);
        let obtained = if by_hand.is_file() {
            let length = fs::metadata(&by_hand).map_err(FetchError::io("read", &by_hand))?.len();
            if length != file.bytes {
                let (expected, found) = (file.bytes, length);
                return Err(FetchError::WrongSize { path: by_hand, expected, found });
            }
            Obtained::Found(by_hand)
        } else {
            let part = Part::new(dir, file.name);
            let transfer = Transfer { client: self, file, part: &part, watch };
            transfer.run()?;
            Obtained::Downloaded(part)
        };
        let Some(md5) = file.md5 else { return Ok(obtained) };
        match verify(obtained.path(), file.name, md5, watch) {
            Err(error @ FetchError::WrongChecksum { .. }) => {
                obtained.discard()?;
                Err(error)
            }
            other => other.map(|()| obtained),
        }
    }
}

/// A file on its way.
struct Transfer<'a> {
    client: &'a Client,
    file: &'a RemoteFile,
    part: &'a Part,
    watch: &'a Watch<'a>,
}

impl Transfer<'_> {
    /// Tries until the part is the whole, or nothing was gained several times in a row.
    fn run(&self) -> Result<(), FetchError> {
        let Patience { retries, mut pause, .. } = self.client.patience;
        let first_pause = pause;
        let mut most = self.part.length()?;
        let mut losses = 0;
        loop {
            let mut answered = Answered::No;
            let source = match self.attempt(&mut answered) {
                Ok(()) => return Ok(()),
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Lost(source)) => source,
            };
            // Counted by the most there ever was: a part that is started afresh again and
            // again gains nothing.
            let received = self.part.length()?;
            if received > most {
                (most, losses, pause) = (received, 0, first_pause);
            } else {
                losses += 1;
            }
            if losses > retries {
                return Err(self.given_up(answered, received, source));
            }
            self.watch.pause(pause)?;
            pause *= 2;
        }
    }

    fn given_up(&self, answered: Answered, received: u64, source: io::Error) -> FetchError {
        let url = self.file.url.to_owned();
        match answered {
            Answered::No => FetchError::Unreachable { url, source },
            Answered::Refused(status) => FetchError::Status { url, status },
            Answered::Yes => FetchError::ConnectionLost { url, received, source },
        }
    }

    fn attempt(&self, answered: &mut Answered) -> Result<(), Trouble> {
        let RemoteFile { url, bytes, .. } = *self.file;
        let there = self.part.length()?;
        if there == bytes && self.part.is_from(url) {
            return Ok(());
        }
        // More than the whole is a part of something else.
        let resume = self.part.resume(url)?.filter(|resume| resume.offset < bytes);
        let answer = self.client.get(url, resume.clone(), self.watch)?;
        *answered = Answered::Yes;
        match (answer.head.status, resume) {
            (200, _) => self.take_whole(&answer),
            (206, Some(resume)) => self.take_rest(&answer, &resume),
            // Nothing in the file is where we wanted to go on.
            (416, Some(_)) => {
                self.part.discard()?;
                Err(Trouble::Lost(io::Error::other("the server has no such range")))
            }
            (status @ (408 | 429 | 500..=599), _) => {
                *answered = Answered::Refused(status);
                Err(Trouble::Lost(io::Error::other(format!("status {status}"))))
            }
            (status, _) => Err(FetchError::Status { url: url.to_owned(), status }.into()),
        }
    }

    /// The file from its first byte: nothing was there, the server does not know ranges, or
    /// the file has changed.
    fn take_whole(&self, answer: &Answer) -> Result<(), Trouble> {
        self.expect_length(answer.head.length)?;
        let validator = answer.head.validator.clone();
        let file = self.part.restart(&Note { url: self.file.url.to_owned(), validator })?;
        self.receive(answer, file, 0)
    }

    fn take_rest(&self, answer: &Answer, resume: &Resume) -> Result<(), Trouble> {
        let Head { range, validator, .. } = &answer.head;
        let same = validator.as_ref().is_none_or(|found| *found == resume.validator);
        let Some(range) = range.filter(|range| same && range.start == resume.offset) else {
            self.part.discard()?;
            return Err(Trouble::Lost(io::Error::other("the server sent another range")));
        };
        self.expect_length(Some(range.total))?;
        self.receive(answer, self.part.append()?, resume.offset)
    }

    /// Refuses a file of another length before its bytes come in.
    fn expect_length(&self, found: Option<u64>) -> Result<(), FetchError> {
        match found {
            Some(found) if found != self.file.bytes => Err(self.wrong_length(found)),
            _ => Ok(()),
        }
    }

    fn wrong_length(&self, found: u64) -> FetchError {
        if let Err(error) = self.part.discard() {
            return error;
        }
        let RemoteFile { url, bytes: expected, .. } = *self.file;
        FetchError::WrongLength { url: url.to_owned(), expected, found }
    }

    fn receive(&self, answer: &Answer, mut file: File, offset: u64) -> Result<(), Trouble> {
        let RemoteFile { name, bytes, .. } = *self.file;
        let write = || FetchError::io("write", self.part.path());
        let mut done = offset;
        self.watch.report(Phase::Download, name, done, Some(bytes));
        while let Some(piece) = answer.next(self.watch)? {
            done += piece.len() as u64;
            if done > bytes {
                drop(file);
                return Err(self.wrong_length(done).into());
            }
            file.write_all(&piece).map_err(write())?;
            self.watch.report(Phase::Download, name, done, Some(bytes));
        }
        if done < bytes {
            return Err(Trouble::Lost(io::ErrorKind::UnexpectedEof.into()));
        }
        file.sync_all().map_err(write())?;
        Ok(())
    }
}

/// How far the last attempt came.
#[derive(Debug, Clone, Copy)]
enum Answered {
    No,
    Refused(u16),
    Yes,
}

#[cfg(test)]
mod tests;
