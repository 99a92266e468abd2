//! What was measured, line by line, so that an interrupted command goes on where it was.
//!
//! The first line says what the others are of; every other is written as it comes.

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
        // What follows a line that is not whole was never written.
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
        Some((identity, lines.map_while(|line| serde_json::from_slice(line).ok()).collect()))
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

    /// Reads the lines that are whole, and tells how many bytes they are.
    fn read<T: DeserializeOwned>(&mut self, identity: &Value) -> Result<(Vec<T>, u64), Failure> {
        let mut reader = BufReader::new(&self.file);
        let (mut line, mut whole, mut lines) = (Vec::new(), 0, Vec::new());
        while reader.read_until(b'\n', &mut line).map_err(StoreError::io("read", &self.path))? > 0
            && line.ends_with(b"\n")
        {
            if whole == 0 {
                ensure_same(&self.path, identity, &line)?;
            } else {
                let Ok(read) = serde_json::from_slice(&line) else { break };
                lines.push(read);
            }
            whole += line.len() as u64;
            line.clear();
        }
        Ok((lines, whole))
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
