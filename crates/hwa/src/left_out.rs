//! Images that could not be read and were left out.

use std::collections::BTreeMap;
use std::path::Path;

use hwa_data::Source;
use hwa_store::{StoreError, read_to_string, write_atomically};

use crate::console::counted;
use crate::output::tell;

/// Why images were left out, by their path below the folder of the data set: it may be moved
/// before a run is resumed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    files: BTreeMap<String, String>,
    /// What lists them all.
    command: String,
}

impl LeftOut {
    /// Those of a data set so far.
    pub(crate) fn of(source: &Source) -> Self {
        let root = source.root().unwrap_or(Path::new(""));
        let named = source.unreadable().into_iter().map(|(path, reason)| {
            let name = path.strip_prefix(root).unwrap_or(&path);
            (name.display().to_string(), reason)
        });
        let name = &source.name;
        let command = match source.root() {
            Some(root) => format!("hwa data check {name} --data-dir {}", root.display()),
            None => format!("hwa data check {name}"),
        };
        Self { files: named.collect(), command }
    }

    /// Their names, and why.
    #[cfg(feature = "mpi")]
    pub(crate) fn into_files(self) -> BTreeMap<String, String> {
        self.files
    }

    /// Adds those that other processes have left out.
    pub(crate) fn add(&mut self, others: &BTreeMap<String, String>) {
        for (name, reason) in others {
            self.files.entry(name.clone()).or_insert_with(|| reason.clone());
        }
    }

    /// Adds those that a file tells of, and writes all of them there: a resumed run tells of
    /// its earlier sessions, too. A file that is damaged is written anew.
    pub(crate) fn merge_into(&mut self, file: &Path) -> Result<(), StoreError> {
        if file.is_file() {
            let earlier = serde_json::from_str(&read_to_string(file)?).unwrap_or_default();
            let now = std::mem::replace(&mut self.files, earlier);
            self.files.extend(now);
        }
        if self.files.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(&self.files).unwrap_or_default();
        write_atomically(file, |file| writeln!(file, "{text}"))
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// In one line, however many there are.
    pub(crate) fn tell(&self) {
        let Some((name, reason)) = self.files.first_key_value() else { return };
        let more = match self.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let images = counted(self.len() as u64, "image");
        tell(format_args!(
            "{images} could not be read: `{name}` ({reason}){more}; list them all with: {}",
            self.command
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(names: &[(&str, &str)]) -> LeftOut {
        let files = names.iter().map(|(name, why)| ((*name).into(), (*why).into())).collect();
        LeftOut { files, command: String::new() }
    }

    #[test]
    fn sessions_add_up() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("left-out.json");
        left_out(&[]).merge_into(&file).unwrap();
        assert!(!file.exists(), "nothing was left out");
        left_out(&[("a/1.jpg", "empty"), ("b/2.jpg", "empty")]).merge_into(&file).unwrap();
        let mut later = left_out(&[("b/2.jpg", "truncated"), ("c/3.jpg", "empty")]);
        later.merge_into(&file).unwrap();
        let all = left_out(&[("a/1.jpg", "empty"), ("b/2.jpg", "truncated"), ("c/3.jpg", "empty")]);
        assert_eq!(later, all);
        let mut last = left_out(&[]);
        last.merge_into(&file).unwrap();
        assert_eq!(last, all);
        std::fs::write(&file, "{").unwrap();
        last.merge_into(&file).unwrap();
        assert_eq!(last, all);
    }
}
