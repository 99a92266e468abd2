//! What was measured, line by line, so that an interrupted command goes on where it was.
//!
//! The first line says what the others are of; every other is written as it comes. A last line
//! that is not whole was being written when the command ended, and is dropped. Any other damage
//! is refused: what follows it was measured, and is not ours to throw away.

use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use hwa_store::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::Failure;

/// A file of lines, with one writer.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens a file, or begins it, and gives its lines. One that is of something else is refused.
    pub(crate) fn open<T: DeserializeOwned>(
        path: &Path,
        identity: &Value,
    ) -> Result<(Self, Vec<T>), Failure> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
        }
        let file = File::options().create(true).read(true).append(true).open(path);
        let file = file.map_err(StoreError::io("open", path))?;
        let path = path.to_owned();
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(StoreError::InUse { path }.into());
        }
        let mut journal = Self { path, file };
        let (lines, whole) = journal.read(identity)?;
        // The end of a line that is not whole was never written.
        let cut = journal.file.set_len(whole);
        cut.map_err(StoreError::io("write", &journal.path))?;
        if whole == 0 {
            journal.add(identity)?;
        }
        Ok((journal, lines))
    }

    /// What a file is of, and its lines, as far as they can be read.
    pub(crate) fn peek<T: DeserializeOwned>(path: &Path) -> Option<(Value, Vec<T>)> {
        let text = fs::read(path).ok()?;
        let mut lines = text.split(|byte| *byte == b'\n');
        let identity = serde_json::from_slice(lines.next()?).ok()?;
        // Damage hides no more than its own line: what was tested must not be forgotten.
        Some((identity, lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()))
    }

    /// Empties a file, unless it is in use; one that is not there is empty.
    pub(crate) fn clear(path: &Path) -> Result<(), Failure> {
        if !path.exists() {
            return Ok(());
        }
        let file = File::options().append(true).open(path);
        let file = file.map_err(StoreError::io("open", path))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(StoreError::InUse { path: path.to_owned() }.into());
        }
        Ok(file.set_len(0).map_err(StoreError::io("write", path))?)
    }

    /// Removes a file, unless it is in use; tells whether it is gone.
    pub(crate) fn remove(path: &Path) -> bool {
        let file = File::options().append(true).open(path);
        file.is_ok_and(|file| file.try_lock().is_ok()) && fs::remove_file(path).is_ok()
    }

    /// Reads the lines, and tells how many bytes they are without one that is not whole.
    fn read<T: DeserializeOwned>(&mut self, identity: &Value) -> Result<(Vec<T>, u64), Failure> {
        let mut reader = BufReader::new(&self.file);
        let (mut line, mut whole, mut lines) = (Vec::new(), 0, Vec::new());
        while reader.read_until(b'\n', &mut line).map_err(StoreError::io("read", &self.path))? > 0 {
            let ends = line.ends_with(b"\n");
            match (whole, ends) {
                (0, true) => ensure_same(&self.path, identity, &line)?,
                (0, false) => ensure_begun(&self.path, identity, &line)?,
                (_, true) => lines.push(self.line(&line, lines.len())?),
                (_, false) => self.ensure_torn::<T>(&line, lines.len())?,
            }
            if ends {
                whole += line.len() as u64;
            }
            line.clear();
        }
        Ok((lines, whole))
    }

    /// Reads a line, after so many that follow the first.
    fn line<T: DeserializeOwned>(&self, line: &[u8], before: usize) -> Result<T, Failure> {
        serde_json::from_slice(line).map_err(|error| self.damaged(error, before))
    }

    /// That a line without an end could be part of one of ours.
    fn ensure_torn<T: DeserializeOwned>(&self, line: &[u8], before: usize) -> Result<(), Failure> {
        match serde_json::from_slice::<T>(line) {
            Err(error) if !error.is_eof() => Err(self.damaged(error, before)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn damaged(&self, error: serde_json::Error, before: usize) -> Failure {
        let place = format!(
            "{}, line {}: expected a line as this command writes them; without the lines that are \
             not, the others can be used",
            self.path.display(),
            before + 2
        );
        Failure::Run(anyhow::Error::new(error).context(place))
    }

    /// Adds a line, in one piece, so that a kill leaves whole lines.
    pub(crate) fn add(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        let line = serde_json::to_string(line)?;
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        Ok(written.map_err(StoreError::io("write", &self.path))?)
    }
}

/// Refuses a file that begins with something else, and says what differs.
fn ensure_same(path: &Path, identity: &Value, line: &[u8]) -> Result<(), Failure> {
    let path = path.display();
    let Ok(found) = serde_json::from_slice::<Value>(line) else {
        return Err(Failure::usage(format!(
            "{path} does not begin with what it is of; it can be removed"
        )));
    };
    let (Some(own), Some(other)) = (identity.as_object(), found.as_object()) else {
        return Err(Failure::usage(format!("{path} is of something else; it can be removed")));
    };
    match difference(own, other) {
        None => Ok(()),
        Some((key, own, other)) => {
            let shown =
                |value: Option<&Value>| value.map_or("not there".to_owned(), Value::to_string);
            Err(Failure::usage(format!(
                "{path} is of something else: `{key}` is {} there, and {} now",
                shown(other),
                shown(own)
            )))
        }
    }
}

/// Refuses a file without a whole line, unless it is the beginning of the first one.
fn ensure_begun(path: &Path, identity: &Value, line: &[u8]) -> Result<(), Failure> {
    match identity.to_string().as_bytes().starts_with(line) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{} does not begin with what it is of; it can be removed",
            path.display()
        ))),
    }
}

type Difference<'a> = (&'a str, Option<&'a Value>, Option<&'a Value>);

/// The first key that differs, also of an object in an object.
fn difference<'a>(
    own: &'a Map<String, Value>,
    other: &'a Map<String, Value>,
) -> Option<Difference<'a>> {
    let keys = own.keys().chain(other.keys());
    let key = keys.into_iter().find(|key| own.get(*key) != other.get(*key))?;
    match (own.get(key), other.get(key)) {
        (Some(Value::Object(own)), Some(Value::Object(other))) => difference(own, other),
        (own, other) => Some((key, own, other)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_come_back_and_a_torn_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/journal.jsonl");
        let identity = json!({ "model": "a", "seed": 1 });
        let (mut journal, lines) = Journal::open::<u32>(&path, &identity).unwrap();
        assert!(lines.is_empty());
        journal.add(&7).unwrap();
        journal.add(&8).unwrap();
        let again = Journal::open::<u32>(&path, &identity).err().unwrap();
        assert!(again.to_string().contains("in use"), "{again}");
        assert!(Journal::clear(&path).is_err() && !Journal::remove(&path));
        drop(journal);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}9")).unwrap();
        let (mut journal, lines) = Journal::open::<u32>(&path, &identity).unwrap();
        assert_eq!(lines, [7, 8]);
        journal.add(&10).unwrap();
        drop(journal);
        assert_eq!(Journal::open::<u32>(&path, &identity).unwrap().1, [7, 8, 10]);
        Journal::clear(&path).unwrap();
        assert!(Journal::open::<u32>(&path, &json!({ "seed": 2 })).unwrap().1.is_empty());
        assert!(Journal::remove(&path) && !path.exists());
    }

    #[test]
    fn only_a_torn_last_line_is_dropped_and_other_damage_is_named_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let identity = json!({ "model": "a" });
        let open = |text: &str| {
            fs::write(&path, text).unwrap();
            let opened = Journal::open::<Vec<u32>>(&path, &identity).map(|(_, lines)| lines);
            opened.map_err(|error| {
                assert_eq!(fs::read_to_string(&path).unwrap(), text, "left alone");
                error.to_string()
            })
        };
        let head = "{\"model\":\"a\"}\n";
        for torn in ["", "[", "[3, ", "[3]"] {
            assert_eq!(open(&format!("{head}[1]\n[2]\n{torn}")).unwrap(), [[1], [2]], "{torn}");
        }
        for (lines, number) in [
            ("[1]\n[2\n[3]\n", 3),
            ("[1]\n[2\n", 3),
            ("\n[1]\n", 2),
            ("[1]\n[2]\n{\"x\":1}\n", 4),
            ("[1]\n[2]\nno JSON", 4),
            ("[1]\n[2]\n{\"x\":1}", 4),
        ] {
            let error = open(&format!("{head}{lines}")).unwrap_err();
            let expected = format!("journal.jsonl, line {number}: expected a line");
            assert!(error.contains(&expected), "{lines}: {error}");
        }
        // Of the first line, too, only a part of our own is dropped.
        assert!(open("{\"mod").unwrap().is_empty());
        assert!(open("{\"model\":\"a\"}").unwrap().is_empty());
        for strange in ["something else", "{\"model\":\"b\"}"] {
            assert!(open(strange).unwrap_err().contains("it can be removed"));
        }
    }

    #[test]
    fn what_differs_is_named_and_the_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        drop(Journal::open::<u32>(&path, &json!({ "model": "a", "seed": 1 })).unwrap());
        let told =
            |identity: Value| Journal::open::<u32>(&path, &identity).err().unwrap().to_string();
        let other = told(json!({ "model": "b", "seed": 1 }));
        assert!(other.contains("`model` is \"a\" there, and \"b\" now"), "{other}");
        let within = json!({ "model": "a", "of": { "x": 1, "y": 2 } });
        let own = within.as_object().unwrap();
        let mut other = own.clone();
        other["of"]["y"] = 3.into();
        assert_eq!(difference(own, &other).map(|(key, ..)| key), Some("y"));
        let fewer = told(json!({ "model": "a" }));
        assert!(fewer.contains("`seed` is 1 there, and not there now"), "{fewer}");
        for text in ["no JSON\n", "[]\n"] {
            fs::write(&path, text).unwrap();
            assert!(told(json!({ "model": "a" })).contains("it can be removed"));
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
